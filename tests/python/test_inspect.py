"""Looking at a fusion on its way to a kernel: the methods that return stages, and NVFUSER_DUMP, which prints them."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from nvfuser_go import (
    _C,
    CompileParams,
    DataType,
    Fusion,
    FusionDefinition,
    FusionExecutorCache,
    InvalidArgument,
    ParallelType,
    Unsupported,
    dump,
    options,
)


def scaled() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.relu(fd.ops.mul(x, 2.0)))
    return fd


def ordered() -> FusionDefinition:
    """A fusion that no scheduler takes."""
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.argsort(fd.define_tensor([-1, -1], True), 0, stable=True))
    return fd


X = torch.ones(3, 5)


def test_cuda_kernel():
    fd = scaled()
    fd.execute([X])
    kernel = fd.fec.get_cuda_kernel([X])
    assert kernel.startswith("struct kernel_Parameters {")
    assert "__global__ void __launch_bounds__(128) kernel(" in kernel
    assert "blockIdx.x" in kernel
    whole = fd.fec.get_cuda_kernel([X], intrinsic_code=True)
    assert whole.endswith(kernel)
    assert "readOnly(const T* p)" in whole
    assert fd.fec.get_cuda_kernel([X], device=0) == kernel
    with pytest.raises(InvalidArgument, match="the number of a device is from 0 to 255"):
        fd.fec.get_cuda_kernel([X], device=-3)


def test_the_kernel_is_that_of_a_simulation():
    fd = scaled()
    fd.execute([X], _enable_options=["simulate"])
    assert fd.last_cuda_code() == scaled().cuda_code_for([X])


def test_scheduled_ir():
    fd = scaled()
    plain = fd.scheduled_fusion_ir_for([X])
    assert re.search(r"^tv\d+ local \[.*blockIdx\.x, .*\{128\} threadIdx\.x\]", plain, re.MULTILINE)
    assert "merge" not in plain
    full = fd.fec.get_scheduled_ir([X], tensor_transforms=True)
    assert re.search(r"^  i\d+, i\d+ = split i\d+ by inner 128$", full, re.MULTILINE)
    assert set(plain.splitlines()) < set(full.splitlines())


def test_most_recent():
    fd = scaled()
    with pytest.raises(InvalidArgument, match=r"last_cuda_code\(\): the fusion has not been executed"):
        fd.last_cuda_code()
    with FusionDefinition() as other:
        other.add_output(other.ops.sum(other.define_tensor([-1, -1], True), [1]))
    cache = FusionExecutorCache(other.fusion)
    with pytest.raises(InvalidArgument, match="the fusion has not been executed: there are no inputs to show it for"):
        cache.get_most_recent_scheduled_ir()
    for columns in (30, 3000):
        x = torch.ones(4, columns)
        cache.execute([x])
        cache.get_cuda_kernel([torch.ones(2, 2)])  # looking at others does not count
        assert cache.get_most_recent_scheduled_ir() == cache.get_scheduled_ir([x])
        assert cache.get_most_recent_scheduled_ir(True) == cache.get_scheduled_ir([x], True)
    assert cache.get_scheduled_ir([torch.ones(4, 30)]) != cache.get_scheduled_ir([torch.ones(4, 3000)])
    cache.execute([torch.ones(4, 30)], _enable_options=["simulate"])
    assert cache.get_most_recent_scheduled_ir() == cache.get_scheduled_ir([torch.ones(4, 30)])


def test_numbers_and_arrays_are_inputs():
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.mul(a, fd.define_scalar(dtype=DataType.Double)))
    assert "kernel(" in fd.cuda_code_for([torch.ones(3).numpy(), 2.0])
    with FusionDefinition() as none:
        none.add_output(none.ops.full([4], 1.0, DataType.Float))
    assert "kernel(" in none.cuda_code_for([])


def test_inputs_that_do_not_fit():
    fd = scaled()
    with pytest.raises(InvalidArgument, match="the fusion has 1 input, got 0"):
        fd.cuda_code_for([])
    with pytest.raises(InvalidArgument, match=r"input 0 \(tv0\)"):
        fd.cuda_code_for([torch.ones(3)])


def test_no_kernel_is_needed():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.neg(x))
    with pytest.raises(Unsupported, match="there is no kernel to show\n  executor: each output is an input or has no"):
        fd.cuda_code_for([torch.ones(0)])


def test_refused():
    fd = ordered()
    x = torch.ones(3, 2)
    assert fd.execute([x])[0].tolist() == [[0, 0], [1, 1], [2, 2]]
    for look in (
        lambda: fd.fec.get_cuda_kernel([x]),
        lambda: fd.fec.get_scheduled_ir([x]),
        fd.fec.get_most_recent_scheduled_ir,
        fd.last_cuda_code,
    ):
        with pytest.raises(Unsupported, match="no scheduler takes this fusion") as caught:
            look()
        assert {by for by, _, _, _ in caught.value.refusals} >= {"pointwise", "reduction"}


def test_print_kernel():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor([-1], True)))
    kernel = fd.fusion.print_kernel()
    assert "for (int" in kernel or "for (long long" in kernel
    assert "threadIdx" not in kernel  # nobody scheduled it
    assert "for (int " in fd.fusion.print_kernel(CompileParams(index_type=DataType.Int32))
    assert "for (long long " in fd.fusion.print_kernel(CompileParams(index_type=DataType.Int))
    with pytest.raises(InvalidArgument, match="index_type is Float; indices are Int or Int32"):
        fd.fusion.print_kernel(CompileParams(index_type=DataType.Float))
    assert "kernel()" in Fusion().print_kernel()


def by_hand() -> FusionDefinition:
    """A fusion whose threads run along what nobody else would have them run along."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.neg(x)
        fd.add_output(y)
    y.split(1, 8)
    y.parallelize(0, ParallelType.grid_z)
    y.parallelize(2, ParallelType.block_y)
    return fd


