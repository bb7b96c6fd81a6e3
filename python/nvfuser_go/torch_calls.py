"""Calls of torch from plans: what a plan says of one as JSON becomes a callable.

A call computes one operation by the torch expression of its row, on tensors of one device, while autograd and autocast
are off. It waits for no device and changes no argument. Its results are of the dtype, sizes and strides that the plan
asks for, and share memory with nothing.
"""

import ast
import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from nvfuser_go import torch_attention, torch_direct, torch_rows
from nvfuser_go.errors import FusionError

# How an argument is seen that is not the whole tensor: its dtype, sizes, strides and offset, in elements of that dtype
# from the first element of the tensor.
View = tuple[torch.dtype, tuple[int, ...], tuple[int, ...], int]

# What torch raises; any other exception comes from a signal handler or a hook of the program, and stays.
FAILURES = (
    RuntimeError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    MemoryError,
)


def prepare_call(spec: str, views: Sequence[View | None], device: torch.device) -> Callable[..., tuple[Any, ...]]:
    """The callable for a call: it takes tensors and numbers, one for each of `views`, and gives a tuple of results.

    spec is an object with the keys called and where (the operation and the line, for messages),
    expression, parameters (pairs of a name and its value as Python; "_0" is argument 0), own (torch allocates the
    results), and results (objects of dtype, sizes, strides, kept). The expression may also ask for wanted, which of the
    results are kept. views say how to see the tensors among the arguments; None: as they are.

    The callable raises FusionError for what torch raises, which is its cause; torch.OutOfMemoryError stays. Unsupported
    says that torch has no kernel for what is asked.

    Its attribute direct takes the arguments of the first run, all of them seen, and tells how torch is called in all
    runs where that needs no Python: a function, its arguments and how results are seen (torch_direct.Made), and what
    it may raise; None: by the callable.
    """
    call = json.loads(spec)
    wanted = ("wanted", str(tuple(r["kept"] for r in call["results"])))
    parameters = (*(tuple(pair) for pair in call["parameters"]), wanted)
    compute = _function(call["expression"], parameters, len(views))
    results = [
        (getattr(torch, r["dtype"]), tuple(r["sizes"]), tuple(r["strides"])) if r["kept"] else None
        for r in call["results"]
    ]
    seen = [(i, *view) for i, view in enumerate(views) if view is not None]
    kept = [i for i, r in enumerate(results) if r is not None]
    # One result in memory of its own is asked less: 4 of the 8 us that a call of two tensors takes beside torch.
    one = kept[0] if call["own"] and len(kept) == 1 else None
    others = [None] * len(results)

    def run(*arguments: Any) -> tuple[Any, ...]:
        try:
            if seen:
                arguments = _seen(arguments, seen)
            values = _computed(compute, device, arguments)
            if one is not None and _is_as_asked(values[one], results[one]):
                return (*others[:one], values[one], *others[one + 1 :])
            return _as_asked(values, results, arguments, device)
        except (torch.OutOfMemoryError, FusionError):
            raise
        except FAILURES as failure:
            raise FusionError(_message(call, arguments, failure)) from failure

    def direct(*arguments: Any) -> tuple[Any, ...] | None:
        if not call["own"]:
            return None
        values = {name: _parameter(value, arguments) for name, value in call["parameters"]}
        try:
            made = torch_direct.direct_call(call["expression"], values, [r and r[1:] for r in results])
        except FAILURES:
            return None
        return None if made is None else (*made, FAILURES)

    run.direct = direct
    return run


def _parameter(text: str, arguments: tuple[Any, ...]) -> Any:
    """What a parameter is to torch_direct."""
    if text.startswith("_"):
        position = int(text[1:])
        return torch_direct.Operand(position, arguments[position])
    try:
        return ast.literal_eval(text)
    except ValueError:
        return ...


@functools.lru_cache(maxsize=4096)
def _function(expression: str, parameters: tuple[tuple[str, str], ...], count: int) -> Callable[..., Any]:
    """A function of a device and `count` arguments that gives the value of the expression."""
    arguments = ", ".join(["device", *(f"_{i}" for i in range(count))])
    assigned = ", ".join(name for name, _ in parameters)
    values = ", ".join(value for _, value in parameters)
    text = f"def call({arguments}):\n    {assigned}, = {values},\n    return {expression}"
    names = {"torch": torch, "F": torch.nn.functional, "rows": torch_rows, "attention": torch_attention}
    exec(text, names)
    return names["call"]


