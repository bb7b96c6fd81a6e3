"""`python -m nvfuser_go` prints the health report; its exit status is 1 if there are problems."""

import sys

from nvfuser_go.health import report

if __name__ == "__main__":
    found = report()
    print(found)
    sys.exit(bool(found.problems))
