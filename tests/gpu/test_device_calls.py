"""Calls of torch on the device: rows as plans call them, attention by each of torch's kernels, whole fusions."""

import os

import pytest
import torch
from device import DEVICE, execute, put
from test_sweep import RANDOM, TABLE
from test_torch_calls import by_torch, problems

from nvfuser_go import DataType, FusionDefinition
from nvfuser_go.torch_attention import _kernel, sdpfa_bwd, sdpfa_fwd

EVERY = int(os.environ.get("GPU_TESTS_EVERY", "1"))

pytestmark = [pytest.mark.cuda]


# The others are computed by kernels, whatever they are part of.
ROWS = [n for n, row in TABLE.items() if n not in RANDOM and row["class"] not in ("query", "elementwise", "composite")]


@pytest.mark.parametrize("name", ROWS)
def test_row(name: str) -> None:
    found = problems(TABLE[name], lambda program: by_torch(program, put, torch.device(DEVICE)), EVERY)
    assert not found, f"{len(found)} cases are wrong:\n" + "\n".join(found[:25])


ATTENTION = [  # dtype, heads, heads of keys, queries, keys, features, features of values, causal, the kernel
    (torch.bfloat16, 8, 8, 96, 96, 64, 64, True, "flash"),
    (torch.float16, 8, 2, 33, 70, 128, 128, False, "flash"),
    (torch.float16, 4, 2, 40, 72, 64, 64, True, "efficient"),
    (torch.bfloat16, 4, 4, 64, 64, 64, 32, False, "efficient"),
    (torch.float32, 4, 2, 45, 45, 36, 36, True, "efficient"),
    (torch.float32, 2, 2, 17, 19, 7, 5, True, None),
    (torch.float64, 2, 1, 17, 17, 8, 8, True, None),
]


