"""The rows of the benchmark on a GPU: pointwise programs with the sizes at which they are timed, as data.

A row is one entry of ROWS. Its inputs are described by dtype, dimensions and layout, so that the same row is made at
full size on a GPU and at a small one on a CPU, where the tests hold it against torch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from programs import Program

BF16, F32, I64, BOOL = torch.bfloat16, torch.float32, torch.int64, torch.bool

# How an input lies in memory. "rows": each row has a gap of its own length after it. "odd": begins one element after an
# aligned address. "turned": the dimensions as named, of memory in which the last one is outermost. "channels last": the
# second of four dimensions is innermost.
LAYOUTS = ("dense", "rows", "odd", "turned", "channels last")


@dataclass(frozen=True)
class Input:
    """An input tensor: its dtype, its dimensions as letters of the row's sizes ("1" is one), and its layout."""

    dtype: torch.dtype
    dims: str
    layout: str = "dense"

    def make(self, sizes: Mapping[str, int], device: str, draw: torch.Generator) -> torch.Tensor:
        """Random values: normal ones, integers below 1000, or bools."""
        shape = [sizes.get(letter, 1) for letter in self.dims]
        if self.layout == "rows":
            return self._values([*shape[:-1], 2 * shape[-1]], device, draw)[..., : shape[-1]]
        if self.layout == "odd":
            return self._values([math.prod(shape) + 1], device, draw)[1:].view(shape)
        if self.layout == "turned":
            return self._values([shape[-1], *shape[:-1]], device, draw).permute(*range(1, len(shape)), 0)
        x = self._values(shape, device, draw)
        return x.contiguous(memory_format=torch.channels_last) if self.layout == "channels last" else x

    def _values(self, shape: list[int], device: str, draw: torch.Generator) -> torch.Tensor:
        if self.dtype is BOOL:
            return torch.rand(shape, device=device, generator=draw) < 0.5
        if self.dtype is I64:
            return torch.randint(-1000, 1000, shape, device=device, generator=draw)
        return torch.randn(shape, device=device, generator=draw, dtype=self.dtype)


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


def dropped(inputs: tuple[torch.Tensor, ...], got: tuple[torch.Tensor, ...]) -> float:
    """How far a tensor is from a dropout of the only input with probability DROP; infinite if the share of zeros is
    not what chance gives, within six standard deviations."""
    (x,), (y,) = inputs, got
    x = torch.where(x == 0, torch.ones_like(x), x)
    zero = y == 0
    share, deviation = zero.double().mean().item(), math.sqrt(DROP * (1 - DROP) / x.numel())
    if abs(share - DROP) > 6 * deviation:
        return math.inf
    return close_to((torch.where(zero, 0, x.double() / (1 - DROP)),), (y,))


@dataclass(frozen=True)
class Row:
    """A program and the sizes at which it is timed.

    define and eager: as in Program. sizes, small: by letter, to time and to test. gate: whether the thresholds hold for
    it. writes: as in Program. check: the distance of outputs from what is right, of the inputs and the outputs, where
    that is not eager's result in double precision.
    """

    name: str
    define: Callable
    eager: Callable
    inputs: tuple[Input, ...]
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    gate: bool = True
    writes: tuple[int, ...] = ()
    check: Callable | None = None

    def program(self, device: str, small: bool = False, seed: int = 0) -> Program:
        """The program with inputs on `device`."""
        draw = torch.Generator(device).manual_seed(seed)
        sizes = self.small if small else self.sizes
        inputs = [x.make(sizes, device, draw) for x in self.inputs]
        return Program(
            self.name, self.define, self.eager, inputs, self.writes, () if inputs else (Frame(sizes, device),)
        )

    def error(self, program: Program, call: Callable) -> float:
        """How far call(inputs) is from right: the relative distance of its results and of what it writes; infinite if
        their dtypes are not those of eager."""
        inputs = [x.clone() for x in program.inputs] if self.writes else program.inputs
        like = self.outputs(program)
        dtypes = [x.dtype for x in like]
        sizes = [traffic([x]) for x in like if x.is_cuda]
        del like
        poison(sizes)
        got = call(inputs)
        got = (got,) if isinstance(got, torch.Tensor) else tuple(got)
        if self.writes:
            got = tuple(inputs[i] for i in self.writes)
        if [x.dtype for x in got] != dtypes:
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


