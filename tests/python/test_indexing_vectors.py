"""Rows of tables that kernels read in wide accesses: simulated, in sizes at which schedulers choose those."""

import pytest
import torch
import torch.nn.functional as F
from agreement import OF, integers, randn
from sweep_values import describe

from nvfuser_go import FusionDefinition

ROWS = 640
BF16, F32 = torch.bfloat16, torch.float32


def positions(rows: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Some of them are none."""
    return integers(-2, rows + 2, shape).to(dtype)


def looked_up(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Rows of table, zeros where there is none."""
    if len(table) == 0:
        return table.new_zeros(*ids.shape, table.shape[1])
    is_row = (ids >= 0) & (ids < len(table))
    return torch.where(is_row[..., None], F.embedding(ids.long() * is_row, table), 0).to(table.dtype)


def widened(x: torch.Tensor, gap: int) -> torch.Tensor:
    """x with a gap after each row."""
    return torch.cat([x, x.new_zeros(len(x), gap)], 1)[:, : x.shape[1]]


def moved(x: torch.Tensor, by: int) -> torch.Tensor:
    """x so many elements after an aligned address."""
    return torch.cat([x.new_zeros(by), x.flatten()])[by:].view(x.shape)


TABLES = {
    "bf16": randn(50, 256, dtype=BF16),
    "f32": randn(50, 128),
    "f64": randn(50, 128, dtype=torch.float64),
    "bytes": integers(0, 2, (50, 256)).bool(),
    "complex": torch.complex(randn(50, 128), randn(50, 128, seed=1)),
    "rows of 2 x odd": randn(50, 130, dtype=BF16),
    "odd rows": randn(50, 129),
    "gaps of 8": widened(randn(50, 256, dtype=BF16), 8),
    "gaps of 4": widened(randn(50, 256, dtype=BF16), 4),
    "odd gaps": widened(randn(50, 128), 3),
    "misaligned": moved(randn(50, 128), 1),
    "half aligned": moved(randn(50, 128), 2),
    "one row": randn(1, 128),
    "no rows": randn(0, 128),
    "transposed": randn(128, 50).t(),
    "expanded rows": randn(1, 128).expand(50, 128),
    "expanded columns": randn(50, 1).expand(50, 128),
}


def check(program, want, *inputs: torch.Tensor, wide: int = 0) -> None:
    """Holds program in the simulator against want, and sees that accesses of so many bytes are in its kernels."""
    for dynamic in (True, False):
        with FusionDefinition() as fd:
            out = program(fd.ops, *(fd.define_tensor(**describe(x, OF[x.dtype], dynamic)) for x in inputs))
            for x in out if isinstance(out, list) else [out]:
                fd.add_output(x)
        got = fd.execute(list(inputs), _enable_options=["simulate"])
        for have, should in zip(got, want if isinstance(want, list) else [want], strict=True):
            torch.testing.assert_close(have, should)
        if wide:
            assert f"Where<{wide}>(" in fd.last_cuda_code()


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str) -> None:
    table, ids = TABLES[name], positions(len(TABLES[name]), ROWS)
    wide = {
        "bf16": 16,
        "f32": 16,
        "f64": 16,
        "bytes": 8,
        "complex": 16,
        "rows of 2 x odd": 4,
        "gaps of 8": 16,
        "gaps of 4": 8,
    }
    check(
        lambda ops, w, i: [ops.index_select(w, i, 0), ops.embedding_fwd(i, w)],
        [looked_up(table, ids)] * 2,
        table,
        ids,
        wide=wide.get(name, 0),
    )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_embedding_of_batches(dtype: torch.dtype) -> None:
    table, ids = randn(30, 256, dtype=BF16), positions(30, 8, 80, dtype=dtype)
    check(lambda ops, w, i: ops.embedding_fwd(i, w), looked_up(table, ids), table, ids, wide=16)


def test_two_tables_and_a_residual() -> None:
    table, other, x = randn(30, 128), randn(9, 128), randn(ROWS, 128)
    i, j = positions(30, ROWS), positions(9, ROWS)
    check(
        lambda ops, w, v, i, j, x: ops.add(ops.relu(ops.add(ops.index_select(w, i, 0), ops.index_select(v, j, 0))), x),
        torch.relu(looked_up(table, i) + looked_up(other, j)) + x,
        *(table, other, i, j, x),
        wide=16,
    )


def test_one_table_twice_and_elementwise() -> None:
    table, i, j = randn(ROWS, 128), positions(ROWS, ROWS), positions(ROWS, ROWS) - 1
    check(
        lambda ops, w, i, j: ops.add(ops.index_select(w, i, 0), ops.index_select(w, j, 0)),
        looked_up(table, i) + looked_up(table, j),
        *(table, i, j),
        wide=16,
    )
    check(lambda ops, w, i: ops.add(ops.index_select(w, i, 0), w), looked_up(table, i) + table, table, i)


def test_positions_of_each_element() -> None:
    """Positions along the dimension of rows: neighbours are read at rows of their own."""
    x, i = randn(40, 128), positions(40, ROWS, 128)
    is_row = (i >= 0) & (i < 40)
    want = torch.where(is_row, torch.take_along_dim(x, i * is_row, 0), 0)
    check(lambda ops, x, i: [ops.take_along_axis(x, i, 0), ops.gather(x, i, 0)], [want, want], x, i)
    check(lambda ops, x, i: ops.gather(x, i, 0), want[:, :64], x, i[:, :64].contiguous())


def test_positions_for_rows_of_each_batch() -> None:
    """A batch of tables, or of positions, or of both."""
    x, i = randn(4, 40, 128), positions(40, 4, 160, 1)
    is_row = (i >= 0) & (i < 40)
    take = lambda ops, x, i: ops.take_along_axis(x, i, 1)  # noqa: E731
    want = torch.where(is_row, torch.take_along_dim(x, i * is_row, 1), 0)
    check(take, want, x, i, wide=16)
    want = torch.where(is_row, torch.take_along_dim(x[:1], i * is_row, 1), 0)
    check(take, want, x[:1].contiguous(), i, wide=16)
    want = torch.where(is_row[:1], torch.take_along_dim(x, i[:1] * is_row[:1], 1), 0)
    check(take, want, x, i[:1].contiguous(), wide=16)


@pytest.mark.parametrize("length", [128, 136, 130, 97])
def test_rows_that_are_reduced(length: int) -> None:
    table, ids = randn(30, length), positions(30, 300)

    def program(ops, w, i):
        x = ops.embedding_fwd(i, w)
        square = ops.sum(ops.mul(x, x), [1], keepdim=True)
        return [ops.mul(x, ops.rsqrt(ops.add(square, 1e-3))), ops.sum(x, [1]), ops.sum(x, [0])]

    x = looked_up(table, ids)
    want = [x * torch.rsqrt((x * x).sum(1, keepdim=True) + 1e-3), x.sum(1), x.sum(0)]
    check(program, want, table, ids, wide=16 if length % 4 == 0 else 0)


def test_selected_rows() -> None:
    x = randn(3, 300, 256, dtype=BF16)
    check(lambda ops, x: ops.maximum(ops.select(x, 0, 0), ops.select(x, 2, 0)), torch.maximum(x[0], x[2]).float(), x)
