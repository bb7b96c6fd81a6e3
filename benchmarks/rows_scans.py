"""Scans of rows and columns, sorts and the greatest elements of rows."""

import math
from collections.abc import Sequence

import torch
from row import BF16, F32, Gate, Input, Row

NAMES = {BF16: "bf16", F32: "f32"}
AHEAD = Gate(share=None, behind=(1.0, 1.0))  # of eager


def row(name: str, define, eager, dtype: torch.dtype, m: int, n: int, gate: Gate, **more) -> Row:
    sizes, small = {"M": m, "N": n}, {"M": 3, "N": 70}
    return Row(f"{name} {NAMES[dtype]} {m}x{n}", define, eager, (Input(dtype, "MN"),), sizes, small, gate, **more)


def cumsum(dtype: torch.dtype, m: int, n: int) -> Row:
    def define(fd, types, x):
        return fd.ops.cumsum(x, dim=1)

    # Elements of 2 bytes in rows of an odd number are loaded one by one. Eager rounds sums of few elements to bfloat16.
    gate = Gate(0.97, 128e6, (1.0, 1.0)) if n % 4 == 0 else AHEAD
    error = 2**-5 if dtype is BF16 else 0.0
    return row("cumsum", define, lambda x: torch.cumsum(x, 1), dtype, m, n, gate, torch_error=error)


def cumsum_of_columns(dtype: torch.dtype, m: int, n: int) -> Row:
    def define(fd, types, x):
        return fd.ops.cumsum(x, dim=0)

    error = 2**-5 if dtype is BF16 else 0.0
    return row("cumsum of columns", define, lambda x: torch.cumsum(x, 0), dtype, m, n, AHEAD, torch_error=error)


def is_order(x: torch.Tensor, order: torch.Tensor, descending: bool) -> bool:
    """Whether order has the positions of the elements of rows of x in order, equal ones as they are in x."""
    want = torch.argsort(x, dim=1, descending=descending, stable=True)
    return torch.equal(order, want[:, : order.shape[1]])


def argsort(dtype: torch.dtype, m: int, n: int) -> Row:
    def define(fd, types, x):
        return fd.ops.argsort(x, dim=1)

    def check(inputs: Sequence[torch.Tensor], got: Sequence[torch.Tensor]) -> float:
        return 0.0 if is_order(inputs[0], got[0], descending=False) else math.inf

    return row("argsort", define, lambda x: torch.argsort(x, dim=1, stable=True), dtype, m, n, AHEAD, check=check)


def topk(k: int, dtype: torch.dtype, m: int, n: int) -> Row:
    def define(fd, types, x):
        return list(fd.ops.topk(x, k, 1))

    def check(inputs: Sequence[torch.Tensor], got: Sequence[torch.Tensor]) -> float:
        """The order of equal elements is left open, as eager has none."""
        values, indices = got
        want = torch.topk(inputs[0], k, 1).values
        same = torch.equal(values, want) and torch.equal(torch.gather(inputs[0], 1, indices), want)
        return 0.0 if same and all(len(set(x)) == k for x in indices.tolist()) else math.inf

    return row(f"top {k}", define, lambda x: tuple(torch.topk(x, k, 1)), dtype, m, n, AHEAD, check=check)


ROWS: list[Row] = [
    cumsum_of_columns(F32, 2048, 16384),
    cumsum_of_columns(BF16, 2048, 32768),
    cumsum(F32, 8192, 2048),
    cumsum(F32, 65536, 2048),
    cumsum(BF16, 65536, 2048),
    cumsum(BF16, 65536, 1023),
    argsort(F32, 4096, 1024),
    argsort(F32, 4096, 4096),
    topk(8, BF16, 16384, 256),
    topk(50, F32, 4096, 4096),
]
