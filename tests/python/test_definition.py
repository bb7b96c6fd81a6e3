"""FusionDefinition: how inputs are described, what execute takes and returns, and the state of the object."""

import threading
import weakref

import numpy as np
import pytest
import torch

import nvfuser_go
from nvfuser_go import (
    DataType,
    Fusion,
    FusionDefinition,
    FusionError,
    FusionExecutorCache,
    FusionGuard,
    InvalidArgument,
    InvalidType,
    Unsupported,
)


def first_line(define) -> str:
    with FusionDefinition() as fd:
        define(fd)
    return repr(fd).splitlines()[1].partition(" = ")[2]


@pytest.mark.parametrize(
    ("define", "printed"),
    [
        (
            lambda fd: fd.define_tensor([2, -1], [True, False]),
            "shape=[2, -1], contiguity=[True, False], dtype=DataType.Float",
        ),
        (
            lambda fd: fd.define_tensor((2, 1), (True, None), DataType.Int),
            "shape=[2, 1], contiguity=[True, None], dtype=DataType.Int",
        ),
        (lambda fd: fd.define_tensor([2, 1, 3]), "shape=[2, 1, 3], contiguity=[False, None, False]"),
        (
            lambda fd: fd.define_tensor([2, 1], True, stride_order=[0, 1]),
            "contiguity=[None, True], dtype=DataType.Float",
        ),
        (
            lambda fd: fd.define_tensor([], [], is_cpu=True),
            "shape=[], contiguity=[], dtype=DataType.Float, is_cpu=True",
        ),
        (
            lambda fd: fd.define_tensor([4, 1, 0, 2], [0, 7, 2, 1]),
            "shape=[-1, 1, 0, -1], contiguity=[None, None, True, True]",
        ),
        (
            lambda fd: fd.define_tensor(sizes=[4, 2], strides=[1, 4], static_sizes=True),
            "shape=[4, 2], contiguity=[True, True]",
        ),
        (
            lambda fd: fd.define_tensor([4, 2], [1, 5], DataType.Half),
            "shape=[-1, -1], contiguity=[False, True], dtype=DataType.Half",
        ),
        (lambda fd: fd.define_tensor(shape=torch.Size([4]), contiguity=[True]), "shape=[4], contiguity=[True]"),
        (lambda fd: fd.define_tensor(np.array([4]), [True]), "shape=[4], contiguity=[True]"),
        (
            lambda fd: fd.define_tensor([3, 4], True, DataType.Float4_e2m1fn_x2),
            "shape=[3, 8], contiguity=[True, True], dtype=DataType.Float4_e2m1fn",
        ),
        (
            lambda fd: fd.from_pytorch(torch.empty(3, 1, 4)[:, :, ::2]),
            "shape=[-1, 1, -1], contiguity=[True, None, False]",
        ),
        (lambda fd: fd.from_pytorch(torch.tensor(3.0)), "shape=[], contiguity=[], dtype=DataType.Float, is_cpu=True"),
        (lambda fd: fd.define_tensor([], [], torch.half), "dtype=DataType.Half"),
        (lambda fd: fd.define_scalar(), "fd.define_scalar(None, dtype=DataType.Double)"),
        (lambda fd: fd.define_scalar(DataType.Int), "fd.define_scalar(None, dtype=DataType.Int)"),
        (lambda fd: fd.define_scalar(dtype=DataType.Bool), "fd.define_scalar(None, dtype=DataType.Bool)"),
    ],
)
def test_inputs(define, printed):
    assert printed in first_line(define)


def test_compute_tensor_descriptor():
    describe = nvfuser_go.compute_tensor_descriptor
    assert describe([2, 3], [3, 1]) == ((True, True), (1, 0))
    assert describe([2, 3], [1, 2]) == ((True, True), (0, 1))
    assert describe([3, 5], [0, 1]) == ((None, True), (1, 0))
    assert describe([2, 4, 3], [1, 0, 2]) == ((True, None, True), (0, 1, 2))
    assert describe([2, 1, 3], [4, 9, 1]) == ((None, False, True), (1, 2, 0))
    assert describe([], []) == ((), ())
    with pytest.raises(InvalidArgument, match=r"strides\[0\] is -1, which is negative"):
        describe([2], [-1])
    with pytest.raises(InvalidArgument, match="sizes has length 1 and strides 2"):
        describe([2], [1, 2])


