"""Every mistake raises an exception of the right type whose text names the argument, its value and the rule."""

import re

import numpy as np
import pytest
import torch

from nvfuser_go import (
    DataType,
    Fusion,
    FusionDefinition,
    FusionError,
    InvalidArgument,
    InvalidType,
    LRUCache,
    MissingDefinition,
    Unsupported,
    define_tensor,
    ops,
    python_scalar_to_nvfuser_dtype,
    random,
    torch_dtype_to_nvfuser_dtype,
)


def check(failure: pytest.ExceptionInfo) -> None:
    """What holds of every error that a user sees."""
    text = str(failure.value)
    assert text == text.strip() != ""
    assert not re.search(r"\.go\b|goroutine|runtime error|panic|internal error|0x[0-9a-f]{6}", text), text


def test_types_are_builtin_ones_too():
    assert issubclass(InvalidArgument, ValueError)
    assert issubclass(InvalidType, TypeError)
    assert issubclass(Unsupported, NotImplementedError)
    assert issubclass(MissingDefinition, NotImplementedError)
    assert all(issubclass(e, FusionError) for e in (InvalidArgument, InvalidType, Unsupported, MissingDefinition))
    assert issubclass(FusionError, RuntimeError)
    assert Unsupported("x", [("cpu", "rank", "tv0", "it has 9")]).refusals == [("cpu", "rank", "tv0", "it has 9")]


