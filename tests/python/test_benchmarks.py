"""The benchmark on a GPU, as far as it goes without one: its rows are right, its statistics, thresholds and tables."""

import ctypes
import importlib.util
import itertools
import json
import math
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import blocks  # noqa: E402
import columns  # noqa: E402
import counted  # noqa: E402
import counters  # noqa: E402
import gpu  # noqa: E402
import handwritten  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
import row as base  # noqa: E402
import rows  # noqa: E402
import timing  # noqa: E402
from programs import Program  # noqa: E402

BY_NAME = {row.name: row for row in rows.ROWS}


def run(program):
    fd = program.fusion()
    return (lambda inputs: fd.execute(inputs)) if program.inputs else lambda inputs: fd.execute(inputs, device="cpu")


@pytest.mark.parametrize("row", rows.ROWS, ids=lambda row: row.name)
def test_a_row_is_what_torch_computes(row):
    program = row.program("cpu", small=True)
    outputs = row.outputs(program)
    assert row.error(program, run(program)) <= base.tolerance(outputs)
    fresh = row.program("cpu", small=True)
    assert row.error(fresh, columns.eager(fresh)) <= 2 * max(base.tolerance(outputs), row.torch_error)


@pytest.mark.parametrize("row", [row for row in rows.ROWS if row.inputs], ids=lambda row: row.name)
def test_static_sizes_have_the_schedules_of_symbolic_ones(row, monkeypatch):
    # A transpose of odd static sizes had other tiles, and took 91 us of an H200 where the symbolic one took 72.
    monkeypatch.setattr(base.Input, "_values", lambda self, shape, *_: torch.empty(shape, dtype=self.dtype))
    inputs = [x.make(row.sizes, "cpu", None) for x in row.inputs]
    program = Program(row.name, row.define, row.eager, inputs, row.writes)

    def chosen(static_sizes):
        explanation = program.fusion(static_sizes=static_sizes).explain(inputs)
        return [segment.parameters for segment in explanation.segments]

    assert chosen(True) == chosen(False)


def test_rows_have_names_of_their_own():
    assert len(BY_NAME) == len(rows.ROWS)
    assert all(set(row.sizes) == set(row.small) for row in rows.ROWS)


@pytest.mark.parametrize("name", ["relu bf16", "in place x += y f32", "dropout bf16", "cast i64 to f32"])
def test_a_wrong_result_is_seen(name):
    row = BY_NAME[name]
    program = row.program("cpu", small=True)

    def wrong(inputs):
        out = run(program)(inputs)
        target = inputs[0] if row.writes else out[0]
        target.view(-1)[5] += 100
        return out

    assert row.error(program, wrong) > base.tolerance(row.outputs(program))


def test_a_result_of_another_dtype_is_wrong():
    row = BY_NAME["relu bf16"]
    program = row.program("cpu", small=True)
    assert row.error(program, lambda inputs: torch.relu(inputs[0]).float()) == math.inf


def test_a_view_of_an_input_in_place_of_a_copy_is_wrong():
    row = BY_NAME["transpose bf16 8192x8192"]
    program = row.program("cpu", small=True)
    assert row.error(program, lambda inputs: inputs[0].t().contiguous()) == 0
    assert row.error(program, lambda inputs: inputs[0].t()) == math.inf


def test_one_wrong_element_of_many_is_seen():
    want = torch.randn(1 << 20)
    got = want.clone()
    assert base.close_to((want,), (got,)) == 0
    got[-1] += 0.1
    assert base.close_to((want,), (got,)) > base.tolerance([want.bfloat16()])


def test_what_is_not_a_number_or_has_another_shape_is_infinitely_wrong():
    x = torch.ones(3)
    assert base.close_to((x,), (x * math.nan,)) == math.inf
    assert base.close_to((x,), (torch.ones(1),)) == math.inf


