"""What a row of the benchmark on a GPU is: a program with the sizes at which it is timed, as data.

Its inputs are described by dtype, dimensions and layout, so that the same row is made at full size on a GPU and at a
small one on a CPU, where the tests hold it against torch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from programs import Program

BF16, F32, I64, BOOL = torch.bfloat16, torch.float32, torch.int64, torch.bool

# How an input lies in memory. "rows": each row has a gap of its own length after it. "odd": begins one element after an
# aligned address. "turned": the dimensions as named, of memory in which the last one is outermost. "channels last": the
# second of four dimensions is innermost.
LAYOUTS = ("dense", "rows", "odd", "turned", "channels last")


@dataclass(frozen=True)
class Input:
    """An input tensor: its dtype, its dimensions as letters of the row's sizes ("1" is one), its layout, the mean of
    its values, and the size that integers are below ("": they are from -1000 to 999)."""

    dtype: torch.dtype
    dims: str
    layout: str = "dense"
    mean: float = 0.0
    below: str = ""

    def make(self, sizes: Mapping[str, int], device: str, draw: torch.Generator) -> torch.Tensor:
        """Random values: normal ones of deviation 1, integers, or bools."""
        shape = [sizes.get(letter, 1) for letter in self.dims]
        if self.layout == "rows":
            return self._values([*shape[:-1], 2 * shape[-1]], sizes, device, draw)[..., : shape[-1]]
        if self.layout == "odd":
            return self._values([math.prod(shape) + 1], sizes, device, draw)[1:].view(shape)
        if self.layout == "turned":
            return self._values([shape[-1], *shape[:-1]], sizes, device, draw).permute(*range(1, len(shape)), 0)
        x = self._values(shape, sizes, device, draw)
        return x.contiguous(memory_format=torch.channels_last) if self.layout == "channels last" else x

    def _values(self, shape: list[int], sizes: Mapping[str, int], device: str, draw: torch.Generator) -> torch.Tensor:
        if self.dtype is BOOL:
            return torch.rand(shape, device=device, generator=draw) < 0.5
        if self.dtype is I64:
            low, high = (0, sizes[self.below]) if self.below else (-1000, 1000)
            return torch.randint(low, high, shape, device=device, generator=draw)
        x = torch.randn(shape, device=device, generator=draw, dtype=self.dtype)
        return x.add_(self.mean) if self.mean else x


@dataclass(frozen=True)
class Frame:
    """What a program without inputs takes instead: its sizes and the device."""

    sizes: Mapping[str, int]
    device: str


def close_to(reference: tuple[torch.Tensor, ...], got: tuple[torch.Tensor, ...]) -> float:
    """The largest relative distance of the outputs from the reference, in the 2-norm, or a quarter of that of one
    element, relative to itself and the root mean square; infinite if a NaN or a shape differs."""
    worst = 0.0
    for want, have in zip(reference, got, strict=True):
        if want.shape != have.shape:
            return math.inf
        if want.numel() == 0:
            continue
        want = want.double()
        apart = have.double().sub_(want).abs_()
        mean = want.square().mean().sqrt().item() or 1.0
        whole = apart.square().mean().sqrt().item() / mean
        element = apart.div_(want.abs().add_(mean)).max().item()
        worst = max(worst, *(x if not math.isnan(x) else math.inf for x in (whole, element / 4)))
    return worst


@dataclass(frozen=True)
class Gate:
    """The thresholds of a row. Of its bytes: share, the least rate at which they move, that of a copy of as many being
    1 (None: it is only reported), and share_from, how many there must be for that. behind: how many times the time of
    the fastest peer it may take, with L2 dirty and clean."""

    share: float | None = 0.97
    share_from: float = 128e6
    behind: tuple[float, float] = (1.02, 1.02)


@dataclass(frozen=True)
class Row:
    """A program and the sizes at which it is timed.

    define and eager: as in Program. sizes, small: by letter, to time and to test. gate: None if no threshold holds for
    it. writes: as in Program. check: the distance of outputs from what is right, of the inputs and the outputs, where
    that is not eager's result in double precision. prepare: makes of the random inputs those that fit together. reads:
    how often each input must be read, if that is not once: less than once if a part is enough. torch_error: how far
    torch's results may be from right, if that is more than tolerance() says, as torch rounds where the others do not.
    """

    name: str
    define: Callable
    eager: Callable
    inputs: tuple[Input, ...]
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    gate: Gate | None = Gate()
    writes: tuple[int, ...] = ()
    check: Callable | None = None
    prepare: Callable | None = None
    reads: tuple[float, ...] = ()
    torch_error: float = 0.0

    def program(self, device: str, small: bool = False, seed: int = 0) -> Program:
        """The program with inputs on `device`."""
        draw = torch.Generator(device).manual_seed(seed)
        sizes = self.small if small else self.sizes
        inputs = [x.make(sizes, device, draw) for x in self.inputs]
        if self.prepare is not None:
            inputs = list(self.prepare(*inputs))
        return Program(
            self.name, self.define, self.eager, inputs, self.writes, () if inputs else (Frame(sizes, device),)
        )

    def error(self, program: Program, call: Callable) -> float:
        """How far call(inputs) is from right: the relative distance of its results and of what it writes; infinite if
        their dtypes are not those of eager, or one is a view of an input and eager's is not: it moved nothing."""
        inputs = [x.clone() for x in program.inputs] if self.writes else program.inputs
        like = self.outputs(program)
        kinds = [(x.dtype, is_view(x, program.inputs)) for x in like]
        sizes = [traffic([x]) for x in like if x.is_cuda]
        del like
        poison(sizes)
        got = call(inputs)
        got = (got,) if isinstance(got, torch.Tensor) else tuple(got)
        if self.writes:
            got = tuple(inputs[i] for i in self.writes)
        if [(x.dtype, is_view(x, inputs)) for x in got] != kinds:
            return math.inf
        if self.check is not None:
            return self.check(tuple(program.inputs), got)
        return close_to(self.reference(program), got)

    def reference(self, program: Program) -> tuple[torch.Tensor, ...]:
        """The results, computed in double precision."""
        wide = [x.double() if x.is_floating_point() else x for x in program.inputs]
        wide = [x.clone() if i in self.writes else x for i, x in enumerate(wide)]
        results = program.eager(*program.torch_call(wide))
        if self.writes:
            return tuple(wide[i] for i in self.writes)
        return (results,) if isinstance(results, torch.Tensor) else tuple(results)

    def outputs(self, program: Program) -> list[torch.Tensor]:
        """Tensors like the results: those of eager, or the inputs that are written."""
        if self.writes:
            return [program.inputs[i] for i in self.writes]
        results = program.eager(*program.torch_call(program.inputs))
        return [results] if isinstance(results, torch.Tensor) else list(results)

    def read(self, program: Program) -> int:
        """The bytes that must be read."""
        reads = self.reads or (1,) * len(program.inputs)
        return round(sum(n * traffic([x]) for n, x in zip(reads, program.inputs, strict=True)))


def is_view(x: torch.Tensor, of: Sequence[torch.Tensor]) -> bool:
    """Whether x lies in the memory of one of some tensors."""
    return any(x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() for y in of if y.numel())


def traffic(tensors: Sequence[torch.Tensor]) -> int:
    """The bytes that must move to read or write each tensor once."""
    return sum(x.numel() * x.element_size() for x in tensors)


def poison(sizes: Sequence[int]) -> None:
    """Fills with NaNs the GPU memory that the next tensors of these sizes, in bytes, get from torch."""
    held = [torch.full((n,), 255, dtype=torch.uint8, device="cuda") for n in sizes]
    del held


def tolerance(outputs: Sequence[torch.Tensor]) -> float:
    """How far outputs of these dtypes may be from double precision: half a unit in the last place of the narrowest, and
    16 of float32 for the functions; nothing if all are integers."""
    narrowest = max((torch.finfo(x.dtype).eps for x in outputs if x.is_floating_point()), default=0.0)
    return narrowest / 2 + 16 * torch.finfo(F32).eps if narrowest else 0.0
