"""Every row of the op table against torch: each element type that it takes, memory layouts, sizes known and unknown.

The cases come from the table (sweep_cases.py), the expected results from the
row's torch expression (sweep_reference.py).
"""

import json
from dataclasses import replace

import pytest
import torch
from sweep_case import Case, accepted
from sweep_cases import cases
from sweep_reference import EITHER_ZERO, difference, reference
from sweep_values import LAYOUTS, TORCH, Tensor, describe, make, ran

from nvfuser_go import _C, DataType, FusionDefinition, InvalidType

pytestmark = pytest.mark.usefixtures("one_thread")

D = DataType
TABLE = {row["name"]: row for row in json.loads(_C.op_table())}

# Rows that have tests of their own: their results are not those of torch.
RANDOM = {name for name, row in TABLE.items() if row["group"] == "Random numbers"}

# Element types for which the rounding of partial sums shows.
SUMMED = (torch.float32, torch.float64, torch.complex64, torch.complex128)

# Rows whose results near zero are differences of larger numbers: the magnitude that their error is a part of.
CANCELLING = {"lerp": 10.0, "sin": 0.5, "cos": 0.5, "tan": 0.5, "addcmul": 4.0, "lgamma": 10.0}

# Rows that add slices where integers say.
SLICES = ("_sum_parts", "_sum_slices")

# Rows of which no argument can be a tensor without dimensions.
NEED_A_DIMENSION = {
    *("argsort", "topk", "cumsum", "cumprod", "cummax", "cummin", "var", "var_mean", "welford", "cat", "expand"),
    *("squeeze", "size", "select", "gather", "take_along_axis", "scatter", "triu", "matmul", "grouped_mm"),
    *("index_put_accumulate", "_group_positions", *SLICES),
    *("sdpfa_fwd", "stride_order", "_max_exp_sum"),
}


class Program:
    """A fusion of one call: its definition, inputs and the concrete arguments.

    With again, the call is made once more, on copies of its arguments, which are outputs too.
    """

    def __init__(self, row: dict, case: Case, layout: str, dynamic: bool, again: bool = True):
        self.row, self.dynamic = row, dynamic
        self.inputs: list = []
        self.concrete = {n: self.concretise(n, x, layout) for n, x in case.args.items()}
        if case.prepare:
            self.concrete = case.prepare(self.concrete)
        with FusionDefinition() as self.fd:
            self.kinds = {p["name"]: p["kind"] for overload in row["overloads"] for p in overload}
            args = {n: self.define(n, case.args[n], x) for n, x in self.concrete.items()}
            self.count = self.call(args)
            if not again:
                return
            copies = {n: self.copied(x) for n, x in args.items()}
            for x in copies.values():
                for t in x if isinstance(x, list) else [x]:
                    if hasattr(t, "ndim"):
                        self.fd.add_output(t)
                        self.extra.append(t)
            self.call(copies)

    extra: list

    def concretise(self, name: str, x: object, layout: str):
        self.extra = []
        if isinstance(x, Tensor):
            return make(x, layout, self.row["name"], name)
        if isinstance(x, list) and x and isinstance(x[0], Tensor):
            return [make(t, layout, self.row["name"], name, i) for i, t in enumerate(x)]
        return x

    def define(self, name: str, described: object, x: object):
        """The argument as the definition has it: an input of the fusion, or a constant."""
        kind = self.kinds[name]
        if isinstance(described, Tensor):
            self.inputs.append(x)
            return self.fd.define_tensor(**describe(x, described.dtype, self.dynamic))
        if kind == "tensors":
            return [self.define_one(t, d.dtype) for t, d in zip(x, described, strict=True)]
        if self.dynamic and kind in ("operand", "number", "extent"):
            return x if kind == "extent" and x < 0 else self.scalar(x)
        if self.dynamic and kind == "shape" and name != "strides":
            return [n if n == -1 else self.scalar(n) for n in x]
        return x

    def define_one(self, x: torch.Tensor, dtype: DataType):
        self.inputs.append(x)
        return self.fd.define_tensor(**describe(x, dtype, self.dynamic))

    def scalar(self, x):
        self.inputs.append(x)
        kind = {bool: D.Bool, int: D.Int, float: D.Double, complex: D.ComplexDouble}[type(x)]
        return self.fd.define_scalar(dtype=kind)

    def copied(self, x):
        if isinstance(x, list):
            return [self.copied(t) for t in x]
        return self.fd.ops.set(x) if hasattr(x, "ndim") else x

    def call(self, args: dict) -> int:
        op = getattr(self.fd.ops, self.row["name"])
        if self.row["class"] == "elementwise" and len(args) == len(self.row["overloads"][-1]):
            out = op(*args.values())
        else:
            out = op(**args)
        if self.row["class"] == "query":  # sizes: shown by a tensor of that shape
            out = self.fd.ops.full(out if isinstance(out, list) else [out], 0, D.Int)
        out = list(out) if isinstance(out, tuple | list) else [out]
        for t in out:
            self.fd.add_output(t)
        return len(out)


