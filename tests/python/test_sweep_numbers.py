"""Rows on numbers alone, on unsigned numbers, and where torch leaves the result of integers open."""

import json
import math

import pytest
import torch
from sweep_case import NUMBERS
from sweep_elementwise import Operands
from sweep_reference import EITHER_ZERO, difference, evaluate, result_type, wide
from sweep_values import FLOATS, INTEGERS, TORCH, Tensor

from nvfuser_go import _C, DataType, FusionDefinition

D = DataType
TABLE = {row["name"]: row for row in json.loads(_C.op_table())}
SCALAR_ROWS = [n for n, row in TABLE.items() if all(p["kind"] == "operand" for p in row["overloads"][-1])]

KINDS = {"bool": (1, D.Bool), "int": (2, D.Int), "float": (4, D.Double), "complex": (8, D.ComplexDouble)}


def alone(row: dict, kind: str) -> torch.dtype:
    """The type of a row's result on numbers of one kind: scalars alone keep Double."""
    compute = TORCH[KINDS[kind][1]]
    if row["compute"] == "bool":
        compute = torch.bool
    elif row["compute"] == "float" and kind in ("bool", "int"):
        compute = torch.float32
    elif row["compute"] == "integer" and kind == "bool":
        compute = torch.int64
    return compute


@pytest.mark.parametrize("name", SCALAR_ROWS)
def test_numbers_alone(name: str) -> None:
    row = TABLE[name]
    operands = Operands(row)
    for kind, (bit, dtype) in KINDS.items():
        if not row["accept"] & bit:
            continue
        compute = alone(row, kind)
        to = result_type(row, compute)
        values = {n: NUMBERS[kind][i % len(NUMBERS[kind])] for i, n in enumerate(operands.names)}
        for i, n in enumerate(operands.names):
            domain = operands.domains[i]
            if domain and kind in ("int", "float") and not domain[0] <= values[n] <= domain[1]:
                values[n] = type(values[n])(min(max(values[n], math.ceil(domain[0])), math.floor(domain[1])))
        env = {n: torch.tensor(v).to(compute).to(wide(compute)) for n, v in values.items()}
        for n in operands.names[: row["skip"]]:
            values[n], env[n] = True, torch.tensor(True)
        want = evaluate(row, env).to(to)
        shown = {torch.bool: D.Bool, torch.int64: D.Int, torch.float32: D.Double, torch.float64: D.Double}
        shown_type = shown.get(to, D.ComplexDouble)
        for symbolic in (False, True):
            with FusionDefinition() as fd:
                args, inputs = list(values.values()), []
                if symbolic:
                    inputs = args
                    args = [fd.define_scalar(dtype=D.Bool if isinstance(v, bool) else dtype) for v in args]
                # A constant too, or there would be no value that belongs to the fusion.
                args[0] = args[0] if symbolic else fd.define_scalar(args[0])
                result = getattr(fd.ops, name)(*args)
                assert not result.is_tensor()
                fd.add_output(fd.ops.full([2], result, shown_type))
            (got,) = fd.execute(inputs)
            ulps = 2 * row["ulp"] + 2 if to in (torch.float64, torch.complex128) else 0
            atol = want.abs().item() * 2.0**-23 * (row["ulp"] or 0) if to in (torch.float32, torch.complex64) else 0.0
            wrong = difference(got[0], want.to(TORCH[shown_type]), ulps, atol, name not in EITHER_ZERO)
            assert not wrong, f"{kind} symbolic={symbolic} {values}: {wrong}"


BIG = [0, 1, 2, 5, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 2**62 + 3, 2**64 - 1]
WRAP = 2**64 - 1

UNSIGNED = {
    "add": lambda a, b: a + b & WRAP,
    "sub": lambda a, b: a - b & WRAP,
    "mul": lambda a, b: a * b & WRAP,
    "div": lambda a, b: a // b if b else 0,
    "fmod": lambda a, b: a % b if b else a,
    "mod": lambda a, b: a % b if b else a,
    "remainder": lambda a, b: a % b if b else a,
    "maximum": max,
    "minimum": min,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "gcd": math.gcd,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_left_shift": lambda a, b: a << b & WRAP if b < 64 else 0,
    "bitwise_right_shift": lambda a, b: a >> b if b < 64 else 0,
    "logical_right_shift": lambda a, b: a >> b if b < 64 else 0,
    "logical_and": lambda a, b: bool(a and b),
    "logical_or": lambda a, b: bool(a or b),
}


def unsigned(values: list) -> torch.Tensor:
    return torch.tensor([v - 2**64 if v >= 2**63 else v for v in values]).view(torch.uint64)


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_numbers(name: str) -> None:
    left, right = [a for a in BIG for _ in BIG], BIG * len(BIG)
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor(shape=[-1], contiguity=[True], dtype=D.UInt64) for _ in range(2))
        fd.add_output(getattr(fd.ops, name)(x, y))
    (got,) = fd.execute([unsigned(left), unsigned(right)])
    want = [UNSIGNED[name](a, b) for a, b in zip(left, right, strict=True)]
    assert got.tolist() == want


