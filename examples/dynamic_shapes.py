"""One definition for all sizes: -1 stands for a size that is known only when the fusion runs."""

import torch

from nvfuser_go import FusionDefinition, InvalidArgument

with FusionDefinition() as fd:
    x = fd.define_tensor(shape=[-1, -1], contiguity=True)
    y = fd.define_tensor(shape=[-1], contiguity=True)
    rows, columns = fd.ops.shape(x)  # scalars of the fusion, with which one can compute
    total = fd.ops.sum(x + y, dims=[1])
    fd.add_output(total / columns)
    fd.add_output(fd.ops.reshape(x, [rows * columns]))

for rows, columns in [(2, 3), (5, 1), (1000, 7), (0, 4)]:
    a, b = torch.randn(rows, columns), torch.randn(columns)
    mean, flat = fd.execute([a, b])
    torch.testing.assert_close(mean, (a + b).mean(dim=1))
    torch.testing.assert_close(flat, a.flatten())
    print(f"{rows:4} x {columns}: outputs of shapes {tuple(mean.shape)} and {tuple(flat.shape)}")

# Sizes that do not fit together are found when the fusion runs, and the message names the tensors.
try:
    fd.execute([torch.randn(2, 3), torch.randn(4)])
except InvalidArgument as error:
    print(f"InvalidArgument: {error}")
