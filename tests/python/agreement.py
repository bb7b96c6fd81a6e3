"""Runs a program of a fusion beside the same in torch."""

from collections.abc import Callable

import torch
from sweep_values import TORCH, describe

from nvfuser_go import DataType, FusionDefinition

OF = {t: d for d, t in TORCH.items() if d is not DataType.Index}


def randn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def integers(low: int, high: int, shape: tuple, seed: int = 0) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def agree(program: Callable, expected: Callable, *inputs, rtol: float | None = None, atol: float | None = None) -> None:
    """Holds a program of tensors and numbers against torch, with sizes known and unknown, twice."""
    want = expected(*inputs)
    want = list(want) if isinstance(want, tuple | list) else [want]
    for dynamic in (False, True):
        with FusionDefinition() as fd:
            args = [
                fd.define_tensor(**describe(x, OF[x.dtype], dynamic))
                if isinstance(x, torch.Tensor)
                else fd.define_scalar(dtype=DataType.Int if isinstance(x, int) else DataType.Double)
                for x in inputs
            ]
            out = program(fd, *args)
            for t in out if isinstance(out, tuple | list) else [out]:
                fd.add_output(t)
        for attempt in range(2):
            got = fd.execute(list(inputs))
            assert len(got) == len(want)
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                where = f"output {i}, dynamic {dynamic}, run {attempt}: "
                torch.testing.assert_close(
                    g, w, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text, where=where: where + text
                )
