"""Equal GPT-2 layers one after the other, in one fusion: few of its segments differ, so few kernels are compiled."""

import torch
from block import Block, Draw, Inputs, layer_norm, like, main, torch_layer_norm
from gpt2_attention import attention, torch_attention
from gpt2_mlp import mlp, torch_mlp

from nvfuser_go import FusionDefinition

LAYERS = 32
OF_A_LAYER = 12  # weights and biases of two norms, and of two linear layers each of attention and the rest


def define(fd: FusionDefinition, x, *weights) -> None:
    for k in range(0, len(weights), OF_A_LAYER):
        layer = weights[k : k + OF_A_LAYER]
        x = like(fd, x + attention(fd, layer_norm(fd, x, *layer[:2]), *layer[2:6]), x)
        x = like(fd, x + mlp(fd, layer_norm(fd, x, *layer[6:8]), *layer[8:]), x)
    fd.add_output(x)


def reference(x, *weights) -> list[torch.Tensor]:
    for k in range(0, len(weights), OF_A_LAYER):
        layer = weights[k : k + OF_A_LAYER]
        x = x + torch_attention(torch_layer_norm(x, *layer[:2]), *layer[2:6])
        x = x + torch_mlp(torch_layer_norm(x, *layer[6:8]), *layer[8:])
    return [x]


def inputs(draw: Draw, batch: int, tokens: int, width: int, layers: int = LAYERS) -> Inputs:
    def norm():
        return [1 + draw(width, scale=0.1), draw(width, scale=0.1)]

    def linear(outputs, inputs):
        return [draw.weight(outputs, inputs), draw(outputs, scale=0.1)]

    weights = [
        [
            *norm(),
            *linear(3 * width, width),
            *linear(width, width),
            *norm(),
            *linear(4 * width, width),
            *linear(width, 4 * width),
        ]
        for _ in range(layers)
    ]
    return [draw(batch, tokens, width), *(t for layer in weights for t in layer)]


BLOCKS = (
    Block(
        "gpt2_model",
        define,
        inputs,
        reference,
        {
            "small": {"batch": 2, "tokens": 3, "width": 24},
            "other": {"batch": 1, "tokens": 5, "width": 12},
            "single": {"batch": 1, "tokens": 1, "width": 12},
            "empty": {"batch": 0, "tokens": 1, "width": 12},
            "large": {"batch": 4, "tokens": 1024, "width": 768},
        },
    ),
)

if __name__ == "__main__":
    main(*BLOCKS)
