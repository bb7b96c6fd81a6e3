"""`python -m nvfuser_go` prints the health report; its exit status is 1 if there are problems.

`python -m nvfuser_go calibrate` measures a CUDA device, and writes what plans of later processes go by.
"""

import argparse
import sys

from nvfuser_go import _C
from nvfuser_go.errors import FusionError
from nvfuser_go.health import report


def main(arguments: list[str]) -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser("python -m nvfuser_go", description="Prints a health report.")
    commands = parser.add_subparsers(dest="command")
    calibrate = commands.add_parser(
        "calibrate", help="measures a CUDA device, in a second, for the plans of later processes"
    )
    calibrate.add_argument("--device", type=int, default=0, help="the number of the device, 0 if not given")
    calibrate.add_argument(
        "--to", default="", metavar="FILE", help="the file to write; if not given, where plans look for it"
    )
    given = parser.parse_args(arguments)
    if given.command is None:
        found = report()
        print(found)
        return bool(found.problems)
    try:
        path, text = _C.calibrate(given.device, given.to).split("\n", 1)
    except (FusionError, ValueError) as failure:
        print(failure, file=sys.stderr)
        return 1
    print(text, end="")
    print(f"written to {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
