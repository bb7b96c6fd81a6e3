"""Random numbers: bits that no schedule and no cut changes, torch's generator, graphs."""

import math

import pytest
import torch
from device import DEVICE, execute

from nvfuser_go import DataType, FusionDefinition

D = DataType
TYPES = {torch.float32: D.Float, torch.bfloat16: D.BFloat16, torch.float16: D.Half, torch.float64: D.Double}
STATE = {"rng_seed": 77, "rng_offset": 12}


def drawn(shape: list[int], dtype: torch.dtype, normal: bool = False) -> torch.Tensor:
    """The numbers of STATE, computed on the CPU."""
    with FusionDefinition() as fd:
        fd.add_output((fd.ops.normal if normal else fd.ops.uniform)(0.0, 1.0, shape, **STATE, dtype=TYPES[dtype]))
    return fd.execute([], device="cpu")[0]


# ---- Bits ----


def alone(fd, x, u):
    return [u]


def beside_its_sums(fd, x, u):
    wide = fd.ops.cast(u, D.Double)
    return [u, fd.ops.sum(wide, [-1])]


def beside_sums_of_columns(fd, x, u):
    return [u, fd.ops.sum(fd.ops.cast(u, D.Double), [0])]


def in_a_norm(fd, x, u):
    y = fd.ops.add(x, fd.ops.cast(u, D.Float))
    return [u, fd.ops.div(y, fd.ops.sum(y, [-1], keepdim=True))]


def before_a_cut(fd, x, u):
    v = fd.ops.segment_set(u)
    return [v, fd.ops.add(fd.ops.cast(v, D.Float), x)]


def turned(fd, x, u):
    rank = len(x.shape())
    back = list(reversed(range(rank)))
    return [fd.ops.permute(fd.ops.segment_set(fd.ops.permute(u, back)), back)]


USES = [alone, beside_its_sums, beside_sums_of_columns, in_a_norm, before_a_cut, turned]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [[1], [3, 5], [33, 1000], [7, 4099], [2048, 1024]])
def test_bits_do_not_depend_on_what_is_computed_with_them(shape: list[int], dtype: torch.dtype):
    want = drawn(shape, dtype)
    for use in USES:
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1] * len(shape), True, dtype=D.Float)
            for y in use(fd, x, fd.ops.uniform(0.0, 1.0, x.shape(), **STATE, dtype=TYPES[dtype])):
                fd.add_output(y)
        for k in range(3):  # where the input begins elsewhere, accesses are narrower
            moved = torch.zeros(want.numel() + k, device="cuda")[k:].view(shape)
            got = execute(fd, [moved])[0]
            assert torch.equal(got.cpu(), want), (use.__name__, k)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", TYPES)
def test_normal_numbers_do_not_depend_on_what_is_computed_with_them(dtype: torch.dtype):
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype=D.Float)
        first, second = (fd.ops.normal(0.0, 1.0, x.shape(), **STATE, dtype=TYPES[dtype]) for _ in range(2))
        fd.add_output(first)
        fd.add_output(fd.ops.sum(fd.ops.cast(second, D.Double), [1]))
        fd.add_output(fd.ops.permute(second, [1, 0]))
    first, _, second = execute(fd, [torch.zeros(130, 1031, device="cuda")])
    assert torch.equal(first, second.t())
    want = drawn([130, 1031], dtype, normal=True)
    ulp = 4 * torch.finfo(dtype).eps * want.double().abs().clamp(min=2.0**-6)
    assert ((first.cpu().double() - want.double()).abs() <= ulp).all()


@pytest.mark.cuda
def test_bounds_that_are_computed():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, dtype=D.Float)
        low, high = fd.define_scalar(dtype=D.Double), fd.define_scalar(dtype=D.Double)
        fd.add_output(fd.ops.uniform(low, fd.ops.add(low, high), x.shape(), **STATE, dtype=D.Float))
    x = torch.zeros(5000, device="cuda")
    (got,) = execute(fd, [x, -3.0, 4.0])
    (want,) = fd.execute([x.cpu(), -3.0, 4.0], device="cpu")
    assert torch.equal(got.cpu(), want)
    assert got.min() >= -3
    assert got.max() < 1


