"""The printed form of a fusion: the texts that nvFuser prints, and that it defines the same fusion again."""

import textwrap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_fusions import random_fusion

from nvfuser_go import DataType, FusionDefinition
from nvfuser_go.fusion import Fusion

FLOAT, BFLOAT16 = DataType.Float, DataType.BFloat16


def again(fd: FusionDefinition) -> FusionDefinition:
    """The fusion that the printed form defines."""
    scope = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(repr(fd), scope)
    with FusionDefinition() as copy:
        scope["nvfuser_fusion"](copy)
    return copy


def check_round_trip(fd: FusionDefinition) -> None:
    copy = again(fd)
    assert copy.fusion.text() == fd.fusion.text(), repr(fd)
    assert again(copy).fusion.text() == fd.fusion.text()
    copy.fusion.verify()


def pointwise_dynamic(fd):
    a = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=FLOAT)
    b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=FLOAT)
    c = fd.ops.broadcast_in_dim(b, shape=[fd.ops.size(a, 0), fd.ops.size(a, 1)], broadcast_dims=[1])
    fd.add_output(fd.ops.mul(fd.ops.add(a, c), 3.0))
    fd.add_output(fd.ops.gt(a, 0.5))


POINTWISE_DYNAMIC = """
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float, is_cpu=False)
    tv1 = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float, is_cpu=False)
    tv2 = fd.ops.broadcast(tv1, is_broadcast_dim=[True, False])
    c0 = fd.ops.size(tv0, dim=0)
    c1 = fd.ops.size(tv0, dim=1)
    tv3 = fd.ops.expand(tv2, shape=[c0, c1])
    tv4 = fd.ops.add(tv0, tv3)
    tv5 = fd.ops.mul(tv4, 3.00000)
    tv6 = fd.ops.gt(tv0, 0.500000)
    fd.add_output(tv5)
    fd.add_output(tv6)
"""


def scalars_and_casts(fd):
    a = fd.from_pytorch(torch.empty(4, 8, dtype=torch.bfloat16))
    s = fd.define_scalar(dtype=DataType.Double)
    k = fd.define_scalar(2, dtype=DataType.Int)
    t = fd.ops.cast(a, dtype=FLOAT)
    t = fd.ops.where(fd.ops.lt(t, s), fd.ops.mul(t, k), 0.1234567890123)
    fd.add_output(fd.ops.cast(t, dtype=BFLOAT16))


# Unlike nvFuser's: a number beside a tensor is not cast first, and is exact.
SCALARS_AND_CASTS = """
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16, is_cpu=False)
    c3 = fd.define_scalar(None, dtype=DataType.Double)
    tv1 = fd.ops.cast(tv0, dtype=DataType.Float)
    tv2 = fd.ops.lt(tv1, c3)
    tv3 = fd.ops.mul(tv1, 2)
    tv4 = fd.ops.where(tv2, tv3, 0.1234567890123)
    tv5 = fd.ops.cast(tv4, dtype=DataType.BFloat16)
    fd.add_output(tv5)
"""


def norm_static(fd):
    a = fd.from_pytorch(torch.empty(6, 16), static_sizes=True)
    v, m = fd.ops.var_mean(a, dims=[1], correction=0, keepdim=True)
    e = fd.ops.expand(m, [6, 16])
    fd.add_output(fd.ops.mul(fd.ops.sub(a, e), fd.ops.rsqrt(fd.ops.add(v, 1e-5))))
    fd.add_output(fd.ops.sum(a, dims=[-1]))
    fd.add_output(fd.ops.max(a, dims=[0], keepdim=True))


