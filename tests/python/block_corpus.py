"""Writes the fusions of examples/blocks as text, for the tests in Go: `python tests/python/block_corpus.py`.

A text has its sizes left open. Comments before it give sets of inputs, a word for each: the sizes of a tensor, "-"
for one without dimensions, or the value of a scalar.
"""

import importlib
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "blocks"
CORPUS = ROOT / "tests" / "go" / "testdata" / "corpus" / "blocks"

sys.path.insert(0, str(EXAMPLES))

from block import Block, Draw, agreement  # noqa: E402

MODULES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "block")
BLOCKS: list[Block] = [block for name in MODULES for block in importlib.import_module(name).BLOCKS]


def holds(block: Block, fd, inputs: list) -> None:
    """Asserts that two calls agree with torch."""
    for attempt in range(2):
        worst = agreement(block, fd, inputs)
        assert max(worst) <= 1, f"call {attempt}: the excess of each output and input tensor is {worst}"


def word(x: object) -> str:
    return ("x".join(map(str, x.shape)) or "-") if isinstance(x, torch.Tensor) else repr(x)


def text(block: Block) -> str:
    """The contents of the file of a block."""
    comments = []
    for name in ("small", "single", "empty", "large"):
        if name not in block.sizes:
            continue
        inputs = block.inputs(Draw("meta"), **block.sizes[name])
        comments.append(" ".join(["#", name, *map(word, inputs)]) + "\n")
    return "".join(comments) + block.fusion(inputs, dynamic=True).fusion.text()


if __name__ == "__main__":
    CORPUS.mkdir(exist_ok=True)
    for old in CORPUS.glob("*.fusion"):
        old.unlink()
    for block in BLOCKS:
        (CORPUS / f"{block.name}.fusion").write_text(text(block))
