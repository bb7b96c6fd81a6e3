"""Programs of the kinds that broke in fusers, each with sizes known and unknown, executed twice, against torch.

The kinds: dimensions of size 1 that are or are not broadcasts, sizes that become 0 or 1 only at run time, memory that
is not what the shape suggests, slices and pads of computed values, aliases, constants of another type.
"""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from agreement import OF, agree, integers, randn
from sweep_values import describe

from nvfuser_go import DataType, FusionDefinition, FusionError, LRUCache

D = DataType


# ---- Broadcasts ----


@pytest.mark.report("D01")
@pytest.mark.parametrize("rows", [0, 1, 3, 300, 3001])
def test_gradient_of_a_broadcast_power(rows: int) -> None:
    def program(fd, x, y, z):
        base = fd.ops.add(x, fd.ops.broadcast_in_dim(y, [1, 1, 1, 1, 4], [1, 2, 3, 4]))
        power = fd.ops.broadcast_in_dim(z, [1, 1, 1, 1, 1], [1, 2, 3, 4])
        g = fd.ops.mul(power, fd.ops.pow(base, fd.ops.sub(power, 1.0)))
        g = fd.ops.expand(g, [x.size(0), 1, 1, 1, 4])
        return fd.ops.sum(g, [4], keepdim=True)

    x, y, z = randn(rows, 1, 1, 1, 1).abs() + 0.5, randn(1, 1, 1, 4).abs(), torch.full((1, 1, 1, 1), 2.5)
    agree(program, lambda x, y, z: (z * (x + y) ** (z - 1)).sum(4, keepdim=True), x, y, z)


@pytest.mark.report("D06")
@pytest.mark.parametrize("shape", [(6, 5, 4, 3), (2, 33, 1, 7), (1, 1, 1, 1), (0, 3, 2, 2)])
def test_squeezed_and_broadcast_back(shape: tuple) -> None:
    n, c = shape[:2]

    def program(fd, x, scale, gate):
        wide = fd.ops.broadcast(fd.ops.broadcast(scale, [False, False, True]), [False, False, False, True])
        narrow = fd.ops.squeeze(gate, [2, 3])
        back = fd.ops.broadcast(narrow, [False, False, True, True])
        return fd.ops.mul(fd.ops.mul(fd.ops.mul(x, wide), back), gate)

    agree(program, lambda x, s, g: x * s[..., None, None] * g * g, randn(*shape), randn(n, c), randn(n, 1, 1, 1))


@pytest.mark.report("D20")
@pytest.mark.parametrize("n", [1, 3, 33])
def test_broadcast_in_dim_of_mixed_ranks(n: int) -> None:
    def program(fd, column, row):
        size = row.size(0)
        return fd.ops.add(
            fd.ops.broadcast_in_dim(column, [size, size], [0, 1]), fd.ops.broadcast_in_dim(row, [size, size], [1])
        )

    agree(program, lambda c, r: c + r, randn(n, 1), randn(n))


@pytest.mark.report("D09")
@pytest.mark.parametrize("shape", [(70, 45), (33, 65), (1, 9), (9, 1), (0, 5)])
def test_row_broadcast_and_transposed(shape: tuple) -> None:
    agree(
        lambda fd, x, b: fd.ops.permute(fd.ops.add(x, fd.ops.broadcast_in_dim(b, x.shape(), [1])), [1, 0]),
        lambda x, b: (x + b).T,
        randn(*shape),
        randn(shape[1]),
    )


@pytest.mark.report("D08")
@pytest.mark.parametrize("sizes", [(33, 65, 17), (32, 64, 2), (1, 5, 3), (3, 0, 2)])
def test_broadcast_before_transpose(sizes: tuple) -> None:
    a, b, c = sizes

    def program(fd, x, y):
        return fd.ops.permute(fd.ops.add(fd.ops.broadcast(x, [True, False, False]), y), [2, 1, 0])

    agree(program, lambda x, y: (x[None] + y).permute(2, 1, 0), randn(a, b), randn(c, a, b))


