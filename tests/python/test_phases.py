"""Runs of several phases: memory that comes and goes, calls of torch between kernels, and what happens when one fails.

Kernels are simulated. The hook that prepares calls is replaced to look at them; plans keep what it gave, so each test
defines fusions of its own.
"""

import contextlib
import gc
import itertools
import json
import resource
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch

from nvfuser_go import _C, DataType, FusionDefinition, FusionError, Unsupported, torch_direct, torch_rows
from nvfuser_go.inputs import prepare
from nvfuser_go.random import draw
from nvfuser_go.torch_calls import prepare_call

SIMULATE = ["simulate"]
fresh = itertools.count(1)


@contextlib.contextmanager
def hook(replacement: Callable) -> Iterator[None]:
    _C.set_hooks(prepare, draw, replacement)
    try:
        yield
    finally:
        _C.set_hooks(prepare, draw, prepare_call)


def chain(calls: int = 3) -> tuple[FusionDefinition, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]:
    """A fusion of products with kernels between, and what it computes."""
    scale = 1 + next(fresh) / 1024
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        w = fd.define_tensor([-1, -1], [True, True])
        t = fd.ops.mul(x, scale)
        for _ in range(calls):
            t = fd.ops.sin(fd.ops.matmul(t, w))
        fd.add_output(t)

    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        t = x * scale
        for _ in range(calls):
            t = torch.sin(t @ w)
        return t

    return fd, reference


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 5), torch.randn(5, 5)


class Recorder:
    """Counts calls and which of their tensors are there when each begins; fails in the call `failing`."""

    def __init__(self, failing: int = -1, failure: BaseException | None = None) -> None:
        self.seen: list[weakref.ref] = []
        self.alive: list[int] = []
        self.failing, self.failure = failing, failure

    def __call__(self, spec: str, views: tuple, device: torch.device) -> Callable:
        run = prepare_call(spec, views, device)

        def recorded(*arguments):
            self.alive.append(self.left())
            if len(self.alive) == self.failing + 1 and self.failure is not None:
                raise self.failure
            results = run(*arguments)
            self.seen += [weakref.ref(x) for x in (arguments[0], *results)]
            return results

        return recorded

    def left(self) -> int:
        return sum(ref() is not None for ref in self.seen)


def test_memory_goes_when_it_was_read() -> None:
    fd, reference = chain(4)
    recorder = Recorder()
    x, w = tensors()
    with hook(recorder):
        (out,) = fd.execute([x, w], _enable_options=SIMULATE)
    torch.testing.assert_close(out, reference(x, w))
    # The result of a call is gone before the next one, as the kernel between has read it.
    assert recorder.alive == [0, 0, 0, 0]
    assert recorder.left() == 0


@pytest.mark.parametrize("failing", range(3))
@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, torch.OutOfMemoryError])
def test_failure_gives_everything_back(failing: int, kind: type[BaseException]) -> None:
    fd, reference = chain()
    recorder = Recorder(failing, kind("on purpose"))
    x, w = tensors()
    with hook(recorder):
        with pytest.raises(kind, match="on purpose") as caught:
            fd.execute([x, w], _enable_options=SIMULATE)
        assert len(recorder.alive) == failing + 1
        recorder.failure = None
        del caught
        gc.collect()
        assert recorder.left() == 0
        (out,) = fd.execute([x, w], _enable_options=SIMULATE)
    torch.testing.assert_close(out, reference(x, w))


WRONG = {
    "no tuple": lambda r: [r],
    "two": lambda r: (r, r),
    "dtype": lambda r: (r.double(),),
    "sizes": lambda r: (r[:2],),
    "strides": lambda r: (r.T.contiguous().T,),
    "subclass": lambda r: (torch.nn.Parameter(r),),
    "none": lambda r: (None,),
    "device": lambda r: (r.to("meta"),),
}


@pytest.mark.parametrize("what", WRONG)
def test_result_is_checked(what: str) -> None:
    fd, _ = chain(1)

    def wrong(spec: str, views: tuple, device: torch.device) -> Callable:
        run = prepare_call(spec, views, device)
        return lambda *arguments: WRONG[what](run(*arguments)[0])

    with hook(wrong), pytest.raises((FusionError, SystemError), match=r"matmul\(\)"):
        fd.execute(list(tensors()), _enable_options=SIMULATE)


def test_hook_that_fails() -> None:
    fd, reference = chain(2)

    def no(*_):
        raise RuntimeError("no callable")

    x, w = tensors()
    with hook(no), pytest.raises(RuntimeError, match="no callable"):
        fd.execute([x, w], _enable_options=SIMULATE)
    (out,) = fd.execute([x, w], _enable_options=SIMULATE)
    torch.testing.assert_close(out, reference(x, w))