def test_unsigned_reductions_order_and_casts() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=D.UInt64)
        fd.add_output(fd.ops.max(x))
        fd.add_output(fd.ops.min(x))
        fd.add_output(fd.ops.sum(x))
        fd.add_output(fd.ops.argsort(x, 0, descending=True))
        fd.add_output(fd.ops.cast(x, D.Double))
        fd.add_output(fd.ops.cast(x, D.Float))
        fd.add_output(fd.ops.cummax(x, 0))
        fd.add_output(fd.ops.cast(fd.ops.cast(x, D.Int), D.UInt64))
        fd.add_output(fd.ops.sign(x))
    top, low, total, order, double, single, running, back, sign = fd.execute([unsigned(BIG)])
    assert top.item() == max(BIG)
    assert low.item() == 0
    assert total.item() == sum(BIG) & WRAP
    assert order.tolist() == list(range(len(BIG)))[::-1]
    assert double.tolist() == [float(v) for v in BIG]
    assert single.tolist() == torch.tensor([float(v) for v in BIG], dtype=torch.float32).tolist()
    assert running.tolist() == BIG
    assert back.tolist() == BIG
    assert sign.tolist() == [int(v > 0) for v in BIG]


def truncated(a: int, b: int) -> int:
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


SIGNED = {
    "div": truncated,
    "fmod": lambda a, b: a - b * truncated(a, b),
    "mod": lambda a, b: a - b * truncated(a, b),
    "remainder": lambda a, b: a % b if b else a,
    "bitwise_left_shift": lambda a, b: a << b,
    "gcd": math.gcd,
    "pow": lambda a, b: a**b,
}


def wrap(v: int, bits: int) -> int:
    return (v + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


@pytest.mark.parametrize("dtype", [D.Int32, D.Int, D.Index])
@pytest.mark.parametrize("name", SIGNED)
def test_integer_edges(name: str, dtype: DataType) -> None:
    """Division by zero, the least integer by -1 and the like: defined here although not in torch."""
    bits = 32 if dtype is D.Int32 else 64
    edge = [0, 1, -1, 2, -2, 7, -7, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    other = edge
    if name in ("bitwise_left_shift", "pow"):
        other = [0, 1, 2, 5, bits - 1]
    left, right = [a for a in edge for _ in other], other * len(edge)
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor(shape=[-1], contiguity=[True], dtype=dtype) for _ in range(2))
        fd.add_output(getattr(fd.ops, name)(x, y))
    (got,) = fd.execute([torch.tensor(left, dtype=TORCH[dtype]), torch.tensor(right, dtype=TORCH[dtype])])
    want = [wrap(SIGNED[name](a, b), bits) for a, b in zip(left, right, strict=True)]
    wrong = [(a, b, g, w) for a, b, g, w in zip(left, right, got.tolist(), want, strict=True) if g != w]
    assert not wrong


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("source", [d for d in FLOATS if d is not D.Float8_e8m0fnu])
def test_casts_of_huge_floats_do_not_crash(source: DataType, dtype: DataType) -> None:
    # What they give is the core's own definition, and the same in each run.
    x = torch.tensor([math.nan, math.inf, -math.inf, 3e38, -3e38, -1.5, -0.0]).to(TORCH[source])
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.cast(fd.from_pytorch(x), dtype))
    first, second = fd.execute([x])[0], fd.execute([x])[0]
    assert first.tolist() == second.tolist()


def test_positions_that_do_not_exist() -> None:
    """They read 0 and write nothing."""
    x = torch.arange(1.0, 9.0)[:5]  # what lies behind it is not 0
    index = torch.tensor([0, 4, 5, -1, 2**62, -(2**62), 2])
    inside = (index >= 0) & (index < 5)
    want = torch.where(inside, x[index.clamp(0, 4)], 0.0)
    weight = torch.arange(1.0, 17.0).reshape(8, 2)[:5]
    with FusionDefinition() as fd:
        t, i, w = fd.from_pytorch(x), fd.from_pytorch(index), fd.from_pytorch(weight)
        fd.add_output(fd.ops.index_select(t, i, 0))
        fd.add_output(fd.ops.gather(t, i, 0))
        fd.add_output(fd.ops.take_along_axis(t, i, 0))
        fd.add_output(fd.ops.embedding_fwd(i, w))
        fd.add_output(fd.ops.scatter(t, i, 9.0, 0))
    *reads, rows, written = fd.execute([x, index, weight])
    for got in reads:
        assert torch.equal(got, want)
    assert torch.equal(rows, torch.where(inside[:, None], weight[index.clamp(0, 4)], 0.0))
    assert written.tolist() == [9.0, 2.0, 9.0, 4.0, 9.0]


def test_reference_can_fail() -> None:
    """The comparison of the sweep sees a wrong type, shape, value, NaN and sign of zero."""
    x = torch.tensor([1.0, math.nan, 0.0])
    assert difference(x, x, 0, 0.0, True) is None
    assert difference(x, x.double(), 0, 0.0, True)
    assert difference(x, x[:2], 0, 0.0, True)
    assert difference(x, torch.tensor([1.0, math.nan, -0.0]), 0, 0.0, True)
    assert difference(x, torch.tensor([1.0, 0.0, 0.0]), 9, 1.0, True)
    near = torch.nextafter(x, torch.tensor(2.0))
    assert difference(x, near, 0, 0.0, False)
    assert difference(x[:1], near[:1], 1, 0.0, False) is None
    assert difference(torch.tensor([1.0]), torch.tensor([1.0001]), 9, 0.0, False)


def test_tensors_have_the_layouts_they_should() -> None:
    from sweep_values import describe, make

    t = Tensor((4, 6), D.Float)
    assert make(t, "dense").is_contiguous()
    assert make(t, "permuted").stride() == (1, 4)
    assert make(t, "expanded").stride()[1] == 0
    gapped = make(t, "gapped")
    assert gapped.storage_offset() > 0
    assert not gapped.is_contiguous()
    assert describe(make(t, "permuted"), D.Float, True)["stride_order"] == [0, 1]
    assert describe(gapped, D.Float, True)["contiguity"] == [False, True]
    assert describe(make(t, "expanded"), D.Float, False)["contiguity"] == [False, None]