@pytest.mark.report("D08")
def test_view_before_transpose() -> None:
    def program(fd, x, y):
        return fd.ops.permute(fd.ops.add(fd.ops.reshape(x, [2, 17, 33, 65]), y), [3, 2, 1, 0])

    agree(
        program,
        lambda x, y: (x.reshape(2, 17, 33, 65) + y).permute(3, 2, 1, 0),
        randn(34, 33, 65),
        randn(2, 17, 33, 65),
    )


@pytest.mark.report("D15")
@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (5, 1), (33, 7)])
def test_expanded_then_reshaped(shape: tuple) -> None:
    a, b = shape

    def program(fd, x):
        wide = fd.ops.broadcast_in_dim(x, [a, b, 10], [0, 1])
        flat = fd.ops.reshape(wide, [a * b * 2, 5])
        return flat, fd.ops.sum(flat, 1)

    def expected(x):
        flat = x[..., None].expand(a, b, 10).reshape(a * b * 2, 5)
        return flat, flat.sum(1)

    agree(program, expected, randn(a, b))


@pytest.mark.report("D16")
def test_sum_over_expanded_dimensions() -> None:
    def program(fd, x):
        wide = fd.ops.broadcast_in_dim(x, [2, 3], [])
        return (
            fd.ops.sum(wide, 0),
            fd.ops.sum(wide, [0, 1]),
            fd.ops.prod(wide, 1),
            fd.ops.max(wide, 0),
            fd.ops.sum(wide, 1, keepdim=True),
        )

    def expected(x):
        wide = x.expand(2, 3)
        return wide.sum(0), wide.sum(), wide.prod(1), wide.amax(0), wide.sum(1, keepdim=True)

    agree(program, expected, torch.tensor(1.5))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_expanded_input(n: int) -> None:
    x = randn(n, 1, 3).expand(n, 4, 3)
    agree(
        lambda fd, x: (fd.ops.sum(x, 1), fd.ops.mul(x, x), fd.ops.permute(x, [1, 0, 2])),
        lambda x: (x.sum(1), x * x, x.permute(1, 0, 2)),
        x,
    )


# ---- Sizes that become 1 or 0 at run time ----


@pytest.mark.report("D19")
@pytest.mark.parametrize("shape", [(9, 5), (1, 3), (0, 4)])
def test_sliced_to_one_and_squeezed(shape: tuple) -> None:
    n, m = shape

    def program(fd, x):
        wide = fd.ops.expand(x, [n, m])
        return fd.ops.squeeze(fd.ops.slice(wide, [0, 2], [n, 3]), [1])

    agree(program, lambda x: x[:, 2], randn(n, m))


