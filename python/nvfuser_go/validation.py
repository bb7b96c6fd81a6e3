"""Comparison of a fusion's outputs with what torch computes for the same operations.

The printed form of the fusion is executed with each operation replaced by the torch expression in its row of the op
table. Beside each tensor goes the precision that is left: the coarsest floating type it passed through, and how many
elements were folded into one of its elements.
"""

import contextlib
import functools
import json
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nvfuser_go import _C
from nvfuser_go.enums import DataType
from nvfuser_go.errors import FusionError, InvalidArgument, InvalidType, Unsupported
from nvfuser_go.fusion import FUNCTION_NAME, Fusion
from nvfuser_go.inputs import prepare
from nvfuser_go.pytorch_utils import TORCH_DTYPES


@functools.cache
def op_table() -> dict[str, dict[str, Any]]:
    """The rows of the op table by name; docs/ops.md shows them, cmd/genops describes the keys."""
    return {row["name"]: row for row in json.loads(_C.op_table())}


@dataclass(frozen=True)
class Precision:
    """What is left of the precision of a tensor's elements."""

    epsilon: float = 0.0  # of the coarsest floating type on the way to it
    folded: int = 1  # elements that were combined into one, along the longest way


@dataclass(frozen=True)
class Traced:
    """A tensor, or a scalar of the fusion as a Python number, with its precision."""

    value: Any
    precision: Precision


