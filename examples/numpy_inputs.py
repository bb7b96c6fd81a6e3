"""Inputs that are not torch tensors: numpy arrays, and whatever offers its memory through __dlpack__."""

import numpy as np
import torch

from nvfuser_go import DataType, FusionDefinition

with FusionDefinition() as fd:
    x = fd.define_tensor(shape=[-1, -1], contiguity=[False, False], dtype=DataType.Double)
    k = fd.define_scalar(dtype=DataType.Double)
    fd.add_output(fd.ops.sum(fd.ops.exp(x * k), dims=[0]))

# If all tensors among the inputs are numpy arrays, the outputs are too. Memory is shared, not copied.
a = np.random.default_rng(0).standard_normal((6, 4))
(result,) = fd.execute([a, 0.5])
print(type(result).__name__, result.dtype, result.shape)
np.testing.assert_allclose(result, np.exp(a * 0.5).sum(axis=0))

# An array of other strides: every second row, transposed.
view = a[::2].T
(result,) = fd.execute([view, np.float32(0.5)])
np.testing.assert_allclose(result, np.exp(view * 0.5).sum(axis=0))


class Foreign:
    """Stands for a tensor of another library."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


(result,) = fd.execute([Foreign(a), 0.5])
print(type(result).__name__, result.dtype, tuple(result.shape))
torch.testing.assert_close(result, torch.from_numpy(np.exp(a * 0.5).sum(axis=0)))