@pytest.mark.report("D18")
@pytest.mark.parametrize("shape", [(12, 5, 10), (1, 3, 2), (2, 1, 4)])
def test_dimension_that_a_crop_made_one_is_summed(shape: tuple) -> None:
    a, b, c = shape

    def program(fd, x):
        pairs = fd.ops.reshape(x, [a, b, c // 2, 2])
        last, first = fd.ops.pad(pairs, [-1, 0]), fd.ops.pad(pairs, [0, -1])
        return fd.ops.sum(last, 3), fd.ops.sum(first, [3]), fd.ops.sum(last, [0, 3])

    def expected(x):
        pairs = x.reshape(a, b, c // 2, 2)
        return pairs[..., 1], pairs[..., 0], pairs[..., 1].sum(0)

    agree(program, expected, randn(*shape))


def test_one_definition_for_sizes_zero_one_and_many() -> None:
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor(shape=[-1, -1], contiguity=[True, True]) for _ in range(2))
        fd.add_output(fd.ops.sum(fd.ops.mul(x, y), 1))
        fd.add_output(fd.ops.permute(fd.ops.add(x, y), [1, 0]))
        fd.add_output(fd.ops.max(x, [0, 1], keepdim=True))
    for n, m in itertools.product([0, 1, 2, 33, 1], [1, 0, 5, 1000]):
        a, b = randn(n, m), randn(n, m, seed=9)
        got = fd.execute([a, b])
        top = a.amax((0, 1), keepdim=True) if a.numel() else torch.full((1, 1), -math.inf)
        for g, w in zip(got, [(a * b).sum(1), (a + b).T, top], strict=True):
            torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-4)


@pytest.mark.report("D25")
@pytest.mark.parametrize("rank", [1, 2])
def test_size_zero_chains_of_cat(rank: int) -> None:
    empty, five = (
        torch.zeros([0, 3][:rank], dtype=torch.int64),
        torch.arange(5 * 3 ** (rank - 1)).reshape([5, 3][:rank]),
    )

    def program(fd, e, x):
        first = fd.ops.cat([e, x], 0)
        second = fd.ops.cat([first, e, e], 0)
        third = fd.ops.cat([fd.ops.add(second, 1), x], 0)
        return first, third, fd.ops.where(fd.ops.gt(third, 2), third, 0), fd.ops.cat([e, e], 0)

    def expected(e, x):
        third = torch.cat([x + 1, x])
        return x, third, torch.where(third > 2, third, 0), e

    agree(program, expected, empty, five)


@pytest.mark.report("D24")
def test_size_zero_diagonal() -> None:
    x = torch.zeros(1, 2, 0, 3)

    def program(fd, x):
        turned = fd.ops.permute(x, [1, 0, 2, 3])
        flat = fd.ops.reshape(turned, [2, 0, 3])
        return fd.ops.index_select(flat, fd.ops.iota(0), 1), fd.ops.sum(flat, 1)

    agree(program, lambda x: (torch.zeros(2, 0, 3), torch.zeros(2, 3)), x)
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[1, -1, -1, -1], contiguity=[None, False, True, True])
        fd.add_output(fd.ops.reshape(fd.ops.permute(t, [1, 0, 2, 3]), [2, 0, 3]))
    assert fd.execute([x])[0].shape == (2, 0, 3)


def test_empty_full_and_slices() -> None:
    def program(fd, x):
        nothing = fd.ops.full([3, 0], 1.0, D.Float)
        joined = fd.ops.cat([x, nothing], 1)
        return joined, fd.ops.slice(joined, [0, 0], [3, 0]), fd.ops.full([], 2.0, D.Float)

    agree(program, lambda x: (x, x[:, :0], torch.tensor(2.0)), randn(3, 4))


# ---- Reshapes ----


@pytest.mark.report("D07")
def test_every_order_of_the_factors() -> None:
    for left in set(itertools.permutations([3, 2, 2])):
        for right in set(itertools.permutations([5, 2, 2])):

            def program(fd, x, left=left, right=right):
                split = fd.ops.reshape(x, [*left, *right])
                merged = fd.ops.reshape(split, [left[0], left[1] * left[2] * right[0], right[1] * right[2]])
                return fd.ops.add(fd.ops.reshape(fd.ops.mul(merged, merged), [12, 20]), x)

            agree(program, lambda x: x * x + x, randn(12, 20))


@pytest.mark.report("D12")
@pytest.mark.parametrize("sizes", [(6, 4, 5), (1, 3, 7), (2, 1, 1), (0, 2, 3)])
def test_reshape_to_sizes_given_as_numbers(sizes: tuple) -> None:
    a, b, c = sizes
    x, y = randn(a, b, c), randn(2, a, b, c).permute(3, 1, 2, 0)

    def program(fd, x, y, rows, columns):
        total = fd.ops.sum(x, [0, 1])
        flat = fd.ops.reshape(fd.ops.permute(y, [3, 1, 2, 0]), [rows, columns])
        return fd.ops.add(flat, fd.ops.broadcast_in_dim(total, [rows, columns], [1]))

    def expected(x, y, rows, columns):
        return y.permute(3, 1, 2, 0).reshape(rows, columns) + x.sum((0, 1))

    agree(program, expected, x, y, 2 * a * b, c, rtol=1e-5, atol=1e-5)


