"""The health report: what this installation consists of and whether it works. It makes no CUDA context."""

import glob
import importlib.metadata
import os
import platform
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from nvfuser_go import options


@dataclass
class Report:
    """Lines of (what, value), and the problems found."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, what: str, value: object) -> None:
        self.lines.append((what, str(value)))

    def __str__(self) -> str:
        width = max(len(what) for what, _ in self.lines)
        text = [f"{what:<{width}}  {value}" for what, value in self.lines]
        text += [f"PROBLEM: {problem}" for problem in self.problems] or ["OK"]
        return "\n".join(text)


def report() -> Report:
    """Looks at the installation. Whatever is wrong is a problem in the report; nothing is raised."""
    found = Report()
    for part in (_versions, _devices, _libraries, _surroundings, _options, _trial):
        try:
            part(found)
        except Exception as failure:
            found.problems.append(f"{part.__name__.strip('_')}: {type(failure).__name__}: {failure}")
    return found


def _versions(found: Report) -> None:
    import nvfuser_go

    found.add("nvfuser_go", f"{nvfuser_go.__version__} ({Path(nvfuser_go.__file__).parent})")
    found.add("compiled core", nvfuser_go._C.version())
    found.add("nvFuser interface", nvfuser_go.version())
    if nvfuser_go._C.version() != nvfuser_go.__version__:
        found.problems.append("the compiled core is of another version than the package: build it again")
    found.add("Python", f"{platform.python_version()} ({sys.executable})")
    for package in ("torch", "numpy"):
        found.add(package, importlib.metadata.version(package))


def _devices(found: Report) -> None:
    import torch

    found.add("CUDA of torch", torch.version.cuda or "none")
    nodes = sorted(glob.glob("/dev/nvidia[0-9]*"))
    found.add("NVIDIA devices", ", ".join(nodes) or "none")
    names = []
    for path in sorted(glob.glob("/proc/driver/nvidia/gpus/*/information")):
        for line in Path(path).read_text().splitlines():
            if line.startswith("Model:"):
                names.append(line.partition(":")[2].strip())
    if names:
        found.add("NVIDIA models", ", ".join(names))


def _libraries(found: Report) -> None:
    import nvfuser_go

    lines = dict(line.split("\t") for line in nvfuser_go._C.cuda().splitlines())
    for what, value in lines.items():
        found.add(what, value)
    missing = "a device" if "device 0" not in lines else "NVRTC" if "not found" in lines["NVRTC"] else None
    found.add("fusions of CUDA tensors", f"cannot run here, for want of {missing}" if missing else "are compiled")


def _surroundings(found: Report) -> None:
    found.add("CPUs", len(os.sched_getaffinity(0)))
    folder = os.environ.get("NVFUSER_GO_REPRO_DIR") or tempfile.gettempdir()
    found.add("reproducers in", folder)
    if not os.access(folder, os.W_OK):
        found.problems.append(f"reproducers of internal errors cannot be written to {folder}")


def _options(found: Report) -> None:
    known = {*options.LEGAL, *options.OWN_VARIABLES}
    given = {name: value for name, value in sorted(os.environ.items()) if name.startswith("NVFUSER_")}
    for name, value in given.items():
        found.add(name, value)
        if name.startswith("NVFUSER_GO_") and name not in known:
            found.problems.append(
                f"{name} is not a variable of nvfuser_go; there are {', '.join(options.OWN_VARIABLES)}"
            )
    options.environment()


def _trial(found: Report) -> None:
    """Runs a small fusion."""
    import torch

    from nvfuser_go import FusionDefinition

    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    with FusionDefinition() as fd:
        tensor = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(fd.ops.mul(tensor, 2.0), dims=[1]))
    (y,) = fd.execute([x])
    if y.tolist() != [6.0, 24.0]:
        found.problems.append(f"a trial fusion gave {y.tolist()} instead of [6.0, 24.0]")
    else:
        found.add("trial fusion", "right")
