"""Random fusions, for tests of properties that all of them have."""

import functools
import json
import random
from typing import Any

from nvfuser_go import _C, DataType, FusionDefinition, FusionError

DTYPES = [t for t in DataType if t not in (DataType.Null, DataType.Float4_e2m1fn, DataType.Float4_e2m1fn_x2)]
SCALAR_DTYPES = [DataType.Int, DataType.Double, DataType.Bool, DataType.Int32, DataType.Index, DataType.Float]
NUMBERS = [0, 1, 2, 3, -1, 7, 2**40, 0.5, -2.0, 1e-3, 0.1, True, False, 1 + 2j, float("inf")]


@functools.cache
def elementwise() -> list[tuple[str, int]]:
    """The names of the elementwise operations, with their numbers of operands."""
    rows = json.loads(_C.op_table())
    params = {row["name"]: row["overloads"][-1] for row in rows if row["class"] == "elementwise"}
    return [(name, len(ps)) for name, ps in params.items() if all(p["kind"] == "operand" for p in ps)]


class _Builder:
    """A fusion in the making: draws operations and adds those that the fusion accepts."""

    def __init__(self, rng: random.Random, fd: FusionDefinition) -> None:
        self.rng, self.fd, self.ops = rng, fd, fd.ops
        self.tensors: list[Any] = []
        self.scalars: list[Any] = []

    def pick(self, options: list[Any]) -> Any:
        return self.rng.choice(options)

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def inputs(self) -> None:
        for _ in range(self.integer(1, 3)):
            shape = [self.pick([-1, -1, 1, 2, 4, 0]) for _ in range(self.integer(0, 3))]
            contiguity = [None if n == 1 else self.pick([True, True, False, None]) for n in shape]
            self.tensors.append(self.fd.define_tensor(shape, contiguity, self.pick([DataType.Float, *DTYPES])))
        self.scalars += [self.fd.define_scalar(dtype=self.pick(SCALAR_DTYPES)) for _ in range(self.integer(0, 3))]
        for tensor in self.tensors:
            self.scalars += [self.ops.size(tensor, i) for i in range(tensor.ndim)]

    def shuffled(self, options: list[Any]) -> list[Any]:
        return self.rng.sample(options, len(options))

    def number(self) -> Any:
        if self.scalars and self.pick([True, False]):
            return self.pick(self.scalars)
        return self.pick(NUMBERS)

    def extent(self) -> Any:
        whole = [s for s in self.scalars if s.dtype() in (DataType.Int, DataType.Index, DataType.Int32)]
        return self.pick(whole) if whole and self.pick([True, False]) else self.integer(0, 4)

    def step(self) -> None:
        kind = self.pick([self.pointwise, self.pointwise, self.scalar, self.cast, self.view, self.fold, self.make])
        try:
            result = kind()
        except FusionError:
            return  # the draw makes no sense, as of wrong dtypes
        for value in result if isinstance(result, tuple | list) else [result]:
            (self.tensors if isinstance(value, _C.TensorView) else self.scalars).append(value)

    def pointwise(self) -> Any:
        name, arity = self.pick(elementwise())
        others = [self.pick(self.tensors) if self.pick([True, False]) else self.number() for _ in range(arity - 1)]
        return getattr(self.ops, name)(*self.shuffled([self.pick(self.tensors), *others]))

    def scalar(self) -> Any:
        name, arity = self.pick(elementwise())
        return getattr(self.ops, name)(*(self.number() for _ in range(arity)))

    def cast(self) -> Any:
        value = self.pick([*self.tensors, *self.scalars])
        return self.ops.cast(value, dtype=self.pick(DTYPES))

    def dims(self, tensor: Any) -> list[int]:
        return self.rng.sample(range(tensor.ndim), self.integer(0, tensor.ndim))

    def view(self) -> Any:
        t = self.pick(self.tensors)
        n = t.ndim
        d = self.integer(-n, max(0, n - 1))
        return self.pick(
            [
                lambda: self.ops.broadcast(t, self.shuffled([False] * n + [True] * self.integer(0, 2))),
                lambda: self.ops.permute(t, self.shuffled(list(range(n)))),
                lambda: self.ops.stride_order(t, self.shuffled(list(range(n)))),
                lambda: self.ops.expand(t, [self.extent() for _ in range(n)]),
                lambda: self.ops.squeeze(t, self.dims(t), self.pick([True, False])),
                lambda: self.ops.reshape(t, [self.pick([-1, self.extent(), 1]) for _ in range(self.integer(0, 3))]),
                lambda: self.ops.slice(t, [self.extent() for _ in range(n)], [self.extent() for _ in range(n)]),
                lambda: self.ops.pad(t, [self.extent() for _ in range(2 * self.integer(0, n))], self.number()),
                lambda: self.ops.cat([t, self.pick(self.tensors)], d),
                lambda: self.ops.shape(t),
            ]
        )()

    def fold(self) -> Any:
        t = self.pick(self.tensors)
        d = self.integer(-t.ndim, max(0, t.ndim - 1))
        name = self.pick(["sum", "prod", "max", "min"])
        return self.pick(
            [
                lambda: getattr(self.ops, name)(t),
                lambda: getattr(self.ops, name)(t, d, self.pick([True, False])),
                lambda: getattr(self.ops, name)(t, self.dims(t), self.pick([True, False])),
                lambda: self.ops.sum(t, self.dims(t), dtype=self.pick(DTYPES)),
                lambda: self.ops.var_mean(t, self.dims(t), self.pick([0, 1]), self.pick([True, False])),
                lambda: self.ops.welford(t, self.dims(t)),
                lambda: getattr(self.ops, self.pick(["cumsum", "cumprod", "cummax", "cummin"]))(t, d),
                lambda: self.ops.topk(t, self.extent(), d, self.pick([True, False]), self.pick([True, False])),
                lambda: self.ops.argsort(t, d, self.pick([True, False])),
                lambda: self.ops.matmul(t, self.pick(self.tensors)),
                lambda: self.ops.linear(t, self.pick(self.tensors), self.pick([None, *self.tensors])),
                lambda: self.ops.index_select(t, self.pick(self.tensors), d),
                lambda: self.ops.gather(t, self.pick(self.tensors), d),
                lambda: self.ops.take_along_axis(t, self.pick(self.tensors), d),
                lambda: self.ops.scatter(t, self.pick(self.tensors), self.pick([*self.tensors, self.number()]), d),
                lambda: self.ops.select(t, self.extent(), d),
                lambda: self.ops.triu(t, self.extent()),
            ]
        )()

    def make(self) -> Any:
        shape = [self.extent() for _ in range(self.integer(0, 3))]
        dtype = self.pick(DTYPES)
        return self.pick(
            [
                lambda: self.ops.full(shape, self.number(), dtype),
                lambda: self.ops.iota(self.extent(), self.number(), self.number(), dtype),
                lambda: self.ops.uniform(self.number(), self.number(), shape, dtype=dtype),
                lambda: self.ops.normal(self.number(), self.number(), shape, rng_seed=self.extent(), rng_offset=0),
                lambda: self.ops.rand_like(self.pick(self.tensors)),
            ]
        )()

    def outputs(self) -> None:
        for tensor in [*self.tensors[-2:], *self.rng.choices(self.tensors, k=2)]:
            self.fd.add_output(tensor)


def random_fusion(seed: int, steps: int = 30) -> FusionDefinition:
    """A fusion from at most so many calls. Equal seeds give equal fusions."""
    with FusionDefinition() as fd:
        builder = _Builder(random.Random(seed), fd)
        builder.inputs()
        for _ in range(builder.integer(1, steps)):
            builder.step()
        builder.outputs()
    return fd