def _epsilon(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0


class _Evaluator:
    """Stands for the FusionDefinition while the printed form is executed."""

    def __init__(self, fusion: Fusion, inputs: list[Any]) -> None:
        self.ops = self
        self.outputs: list[tuple[Traced, bool]] = []  # whether it is written into an input
        self._inputs = iter(inputs)
        self._exprs = iter(fusion.exprs())  # one for each statement of the printed form that makes tensors

    def define_tensor(self, **_: Any) -> Traced:
        tensor = next(self._inputs)
        return Traced(tensor, Precision(_epsilon(tensor.dtype)))

    def define_scalar(self, value: Any, dtype: DataType) -> Traced:
        if value is None:
            value = next(self._inputs)
        return Traced(_number(value, _torch_dtype(dtype)), Precision())

    def add_output(self, output: Traced, alias: Traced | None = None) -> None:
        self.outputs.append((output, alias is not None))

    def _result_dtypes(self, count: int) -> list[torch.dtype]:
        expr = next(self._exprs)
        return [_torch_dtype(expr.output(i).dtype()) for i in range(count)]

    def size(self, tensor: Traced, dim: int) -> Traced:
        return Traced(tensor.value.shape[dim], Precision())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in op_table():
            raise AttributeError(name)
        return functools.partial(self._call, op_table()[name])

    def _call(self, row: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        params = row["overloads"][-1]
        given = dict(zip((p["name"] for p in params), args, strict=False)) | kwargs
        values = {p["name"]: _plain(given.get(p["name"], _default(p))) for p in params}
        elementwise = row["class"] == "elementwise"
        on_scalars = elementwise and not any(isinstance(v, torch.Tensor) for v in values.values())
        dtypes = [None] if on_scalars else self._result_dtypes(max(1, len(row["results"])))
        if not row["torch"] or row["class"] == "random":
            raise Unsupported(f"validate() needs reference_outputs: torch has no counterpart of {row['name']}()")
        if elementwise:
            _fill_operands(row, values, dtypes[0])
        result = _by_torch(row, values)
        if on_scalars:
            return Traced(result.item(), Precision())
        precision = _precision(row, given, values)
        results = [
            r.to(t) for r, t in zip(result if isinstance(result, tuple | list) else (result,), dtypes, strict=True)
        ]
        traced = [Traced(r, Precision(max(precision.epsilon, _epsilon(r.dtype)), precision.folded)) for r in results]
        return traced[0] if len(traced) == 1 else tuple(traced)


def _by_torch(row: dict[str, Any], values: dict[str, Any]) -> Any:
    """The value of the row's torch expression. What torch does not do on 8-bit floats, it does on Floats."""
    # As globals: a comprehension in the expression does not see locals.
    scope = {"torch": torch, "F": torch.nn.functional}
    try:
        try:
            return eval(row["torch"], scope | values)
        except NotImplementedError:
            return eval(row["torch"], scope | {name: _widened(value) for name, value in values.items()})
    except Exception as failure:  # of whatever kind torch raises
        raise Unsupported(f"validate() needs reference_outputs: torch fails in {row['name']}(): {failure}") from failure


def _widened(value: Any) -> Any:
    if isinstance(value, list):
        return [_widened(item) for item in value]
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.dtype.itemsize == 1:
        return value.float()
    return value


def _torch_dtype(dtype: DataType) -> torch.dtype:
    found = TORCH_DTYPES[dtype.value]
    if found is None:
        raise Unsupported(f"validate() needs reference_outputs: torch has no dtype for {dtype}")
    return found


def _number(value: Any, dtype: torch.dtype) -> Any:
    """`value` rounded to dtype, as a Python number."""
    return torch.tensor(value, dtype=_widest(value)).to(dtype).item()


def _plain(value: Any) -> Any:
    if isinstance(value, Traced):
        return value.value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if value is DataType.Null else _torch_dtype(value) if isinstance(value, DataType) else value


def _default(param: dict[str, Any]) -> Any:
    text = param["default"]
    return eval(text, {"DataType": DataType}) if param["optional"] and text else None


def _fill_operands(row: dict[str, Any], values: dict[str, Any], result: torch.dtype | None) -> None:
    """Turns the numbers among the operands of an elementwise operation into tensors of its compute type."""
    operands = [p["name"] for p in row["overloads"][-1] if p["kind"] == "operand" and values[p["name"]] is not None]
    promoted = operands[row["skip"] :]
    known = [values[name].dtype for name in promoted if isinstance(values[name], torch.Tensor)]
    if not known:
        known = [result] if result else [_widest(values[name]) for name in promoted]
    compute = functools.reduce(torch.promote_types, known)
    for name in operands:
        number = values[name]
        if not isinstance(number, torch.Tensor):
            values[name] = torch.tensor(number, dtype=_widest(number)).to(compute if name in promoted else torch.bool)


def _widest(number: bool | int | float | complex) -> torch.dtype:
    """The torch dtype that holds a Python number exactly."""
    return {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}[type(number)]


def _traced(value: Any) -> Iterable[Traced]:
    if isinstance(value, Traced):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _traced(item)


def _precision(row: dict[str, Any], given: dict[str, Any], values: dict[str, Any]) -> Precision:
    known = [t.precision for value in given.values() for t in _traced(value)]
    epsilon = max((p.epsilon for p in known), default=0.0)
    folded = max((p.folded for p in known), default=1)
    first = next((v for v in values.values() if isinstance(v, torch.Tensor)), None)
    if first is not None and first.dim() > 0:
        match row["class"]:
            case "reduction":
                folded *= math.prod(first.shape[d] for d in values.get("dims") or ()) or 1
            case "scan":
                folded *= first.shape[values["dim"]] or 1
            case "contraction" | "attention":
                folded *= first.shape[-1] or 1
    return Precision(epsilon, folded)


def evaluate(fusion: Fusion, inputs: Iterable[Any]) -> list[tuple[Traced, bool]]:
    """What torch computes for each output of the fusion, and whether the fusion writes that into an input.

    The inputs are not changed. Raises Unsupported for operations that torch lacks, such as random ones.
    """
    plain, _ = prepare(inputs)
    evaluator = _Evaluator(fusion, plain)
    scope: dict[str, Any] = {"DataType": DataType, "FusionDefinition": None}
    exec(fusion.python(FUNCTION_NAME), scope)
    on_gpu = [x.device for x in plain if isinstance(x, torch.Tensor) and x.is_cuda]
    device = torch.device(on_gpu[0]) if on_gpu else contextlib.nullcontext()  # where torch makes tensors of numbers
    with device, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of casts that the fusion asks for
        scope[FUNCTION_NAME](evaluator)
    return evaluator.outputs


def tolerance(precision: Precision) -> tuple[float, float]:
    """The absolute and the relative tolerance for elements near 1.

    The errors of n additions grow as sqrt(n) units in the last place where rounding is unbiased. The factor leaves room
    for chains of some tens of roundings.
    """
    allowed = 32 * precision.epsilon * math.sqrt(precision.folded)
    return allowed, allowed


def get_val_tolerances(fusion: Fusion, args: Iterable[Any]) -> list[tuple[float, float]]:
    """For each output that execute() returns the absolute and relative tolerance, as `validate` uses."""
    return [tolerance(traced.precision) for traced, is_alias in evaluate(fusion, args) if not is_alias]


def validate_with_auto_inferred_outputs(fusion: Fusion, fusion_outputs: Sequence[Any], args: Iterable[Any]) -> None:
    """Compares outputs that the fusion gave for `args` with what torch computes. Raises FusionError if they differ."""
    Expectation(fusion, args, None).compare(fusion_outputs)


def copies(fusion: Fusion, inputs: Iterable[Any]) -> list[Any]:
    """The inputs, of which nothing changes when the fusion runs: tensors are copied if it writes to one."""
    plain, _ = prepare(inputs)
    if all(alias is None for _, alias in fusion._core.outputs()):
        return plain
    return [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in plain]


class Expectation:
    """The outputs that a fusion should give for some inputs."""

    def __init__(self, fusion: Fusion, inputs: Iterable[Any], references: Sequence[Any] | None) -> None:
        """Evaluates the fusion by torch, unless references are given."""
        returned = sum(alias is None for _, alias in fusion._core.outputs())
        self._precisions: list[Precision | None] = [None] * returned
        if references is None:
            traced = [t for t, is_alias in evaluate(fusion, inputs) if not is_alias]
            self._precisions = [t.precision for t in traced]
            references = [t.value for t in traced]
        elif not isinstance(references, list | tuple) or any(r is None or isinstance(r, str) for r in references):
            raise InvalidType(f"validate(): reference_outputs must be a list of tensors, got {references!r}")
        elif len(references) != returned:
            raise InvalidArgument(f"validate(): reference_outputs has {len(references)} entries for {returned} outputs")
        self._references = [torch.as_tensor(r).detach() for r in references]

    def compare(self, outputs: Sequence[Any]) -> None:
        """Raises FusionError naming the first output that differs, and by how much."""
        if len(outputs) != len(self._references):
            raise FusionError(f"there are {len(outputs)} outputs, want {len(self._references)}")
        for i, (output, reference) in enumerate(zip(outputs, self._references, strict=True)):
            self._compare_one(i, torch.as_tensor(output), reference.to(torch.as_tensor(output).device))

    def _compare_one(self, i: int, output: torch.Tensor, reference: torch.Tensor) -> None:
        if output.shape != reference.shape or output.dtype != reference.dtype:
            raise FusionError(
                f"output {i} is {output.dtype} {list(output.shape)}, want {reference.dtype} {list(reference.shape)}"
            )
        known = self._precisions[i]
        # Without the operations at hand, as if some thousand elements were folded.
        absolute, relative = tolerance(known or Precision(_epsilon(output.dtype), 1024))
        wide = torch.complex128 if output.dtype.is_complex else torch.float64
        if output.dtype.is_floating_point or output.dtype.is_complex:
            a, b = output.to(wide), reference.to(wide)
            finite = b.abs()[b.isfinite()]
            scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
            close = torch.isclose(a, b, rtol=relative, atol=absolute * scale, equal_nan=True)
        else:
            close = output == reference
        if not bool(close.all()):
            at = [int(n) for n in torch.nonzero(~close)[0]]
            raise FusionError(
                f"output {i} differs in {int((~close).sum())} of {close.numel()} elements; at {at} it is "
                f"{output[tuple(at)].item()}, want {reference[tuple(at)].item()}"
            )
