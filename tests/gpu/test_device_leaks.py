"""Memory after very many calls: what the device, torch and the process hold does not grow."""

import gc
import os
import resource

import pytest
import torch
from device import execute

from nvfuser_go import DataType, FusionDefinition, FusionError

pytestmark = [pytest.mark.cuda, pytest.mark.alone]

PAGE = resource.getpagesize()
CALLS = int(os.environ.get("GPU_TESTS_CALLS", "100000"))


def resident() -> int:
    """Bytes of the process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


class Held:
    """What is held now; `grown` compares it with later."""

    def __init__(self):
        gc.collect()
        torch.cuda.synchronize()
        self.allocated = torch.cuda.memory_allocated()
        self.reserved = torch.cuda.memory_reserved()
        self.free = torch.cuda.mem_get_info()[0]
        self.resident = resident()

    def check(self, megabytes: int = 8) -> None:
        now = Held()
        assert now.allocated == self.allocated
        assert now.reserved == self.reserved
        assert self.free - now.free <= 2 << 20, "memory of the device"
        grown = now.resident - self.resident
        assert grown <= megabytes << 20, f"the process grew by {grown >> 10} KiB"


def fusion(rank: int = 1, number: bool = False) -> FusionDefinition:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1] * rank, True) for _ in range(2))
        y = fd.ops.add(fd.ops.relu(a), b)
        if number:
            y = fd.ops.mul(y, fd.define_scalar(dtype=DataType.Double))
        fd.add_output(y)
        fd.add_output(fd.ops.cast(y, dtype=DataType.Half))
    return fd


def test_calls():
    fd, x = fusion(), torch.randn(64, device="cuda")
    for _ in range(CALLS // 10):
        execute(fd, [x, x])
    held = Held()
    for _ in range(CALLS):
        fd.execute([x, x])
    held.check()


def test_calls_with_numbers():
    """A number that no size depends on is no new plan."""
    fd, x = fusion(number=True), torch.randn(64, device="cuda")
    for k in range(CALLS // 20):
        fd.execute([x, x, 1.0 + k])
    held = Held()
    for k in range(CALLS // 5):
        fd.execute([x, x, -1.0 - k])
    held.check()


def test_calls_that_fail():
    fd, x, y = fusion(), torch.randn(64, device="cuda"), torch.randn(63, device="cuda")
    gone = torch.randn(64, device="cuda")
    gone.untyped_storage().resize_(0)
    wrong = [[x, y], [x], [x, x.cpu()], [x, x.half()], [x, None], [x, gone], [x, x[None]]]

    def fail(count: int) -> None:
        for i in range(count):
            try:
                fd.execute(wrong[i % len(wrong)])
            except FusionError:
                continue
            raise AssertionError(f"inputs {i % len(wrong)} are taken")

    fd.execute([x, x])
    fail(1000)
    held = Held()
    fail(CALLS // 10)
    held.check()
    fd.execute([x, x])


def test_outputs_that_do_not_fit():
    with FusionDefinition() as fd:
        a, b = fd.define_tensor([-1, 1]), fd.define_tensor([1, -1])
        fd.add_output(fd.ops.add(a, b))
    x = torch.randn(1 << 20, device="cuda")

    def fail(count: int) -> None:
        for _ in range(count):
            with pytest.raises((torch.OutOfMemoryError, FusionError, MemoryError)):
                fd.execute([x[:, None], x[None]])

    fail(20)
    held = Held()
    fail(max(CALLS // 1000, 20))
    held.check()


def test_many_shapes():
    """More plans than are kept: old ones go, and their kernels are not compiled again for each."""
    fd = fusion(2)
    x = torch.randn(1 << 16, device="cuda")

    def shapes(first: int, count: int) -> None:
        for n in range(first, first + count):
            t = x[: 3 * n].view(3, n)
            fd.execute([t, t])

    shapes(2, 1500)
    held = Held()
    shapes(1502, 1500)
    shapes(2, 1500)
    held.check(megabytes=24)


def test_definitions_that_come_and_go():
    x = torch.randn(64, device="cuda")
    for _ in range(200):
        fusion().execute([x, x])
    held = Held()
    for _ in range(2000):
        fusion().execute([x, x])
    held.check()