def test_schedule_by_hand():
    fd = by_hand()
    kernel = fd.fusion.print_kernel()
    assert "blockIdx.z" in kernel
    assert "threadIdx.y" in kernel
    assert "const int bz" in fd.fusion.print_kernel(CompileParams(index_type=DataType.Int32))
    with pytest.raises(InvalidArgument, match=r"last_cuda_code\(\): the fusion has not been executed"):
        fd.last_cuda_code()
    fd.manual_execute([X])
    assert "blockIdx.z" in fd.last_cuda_code()
    assert fd.last_cuda_code(intrinsic_code=True).endswith(fd.last_cuda_code())
    assert re.search(r"^  i\d+, i\d+ = split i\d+ by inner 8$", fd.last_scheduled_fusion_ir(True), re.MULTILINE)


def test_vectors_by_hand():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 64], True)
        y = fd.ops.neg(x)
        fd.add_output(y)
    cache = x.cache_after()
    for tensor in (cache, y):
        tensor.split(1, 4)
    cache.parallelize(2, ParallelType.vectorize)
    y.parallelize(1, ParallelType.block_x)
    cache.parallelize(1, ParallelType.block_x)
    fd.sched.inline_at(y, 2)
    assert "moveReadOnly<16>(" in fd.fusion.print_kernel()


def test_schedule_by_hand_that_cannot_be_computed():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.neg(x))
    x.cache_after().parallelize(0, ParallelType.block_x)  # in registers, which other threads do not read
    with pytest.raises(InvalidArgument, match=r"the schedule cannot be computed: axis 0 of tv2 is threadIdx\.x"):
        fd.fusion.print_kernel()


def test_threads_see_the_same():
    fd = scaled()
    seen = []

    def look() -> None:
        for n in range(1, 20):
            x = torch.ones(n, n)
            fd.execute([x])
            seen.append((n, fd.cuda_code_for([x]), fd.scheduled_fusion_ir_for([x])))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 19


def run(program: str, folder: Path, **variables: str) -> str:
    """What a program prints that sees the options in these variables."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = """
import threading, torch
from nvfuser_go import FusionDefinition
with FusionDefinition() as fd:
    x = fd.define_tensor([-1, -1], True)
    fd.add_output(fd.ops.sum(fd.ops.mul(x, 2.0), [1]))