# Each definition is given a definition with inputs a and b: float tensors of shape [2, 3] and [3], an int tensor i of
# shape [4], and a symbolic tensor x of rank 2.
DEFINITIONS = [
    (
        "sum over dim 5",
        InvalidArgument,
        "is 5, which is not a dimension of a tensor of rank 2",
        lambda o, v: o.sum(v.a, 5),
    ),
    ("permute with repeated dim", InvalidArgument, "dims has 0 twice", lambda o, v: o.permute(v.a, [0, 0])),
    ("reshape to wrong size", InvalidArgument, "reshape():", lambda o, v: o.reshape(v.a, [5])),
    ("-1 twice", InvalidArgument, "reshape():", lambda o, v: o.reshape(v.a, [-1, -1])),
    ("cat of mixed dtypes", InvalidType, "cat():", lambda o, v: o.cat([v.b, v.i])),
    ("slice with step 2", (InvalidArgument, Unsupported), "slice():", lambda o, v: o.slice(v.b, [0], [2], [2])),
    ("slice with negative start", InvalidArgument, "slice():", lambda o, v: o.slice(v.b, [-1], [2])),
    ("squeeze of a non-1 dim", InvalidArgument, "squeeze():", lambda o, v: o.squeeze(v.a, [0])),
    (
        "a string as operand",
        InvalidType,
        "add(): y must be a tensor, a scalar or a number, got",
        lambda o, v: o.add(v.a, "x"),
    ),
    ("missing argument", InvalidType, 'add() needs argument "y"', lambda o, v: o.add(v.a)),
    ("unknown keyword", InvalidType, 'sum() has no argument "axis"', lambda o, v: o.sum(v.a, axis=0)),
    ("matmul inner sizes differ", InvalidArgument, "matmul():", lambda o, v: o.matmul(v.a, v.a)),
    ("bitwise_and of floats", InvalidType, "bitwise_and():", lambda o, v: o.bitwise_and(v.a, v.a)),
    (
        "static sizes differ",
        InvalidArgument,
        "sizes of dimension 1 must be equal, got 3 and 5",
        lambda o, v: v.a + o.full([2, 5], 1, DataType.Float),
    ),
    ("negative size", InvalidArgument, "-5", lambda o, v: o.full([-5], 1.0, DataType.Float)),
    ("huge size", InvalidArgument, "2^63-1", lambda o, v: o.full([2**62, 2**62], 1.0, DataType.Float)),
    ("an int beyond 64 bits", (InvalidArgument, InvalidType), "", lambda o, v: o.add(v.a, 2**70)),
    ("a dtype that is none", InvalidType, "cast(): dtype must be a DataType", lambda o, v: o.cast(v.a, 3)),
    ("cast to Null", InvalidType, "cast(): dtype is Null", lambda o, v: o.cast(v.a, DataType.Null)),
    ("truth of a tensor", InvalidType, "", lambda o, v: bool(v.a > 0)),
    ("pad below zero", InvalidArgument, "pad():", lambda o, v: o.pad(v.b, [-2, -2])),
    ("an output that is a scalar", InvalidArgument, "output is a scalar", lambda o, v: v.fd.add_output(o.size(v.x, 0))),
    ("an alias that is no input", InvalidArgument, "alias_input", lambda o, v: v.fd.add_output(v.a, v.a + 1.0)),
    ("an alias of another dtype", InvalidType, "alias_input", lambda o, v: v.fd.add_output(v.b, v.i)),
    (
        "contiguity of wrong length",
        InvalidArgument,
        "Length of contiguity argument (1) must match that of shape argument (2)",
        lambda o, v: v.fd.define_tensor([2, 2], [True]),
    ),
    (
        "shape below -1",
        InvalidArgument,
        "The value -2 at index 0 was neither symbolic(-1)",
        lambda o, v: v.fd.define_tensor([-2], [True]),
    ),
    (
        "contiguity of no list",
        InvalidType,
        "or a list of bools and None, got 2",
        lambda o, v: v.fd.define_tensor([1], 2),
    ),
    ("contiguity of a broadcast", InvalidArgument, "must be None", lambda o, v: v.fd.define_tensor([1], [True])),
    (
        "is_cpu with dimensions",
        InvalidArgument,
        "is_cpu=True is for tensors of rank 0",
        lambda o, v: v.fd.define_tensor([2], [True], is_cpu=True),
    ),
    (
        "stride_order",
        InvalidArgument,
        "is not a permutation",
        lambda o, v: v.fd.define_tensor([2, 2], True, stride_order=[0, 0]),
    ),
    (
        "a number as dtype",
        InvalidType,
        "dtype must be a DataType, got 3",
        lambda o, v: v.fd.define_tensor([2], True, 3),
    ),
    (
        "an unknown argument",
        InvalidType,
        "define_tensor() has no argument 'strid'",
        lambda o, v: v.fd.define_tensor([2], True, strid=1),
    ),
    ("no arguments", InvalidType, "define_tensor() needs argument 'shape'", lambda o, v: v.fd.define_tensor()),
    ("an argument twice", InvalidType, "got argument 'shape' twice", lambda o, v: v.fd.define_tensor([2], shape=[2])),
    ("shape of strings", InvalidType, "shape must be a list of ints", lambda o, v: v.fd.define_tensor(["a"], [True])),
    ("strides alone", InvalidType, "needs argument 'sizes'", lambda o, v: v.fd.define_tensor(strides=[1])),
    ("rank 33", InvalidArgument, "at most 32", lambda o, v: v.fd.define_tensor([2] * 33, True)),
    ("a scalar of Null", InvalidType, "dtype is Null", lambda o, v: v.fd.define_scalar(dtype=DataType.Null)),
    ("a scalar that is a string", InvalidType, "", lambda o, v: v.fd.define_scalar("3")),
    ("a vector of negative size", InvalidArgument, "size is -1", lambda o, v: v.fd.define_vector(-1)),
    (
        "from_pytorch of a list",
        InvalidType,
        "tensor must be a torch.Tensor, got list",
        lambda o, v: v.fd.from_pytorch([1]),
    ),
    (
        "from_pytorch of an int8",
        InvalidType,
        "from_pytorch(): tensor has dtype torch.int8, for which there is no DataType",
        lambda o, v: v.fd.from_pytorch(torch.ones(2, dtype=torch.int8)),
    ),
]


class Values:
    def __init__(self, fd: FusionDefinition) -> None:
        self.fd = fd
        self.a = fd.define_tensor([2, 3], True)
        self.b = fd.define_tensor([3], True)
        self.i = fd.define_tensor([4], True, DataType.Int)
        self.x = fd.define_tensor([-1, -1], True)


@pytest.mark.parametrize(("kind", "text", "use"), [d[1:] for d in DEFINITIONS], ids=[d[0] for d in DEFINITIONS])
def test_definitions(kind, text, use):
    with FusionDefinition() as fd:
        values = Values(fd)
        fd.add_output(values.a)
        before = fd.fusion.text()
        with pytest.raises(kind) as failure:
            use(fd.ops, values)
        check(failure)
        assert text in str(failure.value)
        assert fd.fusion.text() == before  # and the definition goes on
    fd.execute([torch.ones(2, 3), torch.ones(3), torch.ones(4, dtype=torch.int64), torch.ones(1, 1)])


