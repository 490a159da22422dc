"""Kubernetes events on workloads, folded: an equal one raises the count of the first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from shared.api import names
from shared.core.owners import OwnerRef
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.errors import AlreadyExists, NotFound

_HASH: Final = 16
_LONGEST_PREFIX: Final = 200


class EventType(StrEnum):
    """Kubernetes knows these two."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Events:
    """Writes core/v1 events, which `kubectl describe` shows. `now` is the wall clock in UTC."""

    def __init__(self, client: KubeClient, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now

    async def emit(self, namespace: str, about: OwnerRef, kind: EventType, reason: str, message: str) -> None:
        """Records an event about an object. Raises `ApiError`.

        The name is made of what the event says, so an equal one finds the first and raises its count.
        """
        digest = hashlib.sha256("\n".join([about.uid, kind, reason, message]).encode()).hexdigest()[:_HASH]
        name = f"{about.name[:_LONGEST_PREFIX].rstrip('.-')}.{digest}"
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
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

    async def _count(self, namespace: str, name: str, now: str, body: dict[str, Any]) -> None:
        path = paths.events(namespace, name)
        # Two writes, since the answer to the first is the only way to learn the count: we may not read events.
        try:
            event = await self._client.merge_patch(path, {"lastTimestamp": now})
            await self._client.merge_patch(path, {"count": event.get("count", 1) + 1})
        except NotFound:
            # It expired in between.
            await self._client.create(paths.events(namespace), body)
