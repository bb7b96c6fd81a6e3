"""Cases of the op sweep: matrix products and attention."""

import math

import torch
from sweep_case import Case
from sweep_reference import narrowed, widened
from sweep_values import Tensor

from nvfuser_go import DataType

D = DataType


def matmuls(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((4, 7), (7, 5)),
        ((7,), (7,)),
        ((4, 7), (7,)),
        ((7,), (7, 5)),
        ((2, 4, 7), (2, 7, 5)),
        ((2, 1, 4, 7), (3, 7, 5)),
        ((1, 4, 7), (2, 7, 5)),
        ((33, 65), (65, 34)),
        ((0, 7), (7, 5)),
        ((4, 0), (0, 5)),
        ((1, 1), (1, 1)),
    ]
    return [
        Case({"arg1": Tensor(a, dtype, special=False), "arg2": Tensor(b, dtype, special=False)}, length=a[-1] * 16)
        for a, b in given
    ]


def linears(row: dict, dtype: DataType) -> list[Case]:
    given = [
        ((4, 7), (5, 7), (5,)),
        ((4, 7), (5, 7), None),
        ((2, 3, 7), (5, 7), (5,)),
        ((7,), (5, 7), (5,)),
        ((4, 7), (7,), None),
        ((4, 7), (7,), ()),
        ((0, 7), (5, 7), (5,)),
        ((4, 0), (5, 0), (5,)),
    ]
    out = []
    for a, b, bias in given:
        case = Case(
            {"arg1": Tensor(a, dtype, special=False), "arg2": Tensor(b, dtype, special=False)}, length=a[-1] * 16
        )
        if bias is not None:
            case.args["bias"] = Tensor(bias, dtype, special=False)
        case.reference = linear
        out.append(case)
    return out


def linear(args: dict) -> list[torch.Tensor]:
    a, b, bias = (widened(args[n]) if n in args else None for n in ("arg1", "arg2", "bias"))
    out = torch.matmul(a, b.mT if b.ndim == 2 else b)
    return [narrowed(out if bias is None else out + bias, args["arg1"].dtype)]


def grouped(row: dict, dtype: DataType) -> list[Case]:
    def tensor(*shape):
        return Tensor(shape, dtype, special=False)

    out = []
    for offsets, rows in (([2, 5, 9], 9), ([0, 4, 4], 4), ([3, 3, 7], 8), ([0, 0, 0], 0)):
        ends = Tensor((3,), D.Int32 if rows == 9 else D.Int, offsets, layout="dense")
        out += [
            Case({"mat1": tensor(rows, 6), "mat2": tensor(3, 6, 4), "offsets": ends}, length=99, reference=grouped_mm),
            Case({"mat1": tensor(3, 5, 6), "mat2": tensor(6, rows), "offsets": ends}, length=99, reference=grouped_mm),
            Case({"mat1": tensor(5, rows), "mat2": tensor(rows, 4), "offsets": ends}, length=199, reference=grouped_mm),
        ]
    return out


def grouped_mm(args: dict) -> list[torch.Tensor]:
    """A product for each group; torch._grouped_mm takes few types and sizes."""
    a, b, ends = widened(args["mat1"]), widened(args["mat2"]), [int(e) for e in args["offsets"]]
    shape = (a.shape[0], b.shape[-1]) if b.ndim == 3 else (a.shape[-2], b.shape[1])
    out = torch.zeros((len(ends), *shape) if a.ndim == b.ndim else shape, dtype=a.dtype)
    begin = 0
    for g, end in enumerate(ends):
        if b.ndim == 3:
            out[begin:end] = a[begin:end] @ b[g]
        elif a.ndim == 3:
            out[:, begin:end] = a[g] @ b[:, begin:end]
        else:
            out[g] = a[:, begin:end] @ b[begin:end]
        begin = end
    return [narrowed(out, args["mat1"].dtype)]


def attention_inputs(row: dict, dtype: DataType) -> list[tuple[dict, dict]]:
    def tensor(*shape):
        return Tensor(shape, dtype, (-1.0, 1.0), special=False)

    out = []
    for (n, h, g, s, t, e), causal, scale in [
        ((2, 3, 3, 5, 5, 8), False, None),
        ((2, 4, 2, 5, 5, 8), True, None),
        ((1, 2, 2, 3, 7, 4), False, 0.25),
        ((1, 2, 1, 7, 3, 4), True, 0.25),
        ((1, 1, 1, 33, 33, 4), True, None),
        ((1, 2, 2, 0, 3, 4), False, None),
    ]:
        tensors = {"query": tensor(n, h, s, e), "key": tensor(n, g, t, e), "value": tensor(n, g, t, e)}
        options = {"is_causal": causal} if scale is None else {"is_causal": causal, "scale": scale}
        out.append((tensors, options))
    return out


def attentions(row: dict, dtype: DataType) -> list[Case]:
    out = [Case({**tensors, **options}, length=64, ulps=4) for tensors, options in attention_inputs(row, dtype)]
    tensors, _ = attention_inputs(row, dtype)[0]
    n, h, s, t = 2, 3, 5, 5
    out.append(Case({**tensors, "bias": Tensor((n, h, s, t), dtype, (-1.0, 1.0), special=False)}, length=64, ulps=4))
    out.append(Case({**tensors, "mask": Tensor((n, 1, s, t), D.Bool)}, length=64, ulps=4))
    return out


def attention_gradients(row: dict, dtype: DataType) -> list[Case]:
    out = []
    for tensors, options in attention_inputs(row, dtype):
        query = tensors["query"]
        args = {
            "grad_output": Tensor(query.shape, dtype, (-1.0, 1.0), special=False),
            **tensors,
            "output": Tensor(query.shape, dtype, (0.0, 0.0), special=False),
            "logsumexp": Tensor(query.shape[:3], D.Double if dtype is D.Double else D.Float, (0.0, 0.0), special=False),
            "dropout_p": 0.0,
            "philox_seed": Tensor((), D.UInt64, (0, 0), special=False),
            "philox_offset": Tensor((), D.UInt64, (0, 0), special=False),
            **options,
        }
        out.append(Case(args, length=64, ulps=8, prepare=attend))
    return out


def attend(args: dict) -> dict:
    """Puts the results of the forward pass among the arguments of the backward pass."""
    q, k, v = (widened(args[n]) for n in ("query", "key", "value"))
    groups = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(groups, 1).mT * args.get("scale", q.shape[3] ** -0.5)
    if args.get("is_causal"):
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~keep, -math.inf)
    out = torch.softmax(scores, -1) @ v.repeat_interleave(groups, 1)
    return {
        **args,
        "output": out.to(args["output"].dtype),
        "logsumexp": torch.logsumexp(scores, -1).to(args["logsumexp"].dtype),
    }
