"""Scheduling by hand: each call's effect on the loops, its errors, and the text of a schedule."""

import inspect
import re
import threading
from pathlib import Path

import pytest
import torch

from nvfuser_go import (
    CacheOp,
    FusionDefinition,
    FusionError,
    InvalidArgument,
    InvalidType,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    PointwiseParams,
    ReductionParams,
    SchedulerType,
    Unsupported,
    schedule,
)


class Chain:
    """exp, then a sum of the rows, taken from what was summed: tv0 is x, tv1 exp, tv2 the sum, tv3 its broadcast."""

    def __init__(self, shape=(64, 128)):
        with FusionDefinition() as self.fd:
            self.x = self.fd.define_tensor(list(shape), True)
            self.e = self.fd.ops.exp(self.x)
            self.s = self.fd.ops.sum(self.e, dims=[1])
            self.b = self.fd.ops.broadcast(self.s, [False, True])
            self.y = self.fd.ops.sub(self.e, self.b)
            self.fd.add_output(self.y)


@pytest.fixture
def c():
    return Chain()


def extents(axes) -> list[str]:
    return [re.sub(r"nvfuser_index_t\((\d+)\)", r"\1", str(a.extent())) for a in axes]


def loops(tensor) -> list[str]:
    return extents(tensor.get_loop_domain())


def test_splits(c):
    c.y.split(1, 32)
    assert loops(c.y) == ["64", "4", "32"]
    c.y.inner_split(0, 16)
    assert loops(c.y) == ["4", "16", "4", "32"]
    c.y.outer_split(-1, 8)
    assert loops(c.y) == ["4", "16", "4", "8", "4"]
    c.y.split(axis=0, factor=2, inner_split=False)
    assert loops(c.y) == ["2", "2", "16", "4", "8", "4"]
    assert extents(c.y.get_logical_domain()) == ["64", "128"]
    assert loops(c.e) == ["64", "128"]
    assert c.y.ndim == 2


def test_merge_and_reorder(c):
    c.y.reorder({0: 1})
    assert loops(c.y) == ["128", "64"]
    c.y.reorder({0: -1})
    c.y.merge(0)
    assert loops(c.y) == ["8192"]
    c.e.merge(1, 0)
    assert loops(c.e) == ["8192"]
    assert str(c.e.axis(0)) != str(c.y.axis(0))


def test_reductions_show_in_the_domains(c):
    assert [a.is_reduction() for a in c.s.get_loop_domain()] == [False, True]
    c.s.split(1, 4)
    partial = c.s.rfactor([2])
    assert [a.is_reduction() for a in partial.get_loop_domain()] == [False, False, True]
    assert partial.has_root()
    assert not c.e.has_root()
    assert [a.is_reduction() for a in partial.get_root_domain()] == [False, True]
    assert extents(partial.get_logical_domain()) == ["64", "32", "4"]
    assert [a.is_reduction() for a in c.s.get_loop_domain()] == [False, True]
    assert partial.definition().input(0) is c.e
    assert c.s.definition().input(0) is partial


def test_parallelize(c):
    c.y.parallelize(0, ParallelType.grid_x)
    c.y.axis(1).parallelize(ParallelType.block_x)
    assert "blockIdx.x" in str(c.y.axis(0))
    assert "threadIdx.x" in str(c.y.axis(-1))
    assert str(c.y.domain()) == f"[{c.y.axis(0)}, {c.y.axis(1)}]"
    c.y.axis(1).parallelize(ParallelType.serial)
    assert "threadIdx" not in str(c.y.domain())


def test_copies(c):
    copy = c.x.cache_after()
    assert c.e.definition().input(0) is copy
    assert copy.definition().input(0) is c.x
    early = c.e.cache_after(cached_uses=[c.s])
    assert c.s.definition().input(0) is early
    assert c.y.definition().input(0) is c.e
    before = c.y.cache_before()
    assert c.y.definition().input(0) is before
    assert before.uses() == [c.y.definition()]
    with FusionDefinition() as fd:
        x = fd.define_tensor([4], True)
        y = fd.ops.exp(x)
        fd.add_output(y)
        fd.add_output(fd.ops.neg(y))
    fork = y.cache_fork()
    assert fork in fd.fusion.outputs() or any(fork is o for o in fd.fusion._core.vals())


