"""Runs all tests that need a GPU and prints a summary; docs/gpu.md describes it.

    python tests/gpu/run.py [--out FILE.json] [--every N] [--only NAME,...] [--jobs N] [--limit SECONDS]

Exit status: 0 if everything passed.
"""

import argparse
import datetime
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build" / "gpu"
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FINDERS = ("memcheck", "racecheck", "initcheck")  # those that a kernel with faults is run under


@dataclass
class Result:
    """What became of a step. Counts are of tests; of a sanitizer, `failed` is the number of its reports."""

    name: str
    status: str = "not run"  # passed, failed, timed out, not run
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)  # the first lines of each
    why: str = ""  # why it is not run


@dataclass
class Step:
    name: str
    command: list[str]
    folder: Path = ROOT
    environment: dict[str, str] = field(default_factory=dict)
    read: str = "go"  # how the counts are found: go, pytest, sanitizer
    report: Path | None = None  # a file that the command writes
    limit: float = 600
    finds: bool = False  # it must fail: the faults are planted


# ---- Running ----


class Runner:
    """Runs steps until a time, or until it is stopped; what they print goes to a file of each as it comes."""

    def __init__(self, logs: Path, limit: float):
        self.logs, self.end = logs, time.monotonic() + limit
        self.lock = threading.Lock()
        self.processes: set[subprocess.Popen] = set()
        self.stopped = False

    def stop(self, *_: object) -> None:
        """Ends what runs; what has not begun is not run."""
        self.stopped = True
        for process in list(self.processes):
            self.kill(process)

    def kill(self, process: subprocess.Popen) -> None:
        """Asks a process group to end, as pytest then still writes its report, and then ends it."""

        def send(number: int) -> None:
            if process.poll() is None:
                os.killpg(process.pid, number)

        send(signal.SIGINT)
        timer = threading.Timer(5, send, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def run(self, step: Step) -> Result:
        result, began = Result(step.name), time.monotonic()
        limit = min(step.limit, self.end - began)
        if self.stopped or limit < 1:
            result.why = "no time was left"
            return result
        print(f"{step.name:16} begins", flush=True)
        log = self.logs / f"{step.name.replace(' ', '_').replace('/', '_')}.txt"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                step.command,
                cwd=step.folder,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | step.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        with self.lock:
            self.processes.add(process)
        expired = self.stopped
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            expired = True
            self.kill(process)
            process.wait()
        with self.lock:
            self.processes.discard(process)
        result.seconds = round(time.monotonic() - began, 1)
        output = log.read_text(errors="replace")
        READERS[step.read](step, output, result)
        right = (process.returncode == 0) != step.finds and not result.failed
        result.status = "passed" if right else "failed"
        if expired or self.stopped:
            result.status = "timed out"
        if result.status != "passed" and not result.failures:
            result.failures = [ending(output)]
        if process.returncode < 0 and result.status == "failed":
            result.failures.insert(0, f"ended by signal {-process.returncode}, {signal.strsignal(-process.returncode)}")
        print(line(result), flush=True)
        return result


def shorten(text: str, lines: int = 12) -> str:
    kept = [line for line in text.strip().splitlines() if line.strip()]
    return "\n".join(kept[:lines])[:1200]


def ending(text: str, lines: int = 8) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])[-1200:]


def read_go(step: Step, output: str, result: Result) -> None:
    """Tests without subtests, from -test.v, where what a test says stands before its result."""
    said: dict[str, list[str]] = {}
    outcomes: dict[str, str] = {}
    name = ""
    for text in output.splitlines():
        if begun := re.match(r"=== (?:RUN|CONT|NAME)\s+(\S+)", text):
            name = begun[1]
        elif ended := re.match(r"\s*--- (PASS|FAIL|SKIP): (\S+)", text):
            outcomes[ended[2]] = ended[1]
        elif not re.search(r"Error Trace:|^\s+nvfuser_go/\S+\.go:\d+$", text):
            said.setdefault(name, []).append(text)
    for name, outcome in outcomes.items():
        if any(other.startswith(name + "/") for other in outcomes):
            continue
        result.passed += outcome == "PASS"
        result.skipped += outcome == "SKIP"
        if outcome == "FAIL":
            result.failed += 1
            messages = re.split(r"^\s+\w+\.go:\d+:", "\n".join(said.get(name, [])), flags=re.M)[1:]
            result.failures += [name + ": " + shorten(text, 5) for text in messages[:8]]
            if len(messages) > 8:
                result.failures.append(f"{name}: and {len(messages) - 8} more")
    if "panic:" in output:
        result.failures.append(shorten(output[output.index("panic:") :]))


