"""A slice of the cases of norms.py: by the CPU and by simulated kernels. All are run on a GPU: tests/gpu."""

import math

import pytest
import torch
from norms import DTYPES, IMAGE_LAYOUTS, OF_IMAGES, OF_ROWS, Case, distance, errors, image_cases, problem, row_cases

from nvfuser_go import FusionDefinition

NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


def cpu(program):
    return program.fusion().execute(program.inputs)


def simulated(program):
    return program.fusion().execute(program.inputs, _enable_options=["simulate"])


def wrong(cases, call) -> list[str]:
    return [f"{case}: {found}" for case in cases if (found := problem(case, call))]


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES.get)
@pytest.mark.parametrize("name", OF_ROWS)
def test_rows(name: str, dtype: torch.dtype) -> None:
    assert not wrong([c for n in (1, 7, 127, 1000) for c in row_cases(name, dtype, n, (1, 7))], cpu)
    assert not wrong([c for n in (1, 3, 32, 127) for c in row_cases(name, dtype, n, (7,))], simulated)


@pytest.mark.parametrize("name", ["softmax", "layer norm"])
def test_rows_of_clusters(name: str) -> None:
    assert not wrong(row_cases(name, torch.bfloat16, 65536, (2,)), simulated)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("sizes", [(2, 5, 3, 3), (3, 64, 7, 5), (1, 8, 40, 33), (20, 16, 16, 16)], ids=str)
def test_statistics_in_place(sizes: tuple[int, ...], memory: torch.memory_format) -> None:
    """A kernel writes the running mean, which all of its threads read, over itself."""
    x = torch.randn(sizes, dtype=torch.double).to(memory_format=memory)
    mean, want = torch.rand(sizes[1], dtype=torch.double), x.mean((0, 2, 3))
    with FusionDefinition() as fd:
        tv, running = fd.from_pytorch(x), fd.from_pytorch(mean)
        _, now = fd.ops.var_mean(tv, [0, 2, 3], 0, False)
        fd.add_output(running * fd.define_scalar(0.9) + now * fd.define_scalar(0.1), running)
        fd.add_output(tv - fd.ops.broadcast(now, [True, False, True, True]))
    kept = [x, mean.clone()]
    if memory is torch.contiguous_format:  # columns are read in other loops than they are written in
        assert "copy" not in str(fd.explain(kept))
    (out,) = fd.execute(kept, _enable_options=["simulate"])
    torch.testing.assert_close(kept[1], 0.9 * mean + 0.1 * want)
    torch.testing.assert_close(out, x - want[:, None, None])


@pytest.mark.parametrize("layout", IMAGE_LAYOUTS)
@pytest.mark.parametrize("name", OF_IMAGES)
def test_images(name: str, layout: str) -> None:
    for dtype in DTYPES:
        # As many elements as give torch's largest error a chance: of 180, torch's was half a unit.
        cases = list(image_cases(name, dtype, layout, [(1, 4, 1, 2), (3, 6, 7, 9)]))
        assert not wrong(cases, cpu)
        assert not wrong(cases[1:], simulated)


# ---- What is wrong is seen ----


def torch_but(change):
    """What torch gives, changed."""

    def call(program):
        got = program.eager(*program.inputs)
        got = [got] if isinstance(got, torch.Tensor) else list(got)
        return change(got)

    return call


def case_of(name: str, dtype: torch.dtype = torch.float32, width: int = 127) -> Case:
    (case,) = row_cases(name, dtype, width, (7,))
    return case


def add_to_last(output: int, relative: float):
    def change(got):
        got[output].view(-1)[-1] *= 1 + relative
        return got

    return torch_but(change)


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES.get)
@pytest.mark.parametrize("name", OF_ROWS)
def test_one_wrong_element_is_seen(name: str, dtype: torch.dtype) -> None:
    case = case_of(name, dtype)
    assert problem(case, torch_but(lambda got: got)) is None
    for output, dims in enumerate(case.formula.outputs):
        found = problem(case, add_to_last(output, 0.25))
        assert found is not None, dims
        assert found.startswith(f"output {output}: ")


def test_sums_in_sixteen_bits_are_seen() -> None:
    def narrow_sum(program):
        (x,) = program.inputs
        total = torch.zeros_like(x[:, 0])
        for column in x.unbind(1):
            total = total + column
        return [total]

    found = problem(case_of("sum", torch.bfloat16, 1000), narrow_sum)
    assert found is not None
    assert "units in the last place" in found


def test_a_row_left_out_of_a_sum_of_rows_is_seen() -> None:
    case = case_of("layer norm backward", torch.bfloat16)

    def short(program):
        dy, x, weight, mean, scale = program.inputs
        dx = program.eager(*program.inputs)[0]
        return [dx, *program.eager(dy[1:], x[1:], weight, mean[1:], scale[1:])[1:]]

    assert problem(case, short).startswith("output 1: ")


def test_other_bits_and_other_dtypes_are_seen() -> None:
    case, calls = case_of("softmax"), []

    def change(got):
        calls.append(0)
        return [got[0] * (1 + len(calls) % 2 * 2**-23)]

    assert problem(case, torch_but(change)) == "the second call gives other bits"
    assert "torch.float64" in problem(case, torch_but(lambda got: [got[0].double()]))


def test_errors_of_parts_are_those_of_the_whole(monkeypatch) -> None:
    for name in ("layer norm backward", "cross entropy backward", "var_mean"):
        case = case_of(name)
        inputs = case.inputs("cpu")
        got = [x.clone() for x in torch_but(lambda got: got)(case.program(inputs))]
        got[0].view(-1)[200 % got[0].numel()] += 0.01
        whole = errors(case, inputs, [got])
        monkeypatch.setattr("norms.CHUNK", 2 * 127)
        assert errors(case, inputs, [got]) == [pytest.approx(whole[0], rel=1e-6)]
        monkeypatch.undo()


def test_what_is_not_finite() -> None:
    want, none = torch.tensor([math.nan, math.inf, 1.0], dtype=torch.float64), torch.tensor(0.0)
    assert distance(torch.tensor([math.nan, math.inf, 1.0]), want, none) == 0
    for bad in ([1.0, math.inf, 1.0], [math.nan, -math.inf, 1.0], [math.nan, math.inf, math.nan]):
        assert distance(torch.tensor(bad), want, none) == math.inf
    large = torch.tensor([1e5], dtype=torch.float64)
    assert distance(torch.tensor([math.inf], dtype=torch.float16), large, none) == 0
    assert distance(torch.tensor([1.0]), torch.ones(2), none) == math.inf
