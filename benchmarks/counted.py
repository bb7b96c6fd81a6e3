"""Counts of kernels and of calls of torch that need no GPU: of a plan of ours, and of what torch.compile plans.

`ours` plans for the simulated device, which has the compute capability and the multiprocessors of an H100. `theirs` has
torch.compile write the code for one: tensors are torch's fake ones, on a device "cuda" that is not there, and what
Inductor asks about the device is answered for it. The code that would launch kernels is read once it is written, and
the graph runs on fake tensors in its place. Nothing is compiled for a GPU, and nothing runs on one. This takes hold of
torch where it promises nothing: another release may raise something here.
"""

import ast
import contextlib
import copy
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import block as blocks_in_common
import torch
import torch.nn.functional as F
from block import Block, Draw, Inputs
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from nvfuser_go.fusion import FusionExecutorCache

DEVICE = "planned for sm_90 without a GPU"
H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    multi_processor_count=132,
    total_memory=85017493504,
    warp_size=32,
    max_threads_per_block=1024,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472,
    L2_cache_size=52428800,
    gcnArchName="",
)
# Calls in the code that Inductor writes which have the device do nothing; cpp_fused_... computes on the CPU.
NO_WORK = re.compile(
    r"assert_\w+|empty_strided_\w+|cpp_fused_\w+|copy_if_misaligned|get_raw_stream|reinterpret_tensor|args\.clear"
    r"|torch\.cuda\._DeviceGuard|torch\.cuda\.set_device"
)
# The same for operations of eager: what asks, allocates or makes a view.
NO_WORK_OF_EAGER = frozenset(
    [
        "alias",
        "as_strided",
        "detach",
        "device",
        "empty",
        "empty_like",
        "empty_strided",
        "expand",
        "new_empty",
        "permute",
        "select",
        "slice",
        "split",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unsqueeze",
        "view",
    ]
)


def empties(block: Block, size: str, device: str) -> Inputs:
    """The inputs of a block, of no particular values."""
    inputs = block.inputs(Draw("meta"), **block.sizes[size])
    return [torch.empty_like(x, device=device) if isinstance(x, torch.Tensor) else x for x in inputs]


def ours(block: Block, size: str) -> dict[str, int]:
    """kernels that are launched, fills and calls of torch, in the plan of static sizes.

    fills set counters of blocks to zero, which a run does in the capture of a graph alone.
    """
    inputs = empties(block, size, "cpu")
    plan = FusionExecutorCache(block.fusion(inputs, dynamic=False).fusion)._executor.show(inputs, "plan")
    lines = {"kernels": r"launch \d", "fills": r"workspace .* of zeros$", "calls": r"call \d"}
    return {name: len(re.findall("^" + line, plan, re.MULTILINE)) for name, line in lines.items()}


def theirs(block: Block, size: str) -> dict[str, Any]:
    """What torch.compile's code for block.reference does.

    kernels are those that it generates, calls those of torch in its graphs, graphs how many run, and eager the
    operations between them, by name, but for those that move no data. A reference that asks
    autograd for gradients is one graph, traced with its backward. Raises what torch.compile raises, and RuntimeError if
    there is no Triton.
    """
    if importlib.util.find_spec("triton") is None:
        raise RuntimeError("torch.compile plans kernels for a GPU only with Triton, which is not installed")
    torch.compiler.reset()
    count = _Count(block.sizes[size].get("experts", 1))
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(blocks_in_common, "torch_kept", _drawn_by_torch))
        stack.enter_context(mock.patch.object(F, "scaled_dot_product_attention", _flash_attention))
        stack.enter_context(mock.patch.object(torch.cuda, "_lazy_init", lambda: None))
        if block.name.endswith("backward"):
            count.with_gradients(block.reference, empties(block, size, "meta"))
        else:
            with count.mode:
                inputs = empties(block, size, "cuda")
                count.between.clear()
                torch.compile(block.reference, backend=count.backend)(*inputs)
    return {
        "kernels": count.done["kernels"],
        "calls": count.done["calls"],
        "graphs": count.done["graphs"],
        "eager": dict(sorted(count.between.items())),
    }


def _drawn_by_torch(x: torch.Tensor, p: float, seed: int, offset: int) -> torch.Tensor:
    """torch_kept by torch's generator: that of the blocks runs a fusion, into which torch.compile does not see."""
    return torch.rand(x.shape, device=x.device) >= p


def _flash_attention(q, k, v, is_causal=False, enable_gqa=False) -> torch.Tensor:
    """scaled_dot_product_attention as a GPU has it for bfloat16: torch asks the driver which kernel to use."""
    size = q.shape[-1]
    if padding := -size % 8:
        q, k, v = (F.pad(x, (0, padding)) for x in (q, k, v))
    out = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal, False, scale=size**-0.5)[0]
    return out[..., :size] if padding else out


class _Written(Exception):
    """Ends a compilation whose code is written."""


