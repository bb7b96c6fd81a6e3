"""Publishes this package under the name of nvFuser's, so that programs written for `nvfuser_direct` run unchanged."""

import sys

import nvfuser_go
from nvfuser_go import (
    _C,
    benchmark_utils,
    definition,
    idm,
    multidevice,
    nvfuser_direct_version,
    pytorch_utils,
    schedule,
)
from nvfuser_go.errors import FusionError

NAME = "nvfuser_direct"

_MODULES = {
    NAME: nvfuser_go,
    f"{NAME}._C_DIRECT": nvfuser_go,  # nvFuser's extension, which has the same names
    f"{NAME}.ops": _C.ops,
    f"{NAME}.schedule": schedule,
    f"{NAME}.idm": idm,
    f"{NAME}.multidevice": multidevice,
    f"{NAME}.pytorch_utils": pytorch_utils,
    f"{NAME}.nvfuser_direct_version": nvfuser_direct_version,
    f"{NAME}.benchmark_utils": benchmark_utils,
}


def install() -> None:
    """Makes `import nvfuser_direct` give this package, and the behaviour that differs nvFuser's.

    What differs: FusionDefinition.from_pytorch raises ValueError for CPU tensors with dimensions, and printed scripts
    import nvfuser_direct. A second call does nothing. Raises FusionError if another nvfuser_direct is imported.
    """
    if sys.modules.get(NAME, nvfuser_go) is not nvfuser_go:
        raise FusionError(f"{NAME} is imported already; call install() before anything imports it")
    sys.modules.update(_MODULES)
    nvfuser_go._C_DIRECT = nvfuser_go
    definition.accepts_cpu_tensors = False


def uninstall() -> None:
    """Takes back what install() did. Names that were imported meanwhile stay what they are."""
    for name, module in _MODULES.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    if hasattr(nvfuser_go, "_C_DIRECT"):
        del nvfuser_go._C_DIRECT
    definition.accepts_cpu_tensors = True
