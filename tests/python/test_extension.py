"""The compiled module _C: its types and operators, and how arguments and errors cross."""

import ast
import copy
import gc
import inspect
import math
import operator
import re
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from extension import FLOAT, INT, built, matrix

import nvfuser_go
from nvfuser_go import _C, DataType, FusionError, InvalidArgument, InvalidType, Unsupported
from nvfuser_go._C import ops

# ---- Types ----


def test_types_show_as_those_of_the_package(fusion, x):
    scalar = fusion.define_scalar(INT)
    assert [type(v).__name__ for v in (x, scalar, fusion)] == ["TensorView", "Scalar", "Fusion"]
    assert {type(v).__module__ for v in (x, scalar, fusion, x.axis(0), x.domain())} == {"nvfuser_go"}
    assert isinstance(x, _C.Val) and isinstance(scalar, _C.Val) and not isinstance(x, _C.Scalar)
    assert _C.Statement in _C.Val.__mro__ and _C.Statement in _C.Expr.__mro__ and nvfuser_go.Statement is _C.Statement


@pytest.mark.parametrize(
    "kind", [_C.Statement, _C.Val, _C.TensorView, _C.Scalar, _C.Expr, _C.IterDomain, _C.TensorDomain, _C.Executor]
)
def test_values_are_made_by_fusions_only(kind):
    with pytest.raises(TypeError, match="cannot create"):
        kind()


def test_a_value_has_one_object(fusion, x):
    assert fusion.inputs()[0] is x
    y = x + x
    assert y.definition().input(0) is x
    assert y.definition().output(0) is y
    assert all(a is b for a, b in zip(fusion.vals(), [x, y], strict=True))
    del y
    again = fusion.vals()[1]
    assert isinstance(again, _C.TensorView) and again is fusion.vals()[1]


def test_a_fusion_lives_as_long_as_its_values():
    fusion = _C.Fusion()
    watch = weakref.ref(fusion)
    x = matrix(fusion)
    del fusion
    assert watch() is x.fusion
    assert str(x + 1)
    del x
    assert watch() is None


def test_parts_of_a_tensor(fusion, x):
    total = ops.sum(x, [1])
    assert (x.ndim, total.ndim) == (2, 1)
    assert [a.is_reduction() for a in total.get_logical_domain()] == [False, True]
    assert x.axis(-1) == x.get_loop_domain()[1] != x.axis(0)
    assert hash(x.axis(-1)) == hash(x.axis(1))
    assert x.axis(0).extent() is x.size(0)
    assert x.shape()[1] is x.size(-1)
    assert x.dtype() is DataType.Float
    assert not x.has_root() and x.is_symbolic() and x.is_tensor()
    assert ops.reshape(x, [-1]).has_root()
    assert x.definition() is None
    assert str(x.uses()[0]) == str(total.definition())
    assert x.get_root_domain() == x.get_logical_domain()
    for text in (x, total, total.definition(), x.axis(0), x.domain(), x.size(0)):
        assert str(text) == repr(text) != ""
    with pytest.raises(InvalidArgument, match=r"axis\(\): index is 2, and there are 2"):
        x.axis(2)


def test_operations_are_documented_functions():
    names = [name for name in dir(ops) if not name.startswith("_")]
    assert {"add", "sum", "where", "shape"} <= set(names)
    for name in names:
        function = getattr(ops, name)
        assert function.__name__ == name and function.__module__ == ops.__name__ == "nvfuser_go.ops"
        assert repr(function) == f"<built-in function {name}>"
        assert function.__doc__.startswith(f"{name}(")
        assert len(function.__doc__.splitlines()) >= 3
    assert str(inspect.signature(ops.add)) == "(x, y)"


def test_the_stub_names_what_is_there():
    tree = ast.parse(Path(_C.__file__).with_name("_C.pyi").read_text())
    names = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert names.keys() | {"ops"} == {name for name in vars(_C) if not name.startswith("__")}
    for name, node in names.items():
        if isinstance(node, ast.ClassDef):
            members = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            # Functions are those that the package adds: nvfuser_go/schedule.py.
            kinds = ("descriptor", "function")
            compiled = {m: v for m, v in vars(getattr(_C, name)).items() if type(v).__name__.endswith(kinds)}
            shown = {m for m in compiled if not m.startswith("__")}
            assert {m for m in members if not m.startswith("__")} == shown, name
            assert all(hasattr(getattr(_C, name), m) for m in members)


