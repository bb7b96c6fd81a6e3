"""What the blocks have in common: how one is defined, given inputs, compared with torch and timed.

A block is a function that defines a fusion, a function that makes its inputs, and the same in plain torch. Each file of
this folder is a program: `python examples/blocks/adamw.py [--large]` runs its blocks on the GPU if there is one, else
on the CPU, and prints how well they agree with torch and what a call takes.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nvfuser_go import DataType, FusionDefinition, torch_dtype_to_nvfuser_dtype

Inputs = list[Any]


class Draw:
    """Makes tensors on a device from a seed; draw(2, 3) is one of normally distributed elements of `dtype`.

    The numbers are drawn on the CPU, so that they are the same for every device. On "meta" there are none, which is
    enough to define a fusion of large sizes.
    """

    def __init__(self, device: str | torch.device = "cpu", dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> None:
        self.device, self.dtype = torch.device(device), dtype
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, dtype: torch.dtype | None = None, scale: float = 1.0) -> torch.Tensor:
        dtype = dtype or self.dtype
        if self.device.type == "meta":
            return torch.empty(shape, dtype=dtype, device="meta")
        return (torch.randn(shape, generator=self._generator) * scale).to(self.device, dtype)

    def weight(self, outputs: int, inputs: int) -> torch.Tensor:
        """A matrix of a linear layer, [outputs, inputs], of the scale at which layers are initialised."""
        return self(outputs, inputs, scale=inputs**-0.5)

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        """int64 numbers from 0 up to, not including, high."""
        return torch.randint(high, shape, generator=self._generator).to(self.device)


@dataclass(frozen=True)
class Block:
    """A computation as users write it.

    name: what tests and tables call it.
    define: adds the operations and outputs to a fusion, given it and its inputs.
    inputs: makes the inputs, tensors and numbers, from a Draw and sizes by name.
    reference: computes the same with torch, writing to the inputs that the fusion writes to. It works in the types of
        the inputs, float32 where the fusion does for narrower ones, so that given float64 it is the exact result.
    sizes: by "small"; "other", "single" with sizes of 1 and, if torch takes that, "empty" with sizes of 0, for the same
        definition if that leaves sizes open; and "large", for a GPU.
    ulps: the error that is allowed whatever torch's is, in units in the last place.
    """

    name: str
    define: Callable[..., None]
    inputs: Callable[..., Inputs]
    reference: Callable[..., Sequence[torch.Tensor]]
    sizes: dict[str, dict[str, int]]
    ulps: int = 1

    def fusion(self, inputs: Inputs, dynamic: bool) -> FusionDefinition:
        """The definition for inputs of this description; with `dynamic` all sizes but 1 are left open."""
        with FusionDefinition() as fd:
            self.define(fd, *(_declared(fd, x, dynamic) for x in inputs))
        return fd


def _declared(fd: FusionDefinition, x: Any, dynamic: bool) -> Any:
    if isinstance(x, torch.Tensor):
        shape = [-1 if dynamic and n != 1 else n for n in x.shape]
        return fd.define_tensor(shape=shape, contiguity=True, dtype=torch_dtype_to_nvfuser_dtype(x.dtype))
    return fd.define_scalar(dtype=DataType.Int if isinstance(x, int) else DataType.Double)


# ---- What definitions and references share ----


def wide(fd: FusionDefinition, x: Any) -> Any:
    """x as float32, in which narrower types are computed."""
    return fd.ops.cast(x, DataType.Float)


def like(fd: FusionDefinition, x: Any, other: Any) -> Any:
    """x converted to the type of other."""
    return fd.ops.cast(x, other.dtype())


def mean(fd: FusionDefinition, x: Any, dim: int) -> Any:
    """The mean along a dimension, which stays with size 1."""
    return fd.ops.sum(x, [dim], keepdim=True) / x.size(dim)


def rows(fd: FusionDefinition, x: Any) -> Any:
    """[batch, tokens, width] as the matrix [batch * tokens, width]."""
    b, t, c = x.shape()
    return fd.ops.reshape(x, [b * t, c])


def transposed(fd: FusionDefinition, x: Any) -> Any:
    """x with its last two dimensions exchanged."""
    n = len(x.shape())
    return fd.ops.permute(x, [*range(n - 2), n - 1, n - 2])


def split_heads(fd: FusionDefinition, x: Any, heads: int) -> Any:
    """[batch, tokens, width] as [batch, heads, tokens, width / heads]."""
    b, t, c = x.shape()
    return fd.ops.permute(fd.ops.reshape(x, [b, t, heads, c // heads]), [0, 2, 1, 3])


def merge_heads(fd: FusionDefinition, x: Any) -> Any:
    """[batch, heads, tokens, size] as [batch, tokens, heads * size]."""
    b, h, t, d = x.shape()
    return fd.ops.reshape(fd.ops.permute(x, [0, 2, 1, 3]), [b, t, h * d])


def linear_gradients(fd: FusionDefinition, grad: Any, x: Any, weight: Any) -> tuple[Any, Any, Any]:
    """The gradients of linear(x, weight, bias) with regard to the three, from that of its result."""
    flat = rows(fd, grad)
    to_weight = fd.ops.matmul(transposed(fd, flat), rows(fd, x))
    to_bias = like(fd, fd.ops.sum(wide(fd, flat), [0]), weight)
    return fd.ops.matmul(grad, weight), to_weight, to_bias


def layer_norm(fd: FusionDefinition, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    """Layer norm over the last dimension, in float32; the result has the type of x."""
    h = wide(fd, x)
    var, mu = fd.ops.var_mean(h, [-1], correction=0, keepdim=True)
    y = (h - mu) * fd.ops.rsqrt(var + eps)
    return like(fd, y * wide(fd, weight) + wide(fd, bias), x)


def kept(fd: FusionDefinition, x: Any, p: Any, seed: Any, offset: Any) -> Any:
    """Which elements of x a dropout of probability p keeps, a Bool tensor: a function of seed, offset and position."""
    draws = fd.ops.uniform(0.0, 1.0, x.shape(), rng_seed=seed, rng_offset=offset, dtype=DataType.Float)
    return draws >= p


def dropout(fd: FusionDefinition, x: Any, p: Any, seed: Any, offset: Any) -> Any:
    """Dropout of x, which is Float. It is its own gradient: the same mask times the same number."""
    return fd.ops.where(kept(fd, x, p, seed, offset), x / (1.0 - p), 0.0)


def torch_wide(x: torch.Tensor) -> torch.Tensor:
    """x as float32, or as it is if it is float64."""
    return x if x.dtype is torch.float64 else x.float()


def torch_split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    b, t, c = x.shape
    return x.view(b, t, heads, c // heads).transpose(1, 2)


def torch_merge_heads(x: torch.Tensor) -> torch.Tensor:
    b, h, t, d = x.shape
    return x.transpose(1, 2).reshape(b, t, h * d)


def torch_layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    y = torch.nn.functional.layer_norm(torch_wide(x), x.shape[-1:], torch_wide(weight), torch_wide(bias), eps)
    return y.to(x.dtype)


def torch_kept(x: torch.Tensor, p: float, seed: int, offset: int) -> torch.Tensor:
    """The mask of kept(). torch draws other numbers for a seed, so these come from a fusion that does nothing else."""
    with FusionDefinition() as fd:
        numbers = fd.ops.uniform(0.0, 1.0, list(x.shape), rng_seed=seed, rng_offset=offset, dtype=DataType.Float)
        fd.add_output(numbers)
    return fd.execute([], device=x.device)[0] >= p


def torch_dropout(x: torch.Tensor, p: float, seed: int, offset: int) -> torch.Tensor:
    return torch.where(torch_kept(x, p, seed, offset), x / (1 - p), 0.0)


def gradients(function: Callable[..., torch.Tensor], grad: torch.Tensor, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """What torch's autograd gives for the inputs of function, from the gradient of its result."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    return list(torch.autograd.grad(function(*leaves), leaves, grad))


