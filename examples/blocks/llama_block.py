"""A Llama block: RMSNorm, rotary positions, causal attention whose heads share keys and values in groups, SwiGLU."""

from typing import Any

import torch
import torch.nn.functional as F
from block import Block, Draw, Inputs, like, main, mean, merge_heads, split_heads, torch_wide, wide

from nvfuser_go import FusionDefinition

HEADS, KEY_HEADS, EPS = 8, 2, 1e-5


def rms_norm(fd: FusionDefinition, x: Any, weight: Any) -> Any:
    """x / sqrt(mean(x^2) + EPS), rounded to the type of x and multiplied by weight."""
    h = wide(fd, x)
    normal = like(fd, h * fd.ops.rsqrt(mean(fd, h * h, -1) + EPS), x)
    return like(fd, wide(fd, weight) * wide(fd, normal), x)


def rotated(fd: FusionDefinition, x: Any, cos: Any, sin: Any) -> Any:
    """x [batch, heads, tokens, size], its halves (a, b) turned by an angle for each token: x * cos + (-b, a) * sin."""
    b, h, t, d = x.shape()
    y = wide(fd, x)
    left, right = fd.ops.slice(y, [0, 0, 0, 0], [b, h, t, d // 2]), fd.ops.slice(y, [0, 0, 0, d // 2], [b, h, t, d])
    return like(fd, y * cos + fd.ops.cat([-right, left], -1) * sin, x)


def define(fd: FusionDefinition, x, cos, sin, norm_1, w_q, w_k, w_v, w_o, norm_2, w_gate, w_up, w_down) -> None:
    h = rms_norm(fd, x, norm_1)
    q = rotated(fd, split_heads(fd, fd.ops.linear(h, w_q), HEADS), cos, sin)
    k = rotated(fd, split_heads(fd, fd.ops.linear(h, w_k), KEY_HEADS), cos, sin)
    v = split_heads(fd, fd.ops.linear(h, w_v), KEY_HEADS)
    seen, *_ = fd.ops.sdpfa_fwd(q, k, v, is_causal=True)
    x = like(fd, x + fd.ops.linear(merge_heads(fd, seen), w_o), x)
    h = rms_norm(fd, x, norm_2)
    gate = like(fd, fd.ops.silu(wide(fd, fd.ops.linear(h, w_gate))), x)
    up = like(fd, gate * fd.ops.linear(h, w_up), x)
    fd.add_output(like(fd, x + fd.ops.linear(up, w_down), x))


def reference(x, cos, sin, norm_1, w_q, w_k, w_v, w_o, norm_2, w_gate, w_up, w_down) -> list[torch.Tensor]:
    def norm(x, weight):
        h = torch_wide(x)
        return weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype)

    def heads(x, weight, n):
        return F.linear(x, weight).unflatten(-1, (n, -1)).transpose(1, 2)

    def rotate(x):
        a, b = x.chunk(2, -1)
        return (torch_wide(x) * cos + torch_wide(torch.cat((-b, a), -1)) * sin).to(x.dtype)

    h = norm(x, norm_1)
    q, k, v = rotate(heads(h, w_q, HEADS)), rotate(heads(h, w_k, KEY_HEADS)), heads(h, w_v, KEY_HEADS)
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    x = x + F.linear(seen.transpose(1, 2).flatten(2), w_o)
    h = norm(x, norm_2)
    return [x + F.linear(F.silu(F.linear(h, w_gate)) * F.linear(h, w_up), w_down)]


def inputs(draw: Draw, batch: int, tokens: int, width: int, hidden: int) -> Inputs:
    size = width // HEADS
    speed = 10000.0 ** (-torch.arange(0, size, 2) / size)
    angle = torch.cat([torch.arange(tokens)[:, None] * speed] * 2, -1).to(draw.device)
    narrow = width * KEY_HEADS // HEADS
    return [
        draw(batch, tokens, width),
        angle.cos(),
        angle.sin(),
        1 + draw(width, scale=0.1),
        draw.weight(width, width),
        draw.weight(narrow, width),
        draw.weight(narrow, width),
        draw.weight(width, width),
        1 + draw(width, scale=0.1),
        draw.weight(hidden, width),
        draw.weight(hidden, width),
        draw.weight(width, hidden),
    ]


BLOCKS = (
    Block(
        "llama_block",
        define,
        inputs,
        reference,
        {
            "small": {"batch": 2, "tokens": 5, "width": 32, "hidden": 88},
            "other": {"batch": 1, "tokens": 7, "width": 64, "hidden": 40},
            "single": {"batch": 1, "tokens": 1, "width": 32, "hidden": 1},
            "empty": {"batch": 0, "tokens": 1, "width": 32, "hidden": 1},
            "large": {"batch": 4, "tokens": 2048, "width": 1024, "hidden": 2816},
        },
    ),
)

if __name__ == "__main__":
    main(*BLOCKS)