@pytest.mark.parametrize("what", ["fusion", "x"])
def test_nothing_is_copied_or_pickled(what, fusion, x):
    with pytest.raises(TypeError, match="cannot pickle"):
        copy.copy({"fusion": fusion, "x": x}[what])


def test_text_is_parsed_back_and_compared(fusion, x):
    fusion.add_output(x * 0.1)
    other = _C.Fusion.parse(fusion.text())
    assert other == fusion and other.text() == fusion.text() and other is not fusion
    other.add_output(other.inputs()[0])
    assert other != fusion
    assert fusion != fusion.text()
    fusion.verify()
    with pytest.raises(InvalidArgument, match="line 1"):
        _C.Fusion.parse("nonsense\0 \u00e9\ud7ff")
    with pytest.raises(InvalidType, match="text must be a str"):
        _C.Fusion.parse(b"")


def test_a_fusion_has_a_hash_when_it_is_complete(fusion, x):
    fusion.add_output(x + 1)
    with pytest.raises(InvalidType, match="still being defined"):
        hash(fusion)
    assert not fusion.frozen
    fusion.freeze()
    assert fusion.frozen
    same = _C.Fusion.parse(fusion.text())
    same.freeze()
    assert hash(fusion) == hash(same) and len({fusion, same}) == 1


def test_a_complete_fusion_does_not_change(fusion, x):
    fusion.add_output(x)
    fusion.freeze()
    text = fusion.text()
    for change in (
        lambda: x + 1,
        lambda: fusion.add_output(x),
        lambda: matrix(fusion),
        lambda: fusion.define_scalar(INT),
    ):
        with pytest.raises(InvalidArgument, match="complete"):
            change()
    assert str(x.axis(0).extent())
    assert fusion.text() == text


# ---- Operators ----

BINARY = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.truediv: "truediv",
    operator.mod: "remainder",
    operator.pow: "pow",
    operator.lt: "lt",
    operator.le: "le",
    operator.gt: "gt",
    operator.ge: "ge",
    operator.eq: "eq",
    operator.ne: "ne",
    operator.matmul: "matmul",
}
INTEGER = {
    operator.and_: "bitwise_and",
    operator.or_: "bitwise_or",
    operator.xor: "bitwise_xor",
    operator.lshift: "bitwise_left_shift",
    operator.rshift: "bitwise_right_shift",
}
REFLECTED = {operator.lt: "gt", operator.le: "ge", operator.gt: "lt", operator.ge: "le"}


def text_of(define, dtype):
    """The text of a fusion of two matrices and an output."""
    fusion = _C.Fusion()
    fusion.add_output(define(matrix(fusion, dtype), matrix(fusion, dtype)))
    return fusion.text()


@pytest.mark.parametrize(
    ("function", "name", "dtype"),
    [(f, n, FLOAT) for f, n in BINARY.items()] + [(f, n, INT) for f, n in INTEGER.items()],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_binary_operators_are_operations(function, name, dtype):
    op = getattr(ops, name)
    assert text_of(function, dtype) == text_of(op, dtype)
    if name == "matmul":
        return
    assert text_of(lambda x, y: function(x, 3), dtype) == text_of(lambda x, y: op(x, 3), dtype)
    reflected = getattr(ops, REFLECTED.get(function, name))
    order = (lambda x, y: reflected(x, 3)) if name in ("eq", "ne") or function in REFLECTED else (lambda x, y: op(3, x))
    assert text_of(lambda x, y: function(3, x), dtype) == text_of(order, dtype)


@pytest.mark.parametrize(
    ("function", "name"),
    [(operator.neg, "neg"), (operator.abs, "abs"), (operator.invert, "bitwise_not")],
    ids=["neg", "abs", "invert"],
)
def test_unary_operators_are_operations(function, name):
    op = getattr(ops, name)
    assert text_of(lambda x, y: function(x), INT) == text_of(lambda x, y: op(x), INT)


def test_unary_plus_is_the_operand(x):
    assert +x is x


def test_in_place_operators_make_new_values(x):
    y = x
    y += 1
    assert y is not x


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (np.bool_(True), True),
        (np.int8(-3), -3),
        (np.uint64(2**63), 2**63),
        (np.float16(0.5), 0.5),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.float64(0.1), 0.1),
        (np.longdouble(0.5), 0.5),
        (np.complex64(1 + 2j), 1 + 2j),
    ],
    ids=lambda v: type(v).__name__,
)
def test_numpy_scalars_are_numbers(number, kind):
    dtype = DataType.UInt64.value if isinstance(number, np.uint64) else FLOAT
    expected = text_of(lambda x, y: ops.mul(x, kind), dtype)
    assert text_of(lambda x, y: ops.mul(x, number), dtype) == expected
    assert text_of(lambda x, y: x * number, dtype) == expected
    assert text_of(lambda x, y: number * x, dtype) == text_of(lambda x, y: kind * x, dtype)


