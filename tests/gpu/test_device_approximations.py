"""What is approximated for results of 16 bits: how far beyond the rounding of the result it is, over all numbers of 16
bits and a million of Float. The table of docs/decisions/0023-approximations.md has the bounds.
"""

import math
from collections.abc import Callable

import pytest
import torch
from device import REHEARSAL, execute, put

from nvfuser_go import DataType, FusionDefinition

NUMBERS = 2_000 if REHEARSAL else 1_000_000
EXP, DIVIDE = 2.0**-17, 2.0**-21


def one_more(name: str) -> Callable:
    return lambda ops, x: ops.add(getattr(ops, name)(x), 1.0)


# By name: in the fusion, in torch, the bound, and from which number on it holds: less is left out, but for infinity.
UNARY: dict[str, tuple[Callable, Callable, float, float]] = {
    "exp": (lambda ops, x: ops.exp(x), torch.exp, EXP, -math.inf),
    "exp2": (lambda ops, x: ops.exp2(x), torch.exp2, 2.0**-20, -math.inf),
    "sqrt": (lambda ops, x: ops.sqrt(x), torch.sqrt, DIVIDE, -math.inf),
    "reciprocal": (lambda ops, x: ops.reciprocal(x), torch.reciprocal, DIVIDE, -math.inf),
    "sigmoid": (lambda ops, x: ops.sigmoid(x), torch.sigmoid, EXP + DIVIDE, -math.inf),
    "silu": (lambda ops, x: ops.silu(x), torch.nn.functional.silu, EXP + DIVIDE, -math.inf),
    "1 + tanh": (one_more("tanh"), lambda x: 2 * torch.sigmoid(2 * x), EXP + DIVIDE, -43.0),
    "1 + erf": (one_more("erf"), lambda x: torch.special.erfc(-x), 2.0**-15.46, -9.1),
}
TYPES = {torch.bfloat16: DataType.BFloat16, torch.float16: DataType.Half, torch.float32: DataType.Float}


def numbers(dtype: torch.dtype) -> torch.Tensor:
    """All of a type of 16 bits; of Float, any bits, and numbers of the size that functions are called with."""
    random = torch.Generator().manual_seed(3)
    if dtype != torch.float32:
        every = torch.arange(-(1 << 15), 1 << 15, 64 if REHEARSAL else 1).to(torch.int16).view(dtype)
        return every
    bits = torch.randint(-(1 << 31), 1 << 31, (NUMBERS,), generator=random).to(torch.int32).view(torch.float32)
    return torch.cat([bits, torch.randn(NUMBERS, generator=random) * 20])


def beyond(got: torch.Tensor, want: torch.Tensor) -> float:
    """By how much of the exact result (Double) got is further from it than rounding makes it."""
    rounded = want.to(got.dtype)
    assert torch.equal(got.isnan(), rounded.isnan())
    finite = want.isfinite() & rounded.isfinite() & got.isfinite()
    # An infinity stands for what is beyond the largest number by a rounding.
    largest = torch.finfo(got.dtype).max
    same = (got == rounded) | got.isnan() | finite | (want.abs() > largest * (1 - 2**-12)) & (got.abs() >= largest)
    assert same.all(), f"{got[~same][:4]} for {want[~same][:4]}"
    got, want, rounded = got[finite].double(), want[finite], rounded[finite].double()
    excess = (got - want).abs() - (rounded - want).abs()
    # A neighbour that is as near but for the error is further by twice the error.
    excess = torch.where(got == rounded, 0.0, excess) / 2
    return (excess / want.abs().clamp(min=torch.finfo(torch.float32).tiny)).max().item() if len(want) else 0.0


def told(record_property: Callable, error: float) -> float:
    """The error, which the report of the run gets as a power of two."""
    record_property("error", f"2^{math.log2(max(error, 2.0**-40)):.1f}")
    return error


def error_of(x: torch.Tensor) -> float:
    return 2.0**-23 if x.dtype == torch.float32 else 0.0


@pytest.mark.parametrize("to", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("of", list(TYPES), ids=str)
@pytest.mark.parametrize("name", list(UNARY))
def test_functions(name: str, of: torch.dtype, to: torch.dtype, record_property):
    record, function, bound, least = UNARY[name]
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, TYPES[of])
        fd.add_output(fd.ops.cast(record(fd.ops, fd.ops.cast(x, DataType.Float)), TYPES[to]))
    x = numbers(of)
    x = x[x.isinf() | ~(x < least)]
    (got,) = execute(fd, [put(x)])
    error = told(record_property, beyond(got.cpu(), function(x.double())))
    assert error <= bound + error_of(x)


@pytest.mark.parametrize("shared", [False, True], ids=["each its own divisor", "a divisor a row"])
@pytest.mark.parametrize("to", [torch.bfloat16, torch.float16], ids=str)
def test_division(to: torch.dtype, shared: bool, record_property):
    rows, columns = 64, NUMBERS // 64
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True], DataType.Float)
        y = fd.define_tensor([-1, 1 if shared else -1], [True, None if shared else True], DataType.Float)
        fd.add_output(fd.ops.cast(x / y, TYPES[to]))
    x = numbers(torch.float32)[: rows * columns].view(rows, columns)
    corners = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-39, 1e-45, 1.2e-38, 3.4e38, -2e38, 1.0, 3.0, 6e-39, -1e-40]
    y = numbers(torch.float32).flip(0)[: rows * columns].view(rows, columns).clone()
    y[: len(corners), 0] = torch.tensor(corners)
    x[:, : len(corners)] = torch.tensor(corners)
    y = y[:, :1].contiguous() if shared else y
    (got,) = execute(fd, [put(x), put(y)])
    error = told(record_property, beyond(got.cpu(), x.double() / y.double()))
    assert error <= DIVIDE + 2.0**-23


@pytest.mark.parametrize("to", [torch.bfloat16, torch.float16], ids=str)
def test_softmax_of_rows_with_infinities(to: torch.dtype):
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True], TYPES[to])
        e = fd.ops.exp(x - fd.ops.max(x, 1, keepdim=True))
        fd.add_output(fd.ops.cast(e / fd.ops.sum(e, 1, keepdim=True), TYPES[to]))
    x = torch.randn(8, 1000, generator=torch.Generator().manual_seed(5)).mul(8).to(to)
    x[0], x[1, 3:], x[2, 5], x[3, 7], x[4] = -math.inf, -math.inf, math.inf, math.nan, 3.0
    (got,) = execute(fd, [put(x)])
    want = torch.softmax(x.double(), 1)
    torch.testing.assert_close(got.cpu().double(), want, rtol=torch.finfo(to).eps, atol=2.0**-24, equal_nan=True)
