"""Reductions and softmax where rounding would show: long sums, large means, large logits, rows that are masked."""

import math

import pytest
import torch
from norms import OF_ROWS, Case, same_bits

from nvfuser_go import DataType, FusionDefinition

CALLS = {"cpu": [], "simulated": ["simulate"]}


def of(x: torch.Tensor, define, how: str) -> list[torch.Tensor]:
    with FusionDefinition() as fd:
        define(fd, fd.from_pytorch(x))
    return fd.execute([x], _enable_options=CALLS[how])


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    return (got.double() - want).abs().max().item()


@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_long_sums(how: str, dtype: torch.dtype) -> None:
    """The error is at most twice that of torch in float32, of numbers of one sign, too."""
    x = torch.rand(1, 1 << 20, generator=torch.Generator().manual_seed(3)).to(dtype)
    (got,) = of(x, lambda fd, t: fd.add_output(fd.ops.sum(fd.ops.cast(t, DataType.Float), [1])), how)
    want = x.double().sum(1)
    assert error(got, want) <= max(2 * error(x.float().sum(1), want), want.item() * 2**-23)


@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("width", [2, 3, 33, 1000, 4096])
def test_variance_of_what_is_equal(how: str, width: int) -> None:
    """It is 0, and the mean is the number: partial means that differ in the last bit would give a variance."""
    x = torch.tensor([[1e4 / 3], [0.1], [-7e30], [3.4e38]]).expand(4, width).contiguous()

    def define(fd, t):
        for out in fd.ops.var_mean(t, [1], correction=0):
            fd.add_output(out)

    variance, mean = of(x, define, how)
    assert torch.equal(variance, torch.zeros(4)) and torch.equal(mean, x[:, 0])


@pytest.mark.parametrize("how", CALLS)
def test_variance_at_a_large_mean(how: str) -> None:
    """Kernels keep the mean of what a thread has in float32, where it is known to 2^-11 of the deviation here, as
    torch's kernels do; on the CPU both add up in double precision. The mean of squares less the square of the mean
    would have no digit."""
    x = torch.randn(3, 4096, generator=torch.Generator().manual_seed(4)) + 1e4

    def define(fd, t):
        for out in fd.ops.var_mean(t, [1], correction=0):
            fd.add_output(out)

    variance, mean = of(x, define, how)
    wants = torch.var_mean(x.double(), 1, correction=0)
    theirs = torch.var_mean(x, 1, correction=0)
    for got, other, want in zip((variance, mean), theirs, wants, strict=True):
        known = 2**-14 if how == "simulated" and got is variance else 2**-23
        assert error(got, want) <= max(2 * error(other, want), want.abs().max().item() * known)


@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("width", [2, 3, 7, 33, 100])
def test_mean_of_few(how: str, width: int) -> None:
    """To a unit in the last place of the mean of absolute values: also if the first number is far from the others."""
    x = torch.randn(256, width, generator=torch.Generator().manual_seed(7))
    x[::2, 0] *= 30

    def define(fd, t):
        for out in fd.ops.var_mean(t, [1], correction=0):
            fd.add_output(out)

    _, mean = of(x, define, how)
    want, unit = x.double().mean(1), 2.0**-23 * (x.double().mean(1).abs() + x.double().abs().mean(1))
    assert ((mean.double() - want).abs() / unit).max() <= 1


def softmax(fd, t, log: bool):
    x = fd.ops.cast(t, DataType.Float)
    x = x - fd.ops.max(x, [1], keepdim=True)
    e = fd.ops.exp(x)
    total = fd.ops.sum(e, [1], keepdim=True)
    fd.add_output(x - fd.ops.log(total) if log else e / total)


@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("width", [1, 33, 1000, 1025])
def test_large_logits_and_masked_rows(how: str, log: bool, width: int) -> None:
    """Also where parts of a row, or all of it, are minus infinity."""
    x = 1000 + 30 * torch.randn(9, width, generator=torch.Generator().manual_seed(5))
    x[1] -= 3e4
    x[2, : width // 2] = -math.inf
    x[3, 1:] = -math.inf
    x[4] = -math.inf
    x[5, width // 3] = math.inf
    x[6, width // 2] = math.nan
    x[7] = 88.0
    x[8] *= 1e35
    (got,) = of(x, lambda fd, t: softmax(fd, t, log), how)
    by = torch.log_softmax if log else torch.softmax
    theirs, want = by(x, 1), by(x.double(), 1)
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.isinf(), want.isinf())
    usual = want.isfinite()
    unit = 2**-23 * want.abs().clamp(min=2**-126)
    mine, other = ((y.double() - want).abs().div(unit).where(usual, 0).max().item() for y in (got, theirs))
    assert mine <= max(2 * other, 1)


@pytest.mark.parametrize("name", ["softmax", "cross entropy", "sum", "var_mean"])
def test_bits_do_not_depend_on_the_run(name: str) -> None:
    case = Case(name, OF_ROWS[name](torch.bfloat16), {"M": 3, "N": 4098})
    inputs = case.inputs("cpu")
    runs = [case.program(inputs).fusion().execute(inputs, _enable_options=["simulate"]) for _ in range(2)]
    assert all(same_bits(x, y) for x, y in zip(*runs, strict=True))
