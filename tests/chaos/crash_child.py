"""`python -m tests.chaos.crash_child webhook|controller`: the program as it is, which dies where it is told to."""

from __future__ import annotations

import importlib
import os
import sys

from tests.chaos.crash_points import install


def main() -> int:
    """Runs the program."""
    install(os.environ)
    program = importlib.import_module(f"{sys.argv[1]}.__main__")
    code: int = program.main()
    return code


if __name__ == "__main__":
    sys.exit(main())
