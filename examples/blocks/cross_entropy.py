"""Cross-entropy with label smoothing over a large vocabulary, some targets of which are ignored; and its gradient."""

from typing import Any

import torch
import torch.nn.functional as F
from block import Block, Draw, Inputs, like, main, torch_wide, wide

from nvfuser_go import DataType, FusionDefinition

SMOOTHING, IGNORED = 0.1, -100


def log_softmax(fd: FusionDefinition, logits: Any) -> Any:
    x = wide(fd, logits)
    x = x - fd.ops.max(x, [1], keepdim=True)
    return x - fd.ops.log(fd.ops.sum(fd.ops.exp(x), [1], keepdim=True))


def counted(fd: FusionDefinition, target: Any) -> tuple[Any, Any]:
    """Which rows count, and their number as Float."""
    valid = target != IGNORED
    return valid, fd.ops.sum(wide(fd, valid))


def define_forward(fd: FusionDefinition, logits, target) -> None:
    log_p = log_softmax(fd, logits)
    valid, count = counted(fd, target)
    index = fd.ops.broadcast(fd.ops.where(valid, target, 0), [False, True])
    likelihood = fd.ops.squeeze(fd.ops.gather(log_p, index, 1), [1])
    even = fd.ops.sum(log_p, [1]) / logits.size(1)
    loss = fd.ops.where(valid, -(1 - SMOOTHING) * likelihood - SMOOTHING * even, 0.0)
    fd.add_output(fd.ops.sum(loss) / count)


def define_backward(fd: FusionDefinition, grad, logits, target) -> None:
    """grad is the gradient of the loss, a tensor without dimensions."""
    p = fd.ops.exp(log_softmax(fd, logits))
    valid, count = counted(fd, target)
    column = fd.ops.broadcast(fd.ops.iota(logits.size(1), dtype=DataType.Int), [True, False])
    is_target = fd.ops.broadcast(target, [False, True]) == column
    wanted = fd.ops.where(is_target, 1 - SMOOTHING, 0.0) + SMOOTHING / fd.ops.cast(logits.size(1), DataType.Double)
    share = fd.ops.broadcast(fd.ops.where(valid, grad / count, 0.0), [False, True])
    fd.add_output(like(fd, (p - wanted) * share, logits))


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(torch_wide(logits), target, label_smoothing=SMOOTHING, ignore_index=IGNORED)


def backward_reference(grad, logits, target) -> list[torch.Tensor]:
    logits = logits.detach().requires_grad_()
    return list(torch.autograd.grad(loss(logits, target), [logits], grad))


def inputs(draw: Draw, tokens: int, vocabulary: int) -> Inputs:
    target = draw.integers(vocabulary, tokens)
    target[::3] = IGNORED
    return [draw(tokens, vocabulary, scale=2.0), target]


SIZES = {
    "small": {"tokens": 7, "vocabulary": 33},
    "other": {"tokens": 4, "vocabulary": 100},
    "single": {"tokens": 1, "vocabulary": 5},
    "empty": {"tokens": 0, "vocabulary": 5},
    "large": {"tokens": 8192, "vocabulary": 50257},
}
BLOCKS = (
    Block(
        "cross_entropy_forward",
        define_forward,
        inputs,
        lambda *x: [loss(*x)],
        SIZES,
        ulps=2,  # of one number: torch may have rounded it well
    ),
    Block(
        "cross_entropy_backward",
        define_backward,
        lambda draw, **sizes: [torch.full((), 0.5, device=draw.device), *inputs(draw, **sizes)],
        backward_reference,
        SIZES,
    ),
)

if __name__ == "__main__":
    main(*BLOCKS)