def bounds(row: dict, case: Case, args: dict, want: list[torch.Tensor]) -> list[tuple[float, object]]:
    """How far each result may be from the reference: units in the last place, and an absolute error."""
    ulps = row["ulp"] if case.ulps is None else case.ulps
    name = row["name"]
    sums = name in ("sum", "cumsum", "matmul", "linear", "grouped_mm", "index_put_accumulate", *SLICES)
    if sums and want[0].dtype in SUMMED:
        magnitudes = expected(row, case, {n: magnitude(x) for n, x in args.items()})
    out = []
    for i, w in enumerate(want):
        double = w.dtype in (torch.float64, torch.complex128)
        allowed = (2 * ulps + 2 if ulps else 0) if double else ulps
        atol: object = 0.0
        if name in CANCELLING and (ulps or w.is_complex()):
            atol = 4 * CANCELLING[name] * (2.0**-52 if double else 2.0**-24)
        if w.is_complex():
            allowed += 4
        elif any(isinstance(x, torch.Tensor) and x.is_complex() for x in args.values()) and w.is_floating_point():
            allowed = max(allowed, 1)  # the magnitude
        folds = row["class"] in ("reduction", "scan", "contraction", "composite", "attention") or name in SLICES
        if case.length > 1 and folds:
            allowed = max(allowed, 1) if not double else case.length
            # A partial sum in float64 has a rounding error for each element.
            if sums and w.dtype in SUMMED:
                atol = torch.nan_to_num(magnitudes[i].abs().double(), 0.0, 0.0, 0.0) * case.length * 2.0**-52
            elif name in ("var", "var_mean", "welford", "_max_exp_sum"):
                atol, allowed = case.length * 16 * 2.0**-52, max(allowed, 3)
            elif row["class"] == "attention":
                atol = case.length * 2.0**-50 if double else 2.0**-20
                if name == "sdpfa_bwd":  # reads the rounded result of the forward pass
                    atol = max(atol, 4 * torch.finfo(w.dtype).eps)
        out.append((allowed, atol))
    return out


def magnitude(x: object):
    return x.abs().to(x.dtype) if isinstance(x, torch.Tensor) and x.dtype in SUMMED else x


def expected(row: dict, case: Case, args: dict) -> list[torch.Tensor]:
    if case.reference:
        return case.reference(args)
    if row["class"] == "query":
        shape = [args["arg"].shape[args["dim"]]] if "dim" in args else args["arg"].shape
        return [torch.zeros(list(shape), dtype=torch.int64)]
    return reference(row, args)


