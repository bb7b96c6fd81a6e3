"""The rows that reduce, and softmax and cross entropy."""

from collections.abc import Sequence

import formulas
import torch
from formulas import Formula, computed, spread
from row import BF16, F32, Gate, Input, Row

REPORTED = Gate(share=None)  # what has no least share of a copy

NAMES = {BF16: "bf16", F32: "f32", torch.float16: "f16"}


def row_gate(columns: int) -> Gate:
    """Of a forward pass over rows that are read and written once."""
    if columns < 256:
        return REPORTED
    return Gate(0.96, 128e6) if columns <= 16384 else Gate(0.94, 512e6)


def row(name: str, made: Formula, sizes: Sequence[int], small: Sequence[int], gate: Gate, **more) -> Row:
    """A row of a formula; sizes are in the order in which letters occur in its inputs."""
    letters = list(dict.fromkeys(letter for x in made.inputs for letter in x.dims))
    at = "x".join(map(str, sizes))
    return Row(
        f"{name} {at}",
        made.define,
        made.eager,
        made.inputs,
        dict(zip(letters, sizes, strict=True)),
        dict(zip(letters, small, strict=True)),
        gate,
        prepare=made.prepare,
        **more,
    )


def softmax(m: int, n: int, dtype: torch.dtype = BF16) -> Row:
    return row(f"softmax {NAMES[dtype]}", formulas.softmax(dtype), (m, n), (3, 41), row_gate(n))


def softmax_masked(ops, x, mask):
    """Of attention scores and a mask that the heads of an image share."""
    x = ops.add(x, ops.broadcast(mask, [False, True, False, False]))
    e = ops.exp(ops.sub(x, spread(ops, ops.max(x, [3]), [3], 4)))
    return ops.div(e, spread(ops, ops.sum(e, [3]), [3], 4))


def cross_entropy(m: int, n: int) -> Row:
    # Eager rounds the logarithms of the softmax to bfloat16.
    made = formulas.cross_entropy(BF16)
    return row("cross entropy bf16", made, (m, n), (3, 40), Gate(0.97, 512e6), torch_error=2**-7)


def total(name: str, elements: int, dtype: torch.dtype) -> Row:
    made = formulas.sums(dtype, "N", (0,), F32)
    return Row(name, made.define, made.eager, made.inputs, {"N": elements}, {"N": 1000}, Gate(0.95, 512e6))


ROWS: list[Row] = [
    softmax(8192, 8192),
    softmax(16384, 6656),
    softmax(32768, 256),
    softmax(131072, 1024),
    softmax(524288, 512),
    softmax(8192, 16384),
    softmax(16384, 4098),
    softmax(65536, 1023),
    softmax(65536, 1023, F32),
    softmax(8192, 32768),
    softmax(2048, 131072),
    softmax(1024, 262144),
    softmax(512, 262144, F32),
    softmax(64, 8192),
    Row(
        "softmax + mask bf16 2x16x4096x4096",
        computed(BF16, softmax_masked),
        lambda x, mask: torch.softmax(x + mask.unsqueeze(1), -1),
        (Input(BF16, "BHST"), Input(BF16, "BST")),
        {"B": 2, "H": 16, "S": 4096, "T": 4096},
        {"B": 2, "H": 3, "S": 5, "T": 41},
        Gate(share=None),
        torch_error=0.02,  # eager rounds the sum to bfloat16
    ),
    row("log-softmax bf16", formulas.softmax(BF16, log=True), (16384, 4096), (3, 41), row_gate(4096)),
    row("softmax backward bf16", formulas.softmax_backward(), (16384, 4096), (3, 40), REPORTED),
    row("softmax backward bf16", formulas.softmax_backward(), (8192, 8192), (3, 40), REPORTED),
    row("softmax backward bf16", formulas.softmax_backward(), (2048, 131072), (3, 40), REPORTED),
    row("softmax of the middle f32", formulas.softmax(F32, "BMN", 1), (64, 128, 4096), (2, 5, 16), REPORTED),
    cross_entropy(4096, 131072),
    cross_entropy(32768, 32768),
    cross_entropy(128, 8192),
    row("cross entropy backward bf16", formulas.cross_entropy_backward(), (4096, 131072), (3, 40), REPORTED),
    total("sum of 2^28 bf16", 1 << 28, BF16),
    total("sum of 2^27 f32", 1 << 27, F32),
    total("sum of 2^18 f32", 1 << 18, F32),
    row("inner sum f32", formulas.sums(F32, "MN", (1,)), (8192, 16384), (3, 40), Gate(0.97, 512e6)),
    row("inner sum bf16", formulas.sums(BF16, "MN", (1,), F32), (65536, 4096), (3, 40), Gate(0.97, 512e6)),
    row("inner sum bf16", formulas.sums(BF16, "MN", (1,), F32), (256, 4096), (3, 40), REPORTED),
    row("inner sum bf16", formulas.sums(BF16, "MN", (1,), F32), (4194304, 64), (7, 64), REPORTED),
    row("inner sum bf16", formulas.sums(BF16, "MN", (1,), F32), (134217728, 2), (7, 2), REPORTED),
    row("var_mean bf16", formulas.var_mean(BF16), (4194304, 64), (7, 64), REPORTED),
    row("outer sum bf16", formulas.sums(BF16, "MN", (0,), F32), (32768, 4096), (30, 16), Gate(0.90, 256e6)),
    row(
        "outer sum bf16",
        formulas.sums(BF16, "MN", (0,), F32),
        (802816, 64),
        (30, 16),
        Gate(0.90, 256e6, behind=(1.06, 1.02)),
    ),
    row("outer and inner sum f32", formulas.sums(F32, "BMN", (0, 2)), (256, 512, 1024), (3, 5, 16), REPORTED),
    row("max f32", formulas.maxima(F32), (8192, 16384), (3, 40), Gate(0.97, 512e6)),
    row("var_mean bf16", formulas.var_mean(BF16), (65536, 4096), (3, 40), Gate(0.97, 512e6)),
]
