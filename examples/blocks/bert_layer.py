"""A BERT layer in training: attention with a mask of padding, GELU by erf, layer norms after the sums, three dropouts.

Each dropout has the seed and an offset of its own, 4 apart, as each number of the generator is 4 words.
"""

import torch
import torch.nn.functional as F
from block import (
    Block,
    Draw,
    Inputs,
    dropout,
    layer_norm,
    like,
    main,
    merge_heads,
    split_heads,
    torch_dropout,
    torch_layer_norm,
    torch_merge_heads,
    torch_split_heads,
    torch_wide,
    transposed,
    wide,
)

from nvfuser_go import DataType, FusionDefinition

HEADS = 4


def define(fd: FusionDefinition, x, attend, *weights_and_state) -> None:
    """attend: [batch, tokens], True for what is no padding; heads look at nothing else."""
    w_q, b_q, w_k, b_k, w_v, b_v, w_o, b_o, g_1, n_1, w_in, b_in, w_out, b_out, g_2, n_2, p, seed, offset = (
        weights_and_state
    )
    q, k, v = (split_heads(fd, fd.ops.linear(x, w, b), HEADS) for w, b in ((w_q, b_q), (w_k, b_k), (w_v, b_v)))
    scale = fd.ops.rsqrt(fd.ops.cast(q.size(3), DataType.Double))
    scores = wide(fd, fd.ops.matmul(q, transposed(fd, k))) * scale
    hidden = fd.ops.where(attend, 0.0, torch.finfo(torch.float32).min)
    scores = scores + fd.ops.broadcast(hidden, [False, True, True, False])
    e = fd.ops.exp(scores - fd.ops.max(scores, [-1], keepdim=True))
    probabilities = dropout(fd, e / fd.ops.sum(e, [-1], keepdim=True), p, seed, offset)
    seen = merge_heads(fd, fd.ops.matmul(like(fd, probabilities, x), v))
    y = dropout(fd, wide(fd, fd.ops.linear(seen, w_o, b_o)), p, seed, offset + 4)
    x = layer_norm(fd, like(fd, like(fd, y, x) + x, x), g_1, n_1)
    h = wide(fd, fd.ops.linear(x, w_in, b_in))
    h = like(fd, h * 0.5 * (1.0 + fd.ops.erf(h * 0.5**0.5)), x)
    y = dropout(fd, wide(fd, fd.ops.linear(h, w_out, b_out)), p, seed, offset + 8)
    fd.add_output(layer_norm(fd, like(fd, like(fd, y, x) + x, x), g_2, n_2))


def reference(x, attend, *weights_and_state) -> list[torch.Tensor]:
    w_q, b_q, w_k, b_k, w_v, b_v, w_o, b_o, g_1, n_1, w_in, b_in, w_out, b_out, g_2, n_2, p, seed, offset = (
        weights_and_state
    )

    def dropped(y, k):
        return torch_dropout(torch_wide(y), p, seed, offset + 4 * k).to(x.dtype)

    q, k, v = (torch_split_heads(F.linear(x, w, b), HEADS) for w, b in ((w_q, b_q), (w_k, b_k), (w_v, b_v)))
    scores = torch_wide(q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~attend[:, None, None, :], torch.finfo(torch.float32).min)
    seen = torch_merge_heads(dropped(scores.softmax(-1), 0) @ v)
    x = torch_layer_norm(dropped(F.linear(seen, w_o, b_o), 1) + x, g_1, n_1)
    h = F.gelu(torch_wide(F.linear(x, w_in, b_in))).to(x.dtype)
    return [torch_layer_norm(dropped(F.linear(h, w_out, b_out), 2) + x, g_2, n_2)]


def inputs(draw: Draw, batch: int, tokens: int, width: int) -> Inputs:
    lengths = 1 + draw.integers(tokens, batch, 1)
    attention = [each for _ in range(4) for each in (draw.weight(width, width), draw(width, scale=0.1))]
    return [
        draw(batch, tokens, width),
        torch.arange(tokens, device=draw.device) < lengths,
        *attention,
        1 + draw(width, scale=0.1),
        draw(width, scale=0.1),
        draw.weight(4 * width, width),
        draw(4 * width, scale=0.1),
        draw.weight(width, 4 * width),
        draw(width, scale=0.1),
        1 + draw(width, scale=0.1),
        draw(width, scale=0.1),
        0.1,
        2**40 + 17,
        8,
    ]


BLOCKS = (
    Block(
        "bert_layer",
        define,
        inputs,
        reference,
        {
            "small": {"batch": 3, "tokens": 5, "width": 16},
            "other": {"batch": 2, "tokens": 9, "width": 24},
            "single": {"batch": 1, "tokens": 1, "width": 4},
            "empty": {"batch": 0, "tokens": 1, "width": 4},
            "large": {"batch": 32, "tokens": 512, "width": 1024},
        },
    ),
)

if __name__ == "__main__":
    main(*BLOCKS)
