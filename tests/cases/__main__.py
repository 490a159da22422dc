"""`python -m tests.cases run <file|folder> [-k word] [--json]`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cases.report import as_json, quiet, run_all


def main(arguments: Sequence[str]) -> int:
    """Runs the cases and returns the exit status: 0 if all pass, 1 if one fails, 2 if there is none."""
    parser = argparse.ArgumentParser(prog="python -m tests.cases", description="Plays cases against the product.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="play cases and compare what came of them with what they expect")
    run.add_argument("path", type=Path, help="a case, or a folder of cases")
    run.add_argument("-k", dest="word", default="", help="only cases with this word in their file's name")
    run.add_argument("--json", action="store_true", help="the report for machines")
    run.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1), help="processes to run cases in")
    run.add_argument("--logs", action="store_true", help="show the product's logs, in one process")
    options = parser.parse_args(arguments)
    paths = sorted(options.path.rglob("*.yaml")) if options.path.is_dir() else [options.path]
    paths = [path for path in paths if options.word in path.stem]
    if not paths:
        sys.stderr.write(f"no case in {options.path} with {options.word!r} in its name\n")
        return 2
    if options.logs:
        logging.basicConfig(level=logging.INFO)
    else:
        quiet()
    told = []
    for one in run_all(paths, 1 if options.logs else options.workers):
        told.append(one)
        if not options.json:
            sys.stdout.write(one.line() + "\n")
            sys.stdout.flush()
    failed = sum(not one.passed for one in told)
    sys.stdout.write(as_json(told) + "\n" if options.json else f"{len(told) - failed} passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
