"""Prints what the tests need from the package index, one requirement a line, as pyproject.toml says it.

With --key it prints a short text instead, which changes when the requirements or the Python version change.
"""

import hashlib
import sys
import tomllib
from pathlib import Path

table = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
project = table["project"]
lines = [*table["build-system"]["requires"], *project["dependencies"], *project["optional-dependencies"]["test"]]
if sys.argv[1:] == ["--key"]:
    print(hashlib.sha256("\n".join([*lines, sys.version]).encode()).hexdigest()[:12])
else:
    print("\n".join(lines))