def test_sizes_can_be_asked_after_the_block():
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, 4], True)
        fd.add_output(a + 1.0)
    assert (str(a.size(0)), str(a.shape()[1]), a.ndim) == ("i0", "nvfuser_index_t(4)", 2)


def test_from_pytorch_of_a_sparse_tensor():
    with FusionDefinition() as fd, pytest.raises(InvalidType, match=r"tensor has layout torch\.sparse_coo"):
        fd.from_pytorch(torch.ones(2).to_sparse())


def test_unknown_op():
    with pytest.raises(AttributeError, match="nosuch"):
        FusionDefinition().ops.nosuch()


def test_missing_definitions():
    fd = FusionDefinition()
    missing = "Fusion does not exist! Use `with FusionDefinition() as fd: ...` to define a fusion."
    for use in (
        lambda: fd.execute([]),
        lambda: fd.fusion,
        lambda: fd.validate([]),
        lambda: fd.repro_script_for(),
        lambda: fd.define_scalar(),
        lambda: fd.manual_execute([]),
    ):
        with pytest.raises(NotImplementedError) as failure:
            use()
        assert str(failure.value) == missing
    with fd:
        pass
    with pytest.raises(NotImplementedError, match=r"^Fusion is empty!$"):
        fd.execute([])


def test_values_outside_their_fusion():
    with FusionDefinition() as one:
        a = one.define_tensor([2], True)
        one.add_output(a)
    with pytest.raises(InvalidArgument, match="the fusion is complete") as failure:
        one.ops.exp(a)
    check(failure)
    with pytest.raises(InvalidArgument, match="the fusion is complete"):
        one.add_output(a)
    with FusionDefinition() as two:
        b = two.define_tensor([2], True)
        for use in (lambda: two.ops.add(a, b), lambda: two.add_output(a), lambda: a + b):
            with pytest.raises(InvalidArgument) as failure:
                use()
            check(failure)
        two.add_output(b)
    with pytest.raises(InvalidArgument) as failure:
        ops.full([2], 1.0, DataType.Float)
    check(failure)
    with pytest.raises(InvalidArgument):
        define_tensor([2], True)
    two.execute([torch.ones(2)])
    with pytest.raises(FusionError, match="is executed already"), two:
        pass
    with pytest.raises(
        AssertionError, match=r"FusionExecutorCache already exists! Use execute\(\) to execute the fusion"
    ):
        two.manual_execute([torch.ones(2)])


def two_inputs() -> FusionDefinition:
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, 3], True)
        s = fd.define_scalar(dtype=DataType.Int)
        fd.add_output(a * s)
    return fd


X = torch.ones(2, 3)

EXECUTIONS = [
    ("too few", InvalidArgument, "the fusion has 2 inputs, got 1", [X]),
    ("too many", InvalidArgument, "the fusion has 2 inputs, got 3", [X, 1, 2]),
    ("wrong rank", InvalidArgument, "input 0 (tv0) has 1 dimension, but the definition says 2", [torch.ones(3), 1]),
    (
        "wrong size",
        InvalidArgument,
        "input 0 (tv0) has size 4 in dimension 1, but the definition says 3",
        [torch.ones(2, 4), 1],
    ),
    ("wrong dtype", InvalidType, "input 0 (tv0) has dtype Double, but the definition says Float", [X.double(), 1]),
    ("a scalar for a tensor", InvalidType, "input 0 (tv0) must be a tensor", [1.0, 1]),
    ("a tensor for a scalar", InvalidType, "input 1", [X, X]),
    ("a float for an Int", InvalidType, "input 1", [X, 1.5]),
    ("strides", InvalidArgument, "input 0 (tv0)", [torch.ones(3, 2).t(), 1]),
    ("a string", InvalidType, "execute(): input 1 is of type str; an input is a torch tensor", [X, "1"]),
    ("a dict", InvalidType, "input 0 is of type dict", [{}, 1]),
    ("None", InvalidType, "input 1 is of type NoneType", [X, None]),
    ("sparse", InvalidType, "input 0", [X.to_sparse(), 1]),
    ("meta", InvalidType, "input 0", [X.to("meta"), 1]),
    ("a dtype without a DataType", InvalidType, "input 0", [X.to(torch.int8), 1]),
    ("masked", InvalidType, "input 0 is a masked array", [np.ma.masked_array(np.ones((2, 3), np.float32)), 1]),
    ("reversed", InvalidArgument, "strides must not be negative", [np.ones((2, 3), np.float32)[::-1], 1]),
    ("text array", InvalidType, "input 0 is an array of dtype <U1", [np.array([["a"] * 3]), 1]),
]


