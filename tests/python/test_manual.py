"""Schedules made by hand, lowered and simulated: their results, and what stops them."""

import re
import threading

import pytest
import torch

from nvfuser_go import (
    DataType,
    Fusion,
    FusionDefinition,
    FusionError,
    HeuristicParams,
    InvalidArgument,
    InvalidType,
    KernelExecutor,
    LaunchParams,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    Unsupported,
)


def pointwise(shape=(-1, -1)):
    with FusionDefinition() as fd:
        x = fd.define_tensor(list(shape), True)
        y = fd.ops.add(x, 1.0)
        fd.add_output(y)
    return fd, x, y


def chain(shape=(-1, -1)):
    with FusionDefinition() as fd:
        x = fd.define_tensor(list(shape), True)
        y = fd.ops.add(fd.ops.relu(x), 1.0)
        fd.add_output(y)
    return fd, x, y


def test_pointwise_by_hand():
    fd, x, y = chain()
    x.cache_after()
    y.cache_before()
    y.merge(0)
    y.split(0, 4)
    y.split(0, 32)
    fd.sched.transform_like(y)
    y.parallelize(0, ParallelType.grid_x)
    y.parallelize(1, ParallelType.block_x)
    fd.sched.parallelize_like(y)
    fd.sched.inline_most()
    for shape in ((13, 21), (1, 1), (3, 1), (0, 4)):
        t = torch.randn(shape)
        (out,) = fd.manual_execute([t])
        assert torch.equal(out, t.relu() + 1)
    assert fd.ke.is_compiled()
    fd.manual_validate([torch.randn(7, 9)])


def test_without_any_call_it_is_serial():
    fd, _, _ = pointwise()
    t = torch.randn(3, 4)
    assert torch.equal(fd.manual_execute([t])[0], t + 1)


def test_registers_of_unknown_size_are_refused():
    fd, _, _ = chain()
    with pytest.raises(Unsupported, match="tv1 is kept in registers and has tv0_n0 elements along an axis") as failure:
        fd.manual_execute([torch.ones(3, 4)])
    assert failure.value.refusals[0][:3] == ("lowering", "register size", "tv1")
    fd.sched.inline_most()
    assert fd.manual_execute([torch.ones(3, 4)])[0].tolist() == [[2.0] * 4] * 3


def test_vectors():
    fd, x, y = chain((-1, 128))
    copy = x.cache_after()
    early = y.cache_before()
    y.split(1, 4)
    fd.sched.transform_like(y)
    y.parallelize(0, ParallelType.grid_x)
    y.parallelize(1, ParallelType.block_x)
    fd.sched.parallelize_like(y)
    copy.parallelize(2, ParallelType.vectorize)
    y.parallelize(2, ParallelType.vectorize)
    assert early.is_tensor()
    fd.sched.inline_most()
    t = torch.randn(5, 128)
    assert torch.equal(fd.manual_execute([t])[0], t.relu() + 1)
    with pytest.raises(Unsupported, match="the address of tv0 is not known to be a multiple of 16 bytes"):
        fd.manual_execute([torch.randn(5 * 128 + 1)[1:].view(5, 128)])


def test_reduction_over_a_block():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        s = fd.ops.sum(x, dims=[1])
        fd.add_output(s)
    x.cache_after()
    s.split(1, 64)
    partial = s.rfactor([1])
    fd.sched.transform_like(partial)
    partial.parallelize(0, ParallelType.grid_x)
    partial.parallelize(-1, ParallelType.block_x)
    fd.sched.parallelize_like(partial)
    fd.sched.inline_most()
    for shape in ((5, 300), (2, 1), (3, 64)):
        t = torch.randint(-5, 5, shape).float()
        assert torch.equal(fd.manual_execute([t])[0], t.sum(1))


def test_shared_tile_by_asynchronous_copies():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 128], True)
        y = fd.ops.exp(x)
        fd.add_output(y)
    tile = x.cache_after(LoadStoreOpType.cp_async)
    tile.set_memory_type(MemoryType.shared)
    y.split(1, 4)
    fd.sched.transform_like(y)
    for t in (tile, y):
        t.parallelize(0, ParallelType.grid_x)
        t.parallelize(1, ParallelType.block_x)
    tile.parallelize(2, ParallelType.vectorize)
    fd.sched.inline_at(y, 1)
    t = torch.randn(3, 128)
    assert torch.allclose(fd.manual_execute([t])[0], t.exp())


