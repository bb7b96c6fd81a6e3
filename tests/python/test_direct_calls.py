"""Calls of torch that one function of torch's makes: what is called, with the same bits, and what becomes of failures.

Kernels are simulated. Plans keep how they call torch, so each test defines fusions of its own.
"""

import contextlib
import gc
import itertools
import json
import math
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from nvfuser_go import (
    _C,
    DataType,
    FusionDefinition,
    FusionError,
    torch_attention,
    torch_direct,
    torch_dtype_to_nvfuser_dtype,
)
from nvfuser_go.inputs import prepare
from nvfuser_go.random import draw
from nvfuser_go.torch_calls import prepare_call

SIMULATE = ["simulate"]
fresh = itertools.count(1)


class Watched:
    """The hook that prepares calls: counts what callables are called, and what is called directly, and how."""

    def __init__(self, function: Callable | None = None) -> None:
        self.called = 0
        self.direct: list[str] = []
        self.function = function  # to be called instead of torch's

    def __call__(self, spec: str, views: tuple, device: torch.device) -> Callable:
        run = prepare_call(spec, views, device)

        def called(*arguments):
            self.called += 1
            return run(*arguments)

        def direct(*arguments):
            made = run.direct(*arguments)
            if made is None:
                return None
            function = self.function or made[0]

            def watched(*arguments):
                self.direct.append(getattr(made[0], "__name__", "partial"))
                return function(*arguments)

            return watched, *made[1:]

        called.direct = direct
        return called


@contextlib.contextmanager
def watching(function: Callable | None = None) -> Iterator[Watched]:
    watched = Watched(function)
    _C.set_hooks(prepare, draw, watched)
    try:
        yield watched
    finally:
        _C.set_hooks(prepare, draw, prepare_call)


def definition(compute: Callable, *inputs: torch.Tensor) -> FusionDefinition:
    """The fusion of compute(fd, *inputs), and of another output, which makes it one of its own."""
    with FusionDefinition() as fd:
        x = [
            fd.define_tensor(
                shape=[1 if n == 1 else -1 for n in t.shape],
                contiguity=[None if n == 1 else False for n in t.shape],
                dtype=torch_dtype_to_nvfuser_dtype(t.dtype),
            )
            for t in inputs
        ]
        fd.add_output(compute(fd, *x))
        fd.add_output(fd.ops.add(fd.ops.cast(x[0], DataType.Float), float(next(fresh))))
    return fd


def run(fd: FusionDefinition, *inputs: torch.Tensor) -> torch.Tensor:
    return fd.execute(list(inputs), _enable_options=SIMULATE)[0]


def matmul(fd: FusionDefinition, a, b):
    return fd.ops.matmul(a, b)


def linear(fd: FusionDefinition, x, w, b=None):
    return fd.ops.linear(x, w, b)


def halves(*shape: int) -> torch.Tensor:
    """Every other element of a tensor along each dimension, from the second on."""
    whole = torch.randn([2 * n + 1 for n in shape])
    return whole[tuple(slice(1, None, 2) for _ in shape)]


def exchanged(*shape: int) -> torch.Tensor:
    return torch.randn([*shape[:-2], shape[-1], shape[-2]]).transpose(-1, -2)


R = torch.randn

