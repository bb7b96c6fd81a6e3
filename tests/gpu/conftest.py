"""Settings for the tests on a GPU.

They are skipped where there is no device, but for those marked `anywhere`. Two variables choose among them:

- GPU_TESTS_REHEARSE=1: those that are not marked `cuda` run on CPU tensors, by kernels in the simulator
- GPU_TESTS_SHARD=2/16: the third of 16 parts, for as many processes at once, without those marked `alone`;
  GPU_TESTS_SHARD=alone: those
"""

import os
import zlib
from pathlib import Path

import pytest
import torch
from device import NO_DEVICE, REHEARSAL

HERE = Path(__file__).parent


def pytest_configure(config) -> None:
    config.addinivalue_line("markers", "cuda: needs CUDA itself, also in a rehearsal")
    config.addinivalue_line("markers", "anywhere: needs no device")
    config.addinivalue_line("markers", "alone: no other process may use the device meanwhile")


def in_shard(item) -> bool:
    shard, alone = os.environ.get("GPU_TESTS_SHARD"), item.get_closest_marker("alone") is not None
    if shard is None or shard == "alone":
        return shard is None or alone
    part, _, parts = shard.partition("/")
    return not alone and zlib.crc32(item.nodeid.encode()) % int(parts) == int(part)


def pytest_collection_modifyitems(config, items) -> None:
    mine = [item for item in items if HERE in item.path.parents]
    left_out = [item for item in mine if not in_shard(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
    present = torch.cuda.is_available()
    for item in mine:
        runs = present or item.get_closest_marker("anywhere")
        if REHEARSAL and not item.get_closest_marker("cuda"):
            runs = True
        if not runs:
            item.add_marker(pytest.mark.skip(reason=NO_DEVICE))


@pytest.fixture(autouse=True)
def device_after_each_test(request):
    """A kernel that fails shows at the next wait, and then the process can do nothing more on the device."""
    yield
    if torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError as failure:
            pytest.exit(f"{request.node.nodeid}: the device is lost: {failure}", returncode=3)
