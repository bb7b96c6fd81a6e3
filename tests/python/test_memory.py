"""A call of a block needs no more memory than eager torch, as benchmarks/memory.py follows both without a GPU."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import memory
from memory import UNIT, Counter

from nvfuser_go import FusionDefinition

MIB = 1 << 20


@pytest.mark.parametrize("block", memory.blocks(), ids=lambda block: block.name)
def test_a_block_needs_no_more_than_eager(block) -> None:
    plan = memory.planned(block, "large")
    ours = memory.of_plan(plan).peak
    assert plan["bytes"] <= ours <= memory.of_eager(block, "large").peak


def test_storages_are_counted_while_they_are_there() -> None:
    x = torch.empty(MIB, dtype=torch.uint8)
    with Counter([x]) as counter:
        a = x + 1
        b = a.view(2, -1)  # the same storage
        del a
        c = b + 1
        del b
        d = torch.empty(1)
        x.add_(1)
    assert counter.peak == 2 * MIB
    assert counter.steps[-1][1] == MIB + UNIT
    del c, d


def planned(define, *inputs: torch.Tensor) -> dict:
    with FusionDefinition() as fd:
        define(fd, *(fd.from_pytorch(x) for x in inputs))
    return memory.plan_memory(fd, list(inputs))


def test_a_run_takes_what_its_calls_take() -> None:
    """A product of matrices that are repeated copies them; the counts know it from torch alone."""

    def define(fd, x, w):
        fd.add_output(fd.ops.matmul(fd.ops.broadcast_in_dim(x, [4, 8, 64, 128], [1, 2, 3]), w))

    x, w = torch.empty(8, 64, 128, dtype=torch.bfloat16), torch.empty(4, 8, 128, 64, dtype=torch.bfloat16)
    plan = planned(define, x, w)
    assert plan["bytes"] == 4 * 8 * 64 * 64 * 2
    assert memory.of_plan(plan).peak == plan["bytes"] + 4 * x.nbytes


def test_a_product_in_batches_copies_nothing() -> None:
    """A kernel stores matrices that do not lie one after another; others, and those of one batch, stay."""

    def define(order):
        return lambda fd, x, w: fd.add_output(fd.ops.matmul(fd.ops.permute(x, order), w))

    result = 8 * 4 * 64 * 64 * 2
    for shape, order, stored in (
        ((4, 8, 64, 128), [1, 0, 2, 3], True),
        ((8, 64, 4, 128), [0, 2, 1, 3], True),
        ((8, 4, 128, 64), [0, 1, 3, 2], False),
        ((8, 128, 4, 64), [0, 2, 3, 1], True),
        ((1, 64, 32, 128), [0, 2, 1, 3], False),
    ):
        x = torch.empty(shape, dtype=torch.bfloat16)
        w = torch.empty(*(shape[d] for d in order[:2]), 128, 64, dtype=torch.bfloat16)
        plan = planned(define(order), x, w)
        copied = x.nbytes if stored else 0
        assert plan["bytes"] == result + copied, order
        assert memory.of_plan(plan).peak == plan["bytes"], order


def test_what_is_kept_longer_is_seen() -> None:
    def define(fd, x):
        for _ in range(3):
            x = fd.ops.sin(fd.ops.matmul(x, x))
        fd.add_output(x)

    plan = planned(define, torch.empty(1024, 1024))
    assert plan["bytes"] == memory.of_plan(plan).peak == 2 * 4 * MIB
    for phase in plan["phases"]:
        phase["releases"] = []
    assert memory.of_plan(plan).peak == 6 * 4 * MIB
