"""Softmax, norms, cross entropy and sums with their gradients: each as a fusion and as torch calls, for any dtype.

The rows of the benchmark and the sweep of tests/python/norms.py are made of them. Values of 16 bits are computed in
float32 and rounded once. Gradients take what the forward pass left (the softmax, the mean, the logarithm of a sum).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from row import BF16, F32, I64, Input

EPSILON = 1e-5
NAMES = {torch.float32: "Float", torch.float16: "Half", torch.bfloat16: "BFloat16"}
aten = torch.ops.aten


@dataclass(frozen=True)
class Formula:
    """A program of tensors whose dimensions are letters.

    define, eager: as in programs.Program. outputs: their dimensions. prepare: makes of the random inputs those that fit
    together. terms: of the inputs in double precision, by output, the sum of the absolute values of what is added up to
    an element, in the shape of the output or one that broadcasts to it; 0 where nothing is.
    """

    define: Callable
    eager: Callable
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    terms: Callable
    prepare: Callable | None = None


def accumulated(dtype: torch.dtype) -> torch.dtype:
    """The dtype that sums of this one are made in."""
    return torch.promote_types(dtype, F32)


def wide(fd, types, x):
    return fd.ops.cast(x, dtype=types.Float)


def rounded(fd, types, x, dtype: torch.dtype):
    return x if dtype is F32 else fd.ops.cast(x, dtype=getattr(types, NAMES[dtype]))


def computed(dtype: torch.dtype, step: Callable) -> Callable:
    """A definition: step(ops, *inputs), of inputs in float32, with its results rounded to dtype."""

    def define(fd, types, *inputs):
        results = step(fd.ops, *(wide(fd, types, x) for x in inputs))
        if not isinstance(results, tuple):
            return rounded(fd, types, results, dtype)
        return [rounded(fd, types, x, dtype) for x in results]

    return define


def spread(ops, x, axes: Sequence[int], rank: int):
    """x with the dimensions `axes`, which it lacks, of `rank`."""
    return ops.broadcast(x, [i in axes for i in range(rank)])


def mean_of(ops, x, axes: Sequence[int]):
    shape = ops.shape(x)
    total = ops.sum(x, list(axes))
    for axis in axes:
        total = ops.div(total, shape[axis])
    return total


def total(x: torch.Tensor, axes: Sequence[int] = (1,)) -> torch.Tensor:
    return x.abs().sum(axes, keepdim=True)


# Softmax over the last of two dimensions, or over the middle of three.


def softmax(dtype: torch.dtype = BF16, dims: str = "MN", axis: int = 1, log: bool = False) -> Formula:
    rank = len(dims)

    def step(ops, x):
        x = ops.sub(x, spread(ops, ops.max(x, [axis]), [axis], rank))
        e = ops.exp(x)
        total = spread(ops, ops.sum(e, [axis]), [axis], rank)
        return ops.sub(x, ops.log(total)) if log else ops.div(e, total)

    function = torch.log_softmax if log else torch.softmax
    return Formula(
        computed(dtype, step),
        lambda x: function(x, axis),
        (Input(dtype, dims),),
        (dims,),
        lambda x: (x.abs().amax(axis, keepdim=True) if log else 0,),
    )


def softmax_backward(dtype: torch.dtype = BF16, log: bool = False) -> Formula:
    """Of the gradient and the result of the forward pass."""

    def step(ops, dy, y):
        if log:
            return ops.sub(dy, ops.mul(ops.exp(y), spread(ops, ops.sum(dy, [1]), [1], 2)))
        return ops.mul(y, ops.sub(dy, spread(ops, ops.sum(ops.mul(dy, y), [1]), [1], 2)))

    def terms(dy, y):
        return (dy.abs() + y.exp() * total(dy) if log else y * (dy.abs() + total(dy * y)),)

    backward = aten._log_softmax_backward_data if log else aten._softmax_backward_data
    return Formula(
        computed(dtype, step),
        lambda dy, y: backward(dy, y, 1, y.dtype),
        (Input(dtype, "MN"), Input(dtype, "MN")),
        ("MN",),
        terms,
        lambda dy, x: (dy, (torch.log_softmax if log else torch.softmax)(x, 1)),
    )


# Norms of rows.


def layer_norm(dtype: torch.dtype = BF16) -> Formula:
    def step(ops, x, weight, bias):
        var, mean = ops.var_mean(x, [1], 0, False)
        scale = ops.rsqrt(ops.add(var, EPSILON))
        y = ops.mul(ops.sub(x, spread(ops, mean, [1], 2)), spread(ops, scale, [1], 2))
        return ops.add(ops.mul(y, spread(ops, weight, [0], 2)), spread(ops, bias, [0], 2))

    def terms(x, weight, bias):
        var, mean = torch.var_mean(x, 1, correction=0, keepdim=True)
        return ((x.abs() + mean.abs()) * (var + EPSILON).rsqrt() * weight.abs() + bias.abs(),)

    return Formula(
        computed(dtype, step),
        lambda x, weight, bias: F.layer_norm(x, weight.shape, weight, bias, EPSILON),
        (Input(dtype, "MN", mean=1.0), Input(dtype, "N"), Input(dtype, "N")),
        ("MN",),
        terms,
    )


def layer_norm_backward(dtype: torch.dtype = BF16) -> Formula:
    """Of the gradient, the input, the weight, and the mean and reciprocal deviation of the rows in float32."""

    def step(ops, dy, x, weight, mean, scale):
        scale = spread(ops, scale, [1], 2)
        y = ops.mul(ops.sub(x, spread(ops, mean, [1], 2)), scale)
        g = ops.mul(dy, spread(ops, weight, [0], 2))
        along = spread(ops, mean_of(ops, ops.mul(g, y), [1]), [1], 2)
        level = spread(ops, mean_of(ops, g, [1]), [1], 2)
        dx = ops.mul(scale, ops.sub(ops.sub(g, level), ops.mul(y, along)))
        return dx, ops.sum(ops.mul(dy, y), [0]), ops.sum(dy, [0])

    def eager(dy, x, weight, mean, scale):
        statistics = mean[:, None], scale[:, None]
        if x.is_cuda or x.dtype in (torch.float32, torch.float64):
            given = (dy, x, weight.shape, *statistics, weight, weight, [True] * 3)
            return aten.native_layer_norm_backward(*given)
        given = (dy.float(), x.float(), weight.shape, *statistics, weight.float(), weight.float(), [True] * 3)
        return tuple(y.to(x.dtype) for y in aten.native_layer_norm_backward(*given))

    def terms(dy, x, weight, mean, scale):
        y = (x.abs() + mean.abs()[:, None]) * scale[:, None]
        g = (dy * weight).abs()
        dx = scale[:, None] * (g + g.mean(1, keepdim=True) + y * (g * y).mean(1, keepdim=True))
        return dx, (dy.abs() * y).sum(0), dy.abs().sum(0)

    def prepare(dy, x, weight, mean, scale):
        var, mean = torch.var_mean(x.to(F32), 1, correction=0)
        return dy, x, weight, mean, (var + EPSILON).rsqrt()

    wide_rows = (Input(dtype, "MN"), Input(dtype, "MN", mean=1.0), Input(dtype, "N"))
    return Formula(
        computed(dtype, step),
        eager,
        (*wide_rows, Input(F32, "M"), Input(F32, "M")),
        ("MN", "N", "N"),
        terms,
        prepare,
    )


def rms_norm(dtype: torch.dtype = BF16) -> Formula:
    def step(ops, x, weight):
        scale = ops.rsqrt(ops.add(mean_of(ops, ops.mul(x, x), [1]), EPSILON))
        return ops.mul(ops.mul(x, spread(ops, scale, [1], 2)), spread(ops, weight, [0], 2))

    return Formula(
        computed(dtype, step),
        lambda x, weight: F.rms_norm(x, weight.shape, weight, EPSILON),
        (Input(dtype, "MN"), Input(dtype, "N")),
        ("MN",),
        lambda x, weight: (0,),
    )


def rms_norm_backward(dtype: torch.dtype = BF16) -> Formula:
    """Of the gradient, the input, the weight and the reciprocal root mean square of the rows in float32."""

    def step(ops, dy, x, weight, scale):
        scale = spread(ops, scale, [1], 2)
        y = ops.mul(x, scale)
        g = ops.mul(dy, spread(ops, weight, [0], 2))
        along = spread(ops, mean_of(ops, ops.mul(g, y), [1]), [1], 2)
        return ops.mul(scale, ops.sub(g, ops.mul(y, along))), ops.sum(ops.mul(dy, y), [0])

    def eager(dy, x, weight, scale):
        if x.is_cuda and x.dtype is not torch.float64 and hasattr(aten, "_fused_rms_norm_backward"):
            return aten._fused_rms_norm_backward(dy, x, weight.shape, scale[:, None], weight, [True] * 2)
        kind = accumulated(x.dtype)
        y, dy, scale = x.to(kind) * scale[:, None], dy.to(kind), scale[:, None]
        g = dy * weight.to(kind)
        dx = scale * (g - y * (g * y).mean(1, keepdim=True))
        return dx.to(x.dtype), (dy * y).sum(0).to(x.dtype)

    def terms(dy, x, weight, scale):
        y, g = x.abs() * scale[:, None], (dy * weight).abs()
        return scale[:, None] * (g + y * (g * y).mean(1, keepdim=True)), (dy.abs() * y).sum(0)

    def prepare(dy, x, weight, scale):
        return dy, x, weight, (x.to(F32).square().mean(1) + EPSILON).rsqrt()

    return Formula(
        computed(dtype, step),
        eager,
        (Input(dtype, "MN"), Input(dtype, "MN"), Input(dtype, "N"), Input(F32, "M")),
        ("MN", "N"),
        terms,
        prepare,
    )


# Cross entropy of rows, without a mean over them. The loss and the logarithm of the sum are float32.


def cross_entropy(dtype: torch.dtype = BF16) -> Formula:
    def define(fd, types, x, target):
        ops = fd.ops
        chosen = ops.squeeze(ops.take_along_axis(x, spread(ops, target, [1], 2), 1), [1])
        x = wide(fd, types, x)
        top = ops.max(x, [1])
        sum_of = ops.sum(ops.exp(ops.sub(x, spread(ops, top, [1], 2))), [1])
        return ops.sub(ops.add(top, ops.log(sum_of)), wide(fd, types, chosen))

    def eager(x, target):
        return F.cross_entropy(x, target, reduction="none").to(accumulated(x.dtype))

    return Formula(
        define,
        eager,
        (Input(dtype, "MN"), Input(I64, "M", below="N")),
        ("M",),
        lambda x, target: (x.abs().amax(1) + math.log(x.shape[1]),),
    )


def cross_entropy_backward(dtype: torch.dtype = BF16) -> Formula:
    """Of the gradient of the losses, the logits, the targets and the logarithm of the sum of exponentials."""

    def define(fd, types, dy, x, target, log_sum):
        ops = fd.ops
        column = ops.iota(ops.shape(x)[1], fd.define_scalar(0), fd.define_scalar(1), types.Int)
        is_target = ops.eq(spread(ops, target, [1], 2), spread(ops, column, [0], 2))
        p = ops.exp(ops.sub(wide(fd, types, x), spread(ops, log_sum, [1], 2)))
        dx = ops.mul(ops.sub(p, ops.where(is_target, 1.0, 0.0)), spread(ops, dy, [1], 2))
        return rounded(fd, types, dx, dtype)

    def eager(dy, x, target, log_sum):
        p = torch.exp(x.to(accumulated(x.dtype)) - log_sum[:, None])
        is_target = torch.arange(x.shape[1], device=x.device) == target[:, None]
        return ((p - torch.where(is_target, 1.0, 0.0)) * dy[:, None]).to(x.dtype)

    def terms(dy, x, target, log_sum):
        p = torch.exp(x - log_sum[:, None])
        return (p.scatter_add_(1, target[:, None], torch.ones_like(p[:, :1])).mul_(dy.abs()[:, None]),)

    def prepare(dy, x, target, log_sum):
        return dy, x, target, torch.logsumexp(x.to(F32), 1)

    return Formula(
        define,
        eager,
        (Input(F32, "M"), Input(dtype, "MN"), Input(I64, "M", below="N"), Input(F32, "M")),
        ("MN",),
        terms,
        prepare,
    )


# Reductions.


def sums(dtype: torch.dtype, dims: str, axes: tuple[int, ...], to: torch.dtype | None = None) -> Formula:
    """The sum over some dimensions, of values with mean 0.1, in the dtype `to`, which is dtype if not given."""
    to = to or dtype
    kept = "".join(d for i, d in enumerate(dims) if i not in axes)

    def eager(x):
        return x.sum(axes, dtype=torch.promote_types(x.dtype, to))

    return Formula(
        computed(to, lambda ops, x: ops.sum(x, list(axes))),
        eager,
        (Input(dtype, dims, mean=0.1),),
        (kept,),
        lambda x: (x.abs().sum(axes),),
    )


def maxima(dtype: torch.dtype) -> Formula:
    return Formula(
        computed(dtype, lambda ops, x: ops.max(x, [1])),
        lambda x: x.amax(1),
        (Input(dtype, "MN"),),
        ("M",),
        lambda x: (0,),
    )


def var_mean(dtype: torch.dtype) -> Formula:
    def step(ops, x):
        return tuple(ops.var_mean(x, [1], 1, False))

    return Formula(
        computed(dtype, step),
        lambda x: torch.var_mean(x, 1),
        (Input(dtype, "MN"),),
        ("M", "M"),
        lambda x: (x.square().mean(1), x.abs().mean(1)),
    )


# Norms of images, [B, C, H, W]. Weights and statistics are float32.

CHANNELS_LAST = "channels last"


def images(dtype: torch.dtype, layout: str, mean: float = 0.0) -> Input:
    return Input(dtype, "BCHW", layout, mean)


def batch_norm(dtype: torch.dtype = BF16, layout: str = CHANNELS_LAST) -> Formula:
    """In training, without running statistics."""

    def step(ops, x, weight, bias):
        var, mean = ops.var_mean(x, [0, 2, 3], 0, False)
        scale = ops.rsqrt(ops.add(var, EPSILON))
        y = ops.mul(ops.sub(x, spread(ops, mean, [0, 2, 3], 4)), spread(ops, scale, [0, 2, 3], 4))
        return ops.add(ops.mul(y, spread(ops, weight, [0, 2, 3], 4)), spread(ops, bias, [0, 2, 3], 4))

    def terms(x, weight, bias):
        var, mean = torch.var_mean(x, (0, 2, 3), correction=0, keepdim=True)
        y = (x.abs() + mean.abs()) * (var + EPSILON).rsqrt()
        return (y * weight.abs()[:, None, None] + bias.abs()[:, None, None],)

    return Formula(
        computed(dtype, step),
        lambda x, weight, bias: F.batch_norm(x, None, None, weight, bias, True, 0.1, EPSILON),
        (images(dtype, layout, 1.0), Input(F32, "C"), Input(F32, "C")),
        ("BCHW",),
        terms,
    )


def batch_norm_backward(dtype: torch.dtype = BF16, layout: str = CHANNELS_LAST) -> Formula:
    """Of the gradient, the input, the weight, and the mean and reciprocal deviation of the channels."""
    axes = (0, 2, 3)

    def define(fd, types, dy, x, weight, mean, scale):
        ops = fd.ops
        dy, x = wide(fd, types, dy), wide(fd, types, x)
        y = ops.mul(ops.sub(x, spread(ops, mean, axes, 4)), spread(ops, scale, axes, 4))
        dweight, dbias = ops.sum(ops.mul(dy, y), list(axes)), ops.sum(dy, list(axes))
        shape = ops.shape(x)
        count = ops.mul(ops.mul(shape[0], shape[2]), shape[3])
        along, level = (spread(ops, ops.div(v, count), axes, 4) for v in (dweight, dbias))
        factor = spread(ops, ops.mul(weight, scale), axes, 4)
        dx = ops.mul(factor, ops.sub(ops.sub(dy, level), ops.mul(y, along)))
        return [rounded(fd, types, dx, dtype), dweight, dbias]

    def eager(dy, x, weight, mean, scale):
        given = (dy, x, weight, None, None, mean, scale, True, EPSILON, [True] * 3)
        return aten.native_batch_norm_backward(*given)

    def terms(dy, x, weight, mean, scale):
        weight, mean, scale = (v.abs()[:, None, None] for v in (weight, mean, scale))
        y = (x.abs() + mean) * scale
        dweight, dbias = (dy.abs() * y).mean(axes, keepdim=True), dy.abs().mean(axes, keepdim=True)
        count = x.numel() // x.shape[1]
        return weight * scale * (dy.abs() + dbias + y * dweight), dweight.flatten() * count, dbias.flatten() * count

    def prepare(dy, x, weight, mean, scale):
        var, mean = torch.var_mean(x.to(F32), axes, correction=0)
        return dy, x, weight, mean, (var + EPSILON).rsqrt()

    return Formula(
        define,
        eager,
        (images(dtype, layout), images(dtype, layout, 1.0), *(Input(F32, "C"),) * 3),
        ("BCHW", "C", "C"),
        terms,
        prepare,
    )


def group_norm(dtype: torch.dtype, layout: str, channels: int, groups: int) -> Formula:
    """Also instance norm, where each channel is a group. Weights are of the dtype of the images."""
    parts = Groups(channels, groups)

    def step(ops, x, weight, bias):
        v = parts.split(ops, x)
        var, mean = ops.var_mean(v, parts.axes, 0, False)
        scale = ops.rsqrt(ops.add(var, EPSILON))
        y = ops.mul(ops.sub(v, parts.spread(ops, mean)), parts.spread(ops, scale))
        y = parts.joined(ops, y, x)
        return ops.add(ops.mul(y, spread(ops, weight, [0, 2, 3], 4)), spread(ops, bias, [0, 2, 3], 4))

    def terms(x, weight, bias):
        y = parts.terms(x)
        return (y * weight.abs()[:, None, None] + bias.abs()[:, None, None],)

    def eager(x, weight, bias):
        if groups == channels:
            return F.instance_norm(x, None, None, weight, bias, eps=EPSILON)
        return F.group_norm(x, groups, weight, bias, EPSILON)

    return Formula(
        computed(dtype, step),
        eager,
        (images(dtype, layout, 1.0), Input(dtype, "C"), Input(dtype, "C")),
        ("BCHW",),
        terms,
    )


def group_norm_backward(dtype: torch.dtype, layout: str, channels: int, groups: int) -> Formula:
    """Of the gradient, the input, the weight, and the mean and reciprocal deviation of the groups in float32."""
    parts = Groups(channels, groups)

    def step(ops, dy, x, weight, mean, scale):
        v = parts.split(ops, x)
        scale = parts.spread(ops, scale)
        y = ops.mul(ops.sub(v, parts.spread(ops, mean)), scale)
        g = parts.split(ops, ops.mul(dy, spread(ops, weight, [0, 2, 3], 4)))
        level = parts.spread(ops, mean_of(ops, g, parts.axes))
        along = parts.spread(ops, mean_of(ops, ops.mul(g, y), parts.axes))
        dx = parts.joined(ops, ops.mul(scale, ops.sub(ops.sub(g, level), ops.mul(y, along))), x)
        y = parts.joined(ops, y, x)
        return dx, ops.sum(ops.mul(dy, y), [0, 2, 3]), ops.sum(dy, [0, 2, 3])

    def eager(dy, x, weight, mean, scale):
        # Also of instance norm: on a CPU, torch 2.15 mixes up the channels of F.instance_norm's gradient where they are
        # last in memory, of one image with one row or column.
        given = [v.detach().requires_grad_() for v in (x, weight, torch.zeros_like(weight))]
        return torch.autograd.grad(F.group_norm(given[0], groups, *given[1:], EPSILON), given, dy)

    def terms(dy, x, weight, mean, scale):
        y = parts.terms(x)
        g = (dy * weight[:, None, None]).abs()
        dx = parts.mean(g) + y * parts.mean(g * y)
        dx = (g + dx) * scale.repeat_interleave(channels // groups, 1)[..., None, None]
        return dx, (dy.abs() * y).sum((0, 2, 3)), dy.abs().sum((0, 2, 3))

    def prepare(dy, x, weight, mean, scale):
        v = x.to(F32).unflatten(1, (groups, -1))
        var, mean = torch.var_mean(v, (2, 3, 4), correction=0)
        return dy, x, weight, mean, (var + EPSILON).rsqrt()

    statistics = Input(F32, "BG")
    return Formula(
        computed(dtype, step),
        eager,
        (images(dtype, layout), images(dtype, layout, 1.0), Input(dtype, "C"), statistics, statistics),
        ("BCHW", "C", "C"),
        terms,
        prepare,
    )


@dataclass(frozen=True)
class Groups:
    """Images whose channels are in groups: as [B, groups, channels of one, H, W], or as they are if each is a group."""

    channels: int
    groups: int

    @property
    def axes(self) -> list[int]:
        return [2, 3] if self.groups == self.channels else [2, 3, 4]

    def split(self, ops, x):
        if self.groups == self.channels:
            return x
        shape = ops.shape(x)
        return ops.reshape(x, [shape[0], self.groups, self.channels // self.groups, shape[2], shape[3]])

    def joined(self, ops, v, like):
        return v if self.groups == self.channels else ops.reshape(v, ops.shape(like))

    def spread(self, ops, x):
        return spread(ops, x, self.axes, 2 + len(self.axes))

    def mean(self, x: torch.Tensor) -> torch.Tensor:
        """Of torch tensors: of each group, as large as x."""
        v = x.unflatten(1, (self.groups, -1))
        return v.mean((2, 3, 4), keepdim=True).expand_as(v).flatten(1, 2)

    def terms(self, x: torch.Tensor) -> torch.Tensor:
        """The absolute values of what makes a normalised value."""
        mean = self.mean(x)
        return (x.abs() + mean.abs()) * (self.mean((x - mean).square()) + EPSILON).rsqrt()