@pytest.mark.parametrize(("kind", "text", "inputs"), [e[1:] for e in EXECUTIONS], ids=[e[0] for e in EXECUTIONS])
def test_executions(kind, text, inputs):
    fd = two_inputs()
    with pytest.raises(kind) as failure:
        fd.execute(inputs)
    check(failure)
    assert text in str(failure.value)
    assert fd.execute([X, 2])[0].tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(
    "inputs", [torch.ones(2, 3), np.ones((2, 3), np.float32), {0: 1}, "ab", 5, None], ids=lambda i: type(i).__name__
)
def test_what_is_no_list_of_inputs(inputs):
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([3], contiguity=True) for _ in range(2))
        fd.add_output(a + b)
    uses = {
        "execute": [lambda: fd.execute(inputs), lambda: fd.execute(inputs, save_repro_inputs=True)],
        "validate": [lambda: fd.validate(inputs)],
        "repro_script_for": [lambda: fd.repro_script_for(inputs)] if inputs is not None else [],
    }
    for name, calls in uses.items():
        for use in calls:
            with pytest.raises(InvalidType, match=rf"{name}\(\): inputs must be a list .*, got") as failure:
                use()
            check(failure)


def test_subclasses_of_tensors():
    class Mine(torch.Tensor):
        pass

    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(2, 3)
    nested = torch.nested.nested_tensor([torch.ones(3)], layout=torch.jagged)
    for tensor, name in ((X.as_subclass(Mine), "Mine"), (fake, "FakeTensor"), (nested, "NestedTensor")):
        with pytest.raises(FusionError) as failure:
            two_inputs().execute([tensor, 1])
        check(failure)
        assert "input 0" in str(failure.value)
        assert name in str(failure.value)


def test_conjugate_and_negative_views_are_resolved():
    with FusionDefinition() as fd:
        a = fd.define_tensor([2], True, DataType.ComplexFloat)
        b = fd.define_tensor([2], [False])
        fd.add_output(fd.ops.mul(a, 1.0))
        fd.add_output(fd.ops.mul(b, 1.0))
    z = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    conj, neg = fd.execute([z.conj(), z.conj().imag])
    assert conj.tolist() == [1 - 2j, 3 + 4j]
    assert neg.tolist() == [-2.0, 4.0]


def test_sizes_that_show_at_run_time_name_the_line():
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1], True) for _ in range(2))
        # Equal fusions share their plans, and so the lines of the first of them: this one is nowhere else.
        fd.add_output((a + b) * 0.3359375)
    with pytest.raises(InvalidArgument, match=r"add\(\): sizes of dimension 0 must be equal, got 2 and 3") as failure:
        fd.execute([torch.ones(2), torch.ones(3)])
    assert re.search(r"test_errors\.py:\d+", str(failure.value))
    check(failure)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), (([torch.ones(1)], 0), {}), (([torch.ones(1)],), {"divice": 0})],
    ids=["none", "too many", "unknown"],
)
def test_arguments_of_execute(args, kwargs):
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.add(fd.define_tensor([1]), 1.0))
    with pytest.raises(TypeError, match=r"^FusionDefinition\.execute\(\) "):
        fd.execute(*args, **kwargs)


def test_a_torch_that_does_not_start_cuda(monkeypatch):
    def fail() -> None:
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(torch.cuda, "init", fail)
    text = r"^execute\(\): torch cannot start CUDA to draw random numbers: Torch not compiled with CUDA enabled$"
    with pytest.raises(FusionError, match=text) as failure:
        random.draw(0, 4)
    assert isinstance(failure.value.__cause__, AssertionError)


