"""What is made of the measurements of gpu.py: shares of a copy, what falls short of the thresholds, tables, a chart.

A result is what gpu.py writes as JSON. Nothing here measures or needs a GPU.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from columns import BY_HAND, COPIES, OURS, PEERS
from timing import STATES

# The thresholds; those of a row are in its gate.
BEHIND_BY_HAND = 1.03
SMALL, BEHIND_IF_SMALL = 4e6, 0.3  # below so many bytes, how many microseconds the best peer may be ahead
HOST_MICROSECONDS = {"3": 8.0, "8": 9.0}  # by the number of inputs
FIRST_MILLISECONDS = {
    "first new kernel": 110.0,
    "later new kernels": 60.0,
    "first from disk": 3.0,
    "later from disk": 3.0,
}


@dataclass(frozen=True)
class Shortfall:
    """A number that is not what it should be: of what, what was measured, the bound, and whether it is a least one."""

    what: str
    measured: float
    bound: float
    unit: str
    at_least: bool = False

    def __str__(self) -> str:
        relation = "at least" if self.at_least else "at most"
        apart = abs(self.measured / self.bound - 1) * 100 if self.bound else float("inf")
        measured = f"{self.measured:.4g} {self.unit}".rstrip()
        return f"{self.what}: {measured}, should be {relation} {self.bound:.4g} ({apart:.1f} % off)"


def median(row: dict, column: str, state: str) -> float | None:
    """Microseconds, or None where the column was not timed."""
    found = row["columns"].get(column)
    return found[state]["p50"] if found else None


def share(row: dict, column: str, state: str) -> float | None:
    """How fast bytes move, where the faster copy of as many bytes in the same state is 1."""
    mine = median(row, column, state)
    copy = min((t for name in COPIES if (t := median(row, name, state)) is not None), default=None)
    if mine is None or copy is None:
        return None
    return copy / row["copy_bytes"] * row_bytes(row) / mine


def row_bytes(row: dict) -> int:
    return row["read"] + row["written"]


def best(row: dict, columns: list[str], state: str) -> tuple[str, float] | None:
    """The fastest of some columns and its microseconds."""
    timed = [(t, name) for name in columns if (t := median(row, name, state)) is not None]
    return min(timed)[::-1] if timed else None


def by_hand(row: dict) -> list[str]:
    return [name for name in row["columns"] if name.startswith(BY_HAND)]


def least_share(row: dict) -> float | None:
    """How fast the bytes of the row must move, as share() says it; None if that is only reported."""
    gate = row["gate"]
    return gate["share"] if gate and row_bytes(row) >= gate["share_from"] else None


def bounds(row: dict, state: str) -> Iterator[tuple[str, float]]:
    """What is faster than the row may take, and the microseconds it may take beside that."""
    right = {x for x in row["columns"] if x not in row["wrong"]}
    if found := best(row, [x for x in by_hand(row) if x in right], state):
        yield f"{found[0]} ({found[1]:.1f} us)", found[1] * BEHIND_BY_HAND
    if found := best(row, [x for x in PEERS if x in right], state):
        if row_bytes(row) < SMALL:
            bound = found[1] + BEHIND_IF_SMALL
        else:
            bound = found[1] * row["gate"]["behind"][STATES.index(state)]
        yield f"{found[0]} ({found[1]:.1f} us)", bound


def row_shortfalls(name: str, row: dict) -> Iterator[Shortfall | str]:
    if OURS not in row["columns"]:
        yield f"{name}: not run: {row['refused'].get(OURS, 'not measured')}"
        return
    if OURS in row["wrong"]:
        yield f"{name}: wrong: relative error {float(row['columns'][OURS]['error']):.1e}"
    if not row["gate"]:
        return
    least = least_share(row)
    for state in STATES:
        mine = median(row, OURS, state)
        part = share(row, OURS, state)
        if part is not None and least is not None and part < least:
            yield Shortfall(f"{name}, {state}: share of a copy", part * 100, least * 100, "%", at_least=True)
        for rival, bound in bounds(row, state):
            if mine > bound:
                yield Shortfall(f"{name}, {state}: beside {rival}", mine, bound, "us")


def short_rows(result: dict) -> list[str]:
    """The rows that are slower than a bound, the farthest first."""
    far = {}
    for name, row in result["rows"].items():
        found = [x for x in row_shortfalls(name, row) if isinstance(x, Shortfall)]
        if found:
            far[name] = max(x.bound / x.measured if x.at_least else x.measured / x.bound for x in found)
    return sorted(far, key=lambda name: (-far[name], name))


def first_calls(series: dict[str, list[list[float]]]) -> dict[str, float]:
    """Milliseconds from what first_call.series gives: medians over the processes."""
    cold, disk = series["cold"], series["disk"]
    later = [x for process in cold for x in process[1:]]
    return {
        "first new kernel": statistics.median(x[0] for x in cold),
        "later new kernels": statistics.median(later),
        "first from disk": statistics.median(x[0] for x in disk),
        "later from disk": statistics.median(x for process in disk for x in process[1:]),
    }


def shortfalls(result: dict) -> list[Shortfall | str]:
    """What falls short of the thresholds, or could not be run: sentences and numbers, in the order of the result."""
    found: list[Shortfall | str] = []
    for name, row in result["rows"].items():
        found += row_shortfalls(name, row)
    for inputs, columns in result["host"].items():
        if OURS not in columns:
            found.append(f"host time of {inputs} inputs: not run")
            continue
        mine, bound = columns[OURS]["p50"], HOST_MICROSECONDS.get(inputs)
        if bound is not None and mine > bound:
            found.append(Shortfall(f"host time of a call with {inputs} inputs", mine, bound, "us"))
        if inputs == "3" and (slower := columns[OURS]["ratio"]) > 1:
            found.append(Shortfall("host time with 3 inputs, torch.add of the same round = 1", slower, 1, ""))
    for package, series in result["first"].items():
        if package == OURS and isinstance(series, dict):
            times = first_calls(series)
            found += [Shortfall(k, times[k], v, "ms") for k, v in FIRST_MILLISECONDS.items() if times[k] > v]
        elif package == OURS:
            found.append(f"first calls: not run: {series}")
    return found


def row_cells(row: dict) -> list[str]:
    def times(column: str, marked: bool = False) -> str:
        found = [median(row, column, state) for state in STATES]
        if None in found:
            return "-"
        wrong = " WRONG" if column in row["wrong"] else ""
        return " / ".join(f"{t:.1f}" for t in found) + wrong

    def both(numbers: list[float | None], digits: int = 0) -> str:
        return "-" if None in numbers else " / ".join(f"{100 * n:.{digits}f}" for n in numbers)

    hand = best(row, by_hand(row), STATES[1])
    return [
        f"{row_bytes(row) / 1e6:.0f}",
        times(OURS),
        both([share(row, OURS, state) for state in STATES], 1),
        both([row["noise"].get(state) for state in STATES], 1),
        *(times(name) for name in PEERS),
        times(hand[0]) if hand else "-",
        *(times(name) for name in COPIES),
    ]


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows]]


def markdown(result: dict) -> str:
    """The tables. Times of rows are dirty / clean."""
    m, gpu = result["machine"], result["gpu"]
    head = ["row", "MB", "us", "% of copy", "A/A %", *PEERS, "by hand", *COPIES]
    lines = [
        f"{gpu['name']}, driver {gpu['driver']}, CUDA {gpu['cuda']}; {m['processor']}, {m['cores']} cores; Python"
        f" {m['python']}, torch {m['torch']}; nvfuser_go {result['version']} at {result['commit']}, {result['date']}",
        "",
        f"Microseconds with L2 dirty / clean, medians of {result['rounds']} rounds. Share of the faster copy of as many"
        " bytes in the same state.",
        "",
        *table(head, [[name, *row_cells(row)] for name, row in result["rows"].items()]),
    ]
    if result["host"]:
        names = list(dict.fromkeys(name for columns in result["host"].values() for name in columns))

        def cell(columns: dict, name: str) -> str:
            x = columns.get(name)
            return f"{x['p50']:.2f} ({x['p10']:.2f}-{x['p90']:.2f}) {x['ratio']:.2f}" if x else "-"

        lines += ["", "Host microseconds of a cached call: p50 (p10-p90), and the ratio to torch.add.", ""]
        lines += table(["inputs", *names], [[n, *(cell(c, x) for x in names)] for n, c in result["host"].items()])
    calls = {package: first_calls(x) for package, x in result["first"].items() if isinstance(x, dict)}
    if calls:
        heads = list(next(iter(calls.values())))
        cells = [[package, *(f"{times[x]:.2f}" for x in heads)] for package, times in calls.items()]
        lines += ["", "Milliseconds of first calls, medians.", "", *table(["", *heads], cells)]
    refused = [f"- {name}, {who}: {why}" for name, row in result["rows"].items() for who, why in row["refused"].items()]
    if refused:
        lines += ["", "Not run:", "", *refused]
    lines += counters_table(result)
    short = shortfalls(result)
    lines += ["", "Short of the thresholds:" if short else "No row, no time falls short of the thresholds."]
    lines += ["", *(f"- {x}" for x in short)] if short else []
    lines += ["", "Measured in " + ", ".join(f"{t:.0f} s ({part})" for part, t in result["seconds"].items()) + "."]
    return "\n".join(lines)


def counters_table(result: dict) -> list[str]:
    """The table of what the hardware counters say, or nothing."""
    head = ["row", "kernel", "us", "DRAM %", "issue %", "registers", "stalls, % of the time of warps"]
    lines = []
    for name, row in result["rows"].items():
        found = row.get("counters", {})
        if "error" in found:
            lines.append([name, found["error"].replace("|", " "), *[""] * 5])
        for kernel in found.get("kernels", ()):
            values = [
                f"{kernel[x]:g}" if x in kernel else "-" for x in ("us", "dram_percent", "issue_percent", "registers")
            ]
            stalls = ", ".join(f"{x} {part:.0f}" for x, part in list(kernel["stalls_percent"].items())[:4])
            lines.append([name, kernel["kernel"][:60].replace("|", " "), *values, stalls])
    return ["", "Counters of rows that fall short, with empty caches.", "", *table(head, lines)] if lines else []


def draw(result: dict, path: Path) -> bool:
    """A bar a row, its share of a copy with a clean cache, and a mark for each peer. False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(result["rows"])[::-1]
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.28 * len(names)), layout="constrained")
    places = range(len(names))
    for state, height, color in zip(STATES, (0.8, 0.4), ("#c6d8ee", "#4a7ab5"), strict=True):
        shares = [share(result["rows"][name], OURS, state) or 0 for name in names]
        axes.barh(places, [100 * x for x in shares], height, color=color, label=f"nvfuser_go, {state}")
    for column, mark in zip(PEERS, "o^s", strict=True):
        found = [
            (100 * x, y)
            for y, name in zip(places, names, strict=True)
            if (x := share(result["rows"][name], column, "clean"))
        ]
        if found:
            axes.scatter(
                *zip(*found, strict=True),
                marker=mark,
                s=22,
                facecolors="none",
                edgecolors="black",
                label=f"{column}, clean",
            )
    axes.axvline(100, color="gray", linewidth=0.8)
    for place, name in zip(places, names, strict=True):
        if (least := least_share(result["rows"][name])) is not None:
            axes.plot([100 * least] * 2, [place - 0.4, place + 0.4], color="gray", linewidth=0.8)
    axes.set_yticks(places, names)
    axes.set_xlim(0, 125)
    axes.set_xlabel("% of a copy of the same bytes")
    axes.set_title(f"{result['gpu']['name']}, {result['commit']}", fontsize=9)
    axes.legend(loc="lower left", fontsize=7)
    figure.savefig(path)
    pyplot.close(figure)
    return True
