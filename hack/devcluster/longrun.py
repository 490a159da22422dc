"""Commands that take minutes: a sign of life every few seconds, and the last lines when they fail."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.devcluster.processes import Process, log_tail

_HEARTBEAT_S = 15.0
_TTY_HEARTBEAT_S = 1.0
_FAILURE_LINES = 30


class CommandError(Exception):
    """A long command failed; the text carries its last lines."""


class Heartbeat:
    """Says what is going on and for how long: on a terminal in one line, elsewhere in a line now and then."""

    def __init__(self, label: str, doing: str) -> None:
        self._label = label
        self._doing = doing
        self._began = time.monotonic()
        self._tty = sys.stdout.isatty()
        self._next = 0.0
        self.beat()

    def beat(self) -> None:
        """Print a line if the last one is old enough."""
        elapsed = time.monotonic() - self._began
        if elapsed < self._next:
            return
        self._next = elapsed + (_TTY_HEARTBEAT_S if self._tty else _HEARTBEAT_S)
        self._print(f"{self._label}: {self._doing} ... {elapsed:.0f} s", done=False)

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._print(f"{self._label}: {text}", done=True)

    def done(self, outcome: str = "done") -> None:
        """Print the last line."""
        self._print(f"{self._label}: {outcome} after {time.monotonic() - self._began:.0f} s", done=True)

    def _print(self, text: str, *, done: bool) -> None:
        if self._tty:
            print(f"\r\x1b[2K{text}", end="\n" if done else "", flush=True)
        else:
            print(text, flush=True)


def run_long(label: str, doing: str, argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str]) -> None:
    """Run a command to its end; CommandError when it fails. Ctrl-C ends the command first."""
    heartbeat = Heartbeat(label, doing)
    with tempfile.TemporaryDirectory(prefix="placement-operator-") as folder:
        process = Process(Path(argv[0]).name, argv, log=Path(folder) / "log", cwd=cwd, env=env)
        process.start()
        try:
            while not process.wait_ended(0.5):
                heartbeat.beat()
        finally:
            process.stop()
        if process.returncode != 0:
            heartbeat.done("failed")
            command = " ".join(str(part) for part in argv)
            said = log_tail(process.log, _FAILURE_LINES)
            raise CommandError(f"{label}: {doing} failed; `{command}` in {cwd} said:\n{said}")
    heartbeat.done()