def test_memory_and_layout(c):
    tile = c.x.cache_after(LoadStoreOpType.cp_async, CacheOp.all_levels, True)
    tile.set_memory_type(MemoryType.shared)
    tile.set_allocation_domain(tile.get_loop_domain(), True)
    tile.set_allocation_domain(list(reversed(tile.get_logical_domain())), [True, True])
    tile.swizzle(0, 1)
    tile.circular_buffer(3)
    tile.circular_buffer(number_of_stages=4, prefetch_distance=2)
    assert f"{tile_name(tile)} shared" in c.fd.sched.text()
    assert "allocation" in c.fd.sched.text()


def tile_name(tensor) -> str:
    return "tv" + re.match(r"T(\d+)", str(tensor))[1]


def test_following(c):
    c.y.split(1, 32)
    assert c.fd.sched.transform_like(c.y) is None
    assert loops(c.e) == loops(c.s) == loops(c.y)
    c.y.parallelize(0, ParallelType.grid_x)
    c.y.parallelize(2, ParallelType.block_x)
    c.fd.sched.parallelize_like(c.y, selected_parallel_types={ParallelType.grid_x})
    assert "blockIdx.x" in str(c.e.axis(0))
    assert "threadIdx" not in str(c.e.domain())
    c.fd.sched.parallelize_like(c.y, 2, [c.e])
    assert "threadIdx" not in str(c.e.domain())
    c.fd.sched.parallelize_like(c.y, selected_tensors=[c.e])
    assert "threadIdx" in str(c.e.axis(2))
    assert "threadIdx" not in str(c.b.domain())


def test_following_backwards_and_what_cannot(c):
    c.y.split(1, 32)
    c.y.parallelize(1, ParallelType.block_x)
    assert c.fd.sched.bounded_transform_backward(c.y, -1, [c.e], True) is None
    assert loops(c.e) == ["64", "4", "32"]
    assert "threadIdx.x" in str(c.e.axis(1))
    assert loops(c.b) == ["64", "1", "1"]
    assert loops(c.s) == ["64", "128"]  # the broadcast has nothing of the axis that it could follow
    with FusionDefinition() as fd:
        x = fd.define_tensor([4, 6], True)
        y = fd.ops.neg(x)
        z = fd.ops.pad(y, [1, 1, 0, 0])
        fd.add_output(z)
    z.merge(0)
    (reason,) = fd.sched.transform_like(z)
    assert re.match(r"tv1: .*resized", reason)
    assert loops(y) == ["4", "6"]


def test_inlining(c):
    c.fd.sched.inline_at(c.y, 1)
    assert c.fd.sched.text().count("computed at 1") == 3
    c.fd.sched.inline_most([c.b])
    assert "computed at 2" in c.fd.sched.text()
    with pytest.raises(InvalidArgument, match="position 2 is too far for tv2: axis 1 of tv2 is reduced"):
        c.fd.sched.inline_at(c.y, 2)
    c.fd.sched.inline_at(c.y, -1, best_effort=True, selected_tensors=[c.e])


def test_the_script_makes_the_schedule_again(c):
    c.x.cache_after()
    c.y.split(1, 32)
    c.y.reorder({0: 1})
    c.fd.sched.transform_like(c.y)
    c.y.axis(0).parallelize(ParallelType.block_x)
    c.fd.sched.inline_most()
    script = c.fd.sched.script()
    assert script == (
        "tv5 = tv0.cache_after()\ntv4.split(1, 32)\ntv4.reorder({0: 1})\ntransform_like(tv4)\n"
        "tv4.parallelize(0, block_x)\ninline_most()\n"
    )
    again = Chain()
    again.fd.sched.run_script(script)
    assert again.fd.sched.text() == c.fd.sched.text()
    assert again.fd.sched.script() == script
    with pytest.raises(InvalidArgument, match=r"^line 2: split\(\): factor is 0; it must be positive$"):
        Chain().fd.sched.run_script("tv4.merge(0)\ntv4.split(0, 0)")