PRODUCTS = [  # the inputs, and the function of torch that computes their product
    ((R(3, 4), R(4, 5)), "mm"),
    ((exchanged(3, 4), exchanged(4, 5)), "mm"),
    ((halves(3, 4), R(4, 5)), "mm"),
    ((R(1, 4), R(4, 1)), "mm"),
    ((R(2, 3, 4), R(4, 5)), "mm"),
    ((R(2, 2, 3, 4), exchanged(4, 5)), "mm"),
    ((exchanged(2, 3, 4), R(4, 5)), "matmul"),
    ((R(2, 3, 4), R(2, 4, 5)), "bmm"),
    ((R(2, 6, 3, 4), R(2, 6, 4, 5)), "bmm"),
    ((R(2, 3, 6, 4).transpose(1, 2), R(2, 6, 4, 5)), "matmul"),
    ((R(1, 3, 6, 4).transpose(1, 2), exchanged(1, 6, 4, 5)), "bmm"),
    ((R(2, 6, 1, 4), R(2, 6, 4, 1)), "bmm"),
    ((R(2, 1, 3, 4), R(2, 6, 4, 5)), "matmul"),
    ((R(1, 1, 3, 4), R(1, 1, 4, 5)), "bmm"),
    ((R(4), R(4)), "matmul"),
    ((R(3, 4), R(4)), "matmul"),
    ((R(4), R(2, 4, 5)), "matmul"),
    ((R(0, 4), R(4, 5)), "mm"),
    ((R(2, 0, 4), R(4, 5)), "matmul"),
    ((R(3, 0), R(0, 5)), "mm"),
    ((R(2, 3, 4).bfloat16(), R(4, 5).bfloat16()), "mm"),
    ((R(2, 6, 3, 4).half(), R(2, 6, 4, 5).half()), "bmm"),
    ((R(3, 4).double(), R(4, 5).double()), "mm"),
    ((R(3, 4).cfloat(), R(4, 5).cfloat()), None),
    ((torch.ones(3, 4, dtype=torch.int64), torch.ones(4, 5, dtype=torch.int64)), None),
]


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return "-".join("x".join(map(str, t.shape)) + str(t.dtype)[6:] + str(t.stride()) for t in value)
    return str(value)


@pytest.mark.parametrize("inputs, function", PRODUCTS, ids=shown)
def test_products_are_those_of_torch(inputs: tuple[torch.Tensor, ...], function: str | None) -> None:
    fd = definition(matmul, *inputs)
    with watching() as watched:
        outs = [run(fd, *inputs) for _ in range(3)]
    want = torch.matmul(*inputs)
    for out in outs:
        assert torch.equal(out, want) and out.is_contiguous() and type(out) is torch.Tensor
    if want.numel():
        assert watched.direct == [function] * (0 if function is None else 3)
        assert watched.called == (3 if function is None else 0)


LAYERS = [
    ((R(3, 4), R(5, 4), R(5)), "addmm"),
    ((R(1, 4), R(5, 4), R(5)), "addmm"),
    ((R(2, 3, 4), R(5, 4), R(5)), "addmm"),
    ((R(2, 3, 4), R(5, 4)), "mm"),
    ((R(3, 4), R(5, 4)), "mm"),
    ((R(2, 2, 3, 4).bfloat16(), R(5, 4).bfloat16(), R(5).bfloat16()), "addmm"),
    ((exchanged(2, 3, 4), R(5, 4), R(5)), "linear"),
    ((R(2, 3, 4), exchanged(5, 4), R(5)), "linear"),
    ((R(4), R(5, 4), R(5)), "linear"),
    ((R(4), R(5, 4)), "linear"),
    ((R(3, 4), R(4)), None),
    ((R(3, 4).cdouble(), R(5, 4).cdouble(), R(5).cdouble()), None),
]


@pytest.mark.parametrize("inputs, function", LAYERS, ids=shown)
def test_layers_are_those_of_torch(inputs: tuple[torch.Tensor, ...], function: str | None) -> None:
    fd = definition(linear, *inputs)
    with watching() as watched:
        outs = [run(fd, *inputs) for _ in range(3)]
    x, w = inputs[:2]
    want = F.linear(*inputs) if w.ndim == 2 else x @ w
    for out in outs:
        torch.testing.assert_close(out, want)
        assert out.shape == want.shape and out.is_contiguous()
        assert torch.equal(out, outs[0])
    assert watched.direct == [function] * (0 if function is None else 3)
    assert watched.called == (3 if function is None else 0)


def attention_gradient(fd: FusionDefinition, q):
    output, logsumexp, seed, offset = fd.ops.sdpfa_fwd(q, q, q)
    return fd.ops.sdpfa_bwd(output, q, q, q, output, logsumexp, 0.0, False, seed, offset)[0]


