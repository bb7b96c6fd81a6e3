"""Random chains of operations against torch: a part of what run_chains.py runs."""

import chains
import pytest
import run_chains
import torch
from chains import MOST, STEPS, Chain, check, problem
from chains_indexed import INDEXED, Indexed, scattered
from run_chains import runner

PROGRAMS, PART = 1500, 250


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("first", range(0, PROGRAMS, PART))
@pytest.mark.parametrize("simulate", [False, True], ids=["cpu", "simulated"])
def test_chains(simulate: bool, first: int) -> None:
    run, options = runner(simulate, None)
    for seed in range(first, first + PART):
        wrong = check(seed, run, MOST // 10 if simulate else MOST, options)
        assert wrong is None, wrong


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("first", range(0, PROGRAMS // 2, PART))
@pytest.mark.parametrize("simulate", [False, True], ids=["cpu", "simulated"])
def test_chains_with_lookups_and_scans(simulate: bool, first: int) -> None:
    run, options = runner(simulate, None)
    for seed in range(first, first + PART):
        wrong = check(seed, run, MOST // 10 if simulate else MOST, options, Indexed)
        assert wrong is None, wrong


# Programs that were wrong once.
@pytest.mark.parametrize(
    ("seed", "most"),
    [
        (883, MOST // 10),  # a slice of what was expanded from a dimension that has one element at run time
        (20076, MOST // 10),  # and a cat of it
        (21050, MOST // 10),  # and one in two dimensions
        (40773, MOST // 10),  # a view was none when its operand had been stored
        (1158, MOST // 10),  # a slice of an expanded dimension was squeezed, which has one element at run time
        (510017443, MOST // 10),  # what is taken was allowed the error of another element
    ],
)
@pytest.mark.parametrize("simulate", [False, True], ids=["cpu", "simulated"])
def test_finds(simulate: bool, seed: int, most: int) -> None:
    run, options = runner(simulate, None)
    wrong = check(seed, run, most, options)
    assert wrong is None, wrong


def test_every_kind_of_step_is_drawn() -> None:
    ops = {v.fused.split("(")[0].removeprefix("ops.") for seed in range(200) for v in Chain(seed).values}
    assert ops >= {s.__name__ for s in (Chain.expand, Chain.reshape, Chain.permute, Chain.slice, Chain.pad, Chain.cat)}
    assert ops >= {"broadcast_in_dim", "squeeze", "take_along_axis", "sum", "max", "var_mean", "where", "cast", "tanh"}
    assert len(ops) >= len(STEPS)


def test_every_kind_of_lookup_and_scan_is_drawn() -> None:
    ops = {v.fused.split("(")[0].removeprefix("ops.") for seed in range(300) for v in Indexed(seed).values}
    assert ops >= {"gather", "scatter", "index_select", "embedding_fwd", "select", "triu", "index_put_accumulate"}
    assert ops >= {"cumsum", "cumprod", "cummax", "cummin", "argsort", "topk", "min", "prod", "pad", "take_along_axis"}
    assert len(ops) >= len(set(STEPS)) + len(set(INDEXED))


def test_of_several_writes_the_last_is_wanted() -> None:
    x, index = torch.zeros(4), torch.tensor([1, -1, 1, 4, 3, 1])
    assert scattered(x, index, torch.arange(6.0), 0).tolist() == [0, 5, 0, 4]
    assert scattered(x, index, 7, 0).tolist() == [0, 7, 0, 7]


@pytest.mark.parametrize("kind", [Chain, Indexed])
def test_a_wrong_result_is_found_and_printed_as_a_script(kind: type[Chain], capsys: pytest.CaptureFixture) -> None:
    run, _ = runner(False, None)

    def wrong(fd, inputs):
        got = run(fd, inputs)
        return [x if x.numel() == 0 or x.dtype is not torch.float32 else x * (1 + 1e-6) + 1e-6 for x in got]

    found = [text for seed in range(40) if (text := check(seed, wrong, kind=kind))]
    assert len(found) > 5
    for text in found:
        script = text.split("\n\n", 1)[1]
        exec(script, {})
        assert script.count("fd.add_output") == 1
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("dtype", "change", "right"),
    [
        (torch.float32, 1 + 2**-23, True),
        (torch.float32, 1 + 2**-20, False),
        (torch.bfloat16, 1 + 2**-7, True),
        (torch.bfloat16, 1 + 2**-5, False),
        (torch.float64, 1 + 2**-51, True),
        (torch.float64, 1 + 2**-48, False),
        (torch.float16, float("nan"), False),
        (torch.float16, float("inf"), False),
    ],
)
def test_one_unit_in_the_last_place(dtype: torch.dtype, change: float, right: bool) -> None:
    x = torch.ones(3, dtype=dtype)
    value = chains.Value(0, x, x.double(), torch.zeros(3, dtype=torch.float64))
    assert (problem(value, x * torch.tensor([1, change, 1], dtype=dtype)) is None) == right


def test_numbers_that_are_not_finite() -> None:
    x = torch.tensor([float("nan"), float("inf"), 1])
    value = chains.Value(0, x, x.double(), torch.zeros(3, dtype=torch.float64))
    assert problem(value, x) is None
    assert problem(value, -x) is not None
    assert problem(value, torch.ones(3)) is not None


def test_a_process_that_ends_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    program = tmp_path / "ends.py"
    program.write_text(
        "import sys\nfor line in sys.stdin:\n    print(end=chr(0) if line == '1\\n' else sys.exit(3), flush=True)\n"
    )
    monkeypatch.setattr("sys.argv", [str(program)])
    worker = run_chains.Worker(60)
    assert worker.check(1) is None
    assert "status 3" in worker.check(2)
    assert worker.check(1) is None  # by another process
    worker.end()
