"""Programs of the kinds that broke in fusers: types, constants, reductions, normalisations and products."""

import math

import pytest
import torch
import torch.nn.functional as F
from agreement import OF, agree, integers, randn

from nvfuser_go import DataType, FusionDefinition

D = DataType


def gelu(fd, x):
    """The tanh approximation of gelu."""
    cube = fd.ops.mul(fd.ops.mul(x, x), x)
    inner = fd.ops.mul(fd.ops.add(x, fd.ops.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
    return fd.ops.mul(fd.ops.mul(x, 0.5), fd.ops.add(fd.ops.tanh(inner), 1.0))


def softmax(fd, x, dim: int):
    shape = x.shape()
    dims = [i for i in range(x.ndim) if i != dim % x.ndim]
    top = fd.ops.broadcast_in_dim(fd.ops.max(x, dim), shape, dims)
    e = fd.ops.exp(fd.ops.sub(x, top))
    return fd.ops.div(e, fd.ops.broadcast_in_dim(fd.ops.sum(e, dim), shape, dims))


# ---- Constants and their types ----


@pytest.mark.report("D28")
def test_nan_and_inf_constants() -> None:
    def program(fd, x):
        return (
            fd.ops.add(x, math.nan),
            fd.ops.where(fd.ops.gt(x, 0.0), x, -math.inf),
            fd.ops.mul(x, math.inf),
            fd.ops.add(fd.ops.mul(x, math.nan), math.nan),
        )

    def expected(x):
        return x + math.nan, torch.where(x > 0, x, -math.inf), x * math.inf, x * math.nan

    agree(program, expected, randn(7))


@pytest.mark.report("D28")
def test_nan_scalar_tensor_twice() -> None:
    agree(lambda fd, x, s: fd.ops.add(x, s), lambda x, s: x + s, randn(5), torch.tensor(math.nan))
    agree(lambda fd, x, s: fd.ops.add(x, s), lambda x, s: x + s, randn(5), math.nan)


@pytest.mark.report("D29")
@pytest.mark.parametrize("n", [2, 33, 1000])
def test_max_and_min_show_nan(n: int) -> None:
    x = randn(5, n)
    x[1, n // 2] = math.nan
    x[3] = math.nan
    agree(
        lambda fd, x: (fd.ops.max(x, 1), fd.ops.min(x, 1), fd.ops.max(x), fd.ops.max(x, 0)),
        lambda x: (x.amax(1), x.amin(1), x.amax(), x.amax(0)),
        x,
    )


@pytest.mark.report("D30")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_type_beside_constants(dtype: torch.dtype) -> None:
    x = randn(6, dtype=dtype)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        for kind in (D.Double, D.Float):
            zero, one = fd.define_scalar(-0.0, dtype=kind), fd.define_scalar(1.5, dtype=kind)
            positive = fd.ops.gt(t, zero)
            fd.add_output(fd.ops.where(positive, t, one))
            fd.add_output(fd.ops.add(t, one))
            fd.add_output(fd.ops.mul(t, one))
        fd.add_output(fd.ops.where(fd.ops.gt(t, 0.0), -0.0, 0.0))
    *got, signs = fd.execute([x])
    w = x.to(wide)
    for i in (0, 3):
        torch.testing.assert_close(got[i], torch.where(w > 0, w, 1.5))
        torch.testing.assert_close(got[i + 1], w + 1.5)
        torch.testing.assert_close(got[i + 2], w * 1.5)
    assert signs.dtype is torch.float32
    assert torch.equal(signs.signbit(), x > 0)


@pytest.mark.report("D31")
@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.int64])
def test_prefix_sums_of_integers(dtype: torch.dtype) -> None:
    x = integers(0, 2, (5, 33)).to(dtype)
    agree(lambda fd, x: (fd.ops.cumsum(x, 1), fd.ops.sum(x, 0)), lambda x: (x.cumsum(1), x.sum(0)), x)


@pytest.mark.parametrize("simulated", [False, True])
def test_products_in_double_of_what_leaves_the_range_of_float(simulated: bool) -> None:
    x = torch.tensor([1e30, 1e-30], dtype=torch.float32).repeat_interleave(8).expand(3, 16).clone()
    with FusionDefinition() as fd:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=D.Double)
        for y in (fd.ops.prod(wide, 1), fd.ops.cumprod(wide, 1)):
            fd.add_output(fd.ops.cast(y, dtype=D.Float))
    got = fd.execute([x], _enable_options=["simulate"] if simulated else [])
    want = x.double().prod(1).float(), x.double().cumprod(1).float()
    assert got[0].isfinite().all() and got[1].isinf().sum() == 3 * 13
    torch.testing.assert_close(got, list(want))


