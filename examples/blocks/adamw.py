"""One step of AdamW for all parameters of a GPT-2 layer at once, in place: weights in float32, gradients in bfloat16.

The rate and the number of the step are inputs, so that a definition serves all steps.
"""

import torch
from block import Block, Draw, Inputs, main, wide

from nvfuser_go import FusionDefinition

BETA_1, BETA_2, EPS, DECAY = 0.9, 0.95, 1e-8, 0.1


def define(fd: FusionDefinition, rate, step, *tensors) -> None:
    """tensors: weight, gradient, first moment and second moment of each parameter."""
    correct_1, correct_2 = 1.0 - fd.ops.pow(BETA_1, step), fd.ops.sqrt(1.0 - fd.ops.pow(BETA_2, step))
    for k in range(0, len(tensors), 4):
        weight, gradient, first, second = tensors[k : k + 4]
        g = wide(fd, gradient)
        new_first = fd.ops.lerp(first, g, 1 - BETA_1)
        new_second = fd.ops.addcmul(BETA_2 * second, g, g, 1 - BETA_2)
        change = (new_first / correct_1) / (fd.ops.sqrt(new_second) / correct_2 + EPS)
        fd.add_output(weight * (1.0 - rate * DECAY) - rate * change, alias_input=weight)
        fd.add_output(new_first, alias_input=first)
        fd.add_output(new_second, alias_input=second)


def reference(rate, step, *tensors) -> list[torch.Tensor]:
    parameters = [w.detach().requires_grad_() for w in tensors[::4]]  # of the same memory
    optimizer = torch.optim.AdamW(parameters, rate, (BETA_1, BETA_2), EPS, DECAY, foreach=False)
    for p, gradient, first, second in zip(parameters, *(tensors[k::4] for k in (1, 2, 3)), strict=True):
        p.grad = gradient.to(p.dtype)
        optimizer.state[p] = {"step": torch.tensor(step - 1), "exp_avg": first, "exp_avg_sq": second}
    optimizer.step()
    return []


def inputs(draw: Draw, width: int) -> Inputs:
    shapes = [
        (width,),
        (width,),
        (3 * width, width),
        (3 * width,),
        (width, width),
        (width,),
        (width,),
        (width,),
        (4 * width, width),
        (4 * width,),
        (width, 4 * width),
        (width,),
    ]
    wide = {"dtype": torch.float32}
    tensors = [
        (draw(*s, **wide), draw(*s), draw(*s, scale=0.1, **wide), draw(*s, scale=0.1, **wide).abs()) for s in shapes
    ]
    return [3e-4, 7.0, *(t for of_one in tensors for t in of_one)]


BLOCKS = (
    Block(
        "adamw",
        define,
        inputs,
        reference,
        {
            "small": {"width": 16},
            "other": {"width": 20},
            "single": {"width": 1},
            "empty": {"width": 0},
            "large": {"width": 1024},
        },
        ulps=2,  # addcmul rounds three times, and torch's as often as the compiler of its kernel chose
    ),
)

if __name__ == "__main__":
    main(*BLOCKS)
