"""Runs random chains of operations (chains.py) on the CPU, by simulated kernels, or on a device, in many processes.

python tests/python/run_chains.py [--programs N] [--seed S] [--simulate | --device cuda] [--processes P]
    [--indexed] [--only SEED]
"""

import argparse
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
from chains import MOST, Chain, Run, check
from chains_indexed import Indexed


def runner(simulate: bool, device: str | None) -> tuple[Run, str]:
    """How programs are executed, and the arguments of execute that say so."""
    if simulate:
        return lambda fd, inputs: fd.execute(inputs, _enable_options=["simulate"]), ', _enable_options=["simulate"]'
    if device is None:
        return lambda fd, inputs: fd.execute(inputs), ""
    sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
    from device import put

    return lambda fd, inputs: [x.cpu() for x in fd.execute([put(x) for x in inputs], device=device)], ""


def kind_of(arguments: argparse.Namespace) -> type[Chain]:
    return Indexed if arguments.indexed else Chain


def worker(arguments: argparse.Namespace) -> int:
    """Runs the programs that standard input names, a line each, and answers with what is wrong with them."""
    torch.set_num_threads(1)
    run, options = runner(arguments.simulate, arguments.device)
    for line in sys.stdin:
        wrong = check(int(line), run, arguments.most, options, kind_of(arguments))
        sys.stdout.write(f"{wrong or ''}\0")
        sys.stdout.flush()
    return 0


class Worker:
    """A process of programs; another one once it has ended."""

    def __init__(self, limit: float):
        self.limit = limit
        self.process: subprocess.Popen | None = None

    def check(self, seed: int) -> str | None:
        if self.process is None:
            command = [sys.executable, *sys.argv, "--worker"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        process = self.process
        process.stdin.write(f"{seed}\n")
        process.stdin.flush()
        timer = threading.Timer(self.limit, process.kill)
        timer.start()
        answer = []
        while (c := process.stdout.read(1)) not in ("", "\0"):
            answer.append(c)
        timer.cancel()
        if c == "":
            self.process = None
            return f"program {seed} ended its process with status {process.wait()}: run --only {seed}\n"
        return "".join(answer) or None

    def end(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the others follow it")
    parser.add_argument("--simulate", action="store_true", help="kernels in the simulator")
    parser.add_argument("--device", help="kernels on this device, such as cuda")
    parser.add_argument("--indexed", action="store_true", help="lookups, scans and sorts among the operations")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument(
        "--most", type=int, help=f"elements of a tensor (default: {MOST}, a tenth of it with --simulate)"
    )
    parser.add_argument("--limit", type=float, default=120, help="seconds that a program may take")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no program is begun after that")
    parser.add_argument("--only", type=int, help="runs the program of this seed in this process, and prints it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.most = arguments.most or (MOST // 10 if arguments.simulate else MOST)
    if arguments.worker:
        return worker(arguments)
    if arguments.only is not None:
        chain = kind_of(arguments)(arguments.only, arguments.most)
        run, options = runner(arguments.simulate, arguments.device)
        print(chain.script(chain.outputs, options), flush=True)
        wrong = check(arguments.only, run, arguments.most, options, kind_of(arguments))
        print(wrong or "passed")
        return 1 if wrong else 0
    began, seeds, lock = (
        time.monotonic(),
        iter(range(arguments.seed, arguments.seed + arguments.programs)),
        threading.Lock(),
    )
    ran, failed = [], []

    def follow() -> None:
        one = Worker(arguments.limit)
        while time.monotonic() - began < arguments.seconds:
            with lock:
                seed = next(seeds, None)
            if seed is None:
                break
            wrong = one.check(seed)
            with lock:
                ran.append(seed)
                if wrong is not None:
                    failed.append(seed)
                    print(wrong, flush=True)
        one.end()

    threads = [threading.Thread(target=follow) for _ in range(arguments.processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{len(ran)} programs in {time.monotonic() - began:.0f} s, {len(failed)} failed: {sorted(failed)}")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
