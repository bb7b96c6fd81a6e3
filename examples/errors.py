"""What mistakes look like: each names the argument, its value and the rule, and the program can go on."""

import torch

from nvfuser_go import DataType, FusionDefinition, FusionError


def define(shape, operation, dtype=DataType.Float):
    with FusionDefinition() as fd:
        fd.add_output(operation(fd, fd.define_tensor(shape=shape, contiguity=True, dtype=dtype)))
    return fd


def run(*inputs):
    define([-1, 4], lambda fd, x: fd.ops.exp(x)).execute(list(inputs))


def mix_two_fusions():
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
    define([-1], lambda fd, y: x + y)


MISTAKES = {
    "a misspelt argument": lambda: define([2, 3], lambda fd, x: fd.ops.sum(x, [0], keepdims=True)),
    "a dimension that is not there": lambda: define([2, 3], lambda fd, x: fd.ops.sum(x, dims=[2])),
    "shapes that do not broadcast": lambda: define([2, 3], lambda fd, x: x + fd.ops.full([2, 4], 1.0, DataType.Float)),
    "a reshape to another number of elements": lambda: define([2, 3], lambda fd, x: fd.ops.reshape(x, [4, 2])),
    "-1 twice": lambda: define([2, 3], lambda fd, x: fd.ops.reshape(x, [-1, -1])),
    "bits of a float": lambda: define([2], lambda fd, x: x & 1),
    "a size below -1": lambda: define([-2], lambda fd, x: x),
    "a value of another fusion": mix_two_fusions,
    "a tensor used as a bool": lambda: define([2], lambda fd, x: x if x > 0 else -x),
    "an input too few": lambda: run(),
    "an input of another rank": lambda: run(torch.ones(4)),
    "an input of another size": lambda: run(torch.ones(2, 5)),
    "an input of another dtype": lambda: run(torch.ones(2, 4, dtype=torch.float64)),
    "an input that is not dense": lambda: run(torch.ones(4, 2).t()),
    "an input without data": lambda: run(torch.ones(2, 4, device="meta")),
    "an input that is no tensor": lambda: run("ones"),
    "nothing defined": lambda: FusionDefinition().execute([]),
    "no output": lambda: define([2], lambda fd, x: None),
}

for what, make in MISTAKES.items():
    try:
        make()
    except FusionError as error:
        print(f"{what}\n    {type(error).__name__}: {error}\n")
    else:
        raise AssertionError(f"{what}: nothing was raised")
