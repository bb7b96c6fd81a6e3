"""Positions that are out of range, as errors: what NVFUSER_ENABLE=index_check does.

Without it they read 0 and write nothing. With it a fusion has more outputs, which bound the positions that tensors
list; they are looked at after each run, which waits for the device. What the fusion writes into its inputs is written
by then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nvfuser_go import _C
from nvfuser_go.errors import InvalidArgument, Unsupported

# Outputs of each check: the smallest position, the largest one, and the size of the dimension.
_BOUNDS = 3


@dataclass(frozen=True)
class _Check:
    """An operation that a tensor tells positions."""

    operation: str
    index: str  # the argument that lists them
    tensor: str  # its name
    is_unsigned: bool
    of: str  # the argument that is indexed
    dim: int
    where: str

    def look(self, smallest: int, largest: int, size: int) -> None:
        """Raises InvalidArgument if positions are out of range."""
        if smallest >= 0 and largest < size:
            return
        found = largest if smallest >= 0 else smallest
        if self.is_unsigned and found < 0:
            found += 2**64
        if smallest > largest:  # of no positions
            return
        where = f" (defined at {self.where})" if self.where else ""
        raise InvalidArgument(
            f"{self.operation}(): elements of {self.index} ({self.tensor}) must be from 0 to the size of dimension "
            f"{self.dim} of {self.of} less 1, got {found} and {size}{where}"
        )


class IndexChecks:
    """A fusion with outputs that bound its positions, and what they say."""

    def __init__(self, fusion: _C.Fusion) -> None:
        self.fusion, text = fusion.index_checks()
        self._checks = []
        for line in text.splitlines():
            operation, index, tensor, unsigned, of, dim, where = line.split("\t", 6)
            self._checks.append(_Check(operation, index, tensor, unsigned == "1", of, int(dim), where))

    def execute(self, executor: _C.Executor, inputs: Iterable[Any], device: int) -> list[Any]:
        """The outputs of the fusion that is checked, by an executor of the one with more outputs.

        Raises InvalidArgument for a position that is out of range, Unsupported while a graph is captured: no host
        looks at what its replays compute.
        """
        if self._checks and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise Unsupported(
                "index_check looks at positions after each run, and a CUDA graph is being captured: "
                "capture without it, or run without a graph"
            )
        outputs = executor.execute(inputs, device)
        own = len(outputs) - _BOUNDS * len(self._checks)
        bounds = _numbers(outputs[own:])
        for k, check in enumerate(self._checks):
            check.look(*bounds[_BOUNDS * k : _BOUNDS * (k + 1)])
        return outputs[:own]


def _numbers(values: Sequence[Any]) -> list[int]:
    if values and isinstance(values[0], torch.Tensor):
        return torch.stack(list(values)).tolist()
    return [int(x) for x in values]
