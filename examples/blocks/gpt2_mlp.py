"""The feed-forward part of a GPT-2 layer: linear, GELU (tanh), linear, dropout; forward, and backward by formulas.

The dropout is a function of a seed and an offset, which are inputs, so the backward pass draws the mask again.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from block import (
    Block,
    Draw,
    Inputs,
    dropout,
    gradients,
    like,
    linear_gradients,
    main,
    torch_dropout,
    torch_wide,
    wide,
)

from nvfuser_go import FusionDefinition

SLOPE, CUBIC = math.sqrt(2 / math.pi), 0.044715


def gelu(fd: FusionDefinition, x: Any) -> Any:
    """x * (1 + tanh(u)) / 2, where u = SLOPE * (x + CUBIC * x^3)."""
    return 0.5 * x * (1.0 + fd.ops.tanh(SLOPE * (x + CUBIC * x * x * x)))


def gelu_slope(fd: FusionDefinition, x: Any) -> Any:
    """The derivative of gelu."""
    t = fd.ops.tanh(SLOPE * (x + CUBIC * x * x * x))
    inner = SLOPE * (1.0 + 3 * CUBIC * x * x)
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner


def mlp(fd: FusionDefinition, x: Any, w_in: Any, b_in: Any, w_out: Any, b_out: Any) -> Any:
    """[batch, tokens, width] to the same, before dropout."""
    hidden = fd.ops.linear(x, w_in, b_in)
    return fd.ops.linear(like(fd, gelu(fd, wide(fd, hidden)), hidden), w_out, b_out)


def torch_mlp(x, w_in, b_in, w_out, b_out) -> torch.Tensor:
    hidden = F.linear(x, w_in, b_in)
    return F.linear(F.gelu(torch_wide(hidden), approximate="tanh").to(x.dtype), w_out, b_out)


def define_forward(fd: FusionDefinition, x, w_in, b_in, w_out, b_out, p, seed, offset) -> None:
    y = mlp(fd, x, w_in, b_in, w_out, b_out)
    fd.add_output(like(fd, dropout(fd, wide(fd, y), p, seed, offset), x))


def forward_reference(x, w_in, b_in, w_out, b_out, p, seed, offset) -> list[torch.Tensor]:
    y = torch_mlp(x, w_in, b_in, w_out, b_out)
    return [torch_dropout(torch_wide(y), p, seed, offset).to(x.dtype)]


def define_backward(fd: FusionDefinition, grad, x, hidden, w_in, w_out, p, seed, offset) -> None:
    """hidden is what the first linear layer gave. The gradients of x, the weights and the biases are the outputs."""
    grad = like(fd, dropout(fd, wide(fd, grad), p, seed, offset), x)
    h = wide(fd, hidden)
    activated = like(fd, gelu(fd, h), hidden)
    grad_activated, grad_w_out, grad_b_out = linear_gradients(fd, grad, activated, w_out)
    grad_hidden = like(fd, wide(fd, grad_activated) * gelu_slope(fd, h), hidden)
    grad_x, grad_w_in, grad_b_in = linear_gradients(fd, grad_hidden, x, w_in)
    for output in (grad_x, grad_w_in, grad_b_in, grad_w_out, grad_b_out):
        fd.add_output(output)


def backward_reference(grad, x, hidden, w_in, w_out, p, seed, offset) -> list[torch.Tensor]:
    def after_first(hidden, w_out, b_out):
        y = F.linear(F.gelu(torch_wide(hidden), approximate="tanh").to(x.dtype), w_out, b_out)
        return torch_dropout(torch_wide(y), p, seed, offset).to(x.dtype)

    # The biases have no part in their gradients.
    grad_hidden, *outer = gradients(after_first, grad, hidden, w_out, w_out.new_zeros(w_out.shape[0]))
    return [*gradients(F.linear, grad_hidden, x, w_in, w_in.new_zeros(w_in.shape[0])), *outer]


def forward_inputs(draw: Draw, batch: int, tokens: int, width: int) -> Inputs:
    return [
        draw(batch, tokens, width),
        draw.weight(4 * width, width),
        draw(4 * width, scale=0.1),
        draw.weight(width, 4 * width),
        draw(width, scale=0.1),
        0.1,
        1234,
        8,
    ]


def backward_inputs(draw: Draw, batch: int, tokens: int, width: int) -> Inputs:
    x, w_in, b_in, w_out, _, *state = forward_inputs(draw, batch, tokens, width)
    return [draw(batch, tokens, width), x, F.linear(x, w_in, b_in), w_in, w_out, *state]


SIZES = {
    "small": {"batch": 2, "tokens": 5, "width": 12},
    "other": {"batch": 1, "tokens": 9, "width": 24},
    "single": {"batch": 1, "tokens": 1, "width": 12},
    "empty": {"batch": 0, "tokens": 1, "width": 12},
    "large": {"batch": 16, "tokens": 1024, "width": 768},
}
BLOCKS = (
    Block("gpt2_mlp_forward", define_forward, forward_inputs, forward_reference, SIZES),
    Block("gpt2_mlp_backward", define_backward, backward_inputs, backward_reference, SIZES),
)

if __name__ == "__main__":
    main(*BLOCKS)
