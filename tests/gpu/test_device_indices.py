"""Indices on the device: slices that are added up, and positions that are out of range."""

import pytest
import torch
from device import execute, put

from nvfuser_go import DataType, FusionDefinition, InvalidArgument, Unsupported

D = DataType
OF = {torch.float32: D.Float, torch.bfloat16: D.BFloat16, torch.float16: D.Half}


def gradient(rows: int, columns: int, dtype: torch.dtype) -> FusionDefinition:
    """That of an embedding, with regard to its table."""
    with FusionDefinition() as fd:
        index, grad = fd.define_tensor([-1], True, D.Int), fd.define_tensor([-1, -1], True, OF[dtype])
        fd.add_output(fd.ops.index_put_accumulate(fd.ops.full([rows, columns], 0, OF[dtype]), index, grad))
    return fd


def exact(rows: int, index: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    inside = (index >= 0) & (index < rows)
    out = torch.zeros(rows, grad.shape[1], dtype=torch.float64)
    return out.index_put_((index[inside],), grad[inside].double(), accumulate=True)


@pytest.mark.parametrize("dtype", OF, ids=str)
@pytest.mark.parametrize(
    ("rows", "columns", "count"), [(1000, 96, 5000), (7, 33, 10_000), (50, 1, 300), (5, 3, 0), (1, 8, 4000), (3, 5, 1)]
)
def test_gradient_of_an_embedding(dtype: torch.dtype, rows: int, columns: int, count: int) -> None:
    """Equal bits in every run, and sums that are rounded to narrow types once."""
    draw = torch.Generator().manual_seed(rows)
    index = torch.randint(-2, rows + 2, (count,), generator=draw)
    if count == 10_000:
        index[torch.arange(count) % 100 != 0] = 2  # nearly all are one row
    grad = (torch.randn(count, columns, generator=draw) + 0.5).to(dtype)
    fd = gradient(rows, columns, dtype)
    results = [execute(fd, [put(index), put(grad)])[0] for _ in range(3)]
    for other in results[1:]:
        assert torch.equal(results[0], other)
    want, parts = exact(rows, index, grad), exact(rows, index, grad.abs())
    bound = torch.finfo(dtype).eps / 2 * want.abs() + 2.0**-18 * parts
    assert ((results[0].cpu().double() - want).abs() <= bound).all()


def test_what_was_there_stays() -> None:
    acc, value, index = torch.randn(6, 4), torch.randn(3, 4), torch.tensor([[5], [5], [-1]])
    with FusionDefinition() as fd:
        tensors = [
            fd.define_tensor([-1, -1], True),
            fd.define_tensor([-1, 1], [True, None], D.Int),
            fd.define_tensor([-1, -1], True),
        ]
        fd.add_output(fd.ops.relu(fd.ops.index_put_accumulate(*tensors)))
    (got,) = execute(fd, [put(acc), put(index), put(value)])
    want = acc.clone()
    want[5] += value[0] + value[1]
    torch.testing.assert_close(got.cpu(), want.relu())


def rows_of_a_table() -> FusionDefinition:
    with FusionDefinition() as fd:
        x, i = fd.define_tensor([-1, -1], True), fd.define_tensor([-1], True, D.Int)
        fd.add_output(fd.ops.index_select(x, i, 0))
    return fd


def test_positions_are_checked() -> None:
    fd, x = rows_of_a_table(), torch.randn(5, 8)
    for index, wrong in (([0, 4], None), ([0, 5], 5), ([-1, 4], -1), ([2, 2], None)):
        given = [put(x), put(torch.tensor(index))]
        if wrong is None:
            (got,) = execute(fd, given, _enable_options=["index_check"])
            assert torch.equal(got.cpu(), x[index])
        else:
            with pytest.raises(InvalidArgument, match=rf"index_select\(\): .*, got {wrong} and 5 \(defined at"):
                execute(fd, given, _enable_options=["index_check"])
            (got,) = execute(fd, given)
            assert (got.cpu()[[i == wrong for i in index]] == 0).all()


@pytest.mark.cuda
def test_no_checks_in_a_graph() -> None:
    fd, given = rows_of_a_table(), [put(torch.randn(5, 8)), put(torch.tensor([0, 4]))]
    fd.execute(given, _enable_options=["index_check"])
    fd.execute(given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(Unsupported, match="a CUDA graph is being captured"):
            fd.execute(given, _enable_options=["index_check"])
        (got,) = fd.execute(given)
    graph.replay()
    assert torch.equal(got, given[0][[0, 4]])
