"""Measures what using the package costs on this machine, prints it as Markdown and keeps it as JSON.

Usage: python benchmarks/run.py [--quick]

docs/benchmarks.md tells how to read the numbers.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from machine import ROOT, as_json, description, provenance
from programs import Program, programs

import nvfuser_go
from nvfuser_go import FusionDefinition


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """The median time of a call, of which one more comes first unmeasured."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_time(repeats: int) -> dict[str, float]:
    """Seconds to import the package in a fresh process that has imported torch."""
    program = "import torch, time; t = time.perf_counter(); import nvfuser_go; print(time.perf_counter() - t)"
    environment = {**os.environ, "PYTHONPATH": str(Path(nvfuser_go.__file__).parents[1])}

    def once() -> float:
        return float(
            subprocess.run(
                [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
            ).stdout
        )

    once()
    return {"seconds": statistics.median(once() for _ in range(repeats))}


def recording(ops: int, repeats: int) -> dict[str, float]:
    """Microseconds to record one operation, by kind."""

    def record(step: Callable) -> float:
        def once() -> float:
            with FusionDefinition() as fd:
                x, y = (fd.define_tensor(shape=[-1, -1], contiguity=[True, True]) for _ in range(2))
                start = time.perf_counter()
                for _ in range(ops):
                    step(fd, x, y)
                return time.perf_counter() - start

        once()
        return statistics.median(once() for _ in range(repeats)) / ops * 1e6

    return {
        "tensor + tensor": record(lambda fd, x, y: fd.ops.add(x, y)),
        "tensor * number": record(lambda fd, x, y: fd.ops.mul(x, 2.0)),
        "tensor + tensor (operator)": record(lambda fd, x, y: x + y),
        "broadcast_in_dim": record(lambda fd, x, y: fd.ops.broadcast_in_dim(x, [4, 5, 6], [0, 1])),
        "sum": record(lambda fd, x, y: fd.ops.sum(x, [1])),
    }


def tiny_execution(runs: int, repeats: int) -> dict[str, float]:
    """Microseconds of a run of x + y on eight elements that has run before, beside torch's own."""
    x, y = torch.randn(8), torch.randn(8)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.add(fd.from_pytorch(x), fd.from_pytorch(y)))
    inputs = [x, y]

    def ours() -> None:
        for _ in range(runs):
            fd.execute(inputs)

    def eager() -> None:
        for _ in range(runs):
            torch.add(x, y)

    return {
        "execute": median_seconds(ours, repeats) / runs * 1e6,
        "torch.add": median_seconds(eager, repeats) / runs * 1e6,
    }


def beside_eager(program: Program, repeats: int) -> dict[str, float]:
    """Milliseconds of a program as a fusion and in torch, in turns, and how far their results are apart."""
    fd = program.fusion()
    got, want = fd.execute(program.inputs)[0], program.eager(*program.inputs)
    error = (got - want).abs().max().item()
    ours, eager = [], []
    for _ in range(repeats):
        for times, call in (
            (ours, lambda: fd.execute(program.inputs)),
            (eager, lambda: program.eager(*program.inputs)),
        ):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    mine, theirs = statistics.median(ours) * 1e3, statistics.median(eager) * 1e3
    return {"milliseconds": mine, "eager_milliseconds": theirs, "ratio": theirs / mine, "largest_error": error}


def growth(sizes: list[int], repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds to define and print a chain of operations, by their number."""

    def define(ops: int) -> FusionDefinition:
        with FusionDefinition() as fd:
            x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True])
            y = x
            for i in range(ops // 2):
                y = fd.ops.sin(y) if i % 2 else fd.ops.mul(y, x)
                y = fd.ops.add(y, float(i))
            fd.add_output(y)
        return fd

    steps = {"definition": define, "text": lambda fd: fd.fusion.text(), "repr": repr}
    out: dict[str, dict[str, float]] = {name: {} for name in steps}
    define(sizes[0])
    for n in sizes:
        taken: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(repeats):
            made: object = n
            for name, step in steps.items():
                start = time.perf_counter()
                result = step(made)
                taken[name].append(time.perf_counter() - start)
                made = result if name == "definition" else made
        for name, times in taken.items():
            out[name][str(n)] = statistics.median(times) * 1e3
    for times in out.values():
        first, last = sizes[0], sizes[-1]
        times["growth"] = (times[str(last)] / last) / (times[str(first)] / first)
    return out


def measure(quick: bool) -> dict:
    few = 3 if quick else 9
    return {
        "machine": description(),
        **provenance(),
        "import": import_time(few),
        "record": recording(200 if quick else 1000, few),
        "execute": tiny_execution(200 if quick else 2000, few),
        "programs": {p.name: beside_eager(p, few) for p in programs(1024 if quick else 4096)},
        "growth": growth([100, 1000] if quick else [100, 1000, 10_000], 3),
    }


def markdown(result: dict) -> str:
    m = result["machine"]
    lines = [
        f"{m['processor']}, {m['cores']} cores, {m['system']}, Python {m['python']}, torch {m['torch']};"
        f" nvfuser_go {result['version']} at {result['commit']}, {result['date']}",
        "",
        "| what | time |",
        "| --- | --- |",
        f"| import, beyond torch's | {result['import']['seconds'] * 1e3:.0f} ms |",
        *(f"| record {name} | {us:.2f} us |" for name, us in result["record"].items()),
        f"| execute a tiny fusion again | {result['execute']['execute']:.2f} us |",
        f"| torch.add of the same | {result['execute']['torch.add']:.2f} us |",
        "",
        "| program | nvfuser_go | torch eager | speed, eager = 1 | largest difference |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {name} | {p['milliseconds']:.1f} ms | {p['eager_milliseconds']:.1f} ms"
            f" | {p['ratio']:.2f} | {p['largest_error']:.1e} |"
            for name, p in result["programs"].items()
        ),
        "",
    ]
    sizes = [n for n in result["growth"]["definition"] if n != "growth"]
    lines += ["| operations | " + " | ".join(f"{int(n):,}" for n in sizes) + " | growth per operation |"]
    lines += ["| --- " * (len(sizes) + 2) + "|"]
    for name, times in result["growth"].items():
        lines.append(f"| {name} | " + " | ".join(f"{times[n]:.2f} ms" for n in sizes) + f" | {times['growth']:.2f} |")
    return "\n".join(lines)


def draw(result: dict, path: Path) -> None:
    """A bar for each program, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(result["programs"])
    figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
    axes.barh(names[::-1], [result["programs"][n]["ratio"] for n in names[::-1]])
    axes.axvline(1, color="gray")
    axes.set_xlabel("speed, torch eager = 1")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and few repeats: whether it works, not how fast"
    )
    result = measure(parser.parse_args().quick)
    print(markdown(result))
    if "--quick" in sys.argv:
        return
    results = ROOT / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    stem = f"{result['date'][:10]}-{result['commit'].rstrip('+')}"
    (results / f"{stem}.json").write_text(as_json(result))
    draw(result, results / f"{stem}.svg")
    print(f"\nWritten to benchmarks/results/{stem}.json")


if __name__ == "__main__":
    main()
