"""Cases of the op sweep: rows by the kind and the name of their parameters, among them reductions, scans and sorts."""

import math

from sweep_case import Case, numbers_of
from sweep_values import COMPLEXES, FLOATS, Tensor

from nvfuser_go import DataType

D = DataType

# Rows whose results are compared on tame values only: rounding errors of the extreme ones would cover everything.
TAME = ("prod", "cumprod", "var", "var_mean", "welford", "_max_exp_sum")

SHAPES = [(5, 7), (2, 3, 4), (33,), (3, 0, 2), (0,), ()]


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
