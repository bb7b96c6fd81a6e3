"""Gathers, embeddings and scatters: rows that read at positions that a tensor says.

Positions are distinct, so that what is read of a table is known, and at random places of it.
"""

import torch
import torch.nn.functional as F
from row import BF16, F32, I64, Gate, Input, Row
from rows_pointwise import narrow, wide

TABLE, IDS = Input(BF16, "VN"), Input(I64, "M", below="V")
SMALL = {"V": 50, "M": 24, "N": 40}


def distinct(table: torch.Tensor, ids: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The inputs with other ids, no two of which are equal."""
    draw = torch.Generator(ids.device).manual_seed(len(ids))
    return table, torch.randperm(len(table), generator=draw, device=ids.device)[: len(ids)], *others


def rows_of(table: Input, rows: int, ids: int, columns: int) -> dict:
    """The arguments of a row that reads so many rows of a table."""
    return {
        "inputs": (table, IDS),
        "sizes": {"V": rows, "M": ids, "N": columns},
        "small": SMALL,
        "prepare": distinct,
        "reads": (ids / rows, 1),
        "gate": Gate(share=0.95),
    }


def embedding(fd, types, table, ids):
    return fd.ops.embedding_fwd(ids, table)


def select(fd, types, table, ids):
    return fd.ops.index_select(table, ids, 0)


def residual(fd, types, table, ids, x):
    read = fd.ops.relu(wide(fd, types, fd.ops.index_select(table, ids, 0)))
    return narrow(fd, types, fd.ops.add(read, wide(fd, types, x)))


def embedding_gradient(fd, types, table, ids, grad):
    """With regard to the table, of which the size counts alone."""
    return fd.ops.index_put_accumulate(fd.ops.full(fd.ops.shape(table), 0.0, types.BFloat16), ids, grad)


def embedding_backward(table: torch.Tensor, ids: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.embedding_dense_backward(grad, ids, table.shape[0], -1, False)


ROWS: list[Row] = [
    Row("embedding bf16 152064x3584", embedding, lambda w, i: F.embedding(i, w), **rows_of(TABLE, 152064, 16384, 3584)),
    Row("embedding bf16 131072x4096", embedding, lambda w, i: F.embedding(i, w), **rows_of(TABLE, 131072, 16384, 4096)),
    Row(
        "index_select of rows f32",
        select,
        lambda x, i: x.index_select(0, i),
        **rows_of(Input(F32, "VN"), 65536, 8192, 4096),
    ),
    Row(
        "index_select of rows, relu, residual bf16",
        residual,
        lambda w, i, x: torch.relu(w[i]) + x,
        **rows_of(TABLE, 131072, 16384, 4096) | {"inputs": (TABLE, IDS, Input(BF16, "MN")), "reads": (1 / 8, 1, 1)},
    ),
    Row(
        "embedding backward bf16 131072x4096",
        embedding_gradient,
        embedding_backward,
        (TABLE, IDS, Input(BF16, "MN")),
        {"V": 131072, "M": 16384, "N": 4096},
        SMALL,
        reads=(0, 1, 1),
        gate=Gate(share=None),  # positions are sorted by calls of torch
    ),
    Row(
        "take_along_axis along rows f32",
        lambda fd, types, x, i: fd.ops.take_along_axis(x, i, 1),
        lambda x, i: torch.take_along_dim(x, i, 1),
        (Input(F32, "MN"), Input(I64, "MN", below="N")),
        {"M": 4096, "N": 4096},
        {"M": 24, "N": 40},
        gate=Gate(share=None),  # each element of a warp is in a line of its own
    ),
]
