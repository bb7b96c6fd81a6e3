"""The built file as the loader sees it: what it needs, what it shows, and that it is one file for C and for Python."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nvfuser_go
from nvfuser_go import _C

LIBRARY = Path(_C.__file__)
ROOT = Path(__file__).resolve().parents[2]


def tool(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def dynamic_symbols(*options: str) -> dict[str, str]:
    """Maps the names in the dynamic symbol table to the type letters of nm."""
    rows = (line.split() for line in tool("nm", "-D", "--no-demangle", *options, str(LIBRARY)).splitlines())
    return {row[-1].split("@")[0]: row[-2] for row in rows}


def test_python_symbols_are_weak():
    python = {name: kind for name, kind in dynamic_symbols("--undefined-only").items() if re.match(r"_?Py", name)}
    assert "PyModule_Create2" in python
    strong = sorted(name for name, kind in python.items() if kind not in "wv")
    assert not strong, f"include weak_python.h instead of Python.h: {strong}"


def test_needs_libc_only():
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", tool("readelf", "--dynamic", "--wide", str(LIBRARY))))
    # Before glibc 2.34, threads and dlopen were files of their own.
    assert "libc.so.6" in needed
    assert needed <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}


def test_shows_the_header_and_nothing_else():
    shown = set(dynamic_symbols("--defined-only"))
    declared = set(re.findall(r"^NVF_API [^;]*?\b(nvf_\w+)\(", (ROOT / "capi/nvfuser_go.h").read_text(), re.MULTILINE))
    ours = {name for name in shown if not re.match(r"_?(cgo|crosscall|x_cgo)", name)}  # those are the Go runtime's
    assert ours == declared | {"PyInit__C"}


def test_versions_agree():
    text = (ROOT / "internal/version/VERSION").read_text().strip()
    assert nvfuser_go.__version__ == _C.version() == text


@pytest.mark.parametrize("function", [_C.version, _C.forked])
def test_functions_refuse_arguments(function):
    with pytest.raises(TypeError, match=r"takes no arguments \(2 given\)"):
        function(1, 2)


def test_a_forked_process_is_marked():
    script = """
import os
from nvfuser_go import _C
assert not _C.forked()
child = os.fork()
if child == 0:
    os._exit(0 if _C.forked() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert not _C.forked()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_import_leaves_signals_to_python():
    script = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background of a script
from nvfuser_go import _C
_C.version()
try:
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "interrupted\n"


def test_import_maps_no_cuda_library():
    """Beyond those of torch, which some builds of it map when they are imported."""
    script = """
import torch
def mapped():
    return {line.split()[-1] for line in open("/proc/self/maps") if "libcuda" in line or "nvrtc" in line}
before = mapped()
import nvfuser_go
print(sorted(mapped() - before))
"""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", script], check=True, env=environment, capture_output=True, text=True)
    assert done.stdout == "[]\n"
