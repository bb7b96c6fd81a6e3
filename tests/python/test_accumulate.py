"""Slices added where an index says, as in the gradient of an embedding: on the CPU, and simulated with torch."""

import pytest
import torch
from agreement import OF, integers, randn
from sweep_values import describe

from nvfuser_go import DataType, FusionDefinition, InvalidArgument, InvalidType

D = DataType
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32

pytestmark = pytest.mark.parametrize("options", [[], ["simulate"]], ids=["cpu", "simulate"])


def definition(inputs: list[torch.Tensor], program, dynamic: bool = True) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(program(fd.ops, *(fd.define_tensor(**describe(x, OF[x.dtype], dynamic)) for x in inputs)))
    return fd


def run(options: list[str], program, *inputs: torch.Tensor) -> torch.Tensor:
    """The output, which two runs give to the bit, with sizes known and unknown."""
    results = []
    for dynamic in (False, True):
        fd = definition(list(inputs), program, dynamic)
        results += [fd.execute(list(inputs), _enable_options=options)[0] for _ in range(2)]
    for other in results[1:]:
        assert torch.equal(results[0].view(torch.uint8), other.view(torch.uint8))
    return results[0]


def gradient(rows: int, columns: int, dtype: torch.dtype, padding: int | None = None):
    """That of an embedding, with regard to its table."""

    def program(ops, index, grad):
        if padding is not None:
            index = ops.where(ops.eq(index, padding), -1, index)
        return ops.index_put_accumulate(ops.full([rows, columns], 0, OF[dtype]), index, grad)

    return program


def exact(rows: int, index: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The gradient in double precision; positions that are none are left out."""
    inside = (index >= 0) & (index < rows)
    out = torch.zeros(rows, grad.shape[1], dtype=torch.float64)
    return out.index_put_((index[inside].long(),), grad[inside].double(), accumulate=True)


def check(got: torch.Tensor, want: torch.Tensor, parts: torch.Tensor) -> None:
    """Holds got against sums that are exact: a rounding of the type, and those of sums of the parts in float32."""
    bound = torch.finfo(got.dtype).eps / 2 * want.abs() + 2.0**-22 * parts.abs().double().sum(0)
    assert ((got.double() - want).abs() <= bound + 1e-30).all()


@pytest.mark.parametrize("dtype", [F32, BF16, F16, torch.float64], ids=str)
@pytest.mark.parametrize(("rows", "columns", "count"), [(7, 5, 40), (100, 1, 64), (3, 33, 1), (1, 8, 9), (50, 4, 3)])
def test_gradient_of_an_embedding(options, dtype: torch.dtype, rows: int, columns: int, count: int) -> None:
    index, grad = integers(0, rows, (count,)), randn(count, columns, dtype=dtype)
    got = run(options, gradient(rows, columns, dtype), index, grad)
    assert got.dtype is dtype
    check(got, exact(rows, index, grad), grad)


@pytest.mark.parametrize("dtype", [F32, BF16, F16], ids=str)
def test_many_of_one_row(options, dtype: torch.dtype) -> None:
    """The sum of 10,000 rows is not further off than torch's, and has the bits of a sum in Float."""
    count = 10_000
    index, grad = torch.where(torch.arange(count) % 100 == 7, 2, 1), (randn(count, 3) + 1).to(dtype)
    got = run(options, gradient(4, 3, dtype), index, grad)
    want = exact(4, index, grad)
    check(got, want, grad)
    eager = torch.zeros(4, 3, dtype=dtype).index_put_((index,), grad, accumulate=True)
    assert (got.double() - want).abs().max() <= 2 * (eager.double() - want).abs().max()


@pytest.mark.parametrize("columns", [1, 5, 16])
@pytest.mark.parametrize("dtype", [F32, BF16, torch.int64, torch.complex64], ids=str)
def test_long_lists(options, dtype: torch.dtype, columns: int) -> None:
    """Lists that have no part of 64 slices, one and several, and end on either side of where one does."""
    counts = torch.tensor([63, 1, 64, 65, 0, 127, 128, 129, 3, 200, 64])
    index = torch.repeat_interleave(torch.arange(11), counts)[torch.randperm(int(counts.sum()))]
    index[::50] = -1
    shape = (len(index), columns)
    grad = integers(-(2**40), 2**40, shape) if dtype is torch.int64 else randn(*shape).to(dtype)
    acc = torch.zeros(12, columns, dtype=dtype)
    got = run(options, lambda ops, *args: ops.index_put_accumulate(*args), acc, index, grad)
    if dtype.is_floating_point:
        check(got, exact(12, index, grad), grad)
        return
    want = acc.index_put((index[index >= 0],), grad[index >= 0], accumulate=True)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_what_is_no_position_adds_nothing(options) -> None:
    index = torch.tensor([0, -1, 5, 2, 6, 2**40, -(2**63), 2, 5])
    grad = randn(9, 4)
    for rows in (6, 3, 1, 0):
        check(run(options, gradient(rows, 4, F32), index, grad), exact(rows, index, grad), grad)


def test_padding(options) -> None:
    index, grad = integers(0, 6, (40,)), randn(40, 4, dtype=BF16)
    got = run(options, gradient(6, 4, BF16, padding=3), index, grad)
    check(got, exact(6, torch.where(index == 3, -1, index), grad), grad)
    assert (got[3] == 0).all()


@pytest.mark.parametrize(("rows", "columns", "count"), [(5, 3, 0), (5, 0, 4), (0, 3, 4), (0, 0, 0), (1, 1, 1)])
def test_few_elements(options, rows: int, columns: int, count: int) -> None:
    index, grad = integers(0, max(rows, 1), (count,)), randn(count, columns)
    acc = randn(rows, columns)
    got = run(options, lambda ops, *args: ops.index_put_accumulate(*args), acc, index, grad)
    assert got.shape == acc.shape
    torch.testing.assert_close(got, acc + exact(rows, index, grad).float())


def test_numbers_that_are_none(options) -> None:
    """NaN and infinities reach the rows that they are added to, and no others."""
    acc = torch.tensor([[1.0], [torch.inf], [3.0], [torch.nan], [5.0]])
    index = torch.tensor([0, 0, 1, 2, 9])
    value = torch.tensor([[torch.inf], [-torch.inf], [-torch.inf], [-torch.inf], [torch.nan]])
    got = run(options, lambda ops, *args: ops.index_put_accumulate(*args), acc, index, value)
    torch.testing.assert_close(
        got.flatten(), torch.tensor([torch.nan, torch.nan, -torch.inf, torch.nan, 5.0]), equal_nan=True
    )


def test_integers_wrap(options) -> None:
    acc, index = torch.tensor([2**63 - 1, 0, 7]), torch.tensor([0, 2, 0, 1])
    got = run(options, lambda ops, *args: ops.index_put_accumulate(*args), acc, index, torch.tensor([1, 2, 3, 4]))
    assert got.tolist() == [-(2**63) + 3, 4, 9]


def test_among_others(options) -> None:
    """Beside arithmetic on all sides, with strides, and an index of two dimensions."""
    acc, index, value = randn(5, 24).t()[::2], integers(0, 12, (30, 1)), randn(5, 30).t()

    def program(ops, acc, index, value):
        return ops.relu(ops.index_put_accumulate(ops.neg(acc), ops.add(index, 1), ops.mul(value, 2.0)))

    got = run(options, program, acc, index, value)
    index = index.flatten() + 1
    want = (-acc.double() + 2 * exact(12, index, value)).relu()
    torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-5)


