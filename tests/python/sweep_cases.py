"""The cases of the op sweep: arguments for every row of the op table, by the kind and the name of its parameters."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from sweep_reference import narrowed, widened
from sweep_values import BOOLS, COMPLEXES, FLOATS, INTEGERS, NARROW, TORCH, Tensor, special_floats, special_integers

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


# ---- Elementwise ----

FULL = (4, 9)
NUMBERS = {"bool": [True], "int": [3, 1], "float": [0.5, -1.5], "complex": [1.5 - 0.5j]}

# Integers that an operand may not have in torch, whose own meaning tests/python/test_sweep_numbers.py covers.
NONZERO = {"div", "mod", "fmod", "remainder"}


def numbers_of(dtype: DataType) -> list:
    if dtype in BOOLS:
        return NUMBERS["bool"]
    if dtype in INTEGERS:
        return NUMBERS["int"]
    return NUMBERS["float"] if dtype in FLOATS else NUMBERS["complex"]


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
        special = "mild" if self.row["name"] == "lerp" else True
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


# ---- Arguments by kind and name ----

# Rows whose results are compared on tame values only: rounding errors of the extreme ones would cover everything.
TAME = ("prod", "cumprod", "var", "var_mean", "welford", "_max_exp_sum")

SHAPES = [(5, 7), (2, 3, 4), (33,), (3, 0, 2), (0,), ()]


def whole(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def choices(param: dict, row: dict, shape: tuple, dtype: DataType) -> list:
    """What to pass for a parameter beside a first tensor of the given shape. An Ellipsis leaves it out."""
    rank, kind, name = len(shape), param["kind"], param["name"]
    if kind == "tensor":
        special = {"sum": "mild", "cumsum": "mild", **dict.fromkeys(TAME, dtype not in FLOATS)}.get(row["name"], True)
        return [Tensor(shape, dtype, special=special)]
    if kind == "dim":
        return [0, -1, rank // 2] if rank else []
    if kind == "dims":
        if not rank:
            return [[]]
        every = [[0], [-1], list(range(rank))]
        if row["name"] in ("sum", "prod", "max", "min"):
            every.append([])
        return every + ([[0, -1]] if rank > 1 else [])
    if kind == "flag":
        return [..., True, False]
    if name == "correction":
        return [..., 0, 2]
    if name == "init":
        return [..., numbers_of(dtype)[0]]
    if name == "k":
        return [min(1, *shape, 1), min(shape, default=1)]
    if kind == "dtype":
        return [...]
    raise AssertionError(f"{row['name']}: no arguments are known for parameter {name} of kind {kind}")


def by_parameters(row: dict, dtype: DataType, shapes: list[tuple] = SHAPES) -> list[Case]:
    """Every overload on several shapes; each choice of each parameter occurs."""
    out = []
    for overload in row["overloads"]:
        for shape in shapes:
            options = [choices(p, row, shape, dtype) for p in overload]
            if not all(options):
                continue
            for k in range(max(len(o) for o in options)):
                # Later parameters turn more slowly, so that pairs of choices meet.
                picked = [o[(k + k // max(len(o), 2) * (i > 1)) % len(o)] for i, o in enumerate(options)]
                args = {p["name"]: v for p, v in zip(overload, picked, strict=True) if v is not ...}
                out.append(Case(args, layouts=shape in shapes[:2], length=max(math.prod(shape), 1)))
    return out


def reductions(row: dict, dtype: DataType) -> list[Case]:
    out = by_parameters(row, dtype)
    if dtype in FLOATS:
        out.append(Case({"arg": Tensor((2,), dtype, [1.0, float("nan")]), "dims": [0]}, layouts=False))
    if row["name"] in ("var", "var_mean", "welford", "_max_exp_sum"):
        return [c for c in out if c.args["arg"].shape != ()]
    if row["name"] in ("sum", "prod"):
        to = D.Double if dtype not in COMPLEXES else D.ComplexDouble
        out.append(Case({"arg": Tensor((5, 7), dtype, special=False), "dim": 1, "dtype": to}, length=35))
        out.append(
            Case({"arg": Tensor((5, 7), dtype, special=False), "dims": [0], "dtype": to, "keepdim": True}, length=35)
        )
        out.append(Case({"arg": Tensor((5, 7), dtype, special=False), "dtype": to}, length=35))
    return out


# ---- Views ----


def of(row: dict, dtype: DataType, *given: tuple) -> list[Case]:
    """Cases of a tensor called arg, of a shape, and other arguments."""
    return [Case({"arg": Tensor(shape, dtype), **args}) for shape, args in given]


def broadcasts(row: dict, dtype: DataType) -> list[Case]:
    flags = [((4, 5), [0, 1, 0, 1]), ((4, 5), [1, 0, 0]), ((4, 5), [0, 0]), ((), [1, 1]), ((), []), ((0, 3), [0, 0, 1])]
    return of(row, dtype, *((s, {"is_broadcast_dim": [bool(f) for f in fs]}) for s, fs in flags))


def broadcasts_in_dim(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((4, 5), [4, 3, 5], [0, 2]),
        ((5,), [4, 5], [1]),
        ((4,), [4, 5], [0]),
        ((1, 5), [6, 5], [0, 1]),
        ((4, 5), [4, 5], [0, 1]),
        ((), [2, 3], []),
        ((), [], []),
        ((4,), [4, 0], [0]),
        ((0, 3), [2, 0, 3], [1, 2]),
        ((4, 5), [-1, 2, 5], [0, 2]),
        ((4, 5), [2, 4, 5], [-2, -1]),
    ]
    out = of(row, dtype, *((s, {"shape": to, "broadcast_dims": dims}) for s, to, dims in given))
    for case in out:
        shape, dims, arg = list(case.args["shape"]), case.args["broadcast_dims"], case.args["arg"].shape
        if -1 in shape:
            known = [arg[dims.index(i)] if n == -1 else n for i, n in enumerate(shape)]
            case.reference = lambda a, known=known: [a["arg"][:, None].expand(known)]
    return out


def expands(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((1, 5), [4, 5]),
        ((4, 1), [4, 3]),
        ((4, 5), [4, 5]),
        ((4, 5), [-1, 5]),
        ((1, 1), [3, 0]),
        ((1, 0), [3, 0]),
        ((), []),
    ]
    return of(row, dtype, *((s, {"shape": to}) for s, to in given))


def squeezes(row: dict, dtype: DataType) -> list[Case]:
    given = [((4, 1, 5), [1]), ((1, 5, 1), [0, -1]), ((1, 5), 0), ((1, 0), [0]), ((1,), [0]), ((4, 5), [])]
    out = of(row, dtype, *((s, {"dims": dims}) for s, dims in given))
    for case in out:
        if whole(case.args["dims"]):
            case.reference = lambda a: [a["arg"].squeeze(a["dims"])]
    expanded = Tensor((3, 4, 5), dtype, layout="expanded")
    out.append(Case({"arg": expanded, "dims": [1], "squeeze_expanded": True}, layouts=False))
    return out


def reshapes(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((12, 20), [3, 4, 4, 5]),
        ((3, 4, 4, 5), [3, 16, 5]),
        ((4, 6), [24]),
        ((4, 6), [6, 4]),
        ((4, 6), [4, 6]),
        ((4, 6), [4, 1, 6]),
        ((1, 4, 6), [4, 6]),
        ((4, 6), [-1]),
        ((4, 6), [2, -1, 3]),
        ((7,), [7, 1]),
        ((), [1, 1]),
        ((1, 1), []),
        ((0, 3), [3, 0]),
        ((2, 0, 3), [0]),
        ((6, 35), [14, 15]),
    ]
    return of(row, dtype, *((s, {"new_shape": to}) for s, to in given))


def permutes(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((4, 5), [1, 0]),
        ((2, 3, 4), [2, 0, 1]),
        ((2, 3, 4), [0, 1, 2]),
        ((2, 3, 4), [-1, 0, 1]),
        ((3, 0), [1, 0]),
        ((), []),
    ]
    return of(row, dtype, *((s, {"dims": dims}) for s, dims in given))


def stride_orders(row: dict, dtype: DataType) -> list[Case]:
    given = [((4, 5), [0, 1]), ((2, 3, 4), [2, 0, 1]), ((2, 3, 4), [2, 1, 0]), ((0, 3), [0, 1]), ((), [])]
    return of(row, dtype, *((s, {"stride_order": order}) for s, order in given))


def slices(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((5, 7), [1, 0], [4, 7]),
        ((5, 7), [0, 0], [5, 7]),
        ((5, 7), [0, 3], [9, 99]),
        ((5, 7), [2, 6], [2, 7]),
        ((5, 7), [9, 1], [9, 2]),
        ((2, 3, 5), [1, 2, 1], [2, 3, 4]),
        ((0, 3), [0, 1], [0, 2]),
        ((), [], []),
    ]
    out = of(row, dtype, *((s, {"start_indices": b, "end_indices": e}) for s, b, e in given))
    out.append(Case({**out[0].args, "strides": [1, 1]}))
    out.append(Case({**out[0].args, "strides": [1, 1], "manual_normalization": True}))
    return out


def pads(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((4, 5), [1, 2], ...),
        ((4, 5), [0, 3, 2, 0], ...),
        ((4, 5), [-1, 2, 0, -2], ...),
        ((4, 5), [0, 0, 0, 0], ...),
        ((4, 5), [-2, -3], ...),
        ((4, 5), [1, 1, 1, 1], numbers_of(dtype)[0]),
        ((2, 3, 4), [1, 0, 0, 1, 2, 2], numbers_of(dtype)[0]),
        ((0, 3), [1, 1, 2, 1], ...),
        ((4,), [], ...),
        ((), [], ...),
    ]
    out = []
    for shape, widths, value in given:
        case = Case({"arg": Tensor(shape, dtype), "pad_widths": widths})
        if value is not ...:
            case.args["value"] = value
        out.append(case)
    return out


def cats(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ([(2, 5), (3, 5)], 0),
        ([(4, 2), (4, 1), (4, 3)], 1),
        ([(4, 2), (4, 2)], -1),
        ([(4, 0), (4, 3)], 1),
        ([(4, 1), (4, 1)], 1),
        ([(3,)], 0),
        ([(0,), (0,)], 0),
        ([(2, 0, 3), (1, 0, 3)], 0),
        ([(5,), (4,)], ...),
    ]
    out = []
    for shapes, dim in given:
        case = Case({"tensors": [Tensor(s, dtype) for s in shapes]})
        if dim is not ...:
            case.args["dim"] = dim
        out.append(case)
    return out


def sizes(row: dict, dtype: DataType) -> list[Case]:
    if row["name"] == "shape":
        return of(row, dtype, ((4, 5), {}), ((3, 0), {}), ((), {}))
    return of(row, dtype, ((4, 5), {"dim": 0}), ((4, 5), {"dim": -1}), ((3, 0), {"dim": 1}))


# ---- Indexing ----


def indices(shape: tuple, size: int, dtype: DataType = D.Int, distinct: bool = False) -> Tensor:
    """An index tensor; distinct: a permutation along the last dimension."""
    if distinct:
        draw = torch.Generator().manual_seed(size)
        rows = [torch.randperm(size, generator=draw)[: shape[-1]] for _ in range(math.prod(shape[:-1]))]
        return Tensor(shape, dtype, [int(i) for row in rows for i in row])
    return Tensor(shape, dtype, (0, max(size - 1, 0)), special=False)


INDEX_TYPES = [D.Int, D.Int32, D.Index, D.UInt64]


def selects(row: dict, dtype: DataType) -> list[Case]:
    given = [((4, 5), 2, 0), ((4, 5), 0, 1), ((4, 5), 4, -1), ((4, 5), -1, 0), ((3, 0), 1, 0), ((4,), 3, 0)]
    return of(row, dtype, *((s, {"index": i, "dim": d}) for s, i, d in given))


def index_selects(row: dict, dtype: DataType) -> list[Case]:
    out = []
    for i, (shape, index, dim) in enumerate(
        [
            ((4, 5), (3,), 0),
            ((4, 5), (9,), 1),
            ((4, 5), (), -1),
            ((2, 3, 4), (2,), 1),
            ((4, 0), (3,), 0),
            ((4,), (0,), 0),
            ((6,), (6,), 0),
        ]
    ):
        index = indices(index, shape[dim], INDEX_TYPES[i % 4])
        out.append(Case({"arg": Tensor(shape, dtype), "index": index, "dim": dim}))
    return out


def gathers(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((4, 5), (4, 3), 1),
        ((4, 5), (9, 5), 0),
        ((4, 5), (2, 2), -1),
        ((2, 3, 4), (2, 3, 1), 2),
        ((4, 5), (4, 0), 1),
        ((7,), (3,), 0),
    ]
    if row["name"] == "take_along_axis":
        given[2] = ((4, 5), (1, 2), -1)
        given.append(((1, 5), (4, 3), 1))
    out = []
    for i, (shape, index, dim) in enumerate(given):
        index = indices(index, shape[dim], INDEX_TYPES[i % 4])
        out.append(Case({"arg": Tensor(shape, dtype), "index": index, "dim": dim}))
    return out


def scatters(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((4, 5), (4, 3), (4, 3), 1),
        ((4, 5), (2, 3), (3, 4), -1),
        ((2, 3, 6), (2, 3, 4), (2, 3, 4), 2),
        ((4, 5), (4, 0), (4, 0), 1),
        ((7,), (3,), (3,), 0),
    ]
    out = []
    for i, (shape, index, src, dim) in enumerate(given):
        index = indices(index, shape[dim], INDEX_TYPES[i % 4], distinct=True)
        out.append(Case({"arg": Tensor(shape, dtype), "index": index, "src": Tensor(src, dtype), "dim": dim}))
        if i % 2 == 0:
            out.append(Case({"arg": Tensor(shape, dtype), "index": index, "src": numbers_of(dtype)[0], "dim": dim}))
    for case in out:
        # An expanded index repeats positions, where torch leaves open which write holds.
        case.args["index"] = Tensor(*astuple_shape(case.args["index"]), layout="dense")
        if case.args["arg"].dtype is D.Bool and not isinstance(case.args["src"], Tensor):
            case.args["src"] = True
    return out


def accumulations(row: dict, dtype: DataType) -> list[Case]:
    given = [((4, 5), 7), ((3, 2, 4), 2), ((6,), 9), ((1, 3), 5), ((4, 0), 3), ((3, 4), 0), ((0, 3), 0)]
    out = []
    for i, (shape, count) in enumerate(given):
        index = indices((count, 1) if i == 0 else (count,), shape[0], INDEX_TYPES[i % 4])
        args = {"acc": Tensor(shape, dtype), "index": index, "value": Tensor((count, *shape[1:]), dtype)}
        out.append(Case(args, length=count + 1))
    return out


def groupings(row: dict, dtype: DataType) -> list[Case]:
    given = [([2, 0, 2, 9, -1, 1, 2], 3), ([0, 0, 0], 1), ([4, 5], 0), ([], 4), ([1], 3)]
    out = []
    for i, (index, size) in enumerate(given):
        if i % 4 == 3:  # of UInt64 there are no negative ones
            index = [abs(n) for n in index]
        out.append(Case({"index": Tensor((len(index),), INDEX_TYPES[i % 4], index), "size": size}))
    return out


def sums_of_parts(row: dict, dtype: DataType) -> list[Case]:
    every = list(range(200))
    given = [
        ((5,), [2] * 200, every, 3),
        ((2, 2), [n // 100 for n in every], every, 2),  # a part is of two positions
        ((), [7] * 64 + [1] * 64, every[:128], 5),  # a position that is none
        ((3,), [0] * 131, [-1] + every[1:63] + [400, 9] + [200] * 3 + every[1:62] + [1] + every[:1], 1),
        ((4,), [0] * 63, every[:63], 1),
        ((4,), [], [], 3),
        ((0,), [1] * 64, every[:64], 3),
    ]
    out = []
    for i, (shape, index, order, size) in enumerate(given):
        args = {"index": Tensor((len(index),), INDEX_TYPES[i % 4], index), "order": Tensor((len(order),), D.Int, order)}
        # The largest numbers overflow in one order and not in another.
        args |= {"value": Tensor((len(order), *shape), dtype, special=i == 3), "size": size}
        out.append(Case(args, length=64))
    return out


def sums_of_slices(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((3, 5), [2, 0, 1, 3], [0, 1, 1, 4]),
        ((2, 2, 4), [1, 0, 2], [0, 3, 3]),
        ((4,), [0, 5, -1, 2, 2], [-1, 2, 4, 7, 9]),  # numbers and places that there are none of
        ((2, 3), [], [0, 0, 0]),
        ((2, 0), [0], [0, 1, 1]),
        ((0, 3), [0], [0]),
        ((3, 2), [(7 * n) % 300 for n in range(300)], [1, 140, 256, 300]),  # with parts that are whole
    ]
    out = []
    for shape, order, begin in given:
        args = {"acc": Tensor(shape, dtype), "order": Tensor((len(order),), D.Int, order)}
        args |= {"begin": Tensor((len(begin),), D.Int, begin), "value": Tensor((len(order), *shape[1:]), dtype)}
        args["parts"] = Tensor((len(order) // 64, *shape[1:]), D.Float if dtype in NARROW else dtype)
        out.append(Case(args, length=len(order) + 1))
    return out


def astuple_shape(t: Tensor) -> tuple:
    return t.shape, t.dtype, t.values, t.special


def embeddings(row: dict, dtype: DataType) -> list[Case]:
    out = []
    for i, (index, weight) in enumerate(
        [((3, 4), (7, 5)), ((6,), (3, 8)), ((), (4, 5)), ((0,), (4, 5)), ((2, 3), (4, 0))]
    ):
        args = {"input": indices(index, weight[0], INDEX_TYPES[i % 4]), "weight": Tensor(weight, dtype)}
        out.append(Case(args))
        if i == 0:
            out.append(Case({**args, "padding_idx": 1}))
            out.append(Case({**args, "padding_idx": -1, "scale_grad_by_freq": True, "sparse": False}))
        if dtype in FLOATS and i < 2:
            tame = Tensor(weight, dtype, special=False)
            out.append(Case({**args, "weight": tame, "max_norm": 1.5}, ulps=2, reference=embedding_renormalised))
            out.append(
                Case(
                    {**args, "weight": tame, "max_norm": 1.5, "norm_type": 1.0},
                    ulps=2,
                    reference=embedding_renormalised,
                )
            )
    return out


def embedding_renormalised(args: dict) -> list[torch.Tensor]:
    rows = torch.nn.functional.embedding(args["input"].long(), widened(args["weight"]))
    norm = torch.linalg.vector_norm(rows, args.get("norm_type", 2.0), dim=-1, keepdim=True)
    rows = torch.where(norm > args["max_norm"], rows * (args["max_norm"] / (norm + 1e-7)), rows)
    return [narrowed(rows, args["weight"].dtype)]


def triangles(row: dict, dtype: DataType) -> list[Case]:
    given = [((4, 5), ...), ((4, 5), 1), ((5, 4), -2), ((2, 3, 3), 0), ((4, 5), 99), ((4, 5), -99), ((0, 3), 0)]
    return of(row, dtype, *((s, {} if d is ... else {"diagonal": d}) for s, d in given))


# ---- Factories ----


def fulls(row: dict, dtype: DataType) -> list[Case]:
    shapes = [[4, 5], [], [3, 0], [33]]
    values = [*numbers_of(dtype), 0] + (
        [float("nan"), float("inf"), -0.0] if dtype in (D.Half, D.BFloat16, D.Float, D.Double) else []
    )
    return [Case({"shape": s, "fill_value": v, "dtype": dtype}) for s in shapes for v in values]


def iotas(row: dict, dtype: DataType) -> list[Case]:
    out = [Case({"length": n, "dtype": dtype}) for n in (0, 1, 9, 100)]
    if dtype is D.Float8_e8m0fnu or dtype is D.Float8_e4m3fn or dtype is D.Float8_e5m2:
        return out
    start, step = (2, 3) if dtype in INTEGERS else (0.5, 0.25)
    out.append(Case({"length": 17, "start": start, "dtype": dtype}))
    out.append(Case({"length": 17, "start": start, "step": step, "dtype": dtype}))
    if dtype is not D.UInt64:
        out.append(Case({"length": 17, "start": start, "step": -step, "dtype": dtype}))
    return out


# ---- Matrix products and attention ----


def matmuls(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((4, 7), (7, 5)),
        ((7,), (7,)),
        ((4, 7), (7,)),
        ((7,), (7, 5)),
        ((2, 4, 7), (2, 7, 5)),
        ((2, 1, 4, 7), (3, 7, 5)),
        ((1, 4, 7), (2, 7, 5)),
        ((33, 65), (65, 34)),
        ((0, 7), (7, 5)),
        ((4, 0), (0, 5)),
        ((1, 1), (1, 1)),
    ]
    return [
        Case({"arg1": Tensor(a, dtype, special=False), "arg2": Tensor(b, dtype, special=False)}, length=a[-1] * 16)
        for a, b in given
    ]


def linears(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((4, 7), (5, 7), (5,)),
        ((4, 7), (5, 7), None),
        ((2, 3, 7), (5, 7), (5,)),
        ((7,), (5, 7), (5,)),
        ((4, 7), (7,), None),
        ((4, 7), (7,), ()),
        ((0, 7), (5, 7), (5,)),
        ((4, 0), (5, 0), (5,)),
    ]
    out = []
    for a, b, bias in given:
        case = Case(
            {"arg1": Tensor(a, dtype, special=False), "arg2": Tensor(b, dtype, special=False)}, length=a[-1] * 16
        )
        if bias is not None:
            case.args["bias"] = Tensor(bias, dtype, special=False)
        case.reference = linear
        out.append(case)
    return out


def linear(args: dict) -> list[torch.Tensor]:
    a, b, bias = (widened(args[n]) if n in args else None for n in ("arg1", "arg2", "bias"))
    out = torch.matmul(a, b.mT if b.ndim == 2 else b)
    return [narrowed(out if bias is None else out + bias, args["arg1"].dtype)]


def grouped(row: dict, dtype: DataType) -> list[Case]:
    def tensor(*shape):
        return Tensor(shape, dtype, special=False)

    out = []
    for offsets, rows in (([2, 5, 9], 9), ([0, 4, 4], 4), ([3, 3, 7], 8), ([0, 0, 0], 0)):
        ends = Tensor((3,), D.Int32 if rows == 9 else D.Int, offsets, layout="dense")
        out += [
            Case({"mat1": tensor(rows, 6), "mat2": tensor(3, 6, 4), "offsets": ends}, length=99, reference=grouped_mm),
            Case({"mat1": tensor(3, 5, 6), "mat2": tensor(6, rows), "offsets": ends}, length=99, reference=grouped_mm),
            Case({"mat1": tensor(5, rows), "mat2": tensor(rows, 4), "offsets": ends}, length=199, reference=grouped_mm),
        ]
    return out


def grouped_mm(args: dict) -> list[torch.Tensor]:
    """A product for each group; torch._grouped_mm takes few types and sizes."""
    a, b, ends = widened(args["mat1"]), widened(args["mat2"]), [int(e) for e in args["offsets"]]
    shape = (a.shape[0], b.shape[-1]) if b.ndim == 3 else (a.shape[-2], b.shape[1])
    out = torch.zeros((len(ends), *shape) if a.ndim == b.ndim else shape, dtype=a.dtype)
    begin = 0
    for g, end in enumerate(ends):
        if b.ndim == 3:
            out[begin:end] = a[begin:end] @ b[g]
        elif a.ndim == 3:
            out[:, begin:end] = a[g] @ b[:, begin:end]
        else:
            out[g] = a[:, begin:end] @ b[begin:end]
        begin = end
    return [narrowed(out, args["mat1"].dtype)]


def attention_inputs(row: dict, dtype: DataType) -> list[tuple[dict, dict]]:
    def tensor(*shape):
        return Tensor(shape, dtype, (-1.0, 1.0), special=False)

    out = []
    for (n, h, g, s, t, e), causal, scale in [
        ((2, 3, 3, 5, 5, 8), False, None),
        ((2, 4, 2, 5, 5, 8), True, None),
        ((1, 2, 2, 3, 7, 4), False, 0.25),
        ((1, 2, 1, 7, 3, 4), True, 0.25),
        ((1, 1, 1, 33, 33, 4), True, None),
        ((1, 2, 2, 0, 3, 4), False, None),
    ]:
        tensors = {"query": tensor(n, h, s, e), "key": tensor(n, g, t, e), "value": tensor(n, g, t, e)}
        options = {"is_causal": causal} if scale is None else {"is_causal": causal, "scale": scale}
        out.append((tensors, options))
    return out


def attentions(row: dict, dtype: DataType) -> list[Case]:
    out = [Case({**tensors, **options}, length=64, ulps=4) for tensors, options in attention_inputs(row, dtype)]
    tensors, _ = attention_inputs(row, dtype)[0]
    n, h, s, t = 2, 3, 5, 5
    out.append(Case({**tensors, "bias": Tensor((n, h, s, t), dtype, (-1.0, 1.0), special=False)}, length=64, ulps=4))
    out.append(Case({**tensors, "mask": Tensor((n, 1, s, t), D.Bool)}, length=64, ulps=4))
    return out


def attention_gradients(row: dict, dtype: DataType) -> list[Case]:
    out = []
    for tensors, options in attention_inputs(row, dtype):
        query = tensors["query"]
        args = {
            "grad_output": Tensor(query.shape, dtype, (-1.0, 1.0), special=False),
            **tensors,
            "output": Tensor(query.shape, dtype, (0.0, 0.0), special=False),
            "logsumexp": Tensor(query.shape[:3], D.Double if dtype is D.Double else D.Float, (0.0, 0.0), special=False),
            "dropout_p": 0.0,
            "philox_seed": Tensor((), D.UInt64, (0, 0), special=False),
            "philox_offset": Tensor((), D.UInt64, (0, 0), special=False),
            **options,
        }
        out.append(Case(args, length=64, ulps=8, prepare=attend))
    return out


def attend(args: dict) -> dict:
    """Puts the results of the forward pass among the arguments of the backward pass."""
    q, k, v = (widened(args[n]) for n in ("query", "key", "value"))
    groups = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(groups, 1).mT * args.get("scale", q.shape[3] ** -0.5)
    if args.get("is_causal"):
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~keep, -math.inf)
    out = torch.softmax(scores, -1) @ v.repeat_interleave(groups, 1)
    return {
        **args,
        "output": out.to(args["output"].dtype),
        "logsumexp": torch.logsumexp(scores, -1).to(args["logsumexp"].dtype),
    }


GENERATORS: dict[str, Callable] = {
    "cast": casts,
    "sum": reductions,
    "prod": reductions,
    "max": reductions,
    "min": reductions,
    "var": reductions,
    "var_mean": reductions,
    "welford": reductions,
    "_max_exp_sum": reductions,
    "cumsum": by_parameters,
    "cumprod": by_parameters,
    "cummax": by_parameters,
    "cummin": by_parameters,
    "argsort": by_parameters,
    "topk": by_parameters,
    "broadcast": broadcasts,
    "broadcast_in_dim": broadcasts_in_dim,
    "expand": expands,
    "squeeze": squeezes,
    "reshape": reshapes,
    "permute": permutes,
    "stride_order": stride_orders,
    "slice": slices,
    "pad": pads,
    "cat": cats,
    "size": sizes,
    "shape": sizes,
    "select": selects,
    "index_select": index_selects,
    "gather": gathers,
    "take_along_axis": gathers,
    "scatter": scatters,
    "index_put_accumulate": accumulations,
    "_group_positions": groupings,
    "_sum_parts": sums_of_parts,
    "_sum_slices": sums_of_slices,
    "embedding_fwd": embeddings,
    "triu": triangles,
    "full": fulls,
    "iota": iotas,
    "matmul": matmuls,
    "linear": linears,
    "grouped_mm": grouped,
    "sdpfa_fwd": attentions,
    "sdpfa_bwd": attention_gradients,
}


def cases(row: dict, dtype: DataType) -> list[Case]:
    """The cases of a row for an element type; empty if the sweep does not know the row."""
    if row["name"] in GENERATORS:
        return GENERATORS[row["name"]](row, dtype)
    if row["class"] == "elementwise" or all(p["kind"] == "operand" for p in row["overloads"][-1]):
        return elementwise(row, dtype)
    return []