def test_bools_are_not_ints(fusion, x):
    with pytest.raises(InvalidType, match="dims"):
        ops.sum(x, dims=[True])
    with pytest.raises(InvalidType, match="keepdim must be a bool, got 1"):
        ops.sum(x, dims=[1], keepdim=1)
    with pytest.raises(InvalidType, match=r"shape\[0\] must be an int, got True"):
        fusion.define_tensor([True], [True], FLOAT, False, None)
    with pytest.raises(InvalidType, match=r"contiguity\[0\] must be True, False or None, got 1"):
        fusion.define_tensor([2], [1], FLOAT, False, None)


@pytest.mark.parametrize("divisor", [2, -2, 3, -7])
def test_floor_division_rounds_down(divisor):
    a = torch.arange(-9, 9).reshape(3, 6)
    (tensor,) = built(lambda x: x // divisor, INT).execute([a])
    assert torch.equal(tensor, torch.floor_divide(a, divisor))
    (tensor,) = built(lambda x: x // (divisor + 0.5)).execute([a.float()])
    assert torch.equal(tensor, torch.floor_divide(a.float(), divisor + 0.5))
    fusion = _C.Fusion()
    size = matrix(fusion).size(0)
    total = (divisor * size) // 4  # a scalar that may be negative
    fusion.add_output(ops.full([1], total, DataType.Int))
    for n in range(5):
        (tensor,) = _C.executor(fusion).execute([torch.empty(n, 2)])
        assert tensor.item() == divisor * n // 4


def test_equality_and_hash(x):
    y, z = x + 1, x + 2
    assert isinstance(y == z, _C.TensorView) and isinstance(y != 3, _C.TensorView)
    for other in (None, "text", [1], object()):
        assert (y == other) is False and (y != other) is True
    assert len({x, y, z, x}) == 3 and {y: 1}[y] == 1
    assert x in [x, y]  # by identity
    with pytest.raises(InvalidType, match="no truth value"):
        y in [x, y]  # noqa: B015


def test_truth_of_values(fusion, x):
    for unknown in (x, x == x, fusion.define_scalar(INT) > 3):
        with pytest.raises(InvalidType, match=r"has no truth value while the fusion is being defined.*ops\.where"):
            bool(unknown)
    static = fusion.define_tensor([4], [True], FLOAT, False, None)
    assert (static.size(0) == 4) and bool(static.size(0)) and not (static.size(0) != 4)  # noqa: SIM202


def test_pow_with_a_modulus_is_refused(x):
    with pytest.raises(TypeError, match="unsupported operand"):
        pow(x, 2, 3)


def test_other_classes_may_answer_for_operators(x):
    class Answer:
        def __radd__(self, other):
            return "answer"

    assert x + Answer() == "answer"
    with pytest.raises(TypeError, match="unsupported operand type"):
        x - Answer()


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("a", "got str$"),
        (None, "got None$"),
        ([1], r"got \[1\]$"),
        (torch.ones(2), r"got a torch.Tensor: define it as an input with fd\.from_pytorch"),
        (np.ones(2), r"got a numpy.ndarray: define it as an input"),
    ],
    ids=["str", "None", "list", "tensor", "array"],
)
def test_what_is_no_operand(x, other, found):
    for call in (lambda: x + other, lambda: ops.add(x, other), lambda: ops.add(x, y=other)):
        with pytest.raises(InvalidType, match=r"add\(\): y must be a tensor, a scalar or a number, " + found):
            call()
    with pytest.raises(InvalidType, match=r"add\(\): x must be .* " + found):
        other + x


