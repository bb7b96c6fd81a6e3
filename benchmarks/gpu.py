"""Measures nvfuser_go on a GPU beside torch, nvFuser and kernels written by hand; prints Markdown and keeps JSON.

docs/benchmarks.md tells what is measured and how to read it.
"""

import argparse
import gc
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from columns import AGAIN, BY_HAND, COPIES, EAGER, OURS, PEERS, STATIC, columns, copies, makers
from counters import counters
from first_call import series
from handwritten import KERNELS, Driver, Handwritten
from machine import ROOT, as_json, description, provenance
from programs import Program
from report import draw, markdown, share, short_rows, shortfalls
from row import F32, Input, Row, traffic
from rows import QUICK, ROWS
from timing import STATES, Cache, Summary, device_times, host_times, ratio


def gpu() -> dict:
    properties = torch.cuda.get_device_properties(0)
    version = Path("/proc/driver/nvidia/version")
    found = re.search(r"\s(\d+\.\d+[.\d]*)\s", version.read_text()) if version.exists() else None
    return {
        "name": properties.name,
        "driver": found[1] if found else "unknown",
        "cuda": torch.version.cuda,
        "capability": list(torch.cuda.get_device_capability()),
        "multiprocessors": properties.multi_processor_count,
        "memory": properties.total_memory,
    }


def measure_row(
    row: Row, arguments: argparse.Namespace, cache: Cache, own: Handwritten, hand: Handwritten | None
) -> dict:
    """Times of a row; see report.py for what is made of them."""
    program = row.program("cuda")
    read, written = row.read(program), traffic(row.outputs(program))
    made = columns(row, program, arguments.peers, hand)
    copy_bytes, copy_calls = copies(read + written, own)
    times = device_times({**made.calls, **copy_calls}, cache, arguments.rounds)
    noise = {}
    if AGAIN in made.calls:
        noise = {state: abs(ratio(times[state][OURS], times[state][AGAIN]) - 1) for state in STATES}
    return {
        "read": read,
        "written": written,
        "copy_bytes": copy_bytes,
        "gate": asdict(row.gate) if row.gate else None,
        "columns": {
            name: {
                **({"error": made.errors[name]} if name in made.errors else {}),
                **{state: asdict(Summary.of(times[state][name])) for state in STATES},
            }
            for name in times[STATES[0]]
        },
        "noise": noise,
        "wrong": made.wrong,
        "refused": made.refused,
    }


def line(name: str, row: dict) -> str:
    """A row as it is measured, for who waits."""

    def cell(column: str) -> str:
        found = row["columns"].get(column)
        if found is None:
            return f"{'-':>15}"
        wrong = "!" if column in row["wrong"] else ""
        times = "/".join(f"{found[state]['p50']:.1f}" for state in STATES)
        return f"{times + wrong:>15}"

    hand = [x for x in row["columns"] if x == STATIC or x.startswith(BY_HAND)]
    shares = [share(row, OURS if OURS in row["columns"] else EAGER, state) for state in STATES]
    percent = "/".join("-" if x is None else f"{100 * x:.1f}" for x in shares)
    noise = "/".join(f"{100 * x:.1f}" for x in row["noise"].values())
    return f"{name[:30]:30}" + "".join(map(cell, [OURS, *PEERS, *COPIES, *hand])) + f"  {percent:>11} {noise:>8}"


def failed(error: Exception) -> dict:
    """What stands for a row of which the measurement fails, as for want of memory."""
    why = f"{type(error).__name__}: {error}".split("\n", 1)[0][:300]
    nothing = {"read": 0, "written": 0, "copy_bytes": 0, "gate": None, "columns": {}, "noise": {}, "wrong": []}
    return {**nothing, "refused": {OURS: why}}