def test_module_functions_act_on_the_current_fusion():
    with FusionDefinition() as fd:
        x = fd.define_tensor([4], True)
        fd.add_output(fd.ops.exp(fd.ops.neg(x)))
        schedule.inline_most()
    assert fd.sched.script() == "inline_most()\n"
    with pytest.raises(InvalidArgument, match="none is being defined"):
        schedule.inline_most()


def test_sched_has_the_functions_and_nothing_else():
    fd = FusionDefinition()
    assert {"inline_most", "transform_like", "can_schedule", "script"} <= set(dir(fd.sched))
    for name in ("prepare", "as_list", "SchedulerType", "json", "no_such_call"):
        assert name not in dir(fd.sched)
        with pytest.raises(AttributeError, match=f"fd.sched has no function '{name}'"):
            getattr(fd.sched, name)


def test_an_axis_that_was_split(c):
    axis = c.y.axis(1)
    c.y.split(1, 4)
    with pytest.raises(InvalidArgument, match="the axis is in no loop domain: it was split or merged"):
        axis.parallelize(ParallelType.block_x)
    with pytest.raises(InvalidArgument, match="the axis is not in the loop domain of tv4"):
        c.y.split(axis, 2)
    assert extents([axis]) == ["128"]


def test_operations_after_the_first_schedule_call():
    with FusionDefinition() as fd:
        x = fd.define_tensor([4], True)
        y = fd.ops.neg(x)
        fd.add_output(y)
        y.split(0, 2)
        for use in (
            lambda: fd.ops.neg(y),
            lambda: y + y,
            lambda: fd.add_output(y),
            lambda: fd.define_tensor([4], True),
            lambda: fd.define_scalar(),
            lambda: y // 2,
        ):
            with pytest.raises(InvalidArgument, match="the fusion is being scheduled"):
                use()
        assert "4" in str(y.size(0))
        assert fd.define_scalar(3.0) is not None
        copy = y.cache_before()  # its number must not be that of the constant
        assert copy.is_tensor()
    assert "neg" in repr(fd)
    assert "cache" not in repr(fd)


