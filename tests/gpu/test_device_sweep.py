"""The op sweep on the device: each row that a kernel computes against torch, with the bounds of the sweep on the CPU.

Each case of tests/python/sweep_cases.py runs once. Its layout, and whether its sizes are known, go round from case to
case, so that all of them meet all kinds of cases. GPU_TESTS_EVERY=N runs one case of N.
"""

import os
from dataclasses import replace

import pytest
import torch
from device import execute, on_device, put
from sweep_case import Case, accepted
from sweep_cases import cases
from sweep_reference import EITHER_ZERO, difference
from sweep_values import LAYOUTS, TORCH, Tensor
from test_sweep import RANDOM, TABLE, Program, expected, show, tensors
from test_sweep_simulate import ROWS, limits
from test_torch_calls import BY_TORCH, problems

from nvfuser_go import DataType, FusionDefinition, Unsupported

EVERY = int(os.environ.get("GPU_TESTS_EVERY", "1"))
DEVICE_LAYOUTS = [*LAYOUTS, "misaligned"]
EXACT_ZEROS = ("elementwise", "view", "resize", "gather", "factory")

# Rows that multiply and add: a device does both with one rounding, and no product overflows between. The magnitude of
# the product.
MULTIPLY_AND_ADD = {"addcmul": 64.0}


def contracted(row: dict, want: torch.Tensor, allowed: tuple) -> tuple:
    """How far a result may be where the reference rounds twice and the device once."""
    if row["name"] not in MULTIPLY_AND_ADD or not want.dtype.is_floating_point:
        return allowed
    half = torch.finfo(torch.float64 if want.dtype is torch.float64 else torch.float32).eps / 2
    return max(allowed[0], 1), max(allowed[1], MULTIPLY_AND_ADD[row["name"]] * half)


def ordinary(x: object) -> object:
    """A tensor without special values among its elements."""
    return replace(x, special=False, values=None) if isinstance(x, Tensor) else x


def run(row: dict, case: Case, layout: str, dynamic: bool) -> str | None:
    """Runs a case; says what is wrong."""
    again = row["class"] == "elementwise"
    if row["name"] in MULTIPLY_AND_ADD:
        case = replace(case, args={n: ordinary(x) for n, x in case.args.items()})
    program = Program(row, case, layout, dynamic, again)
    want = expected(row, case, program.concrete)
    allowed = [contracted(row, w, a) for w, a in zip(want, limits(row, case, program.concrete, want), strict=True)]
    if again:
        copies = [x for v in program.concrete.values() for x in (v if isinstance(v, list) else [v])]
        copies = [x for x in copies if isinstance(x, torch.Tensor)]
        want, allowed = want + copies + want, allowed + [(0, 0.0)] * len(copies) + allowed
    zeros = row["class"] in EXACT_ZEROS and row["name"] not in EITHER_ZERO
    got = execute(program.fd, [put(x) if isinstance(x, torch.Tensor) else x for x in program.inputs])
    if not on_device(got):
        return f"outputs on {[str(x.device) for x in got]}"
    for i, (g, w, (ulps, atol)) in enumerate(zip(got, want, allowed, strict=True)):
        wrong = difference(g.cpu(), w, ulps, atol, zeros)
        if wrong:
            return f"output {i}: {wrong}"
    return None


def sweep(name: str, dtype: DataType) -> tuple[list[str], set[str], int]:
    """What is wrong with cases of a row, the rules by which others are refused, and how many there were."""
    row, wrong, rules, count = TABLE[name], [], set(), 0
    for number, case in enumerate(cases(row, dtype)):
        if number % EVERY:
            continue
        count += 1
        layouts = DEVICE_LAYOUTS if case.layouts and tensors(case.args) else ["dense"]
        layout, dynamic = layouts[number % len(layouts)], number // 2 % 2 == 1
        try:
            problem = run(row, case, layout, dynamic)
        except Unsupported as refused:
            rules |= {f"{by}: {rule}" for by, rule, _, _ in refused.refusals}
            continue
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            wrong.append(f"{layout} {'dynamic' if dynamic else 'static'} {show(case.args)}: {problem}")
    return wrong, rules, count


def pairs(names) -> list:
    return [pytest.param(n, d, id=f"{n}-{d.name}") for n in names for d in accepted(TABLE[n])]


SWEPT = pairs(ROWS)


@pytest.mark.parametrize(("name", "dtype"), SWEPT)
def test_row(name: str, dtype: DataType) -> None:
    wrong, rules, _ = sweep(name, dtype)
    assert not wrong, f"{len(wrong)} cases are wrong:\n" + "\n".join(wrong[:25])
    assert not rules


@pytest.mark.parametrize("name", BY_TORCH)
def test_row_by_torch(name: str) -> None:
    def run(program: Program) -> list[torch.Tensor]:
        return execute(program.fd, [put(x) if isinstance(x, torch.Tensor) else x for x in program.inputs])

    found = problems(TABLE[name], run, EVERY)
    assert not found, f"{len(found)} cases are wrong:\n" + "\n".join(found[:25])


@pytest.mark.anywhere
def test_every_row_is_swept() -> None:
    assert set(ROWS) | RANDOM | set(BY_TORCH) == set(TABLE)
    # Rows that a block holds are scanned and sorted by kernels, others by torch.
    assert all(TABLE[name]["class"] in ("scan", "sort") for name in set(ROWS) & set(BY_TORCH))
    assert len(SWEPT) > 800


DRAWN = [DataType.Half, DataType.BFloat16, DataType.Float, DataType.Double]


@pytest.mark.parametrize("name", sorted(RANDOM))
@pytest.mark.parametrize("dtype", DRAWN)
@pytest.mark.parametrize("shape", [[], [1], [33, 5], [0, 3], [3, 2, 43]], ids=str)
def test_random_row(name: str, dtype: DataType, shape: list[int]) -> None:
    """Random numbers are those of the CPU, which tests/python/test_sweep_random.py looks at."""
    x = torch.zeros(shape, dtype=TORCH[dtype])
    for seed, offset in [(7, 4), (2**40 + 17, 2**34)]:
        with FusionDefinition() as fd:
            op = getattr(fd.ops, name)
            if name.endswith("_like"):
                fd.add_output(op(fd.define_tensor([-1] * len(shape), dtype=dtype), rng_seed=seed, rng_offset=offset))
            else:
                fd.add_output(op(0.0, 1.0, shape, rng_seed=seed, rng_offset=offset, dtype=dtype))
        inputs = [x] if name.endswith("_like") else []
        (want,) = fd.execute(inputs, device="cpu")
        (got,) = execute(fd, [put(t) for t in inputs])
        assert on_device([got])
        # The logarithm and the cosine of a normal number are the device's.
        assert difference(got.cpu(), want, 0 if name in ("uniform", "rand_like") else 4, 1e-6, True) is None
