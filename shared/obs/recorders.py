"""What counts while work is done: each holds its metrics with the label values looked up beforehand.

A recorder is a collector. Who wires a process registers it; one that nobody registered counts for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.registry import Collector

from shared.obs import metrics
from shared.obs.metrics import Family, counter, family, histogram

_LAG_EVERY_S: Final = 1.0


class Recorder(Collector):
    """The metrics `parts` together."""

    def __init__(self, *parts: Collector) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Family]:
        for part in self._parts:
            yield from part.collect()


class RequestRecorder(Recorder):
    """Requests to the API server."""

    def __init__(self) -> None:
        self._requests = counter(metrics.API_REQUESTS)
        self._seconds = histogram(metrics.API_REQUEST_SECONDS)
        self._by_code: dict[tuple[str, str], Counter] = {}
        self._by_verb = {verb: self._seconds.labels(verb) for verb in ("GET", "POST", "PUT", "PATCH", "DELETE")}
        super().__init__(self._requests, self._seconds)

    def ended(self, verb: str, code: str, seconds: float) -> None:
        """A request has come to an end, after so long."""
        child = self._by_code.get((verb, code))
        if child is None:
            child = self._by_code[verb, code] = self._requests.labels(verb, code)
        child.inc()
        if verb in self._by_verb:
            self._by_verb[verb].observe(seconds)


class LedgerRecorder(Recorder):
    """Writes to the ledgers."""

    WRITTEN = "written"
    CONFLICT = "conflict"
    MISSING = "missing"
    FAILED = "failed"

    def __init__(self) -> None:
        writes = counter(metrics.LEDGER_WRITES)
        self._seconds, self._entries = histogram(metrics.LEDGER_WRITE_SECONDS), histogram(metrics.LEDGER_WRITE_ENTRIES)
        results = (self.WRITTEN, self.CONFLICT, self.MISSING, self.FAILED)
        self._by_result = {result: writes.labels(result) for result in results}
        super().__init__(writes, self._seconds, self._entries)

    def wrote(self, result: str, entries: int, seconds: float) -> None:
        """A write of so many entries has come to an end."""
        self._by_result[result].inc()
        self._seconds.observe(seconds)
        self._entries.observe(entries)


class QueueRecorder(Recorder):
    """The work queues of a process."""

    def __init__(self) -> None:
        self._adds, self._retries = counter(metrics.QUEUE_ADDS), counter(metrics.QUEUE_RETRIES)
        self._wait, self._work = histogram(metrics.QUEUE_WAIT_SECONDS), histogram(metrics.QUEUE_WORK_SECONDS)
        self._at_work: dict[str, Sized] = {}
        super().__init__(self._adds, self._retries, self._wait, self._work, metrics.AtScrape(self._depths))

    def of(self, queue: str) -> OneQueue:
        """What counts for the queue of that name."""
        return OneQueue(
            self._adds.labels(queue), self._retries.labels(queue), self._wait.labels(queue), self._work.labels(queue)
        )

    @contextmanager
    def at_work(self, name: str, queue: Sized) -> Iterator[None]:
        """Shows how long `queue` is while the context lasts."""
        self._at_work[name] = queue
        try:
            yield
        finally:
            del self._at_work[name]

    def _depths(self) -> list[Family]:
        return [family(metrics.QUEUE_DEPTH, (({"queue": name}, len(queue)) for name, queue in self._at_work.items()))]


@dataclass(frozen=True, slots=True)
class OneQueue:
    """One queue: keys that came, keys that failed, how long they waited and were worked on."""

    adds: Counter
    retries: Counter
    wait: Histogram
    work: Histogram


class LoopLag(Recorder):
    """How far behind the event loop is: what a review waits before it is even looked at."""

    def __init__(self) -> None:
        self._lag = histogram(metrics.LOOP_LAG)
        super().__init__(self._lag)

    async def run(self) -> None:
        """Looks once a second, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_EVERY_S
            await asyncio.sleep(_LAG_EVERY_S)
            self._lag.observe(max(0.0, loop.time() - due))
