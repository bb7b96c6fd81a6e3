"""Random chains with lookups, scatters, scans and sorts among the operations of chains.py.

What an order decides (positions of a sort, the largest elements) is asked of exact values alone: of others a rounding
may make another one right. run_chains.py --indexed runs many.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from chains import OWN, SIZES, STEPS, WIDE, Chain, Value
from sweep_values import TORCH

from nvfuser_go import DataType

# ---- What the statements of torch call ----


def looked_up(x: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    """torch.gather, but that what is no position reads 0."""
    n = x.shape[dim]
    if n == 0 or index.numel() == 0:
        return x.new_zeros(index.shape)
    index = index.long()
    return torch.where((index >= 0) & (index < n), x.gather(dim, index.clamp(0, n - 1)), 0)


def selected(x: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    """torch.index_select, but that what is no position reads 0."""
    shape = [index.numel() if d == dim else n for d, n in enumerate(x.shape)]
    return looked_up(x, index.reshape([-1 if d == dim else 1 for d in range(x.ndim)]).expand(shape), dim)


def embedded(index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return selected(table, index.reshape(-1), 0).reshape([*index.shape, table.shape[1]])


def scattered(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor | float, dim: int) -> torch.Tensor:
    """torch.scatter, but that of several writes the last holds, and what is no position writes nothing."""
    out = x.clone(memory_format=torch.contiguous_format)
    strides = out.stride()
    place = torch.zeros(index.shape, dtype=torch.int64)
    for d, n in enumerate(index.shape):
        along = torch.arange(n).reshape([-1 if e == d else 1 for e in range(index.ndim)])
        place += (index.long() if d == dim else along) * strides[d]
    writes = ((index >= 0) & (index < x.shape[dim])).reshape(-1)
    place = place.reshape(-1)[writes]
    if isinstance(source, torch.Tensor):
        values = source[tuple(slice(n) for n in index.shape)].reshape(-1)[writes]
    else:
        values = torch.full_like(place, source, dtype=x.dtype)
    last = torch.full([out.numel()], -1).scatter_reduce(0, place, torch.arange(len(place)), "amax")
    flat = out.view(-1)
    flat[last >= 0] = values[last[last >= 0]]
    return out


def accumulated(x: torch.Tensor, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    there = (index >= 0) & (index < x.shape[0])
    return x.index_add(0, index[there].long(), value[there])


def sorted_positions(x: torch.Tensor, dim: int, descending: bool) -> torch.Tensor:
    return torch.argsort(x, dim=dim, descending=descending, stable=True)


def first_of_sorted(x: torch.Tensor, k: int, dim: int, largest: bool) -> torch.Tensor:
    return torch.sort(x, stable=True, dim=dim, descending=largest)[0].narrow(dim, 0, k)


def first_positions(x: torch.Tensor, k: int, dim: int, largest: bool) -> torch.Tensor:
    return sorted_positions(x, dim, largest).narrow(dim, 0, k)


FUNCTIONS = (
    looked_up, selected, embedded, scattered, accumulated, sorted_positions, first_of_sorted, first_positions,
)  # fmt: skip
CALLED = {f.__name__: f for f in FUNCTIONS}
OWN.update(CALLED)
WIDE.update(CALLED)


# ---- Programs ----


def within(sizes: torch.Size, limits: torch.Size, dim: int | None = None) -> bool:
    """Whether no size is beyond its limit, but for that of dim."""
    pairs = enumerate(zip(sizes, limits, strict=False))
    return len(sizes) == len(limits) and all(d == dim or n <= most for d, (n, most) in pairs)


class Indexed(Chain):
    """The program of a seed, of which every other step is one of INDEXED."""

    def step(self) -> None:
        source = self.draw([*self.values, self.values[-1], self.values[-1]])
        self.draw(self.draw([STEPS, INDEXED]))(self, source)

    def dim_of(self, v: Value) -> int | None:
        return self.random.randrange(v.own.ndim) if v.own.ndim else None

    def positions(self, shape: list[int], n: int, fits: Callable[[torch.Tensor], bool]) -> Value:
        """A tensor of integers that there is and fits, few of which are positions, or an input of a shape."""
        there = [w for w in self.values if not w.real and fits(w.own)]
        if there and self.draw([True, False]):
            return self.draw(there)
        return self.add_input(shape, self.draw([DataType.Int, DataType.Int32]), -1, n + 1)

    def along(self, v: Value, dim: int) -> list[int]:
        """Sizes for dim that keep the result small."""
        rest = math.prod(n for d, n in enumerate(v.own.shape) if d != dim)
        return [s for s in SIZES if rest * s <= self.most]

    def positions_in(self, v: Value, dim: int) -> Value:
        """Positions along dim of v, with sizes of at most its own along others."""
        x = v.own
        shape = [self.draw(sorted({n, n - (n > 1), min(n, 1)})) for n in x.shape]
        shape[dim] = self.draw(self.along(v, dim))
        return self.positions(shape, x.shape[dim], lambda i: within(i.shape, x.shape, dim))

    def gather(self, v: Value) -> None:
        dim = self.dim_of(v)
        if dim is None:
            return
        index = self.positions_in(v, dim)
        self.add_view([v, index], f"ops.gather({v.t}, {index.t}, {dim})", f"looked_up({v.x}, {index.x}, {dim})")

    def scatter(self, v: Value) -> None:
        x, dim = v.own, self.dim_of(v)
        if dim is None:
            return
        index = self.positions_in(v, dim)

        there = [w for w in self.values if w.own.dtype == x.dtype and within(index.own.shape, w.own.shape)]
        if there and self.draw([True, True, False]):
            source = self.draw(there)
            self.add_view(
                [v, index, source],
                f"ops.scatter({v.t}, {index.t}, {source.t}, {dim})",
                f"scattered({v.x}, {index.x}, {source.x}, {dim})",
            )
            return
        self.add(
            [v, index],
            f"ops.scatter({v.t}, {index.t}, 3, {dim})",
            f"scattered({v.x}, {index.x}, 3, {dim})",
            lambda y, unit: scattered(v.error, index.own, 0, dim),
        )

    def index_select(self, v: Value) -> None:
        dim = self.dim_of(v)
        if dim is None:
            return
        most = max(self.along(v, dim))
        index = self.positions(
            [self.draw(self.along(v, dim))], v.own.shape[dim], lambda i: i.ndim == 1 and len(i) <= most
        )
        self.add_view([v, index], f"ops.index_select({v.t}, {index.t}, {dim})", f"selected({v.x}, {index.x}, {dim})")

    def embedding(self, v: Value) -> None:
        if v.own.ndim != 2 or not v.real:
            return
        most = self.most // max(v.own.shape[1], 1)
        shape = [self.draw([s for s in SIZES if s <= most])]
        index = self.positions(shape, v.own.shape[0], lambda i: i.ndim <= 3 and i.numel() <= most)
        self.add_view([v, index], f"ops.embedding_fwd({index.t}, {v.t})", f"embedded({index.x}, {v.x})")

    def select(self, v: Value) -> None:
        dim = self.dim_of(v)
        if dim is None or v.own.shape[dim] == 0:
            return
        at = self.draw([0, -1, v.own.shape[dim] // 2])
        self.add_view([v], f"ops.select({v.t}, {at}, {dim})", f"{v.x}.select({dim}, {at})")

    def triu(self, v: Value) -> None:
        if v.own.ndim < 2:
            return
        diagonal = self.draw([0, 0, 1, -1, 40, -40])
        self.add_view([v], f"ops.triu({v.t}, {diagonal})", f"torch.triu({v.x}, {diagonal})")

    def accumulate(self, v: Value) -> None:
        x = v.own
        if x.ndim == 0:
            return
        count = self.draw(self.along(v, 0))
        values = [w for w in self.values if w.own.dtype == x.dtype and w.own.ndim and w.own.shape[1:] == x.shape[1:]]
        dtype = next(d for d in TORCH if TORCH[d] == x.dtype)
        value = self.draw(values) if self.draw([True, False]) else self.add_input([count, *x.shape[1:]], dtype, -3, 4)
        count = value.own.shape[0]
        index = self.positions([count], x.shape[0], lambda i: i.shape == (count,))

        def error(y: torch.Tensor, unit: float) -> torch.Tensor:
            inside = min(unit, torch.finfo(torch.float32).eps)
            terms = accumulated(v.error, index.own, value.error + 2 * inside * value.wide.abs())
            return terms + inside * v.wide.abs() + unit * y.abs()

        self.add(
            [v, index, value],
            f"ops.index_put_accumulate({v.t}, {index.t}, {value.t})",
            f"accumulated({v.up}, {index.x}, {value.up})",
            error,
        )

    def scan(self, v: Value) -> None:
        dim = self.dim_of(v)
        if dim is None:
            return
        name = self.draw(["cumsum", "cumsum", "cummax", "cummin", *([] if v.real else ["cumprod"])])
        part = "[0]" if name in ("cummax", "cummin") else ""

        def error(y: torch.Tensor, unit: float) -> torch.Tensor:
            if part:
                return v.error.cummax(dim)[0]
            inside = min(unit, torch.finfo(torch.float32).eps)
            return (v.error + 4 * inside * v.wide.abs()).cumsum(dim) + unit * y.abs()

        self.add([v], f"ops.{name}({v.t}, {dim})", f"torch.{name}({v.up}, {dim}){part}", error)

    def argsort(self, v: Value) -> None:
        dim = self.dim_of(v)
        if dim is None or not v.exact:
            return
        descending, stable = self.draw([True, False]), self.draw([True, False])
        fused = f"ops.argsort({v.t}, {dim}, {descending}, {stable})"
        self.add([v], fused, f"sorted_positions({v.x}, {dim}, {descending})", lambda y, unit: v.error)

    def topk(self, v: Value) -> None:
        dim = self.dim_of(v)
        if dim is None or not v.exact:
            return
        n = v.own.shape[dim]
        k, largest = self.draw(sorted({0, min(1, n), n // 2, n})), self.draw([True, False])
        both = f"ops.topk({v.t}, {k}, {dim}, {largest}, {self.draw([True, False])})"
        self.fused[both] = eval(both, self.fused)
        how = f"{k}, {dim}, {largest}"

        def error(y: torch.Tensor, unit: float) -> torch.Tensor:
            return torch.zeros(y.shape, dtype=torch.float64)

        for part, call in enumerate(self.draw([["first_of_sorted", "first_positions"], ["first_of_sorted"]])):
            self.add([v], both, f"{call}({v.x}, {how})", error, part)

    def minimum(self, v: Value) -> None:
        x = v.own
        dims, keepdim = self.some(range(x.ndim), 1), self.draw([True, False])
        if not dims or math.prod(x.shape[d] for d in dims) == 0:
            return
        how = f"{dims}, {keepdim}"
        self.add([v], f"ops.min({v.t}, {how})", f"{v.up}.amin({how})", lambda y, unit: v.error.amax(dims, keepdim))

    def product(self, v: Value) -> None:
        dim = self.dim_of(v)
        if dim is None or v.real:
            return
        self.add([v], f"ops.prod({v.t}, {dim})", f"{v.x}.prod({dim})", lambda y, unit: v.error)

    def script(self, outputs: list[tuple[int, bool]], options: str) -> str:
        names = ", ".join(sorted(CALLED))
        return (
            super()
            .script(outputs, options)
            .replace("from nvfuser_go", f"from chains_indexed import {names}\nfrom nvfuser_go", 1)
        )


INDEXED = [
    Indexed.gather, Indexed.gather, Indexed.scatter, Indexed.scatter, Indexed.index_select, Indexed.embedding,
    Indexed.select, Indexed.triu, Indexed.accumulate, Indexed.scan, Indexed.scan, Indexed.argsort, Indexed.topk,
    Indexed.minimum, Indexed.product,
]  # fmt: skip