def test_layouts():
    draw = torch.Generator().manual_seed(0)
    sizes = {"B": 2, "M": 3, "N": 4, "C": 5}

    def strides(dims, layout):
        x = base.Input(torch.bfloat16, dims, layout).make(sizes, "cpu", draw)
        assert list(x.shape) == [sizes[d] for d in dims]
        return x.stride(), x.storage_offset()

    assert strides("MN", "dense") == ((4, 1), 0)
    assert strides("MN", "rows") == ((8, 1), 0)
    assert strides("MN", "odd") == ((4, 1), 1)
    assert strides("BMN", "turned") == ((3, 1, 6), 0)
    assert strides("BCMN", "channels last") == ((60, 1, 20, 5), 0)


def test_traffic_counts_what_a_broadcast_repeats_once():
    row = BY_NAME["bias bf16"]
    program = row.program("cpu", small=True)
    assert base.traffic(program.inputs) == 24 * 40 * 2 + 40 * 2
    assert base.traffic(row.outputs(program)) == 24 * 40 * 2


def test_a_summary_is_of_the_sorted_times():
    assert timing.Summary.of([5, 1, 4, 2, 3, 6, 7, 8, 9, 10, 11]) == timing.Summary(2, 6, 10)
    assert timing.Summary.of([3.0]) == timing.Summary(3.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="needs a time"):
        timing.Summary.of([])


def test_a_ratio_is_of_the_times_of_one_round():
    assert timing.ratio([2, 20, 200], [1, 10, 100]) == 2
    with pytest.raises(ValueError, match="argument"):
        timing.ratio([1], [1, 2])


def test_columns_take_turns():
    order, marks = [], []
    calls = {name: (lambda name=name: order.append(name)) for name in "abc"}
    times = timing.host_times(calls, 3, calls=1, synchronize=lambda: marks.append(len(order)))
    assert "".join(order) == "".join(x * 6 for x in "abcbcacab")  # five calls to warm up, one that counts
    assert {name: len(t) for name, t in times.items()} == dict.fromkeys("abc", 3)
    assert marks[0] == 5  # the queue is empty before the calls that count
    assert marks[1] == 6


class FakeGPU:
    """Stands for torch.cuda and for the cache: time passes in calls alone, and every step is noted."""

    def __init__(self):
        self.now, self.steps = 0.0, []

    def Event(self, enable_timing):
        assert enable_timing
        gpu = self

        class Event:
            def record(self):
                self.at = gpu.now

            def elapsed_time(self, end):
                return end.at - self.at

        return Event()

    def _sleep(self, cycles):
        self.steps.append("sleep")

    def synchronize(self):
        self.steps.append("synchronize")

    def prepare(self, state, turn):
        self.now += 100
        self.steps.append(state)

    def call(self, name, milliseconds):
        def run():
            self.now += milliseconds
            self.steps.append(name)

        return run


def test_device_times_are_of_the_calls_in_both_states(monkeypatch):
    fake = FakeGPU()
    monkeypatch.setattr(timing.torch, "cuda", fake)
    times = timing.device_times({"a": fake.call("a", 1.0), "b": fake.call("b", 0.5)}, fake, rounds=2)
    assert times == {state: {"a": [1000.0, 1000.0], "b": [500.0, 500.0]} for state in timing.STATES}
    assert fake.steps[:7] == ["a", "a", "a", "b", "b", "b", "synchronize"]
    for at, state in ((7, "dirty"), (19, "clean")):
        for turn in (fake.steps[at : at + 6], fake.steps[at + 6 : at + 12]):
            assert turn[:2] + turn[3:4] + turn[5:] == ["sleep", state, state, "synchronize"]
            assert sorted(turn[2:5:2]) == ["a", "b"]


def test_no_column_always_follows_the_same_other(monkeypatch):
    fake = FakeGPU()
    monkeypatch.setattr(timing.torch, "cuda", fake)
    timing.device_times({name: fake.call(name, 1.0) for name in "abcd"}, fake, rounds=41)
    seen = [x for x in fake.steps[13:] if x in "abcd"]
    assert len(seen) == 41 * 4 * len(timing.STATES)
    follows = {x: {y for y, z in itertools.pairwise(seen) if z == x} - {x} for x in "abcd"}
    assert follows == {x: set("abcd") - {x} for x in "abcd"}


