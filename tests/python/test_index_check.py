"""NVFUSER_ENABLE=index_check: an index that is out of range is an error."""

import os
import re
import subprocess
import sys

import pytest
import torch
from agreement import OF, integers, randn
from sweep_values import describe

from nvfuser_go import DataType, FusionDefinition, InvalidArgument

D = DataType
X = randn(5, 7)

# By operation: the program, the inputs but the index, a shape of that, the size of what it indexes, what the index is
# called, and what it indexes.
CASES = {
    "index_select": (lambda ops, x, i: ops.index_select(x, i, 1), (X,), (4,), 7, "index", "dimension 1 of arg"),
    "take_along_axis": (lambda ops, x, i: ops.take_along_axis(x, i, 0), (X,), (3, 7), 5, "index", "dimension 0 of arg"),
    "gather": (lambda ops, x, i: ops.gather(x, i, 1), (X,), (2, 3), 7, "index", "dimension 1 of arg"),
    "scatter": (lambda ops, x, i: ops.scatter(x, i, 2.0, 0), (X,), (2, 7), 5, "index", "dimension 0 of arg"),
    "embedding_fwd": (lambda ops, x, i: ops.embedding_fwd(i, x), (X,), (2, 2), 5, "input", "dimension 0 of weight"),
    "index_put_accumulate": (
        lambda ops, x, v, i: ops.index_put_accumulate(x, i, v),
        (X, randn(6, 7)),
        (6,),
        5,
        "index",
        "dimension 0 of acc",
    ),
}
OPTIONS = pytest.mark.parametrize("options", [["index_check"], ["index_check", "simulate"]], ids=["cpu", "simulate"])


def definition(program, *inputs: torch.Tensor, dynamic: bool = True) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(program(fd.ops, *(fd.define_tensor(**describe(x, OF[x.dtype], dynamic)) for x in inputs)))
    return fd


@OPTIONS
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_out_of_range(name: str, dtype: torch.dtype, options: list[str]) -> None:
    program, others, shape, size, index, of = CASES[name]
    good = integers(0, size, shape).to(dtype)
    fd = definition(program, *others, good)
    want = fd.execute([*others, good])
    for _ in range(2):
        got = fd.execute([*others, good], _enable_options=options)
        assert len(got) == 1
        torch.testing.assert_close(got[0], want[0])
    for wrong in (size, size + 3) if dtype is torch.uint64 else (size, -1, -size, 2**31 - 1):
        bad = good.clone().to(torch.int64)
        bad.view(-1)[-1] = wrong
        bad = bad.to(dtype)
        text = (
            rf"^{name}\(\): elements of {index} \(tv\d\) must be from 0 to the size of {of} less 1, "
            rf"got {wrong} and {size} \(defined at {re.escape(__file__)}:\d+\)$"
        )
        with pytest.raises(InvalidArgument, match=text):
            fd.execute([*others, bad], _enable_options=options)
        fd.execute([*others, bad])  # reads 0 or writes nothing
        torch.testing.assert_close(fd.execute([*others, good], _enable_options=options)[0], want[0])


@OPTIONS
def test_unsigned(options: list[str]) -> None:
    index = torch.tensor([2, -1, 3]).view(torch.uint64)
    fd = definition(lambda ops, x, i: ops.index_select(x, i, 0), X, index)
    with pytest.raises(InvalidArgument, match=f"got {2**64 - 1} and 5"):
        fd.execute([X, index], _enable_options=options)


@OPTIONS
def test_no_positions(options: list[str]) -> None:
    """Without positions none is out of range, of a table without rows too."""
    none = torch.zeros(0, dtype=torch.int64)
    fd = definition(lambda ops, x, i: ops.index_select(x, i, 0), X, none)
    assert fd.execute([X, none], _enable_options=options)[0].shape == (0, 7)
    assert fd.execute([X[:0], none], _enable_options=options)[0].shape == (0, 7)
    with pytest.raises(InvalidArgument, match="got 0 and 0"):
        fd.execute([X[:0], torch.zeros(1, dtype=torch.int64)], _enable_options=options)


@OPTIONS
def test_one_number(options: list[str]) -> None:
    fd = definition(lambda ops, x, i: ops.index_select(x, i, 0), X, torch.tensor(1))
    assert torch.equal(fd.execute([X, torch.tensor(4)], _enable_options=options)[0], X[4:5])
    with pytest.raises(InvalidArgument, match="got 5 and 5"):
        fd.execute([X, torch.tensor(5)], _enable_options=options)