# ---- Arguments ----


def test_dtypes_are_members_or_those_of_torch(x):
    assert ops.cast(x, DataType.Half).dtype() is ops.cast(x, dtype=torch.float16).dtype() is DataType.Half
    for wrong in (3, "Half", torch.int8, DataType):
        with pytest.raises(InvalidType, match="dtype must be a DataType"):
            ops.cast(x, wrong)


def test_numbers_that_do_not_fit(fusion, x):
    for number in (2**64, -(2**63) - 1):
        with pytest.raises(InvalidArgument, match=rf"add\(\): argument 2 is {number}, which does not fit in 64 bits"):
            ops.add(x, number)
        with pytest.raises(InvalidArgument, match=rf"shape\[1\] is {number}, which does not fit"):
            fusion.define_tensor([1, number], [None, True], FLOAT, False, None)
    with pytest.raises(InvalidArgument, match="does not fit in 64 bits"):
        ops.add(x, 10**5000)
    with pytest.raises(InvalidArgument, match="does not fit UInt64"):
        fusion.constant(-1, DataType.UInt64.value)
    assert fusion.constant(2**64 - 1, DataType.UInt64.value).dtype() is DataType.UInt64


def test_numbers_are_kept_exactly(fusion, x):
    for number in (
        math.nan,
        math.inf,
        -0.0,
        5e-324,
        1.7976931348623157e308,
        2**63 - 1,
        -(2**63),
        complex(math.nan, -0.0),
    ):
        fusion.add_output(x * number)
    assert fusion.text() == _C.Fusion.parse(fusion.text()).text()
    for text in ("nan:f64", "inf:f64", "-0:f64", "5e-324:f64", "9223372036854775807:i64", "-9223372036854775808:i64"):
        assert text in fusion.text()


def test_lists_of_any_depth_and_length(x):
    with pytest.raises(InvalidType, match="a list of 100000"):
        ops.add(x, [0] * 100_000)
    with pytest.raises(InvalidArgument, match="argument 2 has a list of 2000000 items; at most 1048576"):
        ops.sum(x, [0] * 2_000_000)
    endless = []
    endless.append(endless)
    with pytest.raises(InvalidType, match="a list nested too deeply"):
        ops.add(x, endless)
    many = ops.cat([x] * 3000, dim=1)
    assert many.ndim == 2 and many.definition().input(2999) is x
    assert ops.sum(x, (0, 1)).ndim == 0
    with pytest.raises(InvalidType, match=r"add\(\) takes at most 2 positional arguments, got 200"):
        ops.add(*[x] * 200)


def test_keywords(x):
    with pytest.raises(InvalidType, match=r'sum\(\) has no argument "dimms"; its arguments are'):
        ops.sum(x, dimms=[1])
    with pytest.raises(InvalidType, match='got argument "x" twice'):
        ops.add(x, x=x)
    with pytest.raises(InvalidType, match='needs argument "y"'):
        ops.add(x=x)
    assert ops.sub(y=x, x=1).definition().input(1) is x