class _Count:
    """Runs functions on fake tensors, with what torch.compile's graphs and eager between them would have a GPU do.

    done: kernels, calls and graphs so far. between: what eager did. mode: under which the tensors live.
    """

    def __init__(self, parts: int) -> None:
        """A search for the elements that are not 0 finds one in `parts`, of tensors that have no values."""
        self.done: Counter[str] = Counter()
        self.between: Counter[str] = Counter()
        self.mode = _Mode(self, parts)
        self.running = 0

    def backend(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Inductor, but that its graphs are counted and run on fake tensors."""
        from torch._inductor.compile_fx import compile_fx

        with _as_if_on_an_h100():
            return compile_fx(graph, inputs, inner_compile=self._inner)

    def _inner(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
        from torch._inductor.compile_fx import compile_fx_inner
        from torch._inductor.graph import GraphLowering

        codes: list[str] = []

        def take(code: str) -> None:
            codes.append(code)
            raise _Written

        original = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))  # what follows changes the graph
        with _as_if_on_an_h100(), mock.patch.object(GraphLowering, "save_output_code", staticmethod(take)):
            try:
                compile_fx_inner(graph, inputs, **options)
            except Exception as error:
                if not any(isinstance(e, _Written) for e in _causes(error)):
                    raise
        work = Counter(graphs=1) + sum(map(work_of, codes), Counter())

        def run(*arguments: Any) -> Any:
            self.done += work
            self.running += 1
            try:
                return original(*arguments)
            finally:
                self.running -= 1

        return run

    def with_gradients(self, function: Callable[..., Any], inputs: Inputs) -> None:
        """Counts a function that calls torch.autograd.grad.

        autograd wants a device that is there, so it is traced on the CPU, and the operations are moved.
        """
        places = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)]

        def of_tensors(*given: torch.Tensor) -> Any:
            arguments = list(inputs)
            for i, x in zip(places, given, strict=True):
                arguments[i] = x
            return function(*arguments)

        def on(device: str) -> list[torch.Tensor]:
            return [torch.empty_like(inputs[i], device=device) for i in places]

        def moved(x: Any) -> Any:
            return torch.device("cuda", 0) if isinstance(x, torch.device) else x

        with self.mode:
            graph = make_fx(of_tensors)(*on("cpu"))
            for node in graph.graph.nodes:
                node.args, node.kwargs = torch.fx.node.map_aggregate((node.args, node.kwargs), moved)
            graph.recompile()
            self.between.clear()
            self.backend(graph, on("cuda"))(*on("cuda"))


class _Mode(FakeTensorMode):
    """Counts what eager has the device do."""

    def __init__(self, count: _Count, parts: int) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self._count, self._parts = count, parts

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self._count.running == 0 and torch._guards.TracingContext.try_get() is None:
            name = func.overloadpacket.__name__
            if name not in NO_WORK_OF_EAGER:
                self._count.between[name] += 1
            if name == "nonzero":
                (x,) = args
                return x.new_empty((x.numel() // self._parts, x.dim()), dtype=torch.int64)
        return super().__torch_dispatch__(func, types, args, kwargs)


def work_of(code: str) -> Counter[str]:
    """kernels that the code of a graph launches and calls of torch; what it computes on the CPU does not count."""
    work: Counter[str] = Counter()
    for function in ast.walk(ast.parse(code)):
        if isinstance(function, ast.FunctionDef) and function.name == "call":
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    name = ast.unparse(node.func)
                    if name.startswith("triton_") and name.endswith(".run"):
                        work["kernels"] += 1
                    elif not NO_WORK.fullmatch(name):
                        work["calls"] += 1
    return work


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class _Driver:
    """What Triton asks a driver."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)


@contextlib.contextmanager
def _as_if_on_an_h100() -> Iterator[None]:
    """Answers what is asked about the device while Inductor works. Fake tensors go on without one: they need none."""
    import torch._inductor.config as config
    from torch.utils import _triton
    from triton.runtime import driver

    def available() -> bool:
        return sys._getframe(1).f_globals["__name__"] != fake_tensor.__name__

    def forget() -> None:
        """What torch remembers of whether there is Triton."""
        for function in vars(_triton).values():
            getattr(function, "cache_clear", lambda: None)()

    answers = {
        "is_available": available,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: H100,
        "get_device_capability": lambda device=None: (H100.major, H100.minor),
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda state, device=None: None,
        "_lazy_init": lambda: None,
        "_get_device_properties": lambda device: H100,
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(fake_tensor.unset_fake_temporarily())
        stack.enter_context(mock.patch.multiple(torch.cuda, create=True, **answers))
        stack.enter_context(mock.patch.object(fake_tensor, "init_gpu_context", lambda *device: None))
        # Constants would be computed on the device, padded products timed there, and code of before taken from a cache.
        without = {"joint_graph_constant_folding": False, "shape_padding": False, "force_disable_caches": True}
        stack.enter_context(config.patch(without))
        forget()
        driver.set_active(_Driver())  # and stays so: without a GPU there is none to go back to
        try:
            yield
        finally:
            forget()