def test_error_of_torch_names_the_operation(monkeypatch) -> None:
    def boom(*_):
        raise ValueError("boom\nand more")

    fd, reference = chain(1)
    x, w = tensors()
    monkeypatch.setattr(torch_rows, "matmul", boom)
    monkeypatch.setattr(torch_direct, "direct_call", boom)
    with pytest.raises(FusionError) as caught:
        fd.execute([x, w], _enable_options=SIMULATE)
    text = str(caught.value)
    assert text.startswith(
        "matmul(): torch fails: ValueError: boom; the arguments are float32 [4, 5], float32 [5, 5] ("
    )
    assert "test_phases.py:" in text and isinstance(caught.value.__cause__, ValueError)
    monkeypatch.undo()
    (out,) = fd.execute([x, w], _enable_options=SIMULATE)
    torch.testing.assert_close(out, reference(x, w))


def test_dropout_in_attention_is_refused() -> None:
    x = torch.randn(2, 2, 4, 8)
    with FusionDefinition() as fd:
        q = fd.define_tensor([2, 2, 4, 8], [True] * 4)
        p = fd.define_scalar(dtype=DataType.Double)
        fd.add_output(fd.ops.sdpfa_fwd(q, q, q, dropout_p=p)[0])
    (out,) = fd.execute([x, 0.0], _enable_options=SIMULATE)
    torch.testing.assert_close(out, torch.nn.functional.scaled_dot_product_attention(x, x, x))
    for options in ([], SIMULATE):
        with pytest.raises(
            Unsupported, match=r"sdpfa_fwd\(\): dropout_p is 0.5, and dropout in attention is not supported"
        ):
            fd.execute([x, 0.5], _enable_options=options)


def test_no_memory_for_a_result() -> None:
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, 2], [True, True])
        b = fd.define_tensor([2, -1], [True, True])
        fd.add_output(fd.ops.matmul(a, b))
    a, b = torch.randn(1 << 24, 2), torch.randn(2, 1 << 24)  # a result of a PiB, which no address space holds
    with pytest.raises(FusionError, match=r"matmul\(\): torch fails: RuntimeError: .*memory"):
        fd.execute([a, b], _enable_options=SIMULATE)
    (out,) = fd.execute([a[:3], b[:, :4].contiguous()], _enable_options=SIMULATE)
    torch.testing.assert_close(out, a[:3] @ b[:, :4])


def test_inputs_that_were_written_count_as_written() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        w = fd.define_tensor([-1, -1], [True, True])
        fd.add_output(fd.ops.add(x, 1.0 + next(fresh)), x)
        fd.add_output(fd.ops.sin(fd.ops.matmul(w, w)))
    recorder = Recorder(0, RuntimeError("on purpose"))
    x, w = torch.zeros(5, 5), torch.randn(5, 5)
    version = x._version
    with hook(recorder), pytest.raises(RuntimeError, match="on purpose"):
        fd.execute([x, w], _enable_options=SIMULATE)
    assert torch.equal(x, torch.zeros(5, 5)) or x._version > version


def test_gradients_and_autocast_do_not_reach_calls() -> None:
    fd, reference = chain(2)
    x, w = tensors()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (out,) = fd.execute([torch.nn.Parameter(x), torch.nn.Parameter(w)], _enable_options=SIMULATE)
        assert torch.is_grad_enabled() and torch.is_autocast_enabled("cpu")
    assert out.dtype is torch.float32 and not out.requires_grad and out.grad_fn is None
    torch.testing.assert_close(out, reference(x, w))
    with torch.inference_mode():
        (out,) = fd.execute([x, w], _enable_options=SIMULATE)
    torch.testing.assert_close(out, reference(x, w))


NUMBERS = [
    (DataType.Double, DataType.Float, [0.5, -1.25, 1e300]),
    (DataType.Int, DataType.Int, [3, -(2**62)]),
    (DataType.Bool, DataType.Bool, [True, False]),
    (DataType.ComplexDouble, DataType.ComplexDouble, [1 + 2j, -3.5j]),
]


@pytest.mark.parametrize("kind, dtype, values", NUMBERS)
def test_numbers_differ_from_call_to_call(kind: DataType, dtype: DataType, values: list) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True], dtype)
        s = fd.define_scalar(dtype=kind)
        fd.add_output(fd.ops.cumsum(x, 0, init=s))
    calls = []
    types = {DataType.Float: torch.float32, DataType.Int: torch.int64, DataType.Bool: torch.bool}
    x = torch.tensor([[1, 2], [3, 0], [5, 4]]).to(types.get(dtype, torch.complex128))
    x = x.repeat(14_000, 1)  # longer columns than kernels scan

    def recording(spec: str, views: tuple, device: torch.device) -> Callable:
        calls.append(json.loads(spec))
        return prepare_call(spec, views, device)

    with hook(recording):
        for value in values:
            (out,) = fd.execute([x, value], _enable_options=SIMULATE)
            (want,) = fd.execute([x, value])
            torch.testing.assert_close(out, want, equal_nan=True)
    assert len(calls) == 1 and calls[0]["called"] == "cumsum"