@pytest.mark.parametrize("named", [False, True])
def test_stride_order_of_an_output(named):
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, -1], True)
        if named:
            fd.add_output(fd.ops.neg(a), stride_order=[0, 1])
        else:
            fd.add_output(fd.ops.neg(a), [0, 1])
    x = torch.arange(6.0).reshape(2, 3)
    (y,) = fd.validate([x])
    assert torch.equal(y, -x) and y.stride() == (1, 2)


def test_constants_and_vectors():
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1], True)
        assert [fd.define_scalar(v).dtype() for v in (True, 2, 0.5, 1j)] == [
            DataType.Bool,
            DataType.Int,
            DataType.Double,
            DataType.ComplexDouble,
        ]
        assert str(fd.define_constant(2, DataType.Half)) == "__half(2)"
        assert [str(c) for c in fd.define_vector([2, 3])] == ["int64_t(2)", "int64_t(3)"]
        v = fd.define_vector(2)
        assert all(s.is_symbolic() for s in v)
        fd.add_output(fd.ops.reshape(a, v))
    assert len(fd.fusion.inputs()) == 3


def affine() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        s = fd.define_scalar(dtype=DataType.Double)
        fd.add_output(x * s + 1.0)
    return fd


def test_execute():
    fd, x = affine(), torch.randn(3, 4)
    (y,) = fd.execute([x, 2.0])
    torch.testing.assert_close(y, x * 2 + 1)
    (y,) = fd.execute([(x,), [2]])  # nested, and an int for a Double
    torch.testing.assert_close(y, x * 2 + 1)
    parameter = torch.nn.Parameter(x)
    (y,) = fd.execute([parameter, np.float32(2.0)])
    assert not y.requires_grad
    torch.testing.assert_close(y, x * 2 + 1)


def test_numpy_in_numpy_out():
    fd, x = affine(), np.arange(6, dtype=np.float32).reshape(2, 3)
    (y,) = fd.execute([x, 2.0])
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, x * 2 + 1)
    x.flags.writeable = False
    np.testing.assert_allclose(fd.execute([x, 2.0])[0], x * 2 + 1)


def test_mixed_inputs_give_tensors():
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([3], True) for _ in range(2))
        fd.add_output(a + b)
    (y,) = fd.execute([np.ones(3, np.float32), torch.ones(3)])
    assert isinstance(y, torch.Tensor)


def test_objects_with_dlpack():
    class Wrapped:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **kwargs):
            return self.tensor.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    (y,) = affine().execute([Wrapped(torch.ones(2, 2)), 1.0])
    assert y.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_alias_is_written_and_not_returned():
    with FusionDefinition() as fd:
        a = fd.define_tensor([3], True)
        fd.add_output(a + 1.0, alias_input=a)
    x = torch.zeros(3)
    assert fd.execute([x]) == []
    assert x.tolist() == [1.0, 1.0, 1.0]
    array = np.zeros(3, np.float32)
    fd.execute([array])
    assert array.tolist() == [1.0, 1.0, 1.0]
    array.flags.writeable = False
    with pytest.raises(InvalidArgument, match="input 0 is a read-only array"):
        fd.execute([array])
    assert fd.validate([x]) == []


def test_attributes_come_and_go():
    fd = affine()
    assert not hasattr(fd, "fec")
    assert not hasattr(fd, "ke")
    assert hasattr(fd, "_fusion")
    before = fd.fusion
    fd.execute([torch.ones(1, 1), 0.0])
    assert isinstance(fd.fec, FusionExecutorCache)
    assert not hasattr(fd, "_fusion")
    assert fd.fusion == before
    assert not hasattr(fd, "fake_inputs")
    fd._selected_device = 3
    fd.fake_inputs = None
    assert weakref.ref(fd)() is fd
    assert fd.ops is nvfuser_go.ops


def test_subclass_with_definition():
    class Twice(FusionDefinition):
        def definition(self):
            x = self.define_tensor([2], True)
            self.add_output(self.ops.mul(x, 2.0))

    fd = Twice()
    assert fd.execute([torch.ones(2)])[0].tolist() == [2.0, 2.0]
    assert fd.execute([torch.ones(2)])[0].tolist() == [2.0, 2.0]


def test_validate_definition():
    fd = FusionDefinition()
    assert fd.validate_definition() == (
        False,
        "Fusion does not exist! Use `with FusionDefinition() as fd: ...` to define a fusion.",
    )
    with fd:
        x = fd.define_tensor([2], True)
        assert fd.validate_definition() == (False, "Fusion is empty!")
        fd.add_output(x)
    assert fd.validate_definition() == (True, None)


