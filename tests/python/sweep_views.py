"""Cases of the op sweep: views, and tensors that are made of none."""

from sweep_case import Case, numbers_of, of, whole
from sweep_values import INTEGERS, Tensor

from nvfuser_go import DataType

D = DataType


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
