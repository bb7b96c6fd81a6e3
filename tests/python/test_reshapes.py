"""Reshapes around reductions and normalisations: against torch, and in how few kernels."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from agreement import agree, randn
from sweep_values import describe
from torch.nn import functional as F

from nvfuser_go import DataType, FusionDefinition

EPSILON = 1e-5


def normalised(ops, x, dims: list[int]):
    var, mean = ops.var_mean(x, dims, 0, True)
    return ops.mul(ops.sub(x, mean), ops.rsqrt(ops.add(var, EPSILON)))


def softmax(ops, x, dim: int):
    e = ops.exp(ops.sub(x, ops.max(x, [dim], True)))
    return ops.truediv(e, ops.sum(e, [dim], True))


def weights(ops, w, shape: list[int]):
    return ops.broadcast_in_dim(w, shape, [1])


def group_norm(ops, x, w, b):
    y = ops.reshape(normalised(ops, ops.reshape(x, [2, 3, 4 * 5 * 7]), [2]), [2, 12, 5, 7])
    return ops.add(ops.mul(y, weights(ops, w, [2, 12, 5, 7])), weights(ops, b, [2, 12, 5, 7]))


def group_norm_of_groups(ops, x, w, b):
    y = ops.reshape(normalised(ops, ops.reshape(x, [2, 3, 4, 5, 7]), [2, 3, 4]), [2, 12, 5, 7])
    return ops.relu(ops.add(ops.mul(y, weights(ops, w, [2, 12, 5, 7])), weights(ops, b, [2, 12, 5, 7])))


def group_norm_and_residual(ops, x, w):
    x = ops.tanh(x)
    y = ops.reshape(normalised(ops, ops.reshape(x, [2, 3, -1]), [2]), [2, 12, 5, 7])
    return ops.add(ops.mul(y, weights(ops, w, [2, 12, 5, 7])), x)


def softmax_of_blocks_of_a_layer_norm(ops, x):
    y = ops.reshape(normalised(ops, x, [1]), [6, 4, 16])
    return ops.reshape(softmax(ops, y, 2), [6, 64])


def added_in_more_dimensions(ops, x, z):
    y = ops.reshape(normalised(ops, x, [1]), [1, 4, 5])
    return ops.add(y, z)


@dataclass(frozen=True)
class Case:
    name: str
    kernels: int
    program: Callable
    expected: Callable
    shapes: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        return self.name


def layer_norm_of_rows(ops, x):
    y = normalised(ops, ops.reshape(x, [6, 40]), [1])
    return ops.reshape(y, [2, 3, 5, 8])


def heads_softmax(ops, x):
    y = softmax(ops, ops.reshape(x, [2, 7, 5, 33]), 3)
    return ops.reshape(y, [2, 7, 165])


def scaled_in_blocks(ops, x):
    y = ops.reshape(x, [12, 4, 16])
    largest = ops.max(ops.abs(y), [2], True)
    return ops.reshape(ops.truediv(y, ops.add(largest, 1.0)), [12, 64]), ops.squeeze(largest, [2])


def scaled_in_blocks_by_torch(x):
    y = x.reshape(12, 4, 16)
    largest = y.abs().amax(2, True)
    return (y / (largest + 1)).reshape(12, 64), largest.squeeze(2)


def two_shapes_of_one(ops, x):
    y = ops.tanh(x)
    return ops.reshape(y, [15, 12]), ops.reshape(y, [-1])


CASES = [
    Case(
        "layer norm of rows that are reshaped before and after",
        1,
        layer_norm_of_rows,
        lambda x: F.layer_norm(x.reshape(6, 40), (40,)).reshape(2, 3, 5, 8),
        ((2, 3, 40),),
    ),
    Case(
        "softmax of each head",
        1,
        heads_softmax,
        lambda x: x.reshape(2, 7, 5, 33).softmax(3).reshape(2, 7, 165),
        ((2, 7, 165),),
    ),
    Case("scaled in blocks of a row", 1, scaled_in_blocks, scaled_in_blocks_by_torch, ((12, 64),)),
    Case(
        "two shapes of one tensor",
        1,
        two_shapes_of_one,
        lambda x: (x.tanh().reshape(15, 12), x.tanh().flatten()),
        ((12, 15),),
    ),
    Case(
        "group norm of rows",
        1,
        group_norm,
        lambda x, w, b: F.group_norm(x, 3, w, b),
        ((2, 12, 5, 7), (12,), (12,)),
    ),
    Case(
        "group norm of groups, and relu",
        1,
        group_norm_of_groups,
        lambda x, w, b: F.group_norm(x, 3, w, b).relu(),
        ((2, 12, 5, 7), (12,), (12,)),
    ),
    Case(
        "group norm of what is computed, which is added to it",
        1,
        group_norm_and_residual,
        lambda x, w: F.group_norm(x.tanh(), 3, w) + x.tanh(),
        ((2, 12, 5, 7), (12,)),
    ),
    Case(
        "softmax of blocks of a layer norm",
        2,
        softmax_of_blocks_of_a_layer_norm,
        lambda x: F.layer_norm(x, (64,)).reshape(6, 4, 16).softmax(2).reshape(6, 64),
        ((6, 64),),
    ),
    Case(
        "a layer norm that is repeated",
        2,
        added_in_more_dimensions,
        lambda x, z: F.layer_norm(x, (5,)).reshape(1, 4, 5) + z,
        ((4, 5), (3, 4, 5)),
    ),
    Case(
        "sum of each head",
        1,
        lambda ops, x: ops.sum(ops.reshape(x, [2, 7, 5, 33]), [3]),
        lambda x: x.reshape(2, 7, 5, 33).sum(3),
        ((2, 7, 165),),
    ),
    Case(
        "sum over a dimension that is kept and one that is not",
        1,
        lambda ops, x: ops.sum(ops.reshape(x, [2, -1]), [1]),
        lambda x: x.reshape(2, -1).sum(1),
        ((2, 7, 33),),
    ),
    Case(
        "sum of an expanded dimension that is cut",
        1,
        lambda ops, x: ops.sum(ops.reshape(ops.broadcast_in_dim(x, [33, 40, 10], [0, 1]), [264, 50]), [1]),
        lambda x: x[..., None].expand(33, 40, 10).reshape(264, 50).sum(1),
        ((33, 40),),
    ),
    Case(
        "heads that several queries share",
        1,
        lambda ops, x, q: ops.mul(
            ops.reshape(ops.broadcast_in_dim(x, [2, 3, 4, 5, 8], [0, 1, 3, 4]), [2, 12, 5, 8]), q
        ),
        lambda x, q: x[:, :, None].expand(2, 3, 4, 5, 8).reshape(2, 12, 5, 8) * q,
        ((2, 3, 5, 8), (2, 12, 5, 8)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_kernels(case: Case, dynamic: bool) -> None:
    inputs = [randn(*shape) for shape in case.shapes]
    with FusionDefinition() as fd:
        out = case.program(fd.ops, *(fd.define_tensor(**describe(x, DataType.Float, dynamic)) for x in inputs))
        for t in out if isinstance(out, tuple) else [out]:
            fd.add_output(t)
    explanation = fd.explain(inputs)
    assert sum(s.memory is not None for s in explanation.segments) == case.kernels, str(explanation)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("place", ["cpu", "simulate"])
def test_values(case: Case, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place == "simulate":
        monkeypatch.setenv("NVFUSER_ENABLE", "simulate")
    agree(lambda fd, *tensors: case.program(fd.ops, *tensors), case.expected, *(randn(*s) for s in case.shapes))


@pytest.mark.parametrize("size", [-1, 16], ids=["unknown", "known"])
@pytest.mark.parametrize("shaped", ["reshape", "broadcast"])
@pytest.mark.parametrize("called", ["matmul", "argsort"])
def test_torch_reads_what_is_stored_as_another_shape(size: int, shaped: str, called: str):
    """A tensor that lies where an output belongs has its own dimensions when torch is called with it."""
    x = randn(16, 16)
    with FusionDefinition() as fd:
        ops = fd.ops
        y = ops.neg(fd.define_tensor(shape=[size, size]))
        fd.add_output(ops.reshape(y, [256]) if shaped == "reshape" else ops.broadcast(y, [True, False, False]))
        fd.add_output(ops.matmul(y, y) if called == "matmul" else ops.argsort(y, 0))
    shape, result = fd.execute([x], _enable_options=["simulate"])
    assert torch.equal(shape, -x.reshape([256] if shaped == "reshape" else [1, 16, 16]))
    assert torch.allclose(result, x @ x if called == "matmul" else torch.argsort(-x, 0), rtol=1e-4, atol=1e-4)
