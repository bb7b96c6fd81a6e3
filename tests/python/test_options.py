"""Options in the environment and of a call."""

import os
import subprocess
import sys

import pytest
import torch

from nvfuser_go import DataType, FusionDefinition, InvalidArgument, options


def test_parse():
    assert options.parse("NVFUSER_ENABLE", "") == {}
    assert options.parse("NVFUSER_ENABLE", " verify , verify ") == {"verify": ()}
    with pytest.warns(UserWarning, match="NVFUSER_DUMP=sass_to_file has no effect in this build"):
        assert options.parse("NVFUSER_DUMP", "sass_to_file(a, b),python_definition") == {
            "sass_to_file": ("a", "b"),
            "python_definition": (),
        }
    assert options.parse("NVFUSER_DUMP", "sass_to_file()") == {"sass_to_file": ()}  # warned of already
    with pytest.raises(
        InvalidArgument,
        match=r"NVFUSER_PROF: there is no option 'pritn'; the options are enable, enable\.nocupti, print",
    ):
        options.parse("NVFUSER_PROF", "pritn")
    for text in ("verify(", "verify)", ",", "verify;verify", "verify verify"):
        with pytest.raises(InvalidArgument, match="NVFUSER_ENABLE"):
            options.parse("NVFUSER_ENABLE", text)


def test_effective_options_are_legal():
    for variable, names in options.EFFECTIVE.items():
        assert names <= set(options.LEGAL[variable])


def test_options_of_a_call():
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([2], True) + 1.0)
    x = torch.ones(2)
    assert fd.execute([x], _enable_options=["verify"])[0].tolist() == [2.0, 2.0]
    with pytest.warns(UserWarning, match="NVFUSER_ENABLE=kernel_db has no effect") as warned:
        fd.execute([x], _enable_options=["kernel_db"])
    assert [w.filename for w in warned] == [__file__]
    with pytest.raises(InvalidArgument, match=r"^execute\(\): _enable_options: there is no option 'nosuch'"):
        fd.execute([x], _enable_options=["nosuch"])
    with pytest.raises(InvalidArgument, match=r"^execute\(\): _disable_options: there is no option 'verify'"):
        fd.execute([x], _disable_options=["verify"])


def test_kernels_one_after_another():
    with FusionDefinition() as fd:
        x = fd.ops.segment_set(fd.ops.exp(fd.define_tensor([-1], True)))
        fd.add_output(fd.ops.sin(x))
    x = torch.ones(3)
    for name in ("parallel_compile", "parallel_compile,parallel_compile", "launch_overlap"):  # without a warning
        (out,) = fd.execute([x], _enable_options=["simulate"], _disable_options=[name])
        assert torch.allclose(out, x.exp().sin())
    assert "sin" in fd.last_cuda_code()


def test_exact_kernels():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, DataType.BFloat16)
        fd.add_output(fd.ops.cast(fd.ops.exp(x) / 3.0, DataType.BFloat16))
    x = torch.linspace(-3, 3, 100, dtype=torch.bfloat16)
    for disabled, approximated in ([], True), (["approximate_math"], False), ([], True):
        (out,) = fd.execute([x], _enable_options=["simulate"], _disable_options=disabled)
        assert torch.equal(out, (x.double().exp() / 3).bfloat16())  # the simulator computes exactly
        assert ("approximateExp(" in fd.last_cuda_code()) == approximated
        assert ("approximateDivide(" in fd.last_cuda_code()) == approximated


PROGRAM = """
import torch
from nvfuser_go import FusionDefinition
with FusionDefinition() as fd:
    fd.add_output(fd.define_tensor([2], True) + 1.0)
fd.execute([torch.ones(2)])
fd.execute([torch.ones(2)])
"""


def run(**variables: str) -> subprocess.CompletedProcess:
    environment = os.environ | variables
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_environment():
    done = run(
        NVFUSER_DUMP="python_definition,fusion_ir_original,fusion_ir_math",
        NVFUSER_ENABLE="verify",
        NVFUSER_DISABLE="fma",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("tv1 = fd.ops.add(tv0, 1.00000)") == 1  # once for a fusion, not once for a call
    assert "%1 = add %0, 1:f64" in done.stdout
    assert "%kernel_math {" in done.stdout
    assert "NVFUSER_DISABLE=fma has no effect" in done.stderr


def test_environment_that_is_wrong():
    done = run(NVFUSER_DUMP="nosuch")
    assert done.returncode == 1
    assert (
        "InvalidArgument: NVFUSER_DUMP: there is no option 'nosuch'; the options are fusion_ir_original" in done.stderr
    )
