"""A clock that the runner moves: time passes only when nothing else is left to do, and then at once."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

START: Final = 1_790_000_000.0
"""The unix time at which every case begins."""


class StuckError(RuntimeError):
    """Everything waits and no timer runs: the case would never end."""


class VirtualSelector(selectors.DefaultSelector):
    """Sleeps by moving the clock. Who waits in `at_rest` is told before it moves."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.at_rest: list[asyncio.Future[None]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; if nothing is, and nothing waits for rest, `timeout` seconds pass."""
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.at_rest:
            for waiting in self.at_rest:
                if not waiting.done():
                    waiting.set_result(None)
            self.at_rest.clear()
        elif timeout is None:
            raise StuckError("everything waits, and no timer runs")
        else:
            self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a clock of its own."""

    def __init__(self) -> None:
        self.virtual = VirtualSelector()
        super().__init__(self.virtual)
        # asyncio takes timers as due that are this near; after a year a float tells no smaller times apart.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Seconds since the case began."""
        return self.virtual.now

    def jump(self, seconds: float) -> None:
        """Moves the clock although work is left."""
        self.virtual.now += seconds


async def rest() -> None:
    """Returns when every other task waits for the clock."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    waiting = loop.create_future()
    loop.virtual.at_rest.append(waiting)
    await waiting


def run_on_virtual_clock(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` with this process's clocks, `time.time` and `time.monotonic`, taken from its loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        with _clocks_of(loop):
            return runner.run(work)


@contextmanager
def _clocks_of(loop: VirtualLoop) -> Iterator[None]:
    real = time.time, time.monotonic
    time.time = lambda: START + loop.time()
    time.monotonic = loop.time
    try:
        yield
    finally:
        time.time, time.monotonic = real
