"""Outputs that are views share memory with what they view, on the CPU and with simulated kernels."""

import gc
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from nvfuser_go import DataType, FusionDefinition, FusionError, Unsupported

PLACES = pytest.mark.parametrize("options", [[], ["simulate"]], ids=["cpu", "simulate"])


def fusion(body: Callable[..., None], tensors: int = 1) -> FusionDefinition:
    """A fusion of matrices; body adds the outputs."""
    with FusionDefinition() as fd:
        body(fd, *(fd.define_tensor([-1, -1], [False, False]) for _ in range(tensors)))
    return fd


def storage(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def matrix(rows: int = 4, columns: int = 6) -> torch.Tensor:
    """A matrix that does not begin where its memory does."""
    return torch.arange((rows + 1) * columns, dtype=torch.float32).reshape(rows + 1, columns)[1:]


def parts(fd: FusionDefinition, x: object) -> None:
    fd.add_output(x)
    fd.add_output(fd.ops.permute(x, [1, 0]))
    fd.add_output(fd.ops.slice(fd.ops.permute(x, [1, 0]), [1, 2], [5, 4]))
    fd.add_output(fd.ops.broadcast_in_dim(x, [3, *fd.ops.shape(x)], [1, 2]))
    fd.add_output(fd.ops.reshape(x, [2, -1, 6]))
    fd.add_output(fd.ops.broadcast(x, [False, True, False]))


def parts_of(x: torch.Tensor) -> list[torch.Tensor]:
    return [x, x.T, x.T[1:5, 2:4], x.expand(3, *x.shape), x.view(2, -1, 6), x[:, None]]


@PLACES
def test_outputs_that_view_an_input(options: list[str]) -> None:
    fd = fusion(parts)
    for _ in range(3):  # the plan is made, found in Go and found in C
        x = matrix()
        outputs, wanted = fd.execute([x], _enable_options=options), parts_of(x)
        for got, want in zip(outputs, wanted, strict=True):
            assert torch.equal(got, want) and storage(got) == storage(x)
            assert got.data_ptr() == want.data_ptr()
            assert [s for s, n in zip(got.stride(), got.shape, strict=True) if n > 1] == [
                s for s, n in zip(want.stride(), want.shape, strict=True) if n > 1
            ]
        x.mul_(-1)
        assert all(torch.equal(got, want) for got, want in zip(outputs, wanted, strict=True))
        outputs[0][0, 0] = 7
        assert x[0, 0] == 7


@PLACES
def test_what_strides_cannot_say_is_a_copy(options: list[str]) -> None:
    fd = fusion(lambda fd, x: fd.add_output(fd.ops.reshape(x, [-1])))
    for x, shared in ((matrix(), True), (matrix().T, False), (matrix()[:, ::2], True), (matrix()[:, :3], False)):
        for _ in range(2):
            (y,) = fd.execute([x], _enable_options=options)
            assert torch.equal(y, x.reshape(-1)) and (storage(y) == storage(x)) == shared, x.stride()
        x += 1
        assert torch.equal(y, x.reshape(-1)) == shared


@PLACES
def test_copies_that_are_asked_for(options: list[str]) -> None:
    def body(fd: FusionDefinition, x: object) -> None:
        fd.add_output(fd.ops.set(x))
        fd.add_output(fd.ops.permute(fd.ops.set(x), [1, 0]))
        fd.add_output(fd.ops.segment_set(x))
        fd.add_output(fd.ops.stride_order(x, [0, 1]))
        fd.add_output(fd.ops.cast(x, DataType.Float))

    x = matrix()
    outputs = fusion(body).execute([x], _enable_options=options)
    before = x.clone()
    x.zero_()
    for got, want in zip(outputs, [before, before.T, before, before, before], strict=True):
        assert torch.equal(got, want) and storage(got) != storage(x)
    assert outputs[3].stride() == (1, 4)


@PLACES
def test_the_old_value_of_an_input_that_is_written(options: list[str]) -> None:
    def body(fd: FusionDefinition, x: object) -> None:
        fd.add_output(fd.ops.permute(x, [1, 0]))
        fd.add_output(x)
        y = fd.ops.neg(x)
        fd.add_output(y, x)
        fd.add_output(y)
        fd.add_output(fd.ops.permute(y, [1, 0]))

    x = matrix()
    old = x.clone()
    outputs = fusion(body).execute([x], _enable_options=options)
    assert torch.equal(x, -old)
    for got, want in zip(outputs, [old.T, old, -old, -old.T], strict=True):
        assert torch.equal(got, want) and storage(got) != storage(x)


@PLACES
def test_an_input_in_memory_that_is_written(options: list[str]) -> None:
    def body(fd: FusionDefinition, x: object, w: object) -> None:
        fd.add_output(fd.ops.permute(x, [1, 0]))
        fd.add_output(fd.ops.neg(x), w)

    fd = fusion(body, 2)
    for _ in range(2):
        x, w = matrix(), matrix()
        (y,) = fd.execute([x, w], _enable_options=options)
        assert storage(y) == storage(x) and torch.equal(y, x.T) and torch.equal(w, -x)
        for to in (x, torch.as_strided(x, x.shape, x.stride(), 0)):
            old = x.clone()
            (y,) = fd.execute([x, to], _enable_options=options)
            assert torch.equal(y, old.T) and storage(y) != storage(x) and torch.equal(to, -old)


@PLACES
def test_views_of_outputs_and_of_products(options: list[str]) -> None:
    def body(fd: FusionDefinition, x: object, w: object) -> None:
        y = fd.ops.exp(x)
        fd.add_output(fd.ops.permute(y, [1, 0]))
        fd.add_output(y)
        qkv = fd.ops.matmul(x, w)
        for i in range(3):
            part = fd.ops.slice(qkv, [0, 4 * i], [4, 4 * i + 4])
            fd.add_output(fd.ops.permute(fd.ops.reshape(part, [4, 2, 2]), [1, 0, 2]))
        fd.add_output(fd.ops.neg(qkv))

    fd = fusion(body, 2)
    for _ in range(3):
        x, w = matrix() / 16, torch.randn(6, 12)
        yt, y, *qkv, negated = fd.execute([x, w], _enable_options=options)
        assert torch.allclose(y, x.exp()) and torch.equal(yt, y.T) and storage(yt) == storage(y)
        want = (x @ w).split(4, dim=1)
        assert len({storage(part) for part in qkv}) == 1
        for got, part in zip(qkv, want, strict=True):
            assert torch.allclose(got, part.reshape(4, 2, 2).permute(1, 0, 2), atol=1e-5)
            assert got.stride() == (2, 12, 1)
        assert torch.allclose(negated, -(x @ w), atol=1e-5)
        last = qkv.pop()
        del qkv, y, yt, got
        gc.collect()
        assert torch.allclose(last, want[2].reshape(4, 2, 2).permute(1, 0, 2), atol=1e-5)


@PLACES
def test_one_view_twice(options: list[str]) -> None:
    def body(fd: FusionDefinition, x: object) -> None:
        t = fd.ops.permute(x, [1, 0])
        for v in (t, t, fd.ops.permute(x, [1, 0]), x, x):
            fd.add_output(v)

    x = matrix()
    for got, want in zip(fusion(body).execute([x], _enable_options=options), [x.T, x.T, x.T, x, x], strict=True):
        assert torch.equal(got, want) and got.data_ptr() == x.data_ptr() and got.stride() == want.stride()


@PLACES
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (1, 5)])
def test_few_elements(options: list[str], shape: tuple[int, int]) -> None:
    def body(fd: FusionDefinition, x: object) -> None:
        fd.add_output(x)
        fd.add_output(fd.ops.permute(x, [1, 0]))
        fd.add_output(fd.ops.slice(x, [0, 0], [0, 1]))
        fd.add_output(fd.ops.broadcast_in_dim(x, [2, *fd.ops.shape(x)], [1, 2]))

    x = torch.rand(shape)
    got = fusion(body).execute([x], _enable_options=options)
    for y, want in zip(got, [x, x.T, x[:0, :1], x.expand(2, *x.shape)], strict=True):
        assert torch.equal(y, want) and y.dtype == x.dtype


