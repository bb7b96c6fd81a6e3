"""How a definition shows itself in a notebook, and that the notebook of the examples runs."""

from pathlib import Path

import pytest

from nvfuser_go import FusionDefinition

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"


def defined(n: int = 1) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = a = fd.define_tensor([-1], True)
        for _ in range(n):
            x = x < 0.5
        fd.add_output(x)
        fd.add_output(fd.ops.neg(a), a)
    return fd


def test_html():
    text = defined()._repr_html_()
    assert (
        '<td style="text-align:left">input</td><td style="text-align:left"><code>T0_g_float[iS0{i0}]</code></td>'
        in text
    )
    assert "<code>T2_g_float[iS2{i0}] written into T0_g_float[iS0{i0}]</code>" in text
    assert "tv1 = fd.ops.lt(tv0, 0.500000)" in text
    assert FusionDefinition()._repr_html_() == "<pre>&lt;FusionDefinition without a definition&gt;</pre>"


def test_markdown():
    text = defined()._repr_markdown_()
    assert text.startswith("| | |\n|---|---|\n| input | `T0_g_float[iS0{i0}]` |\n| output | `T1_g_bool[iS1{i0}]` |\n")
    assert "```python\ndef nvfuser_fusion(fd : FusionDefinition) -> None :\n" in text


def test_long_definitions_are_cut():
    text = defined(1000)._repr_html_()
    assert len(text.splitlines()) < 300
    assert "more statements; repr() shows all" in text


@pytest.mark.skipif(not QUICKSTART.exists(), reason="there is no notebook")
def test_quickstart_runs():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(QUICKSTART, as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": QUICKSTART.parent}}
    ).execute()
