"""What every process does around its work: settings errors in one line, logs, signals, a fast event loop."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable

import uvloop

from shared.obs import logs
from shared.obs.garbage import look_seldom
from shared.settings import SettingsError


def run_process(log_level: str, work: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Runs `work` until it returns; its event is set on SIGTERM or SIGINT. Returns the exit status."""
    try:
        logs.configure(log_level)
    except ValueError as error:
        raise SettingsError(f"PLACEMENT_LOG_LEVEL: {error}") from error

    look_seldom()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await work(stop)

    uvloop.run(main())
    return 0


def exit_with(error: Exception) -> int:
    """Prints the one line that says why a process cannot start. Returns the exit status."""
    sys.stderr.write(f"cannot start: {error}\n")
    return 2
