"""How a fusion shows itself in a notebook: its inputs and outputs as a table, its definition as source."""

import html as _html
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvfuser_go.fusion import Fusion

MAX_ROWS = 50
MAX_LINES = 200
HEADINGS = ("", "name", "dtype", "shape")


def escaped(text: str) -> str:
    # Notebooks set the text of a bare <pre> in the font of the page, and break long lines.
    return f'<pre style="font-family:monospace;white-space:pre;overflow-x:auto">{_html.escape(text)}</pre>'


def _name(value: Any) -> str:
    """The name in the source: tvN or cN for what prints as TN_... and dN, iN, ..."""
    number = re.search(r"\d+", str(value))
    assert number is not None
    return f"{'tv' if value.is_tensor() else 'c'}{number[0]}"


def _shape(tensor: Any) -> str:
    """The sizes: numbers and expressions in i0, i1, ..., the sizes of inputs that are known when the fusion runs."""
    axes = [str(axis) for axis in tensor.get_logical_domain() if not axis.is_reduction()]
    # An axis prints as KIND{SIZE}, an expanded broadcast as KIND{1 ex SIZE}.
    sizes = [axis[axis.index("{") + 1 : -1].removeprefix("1 ex ") for axis in axes]
    return f"[{', '.join(sizes)}]"


def _row(role: str, value: Any) -> tuple[str, str, str, str]:
    return role, _name(value), value.dtype().name, _shape(value) if value.is_tensor() else "scalar"


def _rows(fusion: "Fusion") -> list[tuple[str, str, str, str]]:
    rows = [_row("input", value) for value in fusion.inputs()]
    for tensor, alias in fusion._core.outputs():
        rows.append(_row("output" if alias is None else f"written into {_name(alias)}", tensor))
    if len(rows) > MAX_ROWS:
        rows[MAX_ROWS:] = [(f"and {len(rows) - MAX_ROWS} more", "", "", "")]
    return rows


def _source(fusion: "Fusion") -> str:
    lines = fusion.python().splitlines()
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"    # and {len(lines) - MAX_LINES} more statements; repr() shows all"]
    return "\n".join(lines)


def html(fusion: "Fusion") -> str:
    """The fusion as HTML."""

    def line(tag: str, row: tuple[str, ...]) -> str:
        cells = (f'<{tag} style="text-align:left">{_html.escape(text)}</{tag}>' for text in row)
        return f"<tr>{''.join(cells)}</tr>"

    rows = "".join(line("td", row) for row in _rows(fusion))
    return f"<div><table>{line('th', HEADINGS)}{rows}</table>{escaped(_source(fusion))}</div>"


def markdown(fusion: "Fusion") -> str:
    """The fusion as Markdown."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *_rows(fusion)]
    lines = (" | ".join(re.sub(r"([*_|])", r"\\\1", text) for text in row) for row in rows)
    table = "\n".join(f"| {line} |" for line in lines)
    return f"{table}\n\n```python\n{_source(fusion)}\n```\n"
