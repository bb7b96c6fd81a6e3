"""Plans in C memory: how they are found, evicted, and outlive what made them; execute() of FusionDefinition in C."""

import gc
import inspect
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch
from extension import built
from test_extension_run import run_python

from nvfuser_go import _C, DataType, FusionDefinition, FusionExecutorCache, InvalidArgument, InvalidType

PLANS = 256  # that an executor keeps, as capi/plans.go has it


def scaled() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[False, False], dtype=DataType.Float)
        fd.add_output(fd.ops.mul(x, fd.define_scalar(DataType.Double)))
    return fd


def matrix(rows: int, columns: int) -> torch.Tensor:
    return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns)


def test_inputs_of_other_kinds_in_turn():
    fd = scaled()
    kinds = [matrix(3, 4), matrix(4, 3), matrix(4, 3).t(), matrix(8, 8)[1::2, ::2], matrix(3, 4)[:0], matrix(1, 1)]
    for _ in range(3):
        for x in kinds:
            for factor in (2.0, -0.5, True, 3, 2**40):
                (y,) = fd.execute([x, factor])
                assert torch.equal(y, x * float(factor)), (x.shape, x.stride(), factor)


def test_the_last_plan_is_not_that_of_inputs_that_do_not_fit():
    fd = scaled()
    x = matrix(2, 2)
    fd.execute([x, 1.0])
    for wrong, message in (
        ([x], "1"),
        ([x, 1.0, 1.0], "3"),
        ([1.0, x], "input 0"),
        ([x.double(), 1.0], "input 0"),
        ([x.reshape(4), 1.0], "1 dimensions|1 dimension"),
        ([x, 1j], "input 1"),
    ):
        with pytest.raises((InvalidArgument, InvalidType), match=message):
            fd.execute(wrong)
        assert torch.equal(fd.execute([x, 1.0])[0], x)
    freed = matrix(2, 2)
    fd.execute([freed, 1.0])
    freed.untyped_storage().resize_(0)
    with pytest.raises(InvalidArgument, match="no memory"):
        fd.execute([freed, 1.0])


def test_a_size_that_a_scalar_decides_is_not_that_of_the_last_plan():
    with FusionDefinition() as fd:
        n = fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.iota(n))
    for n in (3, 5, 3, 4, 0):
        assert fd.execute([n], device="cpu")[0].tolist() == list(range(n))


def test_a_number_of_the_same_kind_that_does_not_fit():
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Int)
        fd.add_output(fd.ops.add(x, fd.define_scalar(DataType.Int32)))
    x = torch.arange(4)
    for n in (1, 2, -(2**31)):
        assert torch.equal(fd.execute([x, n])[0], x + n)
        with pytest.raises(InvalidArgument, match="does not fit"):
            fd.execute([x, 2**31])


def test_inputs_that_are_written_may_come_to_overlap():
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float) for _ in range(2))
        fd.add_output(fd.ops.add(x, y), x)
    for apart in (8, 1, 8, 1, 0):
        memory = torch.arange(32, dtype=torch.float32)
        x, y = memory[:8], memory[apart : apart + 8]
        want = x + y
        fd.execute([x, y])
        assert torch.equal(x, want), apart


@pytest.mark.parametrize("options", [[], ["simulate"]])
def test_inputs_that_are_both_written_have_nothing_in_common(options):
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor(shape=[-1, -1], contiguity=[False, False], dtype=DataType.Float) for _ in range(2))
        fd.add_output(fd.ops.add(x, y), x)
        fd.add_output(fd.ops.neg(y), y)
    memory = torch.arange(64, dtype=torch.float32).reshape(8, 8)
    columns = memory[:, :4]
    for x, y in ((columns, columns), (memory[:4], memory[3:7]), (columns, memory[:, 3:7])):
        before = memory.clone()
        message = r"input 0 \(\w+\) and input 1 \(\w+\) each receive an output and share memory"
        with pytest.raises(InvalidArgument, match=message):
            fd.execute([x, y], _enable_options=options)
        assert torch.equal(memory, before)
    left, right = memory[:, :4], memory[:, 4:]  # interleaved in memory
    want = left + right, -right
    fd.execute([left, right], _enable_options=options)
    assert torch.equal(left, want[0]) and torch.equal(right, want[1])


def test_more_kinds_than_are_kept():
    executor = built(lambda x: x + 1)
    for _ in range(2):
        for n in range(PLANS + 40):
            x = torch.full((n, 2), float(n))
            assert torch.equal(executor.execute([x])[0], x + 1)
    assert executor.has_plan([x]) and not executor.has_plan([matrix(1000, 1)])


