"""What the hardware counters say of the kernels of a row, where NVIDIA's ncu is installed.

    python benchmarks/counters.py ROW...   # runs each row once between cudaProfilerStart and cudaProfilerStop, for ncu

ncu runs each kernel several times, with empty caches and clocks as they are. A process that has torch and a GPU takes
some 7 s to start under it, and a row one or two: it gets several rows, each after a kernel that parts them.
"""

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

USUAL = "/usr/local/cuda/bin/ncu"
SECTIONS = ("SpeedOfLight", "SchedulerStats", "WarpStateStats", "LaunchStats")
KERNELS = 6  # that are told of a row
BATCH = 6  # rows of a process
ROW_SECONDS, START_SECONDS = 15, 30
BETWEEN = "elementwise"  # is in the name of the kernel of torch's fill_, which stands before each row

# By what it is called here, the metrics of which the first that there is is taken, and a factor.
METRICS = {
    "us": (("gpu__time_duration.sum",), 1e-3),
    "dram_percent": (
        (
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        1.0,
    ),
    "issue_percent": (("smsp__issue_active.avg.per_cycle_active",), 100.0),
    "registers": (("launch__registers_per_thread",), 1.0),
}
TIMES = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
STALL = re.compile(r"smsp__average_warps?_issue_stalled_(\w+)_per_issue_active\.ratio")


def ncu() -> str | None:
    return shutil.which("ncu") or (USUAL if os.path.exists(USUAL) else None)


def number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def stalls(line: Mapping[str, str]) -> dict[str, float]:
    """Percent of the time of warps by what they wait for, the largest first; not what is below 1."""
    found = {}
    for name, text in line.items():
        what = STALL.fullmatch(name)
        value = number(text) if what else None
        if value is not None and "not_issued" not in name and what[1] != "selected":
            found[what[1]] = value
    total = sum(found.values())
    parts = {name: round(100 * x / total, 1) for name, x in found.items() if total and x >= 0.01 * total}
    return dict(sorted(parts.items(), key=lambda x: (-x[1], x[0])))


def kernels(log: str) -> list[dict]:
    """The kernels in what ncu writes with --csv --page raw. Raises ValueError, with its end, if there are none."""
    lines = log.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    rows = list(csv.DictReader(lines[start:])) if start is not None else []
    if len(rows) < 2:
        raise ValueError("ncu says of no kernel: " + " ".join(lines[-3:])[-300:])
    units, *rest = rows  # under the names
    out = []
    for line in rest:
        kernel: dict = {"kernel": line.get("Kernel Name", "?")}
        for name, (metrics, factor) in METRICS.items():
            metric = next((m for m in metrics if number(line.get(m) or "") is not None), None)
            if metric is not None:
                scale = TIMES.get(units[metric], 1.0) if name == "us" else 1.0
                kernel[name] = round(number(line[metric]) * factor * scale, 2)
        kernel["stalls_percent"] = stalls(line)
        out.append(kernel)
    return out


def of_rows(rows: Sequence[str], found: Sequence[dict]) -> dict[str, dict]:
    """The kernels by row: of each those after a kernel of torch's fill_, the first few."""
    parts: list[list[dict]] = []
    for kernel in found:
        if BETWEEN in kernel["kernel"]:
            parts.append([])
        elif parts:
            parts[-1].append(kernel)
    if len(parts) != len(rows):
        raise ValueError(f"ncu says of {len(parts)} rows, not of {len(rows)}")
    return {row: {"kernels": part[:KERNELS]} for row, part in zip(rows, parts, strict=True)}


def look_at(rows: Sequence[str], program: str, seconds: float) -> dict[str, dict]:
    """By row {"kernels": [...]}, or {"error": ...}."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        command = [program, "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw"]
        command += [x for section in SECTIONS for x in ("--section", section)]
        command += ["--log-file", str(log), sys.executable, __file__, *rows]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return {row: {"error": f"ncu took more than {seconds:.0f} s"} for row in rows}
        text = log.read_text(errors="replace") if log.exists() else ""
        try:
            return of_rows(rows, kernels(text))
        except ValueError as error:
            return {row: {"error": f"{error} {errors[-300:]}".strip()} for row in rows}


def counters(rows: Sequence[str], seconds: float) -> dict[str, dict]:
    """What look_at gives, by row, in their order until the time is over; nothing without ncu."""
    program, end, out = ncu(), time.monotonic() + seconds, {}
    for start in range(0, len(rows) if program else 0, BATCH):
        batch, left = rows[start : start + BATCH], end - time.monotonic()
        if left > 10:
            out |= look_at(batch, program, min(left, START_SECONDS + ROW_SECONDS * len(batch)))
        else:
            out |= {row: {"error": "no time was left"} for row in batch}
    return out


def main(names: Sequence[str]) -> None:
    import torch
    from columns import OURS, makers
    from rows import ROWS

    rows = {row.name: row for row in ROWS}
    between = torch.empty(1, device="cuda")
    for name in names:
        program = rows[name].program("cuda")
        call, inputs = makers([])[OURS](program), list(program.inputs)
        for _ in range(2):
            call(inputs)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        between.fill_(1.0)
        call(inputs)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        del program, call, inputs
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:])
