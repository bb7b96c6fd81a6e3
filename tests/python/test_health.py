"""python -m nvfuser_go."""

import os
import subprocess
import sys

import pytest

from nvfuser_go import health


def test_report():
    report = health.report()
    assert report.problems == []
    lines = dict(report.lines)
    assert lines["nvFuser interface"] == "0.2.36"
    assert lines["trial fusion"] == "right"
    assert {
        "nvfuser_go",
        "compiled core",
        "Python",
        "torch",
        "numpy",
        "CUDA driver",
        "NVRTC",
        "CPUs",
        "kernel cache",
    } <= lines.keys()
    assert str(report).endswith("\nOK")


def test_libraries_that_are_named():
    environment = os.environ | {
        "NVFUSER_GO_LIBCUDA": "/no/libcuda.so",
        "NVFUSER_GO_LIBNVRTC": "/no/libnvrtc.so",
        "NVFUSER_GO_CACHE_DIR": "/no/cache",
    }
    done = subprocess.run(
        [sys.executable, "-m", "nvfuser_go"], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout
    assert "Tried: /no/libcuda.so: there is no such file" in done.stdout
    assert "Tried: /no/libnvrtc.so: there is no such file" in done.stdout
    assert "/no/cache: 0 kernels, 0 plans, 0.0 MiB of at most 512" in done.stdout


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/nvfuser_go: 0"),
        ({"XDG_CACHE_HOME": "not/absolute", "HOME": "/home/me"}, "/home/me/.cache/nvfuser_go: 0"),
        ({"HOME": "/home/me"}, "/home/me/.cache/nvfuser_go: 0"),
        ({}, "none: neither"),
    ],
)
def test_folder_of_compiled_kernels(environment, folder):
    kept = {"XDG_CACHE_HOME", "HOME", "NVFUSER_GO_CACHE_DIR"}
    environment = {name: value for name, value in os.environ.items() if name not in kept} | environment
    code = "from nvfuser_go import _C; print(_C.cuda())"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert f"kernel cache\t{folder}" in done.stdout


def test_command_reports_problems():
    environment = os.environ | {"NVFUSER_GO_REPRODIR": "/tmp", "NVFUSER_DUMP": "nosuch"}
    done = subprocess.run(
        [sys.executable, "-m", "nvfuser_go"], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    problems = [line for line in done.stdout.splitlines() if line.startswith("PROBLEM: ")]
    assert "NVFUSER_GO_REPRODIR is not a variable of nvfuser_go" in problems[0]
    assert "there is no option 'nosuch'" in problems[1]


def calibrate(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "nvfuser_go", "calibrate", *arguments]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_calibrate_without_a_device():
    done = calibrate(NVFUSER_GO_LIBCUDA="/no/libcuda.so")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("calibrate(): cannot measure cuda:0\n")
    assert "  /no/libcuda.so: there is no such file\n" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(("--device", "-1"), "device is -1"), (("--device", "x"), "invalid int"), (("more",), "unrecognized arguments")],
)
def test_calibrate_with_wrong_arguments(arguments, problem):
    done = calibrate(*arguments, NVFUSER_GO_LIBCUDA="/no/libcuda.so")
    assert done.returncode
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