@pytest.mark.report("D32")
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc"])
def test_rounding_integers_changes_nothing(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([0, -5, 2**31 - 1, -(2**31), 3], dtype=dtype)
    agree(lambda fd, x: getattr(fd.ops, name)(x), lambda x: x, x)


@pytest.mark.report("D33")
@pytest.mark.parametrize("name", ["fmod", "add", "mul", "pow"])
def test_bfloat16_beside_a_double_number(name: str) -> None:
    # Computed in Float and rounded once at the end.
    x = randn(1001, dtype=torch.bfloat16).abs() + 0.25
    operation = {"fmod": torch.fmod, "add": torch.add, "mul": torch.mul, "pow": torch.pow}[name]
    agree(
        lambda fd, x: fd.ops.cast(getattr(fd.ops, name)(x, 0.7), D.BFloat16),
        lambda x: operation(x.double(), torch.tensor(0.7, dtype=torch.float32).double()).bfloat16(),
        x,
        rtol=2**-7,
        atol=0,
    )


@pytest.mark.report("D34")
def test_cancellation_is_near_the_exact_result() -> None:
    q, angle = randn(64, 32, dtype=torch.bfloat16), randn(64, 32)
    cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
    other = (q.float() * cos.float() / sin.float()).bfloat16()
    agree(
        lambda fd, q, o, c, s: fd.ops.add(fd.ops.mul(c, q), fd.ops.mul(fd.ops.neg(o), s)),
        lambda q, o, c, s: (c.double() * q.double() - o.double() * s.double()).float(),
        q,
        other,
        cos,
        sin,
        rtol=1e-6,
        atol=1e-6,
    )


# ---- Reductions and normalisations ----


@pytest.mark.report("D02")
@pytest.mark.parametrize("shape", [(6, 17, 40), (1, 1, 33), (3, 0, 5)])
def test_one_input_cast_twice_and_reduced_along_different_dimensions(shape: tuple) -> None:
    def program(fd, x):
        a, b = fd.ops.cast(x, D.Float), fd.ops.cast(x, D.Float)
        return fd.ops.sum(b, [0, 1]), fd.ops.sum(a, [0, 1]), fd.ops.sum(a, [2])

    def expected(x):
        x = x.float()
        return x.sum((0, 1)), x.sum((0, 1)), x.sum(2)

    agree(program, expected, randn(*shape, dtype=torch.bfloat16), rtol=1e-5, atol=1e-4)


@pytest.mark.report("D04")
def test_two_dependent_row_means_are_the_same_every_time() -> None:
    x = randn(37, 1001)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        shape = t.shape()
        mean = fd.ops.div(fd.ops.sum(t, 1), 1001.0)
        centred = fd.ops.sub(t, fd.ops.broadcast_in_dim(mean, shape, [0]))
        square = fd.ops.div(fd.ops.sum(fd.ops.mul(centred, centred), 1), 1001.0)
        fd.add_output(fd.ops.mul(centred, fd.ops.broadcast_in_dim(fd.ops.rsqrt(square), shape, [0])))
    first = fd.execute([x])[0]
    torch.testing.assert_close(first, F.layer_norm(x, (1001,), eps=0.0), rtol=1e-5, atol=1e-5)
    for _ in range(49):
        assert torch.equal(fd.execute([x])[0], first)


@pytest.mark.report("D10")
@pytest.mark.parametrize("shape", [(16, 64), (1000, 77), (1, 1)])
def test_bias_gelu_and_the_largest_magnitude(shape: tuple) -> None:
    def program(fd, x, b):
        y = gelu(fd, fd.ops.add(x, fd.ops.broadcast_in_dim(b, x.shape(), [1])))
        top = fd.ops.max(fd.ops.abs(y), [0, 1])
        scale = fd.ops.broadcast_in_dim(fd.ops.div(448.0, top), x.shape(), [])
        return y, top, fd.ops.clamp(fd.ops.mul(y, scale), -448.0, 448.0)

    def expected(x, b):
        y = F.gelu(x.float() + b.float(), approximate="tanh")
        top = y.abs().amax()
        return y, top, (y * (448.0 / top)).clamp(-448, 448)

    agree(
        program,
        expected,
        randn(*shape, dtype=torch.bfloat16),
        randn(shape[1], dtype=torch.bfloat16),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.report("D11")
@pytest.mark.parametrize("n", [1, 96])
def test_sum_of_lookups_and_normalisation(n: int) -> None:
    tables = [randn(4, 33, seed=i) for i in range(3)]
    ids = [integers(0, 4, (n,), seed=i) for i in range(3)]
    extra = randn(n, 33, dtype=torch.bfloat16)

    def program(fd, extra, *rest):
        total = extra
        for table, index in zip(rest[:3], rest[3:], strict=True):
            total = fd.ops.add(total, fd.ops.index_select(table, index, 0))
        square = fd.ops.div(fd.ops.sum(fd.ops.mul(total, total), 1, keepdim=True), 33.0)
        return fd.ops.mul(total, fd.ops.expand(fd.ops.rsqrt(fd.ops.add(square, 1e-6)), total.shape()))

    def expected(extra, *rest):
        total = extra.double() + sum(t.double()[i] for t, i in zip(rest[:3], rest[3:], strict=True))
        return (total * (total.square().mean(1, keepdim=True) + 1e-6).rsqrt()).float()

    agree(program, expected, extra, *tables, *ids, rtol=1e-5, atol=1e-5)


@pytest.mark.report("D23")
@pytest.mark.parametrize("n", [0, 1, 257])
def test_half_input_used_through_its_cast_only(n: int) -> None:
    def program(fd, x):
        y = fd.ops.cast(x, D.Float)
        return fd.ops.cast(fd.ops.add(y, y), D.Half), fd.ops.sum(y, 0), fd.ops.sum(y, 1)

    agree(
        program,
        lambda x: (x + x, x.float().sum(0), x.float().sum(1)),
        randn(n, 9, dtype=torch.float16),
        rtol=1e-5,
        atol=1e-4,
    )


@pytest.mark.report("D41")
@pytest.mark.parametrize("shape", [(4, 1000), (1, 33), (5, 1), (0, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_layer_norm_of_sizes_read_from_the_input(shape: tuple, dtype: torch.dtype) -> None:
    n = shape[1]

    def program(fd, x, w, b):
        sizes = [fd.ops.size(x, 0), fd.ops.size(x, 1)]
        var, mean = fd.ops.var_mean(fd.ops.cast(x, D.Float), [1], correction=0, keepdim=True)
        y = fd.ops.mul(
            fd.ops.sub(x, fd.ops.expand(mean, sizes)), fd.ops.expand(fd.ops.rsqrt(fd.ops.add(var, 1e-5)), sizes)
        )
        y = fd.ops.mul(y, fd.ops.broadcast_in_dim(w, sizes, [1]))
        return fd.ops.cast(fd.ops.add(y, fd.ops.broadcast_in_dim(b, sizes, [1])), OF[dtype])

    def expected(x, w, b):
        return F.layer_norm(x.double(), (n,), w.double(), b.double()).to(dtype)

    agree(program, expected, randn(*shape, dtype=dtype), randn(n, dtype=dtype), randn(n, dtype=dtype, seed=5))


@pytest.mark.parametrize("dims", [[0], [1], [0, 1], [0, 1, 2], [2, 0]])
def test_variance_over_any_dimensions(dims: list) -> None:
    agree(
        lambda fd, x: fd.ops.var_mean(x, dims, correction=1, keepdim=False),
        lambda x: torch.var_mean(x, dims, correction=1),
        randn(5, 3, 33),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.report("D42")
@pytest.mark.parametrize("rows", [1, 1000, 16384])
def test_sums_over_many_rows(rows: int) -> None:
    g, x = randn(rows, 33), randn(rows, 33, seed=4)
    agree(
        lambda fd, g, x: (fd.ops.sum(fd.ops.mul(g, x), 0), fd.ops.sum(g, [0])),
        lambda g, x: ((g.double() * x.double()).sum(0).float(), g.double().sum(0).float()),
        g,
        x,
        rtol=1e-6 * math.sqrt(rows),
        atol=1e-6 * math.sqrt(rows),
    )


@pytest.mark.report("D43")
@pytest.mark.parametrize("rows", [3, 129])
def test_cat_of_two_column_sums(rows: int) -> None:
    def program(fd, x, y):
        return fd.ops.cat([fd.ops.sum(fd.ops.mul(x, y), 0), fd.ops.sum(y, 0)], 0)

    torch.full((66,), math.nan)  # memory that the output may get
    agree(
        program,
        lambda x, y: torch.cat([(x * y).sum(0), y.sum(0)]),
        randn(rows, 33),
        randn(rows, 33, seed=2),
        rtol=1e-5,
        atol=1e-4,
    )


@pytest.mark.report("D38")
@pytest.mark.parametrize("length", [1, 33, 200])
def test_softmax_of_a_slice_of_a_mask(length: int) -> None:
    mask = torch.ones(1, 1, 256, 256).tril()

    def program(fd, mask, scores):
        part = fd.ops.slice(mask, [0, 0, 0, 0], [1, 1, length, length])
        part = fd.ops.broadcast_in_dim(part, scores.shape(), [0, 1, 2, 3])
        return softmax(fd, fd.ops.where(fd.ops.eq(part, 0.0), -math.inf, scores), 3)

    def expected(mask, scores):
        return torch.softmax(scores.masked_fill(mask[..., :length, :length] == 0, -math.inf), -1)

    agree(program, expected, mask, randn(2, 3, length, length))


# ---- Matrix products ----


@pytest.mark.report("D44")
@pytest.mark.parametrize("sizes", [(2, 3, 5), (8, 8, 128), (1, 1, 1), (219, 33, 65), (3, 0, 4), (0, 5, 4)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_matrix_products_of_any_size(sizes: tuple, dtype: torch.dtype) -> None:
    m, k, n = sizes
    agree(
        lambda fd, a, b: fd.ops.matmul(a, b),
        lambda a, b: (a.double() @ b.double()).to(dtype),
        randn(m, k, dtype=dtype),
        randn(k, n, dtype=dtype),
    )


@pytest.mark.report("D45")
def test_linear_gelu_linear() -> None:
    def program(fd, x, w, b, v):
        return fd.ops.linear(gelu(fd, fd.ops.linear(x, w, b)), v)

    def expected(x, w, b, v):
        return F.linear(F.gelu(F.linear(x, w, b), approximate="tanh"), v)

    agree(program, expected, randn(3, 7, 20), randn(33, 20) / 4, randn(33), randn(5, 33) / 5, rtol=1e-4, atol=1e-5)


@pytest.mark.report("D45")
def test_batched_products_of_one_column_and_their_sums() -> None:
    def program(fd, a, b):
        c = fd.ops.matmul(a, b)
        return c, fd.ops.sum(c, 1), fd.ops.sum(c, [0, 2])

    agree(
        program,
        lambda a, b: (a @ b, (a @ b).sum(1), (a @ b).sum((0, 2))),
        randn(4, 9, 1),
        randn(4, 1, 7),
        rtol=1e-5,
        atol=1e-5,
    )
