"""The state of torch's random generators, which runs that draw random numbers start from.

On a CUDA device a run takes the seed and the offset of the device's generator and moves the offset on, as far as the
same operations of torch would: what torch draws afterwards does not repeat it. On the CPU a run takes a seed of its own
from torch's generator. torch.manual_seed makes both repeatable. In the capture of a CUDA graph the state is in memory
of the device: that of the generator where torch tells it, so that replays draw what calls do, else numbers that torch
draws in the graph, anew each time that it is replayed.
"""

import torch

from nvfuser_go.errors import FusionError
from nvfuser_go.locks import ForkSafeLock

# Held between reading the offset of a generator and moving it, so that two threads of ours do not draw the same
# numbers. Operations of torch in another thread do not know it.
_drawing = ForkSafeLock()


def draw(device: int, draws: int) -> tuple[int, int] | tuple[torch.Tensor, torch.Tensor]:
    """Seed and offset of a run on a CUDA device, or for -1 on the CPU; the generator moves on by `draws`.

    While a CUDA graph is captured, two tensors of one int64 on the device, which will hold them. Raises FusionError if
    torch does not start CUDA, or does not tell the state.
    """
    if device < 0:
        return int(torch.randint(2**63 - 1, (), dtype=torch.int64, device="cpu")), 0
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as failure:  # AssertionError: a torch without CUDA
        raise FusionError(f"execute(): torch cannot start CUDA to draw random numbers: {failure}") from failure
    generator = torch.cuda.default_generators[device]
    with torch.cuda.device(device):
        if torch.cuda.is_current_stream_capturing():
            return _draw_in_graph(generator, draws)
    with _drawing.held():
        try:
            offset = generator.get_offset()
            generator.set_offset(offset + draws)
        except RuntimeError as failure:
            raise FusionError(
                f"execute(): the state of torch's generator of cuda:{device} cannot be read: {failure}"
            ) from failure
    return generator.initial_seed(), offset


def _draw_in_graph(generator: torch.Generator, draws: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Seed and offset in memory of the current device, which each replay of the graph under capture fills in."""
    if not hasattr(generator, "philox_state"):  # torch 2.11
        seed, offset = torch.randint(-(2**62), 2**62, (2, 1), dtype=torch.int64, device="cuda")
        return seed, offset
    # The offset is that of the first draw in the graph; the third number, on the CPU, is how far behind it this one is.
    seed, offset, behind = generator.philox_state(draws)
    return seed, offset + int(behind) if int(behind) else offset