def run(row: dict, case: Case, layout: str, dynamic: bool) -> str | None:
    """Runs a case twice; says what is wrong."""
    program = Program(row, case, layout, dynamic)
    want = expected(row, case, program.concrete)
    limits = bounds(row, case, program.concrete, want)
    copies = [x for v in program.concrete.values() for x in (v if isinstance(v, list) else [v])]
    copies = [x for x in copies if isinstance(x, torch.Tensor)]
    zeros = row["class"] in ("elementwise", "view", "resize", "gather", "factory") and row["name"] not in EITHER_ZERO
    exact = [(0, 0.0)] * len(copies)
    ran[row["name"]] = ran.get(row["name"], 0) + 1
    for attempt in range(2):
        got = program.fd.execute(program.inputs)
        if len(got) != 2 * len(want) + len(copies):
            return f"{len(got)} outputs, expected {2 * len(want) + len(copies)}"
        for i, (g, w, (ulps, atol)) in enumerate(zip(got, want + copies + want, limits + exact + limits, strict=True)):
            wrong = difference(g, w, ulps, atol, zeros)
            if wrong:
                return f"run {attempt}, output {i}: {wrong}"
    return None


def tensors(args: dict) -> list[Tensor]:
    return [t for x in args.values() for t in (x if isinstance(x, list) else [x]) if isinstance(t, Tensor)]


def show(args: dict) -> str:
    def text(x):
        if isinstance(x, Tensor):
            return f"{x.dtype}{list(x.shape)}"
        return "[" + ", ".join(map(text, x)) + "]" if isinstance(x, list) else str(x)

    return ", ".join(f"{n}={text(x)}" for n, x in args.items())


def sweep(row: dict) -> list[str]:
    wrong = []
    for dtype in accepted(row):
        for case in cases(row, dtype):
            for layout in LAYOUTS if case.layouts and tensors(case.args) else LAYOUTS[:1]:
                for dynamic in (False, True):
                    try:
                        problem = run(row, case, layout, dynamic)
                    except Exception as error:
                        problem = f"{type(error).__name__}: {error}"
                    if problem:
                        wrong.append(
                            f"{dtype} {layout} {'dynamic' if dynamic else 'static'} {show(case.args)}: {problem}"
                        )
    return wrong


@pytest.mark.parametrize("name", [n for n in TABLE if n not in RANDOM])
def test_row(name: str) -> None:
    wrong = sweep(TABLE[name])
    assert not wrong, f"{len(wrong)} cases are wrong:\n" + "\n".join(wrong[:25])


@pytest.mark.parametrize("name", [n for n in TABLE if TABLE[n]["accept"] and n not in RANDOM])
def test_other_types_are_refused(name: str) -> None:
    row = TABLE[name]
    taken = accepted(row)
    for dtype in set(TORCH) - set(taken):
        case = cases(row, taken[0])[0]
        args = {n: replace(x, dtype=dtype) if isinstance(x, Tensor) else x for n, x in case.args.items()}
        if row["skip"]:
            args[next(iter(args))] = case.args[next(iter(args))]
        with pytest.raises(InvalidType):
            Program(row, Case(args), "dense", False)


def test_every_row_has_cases() -> None:
    missing = [
        f"{name} {dtype}"
        for name, row in TABLE.items()
        if name not in RANDOM
        for dtype in accepted(row)
        if not cases(row, dtype)
    ]
    assert not missing
    assert all(accepted(row) for row in TABLE.values())
    assert {"uniform", "normal", "rand_like", "randn_like"} == RANDOM  # test_sweep_random.py


def test_cases_meet_every_kind_of_size() -> None:
    """Rows on tensors have cases without elements and, unless they need a dimension, without dimensions."""
    for name, row in TABLE.items():
        if name in RANDOM | {"full", "iota"}:
            continue
        shapes = [x.shape for c in cases(row, accepted(row)[-1]) for x in tensors(c.args)]
        assert any(0 in s for s in shapes), name
        assert any(len(s) > 1 for s in shapes) or name == "_group_positions", name
        if name not in NEED_A_DIMENSION:
            assert () in shapes, name
