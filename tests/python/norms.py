"""Softmax, norms, cross entropy and reductions with their gradients: which cases there are, and what is right.

The tests on a GPU run all of them, those on the CPU a few. An output is held against torch in double precision: its
error may be twice that of torch in the same dtype, or one unit in the last place. The programs are those of
benchmarks/formulas.py.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import formulas
from formulas import CHANNELS_LAST, Formula
from programs import Program

WIDTHS = (1, 2, 3, 7, 32, 33, 127, 1000, 1023, 1024, 4096, 4098, 20480, 32768, 65536, 131072, 262144)
ROWS = (1, 7, 132, 4096)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)

# By name, what makes the formula of a dtype. Inputs have M rows of N elements.
OF_ROWS: dict[str, Callable[[torch.dtype], Formula]] = {
    "softmax": formulas.softmax,
    "softmax backward": formulas.softmax_backward,
    "log-softmax": partial(formulas.softmax, log=True),
    "log-softmax backward": partial(formulas.softmax_backward, log=True),
    "layer norm": formulas.layer_norm,
    "layer norm backward": formulas.layer_norm_backward,
    "RMS norm": formulas.rms_norm,
    "RMS norm backward": formulas.rms_norm_backward,
    "cross entropy": formulas.cross_entropy,
    "cross entropy backward": formulas.cross_entropy_backward,
    "sum": lambda dtype: formulas.sums(dtype, "MN", (1,)),
    "max": formulas.maxima,
    "var_mean": formulas.var_mean,
}

# The same of images, of a dtype, a layout, a number of channels and of groups; the last two do not matter to some.
OF_IMAGES: dict[str, Callable[[torch.dtype, str, int, int], Formula]] = {
    "batch norm": lambda dtype, layout, channels, groups: formulas.batch_norm(dtype, layout),
    "batch norm backward": lambda dtype, layout, channels, groups: formulas.batch_norm_backward(dtype, layout),
    "group norm": formulas.group_norm,
    "group norm backward": formulas.group_norm_backward,
    "instance norm": lambda dtype, layout, channels, groups: formulas.group_norm(dtype, layout, channels, channels),
    "instance norm backward": lambda dtype, layout, channels, groups: formulas.group_norm_backward(
        dtype, layout, channels, channels
    ),
}
IMAGE_LAYOUTS = (CHANNELS_LAST, "dense")
SHAPES = ((1, 4, 1, 2), (2, 6, 3, 5), (8, 64, 7, 7), (3, 30, 33, 17), (32, 256, 14, 14), (16, 64, 56, 56))

# How rows lie in memory; these go round from case to case. See row.LAYOUTS.
ROW_LAYOUTS = ("dense", "odd", "dense", "rows")


@dataclass(frozen=True)
class Case:
    """A formula and its sizes by letter. seed: of the first draw of its inputs."""

    name: str
    formula: Formula
    sizes: dict[str, int]
    seed: int = 0

    def __str__(self) -> str:
        first = next(x for x in self.formula.inputs if len(x.dims) > 1)
        return f"{'x'.join(str(self.sizes[d]) for d in first.dims)} {first.layout}"

    @property
    def elements(self) -> int:
        """Of the largest input."""
        return max(math.prod(self.sizes[d] for d in x.dims) for x in self.formula.inputs)

    def inputs(self, device: str | torch.device, draw: int = 0) -> list[torch.Tensor]:
        random = torch.Generator(device).manual_seed(1000 * self.seed + draw)
        made = [x.make(self.sizes, device, random) for x in self.formula.inputs]
        return list(self.formula.prepare(*made)) if self.formula.prepare else made

    def program(self, inputs: list[torch.Tensor]) -> Program:
        return Program(self.name, self.formula.define, self.formula.eager, inputs)


def row_cases(name: str, dtype: torch.dtype, width: int, rows: Sequence[int] = ROWS) -> Iterator[Case]:
    """The cases of one width."""
    made = OF_ROWS[name](dtype)
    for number, count in enumerate(rows):
        layout = ROW_LAYOUTS[(number + WIDTHS.index(width)) % len(ROW_LAYOUTS)]
        if layout == "rows" and count * width > 1 << 26:
            layout = "dense"  # the gaps would take as much memory again
        inputs = tuple(replace(x, layout=layout) if x.dims == "MN" else x for x in made.inputs)
        yield Case(name, replace(made, inputs=inputs), {"M": count, "N": width}, seed=number)


def image_cases(name: str, dtype: torch.dtype, layout: str, shapes: Sequence[tuple] = SHAPES) -> Iterator[Case]:
    for number, (batch, channels, height, width) in enumerate(shapes):
        groups = 2
        made = OF_IMAGES[name](dtype, layout, channels, groups)
        per = channels if name.startswith("instance") else groups
        sizes = {"B": batch, "C": channels, "H": height, "W": width, "G": per}
        yield Case(name, made, sizes, seed=number)


# ---- What is right ----

CHUNK = 1 << 24  # elements that are held in double precision at a time
DRAWN, DRAWS = 1 << 13, 8  # elements from which torch's error is known, and how often they are drawn at most
FLOAT = torch.finfo(torch.float32).eps


def parts(case: Case, inputs: list[torch.Tensor]) -> Iterator[tuple[slice, list[torch.Tensor]]]:
    """The inputs in double precision, of a range of rows at a time; whole if there are none."""
    rows = case.sizes.get("M")
    step = max(1, CHUNK // case.sizes["N"]) if rows else 1
    for start in range(0, rows or 1, step):
        here = slice(start, start + step)
        chosen = [x[here] if i.dims.startswith("M") else x for i, x in zip(case.formula.inputs, inputs, strict=True)]
        yield here, [x.double() if x.is_floating_point() else x for x in chosen]


def tuple_of(x: object) -> tuple:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def errors(case: Case, inputs: list[torch.Tensor], results: Sequence[Sequence[torch.Tensor]]) -> list[list[float]]:
    """The largest error of each result, by output.

    An error is relative to the absolute value of what is right, or to the smallest normal number, with the rounding of
    the terms in float32, as units of the dtype, added to it. It is infinite where one is not finite and the other is
    not the same.
    """
    worst = [[0.0] * len(case.formula.outputs) for _ in results]
    whole: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # outputs that are sums over the rows, and their terms

    def note(output: int, want: torch.Tensor, terms: torch.Tensor, here: slice | None) -> None:
        for number, result in enumerate(results):
            got = result[output] if here is None else result[output][here]
            worst[number][output] = max(worst[number][output], distance(got, want, terms))

    for here, wide in parts(case, inputs):
        wants, terms = tuple_of(case.formula.eager(*wide)), case.formula.terms(*wide)
        for output, (want, term, dims) in enumerate(zip(wants, terms, case.formula.outputs, strict=True)):
            term = torch.as_tensor(term, dtype=torch.float64, device=want.device)
            if dims.startswith("M") or "M" not in case.sizes:
                note(output, want, term, here if dims.startswith("M") else None)
            elif output in whole:
                whole[output] = whole[output][0] + want, whole[output][1] + term
            else:
                whole[output] = want, term
    for output, (want, term) in whole.items():
        note(output, want, term, None)
    return worst


def distance(got: torch.Tensor, want: torch.Tensor, terms: torch.Tensor) -> float:
    if got.shape != want.shape:
        return math.inf
    if got.numel() == 0:
        return 0.0
    about = torch.finfo(got.dtype)
    got = got.double()
    usual = want.isfinite() & got.isfinite()
    same = (got == want) | (got.isnan() & want.isnan()) | (want.abs() > about.max) & (got == want.sign() * math.inf)
    if not (usual | same).all():
        return math.inf
    unit = want.abs().clamp_(min=about.tiny) + terms.abs() * (FLOAT / about.eps)
    return ((got - want).abs_() / unit).where(usual, 0).max().item()


Call = Callable[[Program], Sequence[torch.Tensor]]


def problem(case: Case, call: Call, device: str | torch.device = "cpu") -> str | None:
    """What is wrong with the outputs of `call`, which gets a program and gives its outputs. It is called twice with the
    same inputs, and once with others where there are few."""
    draws = min(DRAWS, max(1, DRAWN // max(1, case.elements)))
    ours, theirs = [0.0] * len(case.formula.outputs), [0.0] * len(case.formula.outputs)
    for draw in range(draws):
        inputs = case.inputs(device, draw)
        results = [tuple_of(case.formula.eager(*inputs))]
        if draw < 2:
            got = list(call(case.program(inputs)))
            if [x.dtype for x in got] != [x.dtype for x in results[0]]:
                return f"the outputs are {[x.dtype for x in got]}"
            if draw == 0:
                again = call(case.program(inputs))
                if not all(same_bits(x, y) for x, y in zip(got, again, strict=True)):
                    return "the second call gives other bits"
                del again
            results.append(got)
        found = errors(case, inputs, results)
        theirs = [max(x, y) for x, y in zip(theirs, found[0], strict=True)]
        if draw < 2:
            ours = [max(x, y) for x, y in zip(ours, found[1], strict=True)]
    for output, (mine, other, like) in enumerate(zip(ours, theirs, results[0], strict=True)):
        unit = torch.finfo(like.dtype).eps
        if not mine <= max(2 * other, unit):
            return f"output {output}: {mine / unit:.3g} units in the last place, torch {other / unit:.3g}"
    return None


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return torch.equal(x.contiguous().view(kind), y.contiguous().view(kind))