def test_an_error_in_the_block_drops_the_definition():
    fd = FusionDefinition()
    with pytest.raises(ZeroDivisionError), fd:
        fd.add_output(fd.define_tensor([2], True))
        raise ZeroDivisionError
    assert not fd.validate_definition()[0]
    with FusionDefinition() as other:  # and the guard is gone
        other.add_output(other.ops.full([2], 1.0, DataType.Float))
    assert other.execute([])[0].tolist() == [1.0, 1.0]


def test_validate():
    fd, x = affine(), torch.randn(3, 4)
    (y,) = fd.validate([x, 2.0])
    fd.validate([x, 2.0], [y])
    with pytest.raises(nvfuser_go.FusionError, match=r"output 0 differs in 1 of 12 elements; at \[1, 2\] it is"):
        z = y.clone()
        z[1, 2] += 1
        fd.validate([x, 2.0], [z])
    with pytest.raises(nvfuser_go.FusionError, match=r"output 0 is torch\.float32"):
        fd.validate([x, 2.0], [y.double()])
    with pytest.raises(InvalidArgument, match="has 2 entries for 1 outputs"):
        fd.validate([x, 2.0], [y, y])
    with pytest.raises(nvfuser_go.FusionError, match="differs"):
        nvfuser_go.validate_with_auto_inferred_outputs(fd.fusion, [y + 1], [x, 2.0])
    assert len(nvfuser_go.get_val_tolerances(fd.fusion, [x, 2.0])) == 1
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [2]))
    with pytest.raises(Unsupported, match="needs reference_outputs"):
        fd.validate([])


def test_random_numbers_follow_the_seed_of_torch():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [4]))
    torch.manual_seed(5)
    a, b = fd.execute([])[0], fd.execute([])[0]
    torch.manual_seed(5)
    assert torch.equal(a, fd.execute([])[0])
    assert not torch.equal(a, b)


def test_repro_script():
    fd, x = affine(), torch.randn(3, 4)
    inputs = [x.t().contiguous().t(), 0.5]
    script = fd.repro_script_for(inputs)
    assert script.endswith(
        "with FusionDefinition() as fd:\n    nvfuser_fusion(fd)\n\ninputs = [\n"
        "    torch.randn(12, dtype=torch.float32, device='cpu').as_strided((3, 4), (1, 3)),\n"
        "    0.5,\n]\nfd.execute(inputs)\n"
    )
    assert fd.repro_script_for().endswith("    nvfuser_fusion(fd)\n\n")
    assert "from nvfuser_go import FusionDefinition, DataType\ndef nvfuser_fusion(" in script
    with pytest.raises(AssertionError, match="was not executed!"):
        fd.last_repro_script()
    fd.execute([x, 0.5], save_repro_inputs=True)
    script = fd.last_repro_script()
    assert "torch.testing.make_tensor((3, 4), dtype=torch.float32, device='cpu')" in script
    exec(script, {})


REPRODUCED = """bool int32 int64 uint64 float16 bfloat16 float64 float8_e4m3fn float8_e5m2 float8_e8m0fnu complex64"""


@pytest.mark.parametrize("dtype", REPRODUCED.split())
def test_repro_scripts_run(dtype):
    x = torch.ones(2, 3).to(getattr(torch, dtype))
    scalars = [float("inf"), float("nan"), True, 3, complex(0, float("-inf"))]
    with FusionDefinition() as fd:
        for t in (x, x.t(), x[:1].expand(2, 3)):
            fd.add_output(fd.ops.set(fd.from_pytorch(t)))
        for s in scalars:
            fd.define_scalar(dtype=nvfuser_go.python_scalar_to_nvfuser_dtype(s))
    exec(fd.repro_script_for([x, x.t(), x[:1].expand(2, 3), *scalars]), {})


def test_devices():
    fd = affine()
    assert [fd._get_device_index(d) for d in (None, 3, "cuda:1", torch.device("cuda", 2), "cpu")] == [
        None,
        3,
        1,
        2,
        None,
    ]
    assert torch.cuda.is_initialized() or fd._get_device_index("cuda") == 0
    for bad, error in (
        (256, InvalidArgument),
        (-1, InvalidArgument),
        ("tpu7", InvalidArgument),
        (1.5, InvalidType),
        (True, InvalidType),
    ):
        with pytest.raises(error, match="device"):
            fd._get_device_index(bad)


