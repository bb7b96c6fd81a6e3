"""What of this folder runs where."""

from pathlib import Path

import pytest
import torch
from device import NO_DEVICE, REHEARSAL

HERE = Path(__file__).parent


@pytest.mark.anywhere
def test_tests_are_skipped_without_a_device_alone(request):
    """Of the tests that were chosen: none is skipped for want of a device where there is one, and all others are."""
    for item in request.session.items:
        if HERE not in item.path.parents or item.get_closest_marker("anywhere"):
            continue
        needs = not REHEARSAL or item.get_closest_marker("cuda") is not None
        reasons = [m.kwargs.get("reason") for m in item.iter_markers("skip")]
        assert (NO_DEVICE in reasons) == (needs and not torch.cuda.is_available()), item.nodeid
