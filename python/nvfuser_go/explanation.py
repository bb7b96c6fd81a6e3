"""Why a fusion is computed as it is: what FusionDefinition.explain() returns, as data, as text, in a notebook."""

import html as _html
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What a scheduler, or who refused later, says to a segment. Without refusals and not accepting: was not asked."""

    by: str
    accepts: bool
    refusals: tuple[str, ...]


@dataclass(frozen=True)
class Traffic:
    """What a kernel moves if it reads and writes each element once, in bytes, and the microseconds that it takes.

    Times begin with a second cache that is full of what others wrote, and include the launch.
    """

    read: int
    written: int
    estimated: float
    measured: float | None  # None if it was not measured


@dataclass(frozen=True)
class ExplainedSegment:
    """A part of a fusion that one kernel, one call of torch or a view computes."""

    number: int  # -1: a copy
    about: str
    answers: tuple[Answer, ...]
    parameters: str  # of the kernel; empty if there is none
    others: tuple[str, ...]  # parameters that were thought to be slower, or cannot be: then with why
    memory: Traffic | None  # of the kernel


@dataclass(frozen=True)
class Explanation:
    """The segments of a fusion for inputs of one kind. str() is a table, and so is what a notebook shows."""

    segments: tuple[ExplainedSegment, ...]
    device: str  # that times are of
    not_measured: str  # why times were not measured; empty if they were
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<div>{''.join(_table(segment) for segment in self.segments)}</div>"


def parsed(data: str) -> Explanation:
    """The JSON of Executor.explain()."""
    found = json.loads(data)
    segments = tuple(
        ExplainedSegment(
            number=segment["number"],
            about=segment["about"],
            answers=tuple(Answer(a["by"], a["accepts"], tuple(a["refusals"])) for a in segment["answers"]),
            parameters=segment["parameters"],
            others=tuple(segment["others"]),
            memory=segment["memory"] and Traffic(**segment["memory"]),
        )
        for segment in found["segments"]
    )
    return Explanation(segments, found["device"], found["not_measured"], found["text"])


def _table(segment: ExplainedSegment) -> str:
    rows = []
    for answer in segment.answers:
        says = "accepts" if answer.accepts else "is not asked"
        rows.append((answer.by, "\n".join(f"refuses: {why}" for why in answer.refusals) or says))
    if segment.parameters:
        rows.append(("parameters", segment.parameters))
    if (moved := segment.memory) is not None:
        rows.append(("memory", f"{moved.read} bytes read, {moved.written} written"))
        measured = "not measured" if moved.measured is None else f"measured {moved.measured:.1f} us"
        rows.append(("time", f"estimated {moved.estimated:.1f} us, {measured}"))
    if segment.others:
        rows.append(("not", "\n".join(segment.others)))
    style = ' style="text-align:left;white-space:pre-wrap"'
    cells = (f"<tr>{''.join(f'<td{style}>{_html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table><caption style="text-align:left">{_html.escape(segment.about)}</caption>{"".join(cells)}</table>'