@pytest.mark.report("D40")
@pytest.mark.parametrize("shape", [(64, 8, 32), (33, 3, 5), (1, 8, 4)])
def test_reshaped_and_transposed_beside_an_expanded_one(shape: tuple) -> None:
    a, b, c = shape
    y = randn(c, 1, a).permute(2, 1, 0)

    def program(fd, x, y):
        wide = fd.ops.reshape(fd.ops.expand(y, [a, b, c]), [a, b * c])
        return fd.ops.permute(fd.ops.add(fd.ops.reshape(x, [a, b * c]), wide), [1, 0])

    agree(program, lambda x, y: (x + y).reshape(a, b * c).T, randn(a, b, c), y)


@pytest.mark.report("D39")
@pytest.mark.parametrize("tokens", [1, 7, 128])
def test_queries_keys_and_values_of_one_buffer(tokens: int) -> None:
    heads, width = 4, 6
    n = heads * width

    def program(fd, x):
        batch, length = x.size(0), x.size(1)
        parts = [fd.ops.slice(x, [0, 0, i * n], [batch, length, (i + 1) * n]) for i in range(3)]
        return [fd.ops.permute(fd.ops.reshape(p, [batch, length, heads, width]), [0, 2, 1, 3]) for p in parts]

    def expected(x):
        return [p.reshape(2, tokens, heads, width).transpose(1, 2) for p in x.split(n, 2)]

    agree(program, expected, randn(2, tokens, 3 * n))


# ---- Slices, pads and cats of computed values ----


@pytest.mark.report("D13")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [5, 10, 1001])
def test_slice_of_a_computed_value(n: int, dtype: torch.dtype) -> None:
    def program(fd, x):
        y = fd.ops.cast(fd.ops.neg(x), OF[dtype])
        return (
            fd.ops.slice(y, [0], [5]),
            fd.ops.pad(y, [1, 2]),
            fd.ops.cat([y, fd.ops.cast(fd.ops.abs(x), OF[dtype])], 0),
        )

    agree(program, lambda x: ((-x)[:5], F.pad(-x, (1, 2)), torch.cat([-x, x.abs()])), randn(n, dtype=dtype))


