"""A GPU fusion compiler: define a fusion of tensor operations, run it on torch tensors.

The interface is that of nvFuser's package nvfuser_direct; compat.install() publishes it under that name.
"""

import atexit
import importlib
from typing import TYPE_CHECKING, Any

from nvfuser_go import _C
from nvfuser_go.enums import (
    CacheOp,
    CommunicatorBackend,
    DataType,
    IdMappingMode,
    LoadStoreOpType,
    MatmulBufferingLoopLevel,
    MatmulCircularBufferingStrategy,
    MatmulTileRasterizationOrder,
    MatmulTilingStrategy,
    MemoryType,
    MmaMacro,
    ParallelType,
    SchedulerType,
)
from nvfuser_go.errors import FusionError, InvalidArgument, InvalidType, MissingDefinition, Unsupported
from nvfuser_go.inputs import prepare
from nvfuser_go.pytorch_utils import TORCH_DTYPES
from nvfuser_go.random import draw
from nvfuser_go.torch_calls import prepare_call

# Before the modules below, which make values and raise errors.
_C.set_exceptions(FusionError, InvalidArgument, InvalidType, Unsupported)
_C.set_dtypes(tuple(DataType), TORCH_DTYPES)
_C.set_hooks(prepare, draw, prepare_call)
atexit.register(_C.leave)

from nvfuser_go import schedule  # noqa: E402
from nvfuser_go.cache import LRUCache, LruFusionCache  # noqa: E402
from nvfuser_go.definition import FusionDefinition  # noqa: E402
from nvfuser_go.expressions import BroadcastOp, Merge, ReshapeOp, Split, SqueezeOp  # noqa: E402
from nvfuser_go.fusion import (  # noqa: E402
    Fusion,
    FusionExecutorCache,
    FusionGuard,
    KernelExecutor,
    compute_tensor_descriptor,
    define_scalar,
    define_tensor,
    translate_fusion,
)
from nvfuser_go.nvfuser_direct_version import INTERFACE_VERSION, NvfuserVersion, Version  # noqa: E402
from nvfuser_go.pytorch_utils import python_scalar_to_nvfuser_dtype, torch_dtype_to_nvfuser_dtype  # noqa: E402
from nvfuser_go.unavailable import function as _unavailable_function  # noqa: E402
from nvfuser_go.unavailable import kind as _unavailable_kind  # noqa: E402

if TYPE_CHECKING:
    from nvfuser_go import _ops as ops
else:
    ops = _C.ops

__version__ = _C.version()

execute_with_dtensors = _unavailable_function(__name__, "execute_with_dtensors")
get_fusion_profile = _unavailable_function(__name__, "get_fusion_profile")
reset_profiler = _unavailable_function(__name__, "reset_profiler")
PythonProfiler = _unavailable_kind(__name__, "PythonProfiler")
FusionProfile = _unavailable_kind(__name__, "FusionProfile")
KernelProfile = _unavailable_kind(__name__, "KernelProfile")


def version() -> str:
    """The release of nvFuser whose interface this is, for clients that check; `__version__` is that of this package."""
    return INTERFACE_VERSION


# Where the names come from that few programs need: their modules are imported when they are first read, as the classes
# of parameters alone would double the time that the import of this package adds to that of torch.
_LAZY = {
    "nvfuser_go.parameters": (
        "CircularBufferOptions",
        "ClusterDims",
        "CompileParams",
        "GemmTile",
        "HeuristicParams",
        "LaunchParams",
        "MatMulTileOptions",
        "MatmulParams",
        "MmaMacroEncode",
        "PointwiseParams",
        "ReductionParams",
        "SupportedVectorization",
    ),
    "nvfuser_go.validation": ("get_val_tolerances", "validate_with_auto_inferred_outputs"),
    "nvfuser_go._C": ("Expr", "IterDomain", "Scalar", "Statement", "TensorDomain", "TensorView", "Val"),
}
_MODULES = ("idm", "multidevice")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"nvfuser_go.{name}")
    for module, names in _LAZY.items():
        if name in names:
            value = getattr(importlib.import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "BroadcastOp",
    "CacheOp",
    "CircularBufferOptions",
    "ClusterDims",
    "CommunicatorBackend",
    "CompileParams",
    "DataType",
    "Expr",
    "Fusion",
    "FusionDefinition",
    "FusionError",
    "FusionExecutorCache",
    "FusionGuard",
    "FusionProfile",
    "GemmTile",
    "HeuristicParams",
    "IdMappingMode",
    "InvalidArgument",
    "InvalidType",
    "IterDomain",
    "KernelExecutor",
    "KernelProfile",
    "LRUCache",
    "LaunchParams",
    "LoadStoreOpType",
    "LruFusionCache",
    "MatMulTileOptions",
    "MatmulBufferingLoopLevel",
    "MatmulCircularBufferingStrategy",
    "MatmulParams",
    "MatmulTileRasterizationOrder",
    "MatmulTilingStrategy",
    "MemoryType",
    "Merge",
    "MissingDefinition",
    "MmaMacro",
    "MmaMacroEncode",
    "NvfuserVersion",
    "ParallelType",
    "PointwiseParams",
    "PythonProfiler",
    "ReductionParams",
    "ReshapeOp",
    "Scalar",
    "SchedulerType",
    "Split",
    "SqueezeOp",
    "Statement",
    "SupportedVectorization",
    "TensorDomain",
    "TensorView",
    "Unsupported",
    "Val",
    "Version",
    "__version__",
    "compute_tensor_descriptor",
    "define_scalar",
    "define_tensor",
    "execute_with_dtensors",
    "get_fusion_profile",
    "get_val_tolerances",
    "idm",
    "multidevice",
    "ops",
    "python_scalar_to_nvfuser_dtype",
    "reset_profiler",
    "schedule",
    "torch_dtype_to_nvfuser_dtype",
    "translate_fusion",
    "validate_with_auto_inferred_outputs",
    "version",
]