def test_transposed_tile():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.permute(x, [1, 0])
        fd.add_output(y)
    tile = x.cache_after()
    tile.set_memory_type(MemoryType.shared)
    for t in (tile, y):
        t.split(1, 8)
        t.split(0, 8)
        t.reorder({1: 2})  # tiles outside
    tile.reorder({0: 1})  # the tiles in the order of the output
    for t in (tile, y):
        t.parallelize(0, ParallelType.grid_y)
        t.parallelize(1, ParallelType.grid_x)
        t.parallelize(2, ParallelType.block_y)
        t.parallelize(3, ParallelType.block_x)
    fd.sched.inline_at(y, 2)
    for shape in ((16, 24), (13, 9), (1, 1)):
        t = torch.randn(shape)
        assert torch.equal(fd.manual_execute([t])[0], t.T)


def test_normalisation_of_rows():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        var, mean = fd.ops.var_mean(x, [1], correction=0, keepdim=True)
        y = fd.ops.mul(fd.ops.sub(x, mean), fd.ops.rsqrt(fd.ops.add(var, 1e-5)))
        fd.add_output(y)
    copy = x.cache_after()
    copy.set_memory_type(MemoryType.shared)
    y.split(1, 32)
    y.parallelize(0, ParallelType.grid_x)
    y.parallelize(2, ParallelType.block_x)
    fd.sched.transform_like(y)
    fd.sched.parallelize_like(y)
    fd.sched.inline_at(y, 1)
    fd.sched.inline_most([])
    t = torch.randn(3, 70)
    want = torch.nn.functional.layer_norm(t, (70,))
    assert torch.allclose(fd.manual_execute([t])[0], want, atol=1e-5)


def test_one_way_of_executing():
    fd, _, y = pointwise()
    t = torch.randn(2, 2)
    fd.execute([t])
    with pytest.raises(AssertionError, match=r"FusionExecutorCache already exists! Use execute\(\)"):
        fd.manual_execute([t])
    assert not hasattr(fd, "ke")
    fd, _, y = pointwise()
    fd.manual_execute([t])
    with pytest.raises(AssertionError, match=r"KernelExecutor already exists! Use manual_execute\(\)"):
        fd.execute([t])
    assert not hasattr(fd, "fec")
    fd, _, y = pointwise()
    y.split(0, 2)
    with pytest.raises(InvalidArgument, match=r"scheduled by the program: run it with manual_execute\(\)"):
        fd.execute([t])
    assert torch.equal(fd.manual_execute([t])[0], t + 1)


def test_a_fusion_is_scheduled_after_another_was_executed():
    t = torch.randn(2, 2)
    first, _, _ = pointwise()
    first.execute([t])
    second, _, y = pointwise()  # of the same text
    y.split(0, 2)
    assert torch.equal(second.manual_execute([t])[0], first.execute([t])[0])


def test_limits_of_the_device():
    fd, _, y = pointwise((4, 4096))
    y.parallelize(1, ParallelType.block_x)
    with pytest.raises(InvalidArgument) as failure:
        fd.manual_execute([torch.ones(4, 4096)])
    assert str(failure.value) == (
        "the schedule cannot be launched: blockDim.x is 4096, and the device has at most 1024;"
        " the number of threads of a block is 4096, and the device has at most 1024"
    )
    fd, x, y = pointwise((1, 1 << 16))
    x.cache_after().set_memory_type(MemoryType.shared)
    with pytest.raises(Unsupported) as failure:
        fd.manual_execute([torch.ones(1, 1 << 16)])
    assert "a block needs 262144 bytes of shared memory and the device has 232448; tv2 takes" in str(failure.value)


def test_illegal_exchanges_name_the_tensors():
    fd, x, y = pointwise()
    copy = x.cache_after()
    y.parallelize(1, ParallelType.block_x)
    copy.parallelize(0, ParallelType.block_x)
    with pytest.raises((InvalidArgument, Unsupported)) as failure:
        fd.manual_execute([torch.ones(3, 3)])
    assert "tv2 is in local memory, but tv1, which reads it, does not run over the same threadIdx.x" in str(
        failure.value
    )
    assert not hasattr(fd, "ke")
    # The definition can be used further: mended, it runs.
    copy.parallelize(0, ParallelType.serial)
    y.parallelize(1, ParallelType.serial)
    fd.sched.inline_most()
    assert fd.manual_execute([torch.ones(3, 3)])[0].tolist() == [[2.0] * 3] * 3