@OPTIONS
def test_computed_positions(options: list[str]) -> None:
    """Of two operations with positions that are computed the second is wrong; others are beside them."""

    def program(ops, x, i):
        first = ops.index_select(x, i, 0)
        return ops.relu(ops.index_select(ops.exp(first), ops.add(i, 2), 1))

    good = torch.tensor([0, 4])
    fd = definition(program, X, good)
    torch.testing.assert_close(fd.execute([X, good], _enable_options=options)[0], X[good].exp()[:, good + 2].relu())
    wide = randn(9, 7)
    fd.execute([wide, torch.tensor([4, 0])], _enable_options=options)
    with pytest.raises(InvalidArgument, match=r"index_select\(\): .* dimension 1 of arg less 1, got 7 and 7"):
        fd.execute([wide, torch.tensor([5, 0])], _enable_options=options)


@OPTIONS
def test_outputs_in_place(options: list[str]) -> None:
    """Outputs that are written into inputs, and random numbers, are as without."""
    index, x = torch.tensor([0, 2]), X.clone()
    with FusionDefinition() as fd:
        t, i = fd.define_tensor([-1, -1], True), fd.define_tensor([-1], True, D.Int)
        fd.add_output(fd.ops.add(t, 1.0), t)
        fd.add_output(fd.ops.index_select(t, i, 0))
        fd.add_output(fd.ops.uniform(0.0, 1.0, [4], dtype=D.Float))
    results = []
    for enabled in ([], options):
        torch.manual_seed(3)
        copy = x.clone()
        results.append([*fd.execute([copy, index], _enable_options=enabled), copy])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@OPTIONS
def test_arrays(options: list[str]) -> None:
    fd = definition(lambda ops, x, i: ops.index_select(x, i, 0), X, torch.tensor([1, 2]))
    (got,) = fd.execute([X.numpy(), torch.tensor([1, 2]).numpy()], _enable_options=options)
    assert (got == X[1:3].numpy()).all()
    with pytest.raises(InvalidArgument, match="got 9 and 5"):
        fd.execute([X.numpy(), torch.tensor([1, 9]).numpy()], _enable_options=options)


@OPTIONS
def test_nothing_to_check(options: list[str]) -> None:
    fd = definition(lambda ops, x: ops.relu(x), X)
    assert torch.equal(fd.execute([X], _enable_options=options)[0], X.relu())


PROGRAM = """
import torch
from nvfuser_go import FusionDefinition, DataType, InvalidArgument
with FusionDefinition() as fd:
    x, i = fd.define_tensor([-1, -1], True), fd.define_tensor([-1], True, DataType.Int)
    fd.add_output(fd.ops.index_select(x, i, 0))
for index in ([0, 1], [1, 1], [0, 2], [1, 0]):
    try:
        print(fd.execute([torch.ones(2, 2), torch.tensor(index)])[0].sum().item())
    except InvalidArgument as error:
        print(error)
"""


def test_environment() -> None:
    """By the variable every call is checked, those after the first too."""
    environment = {**os.environ, "NVFUSER_ENABLE": "index_check"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["4.0", "4.0"] and lines[3:] == ["4.0"]
    text = (
        "index_select(): elements of index (tv1) must be from 0 to the size of dimension 0 of arg less 1, got 2 and 2"
    )
    assert lines[2].startswith(text)


@OPTIONS
def test_left_out(options: list[str]) -> None:
    """A position that is -1 to be left out is an error too; zeros at one that there is are none."""

    def left_out(ops, index, grad):
        return ops.index_put_accumulate(ops.full([6, 7], 0, D.Float), ops.where(ops.eq(index, 3), -1, index), grad)

    def zeros(ops, index, grad):
        is_padding = ops.eq(index, 3)
        grad = ops.where(ops.broadcast(is_padding, [False, True]), 0.0, grad)
        return ops.index_put_accumulate(ops.full([6, 7], 0, D.Float), ops.where(is_padding, 0, index), grad)

    index = torch.tensor([5, 3, 0, 3, 5])
    want = definition(left_out, index, X).execute([index, X])[0]
    assert (want[3] == 0).all()
    with pytest.raises(InvalidArgument, match="got -1 and 6"):
        definition(left_out, index, X).execute([index, X], _enable_options=options)
    torch.testing.assert_close(definition(zeros, index, X).execute([index, X], _enable_options=options)[0], want)
