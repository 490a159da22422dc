"""An event loop in a thread of its own, for proxies that serve while the test waits for something."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

_PATIENCE_S = 20.0


class LoopThread:
    """`with LoopThread() as loop: loop.run(proxy.start())`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Does `work` in the loop and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()