@pytest.fixture(params=[True, False], ids=["cudnn", "no cudnn"])
def cudnn(request):
    """Attention with and without cuDNN, which torch uses as it is turned on."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(request.param)
    yield request.param
    torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize("dtype, heads, key_heads, queries, keys, features, of_values, causal, kernel", ATTENTION)
def test_attention(dtype, heads, key_heads, queries, keys, features, of_values, causal, kernel, cudnn) -> None:
    torch.manual_seed(1)
    q = torch.randn(2, heads, queries, features, dtype=dtype, device=DEVICE)
    k = torch.randn(2, key_heads, keys, features, dtype=dtype, device=DEVICE)
    v = torch.randn(2, key_heads, keys, of_values, dtype=dtype, device=DEVICE)
    d = torch.randn(2, heads, queries, of_values, dtype=dtype, device=DEVICE)
    assert _kernel(q, k, v, causal) == kernel
    with torch.no_grad():
        output, logsumexp, seed, offset = sdpfa_fwd(q, k, v, None, None, 0.0, causal, 0.3, (True,) * 4)
        alone = sdpfa_fwd(q, k, v, None, None, 0.0, causal, 0.3, (True, False, False, False))[0]
        torch.testing.assert_close(alone, output)
        gradients = sdpfa_bwd(d, q, k, v, output, logsumexp, 0.0, causal, seed, offset, 0.3)
        moved = [
            torch.empty(x.numel() + 1, dtype=dtype, device=DEVICE)[1:].view_as(x).copy_(x) for x in (d, q, k, v, output)
        ]
        elsewhere = sdpfa_bwd(*moved, logsumexp, 0.0, causal, seed, offset, 0.3)  # at no multiple of 16 bytes
        torch.cuda.synchronize()
        torch.testing.assert_close(elsewhere, gradients)
        # The logarithms of one kernel are those that the other one takes.
        torch.backends.cuda.enable_cudnn_sdp(not cudnn)
        of_other = sdpfa_bwd(d, q, k, v, output, logsumexp, 0.0, causal, seed, offset, 0.3)
        torch.testing.assert_close(of_other, gradients, rtol=2e-2, atol=2e-2)
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    groups = heads // key_heads
    scores = wide[0] @ wide[1].repeat_interleave(groups, 1).mT * 0.3
    if causal:
        hidden = torch.ones(queries, keys, dtype=torch.bool, device=DEVICE).tril().logical_not()
        scores = scores.masked_fill(hidden, -torch.inf)
    want = torch.softmax(scores, -1) @ wide[2].repeat_interleave(groups, 1)
    epsilon = {torch.float32: 1e-3, torch.float64: 1e-9}.get(dtype, 3e-2)
    torch.testing.assert_close(output.double(), want, rtol=epsilon, atol=epsilon)
    torch.testing.assert_close(logsumexp.double(), torch.logsumexp(scores, -1), rtol=epsilon, atol=epsilon)
    assert logsumexp.shape == (2, heads, queries)
    for got, wanted in zip(gradients, torch.autograd.grad(want, wide, d.double()), strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=epsilon, atol=2 * epsilon * wanted.abs().max().item())


def block() -> FusionDefinition:
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, -1], [True, True])
        b = fd.define_tensor([-1, -1], [True, True])
        s = fd.define_scalar(dtype=DataType.Double)
        product = fd.ops.matmul(fd.ops.relu(fd.ops.mul(a, s)), b)
        result = fd.ops.add(fd.ops.sin(product), 1.0)
        fd.add_output(result)
        fd.add_output(fd.ops.argsort(result, 1))
        fd.add_output(product)
    return fd


def check(outputs: list[torch.Tensor], a: torch.Tensor, b: torch.Tensor, s: float) -> None:
    product = torch.relu(a * s) @ b
    torch.testing.assert_close(outputs[2], product)
    torch.testing.assert_close(outputs[0], product.sin() + 1)
    assert torch.equal(outputs[1], torch.argsort(outputs[0], dim=1, stable=True))


def test_nan_with_a_sign_is_sorted_as_nan() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], [True], DataType.BFloat16)
        fd.add_output(fd.ops.argsort(x, 0))
        fd.add_output(fd.ops.topk(x, 2)[0])
    for n in (4, 33, 3000, 20_000):  # the last one is for torch
        x = torch.arange(n, dtype=torch.float32, device=DEVICE).neg().to(torch.bfloat16)
        x.view(torch.int16)[1] = -1
        order, largest = execute(fd, [x])
        assert order.tolist() == torch.argsort(x.cpu(), stable=True).tolist() and order[-1] == 1
        assert largest[0].isnan() and largest[1] == 0


def test_fusion() -> None:
    fd = block()
    for m, n, s in ((64, 48, 0.5), (64, 48, 0.25), (128, 31, 0.5)):
        a, b = torch.randn(m, 64, device=DEVICE), torch.randn(64, n, device=DEVICE)
        check(execute(fd, [a, b, s]), a, b, s)


def test_graph() -> None:
    fd = block()
    a, b = torch.randn(64, 64, device=DEVICE), torch.randn(64, 48, device=DEVICE)
    execute(fd, [a, b, 0.5])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = execute(fd, [a, b, 0.5])
    for _ in range(2):
        a.copy_(torch.randn_like(a))
        graph.replay()
        torch.cuda.synchronize()
        check(outputs, a, b, 0.5)


def test_nothing_is_left() -> None:
    fd = block()
    a, b = torch.randn(512, 512, device=DEVICE), torch.randn(512, 512, device=DEVICE)
    execute(fd, [a, b, 0.5])
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(50):
        execute(fd, [a, b, 0.5])
    assert torch.cuda.memory_allocated() == before


def test_out_of_memory_of_a_call() -> None:
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, 2], [True, True])
        b = fd.define_tensor([2, -1], [True, True])
        fd.add_output(fd.ops.sin(fd.ops.matmul(fd.ops.sin(a), b)))
    a, b = torch.randn(1 << 20, 2, device=DEVICE), torch.randn(2, 1 << 20, device=DEVICE)
    before = torch.cuda.memory_allocated()
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            execute(fd, [a, b])
        assert torch.cuda.memory_allocated() == before
    small = execute(fd, [a[:8], b[:, :8].contiguous()])
    torch.testing.assert_close(small[0], (a[:8].sin() @ b[:, :8]).sin())


@pytest.mark.parametrize("dtype, heads, key_heads, queries, keys, features, of_values, causal, kernel", ATTENTION)
def test_attention_alone(dtype, heads, key_heads, queries, keys, features, of_values, causal, kernel, cudnn) -> None:
    """Where only the output is wanted: in the first run and later ones, also after cuDNN was turned on or off."""
    torch.manual_seed(2)
    q = torch.randn(2, queries, heads, features, dtype=dtype, device=DEVICE).transpose(1, 2)
    k = torch.randn(2, keys, key_heads, features, dtype=dtype, device=DEVICE).transpose(1, 2)
    v = torch.randn(2, keys, key_heads, of_values, dtype=dtype, device=DEVICE).transpose(1, 2)
    scale = 0.3 if cudnn else 0.31  # plans of their own
    with FusionDefinition() as fd:
        heads_of = [fd.ops.permute(fd.from_pytorch(x.transpose(1, 2)), [0, 2, 1, 3]) for x in (q, k, v)]
        fd.add_output(fd.ops.sdpfa_fwd(*heads_of, is_causal=causal, scale=scale)[0])
    inputs = [x.transpose(1, 2) for x in (q, k, v)]
    with torch.no_grad():
        want = sdpfa_fwd(q, k, v, None, None, 0.0, causal, scale, (True, False, False, False))[0]
    first = execute(fd, inputs)[0]
    torch.testing.assert_close(first, want)
    with torch.autocast("cuda"):
        again = execute(fd, [x.requires_grad_() for x in inputs])[0]
        assert torch.is_autocast_enabled("cuda") and torch.is_grad_enabled()
    assert again.grad_fn is None and torch.equal(again, first)
    torch.backends.cuda.enable_cudnn_sdp(not cudnn)
    torch.testing.assert_close(execute(fd, inputs)[0], want, rtol=2e-2, atol=2e-2)
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    assert torch.equal(execute(fd, inputs)[0], first)


def layers() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], [True] * 3)
        w = fd.define_tensor([-1, -1], [True] * 2)
        b = fd.define_tensor([-1], [True])
        y = fd.ops.linear(fd.ops.sin(fd.ops.linear(x, w, b)), w)
        fd.add_output(fd.ops.add(fd.ops.matmul(y, fd.ops.permute(y, [0, 2, 1])), 1.0))
    return fd


def test_products_on_another_stream_and_in_a_graph() -> None:
    fd = layers()
    x, w, b = (torch.randn(*shape, device=DEVICE) for shape in ((3, 16, 32), (32, 32), (32,)))

    def want() -> torch.Tensor:
        y = torch.nn.functional.linear(torch.sin(torch.nn.functional.linear(x, w, b)), w)
        return y @ y.mT + 1

    execute(fd, [x, w, b])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.cuda._sleep(10_000_000)
            x.normal_()
            torch.testing.assert_close(execute(fd, [x, w, b])[0], want())
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (output,) = execute(fd, [x, w, b])
    for _ in range(2):
        x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(output, want())


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", [(2, 4, 64, 64), (1, 2, 1, 128), (1, 3, 70, 32)])
def test_gradients_of_attention_in_a_plan(shape: tuple[int, ...], causal: bool, cudnn: bool) -> None:
    """In the first run and later ones, also after cuDNN was turned on or off, and in a graph."""
    torch.manual_seed(3)
    batch, heads, positions, size = shape
    inputs = [torch.randn(batch, positions, heads, size, device=DEVICE, dtype=torch.bfloat16) for _ in range(4)]
    with FusionDefinition() as fd:
        d, q, k, v = (fd.ops.permute(fd.from_pytorch(x), [0, 2, 1, 3]) for x in inputs)
        scale = 0.3 if cudnn else 0.31  # plans of their own
        output, logsumexp, seed, offset = fd.ops.sdpfa_fwd(q, k, v, is_causal=causal, scale=scale)
        fd.add_output(logsumexp)
        for x in fd.ops.sdpfa_bwd(d, q, k, v, output, logsumexp, 0.0, causal, seed, offset, scale):
            fd.add_output(x)
    d, q, k, v = (x.transpose(1, 2) for x in inputs)
    with torch.no_grad():
        output, logsumexp, seed, offset = sdpfa_fwd(q, k, v, None, None, 0.0, causal, scale, (True,) * 4)
        want = [logsumexp, *sdpfa_bwd(d, q, k, v, output, logsumexp, 0.0, causal, seed, offset, scale)]
    torch.testing.assert_close(execute(fd, inputs), want, rtol=2e-2, atol=2e-2)
    torch.backends.cuda.enable_cudnn_sdp(not cudnn)
    torch.testing.assert_close(execute(fd, inputs), want, rtol=2e-2, atol=2e-2)
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = execute(fd, inputs)
    for x in outputs:
        x.zero_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(outputs, want, rtol=2e-2, atol=2e-2)