def test_values_of_two_fusions(x):
    other = _C.Fusion()
    y = matrix(other)
    before = x.fusion.text(), other.text()
    for call, argument in (
        (lambda: x + y, "add(): y"),
        (lambda: x // y, "floor_divide(): y"),
        (lambda: ops.cat([x, y]), "cat(): tensors[1]"),
        (lambda: ops.where(x > 0, x, y=y), "where(): y"),
        (lambda: other.add_output(x), "add_output(): output"),
        (lambda: other.add_output(y, x), "add_output(): alias_input"),
        (lambda: other.constant(x), "define_scalar(): value"),
    ):
        with pytest.raises(InvalidArgument, match=re.escape(f"{argument} belongs to another fusion")):
            call()
    assert (x.fusion.text(), other.text()) == before


class Index:
    """An int by its __index__, which calls a function first."""

    def __init__(self, function, value=1):
        self.function, self.value = function, value

    def __index__(self):
        self.function()
        return self.value


def test_conversion_may_run_python(fusion, x):
    dims = [Index(lambda: dims.clear()), 0]
    assert ops.sum(x, dims).ndim == 0  # the list as it was at the call
    assert ops.add(x, Index(lambda: ops.add(x, 1))).definition().input(0) is x
    assert ops.add(Index(lambda: gc.collect(), 7), x).definition().input(1) is x

    def fail():
        raise KeyError("mine")

    for call in (
        lambda: ops.sum(x, [0, Index(fail)]),
        lambda: ops.add(x, Index(fail)),
        lambda: fusion.define_tensor([Index(fail)], [True], FLOAT, False, None),
    ):
        with pytest.raises(KeyError, match="mine"):
            call()


def test_a_fusion_deleted_during_a_call():
    box = [matrix(_C.Fusion())]
    with pytest.raises(InvalidArgument, match="no operand belongs to a fusion"):
        ops.add(Index(box.clear), 1)
    box = [matrix(_C.Fusion())]
    y = ops.add(box[0], Index(box.clear))  # the call holds the value
    assert y.fusion.inputs()


def test_current_fusion(fusion):
    with pytest.raises(InvalidArgument, match=r"full\(\): no operand belongs to a fusion.*with FusionDefinition"):
        ops.full([2], 1.0, DataType.Float)
    inner = _C.Fusion()
    _C.push_fusion(fusion)
    _C.push_fusion(inner)
    assert ops.full([2], 1.0, DataType.Float).fusion is inner
    _C.pop_fusion(fusion)  # in any order
    assert ops.full([2], 1.0, DataType.Float).fusion is inner
    found = []

    def elsewhere():
        with pytest.raises(InvalidArgument, match="no operand"):
            ops.full([2], 1.0, DataType.Float)
        found.append(True)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found
    _C.pop_fusion(inner)
    _C.pop_fusion(inner)  # nothing to undo
    with pytest.raises(InvalidArgument, match="no operand"):
        ops.add(1, 2)
    with pytest.raises(TypeError, match="takes a Fusion"):
        _C.push_fusion(3)


def test_an_error_names_the_line_of_the_operation(tmp_path):
    lines = ["def define(x, y):"] + ["    y = y + 1"] * 200 + ["    z = (", "        x +", "        y)", "    return z"]
    (tmp_path / "model.py").write_text("\n".join(lines))
    names = {}
    exec(compile("\n".join(lines), str(tmp_path / "model.py"), "exec"), names)
    executor = built(names["define"], inputs=2)
    with pytest.raises(InvalidArgument, match=rf"sizes of dimension 0 .* \(defined at {tmp_path}/model.py:20[34]\)"):
        executor.execute([torch.ones(2, 3), torch.ones(4, 3)])


# ---- Errors ----


def test_errors_are_of_two_kinds():
    assert issubclass(InvalidArgument, (FusionError, ValueError)) and issubclass(InvalidType, (FusionError, TypeError))
    assert issubclass(Unsupported, (FusionError, NotImplementedError)) and issubclass(FusionError, RuntimeError)


def test_what_this_build_cannot_run_says_why():
    fusion = _C.Fusion()
    fusion.add_output(ops.full([fusion.define_scalar(INT)], 1.0, DataType.Float))
    with pytest.raises(Unsupported, match="CUDA device") as caught:
        _C.executor(fusion).execute([3], 0)
    assert caught.value.refusals[0][:3] == ("cuda", "driver", "")


def test_a_bug_leaves_a_reproducer(fusion, x, tmp_path, monkeypatch):
    monkeypatch.setenv("NVFUSER_GO_REPRO_DIR", str(tmp_path / "new"))
    fusion.add_output(x + 1)
    text = fusion.text()
    with pytest.raises(FusionError, match=r"this is a bug in nvfuser_go: provoked .*report it with the file") as caught:
        fusion._provoke()
    (file,) = (tmp_path / "new").iterdir()
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
    report = file.read_text()
    assert text in report and "def nvfuser_fusion(fd" in report and _C.version() in report and "goroutine" in report
    with pytest.raises(FusionError, match="this is a bug"):  # what it left behind is not trusted
        x + 1
    other = matrix(_C.Fusion())
    assert str(other + 1)
    monkeypatch.setenv("NVFUSER_GO_REPRO_DIR", "/dev/null/nowhere")
    with pytest.raises(FusionError, match="no reproducer: mkdir /dev/null"):
        other.fusion._provoke()
