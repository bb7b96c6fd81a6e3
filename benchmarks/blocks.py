"""Blocks of models on a GPU: kernels, time of a call and memory beside eager and torch.compile.

    python benchmarks/blocks.py [--size large|small] [--blocks REGEX] [--output DIR]
    python benchmarks/blocks.py --count-only [--size large|small] [--blocks REGEX] [--output DIR]

For each block of examples/blocks: how many kernels and copies a call has the device run, the median microseconds of a
call with the wait for its end, and the MiB that it allocates at most beyond its inputs. Then what a segment more costs
the host: the difference of calls of 12 kernels and of one. With --count-only, which needs no GPU: how many kernels and
calls of torch are planned, by us and by torch.compile (counted.py tells how). Writes JSON to benchmarks/results.
"""

import argparse
import importlib
import logging
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "examples" / "blocks"))

import counted  # noqa: E402
from block import Block, Draw, copies  # noqa: E402
from gpu import gpu, path  # noqa: E402
from machine import as_json, description, provenance  # noqa: E402

from nvfuser_go import DataType, FusionDefinition  # noqa: E402

MIB = 1 << 20
SEGMENTS = 12


def blocks() -> list[Block]:
    names = sorted(file.stem for file in (ROOT / "examples" / "blocks").glob("*.py") if file.stem != "block")
    return [block for name in names for block in importlib.import_module(name).BLOCKS]


def kernels(call: Callable[[], object]) -> int:
    """How many kernels, copies and fills a call has the device run."""
    call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profile.events())


def microseconds(call: Callable[[], object], rounds: int = 15) -> float:
    """The median of a call with the wait for its end."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def peak(call: Callable[[], object]) -> float:
    """MiB that a call allocates at most, with its results, beyond what there was."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / MIB


def measured(call: Callable[[], object]) -> dict[str, float]:
    call()
    return {"kernels": kernels(call), "us": microseconds(call), "MiB": peak(call)}


def measure_block(block: Block, size: str, compiles: bool) -> dict:
    """Each column with what was measured, or with the words of what went wrong."""
    inputs = block.inputs(Draw("cuda"), **block.sizes[size])
    fd = block.fusion(inputs, dynamic=False)
    columns: dict[str, Callable[[], object]] = {}
    for name, function in (("nvfuser_go", None), ("eager", block.reference), ("torch.compile", block.reference)):
        own = copies(inputs)
        if function is None:
            columns[name] = lambda own=own: fd.execute(own)
        elif name == "eager":
            columns[name] = lambda own=own: block.reference(*own)
        elif compiles:
            torch.compiler.reset()
            compiled = torch.compile(function)
            columns[name] = lambda own=own, compiled=compiled: compiled(*own)
    result = {}
    for name, call in columns.items():
        try:
            result[name] = measured(call)
        except Exception as error:  # of whatever kind torch.compile raises
            result[name] = {"error": str(error).strip().splitlines()[0][:200]}
    return result