@pytest.mark.parametrize(
    ("prepare", "use", "error", "text"),
    [
        ("", "y.split(2, 4)", InvalidArgument, "split(): axis 2 is out of range for tv4, which has 2 axes"),
        ("", "y.split(0, 0)", InvalidArgument, "split(): factor is 0; it must be positive"),
        ("", "y.split(0)", InvalidType, 'split() needs argument "factor"; its arguments are axis, factor, inner_split'),
        ("", "y.split(0, 2.5)", InvalidType, "split(): factor must be an int, got 2.5"),
        ("", "y.split(0, True)", InvalidType, "split(): factor must be an int, got True"),
        ("", "y.split(0, 2, nothing=1)", InvalidType, 'split() has no argument "nothing"'),
        ("", "x.split(0, 2)", InvalidArgument, "split(): tv0 is an input of the fusion and has no loops"),
        ("", "y.merge(0, 0)", InvalidArgument, "merge(): axis 0 of tv4 cannot be merged with itself"),
        ("", "s.merge(0)", InvalidArgument, "merge(): an axis of tv2 that is reduced and one that is not cannot"),
        ("", "y.reorder({0: 1, 1: 1})", InvalidArgument, "reorder(): two axes of tv4 are moved to position 1"),
        ("", "y.reorder([0, 1])", InvalidType, "reorder(): old2new must be a dict of ints, got [0, 1]"),
        ("", "y.parallelize(0, 'grid')", InvalidArgument, "grid, which is not a member of ParallelType"),
        ("", "y.parallelize(0, 3)", InvalidType, "parallelize(): parallel_type must be a ParallelType, got 3"),
        (
            "y.parallelize(0, P.block_x)",
            "y.parallelize(1, P.block_x)",
            InvalidArgument,
            "parallelize(): axes 0 and 1 of tv4 cannot both be threadIdx.x",
        ),
        (
            "e.parallelize(0, P.block_x); y.parallelize(0, P.block_y)",
            "sched.inline_at(y, 1)",
            InvalidArgument,
            "axis 0 of tv1 and axis 0 of tv4 share a loop that is threadIdx.x for one and threadIdx.y for the other",
        ),
        (
            "sched.inline_at(y, 1); e.parallelize(0, P.block_x)",
            "y.parallelize(0, P.block_y)",
            InvalidArgument,
            "axis 0 of tv1 and axis 0 of tv4 share a loop",
        ),
        (
            "y.split(1, 8)",
            "y.parallelize(2, P.vectorize)",
            InvalidArgument,
            "axis 2 of tv4 cannot be vectorize, because 8 elements of Float have not 1, 2, 4, 8 or 16 bytes",
        ),
        (
            "",
            "s.parallelize(1, P.vectorize)",
            InvalidArgument,
            "axis 1 of tv2 cannot be vectorize, because it",
        ),
        ("y.parallelize(0, P.grid_x)", "y.split(0, 2)", InvalidArgument, "axis 0 of tv4 is parallelized as blockIdx.x"),
        ("sched.inline_most()", "b.split(0, 2)", InvalidArgument, "axis 0 of tv3 is left of position 2"),
        (
            "",
            "y.rfactor([0])",
            InvalidArgument,
            "rfactor(): tv4 is the result of sub(), which cannot be computed",
        ),
        ("", "s.rfactor([0])", InvalidArgument, "rfactor(): axis 0 of tv2 is not reduced"),
        (
            "",
            "s.rfactor([1])",
            InvalidArgument,
            "rfactor(): axes are all of the reduction axes of tv2",
        ),
        (
            "",
            "y.set_memory_type(M.shared)",
            InvalidArgument,
            "tv4 is an output of the fusion, which lives",
        ),
        (
            "",
            "x.set_memory_type(M.local)",
            InvalidArgument,
            "tv0 is an input of the fusion, which lives",
        ),
        ("", "e.set_memory_type(M.symmetric)", Unsupported, "MemoryType.symmetric has no meaning in this build"),
        (
            "",
            "e.swizzle(0, 1)",
            InvalidArgument,
            "swizzle(): tv1 must be in shared memory",
        ),
        (
            "",
            "e.set_allocation_domain([e.axis(0)], True)",
            InvalidArgument,
            "the domain for tv1 is not made from",
        ),
        (
            "",
            "e.set_allocation_domain([y.axis(0)], True)",
            InvalidArgument,
            "[0] is not an axis of tv1",
        ),
        (
            "",
            "e.circular_buffer(2, 2)",
            InvalidArgument,
            "2 stages with a prefetch distance of 2",
        ),
        (
            "",
            "x.cache_before()",
            InvalidArgument,
            "tv0 is an input of the fusion and is not computed",
        ),
        ("", "y.cache_after()", InvalidArgument, "cache_after(): nothing reads tv4"),
        ("", "y.swizzle1d(0, P.mesh_x)", Unsupported, "axis 0 of tv4 would be permuted by mesh_x"),
        ("", "sched.warp_specialize(e, 2, 1, P.block_y)", Unsupported, "all warps of a block run one program"),
        ("", "e.set_device_mesh(None)", Unsupported, "set_device_mesh() is not supported"),
        ("", "sched.transform_like(3)", InvalidType, "transform_like(): reference_tv must be a tensor, got 3"),
        ("", "sched.transform_like(y, [s, 1])", InvalidType, "selected_tensors must be a list of tensors"),
        ("", "sched.inline_at(y, 3)", InvalidArgument, "position 3 is out of range for tv4, which has 2 axes"),
    ],
)
def test_illegal_calls_change_nothing(c, prepare, use, error, text):
    names = {"x": c.x, "e": c.e, "s": c.s, "b": c.b, "y": c.y, "sched": c.fd.sched, "P": ParallelType, "M": MemoryType}
    for line in filter(None, prepare.split("; ")):
        eval(line, names)
    before = c.fd.sched.text() + c.fd.sched.script()
    with pytest.raises(error) as failure:
        eval(use, names)
    assert text in str(failure.value)
    assert isinstance(failure.value, FusionError)
    assert "goroutine" not in str(failure.value)
    assert c.fd.sched.text() + c.fd.sched.script() == before


