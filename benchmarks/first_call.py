"""What the first call of a kernel takes, in a process of its own: python first_call.py [PACKAGE]

Prints a list of milliseconds as JSON, of one program after another, from the entry of execute() to the end of the work
on the GPU. The definitions, the inputs, torch's context and memory for the outputs are there before. `series` runs it.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

SIZES = {"M": 512, "N": 4096, "B": 4, "C": 64, "H": 14, "W": 14}
PROGRAMS = ("bias + gelu bf16", "silu * mul bf16", "cast bf16 to f32", "NHWC scale, bias, relu bf16")


def series(processes: int, package: str = "nvfuser_go") -> dict[str, list[list[float]]]:
    """Milliseconds of each program in each process: "cold" with an empty disk cache each, "disk" with the one that the
    first of them left.

    Raises RuntimeError with its messages if a process fails.
    """

    def once(cache: str) -> list[float]:
        # NVRTC keeps a cache of its own, which would make a cold process look warm.
        environment = {**os.environ, "NVFUSER_GO_CACHE_DIR": cache, "CUDA_CACHE_PATH": cache + ".cuda"}
        command = [sys.executable, __file__, package]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError("\n".join(done.stderr.strip().splitlines()[-3:]))
        return json.loads(done.stdout.splitlines()[-1])

    cold = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(processes):
            cold.append(once(str(Path(folder, str(i)))))
        return {"cold": cold, "disk": [once(str(Path(folder, "0"))) for _ in range(processes)]}


def main(arguments: Sequence[str]) -> None:
    import torch
    from rows import ROWS

    package = importlib.import_module(*arguments or ["nvfuser_go"])
    rows = {row.name: row for row in ROWS}
    programs = [replace(rows[name], sizes=SIZES).program("cuda") for name in PROGRAMS]
    made = [(p.fusion(package), p.inputs) for p in programs]
    for p in programs:
        p.eager(*p.inputs)
    torch.cuda.synchronize()
    times = []
    for fd, inputs in made:
        start = time.perf_counter()
        fd.execute(inputs)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps(times))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(sys.argv[1:])
