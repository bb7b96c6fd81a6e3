"""Execution by simulated GPU kernels."""

import pytest
import torch
from sweep_values import describe

from nvfuser_go import DataType, FusionDefinition


def simulate(fd: FusionDefinition, *inputs: object) -> list[torch.Tensor]:
    return fd.execute(list(inputs), _enable_options=["simulate"])


def test_elementwise():
    x = torch.randn(37, 5)
    y = torch.randn(5)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        c = fd.define_scalar(dtype=DataType.Double)
        b = fd.ops.broadcast(b, [True, False])
        fd.add_output(fd.ops.relu(fd.ops.add(fd.ops.mul(a, c), b)))
    (out,) = simulate(fd, x, y, 1.5)
    assert torch.allclose(out, torch.relu(x * 1.5 + y))
    assert torch.equal(out, fd.execute([x, y, 1.5])[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.complex64])
def test_dtypes(dtype: torch.dtype):
    x = torch.arange(-70, 70).to(dtype)
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.add(a, fd.ops.neg(fd.ops.mul(a, a))))
    (out,), (expected,) = simulate(fd, x), fd.execute([x])
    assert out.dtype == expected.dtype
    assert torch.equal(out, expected)


def test_views_keep_strides():
    x = torch.randn(6, 7, 8).permute(2, 0, 1)
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.exp(a))
        fd.add_output(fd.ops.permute(a, [1, 2, 0]))
    for simulated, expected in zip(simulate(fd, x), fd.execute([x]), strict=True):
        assert torch.allclose(simulated, expected)
        assert simulated.stride() == expected.stride()


@pytest.mark.parametrize("dims", [[0], [1], [2], [0, 2], [0, 1, 2]])
def test_reductions(dims: list[int]):
    x = torch.randn(5, 33, 7)
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(fd.ops.abs(a), dims))
        fd.add_output(fd.ops.max(a, dims))
    total, largest = simulate(fd, x)
    assert torch.allclose(total, x.abs().sum(dims))
    assert torch.equal(largest, x.amax(dims))


def test_random_numbers_are_those_of_the_cpu():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [33, 5], rng_seed=3, rng_offset=1, dtype=DataType.Float))
    assert torch.equal(simulate(fd)[0], fd.execute([])[0])


def test_several_kernels():
    """What one kernel does not hold is computed by several."""
    x = torch.randn(3, 5)
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        total = fd.ops.broadcast(fd.ops.sum(a, [1]), [False, True])
        fd.add_output(fd.ops.div(a, total))
    assert torch.allclose(simulate(fd, x)[0], x / x.sum(1, keepdim=True))
    assert torch.allclose(fd.execute([x])[0], x / x.sum(1, keepdim=True))


SHAPES = [(), (1,), (7,), (129,), (33, 5), (0, 3), (1, 65), (3, 2, 43), (5, 1, 7)]