def test_a_refusal_is_data(c):
    with pytest.raises(Unsupported) as failure:
        c.fd.sched.warp_specialize(c.e, 2, 1, ParallelType.block_y)
    ((by, rule, tensor, sentence),) = failure.value.refusals
    assert (by, rule, tensor) == ("schedule", "warp specialization", "tv1")
    assert "circular_buffer()" in sentence


def test_values_of_another_fusion(c):
    other = Chain()
    with pytest.raises(InvalidArgument, match="belongs to another fusion"):
        c.fd.sched.transform_like(c.y, [other.y])
    with pytest.raises(InvalidArgument, match="is an axis of another fusion"):
        c.y.set_loop_domain(other.y.get_loop_domain())


def test_tensors_outlive_the_definition():
    c = Chain()
    y = c.y
    del c
    y.split(0, 4)
    assert loops(y) == ["16", "4", "128"]


def test_signatures_are_those_of_the_table():
    for row in schedule.PRIMITIVES:
        if row["method"]:
            continue
        names = [p["name"] for p in row["parameters"]]
        names = ["from_tv" if name == "from" else name for name in names]
        function = inspect.signature(getattr(schedule, row["name"]))
        assert list(function.parameters) == names, row["name"]
        assert [p.default is not p.empty for p in function.parameters.values()] == [
            p["optional"] for p in row["parameters"]
        ]
    assert "inner one if inner_split" in Chain().y.split.__doc__


def test_threads_schedule_one_fusion():
    with FusionDefinition() as fd:
        x = fd.define_tensor([1024], True)
        tensors = [fd.ops.add(x, float(i)) for i in range(8)]
        for t in tensors:
            fd.add_output(t)
    failures = []

    def work(t) -> None:
        try:
            for _ in range(20):
                t.split(-1, 2)
                assert loops(t)[-1] == "2"
                t.merge(-2, -1)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(t,)) for t in tensors]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert len(fd.sched.script().splitlines()) == 8 * 40
    outputs = fd.manual_execute([torch.arange(1024.0)])
    assert all(torch.equal(o, torch.arange(1024.0) + i) for i, o in enumerate(outputs))


def test_the_stub_has_the_table():
    stub = (Path(schedule.__file__).parent / "_C.pyi").read_text()
    for row in schedule.PRIMITIVES:
        if row["method"]:
            found = re.search(rf"    def {row['name']}\(\s*self(.*?)\) ->", stub, re.DOTALL)
            assert found, row["name"]
            assert re.findall(r"(\w+):", found[1]) == [p["name"] for p in row["parameters"]], row["name"]


def row_sums():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        s = fd.ops.sum(fd.ops.relu(x), dims=[1])
        fd.add_output(s)
    return fd, s


