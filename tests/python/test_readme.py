"""README.md says what is so: its example prints what it shows, and the links of all pages lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nvfuser_go import ops

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def block(language: str) -> str:
    """The first block of code of this language in README.md."""
    found = re.search(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found is not None, f"README.md has no block of {language}"
    return found[1]


def test_the_example_prints_what_the_page_shows():
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-c", block("python")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.rstrip() == block("text").rstrip()


def test_the_number_of_operations_is_right():
    number = re.search(r"^\| operations \| 134 \| (\d+):", README, re.MULTILINE)
    assert number is not None
    assert int(number[1]) == sum(not name.startswith("_") for name in vars(ops))


def anchors(page: str) -> set[str]:
    """The fragments by which headings are reached."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        if "://" in target:
            continue
        file, _, fragment = target.partition("#")
        linked = page.parent / file if file else page
        assert linked.exists(), f"{target}: there is no such file"
        if fragment:
            assert fragment in anchors(linked.read_text()), f"{target}: there is no such heading"
