"""The blocks of examples/blocks agree with torch, and their texts for the tests in Go are those of today."""

import runpy
import sys

import pytest
import torch
from block_corpus import BLOCKS, CORPUS, EXAMPLES, MODULES, holds, text

# block_corpus puts the folder of examples on the path
from block import Block, Draw, excess  # isort: skip

pytestmark = pytest.mark.usefixtures("one_thread")
EACH = pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)


@EACH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_agrees_with_torch(block: Block, dtype: torch.dtype) -> None:
    inputs = block.inputs(Draw(dtype=dtype), **block.sizes["small"])
    holds(block, block.fusion(inputs, dynamic=False), inputs)


@EACH
def test_agrees_for_sizes_left_open(block: Block) -> None:
    inputs = block.inputs(Draw(), **block.sizes["small"])
    fd = block.fusion(inputs, dynamic=True)
    for name in ("small", "other", "single", "empty", "small"):
        if name in block.sizes:
            holds(block, fd, block.inputs(Draw(seed=1), **block.sizes[name]))


@EACH
def test_text_of_the_corpus(block: Block) -> None:
    assert (CORPUS / f"{block.name}.fusion").read_text() == text(block), "run tests/python/block_corpus.py"


def test_the_corpus_has_these_blocks_alone() -> None:
    assert {path.stem for path in CORPUS.glob("*.fusion")} == {block.name for block in BLOCKS}


@pytest.mark.parametrize("module", MODULES)
def test_the_example_runs(module: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", [module])
    runpy.run_path(str(EXAMPLES / f"{module}.py"), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) == 2 * sum(block.define.__module__ == module for block in BLOCKS)


def test_excess() -> None:
    want = torch.tensor([1.0, -2.0, 1000.0], dtype=torch.float64)
    same = want.bfloat16()
    assert excess(same, same, want) == 0
    assert excess(torch.tensor([1.0, -2.0, 1004.0]).bfloat16(), same, want) == 1  # one unit in the last place
    assert excess(torch.tensor([1.0, -2.03125, 1000.0]).bfloat16(), same, want) == 2
    assert (
        excess(torch.tensor([1.0, -2.0625, 1000.0]).bfloat16(), torch.tensor([1.0, -2.0, 1016.0]).bfloat16(), want) < 1
    )
    assert excess(torch.tensor([1.0, float("nan"), 1000.0]).bfloat16(), same, want) == float("inf")
    infinite = torch.tensor([float("inf"), float("nan"), 1.0])
    assert excess(infinite, infinite, infinite.double()) == 0
    assert excess(-infinite, infinite, infinite.double()) == float("inf")
    assert excess(torch.tensor([1, 2]), torch.tensor([1, 3]), torch.tensor([1, 3])) == float("inf")
    with pytest.raises(AssertionError, match=r"got torch.float32 \(3,\), torch has torch.bfloat16 \(3,\)"):
        excess(same.float(), same, want)
