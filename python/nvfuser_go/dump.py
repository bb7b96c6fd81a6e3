"""NVFUSER_DUMP: prints the stages that a fusion passes on its way to a kernel, when it meets new inputs.

Each is text on stdout below a line `======== NAME ========`, in the order of options.STAGES. A stage of the definition
is printed once, when the fusion gets its FusionExecutorCache; any other once for each kind of inputs, before they are
run. Where no scheduler takes the fusion, what there is of it is printed, and for the rest why.
"""

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvfuser_go import _C
from nvfuser_go.errors import InvalidArgument, Unsupported
from nvfuser_go.options import CUDA_TO_FILE, STAGES

if TYPE_CHECKING:
    from nvfuser_go.fusion import Fusion


class OfInputs:
    """The names in NVFUSER_DUMP that a fusion is shown by, each with its arguments."""

    def __init__(self, fusion: "Fusion", names: dict[str, tuple[str, ...]]) -> None:
        """Prints what needs no inputs. Raises InvalidArgument for an argument of a stage that takes none."""
        asked = [name for name in (*STAGES, CUDA_TO_FILE) if name in names]
        for name in asked:
            if name in STAGES and not STAGES[name].takes and names[name]:
                raise InvalidArgument(f"NVFUSER_DUMP: {name} takes no arguments, got {', '.join(names[name])}")
        self._of_inputs = {name: names[name] for name in asked if name not in STAGES or not STAGES[name].of_definition}
        of_definition = [name for name in asked if name not in self._of_inputs]
        sys.stdout.write("".join(_titled(name, fusion._core.stage(name)) for name in of_definition))

    def show(self, executor: _C.Executor, inputs: list[Any]) -> None:
        """Prints what is asked for if it was not printed for inputs like these. Raises what execute() raises."""
        if self._of_inputs and executor.first_shown(inputs):
            shown = ((name, _text(executor, inputs, name, given)) for name, given in self._of_inputs.items())
            sys.stdout.write("".join(_titled(name, text) for name, text in shown))


def _titled(name: str, text: str) -> str:
    end = "" if text.endswith("\n") else "\n"
    return f"======== {name} ========\n{text}{end}"


def _text(executor: _C.Executor, inputs: list[Any], name: str, arguments: tuple[str, ...]) -> str:
    try:
        if name == CUDA_TO_FILE:
            chosen = [a for a in arguments if a.startswith("segment=")]
            folder = tuple(a for a in arguments if a not in chosen)
            return _write(executor.show(inputs, "\n".join(("cuda_full", *chosen))), folder)
        return executor.show(inputs, "\n".join((name, *arguments)))
    except Unsupported as refused:
        return str(refused)


def _write(text: str, arguments: tuple[str, ...]) -> str:
    """Writes a kernel to a file named by its text, and returns the path. The folder is the working directory if no
    argument names one."""
    if len(arguments) > 1:
        raise InvalidArgument(f"NVFUSER_DUMP: {CUDA_TO_FILE} takes one folder, got {', '.join(arguments)}")
    folder = Path(*arguments)
    path = folder / f"nvfuser_{hashlib.sha256(text.encode()).hexdigest()[:16]}.cu"
    try:
        # Other processes may write the same kernel at the same time.
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".nvfuser_", delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError as failure:
        raise InvalidArgument(f"NVFUSER_DUMP: {CUDA_TO_FILE} cannot write into {folder}: {failure}") from failure
    return str(path)
