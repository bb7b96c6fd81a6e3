"""Attention by torch, with the results that the operations sdpfa_fwd and sdpfa_bwd have.

On a CUDA device torch's own kernels are called where they take the tensors: which one follows from types, shapes and
the device, and from whether the program has torch use cuDNN. Dropout is refused: torch's kernels take the state of the
generator in forms that differ between its versions, and one that they do not expect ends the process.
"""

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from nvfuser_go.errors import Unsupported

_aten = torch.ops.aten


def sdpfa_fwd(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    dropout_p: float | None,
    is_causal: bool | None,
    scale: float | None,
    wanted: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    """Output, logsumexp, seed and offset; None for some that are not wanted."""
    _refuse_dropout("sdpfa_fwd", dropout_p)
    causal = bool(is_causal)
    zero = _zero(query) if wanted[2] or wanted[3] else None
    kernel = _kernel(query, key, value, causal) if bias is None and mask is None else None
    if kernel == "flash":
        q, k, v = _dense(query, key, value)
        if _prefers_cudnn(q, k, v, causal, scale):
            found = _aten._scaled_dot_product_cudnn_attention.default(
                q, k, v, None, wanted[1], 0.0, causal, False, scale=scale
            )
            return found[0], found[1].reshape(q.shape[:3]) if wanted[1] else None, zero, zero
        found = _aten._scaled_dot_product_flash_attention.default(q, k, v, 0.0, causal, False, scale=scale)
        return found[0], found[1], zero, zero
    if kernel == "efficient":
        q, k, v = _dense(query, _repeated(key, query), _repeated(value, query))
        found = _aten._scaled_dot_product_efficient_attention.default(q, k, v, None, True, 0.0, causal, scale=scale)
        return found[0], found[1][:, :, : query.shape[2]], zero, zero
    return *_spelled(query, key, value, bias, mask, causal, scale), zero, zero


def sdpfa_bwd(
    grad_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    dropout_p: float | None,
    is_causal: bool | None,
    philox_seed: Tensor,
    philox_offset: Tensor,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value."""
    _refuse_dropout("sdpfa_bwd", dropout_p)
    causal = bool(is_causal)
    kernel = _kernel(query, key, value, causal)
    if kernel == "flash":
        dense = _dense(grad_output, query, key, value, output)
        return _by_flash(*dense, logsumexp.contiguous(), causal=causal, scale=scale)
    # On narrow types the other kernel gave two results for equal tensors (torch 2.11 on an H100).
    if kernel == "efficient" and query.dtype is torch.float32:
        d, q, k, v, o = _dense(grad_output, query, _repeated(key, query), _repeated(value, query), output)
        padded = torch.nn.functional.pad(logsumexp, (0, -query.shape[2] % 32), value=math.inf)
        zero, wanted = _zero(query), [True, True, True, False]
        found = _aten._scaled_dot_product_efficient_attention_backward.default(
            d, q, k, v, None, o, padded, zero, zero, 0.0, wanted, causal, scale=scale
        )
        return found[0], _summed(found[1], key), _summed(found[2], value)
    return _spelled_gradients(grad_output, query, key, value, output, logsumexp, causal, scale)


def _by_flash(
    d: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, logsumexp: Tensor, *, causal: bool, scale: float | None
) -> tuple[Tensor, ...]:
    most = (q.shape[2], k.shape[2])
    if _prefers_cudnn(q, k, v, causal, scale):
        zero, rows = _zero(q), logsumexp.unsqueeze(-1)
        return _aten._scaled_dot_product_cudnn_attention_backward.default(
            d, q, k, v, o, rows, zero, zero, None, None, None, *most, 0.0, causal, scale=scale
        )
    state = torch.zeros(2, dtype=torch.int64, device=q.device).view(torch.uint64)
    found = _aten._scaled_dot_product_flash_attention_backward.default(
        d, q, k, v, o, logsumexp, None, None, *most, 0.0, causal, state, state, scale=scale
    )
    return tuple(found[:3])


def _kernel(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> str | None:
    """Which of torch's kernels computes attention without bias and mask."""
    features, of_values = query.shape[3], value.shape[3]
    if query.device.type != "cuda" or min(*query.shape, *key.shape, *value.shape) == 0:
        return None
    if query.dtype in (torch.float16, torch.bfloat16):
        square = not causal or query.shape[2] == key.shape[2]
        if features == of_values and features % 8 == 0 and features <= 256 and square:
            return "flash"
        return "efficient" if features % 8 == 0 and of_values % 8 == 0 else None
    return "efficient" if query.dtype is torch.float32 and features % 4 == 0 and of_values % 4 == 0 else None


def _prefers_cudnn(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float | None) -> bool:
    """Whether torch itself would have cuDNN compute what its flash kernels take too, as it does on Hopper.

    16 x 12 heads of 1024 positions by 64 take 83 us on an H200, and 135 by flash kernels. Both have the same results,
    in the same order in memory. cuDNN makes a plan at the first call of each shape, which takes some tenths of a
    second, in torch's own calls too; torch.backends.cuda.enable_cudnn_sdp(False) turns it off.
    """
    grouped = query.shape[1] != key.shape[1]
    choice = torch._fused_sdp_choice(query, key, value, None, 0.0, causal, scale=scale, enable_gqa=grouped)
    return choice == torch.nn.attention.SDPBackend.CUDNN_ATTENTION.value


def is_torchs_choice(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float | None) -> bool:
    """Whether torch itself would have the kernel compute attention that computes it here, without bias and mask."""
    kernel = _kernel(query, key, value, causal)
    if kernel is None or not all(_is_aligned(x) for x in (query, key, value)):
        return False
    grouped, backends = query.shape[1] != key.shape[1], torch.nn.attention.SDPBackend
    choice = torch._fused_sdp_choice(query, key, value, None, 0.0, causal, scale=scale, enable_gqa=grouped)
    if kernel == "flash":
        return choice in (backends.FLASH_ATTENTION.value, backends.CUDNN_ATTENTION.value)
    return choice == backends.EFFICIENT_ATTENTION.value and not grouped


def forward_of(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float | None, wanted: tuple[bool, ...]
) -> Callable[..., tuple[Tensor | None, ...]] | None:
    """sdpfa_fwd with logsumexp as a function of query, key and value like these; None: not by flash kernels.

    It finds out nothing but which kernel torch would use, as the program may turn cuDNN on and off.
    """
    if _kernel(query, key, value, causal) != "flash" or not all(_is_aligned(x) for x in (query, key, value)):
        return None
    seeds = {"size": (), "dtype": torch.uint64, "device": query.device}

    def forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor | None, ...]:
        if _prefers_cudnn(q, k, v, causal, scale):
            found = torch._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False, scale=scale)
        else:
            found = torch._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
        return found[0], found[1], *(torch.zeros(**seeds) if is_wanted else None for is_wanted in wanted[2:])

    return forward


