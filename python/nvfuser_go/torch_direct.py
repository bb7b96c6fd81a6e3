"""Calls of torch that one function of torch's makes, for C to make them without a frame of Python.

All tensors of a call are of the same types, sizes and strides in every run of its plan, and lie at multiples of the
same powers of two. So what torch's functions for any operands find out each time is found out once: which function
computes it, and how matrices are seen that lie in tensors of more dimensions. A product of two matrices is mm or addmm
with operands as 2-D views, and one of batches bmm: the functions that torch.matmul and F.linear come to.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nvfuser_go import torch_attention


class Operand(NamedTuple):
    """An argument of the call: its position, and what it is in the first run. Numbers differ from run to run."""

    position: int
    value: Any


class Matrix(NamedTuple):
    """An argument seen otherwise, from its first element on."""

    position: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Direct(NamedTuple):
    """A function of torch with its arguments: operands and constants. It gives a result for each, or the only one.

    dense: the results whose elements lie in order, and are those of the asked ones in their order.
    """

    function: Callable[..., Any]
    arguments: Sequence[Operand | Matrix | bool | int | float | None]
    dense: tuple[int, ...] = ()


# Sizes and strides.
Extents = tuple[tuple[int, ...], tuple[int, ...]]

# What C calls: the function; arguments, which are a position, a matrix or a constant in a tuple of one; how each result
# is seen, None: as it is.
Made = tuple[Callable[..., Any], tuple[Any, ...], tuple[Extents | None, ...]]


def direct_call(expression: str, values: dict[str, Any], asked: Sequence[Extents | None]) -> Made | None:
    """How torch computes the expression directly, None if it does not.

    values are the parameters: operands, constants, and Ellipsis for others. asked are the results, None for those that
    nobody wants.
    """
    form = FORMS.get(expression)
    if form is None or any(v is ... for v in values.values()):
        return None
    made = form(wanted=tuple(x is not None for x in asked), **values)
    if made is None:
        return None
    views = tuple(x if i in made.dense else None for i, x in enumerate(asked))
    if not all(_is_dense(*x) for x in views if x is not None):
        return None
    return made.function, tuple(_item(x) for x in made.arguments), views


def _item(x: Any) -> Any:
    if isinstance(x, Operand):
        return x.position
    return tuple(x) if isinstance(x, Matrix) else (x,)


# ---- Products ----


def _linear(arg1: Operand, arg2: Operand, bias: Operand | None, wanted: tuple[bool, ...]) -> Direct | None:
    operands = [arg1, arg2] if bias is None else [arg1, arg2, bias]
    if not _are_real(operands) or arg2.value.ndim != 2:
        return None
    rows = _rows(arg1)
    if rows is None or not _are_dense(operands) or (bias is not None and bias.value.ndim != 1):
        return Direct(torch.nn.functional.linear, operands)
    (n, k), (step, along) = arg2.value.shape, arg2.value.stride()
    columns = Matrix(arg2.position, (k, n), (along, step))
    dense = () if arg1.value.ndim == 2 else (0,)
    if bias is None:
        return Direct(torch.mm, [rows, columns], dense)
    return Direct(torch.addmm, [bias, rows, columns], dense)


def _matmul(arg1: Operand, arg2: Operand, wanted: tuple[bool, ...]) -> Direct | None:
    if not _are_real([arg1, arg2]):
        return None
    a, b = arg1.value, arg2.value
    if a.ndim == 2 and b.ndim == 2:
        return Direct(torch.mm, [arg1, arg2])
    if a.ndim > 2 and b.ndim == 2 and a.is_contiguous() and a.numel():
        return Direct(torch.mm, [_rows(arg1), arg2], (0,))
    if a.ndim > 2 and a.shape[:-2] == b.shape[:-2] and a.numel() and b.numel():
        first, second = _batch(arg1), _batch(arg2)
        if first is not None and second is not None:
            return Direct(torch.bmm, [first, second], () if a.ndim == 3 else (0,))
    return Direct(torch.matmul, [arg1, arg2])


def _are_real(operands: Sequence[Operand]) -> bool:
    """Whether torch has products of these: of integers not on every device, and of 8 bits only by wider types."""
    return all(
        isinstance(x.value, Tensor) and x.value.dtype.is_floating_point and x.value.dtype.itemsize > 1 for x in operands
    )


def _are_dense(operands: Sequence[Operand]) -> bool:
    return all(x.value.is_contiguous() and x.value.numel() for x in operands)


def _rows(x: Operand) -> Operand | Matrix | None:
    """The rows of a dense tensor as a matrix; None of a vector."""
    shape = x.value.shape
    if len(shape) < 3:
        return x if len(shape) == 2 else None
    return Matrix(x.position, (math.prod(shape[:-1]), shape[-1]), (shape[-1], 1))


def _batch(x: Operand) -> Operand | Matrix | None:
    """A tensor of matrices with one dimension before theirs, None if it does not lie so."""
    shape, strides = x.value.shape, x.value.stride()
    if len(shape) == 3:
        return x
    sizes = [(n, s) for n, s in zip(shape[:-2], strides[:-2], strict=True) if n != 1]
    if any(s != n * t for (_, s), (n, t) in itertools.pairwise(sizes)):
        return None
    step = sizes[-1][1] if sizes else shape[-2] * shape[-1]
    return Matrix(x.position, (math.prod(shape[:-2]), *shape[-2:]), (step, *strides[-2:]))


def _is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for n, s in zip(reversed(sizes), reversed(strides), strict=True):
        if n != 1 and s != step:
            return False
        step *= n
    return True


# ---- Attention ----


def _attention(
    query: Operand,
    key: Operand,
    value: Operand,
    bias: Operand | None,
    mask: Operand | None,
    dropout_p: float | Operand | None,
    is_causal: bool | Operand | None,
    scale: float | Operand | None,
    wanted: tuple[bool, ...],
) -> Direct | None:
    """Torch's own function for attention: it computes no logsumexp, and chooses among kernels at each call."""
    if (
        bias is not None
        or mask is not None
        or dropout_p
        or isinstance(is_causal, Operand)
        or isinstance(scale, Operand)
    ):
        return None
    q, k, v, causal = query.value, key.value, value.value, bool(is_causal)
    if wanted != (True, False, False, False):
        forward = torch_attention.forward_of(q, k, v, causal, scale, wanted)
        return None if forward is None else Direct(forward, [query, key, value], (1,))
    if not torch_attention.is_torchs_choice(q, k, v, causal, scale):
        return None
    grouped = q.shape[1] != k.shape[1]
    function = torch.nn.functional.scaled_dot_product_attention
    if scale is not None or grouped:
        function = functools.partial(function, scale=scale, enable_gqa=grouped)
    return Direct(function, [query, key, value, None, 0.0, causal])


def _attention_gradients(
    grad_output: Operand,
    query: Operand,
    key: Operand,
    value: Operand,
    output: Operand,
    logsumexp: Operand,
    dropout_p: float | Operand | None,
    is_causal: bool | Operand | None,
    philox_seed: Operand,
    philox_offset: Operand,
    scale: float | Operand | None,
    wanted: tuple[bool, ...],
) -> Direct | None:
    if dropout_p or isinstance(is_causal, Operand) or isinstance(scale, Operand) or not _are_dense([logsumexp]):
        return None
    operands = [grad_output, query, key, value, output, logsumexp]
    backward = torch_attention.backward_of(*(x.value for x in operands), bool(is_causal), scale)
    return None if backward is None else Direct(backward, operands)


FORMS: dict[str, Callable[..., Direct | None]] = {
    "rows.linear(arg1, arg2, bias)": _linear,
    "rows.matmul(arg1, arg2)": _matmul,
    "attention.sdpfa_fwd(query, key, value, bias, mask, dropout_p, is_causal, scale, wanted)": _attention,
    "attention.sdpfa_bwd(grad_output, query, key, value, output, logsumexp, dropout_p, is_causal, philox_seed, "
    "philox_offset, scale)": _attention_gradients,
}