def dropout(p: float) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype=D.Float)
        kept = fd.ops.ge(fd.ops.uniform(0.0, 1.0, x.shape(), dtype=D.Float), p)
        scale = 0.0 if p == 1 else 1 / (1 - p)
        fd.add_output(fd.ops.mul(fd.ops.where(kept, x, 0.0), scale))
        fd.add_output(kept)
    return fd


@pytest.mark.cuda
@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout(p: float):
    fd, x = dropout(p), torch.randn(300, 1001, device="cuda")
    y, kept = execute(fd, [x])
    torch.testing.assert_close(y, torch.where(kept, x, 0) * (0.0 if p == 1 else 1 / (1 - p)))
    share = kept.double().mean().item()
    assert abs(share - (1 - p)) <= 6 * (p * (1 - p) / x.numel()) ** 0.5


@pytest.mark.parametrize("bound", [0.0, 0.1, 0.5, 1 - 2**-24, 1.0, math.inf, math.nan])
def test_comparisons_are_those_of_the_numbers(bound: float):
    """Kernels compare the bits of numbers that nothing else reads."""
    shape = [33, 1001]
    u, x = drawn(shape, torch.float32), torch.zeros(shape, device=DEVICE)
    limit = u.flatten()[4].item() if bound == 0.5 else bound  # one that is drawn
    for name in ("lt", "le", "gt", "ge"):
        with FusionDefinition() as fd:
            size = fd.define_tensor([-1, -1], True, dtype=D.Float).shape()
            chance = fd.ops.uniform(0.0, 1.0, size, **STATE, dtype=D.Float)
            fd.add_output(getattr(fd.ops, name)(chance, limit))
        assert torch.equal(execute(fd, [x])[0].cpu(), getattr(torch, name)(u, limit)), name


# ---- torch's generator ----


def moved(run) -> int:
    """How far run() moves the offset of the generator."""
    generator = torch.cuda.default_generators[0]
    torch.cuda.manual_seed(11)
    before = generator.get_offset()
    run()
    return generator.get_offset() - before


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [0, 1, 64, 1 << 20, (1 << 20) + 70000, 3_000_001, 20_000_000])
def test_the_offset_moves_as_far_as_torch_moves_it(n: int, dtype: torch.dtype):
    def program(normal: bool):
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1], True, dtype=D.Bool)
            fd.add_output((fd.ops.normal if normal else fd.ops.uniform)(0.0, 1.0, x.shape(), dtype=TYPES[dtype]))
        return fd

    x = torch.zeros(n, dtype=torch.bool, device="cuda")
    for normal, torchs in ((False, torch.rand), (True, torch.randn)):
        fd = program(normal)
        want = moved(lambda torchs=torchs: torchs(n, dtype=dtype, device="cuda"))
        assert moved(lambda fd=fd: execute(fd, [x])) == want


@pytest.mark.cuda
def test_the_offset_moves_for_each_operation():
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1], True, dtype=D.Float) for _ in range(2))
        fd.add_output(fd.ops.rand_like(x))
        fd.add_output(fd.ops.randn_like(y))
        fd.add_output(fd.ops.uniform(0.0, 1.0, x.shape(), **STATE, dtype=D.Float))
    for n, m in ((5, 9), (3_000_000, 1000), (0, 8), (8, 0), (0, 0), (2_000_000, 5_000_000)):
        x, y = torch.zeros(n, device="cuda"), torch.zeros(m, device="cuda")
        want = moved(lambda x=x, y=y: (torch.rand_like(x), torch.randn_like(y)))
        got = moved(lambda x=x, y=y: execute(fd, [x, y]))
        # The second operation draws from its own place, whether the first one has elements or not.
        assert got == (max(want, 8) if m else want), (n, m)


@pytest.mark.cuda
def test_the_offset_moves_as_for_dropout():
    x = torch.randn(2048, 4096, device="cuda")
    want = moved(lambda: torch.nn.functional.dropout(x, 0.25))
    assert moved(lambda: execute(dropout(0.25), [x])) == want


@pytest.mark.cuda
def test_one_seed_gives_one_sequence():
    fd, x = dropout(0.5), torch.ones(100, 77, device="cuda")
    torch.cuda.manual_seed(5)
    first = [execute(fd, [x])[1] for _ in range(3)]
    torch.cuda.manual_seed(5)
    again = [execute(fd, [x])[1] for _ in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[1], first[2])