def layouts(shape: tuple[int, ...]) -> list[torch.Tensor]:
    """A dense tensor, one in reverse order in memory, one with gaps and one that is expanded."""
    x, backwards = torch.randn(shape), list(reversed(range(len(shape))))
    wide = torch.randn([n + 1 for n in shape])
    one = torch.randn(shape[:1] + (1,) * (len(shape) - 1))
    return [x, x.permute(backwards).contiguous().permute(backwards), wide[tuple(map(slice, shape))], one.expand(shape)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_shapes_elementwise(shape: tuple[int, ...], dynamic: bool):
    for x in layouts(shape):
        with FusionDefinition() as fd:
            a = fd.from_pytorch(x) if not dynamic else fd.define_tensor(**describe(x, DataType.Float, True))
            b = fd.ops.add(fd.ops.mul(a, 2.0), fd.define_scalar(dtype=DataType.Double))
            fd.add_output(b)
            fd.add_output(fd.ops.cast(fd.ops.neg(b), dtype=DataType.Half))
        for candidate in range(3):
            got = fd.execute([x, 0.5], _enable_options=[f"simulate({candidate})"])
            for simulated, expected in zip(got, fd.execute([x, 0.5]), strict=True):
                assert torch.equal(simulated, expected)
                assert simulated.stride() == expected.stride()


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_shapes_reduction(shape: tuple[int, ...]):
    all_dims = [[d for d in range(len(shape)) if bits >> d & 1] for bits in range(1, 1 << len(shape))]
    for x in layouts(shape):
        for dims in all_dims:
            with FusionDefinition() as fd:
                a = fd.ops.abs(fd.from_pytorch(x))
                fd.add_output(fd.ops.mul(fd.ops.sum(a, dims), 0.5))
                if 0 not in x.stride():  # two reductions of what is expanded have no axis in common
                    fd.add_output(fd.ops.max(a, dims, keepdim=True))
            for candidate in range(3):
                got = fd.execute([x], _enable_options=[f"simulate({candidate})"])
                for simulated, expected in zip(got, fd.execute([x]), strict=True):
                    torch.testing.assert_close(simulated, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("shape", "dims"), [((2, 40000), [1]), ((40000,), [0]), ((20000, 3), [0]), ((150, 401), [0, 1])]
)
def test_long_reductions(shape: tuple[int, ...], dims: list[int]):
    """Blocks share a reduction in the first schedule, and do not in the second."""
    x = torch.randn(shape)
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.mul(fd.ops.sum(fd.ops.abs(a), dims), 2.0))
        fd.add_output(fd.ops.max(a, dims))
    for candidate in range(2):
        total, largest = fd.execute([x], _enable_options=[f"simulate({candidate})"])
        torch.testing.assert_close(total, x.abs().sum(dims) * 2, rtol=1e-5, atol=0)
        assert torch.equal(largest, x.amax(dims))
    assert "blockIdx.y" in fd.fec.get_scheduled_ir([x])


