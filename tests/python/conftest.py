"""Settings for all tests."""

import json
import os
import sys
from pathlib import Path

import hypothesis

import nvfuser_go

# Programs that tests start find the package where the tests do.
_paths = [str(Path(nvfuser_go.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(_paths))

# The same examples in every run, and no limit on the time of one: a shared machine is slow at times.
hypothesis.settings.register_profile("tests", derandomize=True, deadline=None)
hypothesis.settings.load_profile("tests")


def pytest_terminal_summary(terminalreporter) -> None:
    """Shows how much the op sweep covered, and keeps it in build/sweep.json."""
    sweep = sys.modules.get("test_sweep")
    if sweep is None or not sweep.ran:
        return
    rows, cases, runs = len(sweep.ran), sum(sweep.ran.values()), sweep.RUNS_OF_A_CASE * sum(sweep.ran.values())
    terminalreporter.write_line(f"op sweep: {rows} of {len(sweep.TABLE)} rows, {cases} cases, {runs} runs")
    build = Path(__file__).parents[2] / "build"
    build.mkdir(exist_ok=True)
    (build / "sweep.json").write_text(json.dumps({"rows": rows, "cases": cases, "runs": runs, "by_row": sweep.ran}))
