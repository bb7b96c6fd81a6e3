"""The way from Python to a launch: plans in C memory, what allocates outputs, and the methods that look at a plan."""

import random
import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nvfuser_go import FusionDefinition, health

pytestmark = pytest.mark.cuda


def relu(x: torch.Tensor) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.relu(fd.from_pytorch(x)))
    return fd


def matrix(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda")


def test_more_inputs_and_outputs_than_fit_the_stack():
    inputs = [matrix(8, 8) for _ in range(120)]
    with FusionDefinition() as fd:
        xs = [fd.from_pytorch(x) for x in inputs]
        for i in range(0, 120, 3):
            fd.add_output(fd.ops.add(fd.ops.mul(xs[i], xs[i + 1]), xs[i + 2]))
    for i, y in enumerate(fd.execute(inputs)):
        a, b, c = inputs[3 * i : 3 * i + 3]
        torch.testing.assert_close(y, a * b + c)


def test_one_result_given_twice():
    with FusionDefinition() as fd:
        y = fd.ops.relu(fd.from_pytorch(matrix(4, 4)))
        for _ in range(20):
            fd.add_output(y)
    outputs = fd.execute([x := matrix(4, 4)])
    assert all(y is outputs[0] for y in outputs) and torch.equal(outputs[0], torch.relu(x))


def test_threads_evict_plans_that_others_launch():
    inputs = [matrix(8, 4 + i) for i in range(300)]  # an executor keeps 256 plans
    want = [torch.relu(x) for x in inputs]
    fd = relu(inputs[0])
    failures: list[object] = []

    def run(first: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for i in range(300):
                    at = (first + i) % 300
                    (y,) = fd.execute([inputs[at]])
                    torch.cuda.current_stream().synchronize()
                    if not torch.equal(y, want[at]):
                        failures.append(at)
        except Exception as failure:
            failures.append(failure)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=run, args=(75 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class Forwarding(TorchDispatchMode):
    """Sees what torch dispatches, and changes nothing."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def test_under_modes_of_torch():
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = matrix(16, 16)
    fd, want = relu(x), torch.relu(x)
    fd.execute([x])
    with torch.inference_mode():
        (y,) = fd.execute([x])
    assert y.is_inference() and torch.equal(y, want)
    with FakeTensorMode(allow_non_fake_inputs=True):
        (y,) = fd.execute([x])
    assert type(y) is torch.Tensor and torch.equal(y, want)
    with Forwarding():
        (y,) = fd.execute([x])
    assert torch.equal(y, want)
    torch.use_deterministic_algorithms(True)
    try:
        (y,) = fd.execute([x])
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(y, want)


def test_pinned_memory_is_the_cpu_s():
    x = torch.randn(4, 4).pin_memory()
    (y,) = relu(x).execute([x])
    assert y.device.type == "cpu" and torch.equal(y, torch.relu(x))


def test_what_is_compiled():
    x = matrix(5, 5)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.add(fd.from_pytorch(x), random.random()))  # of which no machine code is on disk
    fd.execute([x])
    assert fd.fec.is_compiled([x]) and fd.fec.is_compiled([matrix(5, 5)])
    assert fd.fec.is_compiled([matrix(5, 7)])  # by the same kernel
    large = matrix(4096, 4096)
    assert not fd.fec.is_compiled([large])
    fd.execute([large])
    assert fd.fec.is_compiled([large])


def test_validation_makes_constants_on_the_device():
    x = matrix(6, 6)
    with FusionDefinition() as fd:
        tensor = fd.from_pytorch(x)
        fd.add_output(fd.ops.where(fd.ops.gt(tensor, 0.0), tensor, fd.ops.full([6, 6], -1.0, tensor.dtype())))
    fd.validate([x])


def test_the_report_tells_that_the_device_works():
    report = health.report()
    assert report.problems == [] and dict(report.lines)["fusions of CUDA tensors"] == "are compiled"
