"""Times in explanations: kernels are measured on copies, and nothing of it shows elsewhere."""

import json
import os
import subprocess
import sys

import pytest
import torch
from device import REHEARSAL, execute, put

from nvfuser_go import DataType, FusionDefinition


def measured(fd: FusionDefinition, inputs: list) -> list[float | None]:
    return [segment.memory.measured for segment in fd.explain(inputs).segments if segment.memory]


def updated(x: torch.Tensor) -> FusionDefinition:
    """Doubles x in place, draws as many random numbers, and has torch sum along columns between two kernels."""
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.mul(t, 2.0), t)
        shape = fd.ops.shape(t)
        fd.add_output(fd.ops.uniform(0.0, 1.0, shape=shape, dtype=DataType.Float))
        fd.add_output(fd.ops.neg(fd.ops.cumsum(fd.ops.exp(t), 0)))
    return fd


def test_explain_changes_nothing() -> None:
    x = put(torch.randn(100, 100))
    kept = x.clone()
    fd = updated(x)
    state = None if REHEARSAL else torch.cuda.get_rng_state()
    times = measured(fd, [x])
    assert torch.equal(x, kept)
    if REHEARSAL:
        assert times == [None] * len(times)
    else:
        assert torch.equal(state, torch.cuda.get_rng_state())
        assert all(1 < us < 1000 for us in times), times
    outputs = execute(fd, [x])
    assert torch.equal(x, 2 * kept)
    torch.testing.assert_close(outputs[-1], -kept.exp().cumsum(0))


@pytest.mark.cuda
@pytest.mark.alone
def test_what_is_measured() -> None:
    """A kernel of 256 MB takes as long as the memory needs, and as explained."""
    x = torch.randn(1 << 25, device="cuda")
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.from_pytorch(x)))
    (segment,) = fd.explain([x]).segments
    assert 30 < segment.memory.measured < 3000
    assert segment.memory.estimated == pytest.approx(segment.memory.measured, rel=0.15)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.full([1 << 20], 1.0, DataType.Float))
    assert fd.explain([]).not_measured == ""


@pytest.mark.cuda
def test_explain_in_a_capture_and_on_another_stream() -> None:
    x = torch.randn(1000, device="cuda")
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.exp(fd.from_pytorch(x)))
    fd.execute([x])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (y,) = fd.execute([x])
        explained = fd.explain([x])
    assert explained.not_measured == "nothing is measured while the stream is captured into a graph"
    assert explained.segments[0].memory.measured is None
    x.fill_(1)
    graph.replay()
    assert torch.equal(y, x.exp()) or torch.allclose(y, x.exp())
    with torch.cuda.stream(torch.cuda.Stream()):
        assert fd.explain([x]).not_measured == ""


@pytest.mark.cuda
@pytest.mark.alone
def test_explain_gives_memory_back() -> None:
    x = torch.randn(1 << 20, device="cuda")
    fd = updated(x.view(1024, 1024))
    fd.explain([x.view(1024, 1024)])
    torch.cuda.synchronize()
    free, allocated = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
    for _ in range(20):
        fd.explain([x.view(1024, 1024)])
    assert torch.cuda.memory_allocated() == allocated
    assert free - torch.cuda.mem_get_info()[0] <= 2 << 20


@pytest.mark.cuda
@pytest.mark.alone
def test_calibrate(tmp_path) -> None:
    """What is measured is written, and what plans go by."""
    environment = os.environ | {"NVFUSER_GO_CACHE_DIR": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "nvfuser_go", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)

    done = run("calibrate")
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "calibration").iterdir()
    assert file.read_text() == done.stdout
    found = json.loads(done.stdout)
    assert found["device"] == torch.cuda.get_device_name()
    assert 0.5 < found["launch_us"] < 10
    assert 1e5 < found["copy_rate"] < 1e7
    assert 0.8 < found["copy_rate"] / found["read_rate"] < 1.2
    assert "calibrated" in run().stdout
    file.write_text("{}")
    assert f"the calibration {file}: its format is 0" in run().stdout