# ---- Graphs ----


@pytest.mark.cuda
def test_each_replay_draws_anew():
    """Several fused calls in one graph, of which each draws numbers of its own, and a part of them cut."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype=D.Float)
        u = fd.ops.segment_set(fd.ops.uniform(0.0, 1.0, x.shape(), dtype=D.Float))
        fd.add_output(u)
        fd.add_output(fd.ops.sum(fd.ops.normal(0.0, 1.0, x.shape(), dtype=D.Double), [1]))
        fd.add_output(fd.ops.add(u, x))
    x = torch.zeros(64, 100, device="cuda")
    execute(fd, [x])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first, second = execute(fd, [x]), execute(fd, [x])
        own = torch.rand(64, 100, device="cuda")

    def replayed(count: int) -> list:
        seen = []
        for _ in range(count):
            graph.replay()
            assert torch.equal(first[0], first[2])
            seen += [first[0].clone(), second[0].clone(), own.clone()]
        return seen

    torch.cuda.manual_seed(21)
    seen = replayed(5)
    for i, a in enumerate(seen):
        assert (a >= 0).all()
        assert (a < 1).all()
        assert not any(torch.equal(a, b) for b in seen[:i])
    torch.cuda.manual_seed(21)
    assert all(torch.equal(a, b) for a, b in zip(replayed(5), seen, strict=True))
    eager = [execute(fd, [x])[0] for _ in range(2)]
    assert not any(torch.equal(a, b) for a in eager for b in seen)


def captured(fd: FusionDefinition, x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]:
    """A graph of two calls, and their outputs."""
    execute(fd, [x])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = [y for _ in range(2) for y in execute(fd, [x])]
    return graph, outputs


class Reserving:
    """The state of a generator as a torch that tells it in captures does (2.15 has Generator.philox_state)."""

    def __init__(self) -> None:
        self.seed, self.offset = (torch.zeros(1, dtype=torch.int64, device="cuda") for _ in range(2))
        self.reserved = 0

    def philox_state(self, draws: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        behind, self.reserved = self.reserved, self.reserved + draws
        return self.seed, self.offset, torch.tensor([behind])

    def initial_seed(self) -> int:
        return 1

    def get_offset(self) -> int:
        return 0

    def set_offset(self, offset: int) -> None:
        pass


@pytest.mark.cuda
def test_replays_draw_by_the_state_in_memory(monkeypatch):
    fd, x, state = dropout(0.5), torch.ones(100, 77, device="cuda"), Reserving()
    generator = torch.cuda.default_generators[0]
    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "default_generators", (state,))
        graph, got = captured(fd, x)
    for seed, offset in ((5, 0), (2**40 + 77, 1 << 34), (5, 64)):
        generator.manual_seed(seed)
        generator.set_offset(offset)
        want = [y for _ in range(2) for y in execute(fd, [x])]
        state.seed.fill_(seed)
        state.offset.fill_(offset)
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True)), (seed, offset)


@pytest.mark.cuda
@pytest.mark.skipif(
    not hasattr(torch.Generator, "philox_state"),
    reason="torch.Generator has no philox_state, which torch 2.15 has",
)
def test_replays_draw_what_calls_draw():
    fd, x = dropout(0.5), torch.ones(100, 77, device="cuda")
    graph, got = captured(fd, x)
    torch.cuda.manual_seed(5)
    want = [[y for _ in range(2) for y in execute(fd, [x])] for _ in range(3)]
    torch.cuda.manual_seed(5)
    for each in want:
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(got, each, strict=True))


@pytest.mark.cuda
def test_a_given_state_is_the_same_in_each_replay():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype=D.Float)
        seed, offset = (fd.define_scalar(dtype=D.Int) for _ in range(2))
        fd.add_output(fd.ops.uniform(0.0, 1.0, x.shape(), rng_seed=seed, rng_offset=offset, dtype=D.Float))
    x = torch.zeros(33, 65, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (got,) = execute(fd, [x, 77, 12])
    for _ in range(2):
        got.zero_()
        graph.replay()
        assert torch.equal(got.cpu(), drawn([33, 65], torch.float32))