def test_asking_about_plans_does_not_change_which_was_last():
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=[True])
        fd.add_output(fd.ops.add(x, 1.0))
    small, large = torch.ones(4), torch.ones(100_000)
    fd.execute([large])
    fd.execute([small])
    shown = fd.last_cuda_code()
    executor = fd.fec._executor
    assert executor.has_plan([large]) and fd.fec.is_compiled([large]) and not executor.has_plan([torch.ones(5)])
    assert fd.fec.get_cuda_kernel([large]) != shown
    assert fd.last_cuda_code() == shown
    fd.execute([large])
    assert fd.last_cuda_code() == fd.fec.get_cuda_kernel([large])


def test_threads_evict_plans_that_others_run():
    executor = built(lambda x: x + 1)
    failures = []

    def run(first: int) -> None:
        for i in range(2 * PLANS):
            n = (first + i) % (PLANS + 50)
            x = torch.full((n, 3), float(n))
            if not torch.equal(executor.execute([x])[0], x + 1):
                failures.append(n)

    threads = [threading.Thread(target=run, args=(70 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_an_executor_may_go_while_it_runs():
    x = torch.zeros(300, 300)  # large enough for a thread of its own
    failures = []

    def run() -> None:
        for _ in range(30):
            if not torch.equal(built(lambda x: x + 1).execute([x])[0], x + 1):
                failures.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def resident() -> int:
    """Kilobytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def test_nothing_is_kept_of_plans_and_calls():
    executor = built(lambda x: x + 1)
    inputs = [torch.zeros(n, 2) for n in range(1, PLANS + 100)]
    counts = [sys.getrefcount(x) for x in inputs]

    def cycle() -> None:
        for x in inputs:
            executor.execute([x])
        for _ in range(20):
            built(lambda x: x + 1).execute([inputs[3]])
        gc.collect()

    def growth() -> int:
        before = resident()
        for _ in range(8):
            cycle()
        return resident() - before

    for _ in range(4):
        cycle()
    # What leaks does so each time; the heap of a process that ran other tests may grow once.
    assert any(growth() < 4096 for _ in range(4))
    assert [sys.getrefcount(x) for x in inputs] == counts


def test_a_call_leaves_no_references_on_an_error():
    executor = built(lambda x: x + 1)
    x, wrong = matrix(2, 2), torch.ones(2)
    counts = sys.getrefcount(x), sys.getrefcount(wrong)
    for _ in range(100):
        with pytest.raises(InvalidArgument):
            executor.execute([wrong])
        with pytest.raises(InvalidType):
            executor.execute([x, "text"])
    assert (sys.getrefcount(x), sys.getrefcount(wrong)) == counts


def test_a_list_that_another_input_changes():
    class Numbers(list):
        """Empties the list of inputs when it is flattened."""

        def __iter__(self):
            inputs.clear()
            return super().__iter__()

    fd = scaled()
    inputs = [matrix(2, 2), Numbers([2.0])]
    assert torch.equal(fd.execute(inputs)[0], matrix(2, 2) * 2)


# ---- FusionDefinition.execute ----


def test_execute_is_found_and_described():
    signature = inspect.signature(FusionDefinition.execute)
    assert list(signature.parameters)[1:] == [
        "inputs",
        "device",
        "save_repro_inputs",
        "_enable_options",
        "_disable_options",
    ]
    assert "Raises MissingDefinition" in FusionDefinition.execute.__doc__
    with pytest.raises(TypeError, match="unexpected keyword argument 'devices'"):
        scaled().execute([], devices=0)
    with pytest.raises(TypeError, match="inputs"):
        scaled().execute()


@pytest.mark.parametrize("call", [1, 2], ids=["first", "second"])
def test_keywords_of_execute(call):
    fd, x = scaled(), matrix(2, 2)
    if call == 2:
        fd.execute([x, 1.0])
    for options in (
        {"device": None, "save_repro_inputs": False, "_enable_options": [], "_disable_options": ()},
        {"device": "cpu", "_enable_options": ["simulate"]},
        {"save_repro_inputs": True},
    ):
        assert torch.equal(fd.execute([x, 2.0], **options)[0], 2 * x)
    assert "fd.execute(inputs)" in fd.last_repro_script()
    for options, message in (
        ({"device": 0}, "device is cuda:0, but input 0"),
        ({"device": -1}, "device is -1"),
        ({"device": 256}, "device is 256"),
        ({"device": 2**70}, "device is"),
        ({"device": True}, "device must be"),
        ({"_enable_options": ["nosuch"]}, "nosuch"),
        ({"_disable_options": ["nosuch"]}, "nosuch"),
    ):
        with pytest.raises((InvalidArgument, InvalidType), match=message):
            fd.execute([x, 2.0], **options)
    with pytest.raises(TypeError, match="enable_options"):
        fd.execute([x, 2.0], enable_options=[])
    with FusionDefinition() as factory:
        factory.add_output(factory.ops.iota(3))
    assert factory.execute([], device="cpu")[0].tolist() == [0, 1, 2]


def test_fec_is_there_once_it_is_executed():
    fd = scaled()
    assert not hasattr(fd, "fec")
    fd.execute([matrix(2, 2), 1.0])
    assert isinstance(fd.fec, FusionExecutorCache)
    other = scaled()
    other.execute([matrix(2, 2), 1.0])
    with FusionDefinition() as negated:
        x = negated.define_tensor(shape=[-1, -1], contiguity=[False, False], dtype=DataType.Float)
        negated.add_output(negated.ops.neg(negated.ops.mul(x, negated.define_scalar(DataType.Double))))
    negated.execute([matrix(2, 2), 1.0])
    fd.fec = negated.fec  # which is then what runs
    assert torch.equal(fd.execute([matrix(2, 2), 1.0])[0], -matrix(2, 2))
    del fd.fec
    assert not hasattr(fd, "fec")


def test_a_definition_in_a_cycle_is_collected():
    fd = scaled()
    fd.execute([matrix(2, 2), 1.0])
    fd.fec.owner = fd
    gone = weakref.ref(fd)
    del fd
    gc.collect()
    assert gone() is None


def test_a_subclass_overrides_execute():
    class Counting(FusionDefinition):
        calls = 0

        def execute(self, inputs, **kwargs):
            self.calls += 1
            return super().execute(inputs, **kwargs)

    with Counting() as fd:
        fd.add_output(fd.ops.relu(fd.from_pytorch(matrix(2, 2))))
    for device in (None, "cpu"):
        assert torch.equal(fd.execute([matrix(2, 2)], device=device)[0], matrix(2, 2))
    assert fd.calls == 2


def test_only_executors_are_used():
    with pytest.raises(TypeError, match="takes an Executor"):
        scaled()._use(3)
    assert not scaled().__dict__.keys() & {"fec", "_run"}


def test_which_inputs_are_compiled():
    fd = scaled()
    fd.execute([matrix(2, 2), 1.0])
    assert fd.fec.is_compiled([matrix(5, 5), 1.0])
    with pytest.raises(InvalidArgument, match="inputs"):
        fd.fec.is_compiled([matrix(5, 5)])
    with pytest.raises(InvalidType, match="inputs must be a list"):
        _C.executor(fd.fusion._core).is_compiled(3)
    with pytest.raises(InvalidType, match="inputs must be a list"):
        _C.executor(fd.fusion._core).has_plan(3)


@pytest.fixture
def with_devices(tmp_path) -> dict[str, str]:
    """An environment with a driver that has devices, which do nothing, and an empty folder of kernels."""
    source = Path(__file__).parents[2] / "cudadrv/real/testdata/libcuda.c"
    library = tmp_path / "libcuda.so"
    headers = Path(torch.__file__).parents[1] / "nvidia/cuda_runtime/include"
    command = ["cc", f"-I{headers}", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return {
        "NVFUSER_GO_LIBCUDA": str(library),
        "CUDADRV_RECORD": str(tmp_path / "record"),
        "CUDADRV_HOPPER": "1",
        "NVFUSER_GO_CACHE_DIR": str(tmp_path / "kernels"),
    }


def test_a_device_that_torch_does_not_know(with_devices):
    """A driver with devices, under a torch for the CPU: what has no inputs runs on the CPU."""
    script = """
        import torch
        torch.cuda.device_count = lambda: 0
        from nvfuser_go import FusionDefinition, health
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.iota(4))
        print(fd.execute([])[0].tolist(), dict(health.report().lines)["CUDA devices"])
    """
    assert run_python(script, **with_devices) == "[0, 1, 2, 3] 2\n"


def test_a_plan_with_calls_is_found_by_another_process(with_devices):
    """It is not made again, as it would be kept again then. torch has no device, so what is planned does not run."""
    script = """
        from nvfuser_go import DataType, FusionDefinition, FusionError
        with FusionDefinition() as fd:
            x = fd.ops.cast(fd.ops.reshape(fd.ops.iota(16), [4, 4]), DataType.Float)
            y = fd.ops.relu(fd.ops.linear(fd.ops.relu(x), x))
            fd.add_output(fd.ops.linear(y, x))
            fd.add_output(y)
        try:
            fd.execute([], device=0)
        except FusionError as error:
            print(error)
    """
    folder, record = Path(with_devices["NVFUSER_GO_CACHE_DIR"]), Path(with_devices["CUDADRV_RECORD"])

    def run() -> tuple[list[Path], list[str]]:
        record.write_text("")
        assert "is needed" in run_python(script, **with_devices)
        # Two threads load the kernels: their calls may come in any order.
        calls = sorted(record.read_text().splitlines())
        return sorted(folder.iterdir(), key=lambda path: (path.suffix, path.name)), calls

    kept = run()
    *codes, plan = kept[0]
    assert [path.suffix for path in codes] == [".cubin", ".cubin"]
    same = folder.parent / "same"
    same.hardlink_to(plan)  # so that no other file is taken for it
    assert run() == kept and plan.samefile(same)
    plan.write_bytes(plan.read_bytes()[:-1])
    assert run() == kept and not plan.samefile(same)


def test_counters_are_kept_for_a_stream(with_devices):
    """They are set to zero once; in the capture of a graph they are memory of the run, set to zero in the graph."""
    script = """
        import os
        from pathlib import Path
        import torch

        made, stream, of_cpu = [], 0, torch.empty_strided

        def empty(sizes, strides, dtype, device=None):
            made.append(tuple(sizes))
            return of_cpu(sizes, strides, dtype=dtype)

        torch.empty_strided = torch._C._dynamo.guards._empty_strided_cuda = empty
        torch.Tensor.__dlpack_c_exchange_api__ = None  # so that tensors are what they say here
        torch.Tensor.device = property(lambda self: torch.device("cuda", 0))
        torch.Tensor.get_device = lambda self: 0
        torch.cuda.device_count = lambda: 2
        torch._C._cuda_getDevice = lambda: 0
        torch._C._cuda_getCurrentRawStream = lambda device: stream
        from nvfuser_go import FusionDefinition

        with FusionDefinition() as fd:
            fd.add_output(fd.ops.sum(fd.define_tensor(shape=[-1, -1]), [0, 1]))
        record = Path(os.environ["CUDADRV_RECORD"])
        for stream in (0x1001, 0x1001, 0x1002, 0x88, 0x88, 0x1002, 0x1001):  # 0x88 is captured
            made.clear()
            record.write_text("")
            fd.execute([torch.zeros(1024, 4096)])
            calls = [line.partition("(") for line in record.read_text().splitlines()]
            made_by_driver = [what for call, _, what in calls if call == "cuMemAlloc"]
            zeroed = [what.partition(", ")[2] for call, _, what in calls if call == "cuMemsetD8Async"]
            launches = [call for call, _, _ in calls].count("cuLaunchKernelEx")
            print((8,) in made, len(made), made_by_driver, zeroed, launches)
    """
    again = "False 2 [] [] 1"
    assert run_python(script, **with_devices).splitlines() == [
        "False 2 ['65536)'] ['0, 65536, 0x1001)'] 1",
        again,
        "False 2 ['65536)'] ['0, 65536, 0x1002)'] 1",
        *["True 3 [] ['0, 8, 0x88)'] 1"] * 2,
        again,
        again,
    ]


def test_calibrate_a_device_that_does_nothing(with_devices, tmp_path):
    """Its kernels all take as long: that is nothing to go by, and no file is written."""
    script = f"""
        from nvfuser_go import _C, InvalidArgument, Unsupported
        for device, error in ((0, Unsupported), (2, InvalidArgument)):
            try:
                _C.calibrate(device, {str(tmp_path / "times.json")!r})
            except error as problem:
                print(problem)
    """
    said = run_python(script, **with_devices)
    assert "the times of Device 0 make no sense, as if others used it" in said
    assert "there is no device cuda:2; this machine has 2 CUDA devices" in said
    assert not (tmp_path / "times.json").exists()


def test_a_broken_calibration_is_named(with_devices, tmp_path):
    (file := tmp_path / "times.json").write_text("{}")
    script = """
        from nvfuser_go import FusionDefinition, InvalidArgument, health
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.iota(4))
        try:
            fd.execute([], device=0)
        except InvalidArgument as error:
            print(error)
        print(dict(health.report().lines)["times of device 0"])
    """
    said = run_python(script, **with_devices, NVFUSER_GO_CALIBRATION=str(file)).splitlines()
    assert len(said) == 2
    for line in said:
        assert f"the calibration {file}: its format is 0, and this version reads 1" in line
