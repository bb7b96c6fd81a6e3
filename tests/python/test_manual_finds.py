"""Schedules made by hand that were once computed wrongly, crashed or could not be stopped."""

import signal

import pytest
import torch

from nvfuser_go import (
    DataType,
    FusionDefinition,
    InvalidArgument,
    InvalidType,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    Unsupported,
)


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


@pytest.mark.parametrize("threads", [8, 32, 128])
def test_threads_agree_on_a_mean(threads):
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], dtype=DataType.Double)
        var, mean = fd.ops.var_mean(x, [0, 1], correction=0, keepdim=True)
        y = fd.ops.mul(fd.ops.sub(x, mean), var)
        fd.add_output(y)
    x.cache_after().set_memory_type(MemoryType.shared)
    y.cache_before()
    (partial,) = {e.output(0) for e in fd.fusion.exprs() if e.name() == "welford"}
    partial.split(-1, threads)
    fd.sched.transform_like(partial)
    partial.parallelize(-1, ParallelType.block_x)
    fd.sched.parallelize_like(partial)
    mean.set_memory_type(MemoryType.shared)
    fd.sched.inline_most()
    t = torch.randn(32, 17, dtype=torch.float64)
    want = (t - t.mean()) * t.var(correction=0)
    assert torch.allclose(fd.manual_execute([t])[0], want)


def tripled(shape=(-1, -1)):
    with FusionDefinition() as fd:
        x = fd.define_tensor(list(shape), True)
        y = fd.ops.mul(x, 3.0)
        fd.add_output(y)
    return fd, x, y


def test_more_blocks_than_are_simulated():
    fd, _, y = tripled()
    y.split(1, 2**31 - 1)
    y.parallelize(2, ParallelType.grid_x)
    with pytest.raises(Unsupported, match="2147483647 x 1 x 1 blocks is not simulated") as failure:
        fd.manual_execute([torch.ones(2, 3)])
    assert failure.value.refusals[0][:2] == ("simulator", "launch")


@pytest.mark.parametrize("stages", [2**62, 2**63 - 1])
def test_sizes_of_no_64_bits(stages):
    fd, x, y = tripled((-1, 128))
    copy = x.cache_after(LoadStoreOpType.cp_async)
    copy.set_memory_type(MemoryType.shared)
    y.split(1, 32)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 2)
    copy.circular_buffer(stages)
    with pytest.raises(InvalidArgument, match="the schedule cannot be launched: overflow of 64 bits in "):
        fd.manual_execute([torch.ones(2, 128)])


def test_a_long_loop_can_be_interrupted():
    fd, _, y = tripled()
    y.split(1, 2**62)

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            fd.manual_execute([torch.ones(1, 1)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_tensors_of_a_complete_fusion_compare_as_themselves():
    fd, x, y = tripled()
    for _ in range(2):  # complete, then scheduled
        again = [v for v in fd.fusion.vals() if v.is_tensor()]
        assert y in again
        assert again.index(x) == 0
        assert x != y
        assert (x == y) is False
        assert {x, y} == set(again)
        assert tripled()[2] not in again
        y.split(0, 2)
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(y := fd.ops.neg(x))
        assert (x == y).dtype() == DataType.Bool  # an operation
        y.split(0, 2)
        assert x in [y, x]
        assert (x == y) is False


def test_heuristic_parameters_of_another_type():
    fd, _, _ = tripled()
    with pytest.raises(InvalidType, match=r"heuristic_params must be HeuristicParams or None, got 5"):
        fd.manual_execute([torch.ones(2, 3)], 5)


def test_broadcasts_that_depend_on_inputs_are_refused():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.neg(fd.ops.slice(x, [0, 1], [2, 2])))
    with pytest.raises(Unsupported, match=r"dimension 0 broadcasts is not known .* sizes that are numbers") as failure:
        fd.manual_execute([torch.ones(2, 3)])
    assert failure.value.refusals[0][:2] == ("schedule", "symbolic")
