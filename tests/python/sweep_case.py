"""One case of the op sweep, and what the families of rows have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from sweep_values import BOOLS, COMPLEXES, FLOATS, INTEGERS, NARROW, TORCH, Tensor

from nvfuser_go import DataType

D = DataType

# Bits of OpDescription.accept.
CLASSES = {1: BOOLS, 2: INTEGERS, 4: FLOATS, 8: COMPLEXES}

# Types that a row refuses although it accepts others of their class.
REFUSED = {
    "nextafter": NARROW,
    "uniform": [d for d in TORCH if d not in (D.Half, D.BFloat16, D.Float, D.Double)],
    "normal": [d for d in TORCH if d not in (D.Half, D.BFloat16, D.Float, D.Double)],
    "rand_like": [d for d in TORCH if d not in (D.Half, D.BFloat16, D.Float, D.Double)],
    "randn_like": [d for d in TORCH if d not in (D.Half, D.BFloat16, D.Float, D.Double)],
    "iota": [*BOOLS, *COMPLEXES],
}


@dataclass
class Case:
    """Arguments of one call. Tensors are described, not made: a case is run in several layouts."""

    args: dict
    layouts: bool = True  # whether to run it in every layout, or only densely
    reference: Callable | None = None  # of the concrete arguments, instead of the row's torch expression
    ulps: float | None = None  # instead of the row's
    length: int = 1  # elements that a result element sums up
    prepare: Callable | None = None  # changes the concrete arguments before they are used


def accepted(row: dict) -> list[DataType]:
    """The element types that a row takes, in its first operand or as its dtype argument."""
    bits = row["accept"] or 15
    refused = REFUSED.get(row["name"], [])
    return [d for bit, members in CLASSES.items() if bits & bit for d in members if d not in refused]


def interval(text: dict) -> tuple[float, float]:
    return float(eval(text["lo"])), float(eval(text["hi"]))


NUMBERS = {"bool": [True], "int": [3, 1], "float": [0.5, -1.5], "complex": [1.5 - 0.5j]}


def numbers_of(dtype: DataType) -> list:
    if dtype in BOOLS:
        return NUMBERS["bool"]
    if dtype in INTEGERS:
        return NUMBERS["int"]
    return NUMBERS["float"] if dtype in FLOATS else NUMBERS["complex"]


def whole(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def of(row: dict, dtype: DataType, *given: tuple) -> list[Case]:
    """Cases of a tensor called arg, of a shape, and other arguments."""
    return [Case({"arg": Tensor(shape, dtype), **args}) for shape, args in given]
