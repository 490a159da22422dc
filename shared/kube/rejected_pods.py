"""The dead pods that kubelets rejected, kept current by the reflector of pods. Of others that ended nothing stays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from shared.core.rejected import RejectedPod
from shared.obs.logs import get_logger

log = get_logger(__name__)

Listener: TypeAlias = Callable[[str], None]

_AVOIDED_S: Final = 300.0
"""Then one pod tries a node again: packing would else send every pod to the one node whose device plugin is away."""


class RejectedPods:
    """By the uid of their owner, or by their own where they have none; then by their own."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, RejectedPod]] = {}
        self._keys: dict[str, str] = {}
        self._last: dict[str, float] = {}
        self._avoided: frozenset[str] = frozenset()
        self._avoided_until = math.inf
        self._listeners: list[Listener] = []

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._pods))

    def of(self, key: str) -> tuple[RejectedPod, ...]:
        """Those of one owner, in the order in which they came."""
        return tuple(self._pods.get(key, {}).values())

    def avoided(self, unix_now: float) -> frozenset[str]:
        """The nodes whose kubelets rejected one of these pods, or one that is deleted since, less than 300 s ago."""
        if unix_now >= self._avoided_until:
            # The clock of a kubelet may be ahead.
            heard = {node: min(at, unix_now) for node, at in self._last.items()}
            self._last = {node: at for node, at in heard.items() if at + _AVOIDED_S > unix_now}
            for node in self._last.keys() - self._avoided:
                log.info("node comes last: its kubelet rejected a pod", node=node, for_s=_AVOIDED_S)
            self._avoided = frozenset(self._last)
            self._avoided_until = min(self._last.values(), default=math.inf) + _AVOIDED_S
        return self._avoided

    def upserted(self, pod: RejectedPod) -> None:
        key = pod.uid if pod.owner is None else pod.owner.uid
        if self._keys.get(pod.uid) not in (None, key):
            self.deleted(pod.uid)
        pods = self._pods.setdefault(key, {})
        if pods.get(pod.uid) != pod:
            pods[pod.uid] = pod
            self._last[pod.node] = max(pod.rejected, self._last.get(pod.node, 0))
            self._avoided_until = 0.0
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
