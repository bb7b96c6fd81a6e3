"""Plans that take long: the line on a terminal, and Ctrl-C."""

import os
import pty
import re
import select
import subprocess
import sys
import textwrap
import time

import pytest

# A fusion of many segments, each another kernel.
PROGRAM = """
import os, signal, threading
import torch
from nvfuser_go import FusionDefinition
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script in the background ignores it
def define(layers):
    with FusionDefinition() as fd:
        y = fd.define_tensor([-1, -1], True)
        for i in range(layers):
            y = fd.ops.segment_set(fd.ops.sum(fd.ops.mul(y, float(i)), [1], keepdim=True) + y)
        fd.add_output(y)
    return fd
a = torch.ones(2, 3)
def run(layers):
    return define(layers).execute([a], _enable_options=["simulate"])[0].sum().item()
"""


def on_terminal(body: str, **variables: str) -> tuple[str, str]:
    """What PROGRAM and `body` print, and what a terminal gets that is stderr."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, **variables}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + textwrap.dedent(body)], stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown, end = b"", time.monotonic() + 120
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 4096)
                except OSError:  # the other side is closed
                    break
        printed = program.communicate(timeout=30)[0].decode()
    finally:
        program.kill()
        os.close(ours)
    assert program.returncode == 0, shown.decode()
    return printed, shown.decode()


def screen(shown: str) -> str:
    """The line that is left of `shown`."""
    line = ""
    for piece in shown.split("\r"):
        line = piece + line[len(piece) :]
    return line.rstrip()


def test_the_line_is_rewritten_and_cleared():
    printed, shown = on_terminal("print(run(1000))", NVFUSER_GO_PROGRESS="0.1")
    assert float(printed) > 0
    lines = re.findall(r"nvfuser_go: compiled (\d+) of (\d+) kernels, \d+ s", shown)
    assert lines, shown
    counts = [int(done) for done, _ in lines]
    assert counts == sorted(counts)
    assert all(0 <= int(done) <= int(of) for done, of in lines)
    assert "\n" not in shown
    assert screen(shown) == ""


@pytest.mark.parametrize("given", ["off", "60"])
def test_no_line(given):
    assert on_terminal("run(20)", NVFUSER_GO_PROGRESS=given)[1] == ""


def test_no_line_where_no_terminal_is():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + "run(20)"],
        capture_output=True,
        env={**os.environ, "NVFUSER_GO_PROGRESS": "0.01"},
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_interrupted_while_it_compiles():
    """The wait ends before the plan is there, the line is gone, and calls after it work, of the same fusion too."""
    body = """
        fd = define(2000)
        for _ in range(2):
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                fd.execute([a], _enable_options=["simulate"])
                print("it ended")
            except KeyboardInterrupt:
                print("interrupted")
        print(run(2))
        want = fd.execute([a])[0]
        print(torch.equal(fd.execute([a], _enable_options=["simulate"])[0], want))
    """
    printed, shown = on_terminal(body, NVFUSER_GO_PROGRESS="0.05")
    assert printed.splitlines()[:2] == ["interrupted"] * 2
    assert printed.splitlines()[3] == "True"
    assert "compiled" in shown
    assert screen(shown) == ""