def execute():
    for n in (300, 7, 300):
        assert fd.execute([torch.ones(3, n)])[0].tolist() == [2.0 * n] * 3
execute()
threads = [threading.Thread(target=execute) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

# What each stage shows of PROGRAM.
RECOGNISED = {
    "python_definition": r"tv1 = fd\.ops\.mul\(tv0, 2\.00000\)",
    "fusion_ir_original": r"%2 = sum %1 dims=\[1\]",
    "fusion_ir_math": r"%kernel_math \{",
    "fusion_args": r"input 0 \(tv0\): f32 sizes \[3, 300\] strides \[300, 1\] on cpu",
    "fusion_ir_concretized": r"%2 = sum %1 dims=\[1\]",
    "pre_segmenter_logging": r"nothing changes",
    "fusion_ir_preseg": r"%2 = sum %1 dims=\[1\]",
    "segmenter_logging": r"nothing is parted",
    "segmented_fusion": r"segment 0: kernel by reduction",
    "explain": r"^  reduction +accepts$",
    "python_definition_segments": r"^def nvfuser_fusion_0\(fd : FusionDefinition\)",
    "fusion_ir_presched": r"%2 = sum %1 dims=\[1\]",
    "scheduler_verbose": r"pointwise refuses: tv2 is the result of sum\(\), a reduction operation \(operation\)",
    "scheduler_params": r"inner reduction: \d+x\d+ threads",
    "fusion_ir": r"tv0 global \[i0\{tv0\.0\}, i1\{tv0\.1\}\]",
    "inlining": r"tv0: 0 of 2",
    "ca_map": r"loop of tv0\.0 blockIdx\.x:",
    "lower_verbose": r'after "hoist", which',
    "sync_map": r"bytes of shared memory",
    "predicate_elimination": r"^`tv1 = .*` if ",
    "parallel_dimensions": r"gridDim\.x = ",
    "kernel_ir": r"pointer tv0 f32\[",
    "index_type": r"^i(32|64)$",
    "cuda_kernel": r"__global__ void",
    "cuda_full": r"__ldg",
    "kernel_args": r"tv0: pointer to 900 elements of f32",
    "launch_param": r"^grid \[3, 1, 1\]$",
    "dynamic_shared_memory": r"^\d+$",
    "plan": r"^launch 0: kernel, grid \[3 1 1\]",
    "plan_memory": r'"phases":\[\{"allocates":\[',
}


def parts(text: str) -> list[tuple[str, str]]:
    """The names and texts that a dump consists of."""
    pieces = re.split(r"^======== (\w+) ========\n", text, flags=re.MULTILINE)
    assert pieces[0] == ""
    return list(zip(pieces[1::2], pieces[2::2], strict=True))


def test_dump_of_every_stage(tmp_path):
    assert set(RECOGNISED) == set(options.STAGES)
    printed = run(PROGRAM, tmp_path, NVFUSER_DUMP=",".join([*reversed(RECOGNISED), "cuda_to_file"]))
    assert printed == run(PROGRAM, tmp_path, NVFUSER_DUMP=",".join([*RECOGNISED, "cuda_to_file"]))
    shown = parts(printed)
    of_inputs = [name for name, stage in options.STAGES.items() if not stage.of_definition] + ["cuda_to_file"]
    of_definition = [name for name in options.STAGES if name not in of_inputs]
    assert [name for name, _ in shown] == of_definition + 2 * of_inputs  # 3 x 300, then 3 x 7, and no more
    for name, text in shown[: len(of_definition) + len(of_inputs)]:
        if name != "cuda_to_file":
            assert re.search(RECOGNISED[name], text, re.MULTILINE), f"{name}:\n{text}"
    texts = dict(shown)  # the last of each
    assert "sizes [3, 7]" in texts["fusion_args"]
    assert (tmp_path / texts["cuda_to_file"].strip()).read_text() == texts["cuda_full"]
    assert all(path.suffix == ".cu" for path in tmp_path.iterdir())


@pytest.fixture
def dumped(monkeypatch, capsys):
    """A function that executes a fusion with these options in the environment and gives what is printed, by stage."""

    def execute(fd: FusionDefinition, x: torch.Tensor, names: str, enable: str = "") -> dict[str, str]:
        given = options.Options(
            options.parse("NVFUSER_DUMP", names), options.parse("NVFUSER_ENABLE", enable), disable={}, prof={}
        )
        monkeypatch.setattr(options, "environment", lambda: given)
        fd.execute([x])
        return dict(parts(capsys.readouterr().out))

    return execute


def test_dump_arguments(tmp_path, dumped):
    names = f"lower_verbose(index type, hoist),fusion_ir(transforms),cuda_to_file({tmp_path})"
    texts = dumped(scaled(), torch.ones(17, 1), names)
    assert re.findall(r'^after "(.*)", which', texts["lower_verbose"], re.MULTILINE) == ["hoist", "index type"]
    assert " = split " in texts["fusion_ir"]
    assert Path(texts["cuda_to_file"].strip()).parent == tmp_path


def test_dump_of_what_is_simulated(dumped):
    assert "__global__ void" in dumped(scaled(), torch.ones(17, 2), "cuda_kernel", "simulate")["cuda_kernel"]


def test_dump_of_what_is_refused(dumped):
    texts = dumped(ordered(), torch.ones(17, 2), "scheduler_verbose,cuda_kernel,fusion_args,cuda_to_file")
    assert texts["fusion_args"] == "input 0 (tv0): f32 sizes [17, 2] strides [2, 1] on cpu\n"
    assert texts["scheduler_verbose"].startswith("transpose refuses: ")
    assert texts["cuda_kernel"].startswith("no scheduler takes this fusion: torch computes it\n  transpose: ")
    assert texts["cuda_to_file"] == texts["cuda_kernel"]


def test_dump_of_what_is_scheduled_by_hand(monkeypatch, capsys):
    names = dict.fromkeys(("scheduler_params", "cuda_kernel", "launch_param", "fusion_ir_math"), ())
    monkeypatch.setattr(options, "environment", lambda: options.Options(names, {}, {}, {}))
    fd = by_hand()
    for _ in range(2):
        fd.manual_execute([X])
    texts = dict(parts(capsys.readouterr().out))
    assert list(texts) == ["fusion_ir_math", "scheduler_params", "cuda_kernel", "launch_param"]
    assert texts["scheduler_params"] == "scheduled by hand\n"
    assert "blockIdx.z" in texts["cuda_kernel"]
    assert texts["launch_param"].startswith("grid [1, 1, 3]\nblock [1, 8, 1]\n")


def test_dump_where_no_kernel_is_needed(dumped):
    texts = dumped(scaled(), torch.ones(0, 3), "cuda_kernel,fusion_ir_presched,fusion_ir_preseg")
    for name in ("cuda_kernel", "fusion_ir_presched"):
        assert texts[name].startswith("there is no kernel to show\n  executor: ")
    assert "output %" in texts["fusion_ir_preseg"]


def in_parts() -> FusionDefinition:
    """A fusion of two kernels and a call of torch."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.neg(fd.ops.matmul(fd.ops.relu(x), x)))
    return fd


def test_segments(tmp_path, dumped):
    x = torch.ones(5, 5)
    names = f"cuda_kernel,launch_param(segment=2),python_definition_segments,cuda_to_file(segment=0,{tmp_path}),plan"
    texts = dumped(in_parts(), x, names)
    kernel = in_parts().cuda_code_for([x])
    assert texts["cuda_kernel"].rstrip() == kernel.rstrip()
    titles = re.findall(r"^// (segment .*)$", kernel, re.MULTILINE)
    assert [title.split(":")[0] for title in titles] == [
        "segment 0, kernel by pointwise",
        "segment 1, call of torch for matmul()",
        "segment 2, kernel by pointwise",
    ]
    assert kernel.count("__global__ void") == 2
    assert "// pointwise refuses: " in kernel
    assert texts["launch_param"].startswith("// segment 2, ")
    assert Path(texts["cuda_to_file"].strip()).read_text().count("__global__ void") == 1
    definitions = re.split(r"^# segment \d, .*\n", texts["python_definition_segments"], flags=re.MULTILINE)[1:]
    for number, source in enumerate(definitions):
        scope = {"FusionDefinition": FusionDefinition, "DataType": DataType}
        exec(source, scope)
        with FusionDefinition() as fd:
            scope[f"nvfuser_fusion_{number}"](fd)
        segment = fd.execute([x, x] if number == 1 else [x])[0]
        assert segment.shape == (5, 5)
    assert "call 0: matmul" in texts["plan"]
    fd = in_parts()
    fd.execute([x])
    assert fd.last_cuda_code() == kernel


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("lower_verbose(hoits)", 'there is no pass "hoits"; the passes are launch, statements'),
        ("kernel_ir(1)", "kernel_ir takes segment=N: segment N alone, got 1"),
        ("cuda_to_file(/nowhere)", "NVFUSER_DUMP: cuda_to_file cannot write into /nowhere"),
        ("cuda_to_file(a,b)", "NVFUSER_DUMP: cuda_to_file takes one folder, got a, b"),
        ("cuda", "NVFUSER_DUMP: there is no option 'cuda'; the options are fusion_ir_original"),
    ],
)
def test_dump_mistakes(names, message):
    fd = scaled()
    fd.fusion._complete()
    x = torch.ones(3, 10 + len(names))  # not seen by another test
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        dump.OfInputs(fd.fusion, options.parse("NVFUSER_DUMP", names)).show(_C.executor(fd.fusion._core), [x])


PAGE = Path(__file__).parents[2] / "docs/inspecting.md"


def test_the_page_shows_what_is_printed():
    page = PAGE.read_text()
    program = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    shown = re.search(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    assert run(program, PAGE.parent).rstrip() == shown.rstrip()


def summed_and_ordered() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.ops.sum(fd.define_tensor([-1, -1, -1], True), [0])
        fd.add_output(fd.ops.argsort(x, 0))
    return fd


def test_explain():
    fd = summed_and_ordered()
    x = torch.ones(100, 8, 4)
    kernel, call = (explained := fd.explain([x])).segments
    assert (kernel.number, call.number) == (0, 1)
    assert kernel.about.startswith("segment 0, kernel by reduction: ")
    assert call.about.startswith("segment 1, call of torch for argsort(): ")
    by = {answer.by: answer for answer in kernel.answers}
    assert by["reduction"].accepts
    assert not by["reduction"].refusals
    assert not by["pointwise"].accepts
    assert by["pointwise"].refusals == ("tv1 is the result of sum(), a reduction operation (operation)",)
    assert kernel.parameters == fd.fec._show([x], 0, "scheduler_params", "segment=0").strip().splitlines()[-1]
    assert (kernel.memory.read, kernel.memory.written) == (100 * 32 * 4, 32 * 4)
    assert 4 < kernel.memory.estimated < 8
    assert kernel.memory.measured is None
    assert explained.device == "NVIDIA H100 80GB HBM3"
    assert explained.not_measured == "there is no CUDA device"
    assert call.memory is None
    assert not any(answer.accepts for answer in call.answers)
    assert all(answer.refusals for answer in call.answers)
    assert call.parameters == ""
    assert str(explained) == repr(explained) == fd.fec._show([x], 0, "explain")
    page = explained._repr_html_()
    assert page.count("<table>") == 2
    for text in (
        f"estimated {kernel.memory.estimated:.1f} us, not measured",
        kernel.about,
        kernel.parameters,
        "refuses: tv1 is the result of sum()",
        "accepts",
    ):
        assert text in page
    fd.execute([x], _enable_options=["simulate"])
    assert str(fd.explain([x])) == str(explained)


def test_explain_with_inputs_that_do_not_fit():
    with pytest.raises(InvalidArgument, match="the fusion has 1 input, got 0"):
        scaled().explain([])
    assert str(scaled().explain([torch.ones(0, 3)])) == "nothing is computed\n"
