"""Reads the last lines of containers that died without saying why, to find out whether memory was short.

A container's log is its owner's: only what `card_shortage` makes of it leaves this file.
"""

from __future__ import annotations

import asyncio
from typing import Final

from shared.core.oom import card_shortage
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.errors import ApiError, Forbidden, Throttled
from shared.kube.fates import CrashKey, Fates
from shared.kube.workqueue import WorkQueue
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder

log = get_logger(__name__)

_READERS: Final = 2
_PAUSE_S: Final = 0.2
"""After each log, so that a node that takes hundreds of pods with it does not make a storm of reads."""
_LINES: Final = 200
"""A server of several processes tells of the first one's end, then of its own at some length."""
_BYTES: Final = 64 * 1024


class CrashLogs:
    """Looks into the log of each crash once, until the right to do so turns out to be missing."""

    def __init__(self, client: KubeClient, fates: Fates, queues: QueueRecorder | None = None) -> None:
        self._client = client
        self._fates = fates
        self._queue: WorkQueue[CrashKey] = WorkQueue("crash logs", queues)
        self._is_forbidden = False

    async def run(self) -> None:
        """Looks into the crashes there are now and those to come, until cancelled."""
        end = self._fates.on_change(self._look_at)
        try:
            for fate in self._fates.all():
                self._look_at(fate.key)
            await self._queue.run(self._read, workers=_READERS)
        finally:
            end()

    def _look_at(self, key: str) -> None:
        fate = self._fates.of(key)
        for crash in fate.crashes if fate is not None and not self._is_forbidden else ():
            if crash.shortage is None and not self._fates.is_looked_at(key, crash.key):
                self._queue.add((key, crash.key))

    async def _read(self, wish: CrashKey) -> None:
        key, crash_key = wish
        fate = self._fates.of(key)
        crash = next((each for each in fate.crashes if each.key == crash_key), None) if fate is not None else None
        if fate is None or crash is None or self._is_forbidden or self._fates.is_looked_at(key, crash_key):
            return
        params = {
            "container": crash.container,
            "previous": str(crash.restarted).lower(),
            "tailLines": str(_LINES),
            "limitBytes": str(_BYTES),
        }
        try:
            text = await self._client.text(paths.log_of(paths.pods(fate.namespace, fate.name)), params)
        except Throttled:
            raise
        except Forbidden as error:
            self._is_forbidden = True
            log.warning("logs of crashed containers are not read: grant get on pods/log", error=error)
        except ApiError as error:
            # Rotated away, its node gone: there is nothing to find out, and another crash would be looked at again.
            log.debug("log not read", namespace=fate.namespace, pod=fate.name, error=error)
            self._fates.found(key, crash_key, None)
        else:
            self._fates.found(key, crash_key, card_shortage(text))
        await asyncio.sleep(_PAUSE_S)
