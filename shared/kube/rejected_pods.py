"""The dead pods that kubelets rejected, kept current by the reflector of pods. Of others that ended nothing stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from shared.core.rejected import RejectedPod

Listener: TypeAlias = Callable[[RejectedPod], None]


class RejectedPods:
    """By uid."""

    def __init__(self) -> None:
        self._pods: dict[str, RejectedPod] = {}
        self._listeners: list[Listener] = []

    def __iter__(self) -> Iterator[RejectedPod]:
        return iter(tuple(self._pods.values()))

    def upserted(self, pod: RejectedPod) -> None:
        if self._pods.get(pod.uid) != pod:
            self._pods[pod.uid] = pod
            for listener in tuple(self._listeners):
                listener(pod)

    def deleted(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` with each pod that is rejected, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
