"""Many threads that define, execute and drop fusions of several phases, each result checked.

THREADS=32x50x20 runs so many threads, fusions of each and rounds; the default is a slice of that.
"""

import gc
import itertools
import os
import random
import threading
import time
import weakref
from collections.abc import Callable

import pytest
import torch
from thread_programs import PROGRAMS, Program, attention, in_products, products, program

from nvfuser_go import FusionDefinition, LRUCache

pytestmark = pytest.mark.usefixtures("one_thread")

THREADS, FUSIONS, ROUNDS = map(int, os.environ.get("THREADS", "16x12x3").split("x"))


def run_in_threads(count: int, work: Callable[[int], None], limit: float = 120) -> None:
    """Runs work(0), ... on threads that begin together. Raises what the first that failed raised."""
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def guarded(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads), f"threads run after {limit} s"


def test_threads_finish_right() -> None:
    """A quarter of the fusions are equal in all threads, and one definition belongs to all of them."""
    common = [program(1 << 20), program((1 << 20) + 1)]

    def work(thread: int) -> None:
        rng = random.Random(thread)
        numbers = [i if i % 4 == 0 else (thread + 1) * FUSIONS + i for i in range(FUSIONS)]
        programs: dict[int, Program] = {}
        for _ in range(ROUNDS):
            for number in rng.sample(numbers, len(numbers)):
                if number not in programs:
                    programs[number] = program(number)
                programs[number].check(simulate=rng.random() < 0.5)
                if rng.random() < 0.3:
                    del programs[number]
            for shared in common:
                shared.check(simulate=rng.random() < 0.5)

    run_in_threads(THREADS, work, limit=1800)


def test_definitions_that_all_caches_forget() -> None:
    """More definitions than the process keeps, of which each thread comes back to old ones."""
    kept: list[Program] = []

    def work(thread: int) -> None:
        for i in range(300):
            mine = PROGRAMS[3 + i % 3](2 + (300 * thread + i) / 8192)
            mine.check(simulate=False)
            if i % 50 == 0:
                kept.append(mine)
            if i % 10 == 0:
                kept[i % len(kept)].check(simulate=i % 20 == 0)

    run_in_threads(4, work)
    for old in kept:
        old.check(simulate=True)


def test_a_small_cache_of_fusions() -> None:
    cache = LRUCache(3)

    def work(thread: int) -> None:
        rng = random.Random(thread)
        for _ in range(40):
            k = rng.randrange(8)
            p = products(3 + k / 16)
            executor = cache.cache_compile(p.fd.fusion)
            inputs = p.inputs()
            (got,) = executor.execute(inputs, _enable_options=["simulate"] if k % 2 else [])
            torch.testing.assert_close(got, p.reference(*inputs)[0], rtol=1e-4, atol=1e-4)
            assert cache.num_fusions() <= 3 and "Max Fusions" in cache.stats()

    run_in_threads(8, work)


def test_inputs_of_other_sizes_from_all_threads() -> None:
    """Plans of several phases that are made, evicted and run at the same time."""
    p = products(5.0)
    sizes = itertools.count(1)

    def work(thread: int) -> None:
        for i in range(60):
            n = next(sizes) if i % 3 else thread + 1
            x, w = torch.randn(n, 3), torch.randn(3, 3)
            (got,) = p.fd.execute([x, w], _enable_options=["simulate"] if i % 2 else [])
            torch.testing.assert_close(got, p.reference(x, w)[0], rtol=1e-4, atol=1e-4)

    run_in_threads(8, work)


def test_looking_at_what_others_execute_first() -> None:
    """What was executed last is asked for while other threads execute in further ways."""
    for i in range(10):
        p = attention(7 + i / 64)
        p.check(simulate=False)

        def work(thread: int, p: Program = p) -> None:
            for k in range(6):
                if thread % 2:
                    inputs = p.inputs()
                    p.fd.execute(inputs, _enable_options=[f"simulate({k})"])
                else:
                    assert p.fd.last_cuda_code()

        run_in_threads(8, work)


DIRECTLY = pytest.mark.parametrize("directly", [True, False], ids=["directly", "by a callable"])


@DIRECTLY
def test_definitions_dropped_while_they_run(directly: bool, monkeypatch) -> None:
    """The program's reference to a definition goes, and others are collected, in the middle of its phases."""
    held = threading.local()
    alive: list[weakref.ref] = []

    def drop() -> None:
        held.box.clear()
        gc.collect(0)

    in_products(monkeypatch, directly, drop)

    def work(thread: int) -> None:
        for i in range(15):
            p = products(11 + thread + i / 64 + directly / 128)
            inputs, want = p.inputs(), p.reference
            held.box = [p.fd]
            alive.append(weakref.ref(p.fd))
            del p
            (got,) = held.box[0].execute(inputs, _enable_options=["simulate"])
            assert not held.box
            torch.testing.assert_close(got, want(*inputs)[0], rtol=1e-4, atol=1e-4)

    run_in_threads(4, work)
    gc.collect()
    assert not any(ref() for ref in alive)


@DIRECTLY
def test_fusions_within_calls_of_torch(directly: bool, monkeypatch) -> None:
    """A call in the middle of a run, such as one of a collector's callbacks, executes the same fusion and others.

    Autograd is off in all of them, and on again when the outermost ends.
    """
    depth = threading.local()
    p = products(23.0 + directly)
    deepest = []

    def nest() -> None:
        at = getattr(depth, "at", 0)
        assert not torch.is_grad_enabled()
        if at < 2:
            depth.at = at + 1
            deepest.append(at + 1)
            try:
                p.check(simulate=True)
                program(next(fresh)).check(simulate=True)
            finally:
                depth.at = at
            assert not torch.is_grad_enabled()

    def work(_: int) -> None:
        p.check(simulate=True)
        assert torch.is_grad_enabled()

    fresh = itertools.count((1 << 21) + (directly << 12))
    in_products(monkeypatch, directly, nest)
    run_in_threads(2, work)
    assert max(deepest) == 2


@DIRECTLY
def test_executors_evicted_while_they_run(directly: bool, monkeypatch) -> None:
    """A run in the middle of which its executor leaves the cache of the process."""
    p = products(29.0 + directly)
    calls = itertools.count()

    def evict() -> None:
        if next(calls) == 1:
            for i in range(1100):
                with FusionDefinition() as fd:
                    fd.add_output(fd.ops.add(fd.define_tensor([-1], [True]), 31 + i / 2048))
                fd.execute([torch.ones(1)])

    in_products(monkeypatch, directly, evict)
    for _ in range(2):
        p.check(simulate=True)
    products(29.0 + directly).check(simulate=True)
    assert next(calls) == 9
