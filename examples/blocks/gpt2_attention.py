"""The attention of a GPT-2 layer, forward and backward, with the masked softmax spelled out and with fd.ops.sdpfa_fwd.

One linear layer makes queries, keys and values, which are cut apart and into heads; position i sees positions up to i.
"""

from typing import Any

import torch
import torch.nn.functional as F
from block import (
    Block,
    Draw,
    Inputs,
    gradients,
    like,
    linear_gradients,
    main,
    merge_heads,
    split_heads,
    torch_merge_heads,
    torch_split_heads,
    torch_wide,
    transposed,
    wide,
)

from nvfuser_go import DataType, FusionDefinition

HEADS = 12


def queries_keys_values(fd: FusionDefinition, x: Any, w_qkv: Any, b_qkv: Any) -> list[Any]:
    """Three tensors [batch, heads, tokens, size]."""
    return parts_by_head(fd, fd.ops.linear(x, w_qkv, b_qkv))


def parts_by_head(fd: FusionDefinition, qkv: Any) -> list[Any]:
    b, t, c3 = qkv.shape()
    c = c3 // 3
    parts = [fd.ops.slice(qkv, [0, 0, i * c], [b, t, (i + 1) * c]) for i in range(3)]
    return [split_heads(fd, part, HEADS) for part in parts]


def visible(fd: FusionDefinition, tokens: Any) -> Any:
    """[tokens, tokens], True where the position of the row sees that of the column."""
    position = fd.ops.iota(tokens, dtype=DataType.Int)
    return fd.ops.broadcast(position, [False, True]) >= fd.ops.broadcast(position, [True, False])


def masked_softmax(fd: FusionDefinition, scores: Any, mask: Any) -> Any:
    scores = fd.ops.where(mask, scores, float("-inf"))
    e = fd.ops.exp(scores - fd.ops.max(scores, [-1], keepdim=True))
    return e / fd.ops.sum(e, [-1], keepdim=True)


def scale_of(fd: FusionDefinition, q: Any) -> Any:
    return fd.ops.rsqrt(fd.ops.cast(q.size(3), DataType.Double))


def spelled_out(fd: FusionDefinition, q: Any, k: Any, v: Any) -> Any:
    scores = wide(fd, fd.ops.matmul(q, transposed(fd, k))) * scale_of(fd, q)
    probabilities = masked_softmax(fd, scores, visible(fd, q.size(2)))
    return fd.ops.matmul(like(fd, probabilities, q), v)


def attention(fd: FusionDefinition, x: Any, w_qkv: Any, b_qkv: Any, w_out: Any, b_out: Any) -> Any:
    """[batch, tokens, width] to the same."""
    heads = spelled_out(fd, *queries_keys_values(fd, x, w_qkv, b_qkv))
    return fd.ops.linear(merge_heads(fd, heads), w_out, b_out)


def torch_spelled_out(q, k, v) -> torch.Tensor:
    scores = torch_wide(q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1).to(q.dtype) @ v


def torch_parts_by_head(qkv: torch.Tensor) -> list[torch.Tensor]:
    return [torch_split_heads(part, HEADS) for part in qkv.chunk(3, -1)]


def torch_attention(x, w_qkv, b_qkv, w_out, b_out) -> torch.Tensor:
    heads = torch_spelled_out(*torch_parts_by_head(F.linear(x, w_qkv, b_qkv)))
    return F.linear(torch_merge_heads(heads), w_out, b_out)


def torch_sdpa(x, w_qkv, b_qkv, w_out, b_out) -> torch.Tensor:
    q, k, v = torch_parts_by_head(F.linear(x, w_qkv, b_qkv))
    return F.linear(torch_merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)), w_out, b_out)


def define_forward(fd: FusionDefinition, x, w_qkv, b_qkv, w_out, b_out) -> None:
    fd.add_output(attention(fd, x, w_qkv, b_qkv, w_out, b_out))


def define_sdpa_forward(fd: FusionDefinition, x, w_qkv, b_qkv, w_out, b_out) -> None:
    heads, *_ = fd.ops.sdpfa_fwd(*queries_keys_values(fd, x, w_qkv, b_qkv), is_causal=True)
    fd.add_output(fd.ops.linear(merge_heads(fd, heads), w_out, b_out))