def test_outputs_without_memory():
    with FusionDefinition() as fd:
        n = fd.define_scalar(dtype=DataType.Int)
        fd.add_output(fd.ops.full([2], 2.0, DataType.Float))
        fd.add_output(fd.ops.full([n], 1.0, DataType.Double))
    text = r"full\(\): output 1 of shape \[1152921504606846976\] and dtype Double has more than 2\^63-1 bytes"
    with pytest.raises(InvalidArgument, match=text) as failure:
        fd.execute([2**60])
    check(failure)
    text = r"execute\(\): output 1 of shape \[1152921504606846975\] needs 9223372036854775800 bytes: .*allocate"
    with pytest.raises(FusionError, match=text) as failure:
        fd.execute([2**60 - 1])  # in the range of torch's numbers, and refused by its allocator
    check(failure)
    assert "\n" not in str(failure.value)
    assert isinstance(failure.value.__cause__, RuntimeError)
    assert [t.tolist() for t in fd.execute([1])] == [[2.0, 2.0], [1.0]]


def test_parse():
    with pytest.raises(InvalidArgument, match="line 2: ") as failure:
        Fusion.parse("%0 = tensor f32 [2] contiguity=[yes]\n%1 = nosuch %0\n")
    check(failure)


def list_in_itself() -> list:
    inputs = [X]
    inputs.append(inputs)
    return inputs


def test_errors_name_the_function_that_was_called():
    with FusionDefinition() as fd:
        a = fd.define_tensor([3, 4], True)
        for use, text in (
            (
                lambda: fd.ops.broadcast_in_dim(a, [5, 4], [0, 1]),
                "broadcast_in_dim(): the size of dimension 0 must",
            ),
            (lambda: fd.define_tensor([3, 4], [4, -1]), "define_tensor(): strides[1] is -1, which is negative"),
            (
                lambda: fd.define_tensor([3], dtype=torch.int8),
                "define_tensor(): dtype is torch.int8, for which there is no",
            ),
            (
                lambda: torch_dtype_to_nvfuser_dtype(3),
                "torch_dtype_to_nvfuser_dtype(): dtype is 3, for which there is no",
            ),
            (lambda: torch_dtype_to_nvfuser_dtype([]), "torch_dtype_to_nvfuser_dtype(): dtype is []"),
            (lambda: python_scalar_to_nvfuser_dtype("a"), "python_scalar_to_nvfuser_dtype(): value must be a bool"),
            (lambda: fd.add_output(a, [0]), "add_output(): stride_order has 1 entry, and arg has 2 dimensions"),
            (lambda: fd.define_constant("x"), "define_constant(): value must be a bool, an int, a float or a complex"),
            (
                lambda: fd.add_output(a, a, stride_order=[0, 1]),
                "add_output(): stride_order is [0, 1], but the",
            ),
            (lambda: fd.add_output(a, [0], stride_order=[0, 1]), "add_output(): alias_input must be a tensor, got [0]"),
        ):
            with pytest.raises(FusionError) as failure:
                use()
            check(failure)
            assert text in str(failure.value)


def test_other_arguments():
    for use, kind in (
        (lambda: LRUCache(0), InvalidArgument),
        (lambda: LRUCache(3).cache_compile(5), InvalidType),
        (lambda: LRUCache("1"), InvalidType),
        (lambda: torch_dtype_to_nvfuser_dtype(torch.int8), InvalidType),
        (lambda: two_inputs().execute(list_in_itself()), InvalidArgument),
        (lambda: two_inputs().execute([X, 1], _enable_options="verify"), InvalidType),
        (lambda: two_inputs().execute([X, 1], _disable_options=[1]), InvalidType),
        (lambda: two_inputs().validate([X, 1], 1), InvalidType),
        (lambda: two_inputs().validate([X, 1], [None]), InvalidType),
        (lambda: two_inputs().execute([X, 1], device="tpu"), InvalidArgument),
        (lambda: two_inputs().execute([X, 1], device=[]), InvalidType),
        (lambda: two_inputs().execute([X, 1], _enable_options=["nosuch"]), InvalidArgument),
    ):
        with pytest.raises(kind) as failure:
            use()
        check(failure)


def test_very_deep_definitions():
    with FusionDefinition() as fd:
        x = a = fd.define_tensor([2], True)
        for _ in range(20_000):
            x = x + 1.0
        fd.add_output(x)
        fd.add_output(a)
    assert len(repr(fd).splitlines()) == 20_004
    assert fd.execute([torch.zeros(2)])[0].tolist() == [20_000.0] * 2
