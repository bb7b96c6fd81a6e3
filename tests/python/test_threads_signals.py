"""Signals in the middle of compilations, of kernels and of calls of torch.

What the handler raises comes out at once, and the next call is right.
"""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from thread_programs import Program, in_products, products, program

from nvfuser_go import _C, FusionDefinition

pytestmark = pytest.mark.usefixtures("one_thread")

SIMULATE = ["simulate"]


class Alarm(Exception):
    """What the handler of a timer raises."""


@contextlib.contextmanager
def handler(number: int, handle: Callable) -> Iterator[None]:
    before = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(number, before)


def alarm(*_) -> None:
    raise Alarm


def interrupted(seconds: float, run: Callable[[], object], kind: type[BaseException], number: int) -> float:
    """Runs until a signal comes, which must end it; returns how long that took from the signal."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), number)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        with pytest.raises(kind):
            run()
        return time.monotonic() - sent[0]
    finally:
        timer.cancel()
        timer.join()


def long_definition(k: float) -> tuple[FusionDefinition, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]:
    """A fusion that takes a second to plan for the simulator, and a hundredth for the CPU."""
    with FusionDefinition() as fd:
        x, w = (fd.define_tensor([-1, -1], [True, True]) for _ in range(2))
        t = x
        for i in range(500):
            if i % 40 == 39:
                t = fd.ops.sin(fd.ops.matmul(t, w))
            else:
                t = fd.ops.tanh(fd.ops.add(fd.ops.mul(t, k + i), fd.ops.sum(t, [1], keepdim=True)))
        fd.add_output(t)
    return fd


@pytest.mark.parametrize(
    "number, handle, kind",
    [(signal.SIGINT, signal.default_int_handler, KeyboardInterrupt), (signal.SIGUSR1, alarm, Alarm)],
)
def test_a_compilation(number: int, handle: Callable, kind: type[BaseException]) -> None:
    fd = long_definition(float(number))
    inputs = [torch.randn(4, 4), torch.randn(4, 4)]
    with handler(number, handle):
        late = interrupted(0.15, lambda: fd.execute(inputs, _enable_options=SIMULATE), kind, number)
        assert late < 1
        (got,) = fd.execute(inputs, _enable_options=SIMULATE)
    (want,) = fd.execute(inputs)
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


def test_kernels_of_a_phase() -> None:
    """The first of two phases would take many seconds."""
    with FusionDefinition() as fd:
        x, w = (fd.define_tensor([-1, -1], [True, True]) for _ in range(2))
        fd.add_output(fd.ops.matmul(fd.ops.sin(fd.ops.tanh(x)), w))
    x, w = torch.ones(3_000_000, 4), torch.ones(4, 2)
    fd.execute([x[:4], w], _enable_options=SIMULATE)
    with handler(signal.SIGINT, signal.default_int_handler):
        late = interrupted(0.6, lambda: fd.execute([x, w], _enable_options=SIMULATE), KeyboardInterrupt, signal.SIGINT)
        assert late < 1
        (got,) = fd.execute([x[:4], w], _enable_options=SIMULATE)
    torch.testing.assert_close(got, torch.tanh(x[:4]).sin() @ w)


def test_a_handler_that_executes_fusions() -> None:
    """It interrupts a run of the same definition, which goes on after it."""
    p, nested = program(3 << 20), []

    def handle(*_) -> None:
        p.check(simulate=True)
        nested.append(1)
        # Not at intervals: where a run takes longer than one, handlers would nest without end.
        signal.setitimer(signal.ITIMER_REAL, 0.005)

    with handler(signal.SIGALRM, handle):
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        for _ in range(60):
            p.check(simulate=True)
    assert nested


@pytest.mark.parametrize("simulate", [False, True])
def test_exceptions_of_a_handler_anywhere(simulate: bool) -> None:
    """Timers end calls at random places. What torch was told, locks and plans are as before."""
    rng = random.Random(5)
    kept: dict[int, Program] = {}
    with handler(signal.SIGALRM, alarm):
        for i in range(250):
            with contextlib.suppress(Alarm), contextlib.suppress(Alarm):
                # Again after a while: Python drops what a handler raises in a callback of its garbage collector.
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0002, 0.006), 0.5)
                for number in itertools.count((4 << 20) + rng.randrange(40)):
                    at = number % 40
                    if at not in kept:
                        kept[at] = program(number)
                    kept[at].check(simulate)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert torch.is_grad_enabled(), f"after alarm {i}"
    other = threading.Thread(
        target=lambda: kept.update({-1: program(5 << 20)}) or kept[-1].check(simulate), daemon=True
    )
    other.start()
    other.join(30)
    assert not other.is_alive()
    for p in kept.values():
        p.check(simulate)


@pytest.mark.parametrize("directly", [True, False], ids=["directly", "by a callable"])
def test_an_exception_of_a_handler_in_a_call_of_torch(directly: bool, monkeypatch) -> None:
    """It comes out as it is: it is no failure of torch. A timeout of a test runner is raised like that."""
    p, calls = products(61.0 + directly), []

    def maybe_raise() -> None:
        calls.append(None)
        if len(calls) == 5:  # in the middle of the second run
            signal.raise_signal(signal.SIGALRM)

    in_products(monkeypatch, directly, maybe_raise)
    p.check(simulate=True)
    with handler(signal.SIGALRM, alarm), pytest.raises(Alarm):
        p.check(simulate=True)
    assert len(calls) == 5 and torch.is_grad_enabled()
    p.check(simulate=True)
    assert len(calls) == 8


def test_signals_of_the_process_are_not_for_threads_of_go() -> None:
    """One that a thread of Go handled was noticed seconds later, or never."""
    script = """
import os
from pathlib import Path
before = set(os.listdir("/proc/self/task"))
import nvfuser_go._C as _C
_C.op_table()

def blocked(task):
    status = Path(f"/proc/self/task/{task}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("SigBlk")).split()[1], 16)

started = set(os.listdir("/proc/self/task")) - before
assert started and not blocked(os.getpid())
print([blocked(task) & (1 << 1 | 1 << 13) for task in started] == [1 << 1 | 1 << 13] * len(started))  # SIGINT, SIGALRM
"""
    # Without the package, which imports torch, whose threads are its own.
    script = script.replace(
        "import nvfuser_go._C as _C",
        f"""
import importlib.util
spec = importlib.util.spec_from_file_location("nvfuser_go._C", {_C.__file__!r})
_C = importlib.util.module_from_spec(spec)
""",
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True\n", done.stderr


def test_signals_are_noticed_while_fusions_are_defined() -> None:
    """While Go interrupts threads for its collector."""
    late = 0.0
    with handler(signal.SIGALRM, alarm):
        for i in range(200):
            began = time.monotonic()
            with contextlib.suppress(Alarm), contextlib.suppress(Alarm):
                signal.setitimer(signal.ITIMER_REAL, 0.001, 5)
                while time.monotonic() - began < 4:
                    program(i)
            signal.setitimer(signal.ITIMER_REAL, 0)
            late = max(late, time.monotonic() - began)
    assert late < 2