# A result as gpu.py writes it, with times of our choice.
def timed(us, **more):
    return {**more, **{state: {"p10": us, "p50": us, "p90": us} for state in timing.STATES}}


GATE = {"share": 0.97, "share_from": 128e6, "behind": [1.02, 1.02]}


def measured(ours=100.0, read=134e6, written=134e6, gate=GATE, **others):
    found = {columns.OURS: timed(ours, error=1e-3), **{name: timed(us) for name, us in others.items()}}
    found |= {name: timed(us) for name, us in zip(columns.COPIES, (99.0, 98.0), strict=True)}
    return {
        "read": read,
        "written": written,
        "copy_bytes": read + written,
        "gate": gate,
        "columns": found,
        "noise": dict.fromkeys(timing.STATES, 0.002),
        "wrong": [],
        "refused": {},
    }


def result(rows=None, host=None, first=None):
    return {
        "machine": {"processor": "cpu", "cores": 2, "python": "3", "torch": "2"},
        "gpu": {"name": "NVIDIA Test", "driver": "1", "cuda": "13.0"},
        "date": "2026-01-01T00:00:00+00:00",
        "version": "0",
        "commit": "abc",
        "rounds": 3,
        "seconds": {"rows": 2.0, "host": 1.0},
        "rows": rows or {},
        "host": host or {},
        "first": first or {},
    }


def short(**parts):
    return [str(x) for x in report.shortfalls(result(**parts))]


def test_a_share_is_of_the_faster_copy():
    row = measured(ours=100.0)
    assert report.share(row, columns.OURS, "clean") == pytest.approx(0.98)
    row["copy_bytes"] *= 2
    assert report.share(row, columns.OURS, "clean") == pytest.approx(0.49)
    assert report.share(row, "eager", "clean") is None


def test_a_row_at_the_limit_falls_short_of_nothing():
    assert short(rows={"r": measured(eager=200.0, **{"by hand: k": 98.0})}) == []


def test_what_is_behind_a_copy_a_peer_or_a_kernel_by_hand():
    assert short(rows={"r": measured(ours=102.0)}) == [
        "r, dirty: share of a copy: 96.08 %, should be at least 97 (1.0 % off)",
        "r, clean: share of a copy: 96.08 %, should be at least 97 (1.0 % off)",
    ]
    peer = short(rows={"r": measured(nvFuser=95.0, eager=300.0)})
    assert peer[0] == "r, dirty: beside nvFuser (95.0 us): 100 us, should be at most 96.9 (3.2 % off)"
    assert len(short(rows={"r": measured(**{"by hand: k": 95.0})})) == 2
    assert short(rows={"r": measured(**{"by hand: k": 97.5})}) == []


def test_a_peer_with_a_wrong_result_does_not_count():
    row = measured(nvFuser=50.0)
    row["wrong"] = ["nvFuser"]
    assert short(rows={"r": row}) == []


def test_the_share_of_little_traffic_and_of_other_rows_does_not_count():
    assert short(rows={"r": measured(ours=500.0, gate=None, eager=100.0)}) == []
    assert short(rows={"r": measured(ours=500.0, read=60e6, written=60e6)}) == []
    assert len(short(rows={"r": measured(ours=500.0, read=70e6, written=60e6)})) == 2
    assert short(rows={"r": measured(ours=500.0, gate={**GATE, "share": None})}) == []


def test_a_row_that_moves_little_may_be_behind_by_a_fraction_of_a_microsecond():
    little = {"read": 2e6, "written": 1.9e6}
    assert short(rows={"r": measured(ours=6.29, eager=6.0, nvFuser=7.0, **little)}) == []
    assert len(short(rows={"r": measured(ours=6.31, eager=6.0, **little)})) == 2
    assert len(short(rows={"r": measured(ours=6.29, eager=6.0, read=2e6, written=2.1e6)})) == 2


def test_how_far_a_row_may_be_behind_is_of_a_state():
    gate = {**GATE, "share": None, "behind": (1.06, 1.02)}
    (clean,) = short(rows={"r": measured(ours=105.0, eager=100.0, gate=gate)})
    assert clean.startswith("r, clean: beside eager (100.0 us)")


