"""Kubernetes events on workloads, folded: an equal one raises the count of the first."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from shared.api import names
from shared.core.owners import OwnerRef
from shared.core.times import in_seconds
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.errors import AlreadyExists, NotFound
from shared.kube.recent import remember
from shared.obs.logs import get_logger

log = get_logger(__name__)

_HASH: Final = 16
_LONGEST_PREFIX: Final = 200
_BURST: Final = 25
_REFILL_S: Final = 10.0
"""An object gets this many events at once and after that one in this time, which is how often it is refused at most."""
_REMEMBERED: Final = 4096


class EventType(StrEnum):
    """Kubernetes knows these two."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Events:
    """Writes core/v1 events, which `kubectl describe` shows. `now` is the wall clock in UTC."""

    def __init__(self, client: KubeClient, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._levels: OrderedDict[str, tuple[float, datetime]] = OrderedDict()

    async def emit(self, namespace: str, about: OwnerRef, kind: EventType, reason: str, message: str) -> bool:
        """Records an event about an object, unless that has had too many of late; whether it was. Raises `ApiError`.

        The name is made of what the event says, so an equal one finds the first and raises its count, whichever
        controller wrote that.
        """
        if not self._may_tell(about.uid):
            log.debug("event held back", namespace=namespace, kind=about.kind, name=about.name, reason=reason)
            return False
        digest = hashlib.sha256("\n".join([about.uid, kind, reason, message]).encode()).hexdigest()[:_HASH]
        name = f"{about.name[:_LONGEST_PREFIX].rstrip('.-')}.{digest}"
        now = in_seconds(self._now())
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": namespace,
                "uid": about.uid,
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": names.PRODUCT},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._client.create(paths.events(namespace), body)
        except AlreadyExists:
            await self._count(namespace, name, now, body)
        return True

    def _may_tell(self, uid: str) -> bool:
        now = self._now()
        level, since = self._levels.get(uid, (0.0, now))
        level = max(0.0, level - max(0.0, (now - since).total_seconds()) / _REFILL_S)
        may = level + 1 <= _BURST
        remember(self._levels, uid, (level + may, now), _REMEMBERED)
        return may

    async def _count(self, namespace: str, name: str, now: str, body: dict[str, Any]) -> None:
        path = paths.events(namespace, name)
        # Two writes, since the answer to the first is the only way to learn the count: we may not read events.
        try:
            event = await self._client.merge_patch(path, {"lastTimestamp": now})
            await self._client.merge_patch(path, {"count": event.get("count", 1) + 1})
        except NotFound:
            # It expired in between.
            await self._client.create(paths.events(namespace), body)
