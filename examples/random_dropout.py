"""Dropout with the state of the random generator as an input: the backward pass draws the same mask again.

The numbers are those of the Philox generator at a seed and an offset. They depend on nothing else, so that the mask
need not be kept in memory between the passes.
"""

import torch

from nvfuser_go import DataType, FusionDefinition


def mask(fd: FusionDefinition, like, probability):
    seed, offset = fd.define_scalar(dtype=DataType.Int), fd.define_scalar(dtype=DataType.Int)
    draws = fd.ops.uniform(0.0, 1.0, fd.ops.shape(like), rng_seed=seed, rng_offset=offset, dtype=DataType.Float)
    return draws >= probability


with FusionDefinition() as forward:
    x = forward.define_tensor(shape=[-1, -1], contiguity=True)
    p = forward.define_scalar()
    forward.add_output(forward.ops.where(mask(forward, x, p), x / (1 - p), 0.0))

with FusionDefinition() as backward:
    g = backward.define_tensor(shape=[-1, -1], contiguity=True)
    p = backward.define_scalar()
    backward.add_output(backward.ops.where(mask(backward, g, p), g / (1 - p), 0.0))

x = torch.ones(1000, 1000)
p, seed, offset = 0.25, 1234, 0
(y,) = forward.execute([x, p, seed, offset])
(again,) = forward.execute([x, p, seed, offset])
(other,) = forward.execute([x, p, seed, offset + 4])
(gradient,) = backward.execute([torch.ones_like(x), p, seed, offset])

dropped = (y == 0).float().mean().item()
print(f"dropped {dropped:.4f} of the elements, asked for {p}; the mean of the rest is {y.sum() / (y != 0).sum():.4f}")
print("same state, same mask:         ", torch.equal(y, again))
print("other offset, other mask:      ", not torch.equal(y, other))
print("the backward pass has the mask:", torch.equal(y == 0, gradient == 0))

assert abs(dropped - p) < 0.002  # the standard deviation is 0.0004
assert torch.equal(y, again) and not torch.equal(y, other) and torch.equal(y == 0, gradient == 0)