def define_backward(fd: FusionDefinition, grad, x, qkv, probabilities, merged, w_qkv, w_out) -> None:
    """qkv, probabilities (Float) and merged, the operand of the last layer, are from the forward pass."""
    grad_merged, grad_w_out, grad_b_out = linear_gradients(fd, grad, merged, w_out)
    grad_heads = split_heads(fd, grad_merged, HEADS)
    q, k, v = parts_by_head(fd, qkv)
    grad_v = fd.ops.matmul(transposed(fd, like(fd, probabilities, q)), grad_heads)
    grad_p = wide(fd, fd.ops.matmul(grad_heads, transposed(fd, v)))
    along = fd.ops.sum(grad_p * probabilities, [-1], keepdim=True)
    grad_scores = like(fd, probabilities * (grad_p - along) * scale_of(fd, q), q)
    grad_q = fd.ops.matmul(grad_scores, k)
    grad_k = fd.ops.matmul(transposed(fd, grad_scores), q)
    grad_qkv = fd.ops.cat([merge_heads(fd, g) for g in (grad_q, grad_k, grad_v)], -1)
    grad_x, grad_w_qkv, grad_b_qkv = linear_gradients(fd, grad_qkv, x, w_qkv)
    for output in (grad_x, grad_w_qkv, grad_b_qkv, grad_w_out, grad_b_out):
        fd.add_output(output)


def backward_reference(grad, x, qkv, probabilities, merged, w_qkv, w_out) -> list[torch.Tensor]:
    def after_first(qkv, w_out, b_out):
        return F.linear(torch_merge_heads(torch_spelled_out(*torch_parts_by_head(qkv))), w_out, b_out)

    # The biases have no part in their gradients.
    grad_qkv, *outer = gradients(after_first, grad, qkv, w_out, w_out.new_zeros(w_out.shape[0]))
    return [*gradients(F.linear, grad_qkv, x, w_qkv, w_qkv.new_zeros(w_qkv.shape[0])), *outer]


def define_sdpa_backward(fd: FusionDefinition, grad, x, w_qkv, b_qkv, w_out, b_out) -> None:
    """The forward pass is computed again, as with checkpoints of activations."""
    q, k, v = queries_keys_values(fd, x, w_qkv, b_qkv)
    heads, logsumexp, seed, offset = fd.ops.sdpfa_fwd(q, k, v, is_causal=True)
    grad_merged, grad_w_out, grad_b_out = linear_gradients(fd, grad, merge_heads(fd, heads), w_out)
    parts = fd.ops.sdpfa_bwd(split_heads(fd, grad_merged, HEADS), q, k, v, heads, logsumexp, 0.0, True, seed, offset)
    grad_qkv = fd.ops.cat([merge_heads(fd, g) for g in parts], -1)
    grad_x, grad_w_qkv, grad_b_qkv = linear_gradients(fd, grad_qkv, x, w_qkv)
    for output in (grad_x, grad_w_qkv, grad_b_qkv, grad_w_out, grad_b_out):
        fd.add_output(output)


def forward_inputs(draw: Draw, batch: int, tokens: int, width: int) -> Inputs:
    return [
        draw(batch, tokens, width),
        draw.weight(3 * width, width),
        draw(3 * width, scale=0.1),
        draw.weight(width, width),
        draw(width, scale=0.1),
    ]


def backward_inputs(draw: Draw, batch: int, tokens: int, width: int) -> Inputs:
    x, w_qkv, b_qkv, w_out, _ = forward_inputs(draw, batch, tokens, width)
    qkv = F.linear(x, w_qkv, b_qkv)
    q, k, v = torch_parts_by_head(qkv)
    scores = torch_wide(q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    mask = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).tril()
    probabilities = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
    merged = torch_merge_heads(probabilities.to(v.dtype) @ v)
    return [draw(batch, tokens, width), x, qkv, probabilities, merged, w_qkv, w_out]


SIZES = {
    "small": {"batch": 2, "tokens": 5, "width": 48},
    "other": {"batch": 1, "tokens": 9, "width": 96},
    "single": {"batch": 1, "tokens": 1, "width": 12},
    "empty": {"batch": 0, "tokens": 1, "width": 12},
    "large": {"batch": 16, "tokens": 1024, "width": 768},
}
BLOCKS = (
    Block("gpt2_attention_forward", define_forward, forward_inputs, lambda *x: [torch_attention(*x)], SIZES),
    Block("gpt2_attention_backward", define_backward, backward_inputs, backward_reference, SIZES),
    Block("gpt2_attention_sdpa_forward", define_sdpa_forward, forward_inputs, lambda *x: [torch_sdpa(*x)], SIZES),
    Block(
        "gpt2_attention_sdpa_backward",
        define_sdpa_backward,
        lambda draw, **sizes: [draw(sizes["batch"], sizes["tokens"], sizes["width"]), *forward_inputs(draw, **sizes)],
        lambda grad, *x: gradients(torch_sdpa, grad, *x),
        SIZES,
    ),
)

if __name__ == "__main__":
    main(*BLOCKS)
