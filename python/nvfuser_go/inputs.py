"""What may be given as an input of a fusion, besides plain torch tensors and Python numbers.

The compiled core reads tensors of exactly the types torch.Tensor and Parameter, and bool, int, float and complex.
`prepare` turns everything else that is accepted into these: nested lists are flattened, numpy arrays and objects with
`__dlpack__` become tensors on the same memory, numpy scalars become Python numbers. What is not accepted raises
InvalidType and is called by its position and type.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from nvfuser_go.errors import InvalidArgument, InvalidType

MAX_DEVICES = 256

# Lists nested more deeply than this are no use of anybody's: one of them contains itself.
MAX_DEPTH = 100

# The types that the core reads as they are.
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, bool, int, float, complex})


def flatten(inputs: Iterable[Any]) -> Iterator[Any]:
    """The leaves of nested lists and tuples, in order.

    Raises InvalidArgument for lists nested more than MAX_DEPTH deep.
    """
    stack = [iter(inputs)]
    while stack:
        for item in stack[-1]:
            if isinstance(item, list | tuple):
                if len(stack) > MAX_DEPTH:
                    raise InvalidArgument(
                        f"execute(): inputs has lists nested more than {MAX_DEPTH} deep; does a list contain itself?"
                    )
                stack.append(iter(item))
                break
            yield item
        else:
            stack.pop()


def as_list(inputs: Iterable[Any], where: str) -> list[Any]:
    """The values of an argument `inputs` of the function `where`. Raises InvalidType for what is no list."""
    # A tensor could be iterated over, and would be taken for the list of its rows.
    if isinstance(inputs, torch.Tensor | np.ndarray | str | Mapping) or not isinstance(inputs, Iterable):
        raise InvalidType(f"{where}: inputs must be a list with a value for each input, got {_type_name(inputs)}")
    return list(inputs)


def prepare(inputs: Iterable[Any], aliased: frozenset[int] = frozenset()) -> tuple[list[Any], bool]:
    """Turns inputs into what the core reads; whether the outputs are to be numpy arrays is the second result.

    They are if there is a tensor among the inputs and each is a numpy array. `aliased` has the positions of inputs that
    the fusion writes to: an array there must be writable.

    Raises InvalidType or InvalidArgument naming the input.
    """
    plain: list[Any] = []
    arrays = tensors = 0
    for position, item in enumerate(flatten(as_list(inputs, "execute()"))):
        value = _prepare_one(item, position, position in aliased)
        tensors += isinstance(value, torch.Tensor)
        arrays += isinstance(item, np.ndarray)
        plain.append(value)
    return plain, arrays > 0 and arrays == tensors


def _prepare_one(item: Any, position: int, written: bool) -> Any:
    if isinstance(item, torch.Tensor):
        return _tensor(item, position)
    if isinstance(item, np.ndarray):
        return _array(item, position, written)
    if isinstance(item, np.generic):
        item = item.item()
    for number in (bool, int, float, complex):
        if isinstance(item, number):
            return number(item)
    if hasattr(item, "__dlpack__"):
        try:
            return torch.from_dlpack(item)
        except Exception as failure:
            raise InvalidType(
                f"execute(): input {position} ({_type_name(item)}) cannot be read by DLPack: {failure}"
            ) from failure
    raise InvalidType(
        f"execute(): input {position} is of type {_type_name(item)}; an input is a torch tensor, a numpy array, "
        "an object with __dlpack__, a bool, an int, a float or a complex"
    )


def _type_name(item: Any) -> str:
    kind = type(item)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _tensor(tensor: torch.Tensor, position: int) -> torch.Tensor:
    """The tensor, if it is one whose memory the core can read."""

    def refuse(what: str, advice: str) -> InvalidType:
        return InvalidType(f"execute(): input {position} is {what}; {advice}")

    if type(tensor) not in PLAIN:
        raise refuse(
            f"of type {_type_name(tensor)}, a subclass of torch.Tensor that may hold its data elsewhere",
            "pass a plain torch.Tensor",
        )
    if tensor.layout is not torch.strided:
        raise refuse(f"a tensor of layout {tensor.layout}", "pass a dense one, such as x.to_dense()")
    if tensor.is_quantized:
        raise refuse(f"a quantized tensor ({tensor.dtype})", "pass x.dequantize()")
    if tensor.is_meta:
        raise refuse("a meta tensor, which has no data", "pass one that has")
    return tensor


def _array(array: np.ndarray, position: int, written: bool) -> torch.Tensor:
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidType(
            f"execute(): input {position} is a masked array, whose mask would be lost; pass x.filled(value)"
        )
    if any(stride < 0 for stride in array.strides):
        raise InvalidArgument(
            f"execute(): input {position} is an array with strides {array.strides}; strides must not be negative: "
            "pass numpy.ascontiguousarray(x)"
        )
    if any(stride % array.itemsize for stride in array.strides):
        raise InvalidArgument(
            f"execute(): input {position} is an array with strides {array.strides}, which are not whole elements of "
            f"{array.itemsize} bytes: pass numpy.ascontiguousarray(x)"
        )
    if not array.flags.writeable:
        if written:
            raise InvalidArgument(
                f"execute(): input {position} is a read-only array, and the fusion writes an output into it"
            )
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError) as failure:
        raise InvalidType(
            f"execute(): input {position} is an array of dtype {array.dtype}, which torch cannot hold"
        ) from failure


def device_index(device: Any) -> int | None:
    """The number of a CUDA device given as an int, a string or a torch.device; None for None, and for the CPU.

    "cuda" without a number is torch's current device. Raises InvalidArgument for another kind of device and a number
    that is not in [0, 256), InvalidType for an object that names no device.
    """
    number = device_number(device)
    return None if number < 0 else number


ANY_DEVICE, CPU_DEVICE = -1, -2


def device_number(device: Any) -> int:
    """`device_index` as the core takes it: ANY_DEVICE for None, CPU_DEVICE for the CPU."""
    if device is None:
        return ANY_DEVICE
    if isinstance(device, str):
        try:
            device = torch.device(device)
        except RuntimeError as failure:
            raise InvalidArgument(f"device is {device!r}, which is not the name of a device") from failure
    if isinstance(device, torch.device):
        if device.type == "cpu":
            return CPU_DEVICE
        if device.type != "cuda":
            raise InvalidArgument(f"device is {device}; fusions run on cpu and cuda devices")
        number = device.index
        if number is None:  # which must not start CUDA; until it is started, the current device is the first
            number = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    elif isinstance(device, int) and not isinstance(device, bool):
        number = device
    else:
        raise InvalidType(f"device must be an int, a string or a torch.device, got {_type_name(device)}")
    if not 0 <= number < MAX_DEVICES:
        raise InvalidArgument(f"device is {number}; the number of a device is from 0 to {MAX_DEVICES - 1}")
    return number
