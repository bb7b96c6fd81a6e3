"""Reads and writes at positions that tensors say, beside what they are fused with, on the CPU and by simulated kernels.

A case says how many kernels it takes, where that is known, so that one which is cut again shows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from agreement import OF, agree, integers, randn
from sweep_values import describe

from nvfuser_go import DataType, FusionDefinition, InvalidArgument, InvalidType

D = DataType
BF16, F32, I64 = torch.bfloat16, torch.float32, torch.int64


def ids(high: int, *shape: int, dtype: torch.dtype = I64, seed: int = 0) -> torch.Tensor:
    return integers(0, high, shape, seed).to(dtype)


def places(rows: int, length: int, count: int) -> torch.Tensor:
    """In each row different positions."""
    draw = torch.Generator().manual_seed(rows + length)
    return torch.stack([torch.randperm(length, generator=draw)[:count] for _ in range(rows)])


@dataclass
class Case:
    name: str
    program: Callable  # of ops and tensors
    expected: Callable
    inputs: tuple
    kernels: int | None = 1  # None: torch computes it

    def definition(self) -> FusionDefinition:
        with FusionDefinition() as fd:
            out = self.call(fd, *(fd.define_tensor(**describe(x, OF[x.dtype], True)) for x in self.inputs))
            for x in out if isinstance(out, tuple | list) else [out]:
                fd.add_output(x)
        return fd

    def call(self, fd: FusionDefinition, *tensors):
        return self.program(fd.ops, *tensors)


CASES: list[Case] = []


def case(name: str, program: Callable, expected: Callable, *inputs, kernels: int | None = 1) -> None:
    CASES.append(Case(name, program, expected, inputs, kernels))


def column(ops, x):
    return ops.broadcast(x, [False, True])


# ---- Alone ----

for dtype in (F32, BF16, torch.float64, I64, torch.bool, torch.complex64):
    case(
        f"index_select of rows, {dtype}",
        lambda ops, x, i: ops.index_select(x, i, 0),
        lambda x, i: x.index_select(0, i),
        *(ids(100, 13, 24).to(dtype), ids(13, 7)),
    )


def embed(ops, w, i):
    return ops.embedding_fwd(i, w)


def embedded(w, i):
    return F.embedding(i, w)


TABLE = randn(20, 16)
case("embedding by i32", embed, embedded, TABLE, ids(20, 5, dtype=torch.int32))
case("embedding by i64", embed, embedded, TABLE, ids(20, 5))
case("embedding by a matrix", embed, embedded, TABLE, ids(20, 5, 3))
case("embedding by a batch of matrices", embed, embedded, TABLE, ids(20, 2, 5, 3))
case("embedding by one number", embed, embedded, TABLE, ids(20))
case("embedding of odd rows", embed, embedded, randn(20, 15), ids(20, 5))
case("embedding of rows of one", embed, embedded, randn(20, 1), ids(20, 5))
case("embedding by one position", embed, embedded, TABLE, ids(20, 1))
case("embedding by none", embed, embedded, TABLE, ids(20, 0), kernels=0)
case("embedding of one row", embed, embedded, randn(1, 8), ids(1, 6))
case(
    "embedding that is scaled down",
    lambda ops, w, i: ops.embedding_fwd(i, w, None, 1.0),
    lambda w, i: F.embedding(i, w.clone(), max_norm=1.0),
    *(TABLE, ids(20, 6)),
    kernels=None,
)


def select(dim: int) -> tuple[Callable, Callable]:
    return (lambda ops, x, i: ops.index_select(x, i, dim)), (lambda x, i: x.index_select(dim, i))


case("index_select of columns", *select(1), randn(13, 24), ids(24, 7))
case("index_select in the middle", *select(1), randn(5, 13, 8), ids(13, 7))
case("index_select of rows of matrices", *select(0), randn(13, 4, 8), ids(13, 7))
case("index_select by one number", *select(1), randn(5, 13), ids(13))
case("index_select of an expanded table", *select(0), randn(1, 24).expand(13, 24), ids(13, 7))
case("index_select of a transposed table", *select(0), randn(24, 13).t(), ids(13, 7))
case("index_select of every second column", *select(0), randn(13, 48)[:, ::2], ids(13, 7))
case("index_select of rows with gaps", *select(0), randn(13, 40)[:, :24], ids(13, 7))
case("index_select off an aligned address", *select(0), randn(13 * 24 + 1)[1:].view(13, 24), ids(13, 7))
case("index_select by every second position", *select(0), randn(13, 24), ids(13, 14)[::2])
case("select, then relu", lambda ops, x: ops.relu(ops.select(x, 3, 0)), lambda x: x[3].relu(), randn(5, 16))
case(
    "two of a dimension",
    lambda ops, x: ops.mul(ops.select(x, 0, 2), ops.select(x, 1, 2)),
    lambda x: x[..., 0] * x[..., 1],
    randn(4, 16, 2),
)
case(
    "select of what is computed",
    lambda ops, x: ops.relu(ops.select(ops.exp(x), 3, 0)),
    lambda x: x.exp()[3].relu(),
    randn(5, 16),
)


def along(dim: int) -> tuple[Callable, Callable]:
    return (lambda ops, x, i: ops.take_along_axis(x, i, dim)), (lambda x, i: torch.take_along_dim(x, i, dim))


case("take_along_axis in rows", *along(1), randn(6, 20), ids(20, 6, 9))
case("take_along_axis in columns", *along(0), randn(6, 20), ids(6, 9, 20))
case("take_along_axis by one row", *along(1), randn(6, 20), ids(20, 1, 9))
case("take_along_axis of one row", *along(1), randn(1, 20), ids(20, 6, 9))
case("take_along_axis by an expanded index", *along(1), randn(6, 20), ids(20, 6, 1).expand(6, 9))
case("take_along_axis of one element a row", *along(1), randn(6, 20), ids(20, 6, 1))
case("take_along_axis in rows of one", *along(1), randn(6, 1), ids(1, 6, 9))


def gather(dim: int) -> tuple[Callable, Callable]:
    return (lambda ops, x, i: ops.gather(x, i, dim)), (lambda x, i: torch.gather(x, dim, i))


case("gather in rows", *gather(1), randn(6, 20), ids(20, 6, 9))
case("gather in a corner", *gather(0), randn(6, 20), ids(6, 3, 8))
case("gather of one element a row", *gather(1), randn(6, 20), ids(20, 6, 1))


def scatter(dim: int) -> tuple[Callable, Callable]:
    return (lambda ops, x, i, s: ops.scatter(x, i, s, dim)), (lambda x, i, s: torch.scatter(x, dim, i, s))


case("scatter", *scatter(1), randn(6, 20), places(6, 20, 5), randn(6, 5))
case("scatter in columns", *scatter(0), randn(20, 6), places(6, 20, 5).t(), randn(5, 6))
case("scatter of long rows", *scatter(1), randn(3, 400), places(3, 400, 300), randn(3, 300), kernels=None)
case(
    "scatter of a number",
    lambda ops, x, i: ops.scatter(x, i, 2.0, 0),
    lambda x, i: x.scatter(0, i, 2.0),
    randn(6, 20),
    ids(6, 2, 20),
)

case(
    "scatter to what is computed",
    lambda ops, x, i, s: ops.scatter(ops.exp(x), i, s, 1),
    lambda x, i, s: x.exp().scatter(1, i, s),
    *(randn(6, 20), places(6, 20, 5), randn(6, 5)),
)
case(
    "one of many, by a scatter",
    lambda ops, i: ops.scatter(ops.full([6, 20], 0.0, D.Float), column(ops, i), 1.0, 1),
    lambda i: F.one_hot(i, 20).float(),
    ids(20, 6),
)
case(
    "scatter, then relu",
    lambda ops, x, i, s: ops.relu(ops.scatter(x, i, s, 1)),
    lambda x, i, s: x.scatter(1, i, s).relu(),
    *(randn(6, 20), places(6, 20, 5), randn(6, 5)),
    kernels=2,
)

# ---- With what is around them ----

case(
    "rows, then a cast",
    lambda ops, x, i: ops.cast(ops.index_select(x, i, 0), D.Float),
    lambda x, i: x[i].float(),
    randn(13, 24, dtype=BF16),
    ids(13, 7),
)
case(
    "rows, relu and a residual",
    lambda ops, x, i, y: ops.add(ops.relu(ops.index_select(x, i, 0)), y),
    lambda x, i, y: x[i].relu() + y,
    *(randn(13, 24), ids(13, 7), randn(7, 24)),
)
case(
    "embedding and positions",
    lambda ops, w, i, p: ops.add(ops.embedding_fwd(i, w), ops.broadcast(p, [True, False, False])),
    lambda w, i, p: F.embedding(i, w) + p,
    *(TABLE, ids(20, 3, 5), randn(5, 16)),
)
case(
    "two embeddings",
    lambda ops, w, v, i, j: ops.add(ops.embedding_fwd(i, w), ops.embedding_fwd(j, v)),
    lambda w, v, i, j: F.embedding(i, w) + F.embedding(j, v),
    *(TABLE, randn(9, 16), ids(20, 4), ids(9, 4)),
)
case(
    "one table twice",
    lambda ops, w, i, j: ops.add(ops.embedding_fwd(i, w), ops.embedding_fwd(j, w)),
    lambda w, i, j: F.embedding(i, w) + F.embedding(j, w),
    *(TABLE, ids(20, 4), ids(20, 4, seed=3)),
)
case(
    "rows, and the table itself",
    lambda ops, x, i: [ops.index_select(x, i, 0), ops.relu(x)],
    lambda x, i: [x[i], x.relu()],
    *(randn(13, 24), ids(13, 7)),
)


def normed(ops, x):
    square = ops.sum(ops.mul(x, x), [-1], keepdim=True)
    return ops.mul(x, ops.rsqrt(ops.add(ops.div(square, 24.0), 1e-5)))


def norm(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


case(
    "embedding and its norm",
    lambda ops, w, i, g: (lambda x: [x, ops.mul(normed(ops, x), ops.broadcast(g, [True, False]))])(
        ops.embedding_fwd(i, w)
    ),
    lambda w, i, g: [F.embedding(i, w), norm(F.embedding(i, w)) * g],
    *(randn(20, 24), ids(20, 6), randn(24)),
)
case(
    "rows in float and a bfloat16 residual, normed",
    lambda ops, a, b, i: normed(ops, ops.add(ops.index_select(a, i, 0), ops.cast(b, D.Float))),
    lambda a, b, i: norm(a[i] + b.float()),
    *(randn(13, 24), randn(7, 24, dtype=BF16), ids(13, 7)),
)
case(
    "rows, summed up",
    lambda ops, w, i: ops.sum(ops.embedding_fwd(i, w), [0]),
    lambda w, i: F.embedding(i, w).sum(0),
    TABLE,
    ids(20, 9),
)
case(
    "rows, each summed",
    lambda ops, w, i: ops.sum(ops.embedding_fwd(i, w), [1]),
    lambda w, i: F.embedding(i, w).sum(1),
    TABLE,
    ids(20, 9),
)
case(
    "bags of rows",
    lambda ops, w, i: ops.sum(ops.embedding_fwd(i, w), [1]),
    lambda w, i: F.embedding(i, w).sum(1),
    TABLE,
    ids(20, 9, 4),
)
case(
    "rows of experts, weighted",
    lambda ops, x, i, w: ops.sum(ops.mul(ops.embedding_fwd(i, x), ops.broadcast(w, [False, False, True])), [1]),
    lambda x, i, w: (F.embedding(i, x) * w[..., None]).sum(1),
    *(randn(13, 24), ids(13, 7, 2), randn(7, 2)),
)
case(
    "rows times others, summed over rows",
    lambda ops, x, i, y: ops.sum(ops.mul(ops.index_select(x, i, 0), y), [0]),
    lambda x, i, y: (x[i] * y).sum(0),
    *(randn(13, 24), ids(13, 70), randn(70, 24)),
)
case(
    "rows, permuted",
    lambda ops, x, i: ops.permute(ops.index_select(x, i, 0), [1, 0]),
    lambda x, i: x[i].t(),
    randn(13, 24),
    ids(13, 7),
)
case(
    "rows, reshaped",
    lambda ops, x, i: ops.reshape(ops.relu(ops.index_select(x, i, 0)), [7, 4, 6]),
    lambda x, i: x[i].relu().reshape(7, 4, 6),
    *(randn(13, 24), ids(13, 7)),
)
case(
    "positions reshaped, rows reshaped",
    lambda ops, x, i: ops.reshape(ops.index_select(x, ops.reshape(i, [25]), 0), [5, 5, 8]),
    lambda x, i: F.embedding(i, x),
    *(randn(13, 8), ids(13, 5, 5)),
)

# ---- By positions that are computed ----

X = randn(13, 24)
case(
    "positions plus one", lambda ops, x, i: ops.index_select(x, ops.add(i, 1), 0), lambda x, i: x[i + 1], X, ids(12, 7)
)
case(
    "positions modulo",
    lambda ops, x, i: ops.embedding_fwd(ops.mod(i, 10), x),
    lambda x, i: F.embedding(i % 10, x),
    X,
    ids(1000, 7),
)
case("every second row", lambda ops, x: ops.index_select(x, ops.iota(5, 2, 2, D.Int), 0), lambda x: x[2:12:2], X)
case(
    "positions from floats",
    lambda ops, x, i: ops.index_select(x, ops.cast(i, D.Int), 0),
    lambda x, i: x[i.long()],
    X,
    ids(13, 7).float(),
)
case(
    "positions under a condition",
    lambda ops, x, i, m: ops.index_select(x, ops.where(m, i, 0), 0),
    lambda x, i, m: x[torch.where(m, i, 0)],
    *(X, ids(13, 7), ids(2, 7).bool()),
)
case(
    "largest of positions",
    lambda ops, x, i: ops.index_select(x, ops.max(i, [1]), 0),
    lambda x, i: x[i.max(1).values],
    *(X, ids(13, 7, 3)),
    kernels=2,
)
case(
    "positions at positions",
    lambda ops, x, i, j: ops.index_select(x, ops.index_select(i, j, 0), 0),
    lambda x, i, j: x[i[j]],
    X,
    ids(13, 7),
    ids(7, 4),
)
case(
    "rows of rows",
    lambda ops, x, i, j: ops.index_select(ops.index_select(x, i, 0), j, 0),
    lambda x, i, j: x[i][j],
    *(X, ids(13, 7), ids(7, 4)),
    kernels=2,
)
case(
    "rows of what is computed",
    lambda ops, x, i: ops.index_select(ops.exp(x), i, 0),
    lambda x, i: x.exp()[i],
    X,
    ids(13, 7),
)
case(
    "sums at positions",
    lambda ops, x, i: ops.index_select(ops.sum(x, [1]), i, 0),
    lambda x, i: x.sum(1)[i],
    X,
    ids(13, 7),
    kernels=2,
)
case(
    "rows by their own values",
    lambda ops, i: ops.take_along_axis(ops.abs(i), ops.abs(i), 0),
    lambda i: torch.take_along_dim(i, i, 0),
    ids(9, 9),
)

# ---- Masks ----

case("triu", lambda ops, x: ops.triu(x, 1), lambda x: x.triu(1), randn(6, 20))
case("triu of a batch", lambda ops, x: ops.triu(x, -1), lambda x: x.triu(-1), randn(2, 6, 9))
case(
    "triu of exp, times another",
    lambda ops, x, y: ops.mul(ops.triu(ops.exp(x), 0), y),
    lambda x, y: x.exp().triu() * y,
    randn(6, 20),
    randn(6, 20),
)
case("sums of triu", lambda ops, x: ops.sum(ops.triu(x, 0), [1]), lambda x: x.triu().sum(1), randn(20, 20))
case(
    "one of many",
    lambda ops, i: ops.eq(column(ops, i), ops.broadcast(ops.iota(20, dtype=D.Int), [True, False])),
    lambda i: F.one_hot(i, 20).bool(),
    ids(20, 6),
)
case(
    "mask of the past",
    lambda ops, x: ops.where(
        ops.ge(column(ops, ops.iota(6, dtype=D.Int)), ops.broadcast(ops.iota(6, dtype=D.Int), [True, False])),
        x,
        float("-inf"),
    ),
    lambda x: x.masked_fill(torch.ones(6, 6).tril() == 0, float("-inf")),
    randn(6, 6),
)


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_case(each: Case) -> None:
    agree(each.call, each.expected, *each.inputs)


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_case_in_kernels(each: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """By each candidate, as few kernels as there should be, and calls of torch only where no kernel computes it."""
    for candidate in range(3):
        monkeypatch.setenv("NVFUSER_ENABLE", f"simulate({candidate})")
        agree(each.call, each.expected, *each.inputs)
    monkeypatch.setenv("NVFUSER_ENABLE", "simulate")
    about = [s.about for s in each.definition().explain(list(each.inputs)).segments]
    kernels = sum(" kernel " in a for a in about)
    calls = sum("call of torch" in a for a in about)
    assert (kernels, calls) == ((0, 1) if each.kernels is None else (each.kernels, 0)), about


# ---- What is refused, and what is defined where torch leaves it open ----


@pytest.mark.parametrize("dtype", [D.Float, D.Bool, D.Double])
@pytest.mark.parametrize("op", ["index_select", "take_along_axis", "gather", "embedding_fwd", "scatter"])
def test_positions_are_integers(op: str, dtype: DataType) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype=D.Float)
        i = fd.define_tensor([-1] * (1 if op in ("index_select", "embedding_fwd") else 2), True, dtype=dtype)
        arguments = {"embedding_fwd": (i, x), "scatter": (x, i, 1.0, 0)}.get(op, (x, i, 0))
        with pytest.raises(InvalidType, match="must be of integer type, got"):
            getattr(fd.ops, op)(*arguments)
        fd.add_output(x)


@pytest.mark.parametrize("options", [[], ["simulate"]])
def test_positions_of_another_type_than_defined(options: list[str]) -> None:
    fd = Case("", embed, embedded, (X, ids(13, 7))).definition()
    with pytest.raises(InvalidType, match=r"input 1 .* has dtype Int32, but the definition says Int"):
        fd.execute([X, ids(13, 7, dtype=torch.int32)], _enable_options=options)


@pytest.mark.parametrize("options", [[], ["simulate"]])
def test_targets_that_overlap_themselves(options: list[str]) -> None:
    with FusionDefinition() as fd:
        x, i = (fd.define_tensor([-1, -1], False, dtype=t) for t in (D.Float, D.Int))
        fd.add_output(fd.ops.scatter(x, i, 2.0, 1), x)
    for x in (torch.arange(12.0).as_strided((4, 3), (2, 1)), torch.zeros(1, 3).expand(4, 3)):
        with pytest.raises(InvalidArgument, match="several of its elements share memory"):
            fd.execute([x, ids(3, 4, 2)], _enable_options=options)


@pytest.mark.parametrize("options", [[], ["simulate"]])
@pytest.mark.parametrize("count", [1, 5, 300])
def test_of_several_writes_the_last_holds(count: int, options: list[str]) -> None:
    x, i, s = randn(3, 8), integers(-2, 10, (3, count)), randn(3, count)
    want = x.clone()
    for row, k in ((row, k) for row in range(3) for k in range(count)):
        if 0 <= i[row, k] < 8:
            want[row, i[row, k]] = s[row, k]
    fd = Case("", *scatter(1), (x, i, s)).definition()
    assert torch.equal(fd.execute([x, i, s], _enable_options=options)[0], want)


@pytest.mark.parametrize("options", [[], ["simulate"]])
def test_what_is_no_position_reads_zero(options: list[str]) -> None:
    """Also before arithmetic that makes something else of it, by the largest integers, and of a table without rows."""
    x, i = randn(5, 8), torch.tensor([-1, 0, 4, 5, 2**31, 2**40, -(2**63), 2**63 - 1])
    is_row = ((i >= 0) & (i < 5))[:, None]
    with FusionDefinition() as fd:
        w, p = fd.define_tensor([-1, -1], True, dtype=D.Float), fd.define_tensor([-1], True, dtype=D.Int)
        for rows in (fd.ops.index_select(w, p, 0), fd.ops.embedding_fwd(p, w)):
            fd.add_output(fd.ops.exp(rows))
        fd.add_output(fd.ops.take_along_axis(w, fd.ops.broadcast(p, [False, True]), 0))
    want = torch.where(is_row, x[i.clamp(0, 4)], 0)
    for have, should in zip(fd.execute([x, i], _enable_options=options), (want.exp(), want.exp(), want), strict=True):
        torch.testing.assert_close(have, should)
    got = fd.execute([x[:0], i], _enable_options=options)
    assert all(torch.equal(a, torch.full((8, 8), float(b))) for a, b in zip(got, (1, 1, 0), strict=True))
