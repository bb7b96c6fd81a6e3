"""Kernels written by hand, as one more column: compiled by NVRTC from a folder of CUDA C++ files, launched as they are.

A folder has a manifest.json that says which kernels there are; for one that has none, kernels/default.json does. Its
"kernels" is a list of objects:

    row         the name of the row that the kernel computes
    file        its source, in the folder, which is also on the search path of #include
    kernel      its name, declared extern "C"
    block       the number of threads of a block
    grid        a list of one to three expressions: the number of blocks
    arguments   a list of strings: "inK" and "outK" are the addresses of the tensors of the row, "TYPE EXPRESSION" is a
                number of TYPE u32, i64 or f32

Expressions are of numbers, the sizes of the row by their letters, + - * // %, and ceil_div(a, b), multiplier(d) and
shift(d): the quotient n / d of n below 2^31 and d above 1 is the upper half of n * multiplier(d), shifted right by
shift(d).
"""

import ast
import ctypes
import json
import operator
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"  # the benchmark's own, and what is known of others
COMPILER = HERE.parent / "tools" / "nvrtc_compile.py"


def shift(divisor: int) -> int:
    return max(0, (divisor - 1).bit_length() - 1)


def multiplier(divisor: int) -> int:
    return -(-(1 << (32 + shift(divisor))) // divisor) & 0xFFFFFFFF


FUNCTIONS = {"ceil_div": lambda a, b: -(-a // b), "multiplier": multiplier, "shift": shift}
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
NUMBERS = {"u32": ctypes.c_uint32, "i64": ctypes.c_int64, "f32": ctypes.c_float}


def evaluate(text: str, sizes: Mapping[str, int]) -> int | float:
    """The value of an expression of a manifest. Raises ValueError for what is not one."""

    def value(node: ast.AST) -> int | float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in sizes:
                return sizes[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(value, arguments))
        raise ValueError(f"manifest: {text!r} is not an expression of the sizes {sorted(sizes)}")

    try:
        return value(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"manifest: {text!r} is not an expression") from error


@dataclass(frozen=True)
class Kernel:
    """An entry of a manifest."""

    row: str
    file: str
    kernel: str
    block: int
    grid: tuple[str, ...]
    arguments: tuple[str, ...]


def manifest(folder: Path) -> list[Kernel]:
    """The kernels of a folder. Raises FileNotFoundError if a file of them is missing."""
    own = folder / "manifest.json"
    entries = json.loads((own if own.exists() else KERNELS / "default.json").read_text())["kernels"]
    kernels = [Kernel(**{**x, "grid": tuple(x["grid"]), "arguments": tuple(x["arguments"])}) for x in entries]
    for kernel in kernels:
        if not (folder / kernel.file).exists():
            raise FileNotFoundError(f"--handwritten: {folder / kernel.file} does not exist")
    return kernels


def compiled(folder: Path, files: Sequence[str], arch: str) -> dict[str, bytes]:
    """The machine code of each file. Raises RuntimeError with the compiler's messages."""
    with tempfile.TemporaryDirectory() as out:
        paths = [str(folder / name) for name in files]
        command = [sys.executable, str(COMPILER), "--arch", arch, "--cubin", out, f"--option=-I{folder}", *paths]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            logs = [json.loads(line)["log"] for line in done.stdout.splitlines()]
            raise RuntimeError(f"--handwritten: {folder} does not compile:\n" + "\n".join([*logs, done.stderr]))
        return {name: Path(out, Path(name).stem + ".cubin").read_bytes() for name in files}


class Driver:
    """libcuda, as far as loading and launching need it; the context is torch's."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        self._cuda = ctypes.CDLL("libcuda.so.1")

    def _check(self, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"CUDA error {code}: {(text.value or b'?').decode()}")

    def function(self, cubin: bytes, name: str) -> ctypes.c_void_p:
        """A kernel of some machine code, which stays loaded."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._cuda.cuModuleLoadData(ctypes.byref(module), cubin))
        self._check(self._cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        return function

    def launcher(self, function: ctypes.c_void_p, grid: Sequence[int], block: int, values: list) -> Callable[[], None]:
        """A call that launches on the current stream of now. values: ctypes numbers."""
        x, y, z = (*grid, 1, 1)[:3]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        launch, check = self._cuda.cuLaunchKernel, self._check

        def run(keep: object = values) -> None:
            check(launch(function, x, y, z, block, 1, 1, 0, stream, pointers, None))

        return run


class Handwritten:
    """The kernels of a folder, compiled and loaded."""

    def __init__(self, folder: Path, driver: Driver) -> None:
        self._driver = driver
        self._kernels = manifest(folder)
        major, minor = torch.cuda.get_device_capability()
        arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        code = compiled(folder, sorted({k.file for k in self._kernels}), arch)
        self._functions = {k.kernel: driver.function(code[k.file], k.kernel) for k in self._kernels}

    def calls(
        self, row: str, sizes: Mapping[str, int], inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> dict[str, Callable[[], None]]:
        """A call for each kernel of a row, by its name, that computes `outputs` of `inputs`."""
        tensors = {f"in{i}": x for i, x in enumerate(inputs)} | {f"out{i}": x for i, x in enumerate(outputs)}

        def number(text: str) -> object:
            if text in tensors:
                return ctypes.c_void_p(tensors[text].data_ptr())
            kind, _, expression = text.partition(" ")
            return NUMBERS[kind](evaluate(expression, sizes))

        return {
            k.kernel: self._driver.launcher(
                self._functions[k.kernel],
                [int(evaluate(x, sizes)) for x in k.grid],
                k.block,
                [number(x) for x in k.arguments],
            )
            for k in self._kernels
            if k.row == row
        }
