"""Compiles CUDA C++ files with NVRTC, which needs no GPU, and prints a line of JSON for each:

    python tools/nvrtc_compile.py [--arch sm_90a] [--cubin DIR] [--option=OPT ...] FILE...

The keys are file, ok, log, seconds, and functions: what ptxas says of each kernel, its registers, the bytes that it
spills and those of its stack. Exit status: 0 if all compile, 1 if not, 3 if there is no NVRTC: the libraries that were
tried are then on standard error. NVRTC_LIBRARY names one to take instead.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import re
import sys
import time
from pathlib import Path

NO_NVRTC = 3


def candidates():
    """The libraries to try, best first: one that is asked for, those of the nvidia packages, the system's."""
    if named := os.environ.get("NVRTC_LIBRARY"):
        return [named]
    found = []
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else []:
        found += sorted(Path(folder).glob("*/lib/libnvrtc.so.*[0-9]"), reverse=True)
    return [str(path) for path in found] + ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]


def load():
    """The first candidate that loads, or None."""
    tried = []
    for path in candidates():
        try:
            # NVRTC finds its built-in functions by name: loaded already is the same as on the search path.
            for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            library = ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{path}: {error}")
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    print("no NVRTC library:", *tried, sep="\n  ", file=sys.stderr)
    return None


def check(library, code):
    if code:
        raise RuntimeError(library.nvrtcGetErrorString(code).decode())


def version(library):
    """The major version of NVRTC."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    check(library, library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value


def text(library, program, what):
    size = ctypes.c_size_t()
    check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    check(library, getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw[: size.value]


def functions(log):
    """What ptxas reports of each kernel, by name."""
    found = {}
    for part in re.split(r"ptxas info\s*: Compiling entry function '", log)[1:]:
        number = {
            key: int(match[1]) if (match := re.search(pattern, part)) else 0
            for key, pattern in {
                "registers": r"Used (\d+) registers",
                "spill_stores": r"(\d+) bytes spill stores",
                "spill_loads": r"(\d+) bytes spill loads",
                "stack": r"(\d+) bytes stack frame",
            }.items()
        }
        found[part[: part.index("'")]] = number
    return found


def without_reports(log):
    """The log less what ptxas says of code that it took."""
    lines = [x for x in log.splitlines() if not re.match(r"ptxas (info|\s*\.\s*)|\s+\d+ bytes stack frame|\s*$", x)]
    return "\n".join(lines)


def compile_file(library, path, arguments):
    source = Path(path).read_bytes()
    options = [
        f"--gpu-architecture={arguments.arch}",
        "--std=c++17",
        "--device-as-default-execution-space",
        "--ptxas-options=-v",
        *(["--minimal"] if version(library) >= 13 else []),
        *arguments.option,
    ]
    program = ctypes.c_void_p()
    name = os.path.basename(path).encode()
    check(library, library.nvrtcCreateProgram(ctypes.byref(program), source, name, 0, None, None))
    encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    start = time.perf_counter()
    code = library.nvrtcCompileProgram(program, len(options), encoded)
    seconds = time.perf_counter() - start
    log = text(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
    result = {
        "file": path,
        "ok": code == 0,
        "log": without_reports(log) or ("" if code == 0 else library.nvrtcGetErrorString(code).decode()),
        "seconds": round(seconds, 4),
        "functions": functions(log),
    }
    if code == 0 and arguments.cubin:
        Path(arguments.cubin, Path(path).stem + ".cubin").write_bytes(text(library, program, "CUBIN"))
    check(library, library.nvrtcDestroyProgram(ctypes.byref(program)))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--cubin", help="folder for the machine code")
    parser.add_argument("--option", action="append", default=[], help="one more option of NVRTC")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    library = load()
    if library is None:
        return NO_NVRTC
    ok = True
    for path in arguments.files:
        result = compile_file(library, path, arguments)
        print(json.dumps(result), flush=True)
        ok = ok and result["ok"]
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
