"""What a result says of the machine that it is from, and of what ran there."""

import datetime
import json
import math
import os
import platform
import subprocess
from pathlib import Path

import torch

import nvfuser_go

ROOT = Path(__file__).parents[1]


def processor() -> str:
    """The model of the CPU, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def commit() -> str:
    """The commit that is measured, marked if files differ from it; BENCHMARK_COMMIT names it where there is no git."""

    def git(*args: str) -> str:
        try:
            return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True).stdout.strip()
        except OSError:
            return ""

    if named := os.environ.get("BENCHMARK_COMMIT"):
        return named
    name = git("rev-parse", "--short", "HEAD") or "unknown"
    return name + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def description() -> dict:
    """Processor, cores, system, and the releases of Python and torch."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def provenance() -> dict:
    """The date of a measurement, and the version and the commit that it measures."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "version": nvfuser_go.__version__,
        "commit": commit(),
    }


def as_json(result: dict) -> str:
    """A result as JSON that every parser takes: what is no finite number, such as the error of a result of another
    dtype, is the text that float() reads, as JSON has no number for it."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {name: plain(x) for name, x in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(x) for x in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain(result), indent=1, allow_nan=False) + "\n"
