"""The pointwise rows.

The definitions: fd.ops alone and numbers as operands, which other packages with this interface take too. Values that
come as bfloat16 are computed in float32 and rounded once.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from row import BF16, BOOL, F32, I64, Gate, Input, Row, close_to


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
        gate=Gate(share=None),
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
        "x + mask bf16 4x16x2048x2048",
        in_float(lambda ops, x, mask: ops.add(x, ops.broadcast(mask, [False, True, False, False]))),
        lambda x, mask: x + mask.unsqueeze(1),
        (Input(BF16, "BHST"), Input(BF16, "BST")),
        {"B": 4, "H": 16, "S": 2048, "T": 2048},
        {"B": 2, "H": 3, "S": 5, "T": 22},
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
        gate=None,
    ),
    Row(
        "iota i64",
        iota,
        lambda frame: torch.arange(3, 3 + 2 * frame.sizes["N"], 2, device=frame.device),
        (),
        {"N": 1 << 25},
        {"N": 100},
        gate=None,
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
