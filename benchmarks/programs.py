"""The programs that are timed against torch eager, each as a fusion and as torch calls."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from nvfuser_go import FusionDefinition


@dataclass
class Program:
    """A named program of tensors."""

    name: str
    define: Callable  # of the fusion and its input tensors; gives the output tensor
    eager: Callable  # of torch tensors
    inputs: list[torch.Tensor]

    def fusion(self) -> FusionDefinition:
        with FusionDefinition() as fd:
            fd.add_output(self.define(fd, *(fd.from_pytorch(x) for x in self.inputs)))
        return fd


def gelu_chain(fd, x, bias):
    """The tanh approximation of gelu after a bias, scaled."""
    y = x + fd.ops.broadcast_in_dim(bias, x.shape(), [1])
    inner = (y + y * y * y * 0.044715) * math.sqrt(2 / math.pi)
    return y * 0.5 * (fd.ops.tanh(inner) + 1.0) * 1.5


def softmax(fd, x):
    top = fd.ops.broadcast_in_dim(fd.ops.max(x, 1), x.shape(), [0])
    e = fd.ops.exp(x - top)
    return e / fd.ops.broadcast_in_dim(fd.ops.sum(e, 1), x.shape(), [0])


def layer_norm(fd, x, weight, bias):
    var, mean = fd.ops.var_mean(x, [1], 0, True)
    y = (x - fd.ops.expand(mean, x.shape())) * fd.ops.expand(fd.ops.rsqrt(var + 1e-5), x.shape())
    row = [fd.ops.broadcast_in_dim(v, x.shape(), [1]) for v in (weight, bias)]
    return y * row[0] + row[1]


def programs(n: int = 4096) -> list[Program]:
    """The five programs on n x n float32 tensors."""
    draw = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, n, generator=draw) for _ in range(2))
    w, b = (torch.randn(n, generator=draw) for _ in range(2))
    return [
        Program("gelu chain", gelu_chain, lambda x, b: F.gelu(x + b, approximate="tanh") * 1.5, [x, b]),
        Program("softmax", softmax, lambda x: torch.softmax(x, 1), [x]),
        Program("layer norm", layer_norm, lambda x, w, b: F.layer_norm(x, (n,), w, b), [x, w, b]),
        Program("sum", lambda fd, x: fd.ops.sum(x, 1), lambda x: x.sum(1), [x]),
        Program("transpose add", lambda fd, x, y: fd.ops.permute(x, [1, 0]) + y, lambda x, y: x.T + y, [x, y]),
    ]
