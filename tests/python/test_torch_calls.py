"""The calls that compute operations by torch, as plans make them, against the CPU executor."""

import json
from collections.abc import Callable

import pytest
import torch
from sweep_case import Case, accepted
from sweep_cases import cases
from sweep_reference import difference
from test_sweep import RANDOM, SLICES, TABLE, Program, show

from nvfuser_go import _C, DataType, Unsupported
from nvfuser_go.torch_calls import prepare_call

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")

# Classes whose results are elements of their operands, or follow from positions alone.
EXACT = {"view", "resize", "gather", "factory", "sort"}

# Rows for which torch gives NaN where the divisor is subnormal.
NOT_SUBNORMAL = {"fmod", "mod", "remainder"}

# Rows whose intermediate results overflow in Float for the powers of two that Float8_e8m0fnu holds.
OVERFLOWS = {"lerp", "pow"}

# How far a result may be from the one that is rounded once, in parts of the largest element.
EPSILON = {
    torch.float8_e4m3fn: 2**-3,
    torch.float8_e5m2: 2**-2,
    torch.float8_e8m0fnu: 1.0,
    torch.float16: 2**-9,
    torch.bfloat16: 2**-6,
    torch.float32: 2**-18,
    torch.complex64: 2**-18,
    torch.float64: 2**-44,
    torch.complex128: 2**-44,
}


def calls_of(program: Program) -> list[dict]:
    return json.loads(_C.ask_scheduler(program.fd.fusion._core, 3, "", program.inputs, ""))


def name_of(value: object) -> str:
    """The name by which a call has a tensor, such as tv0; fusions show it as T0_g."""
    return "tv" + str(value).split("_")[0][1:]


def by_torch(program: Program, put: Callable[[torch.Tensor], torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """The outputs of a program, each of its expressions computed by a call on a device, which put brings tensors to."""
    fusion = program.fd.fusion
    tensors = {
        name_of(v): put(x) if isinstance(x, torch.Tensor) else x
        for v, x in zip(fusion.inputs(), program.inputs, strict=True)
    }
    for call in calls_of(program):
        arguments = [tensors[o["tensor"]] if o["tensor"] else eval(o["number"]) for o in call["operands"]]
        run = prepare_call(json.dumps(call), [None] * len(arguments), device)
        results = run(*arguments)
        for name, result, wanted in zip(call["writes"], results, call["results"], strict=True):
            assert type(result) is torch.Tensor and result.device.type == device.type
            assert list(result.shape) == wanted["sizes"]
            assert str(result.dtype) == "torch." + wanted["dtype"]
            assert all(
                n <= 1 or a == b for n, a, b in zip(result.shape, result.stride(), wanted["strides"], strict=True)
            )
            assert not result.requires_grad and result.storage_offset() == 0
            tensors[name] = result
    return [tensors[name_of(v)] for v in fusion.outputs()]


def wrong(row: dict, got: torch.Tensor, want: torch.Tensor) -> str | None:
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {list(got.shape)}, expected {want.dtype} {list(want.shape)}"
    if (row["class"] in EXACT and row["name"] not in ("embedding_fwd", *SLICES)) or want.dtype not in EPSILON:
        return difference(got, want, 0, 0.0, False)
    wide = torch.complex128 if want.is_complex() else torch.float64
    g, w = (x.float().to(wide) if x.dtype.itemsize == 1 else x.to(wide) for x in (got, want))
    if row["name"] in NOT_SUBNORMAL:
        w = torch.where(torch.isnan(g), g, w)
    finite = torch.isfinite(w)
    largest = w[finite].abs().max().item() if finite.any() else 0.0
    atol = EPSILON[want.dtype] * max(largest, 2.0**-10)
    if torch.allclose(g, w, rtol=4 * EPSILON[want.dtype], atol=atol, equal_nan=True):
        return None
    return f"{got.flatten()[:8].tolist()}, expected {want.flatten()[:8].tolist()}"


def problem(row: dict, case: Case, layout: str, dynamic: bool, compute: Callable[[Program], list]) -> str | None:
    """What is wrong with the results of a case; None: nothing, or torch does not compute on its type."""
    program = Program(row, case, layout, dynamic, again=False)
    want = program.fd.execute(program.inputs)
    try:
        got = compute(program)
    except Unsupported as refused:
        return None if "torch does not compute on UInt64" in str(refused) else str(refused)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        found = wrong(row, g.cpu(), w.cpu())
        if found:
            return f"output {i}: {found}"
    return None


def problems(row: dict, compute: Callable[[Program], list], every: int = 1) -> list[str]:
    """What is wrong with one of so many cases of a row."""
    found, number = [], 0
    for dtype in accepted(row):
        if row["name"] in OVERFLOWS and dtype is DataType.Float8_e8m0fnu:
            continue
        for case in cases(row, dtype):
            for layout, dynamic in (("dense", False), ("gapped", True)):
                number += 1
                what = None if number % every else problem(row, case, layout, dynamic, compute)
                if what:
                    found.append(f"{dtype} {layout} {show(case.args)}: {what}")
    return found


@pytest.mark.parametrize("name", [n for n, row in TABLE.items() if n not in RANDOM and row["class"] != "query"])
def test_row(name: str) -> None:
    found = problems(TABLE[name], lambda program: by_torch(program, lambda x: x, CPU))
    assert not found, f"{len(found)} cases are wrong:\n" + "\n".join(found[:25])


# Classes of which no scheduler takes a row.
BY_TORCH = [n for n, row in TABLE.items() if row["class"] in ("sort", "scan", "contraction", "attention")]


@pytest.mark.parametrize("name", BY_TORCH)
def test_row_in_a_plan(name: str) -> None:
    found = problems(TABLE[name], lambda program: program.fd.execute(program.inputs, _enable_options=["simulate"]))
    assert not found, f"{len(found)} cases are wrong:\n" + "\n".join(found[:25])
