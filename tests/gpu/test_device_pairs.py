"""Several devices. With one device these are skipped."""

import pytest
import torch
from device import says
from test_device_streams import chain, expected, in_threads, near

from nvfuser_go import DataType, FusionDefinition, InvalidArgument

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.device_count() < 2, reason="one CUDA device"),
]


def test_the_device_of_the_inputs_need_not_be_the_current_one():
    fd = chain(61)
    for current in (0, 1):
        for device in (1, 0):
            with torch.cuda.device(current):
                x = torch.randn(100, device=f"cuda:{device}")
                (got,) = fd.execute([x, x])
                assert got.device == x.device
                near(got, expected(61, x, x))
                assert torch.cuda.current_device() == current


def test_inputs_on_two_devices():
    x, y = torch.randn(5, device="cuda:0"), torch.randn(5, device="cuda:1")
    with pytest.raises(InvalidArgument) as caught:
        chain(62).execute([x, y])
    assert "cuda:0" in str(caught.value)
    assert "cuda:1" in str(caught.value)


def test_the_device_argument():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.iota(9, 0, 1, DataType.Int))
    for device in (0, 1, "cuda:1", torch.device("cuda", 1)):
        (got,) = fd.execute([], device=device)
        assert got.device.index == (1 if "1" in str(device) else 0)
        assert got.tolist() == list(range(9))
    x = torch.randn(5, device="cuda:1")
    with pytest.raises(InvalidArgument):
        chain(63).execute([x, x], device=0)


def test_streams_of_the_device():
    fd = chain(64)
    x = torch.zeros(1 << 16, device="cuda:1")
    fd.execute([x, x])
    side = torch.cuda.Stream(device=1)
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(2.0)
        (got,) = fd.execute([x, x])
        total = got.sum()
    side.synchronize()
    assert total.item() == 65 * 2.0 * (1 << 16)


def test_threads_on_a_device_each():
    fd = chain(65)

    def body(i: int) -> None:
        device = f"cuda:{i % 2}"
        for k in range(200):
            x = torch.full((100 + k % 5,), float(i), device=device)
            (got,) = fd.execute([x, x])
            assert got.device == x.device
            near(got, expected(65, x, x))

    in_threads(8, body)


def test_random_numbers_of_each_device():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [64], dtype=DataType.Float))
    torch.cuda.manual_seed_all(5)
    first = [fd.execute([], device=d)[0].cpu() for d in (0, 1)]
    assert torch.equal(*first)  # equal seeds, and each device has an offset of its own
    assert not torch.equal(fd.execute([], device=0)[0].cpu(), first[0])


def test_graphs_on_the_second_device():
    fd = chain(66)
    with torch.cuda.device(1):
        x = torch.randn(100, device="cuda:1")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            (out,) = fd.execute([x, x])
        x.normal_()
        graph.replay()
        near(out, expected(66, x, x))


def test_only_the_second_device_is_used():
    code = """
    import torch
    from nvfuser_go import FusionDefinition
    torch.cuda.set_device(1)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor([-1], True)))
    x = torch.ones(5, device="cuda")
    print(fd.execute([x])[0].device, fd.execute([x])[0].tolist() == [-1.0] * 5)
    """
    assert says(code) == "cuda:1 True"
