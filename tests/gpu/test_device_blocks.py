"""Blocks of models on the device agree with torch: static and dynamic, first and second call."""

import pytest
import torch
from block_corpus import BLOCKS, holds
from device import DEVICE

# block_corpus puts the folder of examples on the path
from block import Block, Draw  # isort: skip

pytestmark = [pytest.mark.cuda]
EACH = pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)


@EACH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_agrees_with_torch(block: Block, dtype: torch.dtype) -> None:
    inputs = block.inputs(Draw(DEVICE, dtype=dtype), **block.sizes["small"])
    holds(block, block.fusion(inputs, dynamic=False), inputs)


@EACH
def test_agrees_for_sizes_left_open(block: Block) -> None:
    inputs = block.inputs(Draw(DEVICE), **block.sizes["small"])
    fd = block.fusion(inputs, dynamic=True)
    for name in ("small", "other", "single", "empty", "small"):  # large ones do not fit beside other tests
        if name in block.sizes:
            holds(block, fd, block.inputs(Draw(DEVICE, seed=1), **block.sizes[name]))
