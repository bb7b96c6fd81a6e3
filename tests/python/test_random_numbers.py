"""Random numbers are the same bits whatever computes them: each candidate of each scheduler, and any cut, simulated."""

import itertools
import random

import pytest
import torch
from agreement import randn

from nvfuser_go import DataType, FusionDefinition, ParallelType

D = DataType
TYPES = {torch.float32: D.Float, torch.bfloat16: D.BFloat16, torch.float16: D.Half, torch.float64: D.Double}
STATE = {"rng_seed": 2**40 + 77, "rng_offset": 12}
SHAPES = [[1], [5], [3, 5], [1, 33], [33, 1], [7, 130], [2, 3, 65]]


def drawn(shape: list[int], dtype: torch.dtype, op: str = "uniform") -> torch.Tensor:
    """The numbers of STATE, computed on the CPU, where tests of core hold them against Philox itself."""
    with FusionDefinition() as fd:
        fd.add_output(getattr(fd.ops, op)(0.0, 1.0, shape, **STATE, dtype=TYPES[dtype]))
    return fd.execute([])[0]


def alone(fd, x, u):
    return [u]


def beside_a_sum_of_rows(fd, x, u):
    return [u, fd.ops.sum(fd.ops.cast(u, D.Double), [-1])]


def beside_a_sum_of_columns(fd, x, u):
    return [u, fd.ops.sum(fd.ops.cast(u, D.Double), [0])]


def beside_a_norm(fd, x, u):
    y = fd.ops.add(x, fd.ops.cast(u, D.Float))
    return [u, fd.ops.div(y, fd.ops.sum(y, [-1], keepdim=True))]


def turned(fd, x, u):
    back = list(reversed(range(len(x.shape()))))
    return [fd.ops.permute(fd.ops.segment_set(fd.ops.permute(u, back)), back)]


def flattened(fd, x, u):
    shape = x.shape()
    size = shape[0]
    for n in shape[1:]:
        size = fd.ops.mul(size, n)
    return [fd.ops.reshape(fd.ops.segment_set(fd.ops.reshape(u, [size])), shape)]


USES = [alone, beside_a_sum_of_rows, beside_a_sum_of_columns, beside_a_norm, turned, flattened]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["uniform", "normal"])
def test_bits_do_not_depend_on_schedules(op: str, dtype: torch.dtype) -> None:
    for shape, use in itertools.product(SHAPES, USES):
        want = drawn(shape, dtype, op)
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1] * len(shape), True, dtype=D.Float)
            for y in use(fd, x, getattr(fd.ops, op)(0.0, 1.0, x.shape(), **STATE, dtype=TYPES[dtype])):
                fd.add_output(y)
        for candidate in range(3):
            (got, *_) = fd.execute([torch.zeros(shape)], _enable_options=[f"simulate({candidate})"])
            assert torch.equal(got, want), (use.__name__, shape, candidate)


def test_bits_of_wide_steps() -> None:
    """In a size at which a step of a thread has several numbers, and where its first element is none of four."""
    for shape in ([300, 256], [299, 257]):
        for dtype in (torch.float32, torch.bfloat16):
            want = drawn(shape, dtype)
            with FusionDefinition() as fd:
                x = fd.define_tensor([-1, -1], True, dtype=D.Float)
                fd.add_output(fd.ops.uniform(0.0, 1.0, x.shape(), **STATE, dtype=TYPES[dtype]))
            for k in range(2):
                moved = torch.zeros(want.numel() + k)[k:].view(shape)
                assert torch.equal(fd.execute([moved], _enable_options=["simulate"])[0], want)


def test_bits_by_hand() -> None:
    """Columns outside of rows, three at a time, of which each thread has every fifth: no scheduler makes that."""
    shape = [9, 31]
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype=D.Float)
        u = fd.ops.uniform(0.0, 1.0, x.shape(), **STATE, dtype=D.Float)
        fd.add_output(u)
    u.split(1, 3)
    u.split(0, 5)
    u.reorder({0: 3, 2: 0})
    u.parallelize(0, ParallelType.block_x)
    u.parallelize(2, ParallelType.unroll)
    assert torch.equal(fd.manual_execute([torch.zeros(shape)])[0], drawn(shape, torch.float32))


@pytest.mark.parametrize("seed", range(12))
def test_bits_do_not_depend_on_cuts(seed: int) -> None:
    """Programs that draw several times, with cuts at places that chance chooses."""
    choose = random.Random(seed)
    shape = choose.choice([[13, 40], [1, 64], [40, 3]])
    ops = [(choose.choice(["uniform", "normal"]), choose.choice(list(TYPES))) for _ in range(3)]
    x = randn(*shape)

    def program(cuts: set[int]) -> list[torch.Tensor]:
        places = itertools.count()
        with FusionDefinition() as fd:
            t = fd.from_pytorch(x)

            def here(v):
                return fd.ops.segment_set(v) if next(places) in cuts else v

            total = t
            for op, dtype in ops:
                u = here(getattr(fd.ops, op)(0.0, 1.0, t.shape(), dtype=TYPES[dtype]))
                fd.add_output(u)
                total = here(fd.ops.add(total, fd.ops.cast(u, D.Float)))
            fd.add_output(here(fd.ops.sum(total, [1])))
        torch.manual_seed(seed)
        return fd.execute([x], _enable_options=["simulate"])

    want = program(set())
    for _ in range(3):
        got = program({i for i in range(8) if choose.random() < 0.5})
        for a, b in zip(got[:3], want[:3], strict=True):
            assert torch.equal(a, b)
        torch.testing.assert_close(got[3], want[3])


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout(p: float, simulated: bool) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype=D.Float)
        kept = fd.ops.ge(fd.ops.uniform(0.0, 1.0, x.shape(), dtype=D.Float), p)
        scale = 0.0 if p == 1 else 1 / (1 - p)
        fd.add_output(fd.ops.mul(fd.ops.where(kept, x, 0.0), scale))
        fd.add_output(kept)
    x = randn(50, 101)
    torch.manual_seed(1)
    y, kept = fd.execute([x], _enable_options=["simulate"] if simulated else [])
    torch.testing.assert_close(y, torch.where(kept, x, 0) * (0.0 if p == 1 else 1 / (1 - p)))
    assert abs(kept.double().mean().item() - (1 - p)) <= 6 * (p * (1 - p) / x.numel()) ** 0.5


@pytest.mark.parametrize("dtype", TYPES)
def test_bounds_that_are_computed(dtype: torch.dtype) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, dtype=TYPES[dtype])
        low, width = fd.define_scalar(dtype=D.Double), fd.define_scalar(dtype=D.Double)
        fd.add_output(fd.ops.uniform(low, fd.ops.add(low, width), x.shape(), **STATE, dtype=TYPES[dtype]))
        fd.add_output(fd.ops.rand_like(x, rng_seed=77, rng_offset=12))
    x = torch.zeros(1001, dtype=dtype)
    for low, width in ((-3.0, 4.0), (0.0, 0.0), (2.0, -1.0), (1e30, 1e30)):
        want = fd.execute([x, low, width])
        got = fd.execute([x, low, width], _enable_options=["simulate"])
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
        if width > 0 and low < 1e3:
            assert (got[0] >= low).all()
            assert (got[0] < low + width).all()
