"""An output that is written into the memory of an input: a step of gradient descent with momentum."""

import torch

from nvfuser_go import FusionDefinition

with FusionDefinition() as fd:
    weight = fd.define_tensor(shape=[-1, -1], contiguity=True)
    velocity = fd.define_tensor(shape=[-1, -1], contiguity=True)
    gradient = fd.define_tensor(shape=[-1, -1], contiguity=True)
    rate = fd.define_scalar()
    new_velocity = 0.9 * velocity + gradient
    new_weight = weight - rate * new_velocity
    fd.add_output(new_weight, alias_input=weight)
    fd.add_output(new_velocity, alias_input=velocity)
    fd.add_output(fd.ops.max(fd.ops.abs(new_velocity)))

torch.manual_seed(0)
target = torch.randn(3, 4)
w, v = torch.zeros(3, 4), torch.zeros(3, 4)
memory = w.data_ptr()
for step in range(101):
    # Outputs with an alias are not returned: they are in w and v.
    (largest,) = fd.execute([w, v, w - target, 0.05])
    if step % 20 == 0:
        print(f"step {step:3}: largest velocity {largest.item():.4f}, distance {(w - target).abs().max():.4f}")

assert w.data_ptr() == memory
torch.testing.assert_close(w, target, atol=0.05, rtol=0)