@PLACES
def test_no_dimensions(options: list[str]) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([], [])
        fd.add_output(x)
        fd.add_output(fd.ops.broadcast(x, [True]))
    given = torch.tensor([1.0, 2.0])[1]
    first, second = fd.execute([given], _enable_options=options)
    given.fill_(5)
    assert first.shape == () and first == 5 and second.tolist() == [5]


@PLACES
def test_arrays(options: list[str]) -> None:
    fd = fusion(lambda fd, x: fd.add_output(fd.ops.permute(x, [1, 0])))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (y,) = fd.execute([x], _enable_options=options)
    assert isinstance(y, np.ndarray) and np.shares_memory(x, y) and np.array_equal(y, x.T)
    x.flags.writeable = False
    (y,) = fd.execute([x], _enable_options=options)
    assert y.flags.writeable and not np.shares_memory(x, y) and np.array_equal(y, x.T)


@PLACES
def test_autograd(options: list[str]) -> None:
    fd = fusion(lambda fd, x: fd.add_output(fd.ops.permute(x, [1, 0])))
    for x in (torch.nn.Parameter(matrix()), matrix().requires_grad_(), matrix().requires_grad_() * 2):
        (y,) = fd.execute([x], _enable_options=options)
        assert torch.is_grad_enabled() and type(y) is torch.Tensor
        assert not y.requires_grad and y.grad_fn is None and storage(y) == storage(x)
        version = x._version
        y.add_(1)
        assert x._version == version + 1 and torch.equal(x.detach().T, y)  # so autograd finds what was saved changed
    with torch.inference_mode():
        x = matrix()
        assert fd.execute([x], _enable_options=options)[0].data_ptr() == x.data_ptr()


