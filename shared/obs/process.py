"""What every process does around its work: settings errors in one line, logs, signals, a fast event loop."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import uvloop

from shared.obs import logs
from shared.obs.garbage import look_seldom
from shared.settings import SettingsError

_FILES: Final = 65_536
"""Each connection is one. Some container runtimes allow 1,024 until a process asks for more."""


def run_process(log_level: str, work: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Runs `work` until it returns; its event is set on SIGTERM or SIGINT. Returns the exit status."""
    try:
        logs.configure(log_level)
    except ValueError as error:
        raise SettingsError(f"PLACEMENT_LOG_LEVEL: {error}") from error

    look_seldom()
    _allow_files()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await work(stop)

    uvloop.run(main())
    return 0


def _allow_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def exit_with(error: Exception) -> int:
    """Prints the one line that says why a process cannot start. Returns the exit status."""
    sys.stderr.write(f"cannot start: {error}\n")
    return 2
