"""Three ways to take a fusion elsewhere: as Python source, as a script that runs it, as the text of the compiler."""

import torch

from nvfuser_go import DataType, Fusion, FusionDefinition

with FusionDefinition() as fd:
    x = fd.define_tensor(shape=[-1, 8], contiguity=True)
    k = fd.define_scalar()
    fd.add_output(fd.ops.sum(fd.ops.relu(x * k), dims=[0]))

inputs = [torch.randn(5, 8), 0.1]
(expected,) = fd.execute(inputs, save_repro_inputs=True)

# repr() is a function that defines the fusion again.
names = {"FusionDefinition": FusionDefinition, "DataType": DataType}
exec(repr(fd), names)
with FusionDefinition() as copy:
    names["nvfuser_fusion"](copy)
assert copy.fusion == fd.fusion
assert torch.equal(copy.execute(inputs)[0], expected)

# A whole program, to send to somebody: it makes inputs of the same description. Their elements are random.
script = fd.last_repro_script()
assert script == fd.repro_script_for(inputs)
print(script)
exec(script, {})

# The canonical text: equal for equal fusions, and it can be read back.
print(fd.fusion.text())
assert Fusion.parse(fd.fusion.text()) == fd.fusion