@PLACES
def test_conjugate_views(options: list[str]) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], [True], DataType.ComplexFloat)
        fd.add_output(x)
    given = torch.tensor([1 + 2j, 3 - 1j]).conj()
    (y,) = fd.execute([given], _enable_options=options)
    assert torch.equal(y, given.resolve_conj()) and not y.is_conj()


def test_memory_is_given_back() -> None:
    fd = fusion(parts)
    for _ in range(3):
        x = matrix()
        gone = weakref.ref(x)
        outputs = fd.execute([x])
        address = outputs[0].data_ptr()
        del x
        assert outputs[0].data_ptr() == address and torch.equal(outputs[0], matrix())
        del outputs
        gc.collect()
        assert gone() is None


@PLACES
def test_modes_that_replace_tensors(options: list[str]) -> None:
    fd = fusion(lambda fd, x: fd.add_output(fd.ops.permute(x, [1, 0])))
    x = matrix()
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(FusionError, match="output 0"):
        fd.execute([x], _enable_options=options)
    with FakeTensorMode(), pytest.raises((FusionError, AssertionError)):
        fd.execute([x], _enable_options=options)
    assert torch.equal(fd.execute([x], _enable_options=options)[0], x.T)


def test_what_is_shown() -> None:
    def body(fd: FusionDefinition, x: object, w: object) -> None:
        fd.add_output(fd.ops.permute(x, [1, 0]))
        fd.add_output(fd.ops.permute(fd.ops.matmul(x, w), [1, 0]))

    fd = fusion(body, 2)
    inputs = [matrix(), torch.randn(6, 3)]
    fd.execute(inputs, _enable_options=["simulate"])
    with pytest.raises(Unsupported, match="pointwise: tv3 is the result of matmul"):
        fd.last_cuda_code()

    def with_kernel(fd: FusionDefinition, x: object, w: object) -> None:
        body(fd, x, w)
        fd.add_output(fd.ops.neg(x))

    fd = fusion(with_kernel, 2)
    fd.execute(inputs, _enable_options=["simulate"])
    text = fd.last_cuda_code()
    assert "// view: output 0 in the memory of tv0\n// view: output 1 in the memory of tv3\n" in text
    assert text.count("__global__") == 1

    fd = fusion(lambda fd, x: fd.add_output(fd.ops.permute(x, [1, 0])))
    fd.execute(inputs[:1], _enable_options=["simulate"])
    with pytest.raises(Unsupported, match="the result is the memory of its operand, seen otherwise"):
        fd.last_cuda_code()


@PLACES
def test_threads(options: list[str]) -> None:
    fd = fusion(parts)
    failures = []
    shared = matrix()

    def work() -> None:
        for _ in range(30):
            for x in (shared, matrix()):
                outputs = fd.execute([x], _enable_options=options)
                if not all(torch.equal(a, b) for a, b in zip(outputs, parts_of(x), strict=True)):
                    failures.append(x)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
