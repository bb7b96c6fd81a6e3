"""Operations for which calls of torch need more than an expression.

They wait for no device, but grouped_mm() where torch has no kernel for groups. Numbers are Python's; device is where
tensors are made.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Number = bool | int | float | complex


def converted(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The value in another type: what overflows float8_e4m3fn, of which torch 2.11 makes NaN, is its largest number."""
    if dtype is torch.uint64 and value.dtype is torch.int64:
        return value.view(torch.uint64)
    if dtype is torch.float8_e4m3fn and value.dtype is not dtype and not value.is_complex():  # it has no infinity
        value = value.float().clamp(-448, 448)
    return value.to(dtype)


def number(value: Number, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A number as a tensor without dimensions; integers wrap."""
    if dtype is torch.uint64:
        return number(value, torch.int64, device).view(torch.uint64)
    if isinstance(value, int) and value >= 2**63:
        value -= 2**64
    if dtype.is_floating_point and dtype.itemsize == 1:
        return converted(torch.full((), value, dtype=torch.float32, device=device), dtype)
    return torch.full((), value, dtype=dtype, device=device)


def cast(arg: Tensor, dtype: torch.dtype) -> Tensor:
    """arg as another type: real parts of complex numbers."""
    if arg.is_complex() and not dtype.is_complex:
        arg = arg != 0 if dtype is torch.bool else arg.real
    return converted(arg, dtype)


# ---- Order ----


def sortable(arg: Tensor) -> Tensor:
    """A tensor of the same order, which torch sorts: not UInt64, and on a CUDA device not NaN with a sign."""
    if arg.dtype is torch.uint64:
        return arg.view(torch.int64) ^ -(2**63)
    if arg.device.type == "cuda" and arg.dtype.is_floating_point:
        return torch.where(arg.isnan(), math.nan, arg)
    return arg


def _signed(arg: Tensor) -> Tensor:
    return sortable(arg) if arg.dtype is torch.uint64 else arg


def _unsorted(value: Tensor, dtype: torch.dtype) -> Tensor:
    return (value ^ -(2**63)).view(torch.uint64) if dtype is torch.uint64 else value


def topk(arg: Tensor, k: int, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The first k of a stable sort: torch.topk has no order of equal elements."""
    values, order = torch.sort(sortable(arg), dim=dim, descending=largest, stable=True)
    return _unsorted(values.narrow(dim, 0, k), arg.dtype), order.narrow(dim, 0, k)


def extreme(reduce: Callable[..., Tensor], arg: Tensor, dims: list[int], largest: bool, device: torch.device) -> Tensor:
    """torch.amax or torch.amin, which gives the identity for no elements."""
    if any(arg.shape[d] == 0 for d in dims):
        shape = [n for d, n in enumerate(arg.shape) if d not in dims]
        return number(_least(arg.dtype) if largest else _greatest(arg.dtype), arg.dtype, device).expand(shape)
    return _unsorted(reduce(_signed(arg), dims), arg.dtype)


def _least(dtype: torch.dtype) -> Number:
    if dtype is torch.bool or dtype is torch.uint64:
        return 0
    return -_infinity(dtype) if dtype.is_floating_point else torch.iinfo(dtype).min


def _greatest(dtype: torch.dtype) -> Number:
    if dtype is torch.bool:
        return True
    if dtype is torch.uint64:
        return 2**64 - 1
    return _infinity(dtype) if dtype.is_floating_point else torch.iinfo(dtype).max


def _infinity(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max if dtype is torch.float8_e4m3fn else math.inf


def scan(
    cumulative: Callable[..., Any],
    combine: Callable[[Tensor, Tensor], Tensor],
    arg: Tensor,
    dim: int,
    init: Number | None,
    device: torch.device,
) -> Tensor:
    """torch.cumsum or torch.cumprod; narrow types are summed as Floats."""
    if arg.dtype.is_floating_point and arg.dtype.itemsize < 4:
        arg = arg.float()
    result = cumulative(arg, dim)
    return result if init is None else combine(result, number(init, arg.dtype, device))


def scan_extreme(
    cumulative: Callable[..., Any],
    combine: Callable[[Tensor, Tensor], Tensor],
    arg: Tensor,
    dim: int,
    init: Number | None,
    device: torch.device,
) -> Tensor:
    """torch.cummax or torch.cummin."""
    result = cumulative(_signed(arg), dim).values
    if init is not None:
        result = combine(result, _signed(number(init, arg.dtype, device)))
    return _unsorted(result, arg.dtype)


# ---- Reductions ----


def welford(arg: Tensor, dims: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, sum of squares of distances from it, and count."""
    mean = arg.mean(dims, keepdim=True)
    squares = (arg - mean).square_().sum(dims)
    count = math.prod(arg.shape[d] for d in dims)
    return mean.squeeze(dims), squares, torch.full(squares.shape, count, dtype=torch.int64, device=arg.device)


def max_exp_sum(arg: Tensor, dims: list[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """The largest element and the sum of exp(x - largest); -inf and 0 of no elements."""
    largest = extreme(torch.amax, arg, dims, True, device)
    shown = largest
    for d in sorted(dims):
        shown = shown.unsqueeze(d)
    return largest, (arg - shown).exp_().sum(dims)


# ---- Elements by position ----


def iota(length: int, start: Number | None, step: Number | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """start + i * step: in double precision, or as integers that wrap."""
    compute = torch.float64 if dtype.is_floating_point else torch.int64
    positions = torch.arange(length, dtype=compute, device=device)
    first = number(0 if start is None else start, compute, device)
    return first + number(1 if step is None else step, compute, device) * positions


def pad(arg: Tensor, pad_widths: list[int], value: Number | None, device: torch.device) -> Tensor:
    """torch.nn.functional.pad; negative widths take elements away, also all of them and more."""
    shape, source, to = [], arg, []
    for d, n in enumerate(arg.shape):
        left, right = pad_widths[2 * (arg.ndim - 1 - d) :][:2]
        size = n + left + right
        first = min(max(-left, 0), n)
        last = max(min(n, n + right), first)
        shape.append(size)
        source = source.narrow(d, first, last - first)
        to.append(slice(max(left, 0), max(left, 0) + last - first))
    result = torch.empty(shape, dtype=arg.dtype, device=arg.device)
    result.copy_(number(0 if value is None else value, arg.dtype, device))
    if source.numel():
        result[tuple(to)] = source
    return result


def _positions(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """index with positions that are none replaced by 0, and which are some."""
    index = index.view(torch.int64) if index.dtype is torch.uint64 else index.long()
    valid = (index >= 0) & (index < size)
    return torch.where(valid, index, 0), valid


def gather(arg: Tensor, dim: int, index: Tensor) -> Tensor:
    """torch.gather; what is no position reads 0."""
    if arg.shape[dim] == 0:
        return torch.zeros(index.shape, dtype=arg.dtype, device=arg.device)
    positions, valid = _positions(index, arg.shape[dim])
    return torch.where(valid, torch.gather(arg, dim, positions), 0)


def take_along(arg: Tensor, dim: int, index: Tensor) -> Tensor:
    """As gather, where dimensions other than dim broadcast."""
    outer, inner = arg.shape[:dim], index.shape[dim + 1 :]
    if all(n == 1 for n in (*outer, *inner)):  # whole rows
        rows = index_select(arg.reshape(arg.shape[dim:]), 0, index)
        return rows.reshape(*index.shape[: dim + 1], *arg.shape[dim + 1 :])
    shape = [max(a, b) if a and b else 0 for a, b in zip(arg.shape, index.shape, strict=True)]
    index = index.expand([index.shape[d] if d == dim else n for d, n in enumerate(shape)])
    return gather(arg.expand([arg.shape[d] if d == dim else n for d, n in enumerate(shape)]), dim, index)


def index_select(arg: Tensor, dim: int, index: Tensor) -> Tensor:
    """torch.index_select; what is no position reads 0. index has one dimension that counts."""
    shape = [1] * arg.ndim
    shape[dim] = index.numel()
    if arg.shape[dim] == 0:
        return torch.zeros([*arg.shape[:dim], shape[dim], *arg.shape[dim + 1 :]], dtype=arg.dtype, device=arg.device)
    positions, valid = _positions(index.flatten(), arg.shape[dim])
    return torch.where(valid.view(shape), torch.index_select(arg, dim, positions), 0)


def scatter(arg: Tensor, dim: int, index: Tensor, src: Tensor, device: torch.device) -> Tensor:
    """torch.scatter, of several writes to one place the last one; what is no position writes nothing.

    src may be one element for all places.
    """
    result = arg.clone(memory_format=torch.contiguous_format)
    region = result[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))]
    if region.numel() == 0 or index.numel() == 0:
        return result
    positions, valid = _positions(index, arg.shape[dim])
    shape = [1] * arg.ndim
    shape[dim] = index.shape[dim]
    order = torch.where(valid, torch.arange(shape[dim], device=device).view(shape), -1)
    winner = torch.full(region.shape, -1, dtype=torch.int64, device=device)
    winner.scatter_reduce_(dim, positions, order, "amax")
    written = torch.gather(src, dim, winner.clamp(min=0)) if src.ndim else src
    region.copy_(torch.where(winner >= 0, written, region))
    return result


def index_put_accumulate(acc: Tensor, index: Tensor, value: Tensor) -> Tensor:
    """torch.index_put that accumulates; what is no position adds nothing.

    Types narrower than float32 are summed there and rounded once. The bits are the same in every run.
    """
    if acc.dtype is torch.uint64:
        return index_put_accumulate(acc.view(torch.int64), index, value.view(torch.int64)).view(torch.uint64)
    positions, valid = _positions(index, acc.shape[0])
    places = torch.where(valid, positions, acc.shape[0])  # a row more, which is not returned
    result = acc.new_empty((acc.shape[0] + 1, *acc.shape[1:]))
    result[:-1].copy_(acc)
    _bits(result[-1:]).zero_()
    if not (acc.dtype.is_floating_point and acc.dtype.itemsize < 4):
        return _add_slices(result, places, value)[:-1]
    places, order = torch.sort(places, stable=True)
    groups = torch.zeros_like(places)  # of equal places
    groups[1:] = (places[1:] != places[:-1]).cumsum(0)
    sums = torch.zeros(value.shape, dtype=torch.float32, device=acc.device)
    _add_slices(sums, groups, _slices(value, order).float())
    written = converted(_slices(result, places).float() + sums[groups], acc.dtype)
    _bits(result).index_put_((places,), _bits(written))  # equal ones where places are
    return result[:-1]


def group_positions(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The numbers of the elements of index in order of them, and where each position begins there; see the op table.

    Positions are sorted in the narrowest type that holds them, as a device takes a pass for each byte.
    """
    if index.dtype is torch.uint64:  # large ones are negative, and none either
        index = index.view(torch.int64)
    dtype = next(t for t in (torch.int16, torch.int32, torch.int64) if size <= torch.iinfo(t).max)
    ordered, order = torch.sort(torch.clamp(index, -1, size).to(dtype), stable=True)
    places = torch.arange(size + 1, dtype=ordered.dtype, device=index.device)
    return order, torch.searchsorted(ordered, places)


def sum_parts(index: Tensor, order: Tensor, value: Tensor, size: int) -> Tensor:
    """Sums of 64 slices that order lists, where the first and the last one are of one position; see the op table."""
    shape = (order.shape[0] // 64, *value.shape[1:])
    wide = torch.float32 if value.dtype.is_floating_point and value.dtype.itemsize < 4 else value.dtype
    result = torch.zeros(shape, dtype=wide, device=value.device)
    if result.numel() == 0:
        return result
    numbers, is_some = _positions(order[: 64 * shape[0]].view(-1, 64), order.shape[0])
    positions, valid = _positions(index, size)
    ends = numbers[:, [0, -1]]
    is_whole = is_some[:, [0, -1]].all(1) & valid[ends].all(1) & (positions[ends[:, 0]] == positions[ends[:, 1]])
    of = torch.where(is_some & is_whole[:, None], torch.arange(shape[0], device=value.device)[:, None], -1).flatten()
    slices = _slices(value, numbers.flatten())
    return index_put_accumulate(result, of, slices.to(wide))


def sum_slices(acc: Tensor, order: Tensor, begin: Tensor, value: Tensor, parts: Tensor) -> Tensor:
    """Slices of value, and parts, added to those of acc: order and begin say what they do of an index, or less."""
    count, rows = order.shape[0], acc.shape[0]
    if count == 0 or rows == 0:
        return acc.clone(memory_format=torch.contiguous_format)
    begin = begin.clamp(0, count)
    numbers = torch.arange(count, device=acc.device)
    places = torch.searchsorted(begin, numbers, right=True) - 1
    places = torch.where(places < rows, places, -1)
    some = numbers[: count // 64 * 64].view(-1, 64)
    ends = places[some[:, [0, -1]]]
    of = torch.where(ends[:, 0] == ends[:, 1], ends[:, 0], -1)  # by part, where it is whole
    in_part = torch.zeros(count, dtype=torch.bool, device=acc.device)
    in_part[: some.numel()] = (of >= 0).repeat_interleave(64)
    listed, is_some = _positions(order, count)
    value = _slices(value, listed)
    places = torch.cat([torch.where(is_some & ~in_part, places, -1), of])
    sums = index_put_accumulate(acc.to(parts.dtype), places, torch.cat([value.to(parts.dtype), parts]))
    return converted(sums, acc.dtype)


def _add_slices(to: Tensor, positions: Tensor, value: Tensor) -> Tensor:
    """Adds slices in the order of positions: torch sorts those on a CUDA device, and goes along them on the CPU."""
    if to.device.type == "cpu":
        return to.index_add_(0, positions, value)
    return to.index_put_((positions,), value, accumulate=True)


def _bits(arg: Tensor) -> Tensor:
    """arg, as integers if its elements are of 8 bits, of which torch moves floating-point numbers only in places."""
    return arg.view(torch.uint8) if arg.dtype.itemsize == 1 else arg


def _slices(arg: Tensor, positions: Tensor) -> Tensor:
    return _bits(arg)[positions].view(arg.dtype)


def embedding(input: Tensor, weight: Tensor, max_norm: float | None, norm_type: float | None) -> Tensor:
    """Rows of weight, scaled to max_norm where they are larger; what is no position gives zeros."""
    if weight.shape[0] == 0:
        return torch.zeros((*input.shape, weight.shape[1]), dtype=weight.dtype, device=weight.device)
    positions, valid = _positions(input, weight.shape[0])
    rows = torch.nn.functional.embedding(positions, weight)
    if max_norm is not None:
        rows = rows if rows.dtype is torch.float64 else rows.float()
        norm = torch.linalg.vector_norm(rows, 2.0 if norm_type is None else norm_type, dim=-1, keepdim=True)
        rows = torch.where(norm > max_norm, rows * (max_norm / (norm + 1e-7)), rows)
    return torch.where(valid.unsqueeze(-1), rows, 0)


# ---- Products ----


def matmul(arg1: Tensor, arg2: Tensor) -> Tensor:
    """torch.matmul, also of integers on a CUDA device, where torch has none."""
    if arg1.device.type == "cpu" or arg1.dtype.is_floating_point or arg1.is_complex():
        return torch.matmul(arg1, arg2)
    a = arg1.unsqueeze(0) if arg1.ndim == 1 else arg1
    b = arg2.unsqueeze(1) if arg2.ndim == 1 else arg2
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    sums = torch.zeros((*batch, a.shape[-2], b.shape[-1]), dtype=torch.int64, device=a.device)
    step = max(1, (1 << 24) // max(1, sums.numel()))
    for k in range(0, a.shape[-1], step):
        products = a[..., :, k : k + step].unsqueeze(-1) * b[..., k : k + step, :].unsqueeze(-3)
        sums += products.sum(-2)
    if arg1.ndim == 1:
        sums = sums.squeeze(-2)
    return sums.squeeze(-1) if arg2.ndim == 1 else sums


def linear(arg1: Tensor, arg2: Tensor, bias: Tensor | None) -> Tensor:
    """torch.nn.functional.linear, also of a vector arg2 and of integers."""
    if arg2.ndim == 2 and (arg1.dtype.is_floating_point or arg1.is_complex()):
        return torch.nn.functional.linear(arg1, arg2, bias)
    product = matmul(arg1, arg2.mT if arg2.ndim == 2 else arg2)
    return product if bias is None else product + bias


def grouped_mm(mat1: Tensor, mat2: Tensor, offsets: Tensor) -> Tensor:
    """Products of groups. Where torch's own does not take the tensors, this waits for offsets."""
    if _has_grouped_mm(mat1, mat2, offsets):
        result = torch._grouped_mm(mat1, mat2, offsets.int())
        if mat1.ndim == 2 and mat2.ndim == 2:
            return result
        dim = 0 if mat2.ndim == 3 else 1
        positions = torch.arange(result.shape[dim], device=result.device).unsqueeze(1 - dim)
        return result.masked_fill_(positions >= offsets[-1], 0)
    ends, last = [0], mat1.shape[-1] if mat1.ndim == mat2.ndim else mat1.shape[0] if mat2.ndim == 3 else mat2.shape[1]
    for end in offsets.tolist():
        ends.append(min(max(end, ends[-1]), last))
    spans = list(enumerate(itertools.pairwise(ends)))
    if mat2.ndim == 3:
        rest = mat1.new_zeros(last - ends[-1], mat2.shape[2])
        return torch.cat([*(matmul(mat1[s:t], mat2[g]) for g, (s, t) in spans), rest])
    if mat1.ndim == 3:
        rest = mat1.new_zeros(mat1.shape[1], last - ends[-1])
        return torch.cat([*(matmul(mat1[g], mat2[:, s:t]) for g, (s, t) in spans), rest], 1)
    return torch.stack([matmul(mat1[:, s:t], mat2[s:t]) for _, (s, t) in spans])


def _has_grouped_mm(mat1: Tensor, mat2: Tensor, offsets: Tensor) -> bool:
    """Whether torch._grouped_mm takes them: bfloat16, dense, with rows of multiples of 16 bytes."""
    if mat1.device.type != "cuda" or mat1.dtype is not torch.bfloat16 or not hasattr(torch, "_grouped_mm"):
        return False
    if mat1.numel() == 0 or mat2.numel() == 0 or offsets.numel() == 0:
        return False
    return all(
        x.stride(-1) == 1 and all(s % 8 == 0 for s in x.stride()[:-1]) and x.data_ptr() % 16 == 0 for x in (mat1, mat2)
    )
