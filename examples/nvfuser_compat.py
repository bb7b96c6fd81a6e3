"""A program that was written for nvFuser's package nvfuser_direct runs unchanged after compat.install()."""

import nvfuser_go.compat

nvfuser_go.compat.install()

# From here on it is the program of somebody who does not know of nvfuser_go.
import nvfuser_direct as nvf  # noqa: E402
import torch  # noqa: E402
from nvfuser_direct import DataType, FusionDefinition  # noqa: E402
from nvfuser_direct.pytorch_utils import torch_dtype_to_nvfuser_dtype  # noqa: E402


def rms_norm(fd: FusionDefinition, dtype: torch.dtype) -> None:
    kind = torch_dtype_to_nvfuser_dtype(dtype)
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=kind)
    weight = fd.define_tensor(shape=[-1], contiguity=[True], dtype=kind)
    x = fd.ops.cast(x, dtype=DataType.Float)
    square = fd.ops.mul(x, x)
    mean = fd.ops.div(fd.ops.sum(square, dims=[1], keepdim=True), fd.ops.size(x, dim=1))
    scale = fd.ops.rsqrt(fd.ops.add(mean, 1e-6))
    weight = fd.ops.cast(
        fd.ops.broadcast_in_dim(weight, shape=fd.ops.shape(x), broadcast_dims=[1]), dtype=DataType.Float
    )
    fd.add_output(fd.ops.cast(fd.ops.mul(fd.ops.mul(x, scale), weight), dtype=kind))


with FusionDefinition() as fd:
    rms_norm(fd, torch.bfloat16)

x, weight = torch.randn(16, 64, dtype=torch.bfloat16), torch.randn(64, dtype=torch.bfloat16)
reference = torch.nn.functional.rms_norm(x.float(), [64], weight.float(), 1e-6).to(torch.bfloat16)
(result,) = fd.validate([x, weight], reference_outputs=[reference])

print(f"nvfuser_direct {nvf.version()} is {nvf.__name__} {nvf.__version__}")
print(fd.repro_script_for([x, weight]))