@pytest.mark.report("D13")
@pytest.mark.parametrize("options", [[], ["simulate"]])
def test_nothing_of_one_computed_column(options: list) -> None:
    def sliced(fd, x, y):
        nothing = fd.ops.slice(fd.ops.exp(x), [0, 0], [3, 0])
        e, wide = fd.ops.exp(x), fd.ops.sin(y)
        joined = fd.ops.slice(fd.ops.cat([e, y, e, wide, e, e], 0), [0, 0], [5, 0])
        return joined, wide, fd.ops.sum(nothing, [1]), fd.ops.pad(nothing, [1, 0], 7.0)

    with FusionDefinition() as fd:
        x, y = fd.define_tensor(shape=[-1, 1]), fd.define_tensor(shape=[-1, -1])
        for out in sliced(fd, x, y):
            fd.add_output(out)
    x, y = torch.zeros(3, 1), torch.ones(2, 1)
    wanted = torch.zeros(5, 0), y.sin(), torch.zeros(3), torch.full((3, 1), 7.0)
    for got, want in zip(fd.execute([x, y], _enable_options=options), wanted, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.report("D14")
def test_slices_of_full_in_two_types() -> None:
    def program(fd):
        ones = fd.ops.full([5], 1.0, D.Float)
        return fd.ops.cast(fd.ops.slice(ones, [0], [2]), D.BFloat16), fd.ops.cast(fd.ops.slice(ones, [2], [5]), D.Half)

    agree(program, lambda: (torch.ones(2, dtype=torch.bfloat16), torch.ones(3, dtype=torch.float16)))


@pytest.mark.report("D17")
@pytest.mark.parametrize("n", [1, 33, 4096])
def test_stack_by_cat_of_new_dimensions(n: int) -> None:
    def program(fd, x, y, none):
        a, b = (
            fd.ops.broadcast(fd.ops.broadcast(t, [False, False, True]), [False, True, False, False]) for t in (x, y)
        )
        return fd.ops.cat([a, b], 1), fd.ops.cat([a, b], 3), fd.ops.cat([x, none], 1)

    def expected(x, y, none):
        a, b = x[:, None, :, None], y[:, None, :, None]
        return torch.cat([a, b], 1), torch.cat([a, b], 3), x

    agree(program, expected, randn(n, 1), randn(n, 1, seed=3), torch.zeros(n, 0))


@pytest.mark.report("D46")
@pytest.mark.parametrize("shape", [(5, 10), (2, 1), (33, 65)])
def test_slice_cut_add_pad(shape: tuple) -> None:
    n, m = shape

    def program(fd, x, y):
        rows = fd.ops.segment_set(fd.ops.slice(x, [1, 0], [n, m]))
        return fd.ops.pad(fd.ops.add(rows, y), [0, 1])

    agree(program, lambda x, y: F.pad(x[1:] + y, (0, 1)), randn(n, m), randn(n - 1, m))


@pytest.mark.report("D05")
@pytest.mark.parametrize("width", [5, 65, 4097])
def test_slice_of_an_odd_width_after_an_update_in_place(width: int) -> None:
    x, y = randn(16, width, dtype=torch.bfloat16), randn(1, 4, 16, width - 1, dtype=torch.bfloat16)
    for dynamic in (False, True):
        with FusionDefinition() as fd:
            t, u = (fd.define_tensor(**describe(v, D.BFloat16, dynamic)) for v in (x, y))
            masked = fd.ops.where(fd.ops.gt(t, 0.0), t, 0.0)
            masked = fd.ops.cast(masked, D.BFloat16)
            fd.add_output(masked, t)
            part = fd.ops.slice(masked, [0, 0], [16, width - 1])
            fd.add_output(fd.ops.add(fd.ops.broadcast(part, [True, True, False, False]), u))
        for _ in range(2):
            buffer = x.clone()
            (got,) = fd.execute([buffer, y])
            want = torch.where(x > 0, x, 0)
            assert torch.equal(buffer, want)
            torch.testing.assert_close(got, want[:, : width - 1].float() + y.float())


# ---- Updates in place ----


@pytest.mark.report("D03")
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("n", [1, 10, 200_001])
def test_an_updated_input_is_read_before(n: int, cut: bool) -> None:
    x, y = randn(n, 2), randn(3, n, 2)
    with FusionDefinition() as fd:
        t, u = fd.from_pytorch(x), fd.from_pytorch(y)
        new = fd.ops.relu(t)
        fd.add_output(fd.ops.segment_set(new) if cut else new, t)
        old = fd.ops.segment_set(t) if cut else t
        fd.add_output(fd.ops.add(fd.ops.broadcast(old, [True, False, False]), u))
    for _ in range(2):
        buffer = x.clone()
        (got,) = fd.execute([buffer, y])
        assert torch.equal(got, x + y)
        assert torch.equal(buffer, x.relu())


@pytest.mark.report("D26")
def test_an_updated_value_is_returned_when_asked_for() -> None:
    x = randn(4, 5)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        new = fd.ops.mul(t, 2.0)
        fd.add_output(new, t)
        fd.add_output(new)
    for _ in range(2):
        buffer = x.clone()
        got = fd.execute([buffer])
        assert len(got) == 1
        assert torch.equal(got[0], 2 * x)
        assert torch.equal(buffer, 2 * x)


@pytest.mark.report("D27")
@pytest.mark.parametrize("strides", [(3, 1), (1, 3), (5, 2)])
def test_update_leaves_the_gaps_alone(strides: tuple) -> None:
    base = randn(40)
    buffer = base.clone()
    view = buffer.as_strided((2, 2), strides, 1)
    with FusionDefinition() as fd:
        t = fd.define_tensor(**describe(view, D.Float, True))
        fd.add_output(fd.ops.relu(t), t)
    fd.execute([view])
    want = base.clone()
    want.as_strided((2, 2), strides, 1).relu_()
    assert torch.equal(buffer, want)


# ---- Lookups ----


@pytest.mark.report("D21")
@pytest.mark.parametrize("shape", [(5, 5), (1, 7), (3, 0)])
def test_lookup_by_a_reshaped_index(shape: tuple) -> None:
    n = shape[0] * shape[1]

    def program(fd, ids, table):
        rows = fd.ops.index_select(table, fd.ops.reshape(ids, [n]), 0)
        return fd.ops.reshape(rows, [*shape, 16])

    agree(
        program,
        lambda ids, table: F.embedding(ids, table),
        integers(0, 99, shape),
        randn(99, 16),
    )


@pytest.mark.report("D22")
@pytest.mark.parametrize("n", [1, 40])
def test_lookup_in_a_table_repeated_in_a_batch(n: int) -> None:
    ids, table = integers(0, n, (7,)), randn(n, 3)

    def program(fd, ids, table):
        index = fd.ops.broadcast_in_dim(ids, [5, 7, 3], [1])
        values = fd.ops.broadcast_in_dim(table, [5, n, 3], [1, 2])
        return fd.ops.take_along_axis(values, index, 1), fd.ops.gather(values, index, 1)

    agree(program, lambda ids, table: [table[ids].expand(5, 7, 3)] * 2, ids, table)


# ---- Scalars ----


@pytest.mark.report("D47")
def test_tensors_without_dimensions() -> None:
    s = torch.tensor(2.5)
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], contiguity=[True])
        c = fd.define_tensor(shape=[], contiguity=[], is_cpu=True)
        fd.add_output(fd.ops.mul(t, c))
        fd.add_output(fd.ops.mul(fd.ops.full([3], 2.0, D.Float), c))
    x = randn(6)
    for _ in range(2):
        got = fd.execute([x, s])
        assert torch.equal(got[0], x * s)
        assert torch.equal(got[1], torch.full((3,), 5.0))


