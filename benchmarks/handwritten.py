"""Kernels written by hand, as one more column: compiled by NVRTC from a folder of CUDA C++ files, launched as they are.

A folder has a manifest.json that says which kernels there are; for one that has none, kernels/default.json does. Its
"kernels" is a list of objects:

    row          the name of the row that the kernel computes
    file         its source, in the folder, which is also on the search path of #include
    kernel       its name, declared extern "C"
    block        the number of threads of a block
    grid         a list of one to three expressions: the number of blocks
    arguments    a list of strings: "inK" and "outK" are the addresses of the tensors of the row, "scratchK" of other
                 memory, "TYPE EXPRESSION" is a number of TYPE u32, i64 or f32
    shared       an expression: the bytes of shared memory beyond what the kernel declares (0)
    cooperative  whether all blocks must run at once (false)
    dependent    whether it may begin before the kernel before it ends, and waits by itself (false)
    scratch      a list of "TYPE EXPRESSION": memory of so many numbers, zeros before the first call ([])
    then         a list of the kernels that run after it, with file to dependent of each ([])

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
from collections.abc import Callable, Collection, Mapping, Sequence
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
DTYPES = {"u32": torch.int32, "i64": torch.int64, "f32": torch.float32}


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
class Launch:
    """A kernel and how it is launched."""

    file: str
    kernel: str
    block: int
    grid: tuple[str, ...]
    arguments: tuple[str, ...]
    shared: str = "0"
    cooperative: bool = False
    dependent: bool = False

    @classmethod
    def of(cls, entry: Mapping) -> "Launch":
        return cls(**{**entry, "grid": tuple(entry["grid"]), "arguments": tuple(entry["arguments"])})


@dataclass(frozen=True)
class Kernel:
    """An entry of a manifest: what computes a row, in one launch or several."""

    row: str
    launches: tuple[Launch, ...]
    scratch: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " + ".join(x.kernel for x in self.launches)

    @classmethod
    def of(cls, entry: Mapping) -> "Kernel":
        first = {name: x for name, x in entry.items() if name not in ("row", "scratch", "then")}
        launches = tuple(Launch.of(x) for x in [first, *entry.get("then", ())])
        return cls(entry["row"], launches, tuple(entry.get("scratch", ())))


def manifest(folder: Path, rows: Collection[str] | None = None) -> list[Kernel]:
    """The kernels of a folder, of some rows or of all. Raises FileNotFoundError if a file of them is missing."""
    own = folder / "manifest.json"
    entries = json.loads((own if own.exists() else KERNELS / "default.json").read_text())["kernels"]
    kernels = [Kernel.of(x) for x in entries if rows is None or x["row"] in rows]
    for launch in (x for kernel in kernels for x in kernel.launches):
        if not (folder / launch.file).exists():
            raise FileNotFoundError(f"--handwritten: {folder / launch.file} does not exist")
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


class Attribute(ctypes.Structure):
    """CUlaunchAttribute, of which the value is a number."""

    _fields_ = [
        ("id", ctypes.c_int),
        ("padding", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    ]


class Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    ]


# From cuda.h: of CUlaunchAttributeID and CUfunction_attribute.
COOPERATIVE, PROGRAMMATIC_STREAM_SERIALIZATION = 2, 6
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


def configuration(
    grid: Sequence[int], block: int, shared: int, stream: ctypes.c_void_p, attributes: Sequence[int]
) -> Configuration:
    """A launch with some attributes set to 1."""
    x, y, z = (*grid, 1, 1)[:3]
    array = (Attribute * len(attributes))(*[Attribute(id=number, value=1) for number in attributes])
    return Configuration(x, y, z, block, 1, 1, shared, stream, array, len(attributes))


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

    def launcher(
        self, function: ctypes.c_void_p, grid: Sequence[int], launch: Launch, shared: int, values: list
    ) -> Callable[[], None]:
        """A call that launches on the current stream of now. values: ctypes numbers."""
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if shared:
            self._check(self._cuda.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared))
        wanted = {COOPERATIVE: launch.cooperative, PROGRAMMATIC_STREAM_SERIALIZATION: launch.dependent}
        made = configuration(grid, launch.block, shared, stream, [number for number, on in wanted.items() if on])
        start, check = self._cuda.cuLaunchKernelEx, self._check

        def run(keep: object = (values, made)) -> None:
            check(start(ctypes.byref(made), function, pointers, None))

        return run


class Handwritten:
    """The kernels of a folder, compiled and loaded."""

    def __init__(self, folder: Path, driver: Driver, rows: Collection[str] | None = None) -> None:
        self._driver = driver
        self._kernels = manifest(folder, rows)
        major, minor = torch.cuda.get_device_capability()
        arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        launches = [x for kernel in self._kernels for x in kernel.launches]
        code = compiled(folder, sorted({x.file for x in launches}), arch) if launches else {}
        self._functions = {x.kernel: driver.function(code[x.file], x.kernel) for x in launches}

    def calls(
        self, row: str, sizes: Mapping[str, int], inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> dict[str, Callable[[], None]]:
        """A call for each kernel of a row, by its name, that computes `outputs` of `inputs`."""
        given = {f"in{i}": x for i, x in enumerate(inputs)} | {f"out{i}": x for i, x in enumerate(outputs)}
        return {k.name: self._call(k, sizes, given) for k in self._kernels if k.row == row}

    def _call(self, kernel: Kernel, sizes: Mapping[str, int], given: Mapping[str, torch.Tensor]) -> Callable[[], None]:
        tensors = dict(given)
        for i, text in enumerate(kernel.scratch):
            kind, _, expression = text.partition(" ")
            count = int(evaluate(expression, sizes))
            tensors[f"scratch{i}"] = torch.zeros(count, dtype=DTYPES[kind], device=tensors["in0"].device)

        def number(text: str) -> object:
            if text in tensors:
                return ctypes.c_void_p(tensors[text].data_ptr())
            kind, _, expression = text.partition(" ")
            return NUMBERS[kind](evaluate(expression, sizes))

        calls = [
            self._driver.launcher(
                self._functions[x.kernel],
                [int(evaluate(n, sizes)) for n in x.grid],
                x,
                int(evaluate(x.shared, sizes)),
                [number(n) for n in x.arguments],
            )
            for x in kernel.launches
        ]

        def run(keep: object = tensors) -> None:
            for call in calls:
                call()

        return run
