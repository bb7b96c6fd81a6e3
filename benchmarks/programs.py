"""The programs that are timed, each as a fusion and as torch calls: those of the CPU. Those of a GPU are in rows.py."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F

import nvfuser_go


@dataclass
class Program:
    """A named program of tensors.

    define: of the fusion, the class of data types, and the input tensors or what `arguments` has instead; gives the
    output tensor or a list of them. eager: the same of torch tensors; gives a tensor or a tuple, or writes its inputs.
    writes: which input each output is written to, where it is. arguments: what both functions take after that if not
    the inputs, for programs without any.
    """

    name: str
    define: Callable
    eager: Callable
    inputs: list[torch.Tensor]
    writes: tuple[int, ...] = ()
    arguments: tuple[Any, ...] = ()

    def fusion(self, package: ModuleType = nvfuser_go, static_sizes: bool = False) -> Any:
        """The FusionDefinition of `package`, which is nvfuser_go or another with the same interface; for the sizes of
        the inputs alone if `static_sizes`."""
        with package.FusionDefinition() as fd:
            tensors = [fd.from_pytorch(x, static_sizes) for x in self.inputs]
            outputs = self.define(fd, package.DataType, *(tensors or self.arguments))
            outputs = outputs if isinstance(outputs, list) else [outputs]
            for i, output in enumerate(outputs):
                if i < len(self.writes):
                    fd.add_output(output, tensors[self.writes[i]])
                else:
                    fd.add_output(output)
        return fd

    def torch_call(self, inputs: Sequence[torch.Tensor]) -> tuple:
        """What `eager` is called with on these inputs."""
        return tuple(inputs) or self.arguments


def gelu_chain(fd, types, x, bias):
    """The tanh approximation of gelu after a bias, scaled."""
    y = x + fd.ops.broadcast_in_dim(bias, x.shape(), [1])
    inner = (y + y * y * y * 0.044715) * math.sqrt(2 / math.pi)
    return y * 0.5 * (fd.ops.tanh(inner) + 1.0) * 1.5


def softmax(fd, types, x):
    top = fd.ops.broadcast_in_dim(fd.ops.max(x, 1), x.shape(), [0])
    e = fd.ops.exp(x - top)
    return e / fd.ops.broadcast_in_dim(fd.ops.sum(e, 1), x.shape(), [0])


def layer_norm(fd, types, x, weight, bias):
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
        Program("sum", lambda fd, types, x: fd.ops.sum(x, 1), lambda x: x.sum(1), [x]),
        Program("transpose add", lambda fd, types, x, y: fd.ops.permute(x, [1, 0]) + y, lambda x, y: x.T + y, [x, y]),
    ]
