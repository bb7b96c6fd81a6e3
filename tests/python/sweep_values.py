"""Tensors for the op sweep: values of every element type, with the special ones among them, in every memory layout."""

import zlib
from dataclasses import dataclass

import torch

from nvfuser_go import DataType

D = DataType

TORCH = {
    D.Bool: torch.bool,
    D.Int32: torch.int32,
    D.Int: torch.int64,
    D.UInt64: torch.uint64,
    D.Index: torch.int64,
    D.Half: torch.float16,
    D.BFloat16: torch.bfloat16,
    D.Float: torch.float32,
    D.Double: torch.float64,
    D.Float8_e4m3fn: torch.float8_e4m3fn,
    D.Float8_e5m2: torch.float8_e5m2,
    D.Float8_e8m0fnu: torch.float8_e8m0fnu,
    D.ComplexFloat: torch.complex64,
    D.ComplexDouble: torch.complex128,
}
BOOLS = [D.Bool]
INTEGERS = [D.Int32, D.Int, D.UInt64, D.Index]
FLOATS = [D.Half, D.BFloat16, D.Float, D.Double, D.Float8_e4m3fn, D.Float8_e5m2, D.Float8_e8m0fnu]
COMPLEXES = [D.ComplexFloat, D.ComplexDouble]
NARROW = [D.Half, D.BFloat16, D.Float8_e4m3fn, D.Float8_e5m2, D.Float8_e8m0fnu]

# Cases that ran, by row of the op table, for the summary of the test run.
ran: dict[str, int] = {}

LAYOUTS = ["dense", "permuted", "expanded", "gapped"]


@dataclass(frozen=True)
class Tensor:
    """A tensor argument of a case.

    ``values`` is None for random elements with special ones among them, an
    interval to draw from, or a flat list of elements. ``special`` is "mild" for
    special values without the ends of the range, where the order of additions
    would decide whether a sum overflows.
    """

    shape: tuple[int, ...]
    dtype: DataType
    values: object = None
    special: bool | str = True
    layout: str | None = None  # one that it needs whatever the layout of the case


def generator(*key: object) -> torch.Generator:
    """A generator whose numbers depend on key alone."""
    return torch.Generator().manual_seed(zlib.crc32(repr(key).encode()))


def special_floats(dtype: DataType) -> list[float]:
    """NaN, infinities, zeros of both signs and the ends of the type's range, as far as the type has them."""
    info = torch.finfo(TORCH[dtype])
    if dtype is D.Float8_e8m0fnu:
        return [float("nan"), 1.0, info.max, info.tiny]
    values = [0.0, -0.0, float("nan"), 1.0, -1.0, 0.5, info.max, -info.max, info.tiny, -info.tiny * info.eps]
    if dtype is not D.Float8_e4m3fn:
        values += [float("inf"), float("-inf")]
    return values


def special_integers(dtype: DataType) -> list[int]:
    if dtype is D.UInt64:
        return [0, 1, 2**63 - 1]  # beyond that torch has few operations: test_unsigned_numbers
    info = torch.iinfo(TORCH[dtype])
    return [0, 1, -1, info.max, info.min]


def _inside(values: list, interval) -> list:
    return [v for v in values if interval is None or interval[0] <= v <= interval[1]]


def elements(t: Tensor, draw: torch.Generator) -> torch.Tensor:
    """A contiguous tensor of the elements that t asks for."""
    n = 1
    for size in t.shape:
        n *= size
    to = TORCH[t.dtype]
    if isinstance(t.values, list):
        source = torch.tensor(t.values) if t.values else torch.zeros(0)
        return source.to(to).reshape(t.shape)
    interval = t.values
    if t.dtype is D.Bool:
        x = torch.randint(0, 2, (n,), generator=draw).bool()
    elif t.dtype in INTEGERS:
        lo, hi = interval or ((0, 20) if t.dtype is D.UInt64 else (-10, 10))
        lo = max(lo, 0) if t.dtype is D.UInt64 else lo
        x = torch.randint(int(lo), int(hi) + 1, (n,), generator=draw)
        special = _inside(special_integers(t.dtype), interval)
    elif t.dtype in FLOATS:
        lo, hi = interval or (-4.0, 4.0)
        x = torch.rand(n, generator=draw, dtype=torch.float64) * (hi - lo) + lo
        special = special_floats(t.dtype)
        if t.special == "mild":
            special = [v for v in special if not 1.0 < abs(v) < float("inf")]
    else:
        lo, hi = interval or (-4.0, 4.0)
        x = torch.rand(n, 2, generator=draw, dtype=torch.float64) * (hi - lo) + lo
        x = torch.view_as_complex(x)
    if t.special and n > 0 and t.dtype in INTEGERS + FLOATS:
        where = torch.randint(0, n, (max(1, n // 4),), generator=draw)
        which = torch.randint(0, len(special), (len(where),), generator=draw)
        x[where] = torch.tensor(special, dtype=x.dtype)[which]
    return x.to(to).reshape(t.shape)


def lay_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """A tensor of x's shape in memory of the given layout.

    "expanded" repeats x's first elements along a dimension; "misaligned" is dense and begins at the second element of
    its memory.
    """
    if x.ndim == 0 or layout == "dense":
        return x
    if layout == "misaligned":
        return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
    if layout == "permuted":
        order = list(range(x.ndim))[::-1]
        return x.permute(order).contiguous().permute(order)
    if layout == "expanded":
        dim = x.ndim // 2
        return x.narrow(dim, 0, min(1, x.shape[dim])).expand(x.shape)
    # Gapped: part of a larger buffer that starts at an odd offset and holds nothing that looks like a result.
    bytes_of = torch.full([2 * x.element_size()], 0x77, dtype=torch.uint8)
    junk = bytes_of.view(x.dtype)[0]
    if x.dtype is torch.bool:
        junk = torch.tensor(True)
    if x.numel() == 0:  # the same strides, without memory that grows with the other sizes
        return x.new_empty(1).as_strided(x.shape, junk.new_empty(0, *[n + 3 for n in x.shape]).stride()[1:])
    base = junk.expand([n + 3 for n in x.shape]).clone()
    part = base[tuple(slice(1, 1 + n) for n in x.shape)]
    part.copy_(x)
    return part


def make(t: Tensor, layout: str, *key: object) -> torch.Tensor:
    return lay_out(elements(t, generator(t, *key)), t.layout or layout)


def describe(x: torch.Tensor, dtype: DataType, dynamic: bool) -> dict:
    """The arguments of define_tensor for x."""
    if x.ndim == 0:
        return {"shape": [], "contiguity": [], "dtype": dtype}
    expanded = [n > 1 and s == 0 for n, s in zip(x.shape, x.stride(), strict=True)]
    # Dimensions from the outermost in memory; one of stride 0 or size 1 keeps its place.
    order = list(range(x.ndim))
    moving = [d for d in order if not expanded[d] and x.shape[d] != 1]
    ranked = iter(sorted(moving, key=lambda d: -x.stride(d)))
    memory = [next(ranked) if d in moving else d for d in order]
    contiguity, inner = [], 1
    for d in reversed(memory):
        if d not in moving:
            contiguity.insert(0, None)
            continue
        contiguity.insert(0, x.stride(d) == inner)
        inner = x.stride(d) * max(x.shape[d], 1)
    shape = [n if not dynamic or n == 1 else -1 for n in x.shape]
    out = {"shape": shape, "contiguity": contiguity, "dtype": dtype}
    if memory != order:
        out["stride_order"] = [x.ndim - 1 - memory.index(d) for d in order]
    return out
