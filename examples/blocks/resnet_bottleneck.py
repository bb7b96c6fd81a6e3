"""What a ResNet bottleneck does between its convolutions, in training: three batch norms, ReLU, the sum with the input.

Convolutions are no operations of a fusion: their results are inputs. Running means and variances are updated in place.
"""

from typing import Any

import torch
import torch.nn.functional as F
from block import Block, Draw, Inputs, like, main, torch_wide, wide

from nvfuser_go import DataType, FusionDefinition

EPS, MOMENTUM = 1e-5, 0.1


def batch_norm(fd: FusionDefinition, x: Any, weight: Any, bias: Any, mean: Any, var: Any) -> Any:
    """x [batch, channels, height, width] normalised over all but the channels, as Float; updates mean and var."""
    n, _, height, width = x.shape()
    count = fd.ops.cast(n * height * width, DataType.Double)
    h = wide(fd, x)
    variance, mu = fd.ops.var_mean(h, [0, 2, 3], correction=0, keepdim=False)
    fd.add_output((1 - MOMENTUM) * mean + MOMENTUM * mu, alias_input=mean)
    fd.add_output((1 - MOMENTUM) * var + MOMENTUM * variance * (count / (count - 1.0)), alias_input=var)

    def channels(t):
        return fd.ops.broadcast(t, [True, False, True, True])

    return (h - channels(mu)) * channels(fd.ops.rsqrt(variance + EPS) * weight) + channels(bias)


def define(fd: FusionDefinition, x, first, second, third, *norms) -> None:
    """norms: weight, bias, running mean and running variance of the three."""
    for k, c in enumerate((first, second)):
        fd.add_output(like(fd, fd.ops.relu(batch_norm(fd, c, *norms[4 * k : 4 * k + 4])), c))
    last = like(fd, batch_norm(fd, third, *norms[8:]), third)
    fd.add_output(fd.ops.relu(like(fd, last + x, x)))


def reference(x, first, second, third, *norms) -> list[torch.Tensor]:
    def norm(c, weight, bias, mean, var):
        return F.batch_norm(torch_wide(c), mean, var, weight, bias, True, MOMENTUM, EPS).to(c.dtype)

    inner = [F.relu(norm(c, *norms[4 * k : 4 * k + 4])) for k, c in enumerate((first, second))]
    return [*inner, F.relu(norm(third, *norms[8:]) + x)]


def inputs(draw: Draw, batch: int, channels: int, size: int) -> Inputs:
    def image(c):
        return draw(batch, c, size, size)

    def norm(c):
        wide = {"dtype": torch.float32}
        weight, bias, mean = 1 + draw(c, scale=0.1, **wide), draw(c, scale=0.1, **wide), draw(c, scale=0.1, **wide)
        return [weight, bias, mean, draw(c, scale=0.1, **wide).abs() + 1]

    return [
        image(4 * channels),
        image(channels),
        image(channels),
        image(4 * channels),
        *norm(channels),
        *norm(channels),
        *norm(4 * channels),
    ]


BLOCKS = (
    Block(
        "resnet_bottleneck",
        define,
        inputs,
        reference,
        {
            "small": {"batch": 2, "channels": 3, "size": 5},
            "other": {"batch": 3, "channels": 2, "size": 7},
            "single": {"batch": 2, "channels": 1, "size": 1},
            "large": {"batch": 64, "channels": 64, "size": 56},
        },
        ulps=2,  # of a few channels: torch may have rounded each of them well
    ),
)

if __name__ == "__main__":
    main(*BLOCKS)
