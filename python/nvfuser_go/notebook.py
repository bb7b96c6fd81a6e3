"""How a fusion shows itself in a notebook: its inputs and outputs as a table, its definition as source."""

import html as _html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvfuser_go.fusion import Fusion

MAX_ROWS = 50
MAX_LINES = 200


def escaped(text: str) -> str:
    return f"<pre>{_html.escape(text)}</pre>"


def _rows(fusion: "Fusion") -> list[tuple[str, str]]:
    rows = [("input", str(value)) for value in fusion.inputs()]
    for tensor, alias in fusion._core.outputs():
        rows.append(("output", str(tensor) if alias is None else f"{tensor} written into {alias}"))
    if len(rows) > MAX_ROWS:
        rows[MAX_ROWS:] = [("", f"and {len(rows) - MAX_ROWS} more")]
    return rows


def _source(fusion: "Fusion") -> str:
    lines = fusion.python().splitlines()
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"    # and {len(lines) - MAX_LINES} more statements; repr() shows all"]
    return "\n".join(lines)


def html(fusion: "Fusion") -> str:
    """The fusion as HTML."""
    rows = "".join(
        f'<tr><td style="text-align:left">{role}</td>'
        f'<td style="text-align:left"><code>{_html.escape(text)}</code></td></tr>'
        for role, text in _rows(fusion)
    )
    return f"<div><table>{rows}</table>{escaped(_source(fusion))}</div>"


def markdown(fusion: "Fusion") -> str:
    """The fusion as Markdown."""
    rows = "\n".join(f"| {role} | `{text.replace('|', chr(92) + '|')}` |" for role, text in _rows(fusion))
    return f"| | |\n|---|---|\n{rows}\n\n```python\n{_source(fusion)}\n```\n"
