"""Cases of the op sweep: elementwise rows and casts."""

import math

from sweep_case import Case, accepted, interval, numbers_of
from sweep_values import BOOLS, COMPLEXES, FLOATS, INTEGERS, NARROW, TORCH, Tensor, special_floats, special_integers

from nvfuser_go import DataType

D = DataType

FULL = (4, 9)

# Integers that an operand may not have in torch, whose own meaning tests/python/test_sweep_numbers.py covers.
NONZERO = {"div", "mod", "fmod", "remainder"}


def partner(dtype: DataType, accepted_types: list[DataType]) -> DataType | None:
    """Another type for a mixed case; UInt64 has no common type with signed integers."""
    for other in (D.Float, D.Int32, D.Bool, D.Double):
        if other in accepted_types and other is not dtype and not (dtype is D.UInt64 and other is D.Int32):
            return other
    return None


class Operands:
    """Makes the operand tensors of one elementwise row."""

    def __init__(self, row: dict, tame: bool = False):
        self.row, self.tame = row, tame
        self.names = [p["name"] for p in row["overloads"][-1] if p["kind"] == "operand"]
        self.domains = [interval(d) for d in row["domain"]] or [None] * len(self.names)

    def values(self, i: int, dtype: DataType):
        """The interval to draw operand i from, in whole numbers for integers."""
        domain = self.domains[i]
        if dtype in INTEGERS and self.row["name"] in NONZERO and i == 1:
            return (1, 9)
        if dtype in INTEGERS and domain:
            lo, hi = math.ceil(max(domain[0], -1000)), math.floor(min(domain[1], 1000))
            return (lo, hi) if lo <= hi else (0, 1)
        if dtype in INTEGERS and self.row["compute"] == "float":
            return (-100, 100) if dtype is not D.UInt64 else (0, 100)
        return domain if dtype not in BOOLS else None

    def tensor(self, i: int, shape: tuple, dtype: DataType) -> Tensor:
        if i < self.row["skip"]:
            return Tensor(shape, D.Bool)
        # Complex functions are compared where they are tame; their edges are tested in Go.
        if self.tame or dtype in COMPLEXES:
            return Tensor(shape, dtype, (0.25, 0.9) if dtype in FLOATS + COMPLEXES else None, special=False)
        # torch's lerp multiplies and adds at once: it does not overflow where a product does. Beside Double that was
        # seen of Float with Float8_e8m0fnu, which reaches as far.
        # The divisor of a share is a sum, of which the reciprocal is a normal number: nothing is said of others.
        special = {"lerp": "mild", "_exp_share": False}.get(self.row["name"], True)
        return Tensor(shape, dtype, self.values(i, dtype), special)

    def case(self, shapes: list, dtypes: list, **options) -> Case:
        return Case(
            {n: self.tensor(i, s, d) for i, (n, s, d) in enumerate(zip(self.names, shapes, dtypes, strict=True))},
            **options,
        )


def elementwise(row: dict, dtype: DataType) -> list[Case]:
    operands = Operands(row, tame=dtype in COMPLEXES)
    count, skip = len(operands.names), row["skip"]
    same = [dtype] * count
    out = [operands.case([FULL] * count, same)]
    out += [operands.case([shape] * count, same, layouts=False) for shape in ((3, 0, 2), ())]
    if count == 1:
        if dtype in FLOATS:
            values = special_floats(dtype)
            out.append(Case({operands.names[0]: Tensor((len(values),), dtype, values)}, layouts=False))
        return out
    out.append(operands.case([[(4, 1), (1, 9), (4, 9)][i % 3] for i in range(count)], same, layouts=False))
    out.append(operands.case([[(9,), (4, 9), ()][i % 3] for i in range(count)], same, layouts=False))
    if dtype in (D.Int32, D.Int, *FLOATS) and not row["domain"] and row["name"] not in NONZERO:
        values = special_floats(dtype) if dtype in FLOATS else special_integers(dtype)
        n = len(values)
        pairs = [[v for v in values for _ in values], values * n]
        args = {m: Tensor((n * n,), dtype, pairs[(i - skip) % 2]) for i, m in enumerate(operands.names)}
        for m in operands.names[:skip]:
            args[m] = Tensor((n * n,), D.Bool)
        out.append(Case(args, layouts=False))
    other = partner(dtype, accepted(row))
    if other:
        for i in range(skip, count):
            mixed = [other if k == i else dtype for k in range(count)]
            out.append(operands.case([FULL] * count, mixed, layouts=False))
        # A tensor without dimensions yields to one with them.
        out.append(operands.case([FULL, ()] + [FULL] * (count - 2), [dtype, other] + same[2:], layouts=False))
    for i in range(skip, count):
        for number in numbers_of(dtype) + (numbers_of(other) if other else []):
            case = operands.case([FULL] * count, same, layouts=False)
            case.args[operands.names[i]] = number
            out.append(case)
    if count - skip > 2:  # one tensor, numbers elsewhere
        case = operands.case([FULL] * count, same, layouts=False)
        for m in operands.names[skip + 1 :]:
            case.args[m] = numbers_of(dtype)[0]
        out.append(case)
    optional = [p["name"] for p in row["overloads"][-1] if p["optional"]]
    for m in optional:
        case = operands.case([FULL] * count, same)
        del case.args[m]
        out.append(case)
    return out


def casts(row: dict, dtype: DataType) -> list[Case]:
    out = []
    for to in TORCH:
        values = None
        if to in INTEGERS and dtype not in INTEGERS + BOOLS:
            values = (0, 100) if to is D.UInt64 else (-100, 100)  # floats beyond an integer's range: tested in Go
        elif to is D.UInt64 and dtype in INTEGERS:
            values = (0, 100)
        special = not (to in INTEGERS and dtype in FLOATS)
        for shape in (FULL, (0, 3), ()):
            arg = Tensor(shape, dtype, values, special)
            ulps = 1 if dtype is D.Double and to in NARROW else 0
            out.append(Case({"arg": arg, "dtype": to}, layouts=shape == FULL, ulps=ulps))
    return out