SPEC = {"called": "op", "where": "", "parameters": [["arg", "_0"]], "expression": "arg"}


def call(expression: str, view: object, result: tuple, *arguments: torch.Tensor, own: bool = False) -> torch.Tensor:
    dtype, sizes, strides = result
    results = [{"dtype": dtype, "sizes": sizes, "strides": strides, "kept": True}]
    spec = SPEC | {"expression": expression, "own": own, "results": results}
    return prepare_call(json.dumps(spec), (view,), torch.device("cpu"))(*arguments)[0]


def test_results_have_memory_of_their_own() -> None:
    x = torch.arange(6.0).view(2, 3)
    for expression in ("arg", "arg.view(2, 3)", "arg.T.T", "arg.detach()", "arg.real"):
        y = call(expression, None, ("float32", [2, 3], [3, 1]), x)
        assert torch.equal(x, y) and y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    y = call("arg[1:] + 1", None, ("float32", [1, 3], [3, 1]), x)
    assert y.tolist() == [[4, 5, 6]]
    y = call("(arg + 1)[1:]", None, ("float32", [1, 3], [3, 1]), x)
    assert y.tolist() == [[4, 5, 6]] and y.storage_offset() == 0
    y = call("arg + 1", None, ("bfloat16", [2, 3], [1, 2]), x)
    assert torch.equal(y, (x + 1).bfloat16()) and y.stride() == (1, 2)
    y = call("arg[:, :1].expand(2, 3)", None, ("float32", [2, 3], [1, 0]), x)
    assert y.tolist() == [[0] * 3, [3] * 3] and y.stride() == (1, 0)


def test_results_that_torch_allocates_are_as_asked() -> None:
    """What is said to have memory of its own is taken as it is, if it lies as it is asked to."""
    x = torch.arange(6.0).view(2, 3)
    for expression, dtype, strides in (
        ("arg + 1", "float32", [3, 1]),
        ("arg + 1", "bfloat16", [3, 1]),
        ("arg + 1", "float32", [1, 2]),
        ("torch.cat([arg, arg + 1])[2:]", "float32", [3, 1]),
    ):
        y = call(expression, None, (dtype, [2, 3], strides), x, own=True)
        assert torch.equal(y, (x + 1).to(y.dtype)) and list(y.stride()) == strides and y.storage_offset() == 0
        assert y.dtype is getattr(torch, dtype)
    with pytest.raises(FusionError, match="was expected"):
        call("arg + 1", None, ("float32", [3, 2], [2, 1]), x, own=True)


def test_strides_of_one_element_say_nothing() -> None:
    x = torch.arange(6.0).view(1, 2, 3)
    for own in (False, True):
        y = call("(arg + 1).as_strided((1, 2, 3), (2, 3, 1))", None, ("float32", [1, 2, 3], [6, 3, 1]), x, own=own)
        assert torch.equal(y, x + 1) and y.stride() == (2, 3, 1), "it was copied"


def test_arguments_are_seen_as_they_lie() -> None:
    octets = torch.zeros(67, dtype=torch.uint8)
    octets[16:40].view(torch.float32).copy_(torch.arange(6.0))
    y = call("arg + 1", (torch.float32, (3, 2), (1, 3), 4), ("float32", [3, 2], [2, 1]), octets)
    assert y.tolist() == [[1, 4], [2, 5], [3, 6]]
    y = call("arg * 1", (torch.float32, (3,), (2,), 1), ("float32", [3], [1]), torch.arange(9.0)[2:])
    assert y.tolist() == [3, 5, 7]
    y = call("arg * 1", (torch.int32, (2,), (1,), 2), ("int32", [2], [1]), torch.tensor([[1, 2], [3, 4]])[:, 0])
    assert y.tolist() == [2, 0]


def test_many_threads() -> None:
    fd, reference = chain(3)
    failures = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(20):
            x, w = tensors()
            (out,) = fd.execute([x, w], _enable_options=SIMULATE)
            if not torch.allclose(out, reference(x, w), atol=1e-5):
                failures.append(out)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_nothing_leaks() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        w = fd.define_tensor([-1, -1], [True, True])
        s = fd.define_scalar(dtype=DataType.Double)
        product = fd.ops.matmul(fd.ops.matmul(x, w), w)
        fd.add_output(fd.ops.cumsum(product, 0, init=s))
        fd.add_output(fd.ops.argsort(product, 1))
    x, w = torch.randn(16, 16), torch.randn(16, 16)
    for _ in range(500):
        fd.execute([x, w, 1.0], _enable_options=SIMULATE)
    gc.collect()
    objects, size = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(10_000):
        fd.execute([x, w, float(i)], _enable_options=SIMULATE)
    gc.collect()
    assert len(gc.get_objects()) - objects < 50
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size < 16 << 10, "KiB"
