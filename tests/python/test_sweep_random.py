"""Random rows: the documented definition of their values, computed here with numpy, and what follows from a seed."""

import numpy as np
import pytest
import torch
from sweep_values import ran

from nvfuser_go import DataType, FusionDefinition, InvalidArgument, InvalidType

D = DataType
TORCH = {D.Double: torch.float64, D.Float: torch.float32, D.Half: torch.float16, D.BFloat16: torch.bfloat16}
PRECISION = {D.Float: 24, D.Half: 11, D.BFloat16: 8}
SEEDS = [(0, 0), (1, 4), (2**40 + 17, 8), (2**63 - 1, 2**34)]
SHAPES = [(7,), (3, 5), (2, 3, 33), (1,), ()]


def philox(seed: int, offset: int, subsequence: np.ndarray) -> np.ndarray:
    """Philox4x32-10 after Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11: blocks of four words."""
    mask = np.uint64(0xFFFFFFFF)
    low, shift = (lambda v: np.asarray(v, np.uint64) & mask), np.uint64(32)
    n = len(subsequence)
    counter = [
        np.full(n, offset & 0xFFFFFFFF, np.uint64),
        np.full(n, offset >> 32, np.uint64),
        low(subsequence),
        np.asarray(subsequence, np.uint64) >> shift,
    ]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (second >> shift) ^ counter[1] ^ np.uint64(key[0]),
            low(second),
            (first >> shift) ^ counter[3] ^ np.uint64(key[1]),
            low(first),
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(counter, 1)