def traffic(tensors: Sequence[torch.Tensor]) -> int:
    """The bytes that must move to read or write each tensor once."""
    return sum(x.numel() * x.element_size() for x in tensors)


def poison(sizes: Sequence[int]) -> None:
    """Fills with NaNs the GPU memory that the next tensors of these sizes, in bytes, get from torch."""
    held = [torch.full((n,), 255, dtype=torch.uint8, device="cuda") for n in sizes]
    del held


# The definitions: fd.ops alone and numbers as operands, which other packages with this interface take too. Values that
# come as bfloat16 are computed in float32 and rounded once.


def wide(fd, types, x):
    return fd.ops.cast(x, dtype=types.Float)


def narrow(fd, types, x):
    return fd.ops.cast(x, dtype=types.BFloat16)


def in_float(step: Callable) -> Callable:
    """A definition that computes `step` of bfloat16 inputs in float32."""

    def define(fd, types, *inputs):
        return narrow(fd, types, step(fd.ops, *(wide(fd, types, x) for x in inputs)))

    return define


def along_columns(ops, vector):
    return ops.broadcast(vector, [True, False])


def along_channels(ops, vector):
    return ops.broadcast(vector, [True, False, True, True])


def relu(ops, x):
    return ops.relu(x)


def gelu_erf(ops, x):
    return ops.mul(ops.mul(x, 0.5), ops.add(ops.erf(ops.mul(x, math.sqrt(0.5))), 1.0))


def gelu_tanh(ops, x):
    cubed = ops.mul(ops.mul(ops.mul(x, x), x), 0.044715)
    inner = ops.mul(ops.add(x, cubed), math.sqrt(2 / math.pi))
    return ops.mul(ops.mul(x, 0.5), ops.add(ops.tanh(inner), 1.0))


def mixed(fd, types, a, b, mask):
    product = fd.ops.mul(wide(fd, types, a), b)
    return narrow(fd, types, fd.ops.where(mask, product, 0.0))


DROP = 0.1


def dropout(fd, types, x):
    shape = fd.ops.shape(x)
    chance = fd.ops.uniform(fd.define_scalar(0.0), fd.define_scalar(1.0), shape, dtype=types.Float)
    kept = fd.ops.where(fd.ops.lt(chance, 1 - DROP), wide(fd, types, x), 0.0)
    return narrow(fd, types, fd.ops.mul(kept, 1 / (1 - DROP)))


def fill(fd, types, frame):
    return fd.ops.full([frame.sizes["M"], frame.sizes["N"]], fd.define_scalar(1.5), types.Float)


def iota(fd, types, frame):
    numbers = (frame.sizes["N"], 3, 2)
    return fd.ops.iota(*(fd.define_scalar(n) for n in numbers), types.Int)


# AdamW at step 10, on parameters, gradients and both moments.
RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-8, 1e-2
CORRECTION1, CORRECTION2 = 1 - BETA1**10, 1 - BETA2**10


def adamw(fd, types, *tensors):
    ops, outputs = fd.ops, []
    for p, g, m, root in zip(*[iter(tensors)] * 4, strict=True):
        v = ops.mul(root, root)  # the second moment is not negative
        m = ops.add(ops.mul(m, BETA1), ops.mul(g, 1 - BETA1))
        v = ops.add(ops.mul(v, BETA2), ops.mul(ops.mul(g, g), 1 - BETA2))
        step = ops.div(ops.mul(m, RATE / CORRECTION1), ops.add(ops.sqrt(ops.mul(v, 1 / CORRECTION2)), EPSILON))
        outputs += [ops.sub(ops.mul(p, 1 - RATE * DECAY), step), m, v]
    return outputs


def adamw_eager(*tensors):
    outputs = []
    for p, g, m, root in zip(*[iter(tensors)] * 4, strict=True):
        m = m * BETA1 + g * (1 - BETA1)
        v = root * root * BETA2 + g * g * (1 - BETA2)
        step = m * (RATE / CORRECTION1) / ((v / CORRECTION2).sqrt() + EPSILON)
        outputs += [p * (1 - RATE * DECAY) - step, m, v]
    return tuple(outputs)


