"""Random chains of operations on the device against torch: a part of what tests/python/run_chains.py runs."""

import pytest
import torch
from chains import check
from device import execute, put

PARTS, PROGRAMS = 16, 25


@pytest.mark.parametrize("part", range(PARTS))
def test_chains(part: int) -> None:
    def run(fd, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [x.cpu() for x in execute(fd, [put(x) for x in inputs])]

    for seed in range(part * PROGRAMS, (part + 1) * PROGRAMS):
        wrong = check(seed, run)
        assert wrong is None, wrong
