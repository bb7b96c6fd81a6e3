"""What ties the interface to torch: dtypes, retries, properties of the device."""

import functools
import gc
from collections.abc import Callable
from typing import Any

import torch

from nvfuser_go.enums import TORCH_NAMES, DataType
from nvfuser_go.errors import InvalidType

# By number of a DataType: the torch dtype of its elements, or None.
TORCH_DTYPES: tuple[torch.dtype | None, ...] = tuple(
    getattr(torch, TORCH_NAMES[t], None) if t in TORCH_NAMES else None for t in DataType
)

_FROM_TORCH: dict[Any, DataType] = {TORCH_DTYPES[t.value]: t for t in TORCH_NAMES if t is not DataType.Index}
_FROM_PYTHON = {bool: DataType.Bool, int: DataType.Int, float: DataType.Double, complex: DataType.ComplexDouble}
_FROM_TORCH.pop(None, None)


def torch_dtype_to_nvfuser_dtype(dtype: torch.dtype | type) -> DataType:
    """The DataType of a torch dtype, or of bool, int, float or complex. Raises InvalidType if there is none."""
    return data_type_of(dtype, "torch_dtype_to_nvfuser_dtype(): dtype is")


def data_type_of(dtype: Any, argument: str) -> DataType:
    """torch_dtype_to_nvfuser_dtype() with errors whose text begins with `argument`."""
    try:
        found = _FROM_TORCH.get(dtype) or _FROM_PYTHON.get(dtype)
    except TypeError:  # it has no hash
        found = None
    if found is None:
        raise InvalidType(f"{argument} {dtype!r}, for which there is no DataType")
    return found


def python_scalar_to_nvfuser_dtype(value: bool | int | float | complex) -> DataType:
    """The DataType of a Python number or of one of their types. Raises InvalidType for anything else."""
    found = _FROM_PYTHON.get(value if isinstance(value, type) else type(value))
    if found is None:
        raise InvalidType(
            "python_scalar_to_nvfuser_dtype(): value must be a bool, an int, a float, a complex or one of these types, "
            f"got {value!r}"
        )
    return found


def retry_on_oom_or_skip_test(test: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for tests: one that runs out of device memory is run once more, and then skipped."""

    @functools.wraps(test)
    def retried(*args: Any, **kwargs: Any) -> Any:
        try:
            return test(*args, **kwargs)
        except torch.OutOfMemoryError:
            gc.collect()
            torch.cuda.empty_cache()
        try:
            return test(*args, **kwargs)
        except torch.OutOfMemoryError as failure:
            import pytest

            pytest.skip(f"out of device memory: {failure}")

    return retried


# The names in DEVICE_PROPERTIES and those of torch.
_PROPERTIES = {
    "gpu_name": "name",
    "gpu_compute_capability_major": "major",
    "gpu_compute_capability_minor": "minor",
    "gpu_gmem_bytes": "total_memory",
    "gpu_sm_count": "multi_processor_count",
    "gpu_max_threads_per_block": "max_threads_per_block",
    "gpu_smem_bytes_per_block": "shared_memory_per_block",
    "gpu_regs_per_block": "regs_per_multiprocessor",
    "gpu_clock_rate_khz": "clock_rate",
    "gpu_l2_bytes": "L2_cache_size",
    "gpu_mem_clock_khz": "memory_clock_rate",
    "gpu_mem_bus_width": "memory_bus_width",
    "gpu_max_threads_per_sm": "max_threads_per_multi_processor",
}


def get_device_properties() -> dict[str, Any] | None:
    """The properties of torch's current CUDA device, those that this torch knows; None without one. Starts CUDA."""
    if not torch.cuda.is_available():
        return None
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    found = {name: getattr(device, attribute) for name, attribute in _PROPERTIES.items() if hasattr(device, attribute)}
    if "gpu_mem_clock_khz" in found and "gpu_mem_bus_width" in found:
        # Two transfers a clock, a bus width in bits.
        bytes_per_second = 2 * found["gpu_mem_clock_khz"] * 1000 * found["gpu_mem_bus_width"] / 8
        found["gpu_peak_bandwidth_gbps"] = bytes_per_second / 1e9
    return found


def __getattr__(name: str) -> Any:
    """DEVICE_PROPERTIES is asked for when it is first read, so that an import does not start CUDA."""
    if name != "DEVICE_PROPERTIES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = get_device_properties()
    return globals()[name]
