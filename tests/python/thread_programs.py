"""Fusions of several kernels and calls of torch, and what they compute by torch alone: for tests of threads.

Sizes are tiny, as kernels are simulated. A constant of its own makes each fusion a program of its own.
"""

from collections.abc import Callable

import torch

from nvfuser_go import DataType, FusionDefinition, torch_direct, torch_rows

Inputs = list[torch.Tensor | float]
Reference = Callable[..., list[torch.Tensor]]


def in_products(monkeypatch, directly: bool, then: Callable[[], None]) -> None:
    """Has each product of matrices of plans that are made from now on call `then`: where C calls torch, or a callable.

    Plans that C calls torch for go on to do so when the patch is undone.
    """

    def product(*arguments: torch.Tensor) -> torch.Tensor:
        then()
        return torch.matmul(*arguments)

    def form(arg1: torch_direct.Operand, arg2: torch_direct.Operand, wanted: tuple) -> torch_direct.Direct | None:
        return torch_direct.Direct(product, [arg1, arg2]) if directly else None

    monkeypatch.setitem(torch_direct.FORMS, "rows.matmul(arg1, arg2)", form)
    monkeypatch.setattr(torch_rows, "matmul", unreachable if directly else product)


def unreachable(*_: torch.Tensor) -> torch.Tensor:
    raise AssertionError("a product was computed by a callable")


class Program:
    """A fusion, inputs for it, and what it gives for them."""

    def __init__(self, fd: FusionDefinition, inputs: Callable[[], Inputs], reference: Reference, written: bool = False):
        self.fd, self.inputs, self.reference, self.written = fd, inputs, reference, written

    def check(self, simulate: bool) -> None:
        """Executes the fusion on new inputs. Raises AssertionError if a result is wrong."""
        inputs = self.inputs()
        want = self.reference(*(x.clone() if isinstance(x, torch.Tensor) else x for x in inputs))
        got = self.fd.execute(inputs, _enable_options=["simulate"] if simulate else [])
        if self.written:
            got = [*got, inputs[0]]
        for x, y in zip(got, want, strict=True):
            if not torch.allclose(x, y, rtol=1e-4, atol=1e-4):
                raise AssertionError(f"got {x}, want {y}, of\n{self.fd}")


def _matrices(*shapes: tuple[int, int]) -> Callable[[], Inputs]:
    return lambda: [torch.randn(shape) for shape in shapes]


def _define(fd: FusionDefinition, count: int) -> list:
    return [fd.define_tensor([-1, -1], [True, True]) for _ in range(count)]


def products(k: float) -> Program:
    """Kernels between products of matrices: four phases."""
    with FusionDefinition() as fd:
        x, w = _define(fd, 2)
        t = fd.ops.mul(x, k)
        for _ in range(3):
            t = fd.ops.sin(fd.ops.matmul(t, w))
        fd.add_output(t)

    def reference(x, w):
        t = x * k
        for _ in range(3):
            t = torch.sin(t @ w)
        return [t]

    return Program(fd, _matrices((4, 5), (5, 5)), reference)


def attention(k: float) -> Program:
    """A softmax between two products, and a sum of it."""
    with FusionDefinition() as fd:
        q, v = _define(fd, 2)
        s = fd.ops.mul(fd.ops.matmul(q, fd.ops.permute(v, [1, 0])), k)
        e = fd.ops.exp(fd.ops.sub(s, fd.ops.max(s, [1], keepdim=True)))
        p = fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True))
        fd.add_output(fd.ops.matmul(p, v))
        fd.add_output(fd.ops.sum(p, [0]))

    def reference(q, v):
        p = torch.softmax(q @ v.T * k, 1)
        return [p @ v, p.sum(0)]

    return Program(fd, _matrices((3, 4), (6, 4)), reference)


def normalised(k: float) -> Program:
    """A layer norm whose result goes through a product."""
    with FusionDefinition() as fd:
        x, w = _define(fd, 2)
        var, mean = fd.ops.var_mean(x, [1], correction=0, keepdim=True)
        y = fd.ops.mul(fd.ops.sub(x, mean), fd.ops.rsqrt(fd.ops.add(var, k)))
        fd.add_output(fd.ops.relu(fd.ops.linear(y, w)))
        fd.add_output(y)

    def reference(x, w):
        y = (x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, correction=0, keepdim=True) + k)
        return [torch.relu(y @ w.T), y]

    return Program(fd, _matrices((4, 7), (3, 7)), reference)


def written(k: float) -> Program:
    """An input that is read by a call of torch and receives an output."""
    with FusionDefinition() as fd:
        x, w = _define(fd, 2)
        fd.add_output(fd.ops.add(x, k), x)
        fd.add_output(fd.ops.matmul(x, w))

    return Program(fd, _matrices((3, 3), (3, 3)), lambda x, w: [x @ w, x + k], written=True)


def ordered(k: float) -> Program:
    """Sorting, gathering, and a scan that begins with a number of the call."""
    with FusionDefinition() as fd:
        (x,) = _define(fd, 1)
        s = fd.define_scalar(dtype=DataType.Double)
        order = fd.ops.argsort(x, 1)
        t = fd.ops.mul(fd.ops.take_along_axis(x, order, 1), k)
        fd.add_output(fd.ops.cumsum(t, 1, init=s))
        fd.add_output(fd.ops.add(fd.ops.sum(t, [1]), s))

    def reference(x, s):
        t = torch.sort(x, 1).values * k
        return [torch.cumsum(t, 1) + s, t.sum(1) + s]

    return Program(fd, lambda: [torch.randn(3, 5), float(torch.randint(9, ()))], reference)


def apart(k: float) -> Program:
    """Outputs that have nothing in common but an input."""
    with FusionDefinition() as fd:
        x, y = _define(fd, 2)
        fd.add_output(fd.ops.sum(fd.ops.mul(x, k), [0]))
        fd.add_output(fd.ops.sum(fd.ops.tanh(x), [1]))
        fd.add_output(fd.ops.reshape(fd.ops.add(y, k), [-1]))

    def reference(x, y):
        return [(x * k).sum(0), torch.tanh(x).sum(1), (y + k).reshape(-1)]

    return Program(fd, _matrices((5, 6), (3, 2)), reference)


PROGRAMS = [products, attention, normalised, written, ordered, apart]


def program(number: int) -> Program:
    """The program of a number: equal numbers give equal fusions, others another constant, which is not near."""
    return PROGRAMS[number % len(PROGRAMS)](1 + number * 0.6180339887 % 1)
