"""How times are taken on a GPU and what is made of them. Nothing here knows what is timed.

Device time: events around a call that is queued behind a long kernel, so that the host is ahead and none of its time is
measured. Before each call the L2 cache is put into one of two states: "dirty", a large buffer was just written, so that
modified lines are written back while the call runs; "clean", after that another was read. Times of one state are
compared with times of that state alone. The columns of a row take turns, in another order each round. In one order each
would always follow the same other one, and with it what that leaves in caches of translated addresses and of code: the
same call was 2 us slower after copies of other memory than after others, of a softmax of 268 MB, and 0.5 of 2 MB.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

STATES = ("dirty", "clean")
CACHE_BYTES = 256 << 20  # five times the L2 cache of an H100


@dataclass(frozen=True)
class Summary:
    """The distribution of some times, in the unit of the times."""

    p10: float
    p50: float
    p90: float

    @classmethod
    def of(cls, times: Sequence[float]) -> "Summary":
        """Raises ValueError without times."""
        if not times:
            raise ValueError("a summary needs a time")
        ordered = sorted(times)
        last = len(ordered) - 1
        return cls(ordered[round(0.1 * last)], statistics.median(ordered), ordered[round(0.9 * last)])


def ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """The median of first/second, round by round: what slows down a whole round does not move it."""
    return statistics.median(a / b for a, b in zip(first, second, strict=True))


class Cache:
    """The buffers that put the L2 cache into a state."""

    def __init__(self) -> None:
        self._written = torch.zeros(CACHE_BYTES, dtype=torch.uint8, device="cuda")
        self._read = torch.zeros(CACHE_BYTES // 8, dtype=torch.int64, device="cuda")
        self._sum = torch.zeros((), dtype=torch.int64, device="cuda")

    def prepare(self, state: str, turn: int) -> None:
        self._written.fill_(turn & 1)
        if state == "clean":
            torch.sum(self._read, 0, out=self._sum)


def device_times(
    columns: Mapping[str, Callable[[], object]], cache: Cache, rounds: int, cycles_ahead: int = 2_500_000
) -> dict[str, dict[str, list[float]]]:
    """Microseconds of each call by state and column, one a round.

    cycles_ahead: the clock cycles of the kernel at the head of each round, behind which the host queues the round.
    """
    names = list(columns)
    orders = random.Random(0)
    times: dict[str, dict[str, list[float]]] = {state: {name: [] for name in names} for state in STATES}
    for call in columns.values():
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    for state in STATES:
        for turn in range(rounds):
            marks = {}
            torch.cuda._sleep(cycles_ahead)
            orders.shuffle(names)
            for name in names:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                cache.prepare(state, turn)
                start.record()
                columns[name]()
                end.record()
                marks[name] = (start, end)
            torch.cuda.synchronize()
            for name, (start, end) in marks.items():
                times[state][name].append(start.elapsed_time(end) * 1e3)
    return times


def host_times(
    columns: Mapping[str, Callable[[], object]], rounds: int, calls: int = 50, synchronize: Callable = lambda: None
) -> dict[str, list[float]]:
    """Microseconds that a call takes the host, by column: in each round a batch of calls of every column in turn, which
    begins with an empty queue. Results are dropped at once, so that the time to free them is in."""
    names = list(columns)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            call = columns[name]
            for _ in range(5):
                call()
            synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls * 1e6)
            synchronize()
    return times