def read_pytest(step: Step, output: str, result: Result) -> None:
    try:
        cases = list(ElementTree.parse(step.report).iter("testcase"))
    except (OSError, ElementTree.ParseError) as problem:
        for what in ("passed", "failed", "skipped"):
            setattr(result, what, len(re.findall(rf" {what.upper()}\b", output)))
        result.failures = [f"no report ({problem}); the last lines:\n" + ending(output)]
        return
    for case in cases:
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        if bad is not None:
            result.failed += 1
            text = bad.get("message") or ""
            result.failures.append(shorten(f"{case.get('classname')}::{case.get('name')}\n{text}", 6))
        elif case.find("skipped") is not None:
            result.skipped += 1
        else:
            result.passed += 1


def read_sanitizer(step: Step, output: str, result: Result) -> None:
    """The lines of the tool stand in its log; the program under it says whether its results are right."""
    read_go(step, output, result)
    log = step.report.read_text(errors="replace") if step.report.exists() else ""
    found = re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", log)
    if not found:
        result.failures.append("the tool says nothing:\n" + ending(log or output))
        result.failed += 1
        return
    reports = sum(map(int, found))
    if step.finds:
        result.passed, result.failed, result.failures = int(reports > 0), int(reports == 0), []
        return
    result.failed += reports
    if reports:
        lines = [line.removeprefix("=========").strip() for line in log.splitlines()]
        result.failures.append(shorten("\n".join(line for line in lines if line), 25))


READERS = {"go": read_go, "pytest": read_pytest, "sanitizer": read_sanitizer}


# ---- The steps ----