def test_what_is_not_lowered_is_a_refusal():
    fd, x, y = pointwise()
    copy = x.cache_after(LoadStoreOpType.tma)
    copy.set_memory_type(MemoryType.shared)
    with pytest.raises(Unsupported) as failure:
        fd.manual_execute([torch.ones(3, 3)])
    assert failure.value.refusals[0][2] == "tv2"
    assert "goroutine" not in str(failure.value)
    assert y is not None


def test_launch_parameters():
    fd, _, y = pointwise()
    y.split(1, 32)
    y.parallelize(2, ParallelType.block_x)
    params = HeuristicParams(lparams=LaunchParams(bdimx=64))
    with pytest.raises(InvalidArgument, match=r"the launch parameter bdimx is 64, but the schedule makes it 32"):
        fd.manual_execute([torch.ones(2, 40)], params)
    params.lparams.bdimx = 32
    assert fd.manual_execute([torch.ones(2, 40)], params)[0].sum() == 160


def test_kernel_executor():
    fd, _, y = pointwise()
    y.split(0, 2)
    executor = KernelExecutor()
    assert not executor.is_compiled()
    with pytest.raises(FusionError, match="nothing is compiled"):
        executor.run([torch.ones(2, 2)])
    executor.compile(fd.fusion)
    y.split(0, 4)  # after it was compiled
    assert executor.is_compiled()
    assert not executor.is_programmatic_dependent_launch_enabled()
    assert executor.run([torch.ones(2, 2)])[0].tolist() == [[2.0, 2.0]] * 2
    with pytest.raises(InvalidArgument, match="launch_constraints is"):
        executor.run([torch.ones(2, 2)], LaunchParams(bdimx=3))
    with pytest.raises(InvalidType, match="must be a Fusion"):
        executor.compile(None)
    with pytest.raises(InvalidArgument, match="input 0"):
        KernelExecutor().compile(fd.fusion, [torch.ones(2)])
    assert KernelExecutor().compile(Fusion.parse(fd.fusion.text()), [torch.ones(2, 2)]) is None


def test_inputs_are_checked():
    fd, _, _ = pointwise((-1, 4))
    for inputs, error, text in (
        ([torch.ones(2)], InvalidArgument, "input 0 (tv0) has 1 dimensions"),
        ([torch.ones(2, 3)], InvalidArgument, "size 3 in dimension 1"),
        ([torch.ones(2, 4, dtype=torch.int64)], InvalidType, "dtype"),
        ([], InvalidArgument, "the fusion has 1 input"),
        (None, InvalidType, "manual_execute()"),
    ):
        with pytest.raises(error) as failure:
            fd.manual_execute(inputs)
        assert re.sub(r"dimensions?", "dimensions", text) in re.sub(r"dimensions?", "dimensions", str(failure.value))
    assert fd.manual_execute([torch.ones(2, 4).numpy()])[0].shape == (2, 4)


def test_random_numbers_are_drawn_by_a_schedule():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.add(fd.ops.rand_like(x), x)
        fd.add_output(y)
    y.split(0, 8)
    fd.sched.transform_like(y)
    fd.sched.inline_most()
    out = fd.manual_execute([torch.zeros(100)])[0]
    assert 0 <= out.min() < 0.2
    assert 0.8 < out.max() < 1


def test_scalar_inputs():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        n = fd.define_scalar(dtype=DataType.Double)
        y = fd.ops.mul(x, n)
        fd.add_output(y)
    y.split(0, 4)
    assert fd.manual_execute([torch.ones(5), 2.5])[0].tolist() == [2.5] * 5
    assert fd.manual_execute([torch.ones(5), 3.5])[0].tolist() == [3.5] * 5


def test_threads_run_one_kernel():
    fd, _, y = pointwise()
    y.split(0, 2)
    failures = []

    def work(n: int) -> None:
        try:
            for _ in range(5):
                t = torch.full((n, 4), float(n))
                assert torch.equal(fd.manual_execute([t])[0], t + 1)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_the_reproducer_has_the_schedule():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 8], True)
        fd.ops.exp(x)  # unused: not in the script, where later tensors have other names
        y = fd.ops.add(fd.ops.relu(x), 1.0)
        fd.add_output(y)
    x.cache_after()
    y.split(1, 4)
    fd.sched.transform_like(y)
    fd.sched.inline_most()
    t = torch.randn(3, 8)
    script = fd.repro_script_for([t])
    assert "fd.manual_execute(inputs)" in script
    names = {}
    exec(script, names)
    again = names["fd"]
    assert again.ke.is_compiled()
    assert again.sched.script().count("\n") == fd.sched.script().count("\n") == 4
    assert torch.equal(again.manual_execute([t])[0], fd.manual_execute([t])[0])