@pytest.mark.parametrize(
    ("name", "share", "at"),
    [
        ("softmax bf16 8192x8192", 0.96, 268e6),
        ("softmax bf16 32768x256", None, 33.55e6),
        ("softmax bf16 2048x131072", 0.94, 1074e6),
        ("layer norm bf16 16384x4096", 0.96, 268e6),
        ("layer norm backward bf16 16384x4096", 0.92, 403e6),
        ("cross entropy bf16 4096x131072", 0.97, 1074e6),
        ("sum of 2^28 bf16", 0.95, 537e6),
        ("outer sum bf16 32768x4096", 0.90, 268e6),
        ("outer sum bf16 802816x64", None, 103e6),
        ("batch norm bf16 NHWC 64x256x56x56", 1.0, 308e6),
        ("batch norm backward bf16 NHWC 64x256x56x56", None, 514e6),
        ("batch norm bf16 NCHW 64x256x56x56", None, 308e6),
    ],
)
def test_bytes_and_shares_of_rows(name, share, at):
    """At full size, of tensors without memory."""
    row = BY_NAME[name]
    with FakeTensorMode():
        inputs = [torch.empty([row.sizes.get(d, 1) for d in x.dims], dtype=x.dtype) for x in row.inputs]
        program = base.Program(name, row.define, row.eager, inputs)
        read, written = row.read(program), base.traffic(row.outputs(program))
    assert read + written == pytest.approx(at, rel=0.01)
    assert report.least_share({"read": read, "written": written, "gate": asdict(row.gate)}) == share


def test_a_row_that_is_wrong_or_was_not_run_falls_short():
    row = measured()
    row["wrong"] = [columns.OURS]
    assert short(rows={"r": row}) == ["r: wrong: relative error 1.0e-03"]
    del row["columns"][columns.OURS]
    row["refused"][columns.OURS] = "Unsupported: no"
    assert short(rows={"r": row}) == ["r: not run: Unsupported: no"]


def host(us, ratio):
    return {columns.OURS: {"p10": us, "p50": us, "p90": us, "ratio": ratio}}


def test_host_times_and_first_calls():
    assert short(host={"1": host(20.0, 3.0), "3": host(8.0, 1.0), "8": host(9.0, 1.2)}) == []
    assert short(host={"3": host(8.4, 1.1)}) == [
        "host time of a call with 3 inputs: 8.4 us, should be at most 8 (5.0 % off)",
        "host time with 3 inputs, torch.add of the same round = 1: 1.1, should be at most 1 (10.0 % off)",
    ]
    assert short(host={"8": {}}) == ["host time of 8 inputs: not run"]
    good = {"cold": [[100.0, 30.0], [120.0, 50.0], [90.0, 40.0]], "disk": [[2.0, 1.0]] * 3}
    assert short(first={"nvfuser_go": good}) == []
    assert report.first_calls(good)["later new kernels"] == 40.0
    slow = {"cold": [[130.0, 70.0]], "disk": [[4.0, 3.5]]}
    assert [x.split(":")[0] for x in short(first={"nvfuser_go": slow})] == list(report.FIRST_MILLISECONDS)
    assert short(first={"nvfuser_go": "ImportError: no"}) == ["first calls: not run: ImportError: no"]
    assert short(first={"nvfuser_direct": slow}) == []


@pytest.fixture
def full():
    wrong = measured(ours=150.0, eager=90.0, **{"by hand: k": 98.0})
    wrong["refused"] = {"nvFuser": "RuntimeError: no"}
    wrong["wrong"] = ["eager"]
    return result(
        rows={"good": measured(nvFuser=110.0, **{"torch.compile": 101.0}), "bad": wrong},
        host={"3": {**host(7.0, 0.9), "torch.add": host(8.0, 1.0)[columns.OURS]}},
        first={"nvfuser_go": {"cold": [[100.0, 30.0]], "disk": [[2.0, 1.0]]}},
    )


