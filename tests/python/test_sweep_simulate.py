"""The op sweep by simulated GPU kernels: each row that a kernel computes, against torch.

Each case of sweep_cases.py is run once. Its layout, whether its sizes are known, and which of the schedules that there
are for it is taken go round from case to case, so that all of them meet all kinds of cases.
"""

import pytest
import torch
from sweep_case import Case, accepted
from sweep_cases import cases
from sweep_reference import EITHER_ZERO, difference
from sweep_values import LAYOUTS, TORCH
from test_sweep import RANDOM, SLICES, SUMMED, TABLE, Program, bounds, expected, show, tensors

from nvfuser_go import DataType, FusionDefinition, Unsupported

pytestmark = pytest.mark.usefixtures("one_thread")

CLASSES = {"elementwise", "view", "resize", "gather", "factory", "query", "reduction", "scan", "sort"}
COMPOSITES = {"addcmul", "broadcast_in_dim", "triu", "var", "var_mean"}  # of rows of these classes
ROWS = [n for n, row in TABLE.items() if (row["class"] in CLASSES or n in COMPOSITES) and n not in RANDOM]

# Cases of an elementwise row are many: every so many of them is run.
STEP = {"elementwise": 2, "reduction": 2}


def limits(row: dict, case: Case, args: dict, want: list[torch.Tensor]) -> list[tuple[float, object]]:
    """How far each result may be from the reference, which folds in double; kernels do in the type of the elements."""
    allowed = bounds(row, case, args, want)
    if row["class"] not in ("reduction", "scan") and row["name"] not in ("var", "var_mean", *SLICES):
        return allowed
    out = []
    for w, (ulps, atol) in zip(want, allowed, strict=True):
        if w.dtype in SUMMED or w.is_floating_point():
            eps = 2.0**-52 if w.dtype in (torch.float64, torch.complex128) else 2.0**-23
            ulps = max(ulps, case.length) if w.dtype in SUMMED else max(ulps, 1)
            if row["name"] not in ("prod", "cumprod"):
                atol = atol * (eps / 2.0**-52) + 4 * case.length * eps * (row["name"] != "sum")
        out.append((ulps, atol))
    return out


def run(row: dict, case: Case, layout: str, dynamic: bool, candidate: int) -> str | None:
    """Runs a case; says what is wrong."""
    again = row["class"] == "elementwise"
    program = Program(row, case, layout, dynamic, again)
    want = expected(row, case, program.concrete)
    allowed = limits(row, case, program.concrete, want)
    copies = [x for v in program.concrete.values() for x in (v if isinstance(v, list) else [v])]
    if again:
        copies = [x for x in copies if isinstance(x, torch.Tensor)]
        want, allowed = want + copies + want, allowed + [(0, 0.0)] * len(copies) + allowed
    zeros = row["class"] in ("elementwise", "view", "resize", "gather", "factory") and row["name"] not in EITHER_ZERO
    got = program.fd.execute(program.inputs, _enable_options=[f"simulate({candidate})"])
    for i, (g, w, (ulps, atol)) in enumerate(zip(got, want, allowed, strict=True)):
        wrong = difference(g, w, ulps, atol, zeros)
        if wrong:
            return f"output {i}: {wrong}"
    return None


@pytest.mark.parametrize("name", ROWS)
def test_row(name: str) -> None:
    row, wrong, rules, number = TABLE[name], [], set(), 0
    for dtype in accepted(row):
        for case in cases(row, dtype):
            number += 1
            if number % STEP.get(row["class"], 1):
                continue
            layouts = LAYOUTS if case.layouts and tensors(case.args) else LAYOUTS[:1]
            layout, dynamic, candidate = layouts[number // 2 % len(layouts)], number // 3 % 2 == 1, number // 5 % 3
            try:
                problem = run(row, case, layout, dynamic, candidate)
            except Unsupported as refused:
                rules |= {f"{by}: {rule}" for by, rule, _, _ in refused.refusals}
                continue
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                kind = "dynamic" if dynamic else "static"
                wrong.append(f"{dtype} {layout} {kind} schedule {candidate} {show(case.args)}: {problem}")
    assert not wrong, f"{len(wrong)} cases are wrong:\n" + "\n".join(wrong[:25])
    assert not rules


@pytest.mark.parametrize("name", sorted(RANDOM))
@pytest.mark.parametrize("dtype", [DataType.Half, DataType.BFloat16, DataType.Float, DataType.Double])
@pytest.mark.parametrize("shape", [[], [1], [33, 5], [0, 3], [3, 2, 43]])
def test_random_row(name: str, dtype: DataType, shape: list[int]) -> None:
    """Random numbers are those of the CPU, which tests/python/test_sweep_random.py looks at."""
    x = torch.zeros(shape, dtype=TORCH[dtype])
    with FusionDefinition() as fd:
        op = getattr(fd.ops, name)
        if name.endswith("_like"):
            fd.add_output(op(fd.from_pytorch(x), rng_seed=7, rng_offset=2))
        else:
            fd.add_output(op(0.0, 1.0, shape, rng_seed=7, rng_offset=2, dtype=dtype))
    inputs = [x] if name.endswith("_like") else []
    want = fd.execute(inputs)[0]
    for candidate in range(2):
        got = fd.execute(inputs, _enable_options=[f"simulate({candidate})"])[0]
        wrong = difference(got, want, 0 if name in ("uniform", "rand_like") else 4, 0.0, True)
        assert wrong is None