def test_fusion_and_guard():
    fusion = Fusion()
    with FusionGuard(fusion):
        x = nvfuser_go.define_tensor([2], True)
        fusion.add_input(x)
        s = nvfuser_go.define_scalar(2.0)
        with pytest.raises(InvalidArgument, match="add_input"):
            fusion.add_input(s)
        fusion.add_output(nvfuser_go.ops.mul(x, s))
    with pytest.raises(InvalidArgument, match="no fusion is being defined"):
        nvfuser_go.define_tensor([2], True)
    cache = FusionExecutorCache(fusion)
    fusion.add_output(x)  # the cache has a copy
    assert [t.tolist() for t in cache.execute([torch.ones(2)])] == [[2.0, 2.0]]
    assert cache.is_compiled([torch.ones(2)])
    assert fusion != cache.fusion()
    assert fusion == Fusion.parse(fusion.text())
    assert nvfuser_go.translate_fusion(fusion) == repr(fusion)
    assert [v.is_tensor() for v in fusion.vals()] == [True, False, True]


def test_threads_define_at_the_same_time():
    failures = []

    def work(n: int) -> None:
        try:
            for _ in range(20):
                with FusionDefinition() as fd:
                    x = fd.define_tensor([n], True)
                    fd.add_output(x + fd.ops.full([n], float(n), DataType.Float))
                assert fd.execute([torch.zeros(n)])[0].tolist() == [float(n)] * n
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_what_this_build_lacks_can_be_imported():
    from nvfuser_go import multidevice

    for use in (
        lambda: multidevice.DeviceMesh([0]),
        lambda: multidevice.Communicator.instance(),
        lambda: nvfuser_go.execute_with_dtensors(None, []),
    ):
        with pytest.raises(Unsupported, match="is not supported by this build"):
            use()
    with FusionDefinition() as fd:
        x = fd.define_tensor([2, 3], True)
        with pytest.raises(Unsupported, match=r"TensorView\.set_device_mesh\(\) is not supported by this build"):
            x.set_device_mesh(None)
    assert nvfuser_go.CompileParams().maxrregcount == 255
    assert nvfuser_go.LaunchParams(bdimx=3).bdimx == 3
    for name in nvfuser_go.__all__:
        assert getattr(nvfuser_go, name) is not None


def test_a_definition_is_complete_once_it_is_executed_in_its_block():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(x + 1)
        assert fd.execute([torch.zeros(2)])[0].tolist() == [1, 1]
        with pytest.raises(InvalidArgument, match="the fusion is complete"):
            fd.add_output(x + 2)
    assert fd.execute([torch.zeros(2)])[0].tolist() == [1, 1]
    with pytest.raises(KeyError), FusionDefinition() as fd:
        fd.add_output(fd.ops.set(fd.define_tensor([-1], True)))
        fd.execute([torch.zeros(2)])
        raise KeyError


def test_a_block_is_not_entered_twice_nor_left_twice():
    fd = FusionDefinition()
    with fd:
        x = fd.define_tensor([-1], True)
        with pytest.raises(FusionError, match="being defined already"), fd:
            pass
        fd.add_output(x + 1)
    with pytest.raises(FusionError, match="was not entered"):
        fd.__exit__(None, None, None)
    assert fd.execute([torch.zeros(2)])[0].tolist() == [1, 1]


class CountingDefinition(FusionDefinition):
    count = 0

    def definition(self):
        self.count += 1
        self.add_output(self.define_tensor([-1], True) + 1)


@pytest.mark.parametrize("kind", [FusionDefinition, CountingDefinition])
def test_threads_that_execute_a_definition_first(kind):
    """Before it was made safe, one of the first ten rounds failed."""
    results = []

    def work(fd, start):
        start.wait()
        try:
            repr(fd)
            results.append(fd.execute([torch.zeros(1)])[0].item())
        except Exception as failure:
            results.append(failure)

    for _ in range(50):
        fd, start = kind(), threading.Barrier(8)
        if kind is FusionDefinition:
            with fd:
                fd.add_output(fd.define_tensor([-1], True) + 1)
        threads = [threading.Thread(target=work, args=(fd, start)) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert kind is FusionDefinition or fd.count == 1
    assert results == [1.0] * 400
