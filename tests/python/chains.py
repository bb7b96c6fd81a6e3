"""Random chains of operations against torch.

A program is made of a number, its seed, alone. It is text: each step is a statement of the fusion and one of torch, and
what fails is printed as a script that runs by itself (with tests/python and the package on the path). Sizes meet 0, 1,
odd ones and a large one; inputs are dense, permuted, gapped, expanded or offset, with numbers that are not finite among
some; sizes are known, unknown, or all unknown, those of 1 too. Each is executed twice. run_chains.py runs many.

Floating-point results are held against torch in double precision: the error may be twice that of torch in the same
dtypes, or one unit in the last place. Where terms cancel, the unit is that of the terms: each step carries a bound of
the error that its roundings make (`Value.error`).
"""

from __future__ import annotations

import math
import random
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from sweep_values import TORCH, describe, lay_out

from nvfuser_go import DataType, FusionDefinition

D = DataType
SIZES = [0, 1, 2, 3, 5, 32, 33, 1000]
MOST = 40_000  # elements of a tensor
FLOATS = [D.Float, D.BFloat16, D.Half, D.Double]
DTYPES = [*FLOATS, D.Float, D.Int, D.Int32]
NARROW = (torch.bfloat16, torch.float16)
LAYOUTS = ["dense", "dense", "permuted", "expanded", "gapped", "misaligned"]
MODES = ["static", "dynamic", "unknown"]


# ---- What the statements of torch call ----


def up(x: torch.Tensor) -> torch.Tensor:
    """x as operations compute with it: in float if it is narrower."""
    return x.float() if x.dtype in NARROW else x


def to(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype)


