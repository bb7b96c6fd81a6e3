"""Cases of the op sweep: rows that look elements up, by an index or by their place."""

import math

import torch
from sweep_case import Case, numbers_of, of
from sweep_reference import narrowed, widened
from sweep_values import FLOATS, NARROW, Tensor

from nvfuser_go import DataType

D = DataType


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
