"""The dead pods that kubelets rejected, kept current by the reflector of pods. Of others that ended nothing stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

from shared.core.rejected import RejectedPod

Listener: TypeAlias = Callable[[str], None]

_AVOIDED_S: Final = 300.0
"""Then one pod tries a node again: packing would else send every pod to the one node whose device plugin is away."""


class RejectedPods:
    """By the uid of their owner, or by their own where they have none; then by their own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pods: dict[str, dict[str, RejectedPod]] = {}
        self._keys: dict[str, str] = {}
        self._rejected_at: dict[str, float] = {}
        self._listeners: list[Listener] = []

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._pods))

    def of(self, key: str) -> tuple[RejectedPod, ...]:
        """Those of one owner, in the order in which they came."""
        return tuple(self._pods.get(key, {}).values())

    def nodes(self) -> Collection[str]:
        """The nodes that are avoided because of a rejection that this process heard of lately."""
        if self._rejected_at:
            oldest = self._clock() - _AVOIDED_S
            self._rejected_at = {node: at for node, at in self._rejected_at.items() if at > oldest}
        return self._rejected_at.keys()

    def upserted(self, pod: RejectedPod) -> None:
        key = pod.uid if pod.owner is None else pod.owner.uid
        if self._keys.get(pod.uid) not in (None, key):
            self.deleted(pod.uid)
        pods = self._pods.setdefault(key, {})
        if pods.get(pod.uid) != pod:
            pods[pod.uid] = pod
            self._rejected_at[pod.node] = self._clock()
            self._keys[pod.uid] = key
            self._tell(key)

    def deleted(self, uid: str) -> None:
        key = self._keys.pop(uid, None)
        if key is None:
            return
        del self._pods[key][uid]
        if not self._pods[key]:
            del self._pods[key]
        self._tell(key)

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` with the key of each that comes, changes or goes, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self, key: str) -> None:
        for listener in tuple(self._listeners):
            listener(key)
