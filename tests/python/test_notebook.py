"""How a definition shows itself in a notebook, and that the notebook of the examples runs."""

import copy
import itertools
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from nvfuser_go import DataType, FusionDefinition

ROOT = Path(__file__).resolve().parents[2]


def defined(n: int = 1) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = a = fd.define_tensor([-1], True)
        for _ in range(n):
            x = x < 0.5
        fd.add_output(x)
        fd.add_output(fd.ops.neg(a), a)
    return fd


def shaped() -> FusionDefinition:
    """Has the kinds of axes, extents and scalars that a table may show."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 4, 1], True, DataType.BFloat16)
        k = fd.define_scalar(dtype=DataType.Int)
        fd.add_output(fd.ops.sum(x, [0]))
        fd.add_output(fd.ops.reshape(x, [k, 4]))
        fd.add_output(fd.ops.expand(x, [-1, 4, 7]))
        fd.add_output(fd.ops.cat([x, x], 0))
    return fd


def test_html():
    text = defined()._repr_html_()
    cells = re.findall(r"<t[dh] [^>]*>(.*?)</t[dh]>", text)
    assert cells[:8] == ["", "name", "dtype", "shape", "input", "tv0", "Float", "[i0]"]
    assert cells[8:] == ["output", "tv1", "Bool", "[i0]", "written into tv0", "tv2", "Float", "[i0]"]
    assert "tv1 = fd.ops.lt(tv0, 0.500000)" in text
    assert "(fd : FusionDefinition) -&gt; None" in text
    assert re.sub(r"<pre[^>]*>", "<pre>", FusionDefinition()._repr_html_()) == (
        "<pre>&lt;FusionDefinition without a definition&gt;</pre>"
    )


def test_markdown():
    table, source = shaped()._repr_markdown_().split("\n\n", 1)
    assert table.splitlines() == [
        "|  | name | dtype | shape |",
        "| --- | --- | --- | --- |",
        "| input | tv0 | BFloat16 | [i0, 4, 1] |",
        "| input | c4 | Int | scalar |",
        "| output | tv1 | BFloat16 | [4, 1] |",
        "| output | tv2 | BFloat16 | [i4, 4] |",
        "| output | tv3 | BFloat16 | [i0, 4, 7] |",
        "| output | tv4 | BFloat16 | [i0\\*2, 4, 1] |",
    ]
    assert source.startswith("```python\ndef nvfuser_fusion(fd : FusionDefinition) -> None :\n")


def test_long_definitions_are_cut():
    text = defined(1000)._repr_html_()
    assert len(text.splitlines()) < 300
    assert "more statements; repr() shows all" in text


def shown(notebook: nbformat.NotebookNode) -> list[list[dict]]:
    """What each cell of code puts out."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [[{**output} for output in cell.outputs] for cell in cells]
    for output in itertools.chain(*outputs):
        output.pop("execution_count", None)
    return outputs


def test_quickstart_shows_what_it_holds(monkeypatch):
    """To store its outputs anew, execute it in an editor and save it; none may hold a time or an address."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    stored = nbformat.read(ROOT / "examples" / "quickstart.ipynb", as_version=4)
    fresh = copy.deepcopy(stored)
    NotebookClient(fresh, timeout=300, kernel_name="python3", record_timing=False, coalesce_streams=True).execute()
    assert shown(fresh) == shown(stored)
