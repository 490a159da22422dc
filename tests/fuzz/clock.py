"""An event loop whose time jumps to the next timer instead of waiting for it: a slow API server costs no time."""

from __future__ import annotations

import asyncio


class JumpingLoop(asyncio.SelectorEventLoop):
    """Runs as fast as it can, and says the same times on every run."""

    def __init__(self) -> None:
        super().__init__()
        self._moment = 0.0

    def time(self) -> float:
        """Seconds since the loop was made, as timers see them."""
        return self._moment

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]
            timers = (timer for timer in self._scheduled if not timer.cancelled())  # type: ignore[attr-defined]
            self._moment = max(self._moment, min((timer.when() for timer in timers), default=0.0))
        super()._run_once()  # type: ignore[misc]
