"""Tensors on the device under test, and programs of their own process."""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import torch

from nvfuser_go import FusionDefinition

REHEARSAL = os.environ.get("GPU_TESTS_REHEARSE") == "1"
NO_DEVICE = "no CUDA device"  # why tests are skipped
DEVICE = torch.device("cpu" if REHEARSAL else "cuda")


def put(x: torch.Tensor) -> torch.Tensor:
    """A copy of x on the device that lies in its memory as x does: the offset, the strides, and what is between."""
    bytes_of = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
    copy = bytes_of.to(DEVICE, copy=True).untyped_storage()
    return torch.empty(0, dtype=x.dtype, device=DEVICE).set_(copy, x.storage_offset(), x.shape, x.stride())


def execute(fd: FusionDefinition, inputs: list, **options) -> list[torch.Tensor]:
    """Runs a fusion on the device, also without inputs."""
    if REHEARSAL:
        enabled = ["simulate", *options.pop("_enable_options", ())]
        return fd.execute(inputs, _enable_options=enabled, **options)
    return fd.execute(inputs, device=DEVICE, **options)


def on_device(got: list[torch.Tensor]) -> bool:
    return all(x.device.type == DEVICE.type for x in got)


@functools.cache
def zygote() -> subprocess.Popen:
    """The process of zygote.py, which ends with this one."""
    command = [sys.executable, str(Path(__file__).with_name("zygote.py"))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def child(code: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess:
    """Runs a program in a process of its own."""
    mother = zygote()
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {"code": textwrap.dedent(code), "environment": environment, "out": str(out), "err": str(err)}
        mother.stdin.write(json.dumps(request) + "\n")
        mother.stdin.flush()
        pid = int(mother.stdout.readline())
        timer = threading.Timer(timeout, os.killpg, (pid, signal.SIGKILL))
        timer.start()
        status = int(mother.stdout.readline())
        timer.cancel()
        return subprocess.CompletedProcess(code, status, out.read_text(), err.read_text())


def says(code: str, **environment: str) -> str:
    """What a program prints that must end well."""
    done = child(code, **environment)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()