def programs() -> str:
    """Builds the programs of the Go tests if there is Go; why there are none, else empty."""
    if shutil.which("go") and (ROOT / "Makefile").exists():
        done = subprocess.run(["make", "gpu-programs"], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            return "make gpu-programs: " + shorten(done.stderr[-800:])
    if not (PROGRAMS / "tests.test").exists():
        return "there is no Go, and no program in build/gpu: make gpu-bundle elsewhere"
    return ""


def compiler() -> dict[str, str]:
    """NVRTC for programs without torch, which would find it beside it."""
    import nvidia

    found = [f for folder in nvidia.__path__ for f in glob.glob(f"{folder}/*/lib/libnvrtc.so.*[0-9]")]
    found = [f for f in found if "builtins" not in f]
    return {"NVFUSER_GO_LIBNVRTC": sorted(found)[-1]} if found else {}


def sanitizer() -> str | None:
    found = shutil.which("compute-sanitizer")
    usual = "/usr/local/cuda/bin/compute-sanitizer"
    return found or (usual if os.path.exists(usual) else None)


def go_steps(every: int) -> list[Step]:
    environment = compiler() | {"PYTHON": sys.executable}
    tests, cubins = ROOT / "tests" / "go", str(PROGRAMS / "cubins")
    verbose = ["-gpu", "-test.v"]
    return [
        Step("driver", [str(PROGRAMS / "driver.test"), "-test.run", "^TestGPU$", *verbose], ROOT, environment),
        Step(
            "functions",
            [
                str(PROGRAMS / "cuda.test"),
                "-test.run",
                "^(TestRows|TestConversions|TestFeaturesRun|TestRandom)",
                *verbose,
            ],
            ROOT / "codegen" / "cuda",
            environment,
        ),
        Step(
            "kernels",
            [str(PROGRAMS / "tests.test"), "-test.run", "^(TestCorpus|TestExecutorOnGPU|TestRandom.*)$/^gpu$"]
            + ["-cubins", cubins, "-every", str(every), *verbose],
            tests,
            environment,
        ),
    ]


def pytest_step(shard: str, every: int, logs: Path) -> Step:
    report = logs / f"pytest_{shard.replace('/', '_')}.xml"
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--durations=15", f"--junitxml={report}"]
    command += ["-o", "faulthandler_timeout=60", "tests/gpu"]
    paths = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    environment = {"GPU_TESTS_SHARD": shard, "GPU_TESTS_EVERY": str(every), "PYTHONPATH": paths}
    return Step(f"pytest {shard}", command, ROOT, environment, "pytest", report)


def sanitizer_step(tool: str, program: str, tests: str, every: int, logs: Path, finds: bool = False) -> Step:
    name = f"{tool} planted" if finds else tool
    log = logs / f"{name.replace(' ', '_')}.log"
    command = [program, "--tool", tool, "--log-file", str(log), "--error-exitcode", "1"]
    command += [str(PROGRAMS / "tests.test"), "-test.run", tests, "-sanitized"]
    command += ["-gpu", "-test.v", "-cubins", str(PROGRAMS / "cubins"), "-every", str(every)]
    return Step(name, command, ROOT / "tests" / "go", compiler(), "sanitizer", log, finds=finds)


def everything(only: set[str], every: int, jobs: int, runner: Runner) -> list[Result]:
    """All steps, in groups that run one after the other; the steps of a group run at once."""
    why = programs() if only & {"go", "sanitizers"} else ""
    groups: list[list[Step]] = []
    results: list[Result] = []
    if "go" in only:
        if why:
            results.append(Result("go", why=why))
        else:
            groups += [go_steps(every)[:1], go_steps(every)[1:]]
    if "sanitizers" in only:
        program = sanitizer()
        if why or not program:
            results.append(Result("sanitizers", why=why or "compute-sanitizer is not on PATH"))
        else:
            corpus = "^(TestCorpus|TestExecutorOnGPU)$/^gpu$"
            groups.append([sanitizer_step(tool, program, corpus, every, runner.logs) for tool in TOOLS])
            planted = [sanitizer_step(tool, program, "^TestPlantedFaults$", 1, runner.logs, True) for tool in FINDERS]
            groups[-1] += planted
    if "pytest" in only:
        groups.append([pytest_step("alone", every, runner.logs)])
        groups.append([pytest_step(f"{i}/{jobs}", every, runner.logs) for i in range(jobs)])
    for group in groups:
        with ThreadPoolExecutor(len(group)) as pool:
            results += pool.map(runner.run, group)
    return results


# ---- The summary ----


def line(r: Result) -> str:
    counts = f"{r.passed:6} passed {r.failed:4} failed {r.skipped:4} skipped"
    return f"{r.name:16} {r.status:9} {r.seconds:6.1f} s {counts} {r.why}"


def commit() -> str:
    """The version under test: of the checkout, or what make gpu-bundle wrote down."""
    if (ROOT / ".git").exists():
        command = ["git", "describe", "--always", "--dirty"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    note = PROGRAMS / "COMMIT"
    return note.read_text().strip() if note.exists() else "unknown"


def machine() -> dict:
    import torch

    from nvfuser_go import _C

    named = {what: value for what, _, value in (row.partition("\t") for row in _C.cuda().splitlines())}
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "torch": torch.__version__,
        "found": named,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, help="the results as JSON; default: benchmarks/results/gpu-DATE-COMMIT.json"
    )
    parser.add_argument(
        "--logs", type=Path, default=PROGRAMS / "logs", help="what the steps print; default: build/gpu/logs"
    )
    parser.add_argument("--every", type=int, default=1, help="a sample: one case of so many (default: all)")
    parser.add_argument("--only", default="go,pytest,sanitizers", help="some of go, pytest, sanitizers")
    parser.add_argument(
        "--jobs", type=int, default=min((os.cpu_count() or 2) // 2, 16), help="processes of pytest at once"
    )
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which what still runs is ended")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "python"))
    about = machine()
    if not about["devices"]:
        print("There is no CUDA device: every test would be skipped.", file=sys.stderr)
        return 1
    print(json.dumps(about, indent=1), flush=True)
    began = time.monotonic()
    arguments.logs.mkdir(parents=True, exist_ok=True)
    runner = Runner(arguments.logs.resolve(), arguments.limit)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, runner.stop)
    results = everything(set(arguments.only.split(",")), arguments.every, arguments.jobs, runner)
    about |= {"seconds": round(time.monotonic() - began, 1), "every": arguments.every}
    about["steps"] = [asdict(r) for r in results]
    out = arguments.out or ROOT / "benchmarks" / "results" / f"gpu-{about['date'][:10]}-{about['commit']}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(about, indent=1) + "\n")
    for r in results:
        for text in r.failures:
            print(f"\n[{r.name}] {text}")
    bad = [r for r in results if r.status != "passed"]
    total = {what: sum(getattr(r, what) for r in results) for what in ("passed", "failed", "skipped")}
    print(
        f"\n{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped in {about['seconds']:.0f} s"
    )
    print("PASSED" if not bad else "NOT PASSED: " + ", ".join(f"{r.name} ({r.status})" for r in bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
