"""Thirty layers of linear and ReLU: what is cut again and again at the same place, into two kinds of segments."""

import torch
import torch.nn.functional as F
from block import Block, Draw, Inputs, main

from nvfuser_go import FusionDefinition

LAYERS = 30


def define(fd: FusionDefinition, x, *weights) -> None:
    for k in range(0, len(weights), 2):
        x = fd.ops.relu(fd.ops.linear(x, weights[k], weights[k + 1]))
    fd.add_output(x)


def reference(x, *weights) -> list[torch.Tensor]:
    for k in range(0, len(weights), 2):
        x = F.relu(F.linear(x, weights[k], weights[k + 1]))
    return [x]


def inputs(draw: Draw, rows: int, width: int, layers: int = LAYERS) -> Inputs:
    weights = [(1.4 * draw.weight(width, width), draw(width, scale=0.1)) for _ in range(layers)]
    return [draw(rows, width), *(t for layer in weights for t in layer)]


BLOCKS = (
    Block(
        "linear_relu",
        define,
        inputs,
        reference,
        {
            "small": {"rows": 5, "width": 16},
            "other": {"rows": 8, "width": 24},
            "single": {"rows": 1, "width": 1},
            "empty": {"rows": 0, "width": 1},
            "large": {"rows": 8192, "width": 1024},
        },
    ),
)

if __name__ == "__main__":
    main(*BLOCKS)
