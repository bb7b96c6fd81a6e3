"""Layer norm, softmax and an MLP block as fusions on the CPU, compared with torch: `make demo`.

A fusion is a small program of tensor operations. It is defined once, for inputs of any size (-1), and then executed
as often as one likes. Exits with status 1 if a result is further from that of torch than it may be.
"""

import math
import sys
import time
from statistics import median

import torch
import torch.nn.functional as F

from nvfuser_go import FusionDefinition


def layer_norm() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        weight = fd.define_tensor(shape=[-1], contiguity=True)
        bias = fd.define_tensor(shape=[-1], contiguity=True)
        var, mean = fd.ops.var_mean(x, dims=[1], correction=0, keepdim=True)
        fd.add_output((x - mean) * fd.ops.rsqrt(var + 1e-5) * weight + bias)
    return fd


def softmax() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        # Without the largest element of the row, exp would overflow.
        e = fd.ops.exp(x - fd.ops.max(x, dims=[1], keepdim=True))
        fd.add_output(e / fd.ops.sum(e, dims=[1], keepdim=True))
    return fd


def mlp() -> FusionDefinition:
    """linear -> gelu -> linear, with gelu approximated by tanh."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        w1 = fd.define_tensor(shape=[-1, -1], contiguity=True)
        b1 = fd.define_tensor(shape=[-1], contiguity=True)
        w2 = fd.define_tensor(shape=[-1, -1], contiguity=True)
        b2 = fd.define_tensor(shape=[-1], contiguity=True)
        h = fd.ops.linear(x, w1, b1)
        h = 0.5 * h * (1 + fd.ops.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h * h * h)))
        fd.add_output(fd.ops.linear(h, w2, b2))
    return fd


def torch_mlp(x, w1, b1, w2, b2):
    return F.linear(F.gelu(F.linear(x, w1, b1), approximate="tanh"), w2, b2)


def milliseconds(*functions) -> list[float]:
    """The median time of a call of each function. They take turns, so that a busy moment hits all of them."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(9):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(1000 * (time.perf_counter() - start))
    return [median(taken) for taken in times]


def main() -> int:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2048, 1024), torch.randn(1024), torch.randn(1024)
    tokens = torch.randn(128, 256)
    w1, b1 = torch.randn(1024, 256) / 16, torch.randn(1024)
    w2, b2 = torch.randn(256, 1024) / 32, torch.randn(256)

    # The results are of order 10, below 1, and of order 3; what they may differ by is some roundings of float32.
    cases = [
        ("layer norm", layer_norm(), [x, weight, bias], lambda: F.layer_norm(x, [1024], weight, bias), 1e-5),
        ("softmax", softmax(), [x], lambda: F.softmax(x, dim=1), 1e-6),
        ("gelu mlp", mlp(), [tokens, w1, b1, w2, b2], lambda: torch_mlp(tokens, w1, b1, w2, b2), 2e-5),
    ]
    failed = False
    print(f"{'':12}{'max error':>10}  {'at most':>7}{'nvfuser_go':>14}{'torch eager':>14}")
    for name, fd, inputs, reference, bound in cases:
        (result,) = fd.execute(inputs)
        error = (result - reference()).abs().max().item()
        ours, eager = milliseconds(lambda fd=fd, inputs=inputs: fd.execute(inputs), reference)
        wrong = not error <= bound  # so that a NaN is wrong too
        failed |= wrong
        print(f"{name:12}{error:10.1e}  {bound:7.0e}{ours:11.2f} ms{eager:11.2f} ms{'   WRONG' if wrong else ''}")

    print("\nThe softmax, as print(fd) shows it:\n")
    print(softmax())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
