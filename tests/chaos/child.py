"""`python -m tests.chaos.child webhook|controller`: the program as it is, in a process prepared for faults."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from tests.chaos import clock, crash_points


def main() -> int:
    """Prepares the process as its environment says, before any of the product is imported, and runs the program."""
    if hand := os.environ.get(clock.VARIABLE):
        clock.install(Path(hand))
    crash_points.install(os.environ)
    program = importlib.import_module(f"{sys.argv[1]}.__main__")
    code: int = program.main()
    return code


if __name__ == "__main__":
    sys.exit(main())
