"""Streams, threads and the capture of graphs."""

import threading

import pytest
import torch
from device import DEVICE, execute, put

from nvfuser_go import DataType, FusionDefinition, FusionError

D = DataType


def chain(k: int, rank: int = 1, dtype: DataType = D.Float) -> FusionDefinition:
    """relu(x) * k + y; every k is a kernel of its own."""
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1] * rank, True, dtype=dtype) for _ in range(2))
        fd.add_output(fd.ops.add(fd.ops.mul(fd.ops.relu(x), float(k)), y))
    return fd


def expected(k: int, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.double().relu() * k + y.double()


def near(got: torch.Tensor, want: torch.Tensor) -> None:
    """Holds float32 against double: four roundings, each of what is at most as large as the largest result."""
    bound = 4 * 2.0**-24 * max(1.0, float(want.abs().max()))
    torch.testing.assert_close(got.double(), want.double(), rtol=0, atol=bound)


# ---- Streams ----


@pytest.mark.cuda
def test_work_is_ordered_on_the_current_stream():
    fd, x = chain(2), torch.zeros(1 << 16, device="cuda")
    execute(fd, [x, x])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    for round_ in range(5):
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            x.fill_(float(round_ + 1))
            (got,) = execute(fd, [x, x])
            total = got.sum()
        side.synchronize()
        assert total.item() == 3.0 * (round_ + 1) * (1 << 16)


@pytest.mark.cuda
def test_other_streams_do_not_wait():
    fd, x = chain(2), torch.ones(1 << 10, device="cuda")
    execute(fd, [x, x])
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    slow = torch.cuda.Event()
    torch.cuda._sleep(2_000_000_000)
    slow.record()
    with torch.cuda.stream(side):
        (got,) = execute(fd, [x, x])
    side.synchronize()
    assert not slow.query(), "the call waited for work of another stream"
    near(got, 3 * x)


@pytest.mark.cuda
def test_outputs_can_be_recorded_on_another_stream():
    fd, x = chain(2), torch.ones(1 << 20, device="cuda")
    side = torch.cuda.Stream()
    (got,) = execute(fd, [x, x])
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        total = got.sum()
    got.record_stream(side)
    del got
    for _ in range(10):  # would write over the memory, were it free
        execute(fd, [x * 5, x])
    side.synchronize()
    assert total.item() == 3.0 * (1 << 20)


@pytest.mark.cuda
def test_outputs_are_ordinary_tensors():
    fd, x = chain(2), torch.ones(100, device="cuda")
    (got,) = execute(fd, [x, x])
    got.resize_(200)
    assert got.untyped_storage().nbytes() >= 800
    got.untyped_storage().resize_(0)
    assert not got.requires_grad
    assert got.is_leaf


# ---- Threads ----


def in_threads(count: int, body) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def run(i: int) -> None:
        try:
            start.wait()
            body(i)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("shared", [True, False], ids=["one fusion", "a fusion each"])
@pytest.mark.parametrize("streams", [False, True], ids=["one stream", "a stream each"])
def test_eight_threads(shared: bool, streams: bool):
    if streams and DEVICE.type == "cpu":
        pytest.skip("a rehearsal has no streams")
    rounds = 300 if DEVICE.type == "cuda" else 3
    one = chain(101 + streams)

    def body(i: int) -> None:
        fd = one if shared else chain(1000 + 10 * i + streams)
        k = 101 + streams if shared else 1000 + 10 * i + streams
        with torch.cuda.stream(torch.cuda.Stream() if streams else None):
            for round_ in range(rounds):
                n = 257 + (round_ % 7) * (i + 1)  # plans are made while others run
                x = torch.full((n,), float(i + round_), device=DEVICE)
                (got,) = execute(fd, [x, x])
                near(got, expected(k, x, x))

    in_threads(8, body)


def test_threads_that_define_and_execute_at_once():
    x = put(torch.randn(333))

    def body(i: int) -> None:
        for k in range(6):
            (got,) = execute(chain(5000 + k), [x, x])  # the same in all threads: compiled once
            near(got, expected(5000 + k, x, x))

    in_threads(8, body)


@pytest.mark.cuda
def test_a_full_queue_and_a_callback_that_needs_the_interpreter():
    """Launches block when about a thousand are pending; who holds the interpreter's lock meanwhile never ends."""
    fd, x = chain(3), torch.ones(64, device="cuda")
    execute(fd, [x, x])
    torch.cuda.synchronize()
    ticks = []
    stop = threading.Event()

    def other() -> None:
        while not stop.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=other)
    thread.start()
    torch.cuda._sleep(400_000_000)
    for _ in range(3000):
        execute(fd, [x, x])
    stop.set()
    thread.join()
    torch.cuda.synchronize()
    assert len(ticks) > 20