def chain(length: int) -> FusionDefinition:
    """`length` kernels, one after another."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Float)
        for i in range(length):
            x = fd.ops.segment_set(fd.ops.mul(x, 1.0 + 1 / (i + 2)))
        fd.add_output(x)
    return fd


def host_per_segment(calls: int = 2000) -> dict[str, float]:
    """Median microseconds of the host for calls of one kernel and of several, and for each that is added."""
    x = torch.randn(128, device="cuda")
    times: dict[int, list[float]] = {1: [], SEGMENTS: []}
    definitions = {n: chain(n) for n in times}
    for fd in definitions.values():
        fd.execute([x])
    for i in range(calls):
        for n, fd in definitions.items():
            start = time.perf_counter()
            fd.execute([x])
            times[n].append((time.perf_counter() - start) * 1e6)
        if i % 50 == 0:
            torch.cuda.synchronize()
    one, many = (statistics.median(times[n]) for n in (1, SEGMENTS))
    launched = {n: kernels(lambda fd=fd: fd.execute([x])) for n, fd in definitions.items()}
    added = launched[SEGMENTS] - launched[1]
    return {"one us": one, f"{SEGMENTS} us": many, "us a segment": (many - one) / added, "kernels": launched[SEGMENTS]}


def count_block(block: Block, size: str) -> dict:
    """What counted.py counts, or the words of why torch.compile plans nothing."""
    row = {"nvfuser_go": counted.ours(block, size)}
    try:
        row["torch.compile"] = counted.theirs(block, size)
    except Exception as error:  # of whatever kind torch.compile raises
        row["torch.compile"] = {"error": " ".join(str(error).split())[:200]}
    return row


def counts(row: dict) -> list[str]:
    ours, theirs = row["nvfuser_go"], row["torch.compile"]
    shown = [f"{ours['kernels']} / {ours['calls']}", str(ours["fills"])]
    if "error" in theirs:
        return [*shown, "error", "", ""]
    return [
        *shown,
        f"{theirs['kernels']} / {theirs['calls']}",
        str(theirs["graphs"]),
        str(sum(theirs["eager"].values())),
    ]


def count(chosen: list[Block], sizes: list[str], output: Path) -> None:
    """Prints a table of counts and writes them."""
    torch._logging.set_logs(all=logging.ERROR)  # each compilation is broken off, which torch warns of
    described = {"name": counted.DEVICE, "cuda": torch.version.cuda}
    result = {"machine": description(), "gpu": described, **provenance(), "sizes": {size: {} for size in sizes}}
    print(
        f"{counted.DEVICE}; {result['commit']}, {result['date']}; torch {torch.__version__}; kernels / calls of torch"
    )
    print("\n| block | size | nvfuser_go | fills | torch.compile | graphs | eager between them |")
    print("| --- " * 7 + "|")
    for size in sizes:
        for block in chosen:
            row = result["sizes"][size][block.name] = count_block(block, size)
            print(f"| {block.name} | {size} | {' | '.join(counts(row))} |", flush=True)
            write(output, result)


def write(output: Path, result: dict) -> None:
    file = path(output, result)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.with_name(file.name + "-blocks.json").write_text(as_json(result))


def cells(row: dict, column: str, names: tuple[str, ...] = ("kernels", "us", "MiB")) -> list[str]:
    found = row.get(column, {})
    return ["error" if "error" in found else f"{found[name]:.0f}" if name in found else "" for name in names]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=["small", "large"], help="large; with --count-only both")
    parser.add_argument("--blocks", metavar="REGEX", default="", help="only blocks whose names have this")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile, which takes minutes")
    parser.add_argument("--count-only", action="store_true", help="count what is planned, which needs no GPU")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results")
    arguments = parser.parse_args(argv)
    chosen = [block for block in blocks() if re.search(arguments.blocks, block.name)]
    if arguments.count_only:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = scratch
            count(chosen, [arguments.size] if arguments.size else ["small", "large"], arguments.output)
        return 0
    size = arguments.size or "large"
    if not torch.cuda.is_available():
        print("benchmarks/blocks.py needs a GPU that torch sees: torch.cuda.is_available() is False", file=sys.stderr)
        return 1
    result = {"machine": description(), "gpu": gpu(), **provenance(), "size": size, "blocks": {}}
    result["host"] = host_per_segment()
    print(f"{result['gpu']['name']}; {result['commit']}, {result['date']}; {size} sizes")
    print("host: " + ", ".join(f"{name} {value:.2f}" for name, value in result["host"].items()))
    print("\n| block | kernels | us | MiB | eager: kernels | us | MiB | torch.compile: kernels | us | MiB |")
    print("| --- " * 10 + "|")
    for block in chosen:
        row = measure_block(block, size, not arguments.no_compile)
        result["blocks"][block.name] = row
        shown = [text for column in ("nvfuser_go", "eager", "torch.compile") for text in cells(row, column)]
        print(f"| {block.name} | {' | '.join(shown)} |", flush=True)
        write(arguments.output, result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