# The sizes: 268 MB of traffic in most rows, of which bfloat16 [16384, 4096] read and written is one.
WIDE = {"M": 16384, "N": 4096}
HALF = {"M": 8192, "N": 4096}
IMAGES = {"B": 64, "C": 256, "H": 56, "W": 56}
TINY = {"M": 24, "N": 40}
X = Input(BF16, "MN")


def odd_width(n: int, m: int, small_n: int) -> list[Row]:
    """gelu on rows of a length that vectors do not divide, without and with a bias."""
    sizes, small = {"M": m, "N": n}, {"M": 8, "N": small_n}
    return [
        Row(f"gelu, width {n}", in_float(gelu_tanh), lambda x: F.gelu(x, approximate="tanh"), (X,), sizes, small),
        Row(
            f"bias + gelu, width {n}",
            in_float(lambda ops, x, b: gelu_erf(ops, ops.add(x, along_columns(ops, b)))),
            lambda x, b: F.gelu(x + b),
            (X, Input(BF16, "N")),
            sizes,
            small,
        ),
    ]


def small_sum(label: str, elements: int) -> Row:
    """x + y of float32: three tensors of this many elements, too few for a share of a copy to mean much."""
    return Row(
        f"x + y, {label} a tensor",
        lambda fd, types, x, y: fd.ops.add(x, y),
        torch.add,
        (Input(F32, "N"), Input(F32, "N")),
        {"N": elements},
        {"N": 100},
        gate=False,
    )