def measure_rows(arguments: argparse.Namespace, seen: Callable[[dict], None]) -> dict:
    """What measure_row gives, by the name of the row; each is printed as it comes, and `seen` is called with all."""
    driver, cache = Driver(), Cache()
    own = Handwritten(KERNELS, driver)
    wanted = {row.name for row in chosen(arguments)}
    hand = Handwritten(arguments.handwritten, driver, wanted) if arguments.handwritten else None
    head = [OURS, *PEERS, *COPIES, "by hand"]
    print(f"{'us, dirty/clean':30}" + "".join(f"{x:>15}" for x in head) + "  % copy, A/A %")
    out = {}
    for row in chosen(arguments):
        try:
            out[row.name] = measure_row(row, arguments, cache, own, hand)
        except Exception as error:
            out[row.name] = failed(error)
        seen(out)
        print(line(row.name, out[row.name]), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    return out


def sum_of(inputs: int) -> Program:
    """A sum of 64 x 64 float32 tensors, or the negative of one."""
    x = Input(F32, "MN")
    draw = torch.Generator("cuda").manual_seed(0)
    tensors = [x.make({"M": 64, "N": 64}, "cuda", draw) for _ in range(inputs)]

    def define(fd, types, first, *rest):
        total = first if rest else fd.ops.neg(first)
        for other in rest:
            total = fd.ops.add(total, other)
        return total

    def eager(first, *rest):
        total = first if rest else -first
        for other in rest:
            total = total + other
        return total

    return Program(f"{inputs} inputs", define, eager, tensors)


def measure_host(arguments: argparse.Namespace) -> dict:
    """Host microseconds of cached calls, by the number of inputs and the column."""
    out = {}
    for inputs in (1, 3, 8):
        program = sum_of(inputs)
        x, given = program.inputs[0], list(program.inputs)
        calls: dict[str, Callable[[], object]] = {"torch.add": partial(torch.add, x, x)}
        for name, make in makers(arguments.peers).items():
            try:
                call = make(program)
                call(given)
            except Exception as error:
                print(f"host time, {inputs} inputs, {name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
                continue
            calls[name] = partial(call, given)
        if OURS in calls:
            calls[AGAIN] = calls[OURS]
        times = host_times(calls, 4 * arguments.rounds, synchronize=torch.cuda.synchronize)
        out[str(inputs)] = {
            name: {**asdict(Summary.of(t)), "ratio": ratio(t, times["torch.add"])} for name, t in times.items()
        }
    return out


def measure_first(arguments: argparse.Namespace) -> dict:
    """What first_call.series gives, or why it gives nothing, by package."""
    out: dict[str, object] = {}
    for package, processes in (("nvfuser_go", arguments.processes), ("nvfuser_direct", arguments.peer_processes)):
        if processes == 0:
            continue
        try:
            out[package] = series(processes, package)
        except RuntimeError as error:
            out[package] = str(error)
            print(f"first calls of {package}: {error}", file=sys.stderr)
    return out


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--rows", metavar="REGEX", help="only rows whose names have this")
    parser.add_argument("--quick", action="store_true", help="a few rows and rounds, in 90 seconds; writes no file")
    parser.add_argument(
        "--peers",
        default=",".join(PEERS),
        help=f"which of {','.join(PEERS)} to run (all), or {STATIC}: ours of static sizes",
    )
    parser.add_argument(
        "--handwritten", type=Path, metavar="DIR", help="kernels to time: see benchmarks/handwritten.py"
    )
    parser.add_argument("--only", default="rows,host,first", help="which parts to measure (rows,host,first)")
    parser.add_argument("--rounds", type=int, help="how often each time is taken (41, quick 21)")
    parser.add_argument("--processes", type=int, help="fresh processes for first calls (5, quick 1)")
    parser.add_argument("--peer-processes", type=int, default=0, help="the same for nvFuser (0)")
    parser.add_argument(
        "--profile", type=float, help="seconds for ncu to look at the rows that fall short (180, quick 0)"
    )
    parser.add_argument("--output", type=Path, help="folder of the JSON file and the chart (benchmarks/results)")
    arguments = parser.parse_args(argv)
    arguments.peers = arguments.peers.split(",") if arguments.peers else []
    arguments.only = arguments.only.split(",")
    for what, given, known in (
        ("--peers", arguments.peers, (*PEERS, STATIC)),
        ("--only", arguments.only, ("rows", "host", "first")),
    ):
        if unknown := set(given) - set(known):
            parser.error(f"{what}: {sorted(unknown)} is not among {list(known)}")
    arguments.rounds = arguments.rounds or (21 if arguments.quick else 41)
    arguments.profile = arguments.profile if arguments.profile is not None else (0 if arguments.quick else 180)
    arguments.processes = arguments.processes if arguments.processes is not None else (1 if arguments.quick else 5)
    return arguments


def chosen(arguments: argparse.Namespace) -> list[Row]:
    pattern = arguments.rows or (QUICK if arguments.quick else "")
    return [row for row in ROWS if re.search(pattern, row.name)]


def measure(arguments: argparse.Namespace, keep: Callable[[dict], None]) -> dict:
    """Everything that is asked for; `keep` is called after each row and each part with what there is."""
    result = {
        "machine": description(),
        "gpu": gpu(),
        **provenance(),
        "rounds": arguments.rounds,
        "seconds": {},
        "rows": {},
        "host": {},
        "first": {},
    }

    def seen(rows: dict) -> None:
        result["rows"] = rows
        keep(result)

    parts = {"rows": partial(measure_rows, seen=seen), "host": measure_host, "first": measure_first}
    gc.disable()
    for part in arguments.only:
        start = time.perf_counter()
        result[part] = parts[part](arguments)
        result["seconds"][part] = time.perf_counter() - start
        result["short"] = [str(x) for x in shortfalls(result)]
        keep(result)
    if arguments.profile > 0:
        for name, found in counters(short_rows(result), arguments.profile).items():
            result["rows"][name]["counters"] = found
        keep(result)
    gc.enable()
    return result


def path(folder: Path, result: dict) -> Path:
    """Where a result is kept, without a suffix."""
    kind = re.sub(r"\W+", "-", result["gpu"]["name"].removeprefix("NVIDIA ")).lower()
    return folder / f"{result['date'][:10]}-{result['commit'].rstrip('+')}-{kind}"


def main(argv: list[str]) -> int:
    arguments = parsed(argv)
    if arguments.list:
        print(*(row.name for row in chosen(arguments)), sep="\n")
        return 0
    if not torch.cuda.is_available():
        print("benchmarks/gpu.py needs a GPU that torch sees: torch.cuda.is_available() is False", file=sys.stderr)
        return 1
    folder = arguments.output or (None if arguments.quick else ROOT / "benchmarks" / "results")

    def keep(result: dict) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            path(folder, result).with_suffix(".json").write_text(as_json(result))

    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", scratch)
        result = measure(arguments, keep)
    print(markdown(result))
    if folder is not None:
        draw(result, path(folder, result).with_suffix(".svg"))
        print(f"\nWritten to {path(folder, result).with_suffix('.json')}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