# ---- Graphs ----


@pytest.mark.cuda
@pytest.mark.parametrize("first", ["capture", "call"])
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_capture_and_replay(first: str, mode: str):
    """Also of a kernel that is compiled and loaded during the capture."""
    k = {"global": 1, "thread_local": 2, "relaxed": 3}[mode] + (20 if first == "call" else 10)
    fd = chain(k, 2)
    x, y = torch.randn(33, 65, device="cuda"), torch.randn(33, 65, device="cuda")
    if first == "call":
        execute(fd, [x, y])
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        (out,) = execute(fd, [x, y])
        (out,) = execute(fd, [out, y])
    for _ in range(3):
        x.normal_()
        y.normal_()
        graph.replay()
        near(out, expected(k, expected(k, x, y), y))
    (got,) = execute(fd, [x, y])  # outside again
    near(got, expected(k, x, y))
    graph.replay()
    near(out, expected(k, expected(k, x, y), y))


@pytest.mark.cuda
def test_an_error_leaves_a_capture_whole():
    fd = chain(41)
    x = torch.randn(100, device="cuda")
    execute(fd, [x, x])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(FusionError):
            execute(fd, [x, x[:50]])
        (out,) = execute(fd, [x, x])
    x.normal_()
    graph.replay()
    near(out, expected(41, x, x))


@pytest.mark.cuda
def test_in_place_under_capture():
    x = torch.zeros(1000, device="cuda")
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.add(a, 1.0), a)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        execute(fd, [x])
    x.zero_()
    for _ in range(5):
        graph.replay()
    assert torch.equal(x, torch.full_like(x, 5.0))


@pytest.mark.cuda
def test_a_graph_outlives_its_definition():
    import gc

    x = torch.randn(100, device="cuda")
    graph = torch.cuda.CUDAGraph()
    fd = chain(43)
    with torch.cuda.graph(graph):
        (out,) = execute(fd, [x, x])
    del fd
    gc.collect()
    for k in range(30):
        execute(chain(2000 + k), [x, x])
    x.normal_()
    graph.replay()
    near(out, expected(43, x, x))


@pytest.mark.cuda
def test_random_numbers_under_capture():
    """Each replay draws other numbers, or the capture says what to do instead; given seeds always work."""
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [1000], dtype=D.Float))
    execute(fd, [])
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            (out,) = execute(fd, [])
    except FusionError as refused:
        assert "capture" in str(refused)
        assert "rng_seed" in str(refused)
    else:
        seen = []
        for _ in range(3):
            graph.replay()
            seen.append(out.clone())
        assert not torch.equal(seen[0], seen[1])
        assert not torch.equal(seen[1], seen[2])
        assert all((x >= 0).all() and (x < 1).all() for x in seen)
    torch.cuda.synchronize()
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [1000], rng_seed=7, rng_offset=4, dtype=D.Float))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (out,) = execute(fd, [])
    graph.replay()
    assert torch.equal(out.cpu(), fd.execute([], device="cpu")[0])


# ---- Counters of blocks, which are kept for a stream ----