def test_philox_itself() -> None:
    # Known answers of the paper's library: counter and key of zeros.
    assert [hex(w) for w in philox(0, 0, np.array([0]))[0]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


def uniform_numbers(dtype: DataType, seed: int, offset: int, n: int) -> np.ndarray:
    """Numbers in [0, 1): the low bits of a word, as many as the type is precise."""
    i = np.arange(n)
    if dtype is D.Double:
        words = philox(seed, offset // 4, i // 2)
        pair = 2 * (i % 2)
        w = (words[i, pair + 1] << np.uint64(32)) | words[i, pair]
        return (w & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53
    p = PRECISION[dtype]
    words = philox(seed, offset // 4, i // 4)[i, i % 4]
    return (words & np.uint64(2**p - 1)).astype(np.float64) * 2.0**-p


def normal_numbers(dtype: DataType, seed: int, offset: int, n: int) -> np.ndarray:
    """Pairs by the method of Box and Muller."""
    i = np.arange(n)
    if dtype is D.Double:
        words = philox(seed, offset // 4, i // 2)
        first, second = (words[:, 2 * k] | words[:, 2 * k + 1] << np.uint64(32) for k in (0, 1))
        u = ((first >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53
        v = (second >> np.uint64(11)).astype(np.float64) * 2.0**-53
    else:
        words = philox(seed, offset // 4, i // 4).astype(np.float32).astype(np.float64)
        pair = 2 * (i % 4 // 2)
        u = (words[i, pair] * 2.0**-32 + 2.0**-33).astype(np.float32).astype(np.float64)
        v = words[i, pair + 1] * 2.0**-32
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    numbers = radius * np.where(i % 2 == 0, np.cos(angle), np.sin(angle))
    return torch.from_numpy(numbers).to(TORCH[dtype]).double().numpy()


def run(build, inputs=()) -> list[torch.Tensor]:
    with FusionDefinition() as fd:
        out = build(fd)
        for t in out if isinstance(out, list) else [out]:
            fd.add_output(t)
    return fd.execute(list(inputs))


def near(got: torch.Tensor, want: np.ndarray, dtype: DataType) -> None:
    assert got.dtype is TORCH[dtype]
    want = torch.from_numpy(np.asarray(want)).reshape(got.shape)
    if dtype is D.Double:
        torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-14)
        return
    want = want.to(torch.float32).to(got.dtype)
    step = (want.double().abs() * torch.finfo(got.dtype).eps).clamp(min=1e-7)
    assert ((got.double() - want.double()).abs() <= step).all()


def drawn(dtype: DataType, shape: tuple, seed: int, offset: int, dynamic: bool) -> list[torch.Tensor]:
    def build(fd):
        sizes = [fd.define_scalar(dtype=D.Int) for _ in shape] if dynamic else list(shape)
        key = [fd.define_scalar(dtype=D.Int) for _ in range(2)] if dynamic else [seed, offset]
        options = {"rng_seed": key[0], "rng_offset": key[1], "dtype": dtype}
        for name in ("uniform", "normal"):
            ran[name] = ran.get(name, 0) + 1
        return [fd.ops.uniform(-1.0, 3.0, sizes, **options), fd.ops.normal(0.5, 2.0, sizes, **options)]

    return run(build, [*shape, seed, offset] if dynamic else [])


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("dynamic", [False, True])
def test_values_of_a_seed(dtype: DataType, dynamic: bool) -> None:
    for seed, offset in SEEDS:
        for shape in SHAPES:
            uniform, normal = drawn(dtype, shape, seed, offset, dynamic)
            n = int(np.prod(shape))
            assert uniform.shape == normal.shape == torch.Size(shape)
            near(uniform, -1.0 + 4.0 * uniform_numbers(dtype, seed, offset, n), dtype)
            near(normal, 0.5 + 2.0 * normal_numbers(dtype, seed, offset, n), dtype)
            assert (uniform >= -1).all()
            assert (uniform < 3).all()


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("layout", ["dense", "permuted", "gapped"])
def test_like(dtype: DataType, layout: str) -> None:
    # The values depend on the position in the shape, not on the memory of the argument.
    x = torch.zeros(6, 10, dtype=TORCH[dtype])
    if layout != "dense":
        x = x.T.contiguous().T if layout == "permuted" else torch.zeros(6, 13, dtype=x.dtype)[:, 1:11]

    def build(fd):
        t = fd.from_pytorch(x)
        return [fd.ops.rand_like(t, 11, 8), fd.ops.randn_like(t, 11, 8)]

    uniform, normal = run(build, [x])
    for name in ("rand_like", "randn_like"):
        ran[name] = ran.get(name, 0) + 1
    near(uniform, uniform_numbers(dtype, 11, 8, 60), dtype)
    near(normal, normal_numbers(dtype, 11, 8, 60), dtype)


@pytest.mark.report("D35")
@pytest.mark.parametrize("dtype", TORCH)
def test_uniform_stays_below_its_bound(dtype: DataType) -> None:
    # Rounding after scaling must not reach the bound.
    (x,) = run(lambda fd: fd.ops.uniform(0.0, 1.0, [1 << 16], rng_seed=5, rng_offset=0, dtype=dtype))
    assert (x.min() >= 0).item()
    assert (x.max() < 1).item()
    (x,) = run(lambda fd: fd.ops.uniform(2.0, 3.0, [1 << 16], rng_seed=5, rng_offset=0, dtype=dtype))
    assert (x.min() >= 2).item()
    assert (x.max() < 3).item()
    assert abs(x.double().mean().item() - 2.5) < 0.01


def test_normal_moments() -> None:
    (x,) = run(lambda fd: fd.ops.normal(1.0, 3.0, [1 << 16], rng_seed=5, rng_offset=0))
    assert abs(x.double().mean().item() - 1) < 0.05
    assert abs(x.double().std().item() - 3) < 0.05


def test_zero_elements() -> None:
    (x,) = run(lambda fd: fd.ops.uniform(0.0, 1.0, [3, 0], rng_seed=1, rng_offset=0))
    assert x.shape == (3, 0)


def test_seed_of_torch_makes_runs_repeatable() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [64]))
        fd.add_output(fd.ops.normal(0.0, 1.0, [64]))
    torch.manual_seed(3)
    first, second = fd.execute([]), fd.execute([])
    torch.manual_seed(3)
    again = fd.execute([])
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])


@pytest.mark.parametrize("options", [[], ["simulate"]])
@pytest.mark.parametrize(
    ("define", "moves"),
    [
        (lambda fd: fd.ops.uniform(0.0, 1.0, [4]), True),
        (lambda fd: fd.ops.uniform(0.0, 1.0, [4, 0]), False),
        (lambda fd: fd.ops.sum(fd.ops.uniform(0.0, 1.0, [4, 0]), [1]), False),
        (lambda fd: fd.ops.uniform(0.0, 1.0, [4], rng_seed=1, rng_offset=0), False),
        # nothing reads what is drawn, as in torch.rand(4)[:0]
        (lambda fd: fd.ops.slice(fd.ops.uniform(0.0, 1.0, [4]), [0], [0]), True),
    ],
)
def test_the_generator_moves_where_a_random_operation_has_elements(define, moves, options) -> None:
    with FusionDefinition() as fd:
        fd.add_output(define(fd))
        fd.add_output(fd.ops.iota(3))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    fd.execute([], device="cpu", _enable_options=options)
    assert torch.equal(torch.get_rng_state(), before) != moves


def test_two_unseeded_ops_differ() -> None:
    torch.manual_seed(0)
    a, b = run(lambda fd: [fd.ops.uniform(0.0, 1.0, [64]), fd.ops.uniform(0.0, 1.0, [64])])
    assert not torch.equal(a, b)


@pytest.mark.report("D36")
def test_equal_seeds_agree_across_fusions_and_uses() -> None:
    def draw(fd):
        return fd.ops.uniform(0.0, 1.0, [5, 7], rng_seed=9, rng_offset=4)

    (alone,) = run(draw)
    x = torch.randn(5, 7)

    def scaled(fd):
        r = draw(fd)
        return [fd.ops.mul(fd.from_pytorch(x), r), r, fd.ops.permute(r, [1, 0]), fd.ops.sum(r, [1])]

    product, r, turned, total = run(scaled, [x])
    assert torch.equal(r, alone)
    assert torch.equal(product, x * alone)
    assert torch.equal(turned, alone.T)
    torch.testing.assert_close(total, alone.sum(1))
    (other,) = run(lambda fd: fd.ops.uniform(0.0, 1.0, [5, 7], rng_seed=9, rng_offset=8))
    assert not torch.equal(other, alone)


@pytest.mark.report("D37")
def test_mask_of_a_broadcast_is_equal_along_it() -> None:
    x = torch.randn(6, 40)[:, ::2]

    def build(fd):
        t = fd.from_pytorch(x)
        mask = fd.ops.uniform(0.0, 1.0, [6, 1], rng_seed=2, rng_offset=0)
        return [fd.ops.mul(t, fd.ops.lt(mask, 0.5)), mask]

    out, mask = run(build, [x])
    assert torch.equal(out, x * (mask < 0.5))


@pytest.mark.parametrize("dtype", [D.Int, D.Bool, D.ComplexFloat, D.Float8_e4m3fn])
def test_refused_types(dtype: DataType) -> None:
    with pytest.raises(InvalidType), FusionDefinition() as fd:
        fd.ops.uniform(0.0, 1.0, [4], dtype=dtype)


def test_seed_without_offset() -> None:
    with pytest.raises(InvalidArgument), FusionDefinition() as fd:
        fd.ops.uniform(0.0, 1.0, [4], rng_seed=1)