def keep(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What `to` is in double precision."""
    return x.double() if dtype.is_floating_point else x.to(dtype)


def sum_of(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    return x.sum(dims, keepdim)


def mean_of(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    return x.mean(dims, keepdim)


def var_of(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    return torch.var(x, dims, correction=1, keepdim=keepdim)


def count_of(x: torch.Tensor, dims: list[int]) -> int:
    return math.prod(x.shape[d] for d in dims)


def near_sum(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    """The sum as torch adds dense rows, in parts; of other tensors it adds one after the other."""
    kept = [d for d in range(x.ndim) if d not in dims]
    rows = x.permute(*kept, *dims).reshape([*(x.shape[d] for d in kept), count_of(x, dims)])
    return rows.contiguous().sum(-1).reshape(x.sum(dims, keepdim).shape)


def near_mean(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    return near_sum(x, dims, keepdim) / count_of(x, dims)


def near_var(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    return near_sum((x - near_mean(x, dims, True)) ** 2, dims, keepdim) / (count_of(x, dims) - 1)


def make(shape: list[int], dtype: torch.dtype, layout: str, seed: int, low: int, high: int, special: bool = False):
    """An input: integers from low up to, not including, high, and fractions added to them if dtype has any."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(low, high, shape, generator=draw)
    if dtype.is_floating_point:
        x = x + torch.rand(shape, generator=draw, dtype=torch.float64)
        if special and x.numel():
            where = torch.randint(0, x.numel(), (2,), generator=draw)
            x.view(-1)[where] = torch.tensor([math.nan, math.inf, -math.inf, -0.0], dtype=x.dtype)[seed % 3 :][:2]
    return lay_out(x.to(dtype), layout)


def take(x: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    """torch.take_along_dim, but that what is no position reads 0."""
    n = x.shape[dim]
    other = [
        1 if d == dim else max(a, b) if a and b else 0
        for d, (a, b) in enumerate(zip(x.shape, index.shape, strict=True))
    ]
    index = index.long().expand([i if d == dim else n for d, (i, n) in enumerate(zip(index.shape, other, strict=True))])
    if n == 0 or index.numel() == 0:
        return x.new_zeros(index.shape)
    x = x.expand([n if d == dim else o for d, o in enumerate(other)])
    there = (index >= 0) & (index < n)
    return torch.where(there, x.gather(dim, index.clamp(0, n - 1)), 0)


OWN = {"torch": torch, "take": take, "up": up, "to": to, "sum_of": sum_of, "mean_of": mean_of, "var_of": var_of}
WIDE = OWN | {"up": lambda x: x, "to": keep, "sum_of": near_sum, "mean_of": near_mean, "var_of": near_var}


# ---- Programs ----


@dataclass
class Value:
    """A tensor of the program: t<number> of the fusion, x<number> of torch."""

    number: int
    own: torch.Tensor  # by torch in the dtypes of the fusion
    wide: torch.Tensor  # by torch in double precision, if it is floating-point
    error: torch.Tensor  # how far from `wide` the roundings so far may lead, about
    needs: tuple[int, ...] = ()
    fused: str = ""
    plain: str = ""

    @property
    def t(self) -> str:
        return f"t{self.number}"

    @property
    def x(self) -> str:
        return f"x{self.number}"

    @property
    def up(self) -> str:
        return f"up({self.x})" if self.own.dtype in NARROW else self.x

    @property
    def real(self) -> bool:
        return self.own.dtype.is_floating_point

    @property
    def exact(self) -> bool:
        return not self.error.any()


def view(sources: list[Value], plain: Callable[[list[torch.Tensor]], torch.Tensor]) -> torch.Tensor:
    return plain([v.error for v in sources])


@dataclass
class Chain:
    """The program of a seed. most: elements of a tensor, about."""

    seed: int
    most: int = MOST
    values: list[Value] = field(default_factory=list)
    outputs: list[tuple[int, bool]] = field(default_factory=list)  # of a value; whether by a copy of it

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.mode = self.draw(MODES)
        self.special = self.draw([False] * 5 + [True])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*degrees of freedom")  # of an empty result
            with FusionDefinition() as fd:
                self.fused = {"fd": fd, "ops": fd.ops, "DataType": DataType}
                for _ in range(self.draw([1, 1, 2])):
                    self.add_input(self.shape(), self.draw(DTYPES), -3, 4)
                for _ in range(self.draw([2, 4, 6, 8])):
                    self.step()
                fd.add_output(self.fused[self.values[-1].t])
        chosen = [v.number for v in self.values if self.draw([True, False])] or [self.values[-1].number]
        self.outputs = [(n, self.draw([True, False])) for n in chosen]

    def draw(self, options):
        return self.random.choice(options)

    def some(self, options, least: int = 0) -> list:
        options = list(options)
        return sorted(self.random.sample(options, self.random.randint(min(least, len(options)), len(options))))

    # ---- Statements ----

    def add_input(self, shape: list[int], dtype: DataType, low: int, high: int) -> Value:
        layout, number = self.draw(LAYOUTS), len(self.values)
        special = ", True" if self.special and TORCH[dtype].is_floating_point else ""
        plain = f"make({shape}, {TORCH[dtype]}, {layout!r}, {self.random.randrange(1000)}, {low}, {high}{special})"
        x = eval(plain, {"torch": torch, "make": make})
        known = describe(x, dtype, self.mode != "static")
        if self.mode == "unknown":
            known = unknown(x, known)
        arguments = ", ".join(f"{name}={DTYPE[value] if name == 'dtype' else value}" for name, value in known.items())
        fused = f"fd.define_tensor({arguments})"
        wide = x.double() if x.is_floating_point() else x
        value = Value(number, x, wide, torch.zeros(shape, dtype=torch.float64), (), fused, plain)
        self.fused[value.t] = eval(fused, self.fused)
        self.values.append(value)
        return value

    def add(self, sources: list[Value], fused: str, plain: str, error: Callable, part: int | None = None) -> Value:
        """Adds a value. error gives the bound for the wide value it gets, and for the unit of the dtype."""
        number = len(self.values)
        result = eval(fused, self.fused) if part is None else self.fused[fused][part]
        self.fused[f"t{number}"] = result
        dtype = TORCH[result.dtype()]
        narrow = dtype in NARROW and "up(" in plain
        plain = f"to({plain}, {dtype})" if narrow else plain
        own = eval(plain, {**OWN, **{v.x: v.own for v in sources}})
        assert own.dtype == dtype, f"{fused} is {dtype}, {plain} is {own.dtype}"
        if own.is_floating_point():
            wide = eval(plain, {**WIDE, **{v.x: v.wide for v in sources}})
            bound = error(wide, torch.finfo(dtype).eps)
            if narrow:
                bound = bound + torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        else:
            wide, bound = own, torch.zeros(own.shape, dtype=torch.float64)
        assert bound.shape == own.shape, f"{plain}: {bound.shape}, not {own.shape}"
        text = fused if part is None else f"{fused}[{part}]"
        value = Value(number, own, wide, bound, tuple(v.number for v in sources), text, plain)
        self.values.append(value)
        return value

    def add_view(self, sources: list[Value], fused: str, plain: str) -> Value:
        """Adds a value whose elements are those of the sources, or constants."""

        def error(_wide, _unit):  # positions are what they are
            return eval(plain, {**WIDE, **{v.x: v.error if v.real else v.own for v in sources}})

        return self.add(sources, fused, plain, error)

    def shape(self) -> list[int]:
        shape: list[int] = []
        for _ in range(self.draw([0, 1, 2, 2, 3, 4])):
            # A sum along a dimension of size 0 has elements.
            shape.append(self.draw([s for s in SIZES if math.prod(filter(None, shape)) * s <= self.most]))
        return shape

    def size(self, v: Value, d: int) -> str:
        """A size as a number or as the fusion reads it."""
        return f"{v.t}.size({d})" if self.draw([True, False]) else str(v.own.shape[d])

    # ---- Steps ----

    def step(self) -> None:
        source = self.draw([*self.values, self.values[-1], self.values[-1]])
        # Every fifth program has rows whose elements are needed again.
        self.draw([*STEPS, Chain.center] if self.seed % 5 == 4 else STEPS)(self, source)

    def unary(self, v: Value) -> None:
        name = self.draw(["neg", "abs", "set", "relu", "tanh", "sin", "sigmoid"] if v.real else ["neg", "abs", "set"])
        if name == "set":
            self.add([v], f"ops.set({v.t})", f"{v.x}.clone()", lambda y, unit: v.error)
            return
        rounds = 2 if name in ("tanh", "sin", "sigmoid") else 0
        self.add([v], f"ops.{name}({v.t})", f"torch.{name}({v.up})", lambda y, unit: v.error + rounds * unit * y.abs())

    def cast(self, v: Value) -> None:
        # What is not exact must not be made an integer, nor what may be beyond the largest number of 16 bits.
        small = not v.real or v.wide.numel() == 0 or bool(v.wide.nan_to_num(0, 0, 0).abs().max() < 1e4)
        dtype = self.draw(FLOATS if small else [D.Float, D.Double])
        fused = f"ops.cast({v.t}, dtype={DTYPE[dtype]})"

        def error(y: torch.Tensor, unit: float) -> torch.Tensor:
            return v.error + (y.abs() * unit + torch.finfo(TORCH[dtype]).smallest_normal * unit)

        self.add([v], fused, f"to({v.x}, {TORCH[dtype]})", error)

    def binary(self, v: Value) -> None:
        other = self.draw([w for w in self.values if w.own.shape == v.own.shape and w.real == v.real])
        name = self.draw(["add", "sub", "mul", "maximum"])
        fused, plain = f"ops.{name}({v.t}, {other.t})", f"torch.{name}({v.up}, {other.up})"
        if name == "mul":
            made = self.add(
                [v, other],
                fused,
                plain,
                lambda y, unit: v.error * other.wide.abs() + other.error * v.wide.abs() + unit * y.abs(),
            )
            if made.real:  # products of products would leave every bound behind
                self.add([made], f"ops.tanh({made.t})", f"torch.tanh({made.up})", lambda y, unit: made.error + unit * 2)
            return
        rounds = 0 if name == "maximum" else 1
        self.add([v, other], fused, plain, lambda y, unit: v.error + other.error + rounds * unit * y.abs())

    def number(self, v: Value) -> None:
        number = self.draw([2, 3, -1])
        if not v.exact or self.draw([True, False]):
            self.add([v], f"ops.add({v.t}, {number})", f"{v.up} + {number}", lambda y, unit: v.error + unit * y.abs())
        else:  # of what is not exact another element may be chosen
            self.add(
                [v],
                f"ops.where(ops.gt({v.t}, {number}), {v.t}, 1)",
                f"torch.where({v.x} > {number}, {v.up}, 1)",
                lambda y, unit: v.error,
            )

    def broadcast(self, v: Value) -> None:
        x = v.own
        if x.ndim > 4:
            return
        at = self.random.randint(0, x.ndim)
        shape = [self.size(v, d) for d in range(x.ndim)]
        sizes = list(x.shape)
        new = self.draw([s for s in SIZES if x.numel() * s <= self.most])
        shape.insert(at, str(new))
        sizes.insert(at, new)
        dims = [d + (d >= at) for d in range(x.ndim)]
        for k in dims:
            if sizes[k] == 1 and math.prod(sizes) * 5 <= self.most and self.draw([False, True]):
                sizes[k], shape[k] = 5, "5"
        fused = f"ops.broadcast_in_dim({v.t}, [{', '.join(shape)}], {dims})"
        self.add_view([v], fused, f"{v.x}.unsqueeze({at}).expand({sizes})")

    def expand(self, v: Value) -> None:
        sizes, shape = list(v.own.shape), [self.draw([self.size(v, d), "-1"]) for d in range(v.own.ndim)]
        ones = [d for d, n in enumerate(sizes) if n == 1]
        if not ones:
            return
        for d in self.some(ones, 1):
            sizes[d] = self.draw([s for s in SIZES if math.prod(sizes) * s <= self.most])
            shape[d] = str(sizes[d])
        self.add_view([v], f"ops.expand({v.t}, [{', '.join(shape)}])", f"{v.x}.expand({sizes})")

    def reshape(self, v: Value) -> None:
        sizes, shape = self.draw([self.factors, self.merged, self.cut])(v)
        if v.own.numel() and sizes and self.draw([True, False]):
            shape[self.random.randrange(len(shape))] = "-1"
        self.add_view([v], f"ops.reshape({v.t}, [{', '.join(shape)}])", f"{v.x}.reshape({sizes})")

    def factors(self, v: Value) -> tuple[list[int], list[str]]:
        n, sizes = v.own.numel(), []
        if n == 0:
            sizes = self.draw([[0], [3, 0], [0, 1, 2], [1000, 0, 33]])
        else:
            for _ in range(self.draw([0, 1, 2, 3])):
                left = n // math.prod(sizes)
                sizes.append(self.draw([f for f in (1, 2, 3, 5, 11, 32, 40) if left % f == 0]))
            sizes.append(n // math.prod(sizes))
        return sizes, [str(n) for n in sizes]

    def merged(self, v: Value) -> tuple[list[int], list[str]]:
        """Neighbours as one, or each on its own."""
        sizes, shape = [], []
        for d, n in enumerate(v.own.shape):
            if sizes and self.draw([True, False]):
                sizes[-1] *= n
                shape[-1] = str(sizes[-1])
            else:
                sizes.append(n)
                shape.append(self.size(v, d))
        return sizes, shape

    def cut(self, v: Value) -> tuple[list[int], list[str]]:
        """Some sizes as two."""
        sizes, shape = [], []
        for d, n in enumerate(v.own.shape):
            divisors = [f for f in (1, 2, 3, 5, 8, 11, 25, 32, n) if f and n % f == 0]
            if divisors and len(sizes) < 5 and self.draw([True, False]):
                f = self.draw(divisors)
                pair = [f, n // f] if self.draw([True, False]) else [n // f, f]
                sizes += pair
                shape += [str(s) for s in pair]
            else:
                sizes.append(n)
                shape.append(self.size(v, d))
        return sizes, shape

    def permute(self, v: Value) -> None:
        order = self.random.sample(range(v.own.ndim), v.own.ndim)
        self.add_view([v], f"ops.permute({v.t}, {order})", f"{v.x}.permute({order})")

    def slice(self, v: Value) -> None:
        start, end, parts = [], [], []
        for d, n in enumerate(v.own.shape):
            a = self.draw(sorted({0, min(1, n), n // 2}))
            b = self.draw(sorted({a, min(a + 1, n), n, n - (n > a)}))
            beyond = self.draw([0, 0, 0, 2]) if b == n else 0
            start.append(a)
            end.append(self.size(v, d) if b == n and not beyond else str(b + beyond))
            parts.append(f"{a}:{b}")
        plain = f"{v.x}[{', '.join(parts)}]" if parts else f"{v.x}[...]"
        self.add_view([v], f"ops.slice({v.t}, {start}, [{', '.join(end)}])", plain)

    def pad(self, v: Value) -> None:
        widths: list[int] = []
        for n in list(v.own.shape)[::-1][: self.draw([0, 1, 2, 3])]:
            shrink = [[-1, 1], [0, -1], [-1, 0], [-n, 0], [-n, 2], *([[-1, -1]] if n > 1 else [])] if n else []
            widths += self.draw([[0, 0], [1, 0], [2, 1], [0, 3], *shrink])
        number = self.draw([0, 2])
        grown = [n + sum(widths[2 * d : 2 * d + 2]) for d, n in enumerate(list(v.own.shape)[::-1])]
        if math.prod(grown) > self.most:
            return
        fused = f"ops.pad({v.t}, {widths}" + (", 2)" if number else ")")
        plain = f"torch.nn.functional.pad({v.x}, {widths}, value={number})" if widths else f"{v.x}.clone()"

        def error(_wide, _unit):
            return torch.nn.functional.pad(v.error, widths) if widths else v.error

        self.add([v], fused, plain, error)

    def cat(self, v: Value) -> None:
        x = v.own
        if x.ndim == 0:
            return
        dim = self.random.randrange(x.ndim)

        def fits(y: torch.Tensor) -> bool:
            same = y.dtype == x.dtype and y.ndim == x.ndim
            return same and all(d == dim or y.shape[d] == x.shape[d] for d in range(x.ndim))

        partners = [w for w in self.values if fits(w.own)]
        sources = [v, *(self.draw(partners) for _ in range(self.draw([0, 1, 1, 2])))]
        self.random.shuffle(sources)
        if sum(w.own.numel() for w in sources) > self.most:
            return
        fused = f"ops.cat([{', '.join(w.t for w in sources)}], {dim})"
        self.add_view(sources, fused, f"torch.cat([{', '.join(w.x for w in sources)}], {dim})")

    def squeeze(self, v: Value) -> None:
        ones = [d for d, n in enumerate(v.own.shape) if n == 1]
        if ones:
            dims = self.some(ones, 1)
            self.add_view([v], f"ops.squeeze({v.t}, {dims})", f"{v.x}.squeeze({dims})")

    def take(self, v: Value) -> None:
        """By an index of its own, or by a tensor of integers that there is, few of which are positions."""
        x = v.own
        if x.ndim == 0:
            return
        dim = self.random.randrange(x.ndim)
        known, static = self.mode != "unknown", self.mode == "static"  # a size that is not known is no broadcast

        def fits(y: torch.Tensor) -> bool:
            if y.is_floating_point() or y.ndim != x.ndim:
                return False
            pairs = [(a, b) for d, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if d != dim]
            return (
                all(a == b or (static and 1 in (a, b)) for a, b in pairs)
                and y.shape[dim] * math.prod(map(max, pairs)) <= self.most
            )

        there = [w for w in self.values if fits(w.own)]
        if there and self.draw([True, False]):
            index = self.draw(there)
        else:
            shape = [1 if known and self.draw([True, False, False]) else n for n in x.shape]
            shape[dim] = self.draw(
                [s for s in SIZES if math.prod([n for d, n in enumerate(x.shape) if d != dim]) * s <= self.most]
            )
            index = self.add_input(shape, self.draw([D.Int, D.Int32]), -1, x.shape[dim] + 1)
        self.add_view([v, index], f"ops.take_along_axis({v.t}, {index.t}, {dim})", f"take({v.x}, {index.x}, {dim})")

    def fold(self, v: Value) -> None:
        x = v.own
        if x.ndim == 0:
            return
        dims, keepdim = self.some(range(x.ndim), 1), self.draw([True, False])
        count = count_of(x, dims)
        kinds = ["sum", *(["max"] if count else []), *(["var_mean"] * 2 if count > 1 and v.real else [])]
        kind = self.draw(kinds)
        how = f"{dims}, {keepdim}"
        if kind == "max":
            self.add([v], f"ops.max({v.t}, {how})", f"{v.up}.amax({how})", lambda y, unit: v.error.amax(dims, keepdim))
            return
        # A sum is rounded where its terms are large.
        if kind == "sum":

            def error(y: torch.Tensor, unit: float) -> torch.Tensor:
                inside = min(unit, torch.finfo(torch.float32).eps)
                return (v.error + inside * v.wide.abs()).sum(dims, keepdim) + unit * y.abs()

            self.add([v], f"ops.sum({v.t}, {how})", f"sum_of({v.up}, {how})", error)
            return
        mean, near = v.wide.mean(dims, True), v.wide.abs().mean(dims, True)

        def variance(y: torch.Tensor, unit: float) -> torch.Tensor:
            # A mean in double precision is a few units off, as nothing is more precise.
            units = 8 * unit if v.own.dtype is torch.float64 else unit
            inside = v.error + v.error.mean(dims, True) + units * (near + v.wide.abs())
            far = (v.wide - mean).abs()
            return ((2 * far + inside) * inside).sum(dims, keepdim) / (count - 1) + unit * y.abs()

        both = f"ops.var_mean({v.t}, {dims}, 1, {keepdim})"
        self.fused[both] = eval(both, self.fused)
        self.add([v], both, f"var_of({v.up}, {how})", variance, 0)
        self.add(
            [v],
            both,
            f"mean_of({v.up}, {how})",
            lambda y, unit: (v.error + unit * v.wide.abs()).mean(dims, keepdim) + unit * y.abs(),
            1,
        )

    def center(self, v: Value) -> None:
        """What a softmax begins with: a fold of rows, whose elements are needed again."""
        x = v.own
        dims = self.some(range(x.ndim), 1)
        if x.numel() == 0 or not dims:
            return

        def error(y: torch.Tensor, unit: float) -> torch.Tensor:
            return v.error + v.error.amax(dims, True) + unit * y.abs()

        fused = f"ops.sub({v.t}, ops.max({v.t}, {dims}, True))"
        made = self.add([v], fused, f"{v.up} - {v.up}.amax({dims}, True)", error)
        if self.draw([True, False]):
            self.reshape(made)
            self.binary(self.values[-1])

    # ---- The whole ----

    def needed(self, outputs: list[tuple[int, bool]]) -> list[Value]:
        """The values that the outputs are computed from."""
        wanted = {n for n, _ in outputs}
        for v in reversed(self.values):
            if v.number in wanted:
                wanted.update(v.needs)
        return [v for v in self.values if v.number in wanted]

    def inputs(self, outputs: list[tuple[int, bool]]) -> list[torch.Tensor]:
        return [v.own for v in self.needed(outputs) if not v.needs]

    def definition(self, outputs: list[tuple[int, bool]]) -> list[str]:
        lines = [f"{v.t} = {v.fused}" for v in self.needed(outputs)]
        return lines + [f"fd.add_output(ops.set(t{n}))" if copy else f"fd.add_output(t{n})" for n, copy in outputs]

    def fusion(self, outputs: list[tuple[int, bool]] | None = None) -> FusionDefinition:
        with FusionDefinition() as fd:
            exec("\n".join(self.definition(outputs or self.outputs)), {"fd": fd, "ops": fd.ops, "DataType": DataType})
        return fd

    def script(self, outputs: list[tuple[int, bool]], options: str) -> str:
        """The program as a script."""
        needed = self.needed(outputs)
        plain = [f"{v.x} = {v.plain}" for v in needed]
        inputs = [v.x for v in needed if not v.needs]
        return "\n".join(
            [
                "import torch",
                "from chains import make, mean_of, sum_of, take, to, up, var_of",
                "from nvfuser_go import DataType, FusionDefinition",
                "",
                *plain,
                "with FusionDefinition() as fd:",
                "    ops = fd.ops",
                *(f"    {line}" for line in self.definition(outputs)),
                f"got = fd.execute([{', '.join(inputs)}]{options})",
                f"for g, x in zip(got, [{', '.join(f'x{n}' for n, _ in outputs)}]):",
                "    print(g, x, sep='\\n')",
            ]
        )


STEPS = [
    Chain.unary, Chain.unary, Chain.binary, Chain.number, Chain.cast, Chain.broadcast, Chain.expand, Chain.reshape,
    Chain.reshape, Chain.permute, Chain.slice, Chain.pad, Chain.cat, Chain.squeeze, Chain.take, Chain.fold, Chain.fold,
]  # fmt: skip
DTYPE = {d: f"DataType.{d.name}" for d in TORCH}


def unknown(x: torch.Tensor, known: dict) -> dict:
    """The description of x by which nothing is known of its memory, and of a size only whether it is expanded."""
    order = known.get("stride_order", list(range(x.ndim))[::-1])
    memory = sorted(range(x.ndim), key=lambda d: -order[d])
    expanded = [x.shape[d] > 1 and x.stride(d) == 0 for d in memory]
    return {**known, "shape": [-1] * x.ndim, "contiguity": [None if e else False for e in expanded]}


# ---- What is right ----


def problem(v: Value, got: torch.Tensor) -> str | None:
    """What is wrong with a result."""
    if got.dtype != v.own.dtype or got.shape != v.own.shape:
        return f"{got.dtype} {list(got.shape)}, and not {v.own.dtype} {list(v.own.shape)}"
    if not v.real:
        return None if torch.equal(got, v.own) else f"{int((got != v.own).sum())} elements differ"
    if got.numel() == 0:
        return None
    about = torch.finfo(got.dtype)
    usual = v.wide.isfinite()
    want = torch.where(usual & (v.wide.abs() <= about.max), v.wide, v.own.double())
    unit = want.abs().clamp(min=about.tiny) + v.error.nan_to_num(math.inf) / about.eps
    mine, theirs = (distance(x.double(), want, unit) for x in (got, v.own))
    # Of torch in double precision the error is not known.
    if mine <= max(2 * theirs, about.eps * (4 if got.dtype is torch.float64 else 1)):
        return None
    worst = int(((got.double() - want).abs() / unit).nan_to_num(math.inf).argmax())
    element = f"element {worst}: {got.flatten()[worst].item()}, and not {want.flatten()[worst].item()}"
    return f"{mine / about.eps:.3g} units in the last place, torch {theirs / about.eps:.3g}; {element}"


def distance(got: torch.Tensor, want: torch.Tensor, unit: torch.Tensor) -> float:
    same = (got == want) | (got.isnan() & want.isnan())
    return ((got - want).abs() / unit).nan_to_num(math.inf).where(~same, 0).max().item()


Run = Callable[[FusionDefinition, list[torch.Tensor]], list[torch.Tensor]]


def failure(chain: Chain, outputs: list[tuple[int, bool]], run: Run) -> str | None:
    """What is wrong with a chain of these outputs."""
    try:
        fd, inputs = chain.fusion(outputs), chain.inputs(outputs)
        for attempt in range(2):
            got = run(fd, inputs)
            if len(got) != len(outputs):
                return f"{len(got)} outputs"
            for (n, _), x in zip(outputs, got, strict=True):
                wrong = problem(chain.values[n], x)
                if wrong is not None:
                    return f"t{n}, run {attempt}: {wrong}"
    except Exception:
        return traceback.format_exc()
    return None


def check(seed: int, run: Run, most: int = MOST, options: str = "", kind: type[Chain] = Chain) -> str | None:
    """None, or what is wrong with the program of a seed, as few outputs of it as show it, and as early ones."""
    chain = kind(seed, most)
    wrong, outputs = failure(chain, chain.outputs, run), chain.outputs
    if wrong is None:
        return None
    single = [[(v.number, copy)] for v in chain.values for copy in (False, True)]
    for fewer in [*single, *([o for o in outputs if o != left] for left in outputs)]:
        if (less := failure(chain, fewer, run) if fewer else None) is not None:
            wrong, outputs = less, fewer
            break
    return f"program {seed}, {chain.mode}: {wrong}\n\n{chain.script(outputs, options)}\n"
