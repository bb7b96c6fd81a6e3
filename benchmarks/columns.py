"""Who computes a row: nvfuser_go, and what it is compared with. A column is a call that computes the row once."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import torch
from handwritten import Handwritten
from programs import Program
from row import Row, tolerance

import nvfuser_go

OURS, AGAIN = "nvfuser_go", "nvfuser_go again"
EAGER, COMPILED, NVFUSER = "eager", "torch.compile", "nvFuser"
PEERS = (EAGER, COMPILED, NVFUSER)
STATIC = "static sizes"  # our kernel of a definition for the sizes of the inputs alone; only where it is asked for
COPIES = ("copy_", "copy kernel")
BY_HAND = "by hand: "  # and the name of a kernel

COPY_UNIT = 4096  # bytes that a block of the copy kernel moves


@dataclass
class Columns:
    """The calls that can be timed, by column; how far the results of each are from right, in the 2-norm; which are too
    far; and why others cannot be timed."""

    calls: dict[str, Callable[[], object]] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def other_package() -> ModuleType | None:
    """nvFuser, where it is installed."""
    try:
        return importlib.import_module("nvfuser_direct")
    except (ImportError, OSError):
        return None


def fused(package: ModuleType, program: Program, static_sizes: bool = False) -> Callable:
    """A call of the program as a fusion of `package`."""
    fd = program.fusion(package, static_sizes)
    if program.inputs:
        return fd.execute
    return lambda inputs: fd.execute(inputs, device="cuda")


def spread(call: Callable, program: Program) -> Callable:
    """A call of inputs from one that takes them one by one."""
    if program.inputs:
        return lambda inputs: call(*inputs)
    return lambda inputs: call(*program.arguments)


def eager(program: Program) -> Callable:
    return spread(program.eager, program)


def compiled(program: Program) -> Callable:
    torch._dynamo.reset()
    return spread(torch.compile(program.eager, dynamic=False, fullgraph=True), program)


def makers(peers: Sequence[str]) -> dict[str, Callable[[Program], Callable]]:
    """By column, what makes a call of inputs from a program; of peers, those that are asked for and there are."""
    found = {OURS: lambda program: fused(nvfuser_go, program), EAGER: eager, COMPILED: compiled}
    found[STATIC] = lambda program: fused(nvfuser_go, program, static_sizes=True)
    if NVFUSER in peers and (package := other_package()):
        found[NVFUSER] = lambda program: fused(package, program)
    return {name: make for name, make in found.items() if name == OURS or name in peers}


def columns(row: Row, program: Program, peers: Sequence[str], handwritten: Handwritten | None) -> Columns:
    """What computes the row; each result is checked, and a wrong one is timed all the same."""
    out = Columns()
    outputs = row.outputs(program)
    bound = tolerance(outputs)

    def add(name: str, make: Callable[[], Callable]) -> None:
        try:
            call = make()
            out.errors[name] = row.error(program, call)
            torch.cuda.synchronize()
        except Exception as error:
            out.refused[name] = f"{type(error).__name__}: {error}".split("\n", 1)[0][:300]
            return
        if not out.errors[name] <= max(bound, row.torch_error if name in (EAGER, COMPILED) else 0):
            out.wrong.append(name)
        inputs = list(program.inputs)
        out.calls[name] = lambda: call(inputs)

    for name, make in makers(peers).items():
        add(name, lambda make=make: make(program))
    if OURS in out.calls:
        out.calls[AGAIN] = out.calls[OURS]
    if handwritten is not None and not row.writes:
        results = [torch.empty_like(x) for x in outputs]
        for name, launch in handwritten.calls(row.name, row.sizes, program.inputs, results).items():

            def call(inputs: object, launch: Callable = launch) -> list[torch.Tensor]:
                launch()
                return results

            for x in results:
                x.fill_(float("nan"))
            add(BY_HAND + name, lambda call=call: call)
            if BY_HAND + name in out.calls:
                out.calls[BY_HAND + name] = launch
    return out


def copies(moved: int, own: Handwritten) -> tuple[int, dict[str, Callable[[], object]]]:
    """Copies that read half of `moved` bytes and write half, and how many they move, for which blocks are full."""
    half = -(-moved // (2 * COPY_UNIT)) * COPY_UNIT
    source = torch.empty(half, dtype=torch.uint8, device="cuda").random_()
    targets = [torch.empty_like(source) for _ in COPIES]
    kernel = own.calls("copy", {"N": half // 16}, [source], [targets[1]])["copy"]
    calls = [lambda: targets[0].copy_(source), kernel]
    for call, target in zip(calls, targets, strict=True):
        call()
        if not torch.equal(target, source):
            raise RuntimeError("a copy does not copy")
    return 2 * half, dict(zip(COPIES, calls, strict=True))