def test_schedulers():
    fd, s = row_sums()
    t = torch.randn(13, 70)
    assert fd.sched.can_schedule(fd.fusion, SchedulerType.reduction, [t]) == (True, "")
    can, why = fd.sched.can_schedule(fd.fusion, SchedulerType.pointwise, [t])
    assert (can, why) == (False, "tv2 is the result of sum(), a reduction operation")
    assert "no scheduler matmul" in fd.sched.can_schedule(fd.fusion, SchedulerType.matmul, [t])[1]
    assert schedule.find_compatible_schedulers(fd.fusion, [t]) == [SchedulerType.reduction]
    params = fd.sched.compute_heuristics(fd.fusion, SchedulerType.reduction, [t])
    assert isinstance(params, ReductionParams)
    assert (params.fastest_dim, params.lparams.bdimx) == (True, 128)
    assert hash(params) == hash(fd.sched.compute_heuristics(fd.fusion, SchedulerType.reduction, [t]))
    assert "fastest_dim=True" in str(params)
    params.lparams.bdimx = 64
    fd.sched.schedule(fd.fusion, SchedulerType.reduction, params)
    assert '"Lanes": 64' in fd.sched.script()
    assert torch.allclose(fd.manual_execute([t], params)[0], t.relu().sum(1), atol=1e-5)
    with pytest.raises(InvalidArgument, match="is scheduled already"):
        fd.sched.schedule(fd.fusion, SchedulerType.reduction, params)
    assert s.definition() is not None


def test_a_scheduler_of_rows():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(x / fd.ops.broadcast(fd.ops.sum(x, dims=[1]), [False, True]))
    t = torch.rand(13, 70) + 1
    params = fd.sched.compute_heuristics(fd.fusion, SchedulerType.inner_persistent, [t])
    assert isinstance(params, ReductionParams)
    assert (params.scheduler_type, params.persistent_kernel) == (SchedulerType.inner_persistent, True)
    assert params.lparams.bdimx * params.unroll_factor_inner_reduction * params.batches_per_block_inner_reduction >= 70
    params.lparams.bdimy *= 2
    fd.sched.schedule(fd.fusion, SchedulerType.inner_persistent, params)
    assert f'"Rows": {params.lparams.bdimy}' in fd.sched.script()
    assert torch.allclose(fd.manual_execute([t], params)[0], t / t.sum(1, keepdim=True))


def test_a_scheduler_by_inputs():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.exp(x))
    t = torch.randn(300)
    params = fd.sched.schedule(fd.fusion, SchedulerType.pointwise, [t])
    assert isinstance(params, PointwiseParams)
    assert params.lparams.bdimx == 128
    fd.sched.inline_most()  # calls may follow
    assert torch.allclose(fd.manual_execute([t])[0], t.exp())


def test_errors_of_schedulers():
    fd, _ = row_sums()
    t = torch.randn(3, 7)
    with pytest.raises(Unsupported, match="pointwise does not take this fusion") as failure:
        fd.sched.compute_heuristics(fd.fusion, SchedulerType.pointwise, [t])
    assert failure.value.refusals[0][:3] == ("pointwise", "operation", "tv2")
    with pytest.raises(Unsupported, match="pointwise does not take this fusion"):
        fd.sched.schedule(fd.fusion, SchedulerType.pointwise, [t])
    with pytest.raises(InvalidArgument, match="input 0"):
        fd.sched.can_schedule(fd.fusion, SchedulerType.reduction, [t[0]])
    with pytest.raises(InvalidType, match="must be a SchedulerType"):
        fd.sched.can_schedule(fd.fusion, "reduction", [t])
    with pytest.raises(InvalidType, match="must be a Fusion"):
        fd.sched.can_schedule(fd, SchedulerType.reduction, [t])
    with pytest.raises(InvalidArgument, match="must come from compute_heuristics"):
        fd.sched.schedule(fd.fusion, SchedulerType.reduction, ReductionParams())
    params = fd.sched.compute_heuristics(fd.fusion, SchedulerType.reduction, [t])
    with pytest.raises(InvalidArgument, match=r"are of SchedulerType.reduction, not of SchedulerType.pointwise"):
        fd.sched.schedule(fd.fusion, SchedulerType.pointwise, params)
    params.lparams.bdimx = -3
    with pytest.raises(Unsupported, match="-3x16 threads is not possible"):
        fd.sched.schedule(fd.fusion, SchedulerType.reduction, params)
    params.lparams.bdimx = "many"
    with pytest.raises(InvalidArgument, match="are not those of reduction"):
        fd.sched.schedule(fd.fusion, SchedulerType.reduction, params)
    assert fd.execute([t])[0].shape == (3,)  # nothing was scheduled