# Unlike nvFuser's: the factor 1/16 is a number.
NORM_STATIC = """
    tv0 = fd.define_tensor(shape=[6, 16], contiguity=[True, True], dtype=DataType.Float, is_cpu=False)
    tv1, tv2, tv3 = fd.ops.welford(tv0, dims=[1])
    tv6 = fd.ops.broadcast(tv1, is_broadcast_dim=[False, True])
    tv7 = fd.ops.expand(tv6, shape=[6, 16])
    tv8 = fd.ops.sub(tv0, tv7)
    tv4 = fd.ops.mul(tv2, 0.0625000)
    tv5 = fd.ops.broadcast(tv4, is_broadcast_dim=[False, True])
    tv9 = fd.ops.add(tv5, 1.00000e-05)
    tv10 = fd.ops.rsqrt(tv9)
    tv11 = fd.ops.mul(tv8, tv10)
    tv12 = fd.ops.sum(tv0, dims=[1], dtype=DataType.Float)
    tv13 = fd.ops.max(tv0, dims=[0])
    tv14 = fd.ops.broadcast(tv13, is_broadcast_dim=[True, False])
    fd.add_output(tv11)
    fd.add_output(tv12)
    fd.add_output(tv14)
"""


def shapes(fd):
    a = fd.from_pytorch(torch.empty(2, 3, 4))
    r = fd.ops.reshape(a, new_shape=[6, 4])
    p = fd.ops.permute(r, dims=[1, 0])
    s = fd.ops.slice(p, start_indices=[0, 1], end_indices=[4, 5])
    q = fd.ops.pad(s, [1, 1], 0.0)
    fd.add_output(fd.ops.cat([q, q], dim=1))
    fd.add_output(fd.ops.squeeze(fd.ops.broadcast(r, [False, True, False]), dims=[1]))


# Unlike nvFuser's: the operands of cat are not padded first.
SHAPES = """
    tv0 = fd.define_tensor(shape=[-1, -1, -1], contiguity=[True, True, True], dtype=DataType.Float, is_cpu=False)
    tv1 = fd.ops.reshape(tv0, new_shape=[6, 4])
    tv2 = fd.ops.permute(tv1, dims=[1, 0])
    tv3 = fd.ops.slice(tv2, start_indices=[0, 1], end_indices=[4, 5], strides=[1, 1], manual_normalization=True)
    tv4 = fd.ops.pad(tv3, pad_widths=[1, 1, 0, 0], value=0.00000)
    tv5 = fd.ops.cat([tv4, tv4], dim=1)
    tv6 = fd.ops.broadcast(tv1, is_broadcast_dim=[False, True, False])
    tv7 = fd.ops.squeeze(tv6, dims=[1])
    fd.add_output(tv5)
    fd.add_output(tv7)
"""


def strided_alias(fd):
    a = fd.from_pytorch(torch.empty(8, 4).t())
    b = fd.from_pytorch(torch.empty(1, 5).expand(3, 5))
    r = fd.ops.relu(a)
    fd.add_output(r, a)
    fd.add_output(fd.ops.neg(b))
    fd.add_output(fd.ops.set(r))


# Unlike nvFuser's: a copy is printed as set.
STRIDED_ALIAS = """
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float, is_cpu=False, \
stride_order=[0, 1])
    tv1 = fd.define_tensor(shape=[-1, -1], contiguity=[None, True], dtype=DataType.Float, is_cpu=False)
    tv3 = fd.ops.neg(tv1)
    tv2 = fd.ops.relu(tv0)
    tv4 = fd.ops.set(tv2)
    fd.add_output(tv2, tv0)
    fd.add_output(tv3)
    fd.add_output(tv4)
"""


def indexing_random(fd):
    a = fd.from_pytorch(torch.empty(5, 6))
    j = fd.from_pytorch(torch.empty(3, dtype=torch.int64))
    fd.add_output(fd.ops.index_select(a, j, 0))
    fd.add_output(fd.ops.uniform(0.0, 1.0, [3, 2], dtype=FLOAT))
    fd.add_output(fd.ops.iota(6, 0, 2))
    fd.add_output(fd.ops.full([2, 2], 7, DataType.Int))
    fd.add_output(fd.ops.cumsum(a, 1))


# Unlike nvFuser's: the bounds of uniform stay floats.
INDEXING_RANDOM = """
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float, is_cpu=False)
    tv1 = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Int, is_cpu=False)
    tv2 = fd.ops.broadcast(tv1, is_broadcast_dim=[False, True])
    tv3 = fd.ops.index_select(tv0, tv2, dim=0)
    tv4 = fd.ops.uniform(0.00000, 1.00000, [3, 2])
    tv5 = fd.ops.iota(length=6, start=0, step=2)
    tv6 = fd.ops.full(shape=[2, 2], fill_value=7, dtype=DataType.Int)
    tv7 = fd.ops.cumsum(tv0, dim=1)
    fd.add_output(tv3)
    fd.add_output(tv4)
    fd.add_output(tv5)
    fd.add_output(tv6)
    fd.add_output(tv7)
"""


