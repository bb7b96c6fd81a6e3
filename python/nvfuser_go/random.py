"""The state of torch's random generators, which runs that draw random numbers start from.

On a CUDA device a run takes the seed and the offset of the device's generator and moves the offset on, as far as the
same operations of torch would: what torch draws afterwards does not repeat it. On the CPU a run takes a seed of its own
from torch's generator. torch.manual_seed makes both repeatable. In the capture of a CUDA graph the state is not known:
there torch draws a seed and an offset in the graph, anew each time that it is replayed.
"""

import torch

from nvfuser_go.errors import FusionError
from nvfuser_go.locks import ForkSafeLock

# Held between reading the offset of a generator and moving it, so that two threads of ours do not draw the same
# numbers. Operations of torch in another thread do not know it.
_drawing = ForkSafeLock()


def draw(device: int, draws: int) -> tuple[int, int] | torch.Tensor:
    """Seed and offset of a run on a CUDA device, or for -1 on the CPU; the generator moves on by `draws`.

    While a CUDA graph is captured: a tensor on the device that will hold both. Raises FusionError if torch does not
    start CUDA, or does not tell the state.
    """
    if device < 0:
        return int(torch.randint(2**63 - 1, (), dtype=torch.int64, device="cpu")), 0
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as failure:  # AssertionError: a torch without CUDA
        raise FusionError(f"execute(): torch cannot start CUDA to draw random numbers: {failure}") from failure
    with torch.cuda.device(device):
        if torch.cuda.is_current_stream_capturing():
            return torch.randint(-(2**62), 2**62, (2,), dtype=torch.int64, device="cuda")
    generator = torch.cuda.default_generators[device]
    with _drawing.held():
        try:
            offset = generator.get_offset()
            generator.set_offset(offset + draws)
        except RuntimeError as failure:
            raise FusionError(
                f"execute(): the state of torch's generator of cuda:{device} cannot be read: {failure}"
            ) from failure
    return generator.initial_seed(), offset