@pytest.mark.report("D48")
def test_unused_scalars_are_fine() -> None:
    agree(lambda fd, x, n, m: fd.ops.add(x, m), lambda x, n, m: x + m, torch.arange(6), 7, 5)


@pytest.mark.report("D48")
def test_a_scalar_is_no_output() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=[True])
        flag = fd.ops.cast(fd.define_scalar(None, dtype=D.Int), D.Bool)
        fd.add_output(fd.ops.neg(x))
        with pytest.raises((FusionError, TypeError, ValueError)):
            fd.add_output(flag)
    assert torch.equal(fd.execute([torch.ones(3), 1])[0], -torch.ones(3))


# ---- Size of the program ----


@pytest.mark.report("D49")
def test_values_used_twice_thirty_times_over() -> None:
    def program(fd, x, y):
        a = fd.ops.add(x, y)
        for _ in range(32):
            a = fd.ops.add(fd.ops.cos(a), fd.ops.sin(a))
        return a

    def expected(x, y):
        a = x.double() + y.double()
        for _ in range(32):
            a = a.cos() + a.sin()
        return a.float()

    agree(program, expected, randn(50), randn(50, seed=1), rtol=1e-4, atol=1e-4)


@pytest.mark.report("D49")
def test_thirty_layers() -> None:
    weights = [randn(16, 16, seed=i) / 3 for i in range(30)]

    def program(fd, x, *weights):
        for w in weights:
            x = fd.ops.relu(fd.ops.linear(x, w))
        return x

    def expected(x, *weights):
        for w in weights:
            x = F.linear(x, w).relu()
        return x

    agree(program, expected, randn(5, 16), *weights, rtol=1e-4, atol=1e-4)


@pytest.mark.report("D50")
def test_equal_definitions_share_an_entry_of_the_cache() -> None:
    cache = LRUCache(max_fusions=10)
    x = randn(4, 5)

    def build(scale: float):
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.mul(fd.from_pytorch(x), scale))
        return fd

    for scale in (2.0, 3.0, 2.0, 3.0, 2.0):
        executor = cache.cache_compile(build(scale).fusion)
        assert torch.equal(executor.execute([x])[0], x * scale)
    assert cache.num_fusions() == 2
