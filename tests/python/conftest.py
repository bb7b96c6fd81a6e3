"""Settings for all tests."""

import json
import os
import sys
from pathlib import Path

import extension
import hypothesis
import pytest
import torch

import nvfuser_go
from nvfuser_go import _C

# Programs that tests start find the package where the tests do.
_paths = [str(Path(nvfuser_go.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(_paths))

# The same examples in every run, and no limit on the time of one: a shared machine is slow at times.
hypothesis.settings.register_profile("tests", derandomize=True, deadline=None)
hypothesis.settings.load_profile("tests")


@pytest.fixture
def fusion():
    """An empty fusion of the compiled module."""
    return _C.Fusion()


@pytest.fixture
def x(fusion):
    """An input of `fusion`."""
    return extension.matrix(fusion)


@pytest.fixture
def one_thread():
    """torch's threads cost more than they give on small tensors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_terminal_summary(terminalreporter) -> None:
    """Shows how much the op sweep covered, and keeps it in build/sweep.json."""
    values = sys.modules.get("sweep_values")
    if values is None or not values.ran:
        return
    rows, cases = len(values.ran), sum(values.ran.values())
    terminalreporter.write_line(f"op sweep: {rows} rows, {cases} cases, each run twice")
    build = Path(__file__).parents[2] / "build"
    build.mkdir(exist_ok=True)
    (build / "sweep.json").write_text(json.dumps({"rows": rows, "cases": cases, "by_row": values.ran}))
