"""Random chains of operations against torch.

Shapes meet sizes of 0, 1, odd ones and a large one; inputs are dense, permuted, gapped, expanded or offset; sizes are
known, unknown, or all unknown, those of 1 too. In double precision only a wrong program is far from torch.
"""

import math
import warnings
from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_values import LAYOUTS, TORCH, describe, lay_out

from nvfuser_go import DataType, FusionDefinition

D = DataType
SIZES = [0, 1, 2, 3, 5, 32, 33, 1000]
MOST = 40_000  # elements of a tensor
DTYPES = [D.Double, D.Int, D.Double, D.Int32]


@dataclass
class Pair:
    """A tensor of the fusion and what torch computes in its place."""

    tv: object
    value: torch.Tensor


def unknown(x: torch.Tensor, dtype: DataType) -> dict:
    """The description of x by which nothing is known of its memory, and of a size only whether it is expanded."""
    known = describe(x, dtype, True)
    order = known.get("stride_order", list(range(x.ndim))[::-1])
    memory = sorted(range(x.ndim), key=lambda d: -order[d])
    expanded = [x.shape[d] > 1 and x.stride(d) == 0 for d in memory]
    return {**known, "shape": [-1] * x.ndim, "contiguity": [None if e else False for e in expanded]}


class Chain:
    def __init__(self, data: st.DataObject):
        self.data = data
        self.mode = data.draw(st.sampled_from(["static", "dynamic", "unknown"]), label="sizes")
        self.inputs: list[torch.Tensor] = []
        self.steps: list[str] = []
        self.pairs: list[Pair] = []

    def draw(self, options: list):
        return self.data.draw(st.sampled_from(options))

    def build(self) -> None:
        with FusionDefinition() as self.fd:
            for _ in range(self.draw([1, 1, 2])):
                self.add_input()
            for _ in range(self.draw([2, 4, 6, 8])):
                self.step()
            chosen = [p for p in self.pairs if self.draw([True, False])] or self.pairs[-1:]
            self.outputs = [Pair(self.fd.ops.set(p.tv), p.value) for p in chosen]
            for p in self.outputs:
                self.fd.add_output(p.tv)

    def shape(self) -> list[int]:
        shape: list[int] = []
        for _ in range(self.draw([0, 1, 2, 2, 3, 4])):
            fitting = [s for s in SIZES if math.prod(shape) * s <= MOST]
            shape.append(self.draw(fitting))
        return shape

    def add_input(self) -> None:
        shape, dtype, layout = self.shape(), self.draw(DTYPES), self.draw(LAYOUTS)
        draw = torch.Generator().manual_seed(len(self.inputs) + sum(shape))
        x = torch.randint(-3, 4, shape, generator=draw).to(TORCH[dtype])
        if dtype is D.Double:
            x = x + torch.rand(shape, generator=draw, dtype=torch.float64)
        x = lay_out(x, layout)
        self.inputs.append(x)
        args = unknown(x, dtype) if self.mode == "unknown" else describe(x, dtype, self.mode == "dynamic")
        self.pairs.append(Pair(self.fd.define_tensor(**args), x))
        self.steps.append(f"input {shape} {dtype} {layout} {args}")

    def step(self) -> None:
        name = self.draw(
            ["unary", "binary", "number", "broadcast", "reshape", "permute", "slice", "pad", "cat", "squeeze", "fold"]
        )
        source = self.draw(self.pairs)
        made = getattr(self, name)(self.fd.ops, source.tv, source.value)
        if made is not None:
            for tv, value in made if isinstance(made, list) else [made]:
                self.pairs.append(Pair(tv, value))
            self.steps.append(f"{name} of {tuple(source.value.shape)}: {tuple(self.pairs[-1].value.shape)}")

    def size(self, tv, value: torch.Tensor, d: int):
        """A size as a number or as the fusion reads it."""
        return tv.size(d) if self.draw([True, False]) else value.shape[d]

    def unary(self, ops, tv, x):
        name = self.draw(["neg", "abs", "set", "tanh", "sin", "relu"] if x.is_floating_point() else ["neg", "abs"])
        return getattr(ops, name)(tv), x.clone() if name == "set" else getattr(torch, name)(x)

    def binary(self, ops, tv, x):
        partners = [p for p in self.pairs if p.value.shape == x.shape]
        other = self.draw(partners)
        name = self.draw(["add", "sub", "mul", "maximum"])
        # Products of products would leave every tolerance behind.
        y = getattr(torch, name)(x, other.value)
        if name == "mul" and y.is_floating_point():
            return ops.tanh(ops.mul(tv, other.tv)), y.tanh()
        return getattr(ops, name)(tv, other.tv), y

    def number(self, ops, tv, x):
        number = self.draw([2, 3, -1])
        if self.draw([True, False]):
            return ops.add(tv, number), x + number
        return ops.where(ops.gt(tv, number), tv, 1), torch.where(x > number, x, 1)

    def broadcast(self, ops, tv, x):
        if x.ndim > 4:
            return None
        at = self.draw(list(range(x.ndim + 1)))
        fitting = [s for s in SIZES if x.numel() * s <= MOST]
        new = self.draw(fitting)
        shape = [self.size(tv, x, d) for d in range(x.ndim)]
        value = x.unsqueeze(at)
        sizes = list(value.shape)
        sizes[at] = new
        shape.insert(at, new)
        for d, n in enumerate(x.shape):
            k = d + (d >= at)
            if n == 1 and math.prod(sizes) * 5 <= MOST and self.draw([False, True]):
                shape[k] = sizes[k] = 5
        dims = [d + (d >= at) for d in range(x.ndim)]
        return ops.broadcast_in_dim(tv, shape, dims), value.expand(sizes)

    def reshape(self, ops, tv, x):
        n = x.numel()
        if n == 0:
            shape = self.draw([[0], [3, 0], [0, 1, 2]])
            return ops.reshape(tv, shape), x.reshape(shape)
        shape = []
        for _ in range(self.draw([0, 1, 2, 3])):
            left = n // math.prod(shape)
            shape.append(self.draw([f for f in (1, 2, 3, 5, 11, 32, 40) if left % f == 0]))
        rest = n // math.prod(shape)
        shape.append(-1 if self.draw([True, False]) else rest)
        return ops.reshape(tv, shape), x.reshape([rest if s == -1 else s for s in shape])

    def permute(self, ops, tv, x):
        order = self.data.draw(st.permutations(range(x.ndim)))
        return ops.permute(tv, order), x.permute(order)

    def slice(self, ops, tv, x):
        start, end = [], []
        for n in x.shape:
            a = self.draw(sorted({0, min(1, n), n // 2}))
            start.append(a)
            end.append(self.draw(sorted({a, min(a + 1, n), n, n - (n > a)})))
        last = [self.size(tv, x, d) if e == x.shape[d] else e for d, e in enumerate(end)]
        return ops.slice(tv, start, last), x[tuple(slice(a, b) for a, b in zip(start, end, strict=True))]

    def pad(self, ops, tv, x):
        widths: list[int] = []
        for n in list(x.shape)[::-1][: self.draw([0, 1, 2])]:
            widths += self.draw([[0, 0], [1, 0], [2, 1], [0, 3], *([[-1, 1], [0, -1], [-1, 0]] if n else [])])
        grown = torch.nn.functional.pad(x, widths) if widths else x.clone()
        if grown.numel() > MOST:
            return None
        if widths and self.draw([True, False]):
            return ops.pad(tv, widths, 2), torch.nn.functional.pad(x, widths, value=2)
        return ops.pad(tv, widths), grown

    def cat(self, ops, tv, x):
        if x.ndim == 0:
            return None
        dim = self.draw(list(range(x.ndim)))

        def fits(p: Pair) -> bool:
            y = p.value
            if y.dtype != x.dtype or y.ndim != x.ndim:
                return False
            return all(d == dim or y.shape[d] == x.shape[d] for d in range(x.ndim))

        partners = [self.draw([p for p in self.pairs if fits(p)]) for _ in range(self.draw([1, 1, 2]))]
        value = torch.cat([x, *(p.value for p in partners)], dim)
        if value.numel() > MOST:
            return None
        return ops.cat([tv, *(p.tv for p in partners)], dim), value

    def squeeze(self, ops, tv, x):
        ones = [d for d, n in enumerate(x.shape) if n == 1]
        if not ones:
            return None
        dims = self.draw([ones, ones[:1], ones[-1:]])
        # One that a broadcast made and expand then showed as larger has no size of 1.
        return ops.squeeze(tv, dims), x.squeeze(dims)

    def fold(self, ops, tv, x):
        if x.ndim == 0:
            return None
        dims = sorted(self.data.draw(st.sets(st.sampled_from(range(x.ndim)), min_size=1)))
        keepdim = self.draw([True, False])
        count = math.prod(x.shape[d] for d in dims)
        kind = self.draw(["sum", "max", "var_mean"])
        if kind == "max" and count == 0:
            kind = "sum"
        if kind == "var_mean" and (count < 2 or not x.is_floating_point()):
            kind = "sum"
        if kind == "sum":
            if x.is_floating_point():
                return ops.tanh(ops.sum(tv, dims, keepdim)), x.sum(dims, keepdim).tanh()
            return ops.sum(tv, dims, keepdim), x.sum(dims, keepdim)
        if kind == "max":
            return ops.max(tv, dims, keepdim), x.amax(dims, keepdim)
        var, mean = ops.var_mean(tv, dims, 1, keepdim)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*degrees of freedom")  # of an empty result
            want = torch.var_mean(x, dims, correction=1, keepdim=keepdim)
        return [(var, want[0]), (mean, want[1])]


@settings(max_examples=400)
@given(st.data())
def test_chain(data: st.DataObject) -> None:
    chain = Chain(data)
    chain.build()
    for attempt in range(2):
        got = chain.fd.execute(chain.inputs)
        assert len(got) == len(chain.outputs)
        for i, (g, p) in enumerate(zip(got, chain.outputs, strict=True)):
            torch.testing.assert_close(
                g,
                p.value,
                rtol=1e-9,
                atol=1e-9,
                msg=lambda text, i=i, a=attempt: (
                    f"{text}\noutput {i}, run {a}\n" + "\n".join(chain.steps) + f"\n{chain.fd}"
                ),
            )