class Counting:
    """Fusions whose blocks count themselves: a sum of all by tickets, columns without their sums by a barrier."""

    def __init__(self) -> None:
        with FusionDefinition() as self.total:
            self.total.add_output(self.total.ops.sum(self.total.define_tensor([-1, -1], True), [0, 1]))
        with FusionDefinition() as self.centered:
            y = self.centered.define_tensor([-1, -1], True)
            sums = self.centered.ops.sum(y, [0])
            self.centered.add_output(self.centered.ops.sub(y, self.centered.ops.broadcast(sums, [True, False])))
        # Small integers, so that sums are exact in any order.
        self.x = torch.randint(0, 4, (1024, 4096), device=DEVICE).float()
        self.y = torch.randint(0, 4, (12544, 256), device=DEVICE).float()
        self.want = [self.x.double().sum().float(), (self.y.double() - self.y.double().sum(0)).float()]

    def run(self) -> list[torch.Tensor]:
        return execute(self.total, [self.x]) + execute(self.centered, [self.y])

    def check(self, got: list[torch.Tensor]) -> None:
        for a, b in zip(got, self.want, strict=True):
            assert torch.equal(a, b)


def started(count: int) -> list[torch.cuda.Stream]:
    """Streams that come after what was submitted."""
    torch.cuda.synchronize()
    return [torch.cuda.Stream() for _ in range(count)]


@pytest.mark.cuda
def test_counters_of_streams_side_by_side():
    work = Counting()
    streams = [torch.cuda.current_stream(), *started(12)]
    for _ in range(100):
        results = []
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(work.run() + work.run())
        torch.cuda.synchronize()
        for got in results:
            work.check(got[:2])
            work.check(got[2:])


@pytest.mark.cuda
def test_counters_of_one_stream_many_times():
    work = Counting()
    for _ in range(50):
        results = [work.run() for _ in range(60)]
        for got in results:
            work.check(got)


@pytest.mark.cuda
@pytest.mark.parametrize("streams", [False, True], ids=["one stream", "a stream each"])
def test_counters_of_threads(streams: bool):
    work = Counting()
    each = started(8) if streams else [torch.cuda.current_stream()] * 8

    def body(i: int) -> None:
        with torch.cuda.stream(each[i]):
            for _ in range(100):
                work.check(work.run())

    in_threads(8, body)


@pytest.mark.cuda
@pytest.mark.parametrize("first", ["capture", "call"])
def test_counters_of_a_graph_beside_those_of_its_stream(first: str):
    """A graph may be replayed on any stream, also beside what the stream does on which it was captured."""
    work = Counting()
    captured, other = started(2)
    if first == "call":
        with torch.cuda.stream(captured):
            work.check(work.run())
        torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=captured):
        out = work.run()
    torch.cuda.synchronize()
    for _ in range(100):
        for tensor in out:
            tensor.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(other):
            graph.replay()
        with torch.cuda.stream(captured):
            results = [work.run() for _ in range(3)]
        torch.cuda.synchronize()
        for got in [out, *results]:
            work.check(got)
        with torch.cuda.stream(captured):  # between runs of its own stream
            before = work.run()
            graph.replay()
            after = work.run()
        torch.cuda.synchronize()
        for got in [before, out, after]:
            work.check(got)


@pytest.mark.cuda
def test_counters_of_a_stream_that_begins_during_a_capture():
    work = Counting()
    captured, other = started(2)
    with torch.cuda.stream(other):
        memory = [torch.empty(size, dtype=torch.uint8, device=DEVICE) for size in (1, 256 << 20)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=captured):
        out = work.run()
        memory.clear()  # torch may ask the device for none now, and has given back what was free before
        with torch.cuda.stream(other):  # is not captured
            results = [work.run() for _ in range(3)]
    graph.replay()
    torch.cuda.synchronize()
    for got in [out, *results]:
        work.check(got)


# ---- torch's generator ----


@pytest.mark.cuda
def test_the_generator_of_torch():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [64], dtype=D.Float))
        fd.add_output(fd.ops.normal(0.0, 1.0, [64], dtype=D.Float))
    generator = torch.cuda.default_generators[0]
    torch.cuda.manual_seed(3)
    first = execute(fd, [])
    offset = generator.get_offset()
    assert offset > 0
    assert offset % 4 == 0
    second, after = execute(fd, []), torch.rand(64, device="cuda")
    torch.cuda.manual_seed(3)
    again = execute(fd, [])
    assert generator.get_offset() == offset
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    execute(fd, [])
    assert torch.equal(torch.rand(64, device="cuda"), after)
    assert not torch.equal(first[0], first[1])
