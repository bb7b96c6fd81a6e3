"""Schedules made by hand that were once computed wrongly, crashed or could not be stopped."""

import pytest
import torch

from nvfuser_go import FusionDefinition


@pytest.mark.parametrize(
    ("shape", "order", "strides"),
    [((2, 5, 3), (1, 2, 0), (1, 6, 2)), ((2, 3), (1, 0), (1, 2)), ((2, 3), (0, 1), (3, 1)), ((0, 4), (1, 0), (1, 1))],
)
def test_an_output_lies_in_memory_as_it_is_laid_out(shape, order, strides):
    for contiguity in (True, False):
        for x_strides in (True, False):
            with FusionDefinition() as fd:
                x = fd.define_tensor([-1] * len(shape), x_strides)
                fd.add_output(y := fd.ops.add(x, 1.0))
            axes = y.get_loop_domain()
            y.set_allocation_domain([axes[i] for i in order], contiguity)
            t = torch.randn(shape)
            (out,) = fd.manual_execute([t])
            assert torch.equal(out, t + 1)
            assert out.stride() == strides


def test_outputs_that_are_reduced_or_read_again_are_laid_out():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], True)
        s = fd.ops.sum(x, [1])
        fd.add_output(s)
        fd.add_output(fd.ops.neg(s))
        fd.add_output(s)
    s.reorder({1: 2})
    copy = s.cache_fork()
    axes = copy.get_loop_domain()
    copy.set_allocation_domain(list(reversed(axes)), True)
    fd.sched.inline_most()
    t = torch.randint(-5, 5, (2, 4, 3)).float()
    first, negative, again = fd.manual_execute([t])
    assert first.stride() == again.stride() == (1, 2)
    assert torch.equal(first, t.sum(1))
    assert torch.equal(again, t.sum(1))
    assert torch.equal(negative, -t.sum(1))


@pytest.mark.parametrize("shape", [(1,), (1, 4), (4, 1)])
def test_an_empty_output_beside_others(shape):
    with FusionDefinition() as fd:
        x = fd.define_tensor(list(shape), True)
        nothing = fd.ops.slice(x, [0] * len(shape), [0 if n == 1 else n for n in shape])
        fd.add_output(nothing)
        fd.add_output(fd.ops.neg(x))
    nothing.split(0, 2)
    t = torch.randn(shape)
    empty, negative = fd.manual_execute([t])
    assert empty.shape == tuple(0 if n == 1 else n for n in shape)
    assert torch.equal(negative, -t)
