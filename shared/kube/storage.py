"""The storage of a cluster as the watches tell it, with the ways that a decision takes through it.

`volumes` is the live picture: it changes in place, and is right until the next await.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from shared.core.volumes import Claim, StorageClass, Volume, Volumes

Listener: TypeAlias = Callable[[], None]


class Storage:
    """Claims, volumes and classes."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._volumes: dict[str, Volume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._set_aside: dict[str, str] = {}
        self._offered: dict[str, set[str]] = {}
        self._listeners: list[Listener] = []
        self.volumes = Volumes(self._claims, self._volumes, self._classes, self._set_aside, self._offered)

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` after each change, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def claim_upserted(self, key: str, claim: Claim) -> None:
        self._claims[key] = claim
        self._changed()

    def claim_deleted(self, key: str) -> None:
        self._claims.pop(key, None)
        self._changed()

    def class_upserted(self, name: str, storage_class: StorageClass) -> None:
        self._classes[name] = storage_class
        self._changed()

    def class_deleted(self, name: str) -> None:
        self._classes.pop(name, None)
        self._changed()

    def volume_upserted(self, name: str, volume: Volume) -> None:
        self._forget(name)
        self._volumes[name] = volume
        if volume.claim is not None:
            self._set_aside[volume.claim] = name
        if volume.offer is not None:
            self._offered.setdefault(volume.offer.storage_class, set()).add(name)
        self._changed()

    def volume_deleted(self, name: str) -> None:
        self._forget(name)
        self._changed()

    def _forget(self, name: str) -> None:
        old = self._volumes.pop(name, None)
        if old is None:
            return
        if old.claim is not None and self._set_aside.get(old.claim) == name:
            del self._set_aside[old.claim]
        if old.offer is not None:
            self._offered[old.offer.storage_class].discard(name)
            if not self._offered[old.offer.storage_class]:
                del self._offered[old.offer.storage_class]

    def _changed(self) -> None:
        for listener in tuple(self._listeners):
            listener()