ROWS: list[Row] = [
    Row("relu bf16", in_float(relu), torch.relu, (X,), WIDE, TINY),
    Row("exp f32", lambda fd, types, x: fd.ops.exp(x), torch.exp, (Input(F32, "MN"),), HALF, TINY),
    Row("gelu tanh bf16", in_float(gelu_tanh), lambda x: F.gelu(x, approximate="tanh"), (X,), WIDE, TINY),
    Row("gelu erf bf16", in_float(gelu_erf), F.gelu, (X,), WIDE, TINY),
    Row(
        "silu * mul bf16",
        in_float(lambda ops, x, y: ops.mul(ops.mul(x, ops.sigmoid(x)), y)),
        lambda x, y: F.silu(x) * y,
        (X, X),
        {"M": 8192, "N": 14336},
        TINY,
    ),
    Row(
        "bias bf16",
        in_float(lambda ops, x, b: ops.add(x, along_columns(ops, b))),
        torch.add,
        (X, Input(BF16, "N")),
        WIDE,
        TINY,
    ),
    Row(
        "bias + gelu bf16",
        in_float(lambda ops, x, b: gelu_erf(ops, ops.add(x, along_columns(ops, b)))),
        lambda x, b: F.gelu(x + b),
        (X, Input(BF16, "N")),
        WIDE,
        TINY,
    ),
    Row(
        "bias + gelu tanh bf16",
        in_float(lambda ops, x, b: gelu_tanh(ops, ops.add(x, along_columns(ops, b)))),
        lambda x, b: F.gelu(x + b, approximate="tanh"),
        (X, Input(BF16, "N")),
        WIDE,
        TINY,
    ),
    Row(
        "residual + bias bf16",
        in_float(lambda ops, x, r, b: ops.add(ops.add(x, along_columns(ops, b)), r)),
        lambda x, r, b: x + b + r,
        (X, X, Input(BF16, "N")),
        WIDE,
        TINY,
    ),
    Row(
        "inner broadcast bf16 [M, 1]",
        in_float(lambda ops, x, c: ops.mul(x, c)),
        torch.mul,
        (X, Input(BF16, "M1")),
        WIDE,
        TINY,
    ),
    Row(
        "outer broadcast f32 [N]",
        lambda fd, types, x, w: fd.ops.mul(x, along_columns(fd.ops, w)),
        torch.mul,
        (Input(F32, "MN"), Input(F32, "N")),
        HALF,
        TINY,
    ),
    Row(
        "both broadcasts bf16",
        in_float(lambda ops, x, c, w: ops.add(ops.mul(x, c), along_columns(ops, w))),
        lambda x, c, w: x * c + w,
        (X, Input(BF16, "M1"), Input(BF16, "N")),
        WIDE,
        TINY,
    ),
    Row(
        "NHWC scale, bias, relu bf16",
        in_float(
            lambda ops, x, s, b: ops.relu(ops.add(ops.mul(x, along_channels(ops, s)), along_channels(ops, b))),
        ),
        lambda x, s, b: torch.relu(x * s[:, None, None] + b[:, None, None]),
        (Input(BF16, "BCHW", "channels last"), Input(BF16, "C"), Input(BF16, "C")),
        IMAGES,
        {"B": 2, "C": 16, "H": 3, "W": 5},
    ),
    Row("cast bf16 to f32", wide, lambda x: x.float(), (X,), WIDE, TINY),
    Row("cast f32 to bf16", narrow, lambda x: x.bfloat16(), (Input(F32, "MN"),), WIDE, TINY),
    Row("cast i64 to f32", wide, lambda x: x.float(), (Input(I64, "MN"),), HALF, TINY),
    Row(
        "bf16 * f32 where bool, to bf16",
        mixed,
        lambda a, b, mask: torch.where(mask, a * b, 0.0).bfloat16(),
        (X, Input(F32, "MN"), Input(BOOL, "MN")),
        WIDE,
        TINY,
    ),
    Row(
        "where bf16",
        lambda fd, types, mask, x, y: narrow(fd, types, fd.ops.where(mask, x, y)),
        torch.where,
        (Input(BOOL, "MN"), X, X),
        WIDE,
        TINY,
    ),
    *odd_width(4098, 16384, 66),
    *odd_width(1023, 65536, 63),
    Row(
        "permuted alike, x + y bf16",
        in_float(lambda ops, x, y: ops.add(x, y)),
        torch.add,
        (Input(BF16, "BMN", "turned"), Input(BF16, "BMN", "turned")),
        {"B": 64, "M": 1024, "N": 1024},
        {"B": 3, "M": 8, "N": 16},
    ),
    Row(
        "rows with gaps, relu bf16",
        in_float(relu),
        torch.relu,
        (Input(BF16, "MN", "rows"),),
        WIDE,
        TINY,
    ),
    Row(
        "one element off, relu bf16",
        in_float(relu),
        torch.relu,
        (Input(BF16, "MN", "odd"),),
        WIDE,
        TINY,
    ),
    Row("dropout bf16", dropout, lambda x: F.dropout(x, DROP), (X,), WIDE, {"M": 64, "N": 64}, check=dropped),
    Row(
        "fill f32",
        fill,
        lambda frame: torch.full((frame.sizes["M"], frame.sizes["N"]), 1.5, device=frame.device),
        (),
        WIDE,
        TINY,
        gate=False,
    ),
    Row(
        "iota i64",
        iota,
        lambda frame: torch.arange(3, 3 + 2 * frame.sizes["N"], 2, device=frame.device),
        (),
        {"N": 1 << 25},
        {"N": 100},
        gate=False,
    ),
    Row(
        "AdamW of 12 tensors f32",
        adamw,
        adamw_eager,
        (Input(F32, "MN"),) * 12,
        {"M": 2048, "N": 2048},
        TINY,
    ),
    Row(
        "in place x += y f32",
        lambda fd, types, x, y: fd.ops.add(x, y),
        lambda x, y: x.add_(y),
        (Input(F32, "MN"), Input(F32, "MN")),
        HALF,
        TINY,
        writes=(0,),
    ),
    small_sum("64 KiB", 1 << 14),
    small_sum("1 MiB", 1 << 18),
    small_sum("16 MiB", 1 << 22),
]

# Enough to see that everything works, and the shapes that decide most.
QUICK = r"^(relu bf16|silu|bias \+ gelu bf16|cast bf16|bias \+ gelu, width 4098|NHWC|x \+ y, 1 MiB)"


def tolerance(outputs: Sequence[torch.Tensor]) -> float:
    """How far outputs of these dtypes may be from double precision: half a unit in the last place of the narrowest, and
    16 of float32 for the functions; nothing if all are integers."""
    narrowest = max((torch.finfo(x.dtype).eps for x in outputs if x.is_floating_point()), default=0.0)
    return narrowest / 2 + 16 * torch.finfo(F32).eps if narrowest else 0.0