def gemm(fd):
    a, c, d = (fd.from_pytorch(torch.empty(s, dtype=torch.bfloat16)) for s in ((4, 8), (6, 8), (6,)))
    fd.add_output(fd.ops.linear(a, c, d))
    fd.add_output(fd.ops.matmul(a, fd.ops.permute(c, [1, 0])))


GEMM = """
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16, is_cpu=False)
    tv1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16, is_cpu=False)
    tv2 = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.BFloat16, is_cpu=False)
    tv3 = fd.ops.linear(tv0, tv1, bias=tv2)
    tv4 = fd.ops.permute(tv1, dims=[1, 0])
    tv5 = fd.ops.matmul(tv0, tv4)
    fd.add_output(tv3)
    fd.add_output(tv5)
"""


def symbolic_vector(fd):
    a = fd.from_pytorch(torch.empty(12))
    fd.add_output(fd.ops.reshape(a, new_shape=fd.define_vector(2)))


SYMBOLIC_VECTOR = """
    tv0 = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float, is_cpu=False)
    c2 = fd.define_scalar(None, dtype=DataType.Int)
    c3 = fd.define_scalar(None, dtype=DataType.Int)
    c4 = fd.ops.cast(c2, dtype=DataType.Index)
    c5 = fd.ops.cast(c3, dtype=DataType.Index)
    tv1 = fd.ops.reshape(tv0, new_shape=[c4, c5])
    fd.add_output(tv1)
"""

SAMPLES = [
    (pointwise_dynamic, POINTWISE_DYNAMIC),
    (scalars_and_casts, SCALARS_AND_CASTS),
    (norm_static, NORM_STATIC),
    (shapes, SHAPES),
    (strided_alias, STRIDED_ALIAS),
    (indexing_random, INDEXING_RANDOM),
    (gemm, GEMM),
    (symbolic_vector, SYMBOLIC_VECTOR),
]


def defined(define) -> FusionDefinition:
    with FusionDefinition() as fd:
        define(fd)
    return fd


@pytest.mark.parametrize(("define", "body"), SAMPLES, ids=[define.__name__ for define, _ in SAMPLES])
def test_samples(define, body):
    fd = defined(define)
    assert repr(fd) == "def nvfuser_fusion(fd : FusionDefinition) -> None :" + body
    check_round_trip(fd)


def test_print_math():
    assert defined(pointwise_dynamic).fusion.print_math() == textwrap.dedent("""\
        Inputs:
          T0_g_float[iS0{i0}, iS1{i1}]
          T1_g_float[iS2{i3}]
        Outputs:
          T5_g_float[iS9{i0}, iS10{i1}]
          T6_g_bool[iS11{i0}, iS12{i1}]

        %kernel_math {
        T2_l_float[bS3{1}, iS4{i3}]
           = broadcast( T1_g_float[iS2{i3}], flags = {true, false} )
        T3_l_float[bS5{1 ex i0}, iS6{i1}] = expand( T2_l_float[bS3{1}, iS4{i3}] )
        T4_l_float[iS7{i0}, iS8{i1}]
           = T0_g_float[iS0{i0}, iS1{i1}]
           + T3_l_float[bS5{1 ex i0}, iS6{i1}];
        T5_g_float[iS9{i0}, iS10{i1}]
           = T4_l_float[iS7{i0}, iS8{i1}]
           * double(3);
        T6_g_bool[iS11{i0}, iS12{i1}]
           = T0_g_float[iS0{i0}, iS1{i1}]
           > double(0.5);
        } // %kernel_math\x20

        """)


def test_print_math_of_unused_operations():
    with FusionDefinition() as fd:
        a = fd.define_tensor([4], True)
        fd.ops.exp(a)
        fd.add_output(fd.ops.neg(a))
    assert "exp" not in fd.fusion.print_math()
    assert "exp(T0_g_float[iS0{4}])" in fd.fusion.print_math(from_outputs_only=False)


