"""Stand-alone scripts that define a fusion again and run it on inputs of the same description."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from nvfuser_go.inputs import flatten


@dataclass(frozen=True)
class TensorDescription:
    """What a script says of a tensor: sizes and strides in elements. It holds no data."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def stride(self) -> tuple[int, ...]:
        return self.strides


def describe(inputs: Iterable[Any]) -> list[Any]:
    """The inputs of an execution with each tensor replaced by its description."""
    described: list[Any] = []
    for item in flatten(inputs):
        if hasattr(item, "__array_interface__") and not isinstance(item, torch.Tensor):
            item = torch.as_tensor(item)
        if hasattr(item, "stride") and hasattr(item, "device"):
            item = TensorDescription(tuple(item.shape), tuple(item.stride()), item.dtype, torch.device(item.device))
        described.append(item)
    return described


def script(definition: str, inputs: Iterable[Any] | None, schedule: str = "") -> str:
    """The script: comment lines with versions, the function `definition`, and if inputs are given, a run.

    schedule: calls that schedule the fusion, as Fusion.reproducer() of the core gives them.
    """
    # Programs that were written for nvFuser import it by that name; see compat.install.
    package = "nvfuser_direct" if sys.modules.get("nvfuser_direct") is sys.modules["nvfuser_go"] else "nvfuser_go"
    lines = ["# CUDA devices:"]
    if torch.cuda.is_available():
        lines += [f"#  {i}: {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    lines += [
        f"# torch version: {torch.__version__}",
        f"# cuda version: {torch.version.cuda}",
        "import torch",
        f"from {package} import FusionDefinition, DataType",
        definition.rstrip("\n"),
        "with FusionDefinition() as fd:",
        "    nvfuser_fusion(fd)",
        "",
    ]
    if schedule:
        lines += ['fd.sched.run_script("""', schedule.rstrip("\n"), '""")', ""]
    if inputs is not None:
        described = describe(inputs)
        run = "fd.manual_execute(inputs)" if schedule else "fd.execute(inputs)"
        lines += ["inputs = [", *(f"    {_source(item)}," for item in described), "]", run]
    return "\n".join(lines) + "\n"


def _source(item: Any) -> str:
    """An expression that makes an input of this description."""
    if isinstance(item, TensorDescription):
        return _tensor_source(item)
    if isinstance(item, float):
        # The repr of inf and nan is not an expression.
        return repr(item) if item - item == 0 else f'float("{item}")'
    if isinstance(item, complex):
        return f"complex({_source(item.real)}, {_source(item.imag)})"
    return repr(item)


def _tensor_source(t: TensorDescription) -> str:
    if _is_contiguous(t) and t.dtype not in _UNKNOWN_TO_MAKE_TENSOR:
        return f"torch.testing.make_tensor({t.shape}, dtype={t.dtype}, device='{t.device}')"
    size = 0 if 0 in t.shape else 1 + sum((n - 1) * s for n, s in zip(t.shape, t.strides, strict=True))
    if t.dtype is torch.bool:
        memory = f"torch.randint(0, 2, ({size},), dtype={t.dtype}, device='{t.device}')"
    elif t.dtype.is_floating_point and t.dtype.itemsize == 1:
        memory = f"torch.randn({size}, device='{t.device}').to({t.dtype})"
    elif t.dtype.is_floating_point or t.dtype.is_complex:
        memory = f"torch.randn({size}, dtype={t.dtype}, device='{t.device}')"
    else:
        memory = f"torch.randint(0, 10, ({size},), dtype={t.dtype}, device='{t.device}')"
    return f"{memory}.as_strided({t.shape}, {t.strides})"


_UNKNOWN_TO_MAKE_TENSOR = frozenset({torch.float8_e8m0fnu})


def _is_contiguous(t: TensorDescription) -> bool:
    """Whether the strides are those of a dense row-major tensor; those of dimensions of size 1 do not count."""
    expected = 1
    for size, stride in zip(reversed(t.shape), reversed(t.strides), strict=True):
        if size != 1 and stride != expected:
            return 0 in t.shape
        expected *= size
    return True
