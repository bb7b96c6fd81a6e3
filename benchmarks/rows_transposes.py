"""Transposes: tensors of several orders in one kernel."""

from collections.abc import Sequence

import torch
from row import BF16, F32, Gate, Input, Row
from rows_pointwise import in_float

NAMES = {BF16: "bf16", F32: "f32"}
EVEN, ODD = Gate(0.95, 128e6), Gate(0.90, 128e6)


def copy(
    name: str, dtype: torch.dtype, order: Sequence[int], sizes: Sequence[int], small: Sequence[int], gate: Gate
) -> Row:
    """A copy of a tensor with its dimensions in another order. sizes are those of the input."""
    letters = "ABCD"[: len(order)]
    at = "x".join(map(str, sizes))
    return Row(
        f"{name} {NAMES[dtype]} {at}",
        lambda fd, types, x: fd.ops.set(fd.ops.permute(x, list(order))),
        lambda x: x.permute(*order).contiguous(),
        (Input(dtype, letters),),
        dict(zip(letters, sizes, strict=True)),
        dict(zip(letters, small, strict=True)),
        gate,
    )


def added(rows: int, columns: int, gate: Gate) -> Row:
    return Row(
        f"x + y^T bf16 {rows}x{columns}",
        in_float(lambda ops, x, y: ops.add(x, ops.permute(y, [1, 0]))),
        lambda x, y: torch.add(x, y.t()),
        (Input(BF16, "MN"), Input(BF16, "NM")),
        {"M": rows, "N": columns},
        {"M": 24, "N": 40},
        gate,
    )


ROWS: list[Row] = [
    copy("transpose", BF16, (1, 0), (8192, 8192), (24, 40), EVEN),
    copy("transpose", F32, (1, 0), (8192, 8192), (24, 40), EVEN),
    added(8192, 8192, EVEN),
    copy("permute 021", BF16, (0, 2, 1), (512, 512, 512), (3, 16, 24), EVEN),
    copy("permute 210", F32, (2, 1, 0), (512, 512, 512), (20, 3, 24), EVEN),
    copy("transpose", BF16, (1, 0), (8197, 8195), (29, 35), ODD),
    copy("transpose", F32, (1, 0), (8197, 8195), (29, 35), ODD),
    added(8197, 8195, ODD),
    copy("NCHW to NHWC", BF16, (0, 2, 3, 1), (64, 256, 56, 56), (2, 16, 3, 8), EVEN),
    copy("NHWC to NCHW", BF16, (0, 3, 1, 2), (64, 56, 56, 256), (2, 3, 8, 16), EVEN),
    copy("NCHW to NHWC", BF16, (0, 2, 3, 1), (64, 3, 1024, 1024), (2, 3, 8, 8), EVEN),
    copy("NHWC to NCHW", BF16, (0, 3, 1, 2), (64, 1024, 1024, 3), (2, 8, 8, 3), EVEN),
]
