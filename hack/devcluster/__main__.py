"""`python -m hack.devcluster up|down`: what `make up` and `make down` run."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from hack.devcluster.binaries import BinariesError
from hack.devcluster.longrun import CommandError
from hack.devcluster.named import NamedClusterError, down, up
from hack.devcluster.spec import SpecError
from hack.devcluster.supervisor import supervise


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", text) or text.startswith("cluster-"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name for a cluster: use up to 31 of a-z, 0-9, '-', not starting with 'cluster-'"
        )
    return text


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hack.devcluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    bring_up = commands.add_parser("up", help="bring a cluster up and leave it running")
    bring_up.add_argument("description", type=Path, help="a file as in hack/clusters")
    bring_up.add_argument("--name", type=_name, default="dev")
    bring_up.add_argument("--webhooks", type=int, default=1, help="how many webhook processes")
    take_down = commands.add_parser("down", help="end a cluster and remove its files")
    take_down.add_argument("--name", type=_name, default="dev")
    supervisor = commands.add_parser("supervise", help="used by `up`")
    supervisor.add_argument("description", type=Path)
    supervisor.add_argument("state", type=Path)
    supervisor.add_argument("webhooks", type=int)
    supervisor.add_argument("progress", type=int)
    return parser


def main() -> int:
    """Run one command; the exit status."""
    arguments = _arguments().parse_args()
    try:
        if arguments.command == "up":
            up(arguments.name, arguments.description, arguments.webhooks)
        elif arguments.command == "down":
            down(arguments.name)
        else:
            supervise(arguments.description, arguments.state, arguments.webhooks, arguments.progress)
    except (BinariesError, CommandError, NamedClusterError, SpecError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; nothing keeps running", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