@pytest.mark.parametrize("dtype", [t for t in DataType if t not in (DataType.Null, DataType.Float4_e2m1fn_x2)])
def test_every_dtype_keeps_its_name(dtype):
    with FusionDefinition() as fd:
        a = fd.define_tensor([2], True, dtype)
        fd.add_output(fd.ops.set(a))
    assert f"dtype=DataType.{dtype.name}, is_cpu" in repr(fd)
    assert a.dtype() is dtype
    check_round_trip(fd)


@pytest.mark.parametrize(
    "value",
    [
        0.0,
        -0.0,
        1e-5,
        1 / 3,
        1e300,
        5e-324,
        123456.0,
        1234567.0,
        float("inf"),
        float("-inf"),
        float("nan"),
        True,
        -7,
        1 + 2j,
    ]
    + [complex("inf"), 2**63 - 1, -(2**63)],
)
def test_numbers_are_exact(value):
    with FusionDefinition() as fd:
        a = fd.define_tensor([2], True, DataType.ComplexDouble)
        fd.add_output(fd.ops.mul(a, value))
    check_round_trip(fd)


@pytest.mark.parametrize("dtype", [DataType.Half, DataType.Float, DataType.Int32, DataType.UInt64, DataType.Index])
def test_numbers_keep_their_dtype(dtype):
    with FusionDefinition() as fd:
        a = fd.define_tensor([2], True, DataType.Double)
        fd.add_output(fd.ops.mul(a, fd.define_scalar(3, dtype=dtype)))
        fd.add_output(fd.ops.add(a, fd.define_scalar(3, dtype=dtype)))
    assert repr(fd).count("define_scalar") == 1
    check_round_trip(fd)


def test_derived_scalars():
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, -1], True)
        n, k = fd.define_scalar(dtype=DataType.Int), fd.define_scalar(dtype=DataType.Int32)
        d = fd.define_scalar(dtype=DataType.Double)
        m = fd.ops.size(a, 0)
        flag = fd.ops.lt(n, 3)
        x = a
        for scalar in (
            m + n * 2 - 1,
            fd.ops.remainder(n, m),
            fd.ops.fmod(n, 5),
            fd.ops.div(n, 3),
            fd.ops.minimum(n, fd.ops.maximum(m, 4)),
            fd.ops.where(flag, n, 7),
            fd.ops.where(flag, 6, 7),
            fd.ops.where(fd.ops.ne(n, 3), m, 7),
            fd.ops.cast(k, DataType.Index),
            k * 3,
            fd.ops.exp(d) + n,
            fd.ops.truediv(m, 2),
            fd.ops.cast(fd.ops.exp(d), DataType.Int),
            fd.ops.bitwise_and(n, 12),
            fd.ops.sub(n, fd.ops.remainder(n, 4)),
            fd.ops.abs(n),
            -n,
        ):
            x = fd.ops.add(x, fd.ops.cast(scalar, DataType.Float) if scalar.dtype() is DataType.Index else scalar)
        y = fd.ops.full([m + n, fd.ops.where(flag, 2, 3), fd.ops.bitwise_and(n, 12)], 1.0, FLOAT)
        fd.add_output(x)
        fd.add_output(y)
    check_round_trip(fd)
    assert Fusion.parse(fd.fusion.text()).text() == fd.fusion.text()


def test_a_definition_that_is_missing():
    assert repr(FusionDefinition()) == "<FusionDefinition without a definition>"


def test_empty_definition():
    with FusionDefinition() as fd:
        pass
    assert repr(fd) == "def nvfuser_fusion(fd : FusionDefinition) -> None :\n    pass\n"
    check_round_trip(fd)


def test_unused_values_vanish():
    with FusionDefinition() as fd:
        a = fd.define_tensor([3], True)
        fd.define_tensor([4], True)
        fd.ops.exp(a)
        fd.define_scalar(3.0)
        fd.add_output(a)
    assert "exp" not in repr(fd)
    assert "shape=[4]" in repr(fd)
    check_round_trip(fd)


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_random_fusions(seed):
    fd = random_fusion(seed)
    check_round_trip(fd)
    assert Fusion.parse(fd.fusion.text()).text() == fd.fusion.text()
    fd.fusion.verify()
