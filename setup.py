"""The part of the build that setuptools cannot describe: the extension module is compiled by Go.

What else there is to say about the package stands in pyproject.toml.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import PlatformError

ROOT = Path(__file__).resolve().parent


def python_headers(paths: dict[str, str]) -> list[str]:
    """The folders of Python.h and pyconfig.h, from the install paths of an interpreter.

    Raises PlatformError when Python.h is not there.
    """
    folders = list(dict.fromkeys((paths["include"], paths["platinclude"])))
    if not any(Path(folder, "Python.h").exists() for folder in folders):
        raise PlatformError(
            f"building nvfuser_go needs the C headers of Python, and there is no Python.h in {folders[0]}: "
            "install the development package of this Python (python3-dev, python3-devel)"
        )
    return folders


def cuda_headers(path: list[str]) -> Path:
    """The folder of cuda.h among the packages of NVIDIA that are on `path`, a list such as sys.path.

    Only the declarations of CUDA 12 will do, which the binding is written for; a newer driver has the same functions.
    Raises PlatformError when they are not there.
    """
    for folder in path:
        found = Path(folder, "nvidia", "cuda_runtime", "include")
        if found.joinpath("cuda.h").exists():
            # Resolved, so that working trees that share an environment share what Go has built.
            return found.resolve()
    raise PlatformError(
        "building nvfuser_go needs the C headers of CUDA 12: pip install nvidia-cuda-runtime-cu12, "
        "as the build requirements in pyproject.toml say"
    )


def cgo_cflags() -> str:
    """The value of CGO_CFLAGS that every Go command over the whole project needs."""
    folders = [*python_headers(sysconfig.get_paths()), cuda_headers(sys.path)]
    # Hidden: the library shows what nvfuser_go.h marks and nothing else, so that no C function of ours or of a package
    # that we use stands in for a function of another library in the same process.
    return shlex.join(["-O2", "-DNDEBUG", "-fvisibility=hidden", *(f"-I{folder}" for folder in folders)])


def check_platform(platform: str, free_threaded: bool) -> None:
    """Raises PlatformError unless the extension can be built for this interpreter.

    `platform` is the text of sysconfig.get_platform().
    """
    if platform != "linux-x86_64":
        raise PlatformError(f"nvfuser_go builds on Linux x86-64 only, and this Python is for {platform}")
    if free_threaded:
        raise PlatformError(
            "nvfuser_go is built for the stable ABI, which a free-threaded Python lacks: use an ordinary Python"
        )


def check_go(go: str | None, root: Path = ROOT) -> str:
    """Returns the path `go` if that Go command can build the module in `root`, else raises PlatformError."""
    need = re.search(r"^go (\d+)\.(\d+)", (root / "go.mod").read_text(), re.MULTILINE)
    assert need is not None, "go.mod has no go line"
    wanted = f"building nvfuser_go needs Go {need[1]}.{need[2]} or later"
    if go is None:
        raise PlatformError(f"{wanted}, and there is no go command on PATH: install it from https://go.dev/dl")
    # Asked in the module's folder: a go command that may fetch a newer toolchain answers for that one.
    answer = subprocess.run([go, "env", "GOVERSION"], cwd=root, capture_output=True, text=True, check=False)
    have = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    if answer.returncode != 0 or have is None:
        raise PlatformError(f"{wanted}, and {go} answers: {(answer.stderr or answer.stdout).strip()}")
    if (int(have[1]), int(have[2])) < (int(need[1]), int(need[2])):
        raise PlatformError(f"{wanted}, and {go} is {answer.stdout.strip()}")
    return go


class FreshBuildPy(build_py):
    """Empties the build folder first: setuptools would put modules that were since deleted into the wheel."""

    def run(self) -> None:
        shutil.rmtree(Path(self.build_lib, "nvfuser_go"), ignore_errors=True)
        super().run()


class GoBuildExt(build_ext):
    """Builds the extension with `go build -buildmode=c-shared` and puts the C header beside it."""

    def run(self) -> None:
        super().run()
        header = Path(self.get_ext_fullpath("nvfuser_go._C")).parent / "include" / "nvfuser_go.h"
        header.parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / "capi" / "nvfuser_go.h", header)

    def build_extension(self, ext: Extension) -> None:
        check_platform(sysconfig.get_platform(), bool(sysconfig.get_config_var("Py_GIL_DISABLED")))
        go = check_go(shutil.which("go"))
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [go, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
        environment = os.environ | {"CGO_ENABLED": "1", "GOOS": "linux", "GOARCH": "amd64", "CGO_CFLAGS": cgo_cflags()}
        try:
            subprocess.run([*command, "-o", str(target), "./capi"], cwd=ROOT, env=environment, check=True)
        except subprocess.CalledProcessError as failure:
            raise PlatformError(f"go build failed with status {failure.returncode}; its messages are above") from None
        # Go writes a second header, with what cgo generated, beside its output; ours is written by hand.
        target.with_suffix(".h").unlink(missing_ok=True)


if __name__ == "__main__":
    setup(
        # No sources: Go finds its own, and its build cache decides what is stale.
        ext_modules=[Extension("nvfuser_go._C", sources=[], py_limited_api=True)],
        cmdclass={"build_py": FreshBuildPy, "build_ext": GoBuildExt},
        options={"bdist_wheel": {"py_limited_api": "cp311"}},
    )
