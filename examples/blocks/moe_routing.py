"""A mixture of experts: a router chooses two for each token, whose rows are sorted by expert, multiplied, and put back.

A second output is what the loss adds so that experts are used evenly: the share of tokens times the mean probability.
"""

import torch
import torch.nn.functional as F
from block import Block, Draw, Inputs, like, main, torch_wide, wide

from nvfuser_go import DataType, FusionDefinition

CHOSEN = 2


def define(fd: FusionDefinition, x, router, w_in, w_out) -> None:
    """x [tokens, width], router [experts, width], w_in [experts, width, hidden], w_out [experts, hidden, width]."""
    tokens, width = x.shape()
    experts = router.size(0)
    scores = wide(fd, fd.ops.linear(x, router))
    e = fd.ops.exp(scores - fd.ops.max(scores, [1], keepdim=True))
    probabilities = e / fd.ops.sum(e, [1], keepdim=True)
    weights, chosen = fd.ops.topk(probabilities, CHOSEN, 1)
    weights = weights / fd.ops.sum(weights, [1], keepdim=True)

    assigned = fd.ops.reshape(chosen, [tokens * CHOSEN])
    order = fd.ops.argsort(assigned, 0, stable=True)
    expert = fd.ops.broadcast(fd.ops.iota(experts, dtype=DataType.Int), [True, False])
    counts = fd.ops.sum(fd.ops.cast(fd.ops.broadcast(assigned, [False, True]) == expert, DataType.Int), [0])
    ends = fd.ops.cast(fd.ops.cumsum(counts, 0), DataType.Int32)

    sorted_rows = fd.ops.index_select(x, order // CHOSEN, 0)
    hidden = fd.ops.grouped_mm(sorted_rows, w_in, ends)
    hidden = like(fd, fd.ops.silu(wide(fd, hidden)), x)
    computed = fd.ops.grouped_mm(hidden, w_out, ends)
    back = fd.ops.index_select(computed, fd.ops.argsort(order, 0), 0)
    back = wide(fd, fd.ops.reshape(back, [tokens, CHOSEN, width]))
    fd.add_output(like(fd, fd.ops.sum(back * fd.ops.broadcast(weights, [False, False, True]), [1]), x))

    share = counts / (tokens * CHOSEN)
    fd.add_output(fd.ops.sum(share * (fd.ops.sum(probabilities, [0]) / tokens)) * experts)


def reference(x, router, w_in, w_out) -> list[torch.Tensor]:
    probabilities = torch_wide(F.linear(x, router)).softmax(1)
    weights, chosen = probabilities.topk(CHOSEN, 1)
    weights = weights / weights.sum(1, keepdim=True)
    out = torch.zeros_like(probabilities[:, :1].expand(x.shape))
    for e in range(router.shape[0]):
        token, place = torch.where(chosen == e)
        y = F.silu(torch_wide(x[token] @ w_in[e])).to(x.dtype) @ w_out[e]
        out.index_add_(0, token, torch_wide(y) * weights[token, place, None])
    share = F.one_hot(chosen, router.shape[0]).to(probabilities.dtype).mean((0, 1))
    return [out.to(x.dtype), (share * probabilities.mean(0)).sum() * router.shape[0]]


def inputs(draw: Draw, tokens: int, width: int, hidden: int, experts: int) -> Inputs:
    return [
        draw(tokens, width),
        draw(experts, width),
        draw(experts, width, hidden, scale=width**-0.5),
        draw(experts, hidden, width, scale=hidden**-0.5),
    ]


BLOCKS = (
    Block(
        "moe_routing",
        define,
        inputs,
        reference,
        {
            "small": {"tokens": 11, "width": 16, "hidden": 24, "experts": 4},
            "other": {"tokens": 6, "width": 8, "hidden": 32, "experts": 8},
            "single": {"tokens": 1, "width": 8, "hidden": 1, "experts": 2},
            "empty": {"tokens": 0, "width": 8, "hidden": 1, "experts": 2},
            "large": {"tokens": 8192, "width": 2048, "hidden": 1024, "experts": 64},
        },
    ),
)

if __name__ == "__main__":
    main(*BLOCKS)