def backward_of(
    grad_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    causal: bool,
    scale: float | None,
) -> Callable[..., tuple[Tensor, ...]] | None:
    """sdpfa_bwd as a function of its tensors like these, as forward_of. logsumexp is dense."""
    if _kernel(query, key, value, causal) != "flash":
        return None
    if not all(_is_aligned(x) for x in (grad_output, query, key, value, output)):
        return None
    return functools.partial(_by_flash, causal=causal, scale=scale)


def _dense(*tensors: Tensor) -> list[Tensor]:
    """The kernels read 16 bytes of features at a time, which must lie side by side, at multiples of 16 bytes."""
    return [x if _is_aligned(x) else x.clone(memory_format=torch.contiguous_format) for x in tensors]


def _is_aligned(x: Tensor) -> bool:
    strides = (s * x.element_size() % 16 == 0 for s, n in zip(x.stride()[:-1], x.shape[:-1], strict=True) if n > 1)
    return x.data_ptr() % 16 == 0 and x.stride(-1) == 1 and all(strides)


def _repeated(x: Tensor, query: Tensor) -> Tensor:
    """Heads of key or value, one for each of query."""
    groups = query.shape[1] // max(x.shape[1], 1)
    return x if groups == 1 else x.repeat_interleave(groups, 1)


def _summed(gradient: Tensor, like: Tensor) -> Tensor:
    groups = gradient.shape[1] // max(like.shape[1], 1)
    return gradient if groups == 1 else gradient.unflatten(1, (like.shape[1], groups)).sum(2)


def _zero(like: Tensor) -> Tensor:
    return torch.zeros((), dtype=torch.int64, device=like.device)


def _refuse_dropout(name: str, dropout_p: float | None) -> None:
    if dropout_p:
        raise Unsupported(f"{name}(): dropout_p is {dropout_p}, and dropout in attention is not supported; use 0")


def _scores(query: Tensor, key: Tensor, causal: bool, scale: float | None) -> Tensor:
    """The scores in Float or Double, -inf where a query does not see a key."""
    scores = query @ key.mT * (max(query.shape[3], 1) ** -0.5 if scale is None else scale)
    if causal:
        rows = torch.arange(query.shape[2], device=query.device).unsqueeze(1)
        hidden = torch.arange(key.shape[2], device=query.device) > rows
        scores = scores.masked_fill(hidden, -math.inf)
    return scores


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.float()


def _spelled(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    q, k, v = _wide(query), _wide(_repeated(key, query)), _wide(_repeated(value, query))
    scores = _scores(q, k, causal, scale)
    for added in (bias, mask):
        if added is not None and added.dtype is torch.bool:
            scores = scores.masked_fill(~added, -math.inf)
        elif added is not None:
            scores = scores + _wide(added)
    logsumexp = torch.logsumexp(scores, -1)
    weights = torch.softmax(scores, -1)
    if bias is not None or mask is not None:
        weights = torch.where((logsumexp == -math.inf).unsqueeze(-1), 0.0, weights)
    return weights @ v, logsumexp


def _spelled_gradients(
    grad_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """T. Dao, "FlashAttention-2" (2023), section 3.2."""
    d, q, k, v = _wide(grad_output), _wide(query), _wide(_repeated(key, query)), _wide(_repeated(value, query))
    weights = torch.exp(_scores(q, k, causal, scale) - logsumexp.unsqueeze(-1))
    weights = torch.where((logsumexp == -math.inf).unsqueeze(-1), 0.0, weights)
    of_weights = d @ v.mT - (d * _wide(output)).sum(-1, keepdim=True)
    of_scores = weights * of_weights * (max(query.shape[3], 1) ** -0.5 if scale is None else scale)
    return of_scores @ k, _summed(of_scores.mT @ q, key), _summed(weights.mT @ d, value)