def test_forms_are_expressions_of_rows() -> None:
    """A form whose expression no operation has would never be used, and nothing else would tell."""
    found = set()

    class Seen(Watched):
        def __call__(self, spec: str, views: tuple, device: torch.device) -> Callable:
            found.add(json.loads(spec)["expression"])
            return super().__call__(spec, views, device)

    _C.set_hooks(prepare, draw, Seen())
    try:
        run(definition(matmul, R(2, 2), R(2, 2)), R(2, 2), R(2, 2))
        run(definition(linear, R(2, 2), R(2, 2)), R(2, 2), R(2, 2))
        q = R(3, 2, 3, 4)
        run(definition(attention_gradient, q), q)
    finally:
        _C.set_hooks(prepare, draw, prepare_call)
    assert found == set(torch_direct.FORMS)


def test_views_of_arguments() -> None:
    """A matrix in an operand that is itself a view: from where that begins."""

    def compute(fd, x, w):
        part = fd.ops.slice(x, [0, 2, 0], [2, 4, 6])
        return fd.ops.matmul(fd.ops.permute(part, [0, 2, 1]), w)

    whole = R(2 * 5 * 6 + 7)
    for x in (R(2, 5, 6), whole[7:].view(2, 5, 6)):
        w = R(2, 2, 4)
        fd = definition(compute, x, w)
        with watching() as watched:
            for _ in range(2):
                torch.testing.assert_close(run(fd, x, w), x[:, 2:4].transpose(1, 2) @ w)
        assert watched.called == 0 and watched.direct == ["bmm"] * 2

    x, w, b = R(4, 3, 4), R(5, 4), R(5)
    fd = definition(lambda fd, x, w, b: fd.ops.linear(fd.ops.slice(x, [1, 0, 0], [3, 3, 4]), w, b), x, w, b)
    with watching() as watched:
        for _ in range(2):
            torch.testing.assert_close(run(fd, x, w, b), F.linear(x[1:3], w, b))
    assert watched.called == 0 and watched.direct == ["addmm"] * 2


def test_one_tensor_given_twice_at_first() -> None:
    a, b = R(4, 4), R(4, 4)
    fd = definition(matmul, a, b)
    assert torch.equal(run(fd, a, a), a @ a)
    assert torch.equal(run(fd, a, b), a @ b)
    assert torch.equal(run(fd, b, a), b @ a)


def test_strides_and_sizes_that_change() -> None:
    fd = definition(matmul, R(2, 3, 4), R(2, 4, 5))
    for _ in range(2):
        for x in (
            R(2, 3, 4),
            exchanged(2, 3, 4),
            halves(2, 3, 4),
            R(3, 2, 4).transpose(0, 1),
            R(2, 1, 4).expand(2, 3, 4),
        ):
            w = R(2, 4, 5)
            torch.testing.assert_close(run(fd, x, w), x @ w)
        x, w = R(7, 1, 2), R(7, 2, 3)
        torch.testing.assert_close(run(fd, x, w), x @ w)
    odd = R(3 * 8)[: 1 * 3 * 4].as_strided((1, 3, 4), (1, 4, 1))  # a stride that no position has a part of
    w = R(1, 4, 5)
    for _ in range(2):
        torch.testing.assert_close(run(fd, odd, w), odd @ w)