def _seen(arguments: tuple[Any, ...], views: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    all_seen = list(arguments)
    for i, dtype, sizes, strides, offset in views:
        tensor = arguments[i]
        first = tensor.storage_offset()
        if tensor.dtype is not dtype:
            span = (
                1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
                if tensor.numel()
                else 0
            )
            octets = torch.as_strided(tensor, (span,), (1,), first).view(torch.uint8)
            tensor = octets[: octets.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
            first = tensor.storage_offset()
        all_seen[i] = torch.as_strided(tensor, sizes, strides, first + offset)
    return tuple(all_seen)


def _computed(compute: Callable[..., Any], device: torch.device, arguments: tuple[Any, ...]) -> Sequence[Any]:
    """The values of the expression. What torch does not do on a type, it does on a wider one or on the same bits."""
    try:
        values = compute(device, *arguments)
    except (torch.OutOfMemoryError, FusionError):
        raise
    except RuntimeError:  # NotImplementedError among them
        wider = [_widened(x) for x in arguments]
        if all(x is y for x, y in zip(wider, arguments, strict=True)):
            raise
        values = compute(device, *wider)
    return (values,) if isinstance(values, torch.Tensor) else values


def _widened(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    if x.dtype is torch.uint64:
        return x.view(torch.int64)
    return x.float() if x.dtype.is_floating_point and x.dtype.itemsize == 1 else x


def _is_as_asked(value: torch.Tensor, asked: tuple[Any, ...]) -> bool:
    dtype, sizes, strides = asked
    return value.dtype is dtype and value.shape == sizes and _lies_as(value, strides) and value.storage_offset() == 0


def _lies_as(value: torch.Tensor, strides: tuple[int, ...]) -> bool:
    """Whether a tensor has these strides, but along dimensions of one element, where they say nothing."""
    own = value.stride()
    return own == strides or all(n == 1 or s == t for n, s, t in zip(value.shape, own, strides, strict=True))


def _as_asked(
    values: Sequence[Any], asked: list[Any], arguments: tuple[Any, ...], device: torch.device
) -> tuple[Any, ...]:
    taken = {_first(x) for x in arguments if isinstance(x, torch.Tensor)}
    results: list[Any] = []
    for value, wanted in zip(values, asked, strict=True):
        if wanted is None:
            results.append(None)
            continue
        dtype, sizes, strides = wanted
        if value.dtype is not dtype:
            value = torch_rows.converted(value, dtype)
        if value.shape != sizes:
            raise RuntimeError(f"a result has shape {list(value.shape)}, and {list(sizes)} was expected")
        memory = _first(value)
        if (
            memory in taken
            or value.storage_offset()
            or not _lies_as(value, strides)
            or value.device != device
            or _has_bits(value)
        ):
            value = _placed(value, strides, device)
            memory = _first(value)
        if memory:
            taken.add(memory)
        results.append(value)
    return tuple(results)


def _first(x: torch.Tensor) -> int:
    """The address of the memory in which x lies; reading it from the storage takes five times as long."""
    return x.data_ptr() - x.storage_offset() * x.element_size()


def _has_bits(value: torch.Tensor) -> bool:
    return value.is_conj() or value.is_neg()


def _placed(value: torch.Tensor, strides: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """A copy with these strides. Where a stride is 0, all positions are one element."""
    own = torch.empty_strided(value.shape, strides, dtype=value.dtype, device=device)
    to = own
    for d, (n, s) in enumerate(zip(value.shape, strides, strict=True)):
        if s == 0 and n > 1:
            to, value = to.narrow(d, 0, 1), value.narrow(d, 0, 1)
    to.copy_(value)
    return own


def _message(call: dict[str, Any], arguments: tuple[Any, ...], failure: Exception) -> str:
    shown = ", ".join(
        f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}" if isinstance(x, torch.Tensor) else repr(x)
        for x in arguments
    )
    words = str(failure).splitlines() or [""]
    where = f" (defined at {call['where']})" if call["where"] else ""
    error = f"{type(failure).__name__}: {words[0]}"
    return f"{call['called']}(): torch fails: {error}; the arguments are {shown or 'none'}{where}"