def test_tables(full):
    text = report.markdown(json.loads(json.dumps(full)))
    cells = (
        "| good | 268 | 100.0 / 100.0 | 98.0 / 98.0 | 0.2 / 0.2 | - | 101.0 / 101.0 | 110.0 / 110.0 | - | 99.0 / 99.0 |"
    )
    assert cells in text
    assert "90.0 / 90.0 WRONG" in text
    assert "- bad, nvFuser: RuntimeError: no" in text
    assert "- bad, dirty: share of a copy: 65.33 %" in text
    assert "7.00 (7.00-7.00) 0.90" in text
    assert "falls short" not in text
    assert text.endswith("Measured in 2 s (rows), 1 s (host).")
    del full["rows"]["bad"]
    assert "No row, no time falls short" in report.markdown(full)


def test_the_chart(full, tmp_path):
    pytest.importorskip("matplotlib", reason="the chart needs matplotlib")
    assert report.draw(full, tmp_path / "chart.svg")
    text = (tmp_path / "chart.svg").read_text()
    assert text.count("<path") > 10


def test_the_line_of_a_row(full):
    assert "150.0/150.0" in gpu.line("bad", full["rows"]["bad"])
    del full["rows"]["bad"]["columns"][columns.OURS]
    assert "-" in gpu.line("bad", full["rows"]["bad"])


def test_a_row_that_cannot_be_measured_is_reported(full, monkeypatch):
    rows = [row for row in BY_NAME.values() if row.name.startswith("cast")]
    seen = []

    def measure_row(row, *_):
        if row is rows[1]:
            raise RuntimeError("out of memory\nat length")
        return full["rows"]["good"]

    monkeypatch.setattr(gpu, "measure_row", measure_row)
    monkeypatch.setattr(gpu, "Driver", lambda: None)
    monkeypatch.setattr(gpu, "Cache", lambda: None)
    monkeypatch.setattr(gpu, "Handwritten", lambda *_: None)
    found = gpu.measure_rows(gpu.parsed(["--rows", "^cast"]), lambda x: seen.append(list(x)))
    assert list(found) == [row.name for row in rows]
    assert [len(x) for x in seen] == [1, 2, 3]
    full["rows"] = found
    text = report.markdown(full)
    assert f"- {rows[1].name}: not run: RuntimeError: out of memory" in text
    assert f"| {rows[1].name} | 0 | - |" in text


def test_results_are_kept_after_each_part(full, tmp_path, monkeypatch, capsys):
    def failing(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu, "gpu", lambda: full["gpu"])
    monkeypatch.setattr(gpu, "measure_rows", lambda arguments, seen: full["rows"])
    monkeypatch.setattr(gpu, "measure_host", lambda arguments: full["host"])
    monkeypatch.setattr(gpu, "measure_first", failing)
    monkeypatch.setenv("BENCHMARK_COMMIT", "abc")
    with pytest.raises(KeyboardInterrupt):
        gpu.main(["--output", str(tmp_path)])
    (kept,) = tmp_path.iterdir()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-abc-test\.json", kept.name)
    result = json.loads(kept.read_text())
    assert (result["rows"], result["host"], result["first"]) == (full["rows"], full["host"], {})
    assert set(result["seconds"]) == {"rows", "host"}
    assert any(x.startswith("bad, clean: share of a copy") for x in result["short"])
    assert gpu.main(["--output", str(tmp_path), "--only", "host"]) == 0
    assert f"Written to {kept}" in capsys.readouterr().out


