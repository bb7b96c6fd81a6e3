"""The programs of the reports and the blocks of models by simulated kernels."""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FILES = ["test_reports.py", "test_reports_numbers.py", "test_reports_segments.py", "test_blocks.py"]


def test_simulated() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(HERE / name for name in FILES)],
        cwd=HERE.parents[1],
        env=os.environ | {"NVFUSER_ENABLE": "simulate"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    passed = re.search(r"(\d+) passed in ", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) > 250, done.stdout
