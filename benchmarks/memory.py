"""How much memory a call of a block needs on a GPU, beside eager torch, without a GPU.

    python benchmarks/memory.py [--size large|small] [--blocks REGEX] [--steps]

Both are followed with tensors that have no elements: the plan of the block, phase by phase, with the calls of torch
between as a run makes them, and the reference of the block. Counted is what storages there are at a time, each rounded
up to 512 bytes as torch's allocator does. What kernels of torch take for themselves, such as cuBLAS, is not seen.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "examples" / "blocks"))

import block as examples  # noqa: E402
from block import Block, Draw  # noqa: E402
from blocks import MIB, blocks  # noqa: E402

from nvfuser_go import FusionDefinition, FusionExecutorCache  # noqa: E402
from nvfuser_go.torch_calls import prepare_call  # noqa: E402

_aten = torch.ops.aten
UNIT = 512  # bytes


class Counter(TorchDispatchMode):
    """Counts the bytes of the storages that operations make while it is entered: `peak` at most at a time.

    known: tensors that are there before. found: how many positions nonzero() is taken to find.
    """

    def __init__(self, known: Sequence[Any] = (), found: int = 0) -> None:
        super().__init__()
        self._known = [x.untyped_storage() for x in known if isinstance(x, torch.Tensor)]
        self._ignored = {storage._cdata for storage in self._known}
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self._found = found
        self.peak = 0
        self.steps: list[tuple[str, int]] = []  # what was done, and the bytes after it

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is _aten.nonzero.default:
            result = args[0].new_empty((self._found, args[0].ndim), dtype=torch.int64)
        else:
            result = func(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            if isinstance(x, torch.Tensor):
                storage = x.untyped_storage()
                if storage._cdata not in self._ignored:
                    size = -(-storage.nbytes() // UNIT) * UNIT
                    self._alive[storage._cdata] = (StorageWeakRef(storage), size)
        self.note(str(func))
        return result

    def note(self, what: str) -> None:
        self._alive = {key: entry for key, entry in self._alive.items() if not entry[0].expired()}
        now = sum(size for _, size in self._alive.values())
        self.steps.append((what, now))
        self.peak = max(self.peak, now)


class OnDevice(TorchFunctionMode):
    """Has torch act as on a GPU where it would do otherwise: addresses, and attention by a kernel."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.data_ptr:
            x = args[0]
            return (x.untyped_storage()._cdata << 16) + x.storage_offset() * x.element_size() if x.numel() else 0
        if func is torch.nn.functional.scaled_dot_product_attention and args[0].element_size() == 2:
            causal = kwargs.get("is_causal", False)
            return _aten._scaled_dot_product_flash_attention(*args[:3], 0.0, causal, False)[0]
        return func(*args, **kwargs)


def drawn(x: torch.Tensor, p: float, seed: int, offset: int) -> torch.Tensor:
    return torch.rand(x.shape, dtype=torch.float32, device=x.device) >= p


def without_elements(block: Block, size: str, device: str) -> list[Any]:
    inputs = block.inputs(Draw("meta"), **block.sizes[size])
    return [torch.empty(x.shape, dtype=x.dtype, device=device) if isinstance(x, torch.Tensor) else x for x in inputs]


def of_eager(block: Block, size: str) -> Counter:
    """What the reference needs. Experts get equal shares of the tokens."""
    sizes = block.sizes[size]
    inputs = without_elements(block, size, "meta")
    found = 2 * sizes.get("tokens", 0) // sizes.get("experts", 1)
    with mock.patch.object(examples, "torch_kept", drawn), OnDevice(), Counter(inputs, found) as counter:
        results = block.reference(*inputs)
    del results
    return counter


def planned(block: Block, size: str) -> dict[str, Any]:
    """The plan of a block."""
    inputs = without_elements(block, size, "cpu")  # pages that are not touched take no memory
    fd = block.fusion(inputs, dynamic=False)
    return plan_memory(fd, inputs)


def plan_memory(fd: FusionDefinition, inputs: list[Any]) -> dict[str, Any]:
    """The plan of a fusion for inputs of the CPU, as for a GPU: the stage plan_memory."""
    return json.loads(FusionExecutorCache(fd.fusion)._show(inputs, 0, "plan_memory"))


def of_plan(plan: dict[str, Any]) -> Counter:
    """What a run of a plan needs, with the calls of torch that it makes."""
    counter, device = Counter(), torch.device("cuda", 0)
    with FakeTensorMode(), OnDevice():
        slots: dict[int, torch.Tensor] = {
            i: torch.empty(n, dtype=torch.uint8, device=device) for i, n in enumerate(plan["inputs"])
        }
        counter = Counter(list(slots.values()))
        with counter:
            for phase in plan["phases"]:
                for memory in phase["allocates"]:
                    slots[memory["slot"]] = torch.empty(memory["bytes"], dtype=torch.uint8, device=device)
                if phase["call"]:
                    _call(phase["call"], slots, device)
                for slot in phase["releases"]:
                    del slots[slot]
                counter.note("phase")
    return counter


def _call(call: dict[str, Any], slots: dict[int, torch.Tensor], device: torch.device) -> None:
    run = prepare_call(json.dumps(call["spec"]), tuple(_view(a) for a in call["arguments"]), device)
    results = run(*(slots[a["slot"]] if a["slot"] >= 0 else 1 for a in call["arguments"]))
    for result, memory in zip(results, call["results"], strict=True):
        if memory["slot"] >= 0:
            slots[memory["slot"]] = result


def _view(a: dict[str, Any]) -> Any:
    if a["slot"] < 0:
        return None
    return getattr(torch, a["dtype"]), tuple(a["sizes"]), tuple(a["strides"]), a["offset"]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="large", choices=["small", "large"])
    parser.add_argument("--blocks", metavar="REGEX", default="", help="only blocks whose names have this")
    parser.add_argument("--steps", action="store_true", help="what there is after each operation")
    arguments = parser.parse_args(argv)
    print("| block | MiB | without what torch takes in calls | eager: MiB |\n| --- | --- | --- | --- |")
    for block in blocks():
        if not re.search(arguments.blocks, block.name):
            continue
        plan = planned(block, arguments.size)
        ours, eager = of_plan(plan), of_eager(block, arguments.size)
        print(
            f"| {block.name} | " + " | ".join(f"{n / MIB:.2f}" for n in (ours.peak, plan["bytes"], eager.peak)) + " |"
        )
        if arguments.steps:
            for name, counter in (("plan", ours), ("eager", eager)):
                print("\n".join(f"{name}: {size / MIB:10.2f} {what}" for what, size in counter.steps))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