def test_counts(options) -> None:
    """Tokens for each expert: ones that are added up."""
    index = integers(0, 8, (100,))
    got = run(
        options, lambda ops, i: ops.index_put_accumulate(ops.full([8], 0, D.Int), i, ops.full([100], 1, D.Int)), index
    )
    assert torch.equal(got, torch.bincount(index, minlength=8))


@pytest.mark.parametrize(
    ("shapes", "types", "error", "text"),
    [
        (
            ((4, 3), (2,), (2, 4)),
            (F32, None, F32),
            InvalidArgument,
            "the size of dimension 1 of value must be that of acc, got 4 and 3",
        ),
        (
            ((4, 3), (2,), (3, 3)),
            (F32, None, F32),
            InvalidArgument,
            "the size of dimension 0 of value must be that of index, got 3 and 2",
        ),
        (
            ((4, 3), (2, 3), (2, 3)),
            (F32, None, F32),
            InvalidArgument,
            "the size of dimension 1 of index must be 1, got 3",
        ),
        (((4, 3), (2, 1, 1), (2, 3)), (F32, None, F32), InvalidArgument, "index has 3 dimensions; it must have one"),
        (((4, 3), (2,), (2,)), (F32, None, F32), InvalidArgument, "value has 1 dimension and acc 2"),
        (
            ((4, 3), (2,), (2, 3)),
            (F32, None, BF16),
            InvalidType,
            "value is BFloat16 and acc is Float; cast one of them",
        ),
        (((4, 3), (2,), (2, 3)), (F32, F32, F32), InvalidType, "index must be of integer type, got Float"),
        (((4, 3), (2,), (2, 3)), (torch.bool, None, torch.bool), InvalidType, "acc must be of"),
    ],
)
def test_mistakes(options, shapes, types, error, text: str) -> None:
    tensors = [torch.zeros(s, dtype=t or torch.int64) for s, t in zip(shapes, types, strict=True)]
    with pytest.raises(error, match=text):
        definition(tensors, lambda ops, *args: ops.index_put_accumulate(*args), dynamic=False)


def test_index_that_has_another_size_in_a_call(options) -> None:
    tensors = [torch.zeros(4, 3, 2), torch.zeros(2, 1, 5, dtype=torch.int64), torch.zeros(2, 3, 2)]
    fd = definition(tensors, lambda ops, *args: ops.index_put_accumulate(*args))
    with pytest.raises(InvalidArgument, match="the size of dimension 2 of index must be 1, got 5"):
        fd.execute(tensors, _enable_options=options)


def test_sizes_that_differ_in_a_call(options) -> None:
    tensors = [torch.zeros(4, 3), torch.zeros(2, dtype=torch.int64), torch.zeros(2, 3)]
    fd = definition(tensors, lambda ops, *args: ops.index_put_accumulate(*args))
    with pytest.raises(InvalidArgument, match="the size of dimension 0 of value must be that of index, got 5 and 2"):
        fd.execute([tensors[0], tensors[1], torch.zeros(5, 3)], _enable_options=options)