class Program:
    """A random chain of products with kernels and views between, and what it computes by torch.

    Each step is a function of fusions and one of torch; it appends to `inputs` what it needs.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.dtype = self.random.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16])
        self.of = torch_dtype_to_nvfuser_dtype(self.dtype)
        self.inputs = [self.tensor([self.size() for _ in range(self.random.randint(1, 4))])]
        self.steps: list[tuple[Callable, Callable]] = []
        shape = list(self.inputs[0].shape)
        for _ in range(self.random.randint(2, 5)):
            shape = self.random.choice([self.product, self.layer, self.view, self.kernel, self.product])(shape)

    def size(self) -> int:
        return self.random.choice([1, 2, 3, 4, 5, 8])

    def tensor(self, shape: Sequence[int]) -> torch.Tensor:
        """Dense, with gaps, exchanged, or from another element than the first on."""
        wide = [2 * n for n in shape] if self.random.random() < 0.25 else list(shape)
        order = self.random.sample(range(len(shape)), len(shape)) if self.random.random() < 0.3 else range(len(shape))
        offset = self.random.choice([0, 0, 0, 1, 4])
        memory = R(math.prod(wide) + offset).to(self.dtype)[offset:].view([wide[d] for d in order])
        back = sorted(range(len(shape)), key=lambda d: list(order)[d])
        return memory.permute(back)[tuple(slice(0, n) for n in shape)]

    def add(self, tensor: torch.Tensor) -> int:
        self.inputs.append(tensor)
        return len(self.inputs) - 1

    def product(self, shape: list[int]) -> list[int]:
        k, n = shape[-1], self.size()
        batch = shape[:-2] if self.random.random() < 0.6 else []
        batch = [1 if self.random.random() < 0.1 else b for b in batch]
        vector = self.random.random() < 0.1 and len(shape) > 1
        i = self.add(self.tensor([k] if vector else [*batch, k, n]) * k**-0.5)
        self.steps.append((lambda fd, t, x: fd.ops.matmul(t, x[i]), lambda t, x: torch.matmul(t, x[i])))
        return shape[:-1] if vector else [*shape[:-1], n]

    def layer(self, shape: list[int]) -> list[int]:
        k, n = shape[-1], self.size()
        i = self.add(self.tensor([n, k]) * k**-0.5)
        j = self.add(self.tensor([n])) if self.random.random() < 0.6 else None
        self.steps.append(
            (
                lambda fd, t, x: fd.ops.linear(t, x[i], None if j is None else x[j]),
                lambda t, x: F.linear(t, x[i], None if j is None else x[j]),
            )
        )
        return [*shape[:-1], n]

    def view(self, shape: list[int]) -> list[int]:
        if self.random.random() < 0.5:
            order = self.random.sample(range(len(shape)), len(shape))
            self.steps.append((lambda fd, t, x: fd.ops.permute(t, order), lambda t, x: t.permute(order)))
            return [shape[d] for d in order]
        starts = [self.random.randint(0, n - 1) for n in shape]
        ends = [self.random.randint(s + 1, n) for s, n in zip(starts, shape, strict=True)]
        cut = tuple(slice(s, e) for s, e in zip(starts, ends, strict=True))
        self.steps.append((lambda fd, t, x: fd.ops.slice(t, starts, ends), lambda t, x: t[cut]))
        return [e - s for s, e in zip(starts, ends, strict=True)]

    def kernel(self, shape: list[int]) -> list[int]:
        self.steps.append((lambda fd, t, x: fd.ops.cast(fd.ops.sin(t), self.of), lambda t, x: torch.sin(t)))
        return shape

    def check(self) -> None:
        with FusionDefinition() as fd:
            x = [
                fd.define_tensor(
                    shape=list(t.shape),
                    contiguity=[None if n == 1 else False for n in t.shape],
                    dtype=self.of,
                )
                for t in self.inputs
            ]
            t = fd.ops.cast(fd.ops.add(x[0], 0.0), self.of)
            for step, _ in self.steps:
                t = step(fd, t, x)
            fd.add_output(fd.ops.add(t, float(next(fresh))))
            fd.add_output(t)
        tolerance = {torch.bfloat16: 0.1, torch.float32: 1e-4}.get(self.dtype, 1e-10)
        for _ in range(2):
            want = self.inputs[0]
            for _, step in self.steps:
                want = step(want, self.inputs)
            got = fd.execute(self.inputs, _enable_options=SIMULATE)[1]
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
            self.inputs = [t.copy_(torch.randn_like(t)) for t in self.inputs]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    torch.manual_seed(seed)
    Program(seed).check()


# ---- Failures ----


def failing(kind: type[BaseException]) -> Callable:
    def fail(*_):
        raise kind("on purpose")

    return fail


@pytest.mark.parametrize("kind", [RuntimeError, NotImplementedError, ValueError, TypeError, IndexError])
def test_what_torch_does_not_do_directly_the_callable_does(kind: type[Exception]) -> None:
    x, w = R(3, 4), R(4, 5)
    fd = definition(matmul, x, w)
    with watching(failing(kind)) as watched:
        for _ in range(3):
            assert torch.equal(run(fd, x, w), x @ w)
    assert watched.direct == ["mm"] and watched.called == 3


@pytest.mark.parametrize("kind", [KeyboardInterrupt, torch.OutOfMemoryError, TimeoutError, StopIteration])
def test_what_is_not_torchs_own_stays(kind: type[BaseException]) -> None:
    x, w = R(3, 4), R(4, 5)
    fd = definition(matmul, x, w)
    with watching(failing(kind)) as watched:
        for _ in range(2):
            with pytest.raises(kind, match="on purpose"):
                run(fd, x, w)
    assert watched.called == 0 and len(watched.direct) == 2
    assert torch.is_grad_enabled()


WRONG: dict[str, Callable[[torch.Tensor], object]] = {
    "dtype": lambda r: r.double(),
    "sizes": lambda r: r[:2],
    "more": lambda r: torch.cat([r, r]),
    "strides": lambda r: r.T.contiguous().T,
    "gaps": lambda r: torch.stack([r, r], -1)[..., 0],
    "subclass": lambda r: torch.nn.Parameter(r),
    "none": lambda r: None,
    "empty": lambda r: (),
    "in a tuple": lambda r: (r.double(),),
    "device": lambda r: r.to("meta"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_what_is_not_as_asked_the_callable_gives(what: str, shape: tuple[int, ...]) -> None:
    x, w = R(shape), R(4, 5)
    fd = definition(matmul, x, w)
    given = []

    def wrong(*arguments):
        value = WRONG[what](torch.mm(*arguments))
        given.extend([weakref.ref(value)] if isinstance(value, torch.Tensor) else [])
        return value

    with watching(wrong) as watched:
        for _ in range(2):
            assert torch.equal(run(fd, x, w), x @ w)
    assert watched.direct == ["mm"] and watched.called == 2
    gc.collect()
    assert all(ref() is None for ref in given)


def test_failure_of_both_names_the_operation(monkeypatch) -> None:
    x, w = R(3, 4), R(4, 5)
    fd = definition(matmul, x, w)
    with watching(failing(RuntimeError)) as watched:
        monkeypatch.setattr("nvfuser_go.torch_rows.matmul", failing(RuntimeError))
        with pytest.raises(FusionError, match=r"matmul\(\): torch fails: RuntimeError: on purpose; the arguments are"):
            run(fd, x, w)
        monkeypatch.undo()
        assert torch.equal(run(fd, x, w), x @ w)
    assert watched.called == 2


@pytest.mark.parametrize("function", [None, *map(failing, (RuntimeError, KeyboardInterrupt)), lambda *_: None])
def test_no_reference_is_left(function: Callable | None) -> None:
    x, w, b = R(2, 3, 4), R(5, 4), R(5)
    fd = definition(linear, x, w, b)

    def once() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            run(fd, x, w, b)

    with watching(function):
        for _ in range(5):
            once()
        gc.collect()
        before, objects = [sys.getrefcount(t) for t in (x, w, b)], len(gc.get_objects())
        constants = sys.getrefcount(True), sys.getrefcount(None)
        for _ in range(500):
            once()
        gc.collect()
        assert [sys.getrefcount(t) for t in (x, w, b)] == before
        assert len(gc.get_objects()) - objects < 20
        assert (sys.getrefcount(True), sys.getrefcount(None)) == pytest.approx(constants, abs=200)


SEVERAL: dict[str, tuple[int, Callable[..., object]]] = {  # how often the callable is called, and what is given
    "as asked": (0, lambda o, lse: (o, lse, None, None)),
    "seen": (0, lambda o, lse: (o, lse.unsqueeze(-1), None, None)),
    "the second in another type": (2, lambda o, lse: (o, lse.double(), None, None)),
    "the second of another size": (2, lambda o, lse: (o, lse[1:], None, None)),
    "the first in another type": (2, lambda o, lse: (o.double(), lse, None, None)),
    "too few": (2, lambda o, lse: (o,)),
    "one": (2, lambda o, lse: o),
}


@pytest.mark.parametrize("what", SEVERAL)
def test_several_results_are_taken_all_or_none(what: str, monkeypatch) -> None:
    q = R(2, 3, 4, 5)
    want = torch_attention.sdpfa_fwd(q, q, q, None, None, None, False, None, (True, True, False, False))
    calls, change = SEVERAL[what]
    given = []

    def forward(*arguments):
        results = change(*(x.clone() for x in want[:2]))
        given.extend(weakref.ref(x) for x in results if x is not None) if isinstance(results, tuple) else None
        return results

    monkeypatch.setattr(torch_attention, "forward_of", lambda *_: forward)
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * 4, [True] * 4)
        output, logsumexp, *_ = fd.ops.sdpfa_fwd(x, x, x)
        fd.add_output(fd.ops.add(fd.ops.mul(output, 2.0), float(next(fresh))))
        fd.add_output(logsumexp)
    with watching() as watched:
        for _ in range(2):
            assert torch.equal(fd.execute([q], _enable_options=SIMULATE)[1], want[1])
    assert watched.called == calls and len(watched.direct) == (2 if calls == 0 else 1)
    gc.collect()
    assert all(ref() is None for ref in given)


def test_one_tensor_is_not_several_results(monkeypatch) -> None:
    q = R(2, 3, 4, 5)
    monkeypatch.setattr(torch_attention, "backward_of", lambda *_: lambda d, q, *_: q.clone())
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * 4, [True] * 4)
        output, logsumexp, seed, offset = fd.ops.sdpfa_fwd(x, x, x)
        for gradient in fd.ops.sdpfa_bwd(x, x, x, x, output, logsumexp, 0.0, False, seed, offset):
            fd.add_output(gradient)
        fd.add_output(fd.ops.add(x, float(next(fresh))))
    o, lse, seed, offset = torch_attention.sdpfa_fwd(q, q, q, None, None, None, False, None, (True,) * 4)
    want = torch_attention.sdpfa_bwd(q, q, q, q, o, lse, 0.0, False, seed, offset, None)
    with watching() as watched:
        for _ in range(2):
            got = fd.execute([q], _enable_options=SIMULATE)[:3]
            torch.testing.assert_close(got, list(want))
    assert len(watched.direct) == 1


def test_memory_goes_when_it_was_read() -> None:
    """Also in a run that fails: of each product the first operand and the result are workspaces."""
    seen: list[weakref.ref] = []
    alive: list[int] = []

    def product(*arguments):
        alive.append(sum(ref() is not None for ref in seen))
        seen.append(weakref.ref(arguments[0]))
        if len(alive) == 7:
            raise KeyboardInterrupt
        result = torch.mm(*arguments)
        seen.append(weakref.ref(result))
        return result

    def chain(fd, x, w):
        for _ in range(4):
            x = fd.ops.matmul(fd.ops.sin(x), w)
        return fd.ops.sin(x)

    x, w = R(4, 4), R(4, 4)
    fd = definition(chain, x, w)
    with watching(product) as watched:
        run(fd, x, w)
        with pytest.raises(KeyboardInterrupt):
            run(fd, x, w)
    assert watched.called == 0 and alive == [0] * 7
    gc.collect()
    assert all(ref() is None for ref in seen)


# ---- What the program has set ----


@pytest.fixture(
    params=[(matmul, (2, 3, 4)), (linear, (2, 3, 4)), (matmul, (3, 4))], ids=["matmul", "linear", "matrices"]
)
def product(request) -> tuple[FusionDefinition, Callable[[], torch.Tensor], list[torch.Tensor], torch.Tensor]:
    compute, shape = request.param
    inputs = [R(shape), R(4, 4)]
    fd = definition(compute, *inputs)
    want = F.linear(*inputs) if compute is linear else torch.matmul(*inputs)
    return fd, lambda: run(fd, *inputs), inputs, want


def test_autograd_records_nothing(product) -> None:
    fd, _, inputs, want = product
    for leaves in ([t.clone().requires_grad_() for t in inputs], [torch.nn.Parameter(t) for t in inputs]):
        for _ in range(3):
            out = run(fd, *leaves)
            assert torch.equal(out, want) and out.grad_fn is None and not out.requires_grad and out.is_leaf
            assert torch.is_grad_enabled()
        (out * leaves[0].sum()).sum().backward()  # what is returned may take part in autograd
        assert leaves[0].grad is not None
        with torch.no_grad():
            run(fd, *leaves)
            assert not torch.is_grad_enabled()
        out.add_(1)
        out.requires_grad_().sum().backward()


def test_autograd_is_on_again_after_failures() -> None:
    x, w = R(3, 4), R(4, 5)
    seen = []

    def fail(*_):
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        raise KeyboardInterrupt

    fd = definition(matmul, x, w)
    with watching(fail), torch.autocast("cpu"), pytest.raises(KeyboardInterrupt):
        try:
            run(fd, x, w)
        finally:
            assert torch.is_grad_enabled() and torch.is_autocast_enabled("cpu")
    assert seen == [(False, False)]
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_autocast_changes_no_types(product) -> None:
    _, once, _, want = product
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(once(), want)
            assert torch.is_autocast_enabled("cpu")
            with torch.autocast("cpu", enabled=False):
                assert torch.equal(once(), want)
                assert not torch.is_autocast_enabled("cpu")
            assert torch.matmul(want, want.mT).dtype is torch.bfloat16
        assert not torch.is_autocast_enabled("cpu")


def test_other_settings(product) -> None:
    fd, once, inputs, want = product
    once()
    with torch.inference_mode():
        assert torch.equal(once(), want)
        assert torch.equal(run(fd, *(t.clone() for t in inputs)), want)
    assert not torch.is_inference_mode_enabled() and not once().is_inference()
    for settings in ((torch.set_default_dtype, torch.float64, torch.float32), (torch.set_default_device, "meta", None)):
        setting, value, before = settings
        setting(value)
        try:
            assert torch.equal(once(), want)
        finally:
            setting(before)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(once(), want)
    finally:
        torch.use_deterministic_algorithms(False)


class Functions(TorchFunctionMode):
    def __init__(self, change: Callable = lambda result: result) -> None:
        super().__init__()
        self.names: list[str] = []
        self.change = change

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.names.append(getattr(function, "__name__", str(function)))
        return self.change(result) if self.names[-1] in ("mm", "linear", "matmul") else result


class Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_modes_see_the_calls(product) -> None:
    _, once, _, want = product
    once()
    with Functions() as functions:
        assert torch.equal(once(), want)
    assert "mm" in functions.names
    with Operations() as operations:
        assert torch.equal(once(), want)
    assert "aten.mm.default" in operations.names
    with Functions(lambda result: torch.nn.Parameter(result)), pytest.raises(FusionError, match="replaces tensors"):
        once()
    assert torch.equal(once(), want)


def test_threads_have_settings_of_their_own() -> None:
    x, w, b = R(2, 3, 4), R(4, 4), R(4)
    fd = definition(lambda fd, x, w, b: fd.ops.sin(fd.ops.linear(fd.ops.sin(fd.ops.linear(x, w, b)), w, b)), x, w, b)
    want = torch.sin(F.linear(torch.sin(F.linear(x, w, b)), w, b))
    wrong = []
    start = threading.Barrier(6)

    def work(number: int) -> None:
        torch.set_grad_enabled(number % 2 == 0)
        start.wait()
        with torch.autocast("cpu", enabled=number % 3 == 0):
            for _ in range(50):
                if not torch.allclose(run(fd, x, w, b), want, atol=1e-6):
                    wrong.append(number)
                if (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")) != (number % 2 == 0, number % 3 == 0):
                    wrong.append(-number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_numbers_of_a_run_decide_nothing() -> None:
    """dropout_p and scale may be other ones in the next run."""
    q = torch_direct.Operand(0, R(1, 2, 3, 4))
    number = torch_direct.Operand(1, 0.5)
    form = torch_direct.FORMS["attention.sdpfa_fwd(query, key, value, bias, mask, dropout_p, is_causal, scale, wanted)"]
    wanted = (True, False, False, False)
    for changed in ({"dropout_p": number}, {"is_causal": number}, {"scale": number}, {"bias": q}, {"mask": q}):
        values = {"bias": None, "mask": None, "dropout_p": None, "is_causal": False, "scale": None} | changed
        assert form(query=q, key=q, value=q, wanted=wanted, **values) is None
