"""Running fusions by the compiled module _C: inputs and outputs, threads, memory, forks and signals."""

import gc
import itertools
import math
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import torch
from extension import FLOAT, INT, built, matrix

from nvfuser_go import _C, DataType, FusionError, InvalidArgument, InvalidType
from nvfuser_go._C import ops


def run_python(script: str, **environment: str) -> str:
    """The output of a script in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=os.environ | environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- Execution ----


@pytest.mark.parametrize("kind", ["RuntimeError", "AssertionError", "MemoryError"])
def test_what_torch_raises_instead_of_memory(kind):
    program = f"""
        import torch

        def fail(*args, **kwargs):
            raise {kind}("Torch not compiled with CUDA enabled\\nmore")

        torch.empty_strided = fail
        from nvfuser_go import FusionDefinition, FusionError

        with FusionDefinition() as fd:
            fd.add_output(fd.ops.add(fd.define_tensor([2]), 1.0))
        try:
            fd.execute([torch.ones(2)])
        except FusionError as failure:
            print(failure, type(failure.__cause__).__name__)
    """
    assert run_python(program) == (
        f"execute(): output 0 of shape [2] needs 8 bytes: Torch not compiled with CUDA enabled {kind}\n"
    )


def test_inputs_of_all_kinds():
    fusion = _C.Fusion()
    x = matrix(fusion)
    scalars = [
        fusion.define_scalar(dtype.value)
        for dtype in (DataType.Bool, DataType.Int, DataType.Double, DataType.ComplexDouble)
    ]
    for scalar in scalars:
        fusion.add_output(x * scalar)
    executor = _C.executor(fusion)
    a = torch.nn.Parameter(torch.randn(3, 4))
    numbers = [True, 3, 0.5, 1 + 2j]
    outputs = executor.execute([a, *numbers])
    for tensor, number in zip(outputs, numbers, strict=True):
        torch.testing.assert_close(tensor, (a * number).detach())
        assert type(tensor) is torch.Tensor and not tensor.requires_grad
    assert executor.fusion is fusion
    assert len(executor.execute((a, True, True, True, True))) == 4
    with pytest.raises(InvalidType, match=r"input 2 \(.*\) is a scalar of Int, got Double"):
        executor.execute([a, True, 0.5, 0.5, 1j])
    with pytest.raises(InvalidArgument, match=f"input 2 is {2**64}, which does not fit"):
        executor.execute([a, True, 2**64, 0.5, 1j])


def test_views_are_read_by_their_strides():
    fusion = _C.Fusion()
    fusion.add_output(fusion.define_tensor([-1, -1], [False, False], FLOAT, False, None) + 0.0)
    executor = _C.executor(fusion)
    base = torch.randn(8, 10)
    for view in (base[1:7:2, 3:], base[:, ::2], base[2:4], base[:0]):
        assert torch.equal(executor.execute([view])[0], view)


def test_many_inputs_of_many_dimensions():
    fusion = _C.Fusion()
    rank = 30
    total = 0.0
    for _ in range(40):
        total = total + fusion.define_tensor([-1] * rank, [True] * rank, FLOAT, False, None)
    fusion.add_output(total)
    a = torch.randn([2] * 3 + [1] * (rank - 3))
    (tensor,) = _C.executor(fusion).execute([a] * 40)
    torch.testing.assert_close(tensor, a * 40)


def test_many_outputs(fusion, x):
    for i in range(40):
        fusion.add_output(x + i)
    fusion.add_output(fusion.outputs()[3][0])
    outputs = _C.executor(fusion).execute([torch.zeros(2, 2)])
    assert [int(t[0, 0]) for t in outputs] == [*range(40), 3]
    assert outputs[40] is outputs[3]


def test_written_inputs(fusion, x):
    fusion.add_output(x + 1, x)
    fusion.add_output(x * 2)
    executor = _C.executor(fusion)
    a = torch.ones(2, 2)
    version = a._version
    (doubled,) = executor.execute([a])
    assert torch.equal(a, torch.full((2, 2), 2.0)) and torch.equal(doubled, torch.full((2, 2), 2.0))
    assert a._version > version  # so that autograd notices
    with torch.inference_mode():
        b = torch.ones(2, 2)
        executor.execute([b])
        assert b[0, 0] == 2
    negative = torch.view_as_complex(torch.ones(2, 2, 2)).conj().imag
    assert negative.is_neg()
    with pytest.raises(InvalidArgument, match="input 0 is a conjugate or negative view"):
        executor.execute([negative])


def test_conjugate_and_negative_views():
    fusion = _C.Fusion()
    x = fusion.define_tensor([-1, -1], [False, False], DataType.ComplexFloat.value, False, None)
    y = fusion.define_tensor([-1, -1], [False, False], FLOAT, False, None)
    fusion.add_output(x + y)
    executor = _C.executor(fusion)
    a = torch.randn(3, 4, dtype=torch.complex64)
    for left in (a, a.conj(), torch._neg_view(a)):
        for right in (a.imag, a.conj().imag, a.real, a.t().conj().imag.t()):
            torch.testing.assert_close(executor.execute([left, right])[0], left + right)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(2, 2, device="meta"), "input 0 is a meta tensor"),
        (torch.eye(2).to_sparse(), r"input 0 is a tensor of layout torch\.sparse_coo"),
        (torch.ones(2, 2, dtype=torch.int8), r"input 0 has dtype torch\.int8, which fusions do not have"),
        (torch.ones([1] * 40), "input 0 has 40 dimensions; at most 32"),
        ("text", "input 0 is of type str"),
        (None, "input 0 is of type NoneType"),
    ],
    ids=["meta", "sparse", "int8", "rank", "str", "None"],
)
def test_inputs_that_cannot_be_read(tensor, message):
    with pytest.raises(FusionError, match=message):
        built(lambda x: x + 1).execute([tensor])


def test_memory_that_was_freed():
    a = torch.ones(2, 2)
    a.untyped_storage().resize_(0)
    with pytest.raises(InvalidArgument, match="no memory"):
        built(lambda x: x + 1).execute([a])


def test_fake_tensors_are_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode

    executor = built(lambda x: x + 1)
    real = torch.ones(2, 2)
    with FakeTensorMode():
        fake = torch.ones(2, 2)
        with pytest.raises(FusionError, match=r"FakeTensorMode"):
            executor.execute([real])
    with pytest.raises(InvalidType, match="FakeTensor"):
        executor.execute([fake])


def test_vmap_is_refused():
    executor = built(lambda x: x + 1)
    with pytest.raises(FusionError, match="input 0"):
        torch.func.vmap(lambda t: executor.execute([t])[0])(torch.ones(3, 2, 2))


def test_arrays_in_and_out():
    (array,) = built(lambda x: x + 1).execute([np.ones((2, 2), np.float32)])
    assert isinstance(array, np.ndarray) and array[0, 0] == 2


def test_default_device_and_dtype_do_not_matter():
    executor = built(lambda x: x + 1)
    torch.set_default_device("meta")
    try:
        (tensor,) = executor.execute([torch.ones(2, 2, device="cpu")])
    finally:
        torch.set_default_device(None)
    assert tensor.device.type == "cpu" and tensor[0, 0] == 2


def test_random_runs_follow_the_seed_of_torch():
    fusion = _C.Fusion()
    fusion.add_output(ops.rand_like(matrix(fusion)))
    executor = _C.executor(fusion)
    a = torch.ones(4, 4)
    torch.manual_seed(1)
    first, second = executor.execute([a])[0], executor.execute([a])[0]
    torch.manual_seed(1)
    assert torch.equal(executor.execute([a])[0], first) and not torch.equal(first, second)
    state = torch.get_rng_state()
    built(lambda x: x + 1).execute([a])
    assert torch.equal(torch.get_rng_state(), state)  # only random programs draw


def test_an_error_returns_nothing():
    fusion = _C.Fusion()
    x = fusion.define_tensor([-1], [True], INT, False, None)
    s = fusion.define_scalar(INT)
    fusion.add_output(ops.add(x, ops.div(6, s)))
    executor = _C.executor(fusion)
    a = torch.ones(3, dtype=torch.int64)
    assert executor.execute([a, 2])[0].tolist() == [4, 4, 4]
    with pytest.raises(InvalidArgument, match="zero"):
        executor.execute([a, 0])


def test_large_fusions():
    """Whose plans are made without the lock of the interpreter."""
    fusion = _C.Fusion()
    y = x = matrix(fusion)
    for _ in range(1000):
        y = y + x
    fusion.add_output(y)
    executor = _C.executor(fusion)

    def body(k):
        assert executor.execute([torch.ones(k + 1, 2)])[0].sum() == 1001 * 2 * (k + 1)

    in_threads(8, body)
    with pytest.raises(InvalidArgument, match="has 1 dimension"):
        executor.execute([torch.ones(2)])


def test_execute_takes_a_list():
    executor = built(lambda x: x + 1)
    for wrong in (torch.ones(2, 2), None, {}, "text"):
        with pytest.raises(InvalidType, match="inputs must be a list"):
            executor.execute(wrong)
    with pytest.raises(TypeError, match="takes from 1 to 2 arguments"):
        executor.execute()
    with pytest.raises(TypeError, match="takes a Fusion"):
        _C.executor(3)


def test_a_torch_without_the_exchange_api():
    """Tensors are then read by their attributes."""
    run_python("""
        import torch
        del torch.Tensor.__dlpack_c_exchange_api__
        import nvfuser_go
        from nvfuser_go import _C, FusionDefinition, InvalidType
        with FusionDefinition() as fd:
            x = fd.define_tensor(shape=[-1, -1], contiguity=[False, False])
            fd.add_output(x * 2.0)
        base = torch.randn(6, 8)
        for a in (base, base[::2, 1:], base[:0], base.requires_grad_()):
            assert torch.equal(fd.execute([a])[0], (a * 2).detach())
        a = torch.view_as_complex(torch.ones(2, 2, 2)).conj().imag
        assert torch.equal(fd.execute([a])[0], a * 2)
        for wrong in (torch.ones(2, 2, device="meta"), torch.eye(2).to_sparse(), torch.ones(2, 2, dtype=torch.int8)):
            try:
                fd.execute([wrong])
                raise SystemExit(f"{wrong} was taken")
            except InvalidType as error:
                assert "input 0" in str(error)
    """)


# ---- Threads ----


def in_threads(count, body):
    """Runs body(k) in threads at once and raises what one of them raised."""
    failures = []
    start = threading.Barrier(count)

    def guarded(k):
        try:
            start.wait()
            body(k)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_define_fusions_of_their_own():
    def body(k):
        for i in range(20):
            fusion = _C.Fusion()
            _C.push_fusion(fusion)
            total = ops.full([3], float(k), DataType.Float)
            for _ in range(20):
                total = total + i
            assert total.fusion is fusion
            fusion.add_output(total)
            _C.pop_fusion(fusion)
            assert _C.executor(fusion).execute([])[0].tolist() == [k + 20.0 * i] * 3

    in_threads(12, body)


def test_threads_share_an_executor():
    executor = built(lambda x, y: ops.sum(x * y, [1]), inputs=2)

    def body(k):
        a, b = torch.randn(5 + k % 3, 7), torch.randn(5 + k % 3, 7)
        big = torch.randn(300, 500)  # on another thread than the caller's
        for _ in range(20):
            torch.testing.assert_close(executor.execute([a, b])[0], (a * b).sum(1))
        torch.testing.assert_close(executor.execute([big, big])[0], (big * big).sum(1))

    in_threads(12, body)


def test_threads_define_and_delete_while_others_run():
    executor = built(lambda x: ops.exp(x))
    a = torch.randn(400, 400)

    def body(k):
        for _ in range(50):
            if k % 2:
                torch.testing.assert_close(executor.execute([a])[0], a.exp())
            else:
                x = matrix(_C.Fusion())
                x.fusion.add_output(x + k)
                del x

    in_threads(6, body)


def test_inputs_may_change_hands_during_a_run():
    """Another thread empties the list and drops the tensors while the lock of the interpreter is released."""
    executor = built(lambda x: ops.exp(ops.sin(x)))
    for _ in range(5):
        inputs = [torch.full((600, 600), 0.5)]
        thread = threading.Thread(target=inputs.clear)
        thread.start()
        try:
            (tensor,) = executor.execute(inputs)
        except InvalidArgument as error:
            assert "got 0" in str(error)  # it was empty before
        else:
            torch.testing.assert_close(tensor, torch.full((600, 600), math.exp(math.sin(0.5))))
        thread.join()


# ---- Leaks ----


def growth(body, rounds, warm):
    """The growth of memory over rounds of body, in bytes of the process and in blocks of Python's allocator.

    It is that of the quarter of the rounds that grew least: what leaks grows in each, and collectors run when they do.
    """

    def measure():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE"), sys.getallocatedblocks()

    for _ in range(warm):
        body()
    seen = [measure()]
    for _ in range(4):
        for _ in range(rounds // 4):
            body()
        seen.append(measure())
    return tuple(4 * min(after[k] - before[k] for before, after in itertools.pairwise(seen)) for k in range(2))


MEGABYTE = 1 << 20


def test_definitions_do_not_leak():
    """10^5 operations, every tenth of which fails."""

    def body():
        x = matrix(_C.Fusion())
        for i in range(90):
            x = ops.sum(x, dims=[-1], keepdim=True) if i % 10 == 9 else x + 1.5
        for wrong in ("text", 2**70, [[x]], None, [0, 2**80]):
            for _ in range(2):
                with pytest.raises(FusionError):
                    ops.add(x, wrong)
        x.fusion.add_output(x)
        str(x.definition().input(0)), x.fusion.text(), x.fusion.inputs(), x.uses(), x.axis(0)

    memory, blocks = growth(body, 1000, 300)
    assert memory < 16 * MEGABYTE and blocks < 200


def test_runs_do_not_leak():
    """10^5 runs, and failing ones."""
    fusion = _C.Fusion()
    x, y = (fusion.define_tensor([-1, -1], [False, False], FLOAT, False, None) for _ in range(2))
    fusion.add_output((x + y) * 2.0)
    executor = _C.executor(fusion)
    a, b, wrong = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3)
    negative = torch.view_as_complex(torch.ones(2, 3, 2)).conj().imag
    assert negative.is_neg()
    array = np.ones((2, 3), np.float32)
    inputs = [a, b]
    references = sys.getrefcount(a), sys.getrefcount(inputs)

    def body():
        for _ in range(100):
            executor.execute(inputs)
        for bad in ([a], [a, wrong], [a, "x"], [a, 2**70], [a, torch.ones(2, 3, device="meta")]):
            with pytest.raises(FusionError):
                executor.execute(bad)
        executor.execute([array, array])
        executor.execute([a, negative])

    memory, blocks = growth(body, 1000, 100)
    assert memory < 16 * MEGABYTE and blocks < 500  # a leak is 1000; pools of torch and numpy grow by up to 210
    assert (sys.getrefcount(a), sys.getrefcount(inputs)) == references


def test_errors_do_not_leak():
    """Their texts come from the memory of C."""
    x = matrix(_C.Fusion())
    wrong = [0.5] * 8

    def body():
        for _ in range(1000):
            try:
                ops.add(x, wrong)
            except InvalidType:
                continue

    # Go's heap comes to its size, twice of what lives, in the rounds before: what other tests left lives too.
    memory, blocks = growth(body, 200, 200)
    assert memory < 16 * MEGABYTE and blocks < 200


def test_executors_do_not_leak():
    """Definitions that are all different: the process keeps a bounded number of executors."""
    count = iter(range(10**9))
    a = torch.ones(2, 2)

    def body():
        for _ in range(10):
            x = matrix(_C.Fusion())
            x.fusion.add_output(x + next(count))
            _C.executor(x.fusion).execute([a])

    memory, blocks = growth(body, 500, 200)
    assert memory < 24 * MEGABYTE and blocks < 200


# ---- Fork and signals ----


def test_after_a_fork_calls_raise():
    out = run_python("""
        import os, sys
        import torch
        from nvfuser_go import _C, DataType, FusionError
        fusion = _C.Fusion()
        x = fusion.define_tensor([2], [True], 8, False, None)
        fusion.add_output(x + 1)
        executor = _C.executor(fusion)
        child = os.fork()
        if child == 0:
            calls = [
                lambda: x + 1, lambda: x == 1, lambda: x // 2, lambda: bool(x), lambda: str(x), lambda: x.ndim,
                lambda: x.shape(), lambda: x.axis(0), lambda: _C.ops.add(x, 1),
                lambda: executor.execute([torch.ones(2)]), lambda: fusion.text(), lambda: fusion.inputs(),
                lambda: fusion.add_output(x), lambda: fusion.define_scalar(3), lambda: fusion.frozen,
                lambda: fusion.constant(1), lambda: _C.Fusion(), lambda: _C.Fusion.parse(''),
                lambda: _C.executor(fusion),
            ]
            for call in calls:
                try:
                    call()
                    os._exit(1)
                except FusionError as error:
                    assert "spawn" in str(error)
            del x, fusion, executor, calls
            print("child done", flush=True)
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(executor.execute([torch.ones(2)])[0].tolist())
    """)
    assert out.splitlines() == ["child done", "[2.0, 2.0]"]


def test_a_long_run_can_be_interrupted():
    """Left alone it would take minutes."""
    out = run_python("""
        import os, signal, threading, time
        import torch
        from nvfuser_go import _C
        fusion = _C.Fusion()
        x = fusion.define_tensor([-1, -1], [True, True], 8, False, None)
        y = x
        for _ in range(2000):
            y = _C.ops.sin(_C.ops.exp(y))
        fusion.add_output(y)
        executor = _C.executor(fusion)
        a = torch.ones(3000, 3000)
        # A process in the background of a script, as CI may start the tests, ignores SIGINT.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            executor.execute([a])
            print("it ended")
        except KeyboardInterrupt:
            print("interrupted")
        print(executor.execute([torch.zeros(1, 1)])[0].shape)
    """)
    assert out.splitlines() == ["interrupted", "torch.Size([1, 1])"]


def test_the_interpreter_ends_while_a_thread_runs():
    run_python("""
        import threading, time
        import torch
        from nvfuser_go import _C
        fusion = _C.Fusion()
        x = fusion.define_tensor([-1, -1], [True, True], 8, False, None)
        y = x
        for _ in range(500):
            y = _C.ops.exp(_C.ops.sin(y))
        fusion.add_output(y)
        executor = _C.executor(fusion)
        a = torch.ones(2000, 2000)
        threading.Thread(target=lambda: executor.execute([a]), daemon=True).start()
        time.sleep(0.3)
    """)
