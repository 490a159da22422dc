"""A queue of keys to look at: each once, however often it is added, and again later when that failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from shared.kube.backoff import backoff_s
from shared.kube.errors import Conflict, Forbidden, Throttled, Unavailable
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder

log = get_logger(__name__)

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys waiting for a worker.

    A key that waits is not added twice. One that is added while a worker has it is handed out once more after
    `done`, never to two workers at once. So memory is bounded by the number of distinct keys.
    """

    def __init__(
        self,
        name: str,
        recorder: QueueRecorder | None = None,
        *,
        first_retry_s: float = 0.1,
        longest_retry_s: float = 60.0,
    ) -> None:
        self.name = name
        self._recorder = recorder or QueueRecorder()
        self._metrics = self._recorder.of(name)
        self._first_retry_s = first_retry_s
        self._longest_retry_s = longest_retry_s
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: dict[K, float] = {}
        self._in_work: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """How many keys wait for a worker now."""
        return len(self._waiting) + len(self._again)

    def add(self, key: K) -> None:
        """Has `key` looked at as soon as a worker is free."""
        if key in self._in_work:
            self._again.add(key)
        elif key not in self._waiting:
            self._metrics.adds.inc()
            self._waiting[key] = time.monotonic()
            self._ready.put_nowait(key)

    def add_after(self, key: K, delay_s: float) -> None:
        """Has `key` looked at in `delay_s` seconds. Of several such wishes for a key the earliest counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay_s, self._due, key)

    def retry(self, key: K, at_least_s: float = 0.0) -> float:
        """Has `key` looked at again after a back-off that doubles with each retry since `forget`.

        Returns the seconds until then.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._metrics.retries.inc()
        delay_s = max(at_least_s, backoff_s(failures, self._first_retry_s, self._longest_retry_s))
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: K) -> None:
        """Lets the back-off of `key` begin anew: looking at it went well."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, waiting for one if need be. Call `done` with it afterwards, whatever happened."""
        key = await self._ready.get()
        self._metrics.wait.observe(time.monotonic() - self._waiting.pop(key))
        self._in_work.add(key)
        return key

    def done(self, key: K) -> None:
        """The worker has finished with `key`."""
        self._in_work.remove(key)
        if key in self._again:
            self._again.remove(key)
            self.add(key)
        self._ready.task_done()

    async def idle(self) -> None:
        """Returns once no key waits for a worker or is with one. Those to be looked at later do not count."""
        await self._ready.join()

    async def run(self, worker: Callable[[K], Awaitable[None]], workers: int = 1) -> None:
        """Feeds keys to `worker`, `workers` at a time, until cancelled; a key that fails is retried.

        A queue is run once: keys that were to be looked at later are forgotten then, since their timers would keep it
        alive.
        """
        with self._recorder.at_work(self.name, self):
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(workers):
                        group.create_task(self._work(worker))
            finally:
                self._forget_timers()

    async def _work(self, worker: Callable[[K], Awaitable[None]]) -> None:
        while True:
            key = await self.get()
            try:
                with self._metrics.work.time():
                    await worker(key)
                self.forget(key)
            except (Conflict, Forbidden, Unavailable, Throttled) as error:
                at_least_s = error.retry_after if isinstance(error, Throttled) else 0.0
                delay_s = self.retry(key, at_least_s)
                log.info("work postponed", queue=self.name, key=str(key), error=error, retry_s=delay_s)
            except Exception:
                delay_s = self.retry(key)
                log.exception("work failed", queue=self.name, key=str(key), retry_s=delay_s)
            finally:
                self.done(key)

    def _forget_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)
