"""Programs that were written for nvfuser_direct run unchanged."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import nvfuser_go
from nvfuser_go import FusionDefinition, FusionError, compat, nvfuser_direct_version, pytorch_utils

PROGRAM = """
import torch
import nvfuser_direct
import nvfuser_direct as nvfuser
from nvfuser_direct import DataType, FusionDefinition, ParallelType, compute_tensor_descriptor, execute_with_dtensors
from nvfuser_direct import LruFusionCache, multidevice, ops
from nvfuser_direct.pytorch_utils import torch_dtype_to_nvfuser_dtype
from nvfuser_direct.nvfuser_direct_version import NvfuserVersion
import nvfuser_direct.schedule
import nvfuser_direct._C_DIRECT
from nvfuser_direct._C_DIRECT import Fusion

assert nvfuser_direct._C_DIRECT.ops is ops
assert nvfuser.version() == "0.2.36"
assert NvfuserVersion("0.2.8") <= nvfuser.version() < NvfuserVersion("0.29.0")
x, scale = torch.randn(4, 6), torch.randn(6)
contiguity, stride_order = compute_tensor_descriptor(x.shape, x.stride())
with FusionDefinition() as fd:
    a = fd.define_tensor(shape=(-1, 6), contiguity=contiguity, dtype=torch_dtype_to_nvfuser_dtype(x.dtype),
                         stride_order=stride_order, is_cpu=False)
    b = fd.define_tensor(shape=(6,), contiguity=(True,), dtype=DataType.Float)
    eps = fd.define_scalar(1e-5, DataType.Double)
    var, mean = fd.ops.var_mean(a, (1,), 0)
    shape = (fd.ops.size(a, 0), 6)
    mean = fd.ops.broadcast_in_dim(mean, shape=shape, broadcast_dims=(0,))
    rstd = getattr(fd.ops, "rsqrt")(fd.ops.add(var, eps))
    rstd = fd.ops.broadcast_in_dim(rstd, shape=shape, broadcast_dims=(0,))
    normal = fd.ops.mul(fd.ops.sub(a, mean), rstd)
    fd.add_output(fd.ops.mul(normal, fd.ops.broadcast_in_dim(b, shape=shape, broadcast_dims=[1])))
fd._selected_device = 0
(y,) = fd.execute([x, scale], device=None, save_repro_inputs=True, _enable_options=[], _disable_options=[])
torch.testing.assert_close(y, torch.nn.functional.layer_norm(x, (6,), scale))
assert "from nvfuser_direct import FusionDefinition, DataType" in fd.last_repro_script()
exec(fd.last_repro_script(), {})
"""


def test_a_program_of_nvfuser_runs():
    run = [sys.executable, "-c", "import nvfuser_go.compat\nnvfuser_go.compat.install()\n" + PROGRAM]
    subprocess.run(run, check=True, timeout=300)


def test_install_and_uninstall():
    assert "nvfuser_direct" not in sys.modules
    try:
        compat.install()
        compat.install()
        import nvfuser_direct

        assert nvfuser_direct.FusionDefinition is FusionDefinition
        with FusionDefinition() as fd:
            with pytest.raises(
                ValueError, match=r"^Found unsupported device cpu, only scalar CPU or CUDA tensors are supported$"
            ):
                fd.from_pytorch(torch.ones(2))
            fd.add_output(fd.from_pytorch(torch.tensor(2.0)))
        assert "from nvfuser_direct import" in fd.repro_script_for()
    finally:
        compat.uninstall()
    assert not [name for name in sys.modules if name.startswith("nvfuser_direct")]
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(torch.ones(2)))
    assert "from nvfuser_go import" in fd.repro_script_for()
    sys.modules["nvfuser_direct"] = sys  # another module has the name
    try:
        with pytest.raises(FusionError, match="imported already"):
            compat.install()
    finally:
        del sys.modules["nvfuser_direct"]


def test_versions():
    version = nvfuser_direct_version.NvfuserVersion("0.2.36+git1234")
    assert version == "0.2.36"
    assert version != "0.2.37"
    assert version > (0, 2, 9)
    assert version < nvfuser_direct_version.Version("0.2.100")
    assert version >= "0.2.36+gitabcd"
    assert version <= nvfuser_direct_version.NvfuserVersion("0.2.36")
    assert hash(version) == hash(nvfuser_direct_version.NvfuserVersion("0.2.36"))
    assert isinstance(version, str)


def test_dtypes_of_torch():
    names = {
        t: pytorch_utils.torch_dtype_to_nvfuser_dtype(t).name
        for t in (torch.float32, torch.int64, torch.bool, int, float)
    }
    assert list(names.values()) == ["Float", "Int", "Bool", "Int", "Double"]
    assert pytorch_utils.torch_dtype_to_nvfuser_dtype(torch.float4_e2m1fn_x2).name == "Float4_e2m1fn_x2"
    assert [pytorch_utils.python_scalar_to_nvfuser_dtype(v).name for v in (True, 1, 1.0, 1j)] == [
        "Bool",
        "Int",
        "Double",
        "ComplexDouble",
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="tells of a machine without a GPU")
def test_device_properties_without_a_gpu():
    assert pytorch_utils.DEVICE_PROPERTIES is None


def test_import_starts_no_cuda_and_needs_little():
    program = """
import sys, torch
before = set(sys.modules)
import nvfuser_go
assert not torch.cuda.is_initialized()
ours = {name.partition(".")[0] for name in set(sys.modules) - before}
assert ours <= {"nvfuser_go"} | set(sys.stdlib_module_names) | {"numpy"}, ours
assert "nvfuser_go.validation" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_retry_on_oom():
    calls = []

    @pytorch_utils.retry_on_oom_or_skip_test
    def flaky():
        calls.append(1)
        if len(calls) == 1:
            raise torch.OutOfMemoryError

    flaky()
    assert len(calls) == 2

    @pytorch_utils.retry_on_oom_or_skip_test
    def hopeless():
        raise torch.OutOfMemoryError

    with pytest.raises(pytest.skip.Exception):
        hopeless()


def test_the_package_is_typed():
    package = Path(nvfuser_go.__file__).parent
    assert (package / "py.typed").exists()
    stub = (package / "_ops.pyi").read_text()
    assert all(f"def {name}(" in stub for name in dir(nvfuser_go.ops) if not name.startswith("_"))
