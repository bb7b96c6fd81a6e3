"""Building and installing the package."""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from setuptools.errors import PlatformError
from test_readme import block

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    """The module setup.py, which does nothing when it is imported."""
    spec = importlib.util.spec_from_file_location("nvfuser_go_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel made from the source distribution, so that one test run covers both."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_wheel_is_for_the_stable_abi(wheel):
    assert re.fullmatch(r"nvfuser_go-[\d.]+-cp311-abi3-linux_x86_64\.whl", wheel.name)


def test_wheel_contains_the_package_and_nothing_else(wheel):
    package = ROOT / "python/nvfuser_go"
    sources = {path for pattern in ("*.py", "*.pyi", "py.typed") for path in package.rglob(pattern)}
    expected = {path.relative_to(ROOT / "python").as_posix() for path in sources}
    expected |= {"nvfuser_go/_C.abi3.so", "nvfuser_go/include/nvfuser_go.h"}
    with zipfile.ZipFile(wheel) as archive:
        contents = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert contents == expected


def test_wheel_installs_and_runs(wheel, tmp_path):
    """The example of README.md, in a new environment that borrows torch and numpy from this one through a .pth file."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv/bin/python"
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    target = ["--target", str(site), "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "-q", "install", *target], check=True)
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-c", "import nvfuser_go; print(nvfuser_go.__version__, nvfuser_go.__file__)"]
    out = subprocess.run(command, check=True, env=environment, cwd=tmp_path, capture_output=True, text=True).stdout
    version, file = out.split()
    assert version == (ROOT / "internal/version/VERSION").read_text().strip()
    assert Path(file).is_relative_to(site)
    command = [python, "-c", block("python")]
    out = subprocess.run(command, check=True, env=environment, cwd=tmp_path, capture_output=True, text=True).stdout
    assert out.rstrip() == block("text").rstrip()


def test_a_deleted_module_leaves_the_build(tmp_path):
    stale = tmp_path / "nvfuser_go/deleted.py"
    stale.parent.mkdir()
    stale.touch()
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert (tmp_path / "nvfuser_go/__init__.py").exists()
    assert not stale.exists()


@pytest.mark.parametrize(
    ("platform", "free_threaded", "message"),
    [
        ("linux-aarch64", False, "Linux x86-64 only, and this Python is for linux-aarch64"),
        ("macosx-14.0-arm64", False, "Linux x86-64 only, and this Python is for macosx-14.0-arm64"),
        ("win-amd64", False, "Linux x86-64 only"),
        ("linux-x86_64", True, "stable ABI, which a free-threaded Python lacks"),
    ],
)
def test_platforms_that_cannot_build(script, platform, free_threaded, message):
    with pytest.raises(PlatformError, match=message):
        script.check_platform(platform, free_threaded)


def test_without_headers_of_cuda(script, tmp_path):
    with pytest.raises(PlatformError, match="pip install nvidia-cuda-runtime-cu12"):
        script.cuda_headers([str(tmp_path)])
    header = tmp_path / "nvidia/cuda_runtime/include/cuda.h"
    header.parent.mkdir(parents=True)
    header.touch()
    assert script.cuda_headers(["/nowhere", str(tmp_path)]) == header.parent.resolve()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("echo go1.25.9", r"needs Go 1\.26 or later, and .* is go1\.25\.9"),
        ("echo go.mod requires go 1.26 >&2; exit 1", r"needs Go 1\.26 or later, and .* answers: go.mod requires"),
        ("echo devel", "answers: devel"),
    ],
)
def test_go_that_cannot_build(script, tmp_path, answer, message):
    (tmp_path / "go.mod").write_text("module m\n\ngo 1.26.0\n")
    go = tmp_path / "go"
    go.write_text(f"#!/bin/sh\n{answer}\n")
    go.chmod(0o755)
    with pytest.raises(PlatformError, match=message):
        script.check_go(str(go), tmp_path)


@pytest.mark.parametrize("version", ["go1.26", "go1.26.3", "go1.26rc1", "go1.30.1", "go2.0"])
def test_go_that_can_build(script, tmp_path, version):
    (tmp_path / "go.mod").write_text("module m\n\ngo 1.26.0\n")
    go = tmp_path / "go"
    go.write_text(f"#!/bin/sh\necho {version}\n")
    go.chmod(0o755)
    assert script.check_go(str(go), tmp_path) == str(go)


def test_headers_that_are_missing(script, tmp_path):
    with pytest.raises(PlatformError, match=r"no Python\.h in .*: install the development package"):
        script.python_headers({"include": str(tmp_path), "platinclude": str(tmp_path)})


def test_build_without_go_says_so(tmp_path):
    """The whole command, as pip runs it: the reason is the last line, and there is no traceback."""
    command = [
        sys.executable,
        "setup.py",
        "-q",
        "build_ext",
        "--build-lib",
        str(tmp_path),
        "--build-temp",
        str(tmp_path),
    ]
    environment = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("error: building nvfuser_go needs Go 1.26 or later")
