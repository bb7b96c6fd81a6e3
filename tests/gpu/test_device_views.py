"""Outputs that are views, on the device: no kernel, no memory, also in a graph."""

import pytest
import torch
from device import DEVICE, REHEARSAL, execute, put

from nvfuser_go import FusionDefinition


def parts() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [False, False])
        fd.add_output(x)
        fd.add_output(fd.ops.slice(fd.ops.permute(x, [1, 0]), [1, 2], [5, 4]))
        fd.add_output(fd.ops.broadcast_in_dim(x, [3, *fd.ops.shape(x)], [1, 2]))
        fd.add_output(fd.ops.reshape(x, [-1]))
    return fd


def parts_of(x: torch.Tensor) -> list[torch.Tensor]:
    return [x, x.T[1:5, 2:4], x.expand(3, *x.shape), x.reshape(-1)]


def storage(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def test_views_of_an_input() -> None:
    fd = parts()
    for _ in range(3):
        x = put(torch.arange(40.0).view(5, 8)[1:])
        held = 0 if REHEARSAL else torch.cuda.memory_allocated()
        outputs = execute(fd, [x])
        assert REHEARSAL or torch.cuda.memory_allocated() == held
        x.mul_(-1)
        for got, want in zip(outputs, parts_of(x), strict=True):
            assert got.data_ptr() == want.data_ptr() and torch.equal(got, want) and not got.requires_grad


def test_what_is_a_copy() -> None:
    fd = parts()
    x = put(torch.arange(64.0).view(8, 8)[:, :6])
    outputs = execute(fd, [x])
    assert [storage(y) == storage(x) for y in outputs] == [True, True, True, False]
    assert torch.equal(outputs[3], x.reshape(-1))

    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [False, False])
        fd.add_output(fd.ops.permute(x, [1, 0]))
        fd.add_output(fd.ops.neg(x), x)
    x = put(torch.arange(12.0).view(3, 4))
    old = x.clone()
    (y,) = execute(fd, [x])
    assert torch.equal(y, old.T) and torch.equal(x, -old) and storage(y) != storage(x)


def test_a_number_of_the_cpu() -> None:
    with FusionDefinition() as fd:
        x, n = fd.define_tensor([-1], [True]), fd.define_tensor([], [])
        fd.add_output(fd.ops.broadcast(n, [True]))
        fd.add_output(fd.ops.mul(x, n))
    n = torch.tensor(3.0)
    y, _ = execute(fd, [put(torch.ones(4)), n])
    assert y.device.type == DEVICE.type and y.tolist() == [3]


def heads() -> FusionDefinition:
    with FusionDefinition() as fd:
        x, w = (fd.define_tensor([-1, -1], [True, True]) for _ in range(2))
        qkv = fd.ops.matmul(x, w)
        for i in range(3):
            part = fd.ops.slice(qkv, [0, 16 * i], [8, 16 * i + 16])
            fd.add_output(fd.ops.permute(fd.ops.reshape(part, [8, 4, 4]), [1, 0, 2]))
        y = fd.ops.exp(x)
        fd.add_output(fd.ops.permute(y, [1, 0]))
        fd.add_output(y)
    return fd


def heads_of(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    return [*(p.reshape(8, 4, 4).permute(1, 0, 2) for p in (x @ w).split(16, 1)), x.exp().T, x.exp()]


def test_views_of_a_product_and_of_outputs() -> None:
    fd = heads()
    x, w = put(torch.randn(8, 32)), put(torch.randn(32, 48))
    for _ in range(3):
        outputs = execute(fd, [x, w])
        torch.testing.assert_close(outputs, heads_of(x, w), rtol=1e-4, atol=1e-4)
        assert len({storage(y) for y in outputs}) == 2
        assert [y.stride() for y in outputs[:3]] == [(4, 48, 1)] * 3


@pytest.mark.cuda
def test_in_a_graph() -> None:
    fd = heads()
    x, w = put(torch.randn(8, 32)), put(torch.randn(32, 48))
    execute(fd, [x, w])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = execute(fd, [x, w])
    for _ in range(2):
        x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(outputs, heads_of(x, w), rtol=1e-4, atol=1e-4)