def strict(text):
    """What a parser takes that knows only the numbers of JSON."""

    def refuse(token):
        raise ValueError(f"{token} is no number of JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("kept", sorted((BENCHMARKS / "results").glob("*.json")), ids=lambda path: path.name)
def test_kept_results_are_strict_json(kept):
    assert strict(kept.read_text())["commit"]


def test_an_error_that_is_no_number_is_written_as_text():
    row = measured(ours=100.0)
    row["columns"][columns.OURS]["error"] = math.inf
    row["wrong"] = [columns.OURS]
    kept = strict(machine.as_json({"rows": {"r": row}, "spread": (math.nan, -math.inf, 1.5)}))
    assert kept["spread"] == ["nan", "-inf", 1.5]
    assert kept["rows"]["r"]["columns"][columns.OURS]["error"] == "inf"
    for written in (row, kept["rows"]["r"]):
        assert short(rows={"r": written}) == ["r: wrong: relative error inf"]


STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COUNTED = [
    ["ID", "Kernel Name", "gpu__time_duration.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed"]
    + ["smsp__issue_active.avg.per_cycle_active", "launch__registers_per_thread"]
    + [STALLED.format(x) for x in ("long_scoreboard", "barrier", "selected", "barrier_not_issued", "math")],
    ["", "", "us", "%", "inst/cycle", "register/thread", *["inst"] * 5],
    ["0", "kernel_0", "93.5", "88.20", "0.31", "40", "6.0", "2.0", "1.0", "2.0", "0.01"],
    ["1", "kernel_1", "1,003.5", "8.20", "n/a", "16", *["0"] * 5],
]
LOG = "==PROF== Connected\n" + "\n".join(",".join(f'"{x}"' for x in line) for line in COUNTED) + "\n"


def test_what_counters_say():
    first, second = counters.kernels(LOG)
    assert first == {
        "kernel": "kernel_0",
        "us": 93.5,
        "dram_percent": 88.2,
        "issue_percent": 31.0,
        "registers": 40.0,
        "stalls_percent": {"long_scoreboard": 74.9, "barrier": 25.0},
    }
    assert second["us"] == 1003.5
    assert "issue_percent" not in second
    with pytest.raises(ValueError, match="of no kernel: ==ERROR== no permission"):
        counters.kernels("==ERROR== no permission")


@pytest.fixture
def profiler(tmp_path, monkeypatch):
    """A program in place of ncu, which does what a shell line says."""

    def put(line):
        program = tmp_path / "ncu"
        program.write_text(f"#!/bin/sh\nwhile [ $1 != --log-file ]; do shift; done\n{line}\n")
        program.chmod(0o755)
        monkeypatch.setattr(counters, "ncu", lambda: str(program))

    (tmp_path / "LOG").write_text(LOG)
    return put, tmp_path / "LOG"


def test_counters_of_rows(profiler):
    """Of several rows in one process: a kernel of torch stands before each."""
    put, log = profiler
    first, second = COUNTED[2:]
    between = ["0", "void at::native::vectorized_elementwise_kernel<4, Fill>", *second[2:]]
    lines = [*COUNTED[:2], between, first, second, between, second]
    log.write_text("\n".join(",".join(f'"{x}"' for x in line) for line in lines) + "\n")
    program = BENCHMARKS / "counters.py"
    put(f'cp {log} "$2"; test "$4" = {program} && test "$5" = "a row" && test "$6" = another || rm "$2"')
    found = counters.counters(["a row", "another"], 30)
    assert [[x["kernel"] for x in found[row]["kernels"]] for row in found] == [["kernel_0", "kernel_1"], ["kernel_1"]]
    assert counters.counters(["a row"], 30)["a row"]["error"].startswith("ncu says of no kernel")
    put(f'cp {log} "$2"')
    many = [f"row {i}" for i in range(counters.BATCH + 1)]
    found = counters.counters(many, 30)
    assert list(found) == many
    assert {x["error"] for x in found.values()} == {f"ncu says of 2 rows, not of {n}" for n in (counters.BATCH, 1)}
    assert counters.counters(["a row"], 1) == {"a row": {"error": "no time was left"}}
    put("sleep 100")
    assert counters.look_at(["a row"], counters.ncu(), 0.2) == {"a row": {"error": "ncu took more than 0 s"}}


def test_counters_are_of_the_rows_that_fall_short_and_in_the_table(full, profiler):
    full["rows"]["worse"] = measured(ours=300.0)
    assert report.short_rows(full) == ["worse", "bad"]
    full["rows"]["bad"]["counters"] = {"kernels": counters.kernels(LOG)}
    full["rows"]["worse"]["counters"] = {"error": "no time was left"}
    text = report.markdown(full)
    assert "| bad | kernel_0 | 93.5 | 88.2 | 31 | 40 | long_scoreboard 75, barrier 25 |" in text
    assert "| worse | no time was left |" in text


def test_expressions_of_a_manifest():
    sizes = {"M": 10, "N": 4098}
    assert handwritten.evaluate("ceil_div(M * N // 8, 256) + 1 - 2 % 2", sizes) == 22
    for text in ("K", "M ** 2", "M.real", "open(M)", "'x'", "M *", "ceil_div(a=1)"):
        with pytest.raises(ValueError, match="manifest: "):
            handwritten.evaluate(text, sizes)
    for divisor in (2, 3, 512, 2049, 4098, 65535):
        multiplier, shift = handwritten.multiplier(divisor), handwritten.shift(divisor)
        for n in (0, 1, divisor - 1, divisor, 7 * divisor - 1, 2**31 // divisor * divisor - 1, 2**31 - 1):
            assert (n * multiplier >> 32) >> shift == n // divisor


def test_manifests(tmp_path):
    (own,) = handwritten.manifest(handwritten.KERNELS)
    assert own.row == "copy"
    with pytest.raises(FileNotFoundError, match=r"pointwise\.cu does not exist"):
        handwritten.manifest(tmp_path)
    (tmp_path / "pointwise.cu").touch()
    assert {x.row for x in handwritten.manifest(tmp_path, {"silu * mul bf16", "relu bf16"})} == {"silu * mul bf16"}
    for name in ("softmax", "reduce", "norm", "lnbwd", "bn", "transpose"):
        (tmp_path / f"{name}.cu").touch()
    kernels = handwritten.manifest(tmp_path)
    assert len({(x.row, x.name) for x in kernels}) == len(kernels)
    for kernel in kernels:
        row = BY_NAME[kernel.row]
        outputs = 3 if "layer norm backward" in row.name else 1
        known = {f"in{i}" for i in range(len(row.inputs))} | {f"out{i}" for i in range(outputs)}
        known |= {f"scratch{i}" for i in range(len(kernel.scratch))}
        used = set()
        assert all(handwritten.evaluate(x.partition(" ")[2], row.sizes) > 0 for x in kernel.scratch)
        for launch in kernel.launches:
            assert all(handwritten.evaluate(x, row.sizes) > 0 for x in launch.grid)
            assert 0 <= handwritten.evaluate(launch.shared, row.sizes) <= 227 << 10
            for x in launch.arguments:
                used.add(x)
                kind, _, expression = x.partition(" ")
                assert kind in known or handwritten.evaluate(expression, row.sizes) >= 0
        assert used >= {x for x in known if not x.startswith("in")}
    (tmp_path / "manifest.json").write_text('{"kernels": []}')
    assert handwritten.manifest(tmp_path) == []


def test_launches_of_a_kernel_by_hand():
    """With memory of the host and a driver that notes what it is given."""
    launched = []

    class Notes:
        def launcher(self, function, grid, launch, shared, values):
            return lambda: launched.append((function, grid, launch.dependent, shared, [x.value for x in values]))

    entries = json.loads((handwritten.KERNELS / "default.json").read_text())["kernels"]
    kernel = next(handwritten.Kernel.of(x) for x in entries if x["row"] == "outer sum bf16 32768x4096")
    hand = object.__new__(handwritten.Handwritten)
    hand._driver, hand._kernels = Notes(), [kernel]
    hand._functions = {x.kernel: x.kernel for x in kernel.launches}
    x, out = torch.ones(64, 64), torch.ones(64)
    ((name, call),) = hand.calls(kernel.row, {"M": 64, "N": 64}, [x], [out]).items()
    call()
    first, second = launched
    assert name == kernel.name
    assert first[:4] == ("osum_l32_b16_u8_s1", [0, 8], False, 0)
    assert second[:4] == ("osum_fin", [2], True, 0)
    assert first[4][0] == x.data_ptr()
    assert first[4][4] == second[4][0]  # the partial sums
    assert second[4][1:] == [8, 64, out.data_ptr()]


def test_structures_of_a_launch():
    made = handwritten.configuration([3, 2], 128, 64, None, [handwritten.COOPERATIVE])
    assert (made.gx, made.gy, made.gz, made.bx, made.shared, made.count) == (3, 2, 1, 128, 64, 1)
    assert (made.attributes[0].id, made.attributes[0].value) == (2, 1)
    assert ctypes.sizeof(handwritten.Attribute) == 72
    assert ctypes.sizeof(handwritten.Configuration) == 56
    assert handwritten.Configuration.stream.offset == 32


def gpu_program(*arguments):
    return subprocess.run(
        [sys.executable, BENCHMARKS / "gpu.py", *arguments], capture_output=True, text=True, check=False
    )


def test_the_list_needs_no_gpu():
    done = gpu_program("--list", "--rows", "^cast")
    assert done.stdout.splitlines() == ["cast bf16 to f32", "cast f32 to bf16", "cast i64 to f32"]
    assert done.returncode == 0


def test_arguments_that_are_not_known():
    assert "--peers: ['jax'] is not among" in gpu_program("--peers", "jax").stderr
    assert "--only: ['x'] is not among" in gpu_program("--only", "x").stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would measure")
def test_without_a_gpu_it_says_so():
    done = gpu_program()
    assert done.returncode == 1
    assert "needs a GPU" in done.stderr


def test_blocks_without_a_gpu(capsys) -> None:
    assert {"adamw", "gpt2_model", "llama_block"} <= {block.name for block in blocks.blocks()}
    if not torch.cuda.is_available():
        assert blocks.main([]) == 1
        assert "needs a GPU" in capsys.readouterr().err


def test_a_chain_is_as_many_kernels() -> None:
    """What the cost of a segment is measured by."""
    x = torch.randn(128)
    fd = blocks.chain(3)
    (got,) = fd.execute([x], _enable_options=["simulate"])
    assert torch.allclose(got, x * 1.5 * (4 / 3) * 1.25)


CODE_OF_A_GRAPH = """
def call(self, args):
    args.clear()
    assert_size_stride(arg0, (4, 4), (4, 1))
    with torch.cuda._DeviceGuard(0):
        buf0 = empty_strided_cuda((4, 4), (4, 1), torch.float32)
        cpp_fused_lift_fresh_0(buf9)
        extern_kernels.mm(arg0, reinterpret_tensor(arg0, (4, 4), (1, 4), 0), out=buf0)
        stream0 = get_raw_stream(0)
        triton_poi_fused_relu_0.run(buf0, 16, stream=stream0)
        buf1 = torch.ops.aten.topk.default(buf0, 2)
        triton_poi_fused_relu_0.run(buf1, 16, stream=stream0)
def benchmark_compiled_module(args):
    triton_poi_fused_relu_0.run(buf0, 16, stream=stream0)
"""


def test_work_of_a_graph():
    assert counted.work_of(CODE_OF_A_GRAPH) == {"kernels": 2, "calls": 2}


def test_our_plan_is_counted():
    block = next(b for b in blocks.blocks() if b.name == "linear_relu")
    assert counted.ours(block, "small") == {"kernels": 30, "fills": 0, "calls": 30}


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch answers for itself where there is a GPU")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="torch.compile needs Triton to plan for a GPU")
def test_counts_without_a_gpu(tmp_path):
    """In a process of its own, as torch is made to believe in a device."""
    program = [sys.executable, str(BENCHMARKS / "blocks.py"), "--count-only", "--size", "small", "--blocks", "cross_"]
    done = subprocess.run([*program, "--output", str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("*-blocks.json")
    kept = json.loads(file.read_text())
    assert kept["gpu"]["name"] == "planned for sm_90 without a GPU"
    rows = kept["sizes"]["small"]
    assert set(rows) == {"cross_entropy_forward", "cross_entropy_backward"}
    for name, row in rows.items():
        theirs = row["torch.compile"]
        assert "error" not in theirs, theirs
        assert (theirs["graphs"], theirs["calls"], theirs["eager"]) == (1, 0, {})
        assert 1 <= theirs["kernels"] <= 8
        assert f"| {name} | small | {row['nvfuser_go']['kernels']} / 0 |" in done.stdout