def test_scatter_of_long_lines() -> None:
    """A kernel has each element look at its whole line of the index, so torch is called for long ones."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1])
        index = fd.define_tensor([-1], dtype=DataType.Int)
        y = fd.ops.scatter(x, index, x * 2.0, 0)
        fd.add_output(y, x)
        fd.add_output(y + x)
    for size in (7, 1000, 128, 129, 5):
        before = torch.randn(size)
        places = torch.randperm(size)
        after = before.scatter(0, places, before * 2)
        given = before.clone()
        (total,) = simulate(fd, given, places)
        assert torch.equal(given, after)
        assert torch.equal(total, after + before)
        assert ("call of torch for scatter()" in str(fd.explain([before, places]))) == (size > 128)


def test_a_tensor_and_a_part_that_begins_where_it_does():
    x = torch.arange(33 * 7).view(33, 7)
    with FusionDefinition() as fd:
        ops = fd.ops
        sums = ops.cumsum(fd.define_tensor(shape=[33, 7], dtype=DataType.Int), 1)
        fd.add_output(ops.add(ops.slice(sums, [0, 0], [1, 7]), sums))
    expected = torch.cumsum(x, 1)
    assert torch.equal(simulate(fd, x)[0], expected[:1] + expected)


@pytest.mark.parametrize("shape", [(64, 1, 1024), (64, 1024, 1), (1, 64, 1024), (1023, 1, 64, 1), (65536, 1)])
def test_dimensions_that_have_one_element_at_run_time(shape: tuple[int, ...]):
    """Memory goes on over them, so that kernels have vectors and no division."""
    x = torch.randn(shape)  # of which a thread has several elements
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1] * len(shape), contiguity=[True] * len(shape))
        fd.add_output(fd.ops.neg(t))
    (out,) = simulate(fd, x)
    assert torch.equal(out, -x)
    kernel = fd.fec.get_cuda_kernel([x])
    assert "move" in kernel
    assert "fastDiv" not in kernel


def test_one_column_is_sorted_as_a_row():
    x = torch.randint(-5, 6, (300, 1))
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Int)
        fd.add_output(fd.ops.argsort(t, 0))
    for rows in (300, 7):
        (out,) = simulate(fd, x[:rows])
        assert torch.equal(out, torch.argsort(x[:rows], dim=0, stable=True))
    assert "call of torch" not in str(fd.explain([x]))


@pytest.mark.parametrize("dims", [[0, 2], [0, 2, 3]])
@pytest.mark.parametrize("rows, columns", [(448, 32), (1000, 32), (5000, 64)])
def test_columns_are_normalised_as_images_of_one_pixel(rows: int, columns: int, dims: list[int]):
    """A later phase that takes what one before keeps comes first here, which is another candidate's to compute."""
    x = torch.randn(rows, columns)
    with FusionDefinition() as fd:
        t = fd.ops.reshape(fd.from_pytorch(x), [rows, columns] + [1] * (len(dims) - 1))
        variance, mean = fd.ops.var_mean(t, dims, 0, True)
        fd.add_output(fd.ops.mul(fd.ops.sub(t, mean), fd.ops.rsqrt(variance + 1e-5)))
    (out,) = simulate(fd, x)
    expected = (x - x.mean(0)) * torch.rsqrt(x.var(0, unbiased=False) + 1e-5)
    torch.testing.assert_close(out.view(rows, columns), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("offset", [0, 1])
def test_columns_with_a_residual_in_gaps_have_a_kernel(offset: int):
    """Rows of the residual begin where accesses are narrower than those of the other input."""
    x = torch.empty(20000, 512, dtype=torch.bfloat16)
    residual = torch.empty(20000, 516, dtype=torch.bfloat16)[:, offset : 512 + offset]
    with FusionDefinition() as fd:
        t, r = (fd.ops.cast(fd.from_pytorch(y), DataType.Float) for y in (x, residual))
        t = fd.ops.add(t, r)
        mean = fd.ops.mul(fd.ops.sum(t, [0], True), 1 / 20000)
        fd.add_output(fd.ops.cast(fd.ops.sub(t, mean), DataType.BFloat16))
    assert "__global__" in fd.cuda_code_for([x, residual])


def test_joins_beside_others_in_single_elements() -> None:
    """Several outputs that have nothing in common, of which one joins what no vector has: all in single elements."""
    n, options = 256, ["simulate"]
    with FusionDefinition() as fd:
        o, gaps, dense = fd.ops, [False] * 3, [True] * 3

        def tensor(contiguity, shape=(-1, -1, -1), dtype=DataType.Float):
            return fd.define_tensor(shape=list(shape), contiguity=contiguity, dtype=dtype)

        a, whole, b, longer, c = (
            tensor(gaps),
            tensor(dense, dtype=DataType.Int),
            tensor(gaps),
            tensor(gaps),
            tensor(gaps),
        )
        turned, rows, last = tensor(dense), tensor(gaps, (n, 4, 5)), tensor(gaps)
        part, turned = o.slice(longer, [1, 0, 0], [n + 1, 4, 5]), o.permute(turned, [1, 2, 0])
        parts = [o.cast(o.lt(a, a), DataType.Float), o.cast(whole, DataType.Float), b, part]
        parts += [o.where(o.lt(a, part), a, part), o.where(o.lt(part, c), part, c)]
        parts += [o.cast(o.lt(a, turned), DataType.Float), o.where(o.lt(turned, rows), turned, rows)]
        fd.add_output(o.cat([last, o.cat(parts, 1)], 2))
    a, whole, b = torch.randn(n, 4, 1).expand(n, 4, 5), torch.randint(9, (n, 4, 5)), torch.randn(n, 5, 8)[:, :4, :5]
    longer, c = torch.randn(1, 4, 5).expand(n + 1, 4, 5), torch.randn(n, 4, 10)[..., ::2]
    turned, rows, last = torch.randn(5, n, 4), torch.randn(n, 1, 5).expand(n, 4, 5), torch.randn(n, 33, 2)[:, :-1]
    part, t = longer[1:], turned.permute(1, 2, 0)
    parts = [
        torch.zeros(n, 4, 5),
        whole.float(),
        b,
        part,
        torch.minimum(a, part),
        torch.minimum(part, c),
        (a < t).float(),
    ]
    wanted = torch.cat([last, torch.cat([*parts, torch.minimum(t, rows)], 1)], 2)
    (got,) = fd.execute([a, whole, b, longer, c, turned, rows, last], _enable_options=options)
    assert torch.equal(got, wanted)
