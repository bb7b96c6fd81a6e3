"""The rows of norms of rows and of images."""

import formulas
from formulas import CHANNELS_LAST
from row import BF16, Gate, Row
from rows_reductions import REPORTED, row, row_gate

BACKWARD = Gate(0.92, 256e6)


def layer_norm(m: int, n: int) -> Row:
    return row("layer norm bf16", formulas.layer_norm(), (m, n), (3, 40), row_gate(n))


def rms_norm(m: int, n: int) -> Row:
    return row("RMS norm bf16", formulas.rms_norm(), (m, n), (3, 40), row_gate(n))


def batch_norm(layout: str, height: int) -> list[Row]:
    """Forward and backward. The input is read again after the statistics: three tensors move forward, five backward."""
    last = layout == CHANNELS_LAST
    name, sizes, small = "NHWC" if last else "NCHW", (64, 256, height, height), (2, 16, 3, 4)
    forward = Gate(1.0, 256e6) if last else REPORTED
    return [
        row(f"batch norm bf16 {name}", formulas.batch_norm(BF16, layout), sizes, small, forward, reads=(2, 1, 1)),
        row(
            f"batch norm backward bf16 {name}",
            formulas.batch_norm_backward(BF16, layout),
            sizes,
            small,
            REPORTED,
            reads=(2, 2, 1, 1, 1),
        ),
    ]


ROWS: list[Row] = [
    rms_norm(16384, 8192),
    rms_norm(16384, 4096),
    rms_norm(16384, 4098),
    rms_norm(2048, 131072),
    rms_norm(64, 8192),
    layer_norm(16384, 4096),
    layer_norm(16384, 8192),
    layer_norm(8192, 10240),
    layer_norm(8192, 16384),
    layer_norm(65536, 1023),
    layer_norm(4096, 65536),
    layer_norm(256, 1024),
    row("layer norm backward bf16", formulas.layer_norm_backward(), (16384, 4096), (5, 40), BACKWARD),
    row("layer norm backward bf16", formulas.layer_norm_backward(), (8192, 16384), (5, 40), BACKWARD),
    row("RMS norm backward bf16", formulas.rms_norm_backward(), (16384, 4096), (5, 40), BACKWARD),
    row("RMS norm backward bf16", formulas.rms_norm_backward(), (16384, 8192), (5, 40), BACKWARD),
    *(x for layout in (CHANNELS_LAST, "dense") for height in (56, 28) for x in batch_norm(layout, height)),
]
