"""What runs that draw random numbers take from torch's generators: one made for the tests is in place of CUDA's."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from nvfuser_go import _C, DataType, FusionDefinition, random
from nvfuser_go.inputs import prepare
from nvfuser_go.torch_calls import prepare_call


class Counting:
    """The state of a generator as torch 2.11 tells it: a seed and an offset."""

    def __init__(self) -> None:
        self.offset = 8

    def initial_seed(self) -> int:
        return 77

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        self.offset = offset


class Reserving(Counting):
    """As torch 2.15 tells it in a capture: in memory, and how far into the graph a reservation is."""

    seed, start = torch.tensor([77]), torch.tensor([1000])
    reserved = 0

    def philox_state(self, draws: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        behind, self.reserved = self.reserved, self.reserved + draws
        return self.seed, self.start, torch.tensor([behind])


@pytest.fixture
def generator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    made, capturing = request.param
    generator = made()
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "default_generators", [generator])
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    return generator


@pytest.mark.parametrize("generator", [(Counting, False), (Reserving, False)], indirect=True)
def test_a_call_takes_the_offset_and_moves_it(generator) -> None:
    assert [random.draw(0, 4), random.draw(0, 12)] == [(77, 8), (77, 12)]
    assert generator.offset == 24


@pytest.mark.parametrize("generator", [(Reserving, True)], indirect=True)
def test_a_capture_reserves_numbers_of_the_generator(generator) -> None:
    seed, offset = random.draw(0, 4)
    assert seed is generator.seed
    assert offset is generator.start  # the first draw of a graph takes no launch
    seed, offset = random.draw(0, 12)
    assert seed is generator.seed
    assert offset.tolist() == [1004]
    assert random.draw(0, 4)[1].tolist() == [1016]
    assert generator.offset == 8


@pytest.mark.parametrize("generator", [(Counting, True)], indirect=True)
def test_a_capture_draws_its_state_where_torch_does_not_tell_it(generator, monkeypatch: pytest.MonkeyPatch) -> None:
    there = torch.randint
    monkeypatch.setattr(torch, "randint", lambda *args, device, **options: there(*args, **options))
    drawn = [random.draw(0, 4) for _ in range(2)]
    assert [(x.dtype, x.shape) for pair in drawn for x in pair] == [(torch.int64, (1,))] * 4
    assert len({x.item() for pair in drawn for x in pair}) == 4


@contextlib.contextmanager
def hook(draw) -> Iterator[None]:
    _C.set_hooks(prepare, draw, prepare_call)
    try:
        yield
    finally:
        _C.set_hooks(prepare, random.draw, prepare_call)


@pytest.mark.parametrize("drawn", [3, (1,), (1, 2, 3), (torch.zeros(1), 2), (None, None), (1, "a")], ids=repr)
def test_a_hook_that_gives_something_else(drawn) -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [5], dtype=DataType.Float))
    with hook(lambda device, draws: drawn), pytest.raises(TypeError):
        fd.execute([])
    with hook(lambda device, draws: (77, 12)):
        assert torch.equal(fd.execute([])[0], fd.execute([])[0])
