"""Slices, pads, concatenations and rotary embeddings.

Values that come as bfloat16 are computed in float32 and rounded once.
"""

import torch
import torch.nn.functional as F
from formulas import computed
from row import BF16, F32, Gate, Input, Row


def rope(ops, x, cos, sin):
    """x * cos + (-b, a) * sin, of the halves (a, b) of the last dimension of x."""
    b, h, s, d = ops.shape(x)
    half = ops.div(d, 2)
    left, right = ops.slice(x, [0, 0, 0, 0], [b, h, s, half]), ops.slice(x, [0, 0, 0, half], [b, h, s, d])
    cos, sin = (ops.broadcast(y, [True, True, False, False]) for y in (cos, sin))
    return ops.add(ops.mul(x, cos), ops.mul(ops.cat([ops.neg(right), left], 3), sin))


def rope_eager(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def joined(ops, x, y, z):
    return ops.mul(ops.relu(ops.cat([x, y], 1)), z)


def of_halves(ops, x, y):
    """silu(a) * b of the halves (a, b) of the rows of x, before y."""
    m, n = ops.shape(x)
    half = ops.div(n, 2)
    left, right = ops.slice(x, [0, 0], [m, half]), ops.slice(x, [0, half], [m, n])
    return ops.cat([ops.mul(ops.silu(left), right), y], 1)


def of_halves_eager(x, y):
    left, right = x.chunk(2, -1)
    return torch.cat([F.silu(left) * right, y], 1)


def inner(ops, x):
    m, n = ops.shape(x)
    return ops.relu(ops.slice(x, [0, 1], [m, ops.sub(n, 1)]))


def padded(ops, x):
    return ops.relu(ops.pad(x, [1, 1]))


def split(fd, types, x):
    """The three parts of the rows of x, of as many elements, each on its own."""
    m, n = fd.ops.shape(x)
    third = fd.ops.div(n, 3)
    ends = [0, third, fd.ops.mul(third, 2), n]
    parts = [fd.ops.slice(x, [0, ends[k]], [m, ends[k + 1]]) for k in range(3)]
    wide = [fd.ops.cast(y, types.Float) for y in parts]
    return [fd.ops.cast(fd.ops.mul(y, k + 0.5), types.BFloat16) for k, y in enumerate(wide)]


def split_eager(x):
    return tuple(y * (k + 0.5) for k, y in enumerate(x.chunk(3, -1)))


def ropes(label: str, b: int, h: int, s: int, d: int) -> Row:
    return Row(
        f"rope bf16 {label}",
        computed(BF16, rope),
        rope_eager,
        (Input(BF16, "BHSD"), Input(BF16, "SD"), Input(BF16, "SD")),
        {"B": b, "H": h, "S": s, "D": d},
        {"B": 2, "H": 3, "S": 5, "D": 16},
        torch_error=0.02,
    )


TINY = {"M": 9, "N": 22}
ODD = Gate(share=0.93)

ROWS: list[Row] = [
    ropes("1x32x8192x128", 1, 32, 8192, 128),
    ropes("8x32x4096x128", 8, 32, 4096, 128),
    ropes("1x32x8192x96", 1, 32, 8192, 96),
    Row(
        "cat bf16, relu, mul",
        computed(BF16, joined),
        lambda x, y, z: torch.cat([x, y], 1).relu() * z,
        (Input(BF16, "MN"), Input(BF16, "MK"), Input(BF16, "ML")),
        {"M": 8192, "N": 4096, "K": 1024, "L": 5120},
        {"M": 9, "N": 16, "K": 8, "L": 24},
    ),
    Row(
        "slice, cat, silu bf16",
        computed(BF16, of_halves),
        of_halves_eager,
        (Input(BF16, "MN"), Input(BF16, "MK")),
        {"M": 8192, "N": 8192, "K": 1024},
        {"M": 9, "N": 16, "K": 8},
        torch_error=0.02,
    ),
    Row(
        "slice [:, 1:-1] bf16",
        computed(BF16, inner),
        lambda x: x[:, 1:-1].relu(),
        (Input(BF16, "MN"),),
        {"M": 16384, "N": 4098},
        TINY,
        gate=ODD,
    ),
    Row(
        "pad 1 and 1 f32",
        computed(F32, padded),
        lambda x: F.pad(x, [1, 1]).relu(),
        (Input(F32, "MN"),),
        {"M": 8192, "N": 4094},
        TINY,
    ),
    Row(
        "pad 1 and 1 bf16",
        computed(BF16, padded),
        lambda x: F.pad(x, [1, 1]).relu(),
        (Input(BF16, "MN"),),
        {"M": 16384, "N": 4094},
        TINY,
        gate=ODD,
    ),
    Row("split in 3 bf16", split, split_eager, (Input(BF16, "MN"),), {"M": 8192, "N": 6144}, {"M": 9, "N": 24}),
]