# ---- Agreement ----


def exact(x: Any) -> Any:
    """x in float64, if it is a tensor of floating-point numbers."""
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def copies(inputs: Inputs) -> Inputs:
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]


def tensors(inputs: Inputs) -> list[torch.Tensor]:
    return [x for x in inputs if isinstance(x, torch.Tensor)]


def excess(got: torch.Tensor, same: torch.Tensor, want: torch.Tensor, ulps: int = 1) -> float:
    """How far `got` is from `want`, the result in float64, as a multiple of what is allowed; at most 1 is fine.

    Allowed is twice the largest error of `same`, torch's result in the type of `got`, or `ulps` units in the last
    place. What is not floating-point, or not finite, must be equal: the result is 0 or infinite.
    """
    if got.dtype != same.dtype or got.shape != same.shape:
        raise AssertionError(f"got {got.dtype} {tuple(got.shape)}, torch has {same.dtype} {tuple(same.shape)}")
    if not got.is_floating_point():
        return 0.0 if torch.equal(got, same) else float("inf")
    finite = same.isfinite()
    special = [torch.where(finite, 0.0, x).nan_to_num(nan=1.0) for x in (got, same)]
    if not torch.equal(*special) or not got[finite].isfinite().all():
        return float("inf")
    if not finite.any():
        return 0.0
    a, b, c = got[finite].double(), same[finite].double(), want[finite].double()
    info = torch.finfo(got.dtype)
    ulp = info.eps * torch.exp2(torch.floor(torch.log2(c.abs().clamp(min=info.tiny))))
    return ((a - c).abs() / torch.maximum(ulps * ulp, 2 * (b - c).abs().max())).max().item()


def agreement(block: Block, fd: FusionDefinition, inputs: Inputs) -> list[float]:
    """Executes fd, and returns the excess of each output, then of each input tensor after it. Inputs are left alone."""
    ours, theirs, exactly = copies(inputs), copies(inputs), [exact(x) for x in copies(inputs)]
    got = [*fd.execute(ours), *tensors(ours)]
    same = [*block.reference(*theirs), *tensors(theirs)]
    want = [*block.reference(*exactly), *tensors(exactly)]
    if len(got) != len(same):
        raise AssertionError(f"{len(got)} outputs and input tensors, torch has {len(same)}")
    return [excess(*three, block.ulps) for three in zip(got, same, want, strict=True)]


# ---- The programs ----


def seconds(run: Callable[[], Any], device: torch.device) -> float:
    """The best of a few times of run()."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def main(*blocks: Block) -> None:
    """Runs blocks with sizes known and unknown, prints a line for each, and fails if one differs from torch."""
    size = "large" if "--large" in sys.argv[1:] else "small"
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for block in blocks:
        inputs = block.inputs(Draw(device), **block.sizes[size])
        for dynamic in (False, True):
            fd = block.fusion(inputs, dynamic)
            worst = max(agreement(block, fd, inputs))
            ours, theirs = copies(inputs), copies(inputs)
            fused = seconds(lambda fd=fd, ours=ours: fd.execute(ours), device)
            eager = seconds(lambda block=block, theirs=theirs: block.reference(*theirs), device)
            print(
                f"{block.name}, {'dynamic' if dynamic else 'static'} sizes: error {worst:.2f} of what is allowed,"
                f" {fused * 1e3:.2f} ms a call, torch {eager * 1e3:.2f} ms"
            )
            assert worst <= 1
