"""The fates of placed pods, kept current: of those that exist, and of the latest ones that are gone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from shared.core.oom import Shortage
from shared.core.pod_fate import PodFate
from shared.kube.recent import remember

_REMEMBERED: Final = 4096

CrashKey: TypeAlias = tuple[str, tuple[str, str]]
"""The uid of a pod and which death of which container."""

Listener: TypeAlias = Callable[[str], None]
"""Called with the uid of a pod whose fate changed, or which is gone."""


class Fates:
    """What the watch of pods tells of pods that ended or crashed, and what was found out about their crashes."""

    def __init__(self) -> None:
        self._fates: dict[str, PodFate] = {}
        self._gone: OrderedDict[str, PodFate] = OrderedDict()
        self._found: OrderedDict[CrashKey, Shortage | None] = OrderedDict()
        self._listeners: list[Listener] = []

    def seen(self, key: str, fate: PodFate | None) -> None:
        """The pod exists and this is to be told of it."""
        if fate is None:
            if self._fates.pop(key, None) is None:
                return
        else:
            for crash in fate.crashes:
                shortage = self._found.get((key, crash.key))
                if shortage is not None:
                    fate = fate.with_shortage(crash.key, shortage)
            if self._fates.get(key) == fate:
                return
            self._fates[key] = fate
        self._tell(key)

    def gone(self, key: str) -> None:
        """The pod no longer exists."""
        fate = self._fates.pop(key, None)
        if fate is not None:
            remember(self._gone, key, fate, _REMEMBERED)
            self._tell(key)

    def found(self, key: str, crash: tuple[str, str], shortage: Shortage | None) -> None:
        """Somebody looked why a container died; None if it was not for lack of memory."""
        remember(self._found, (key, crash), shortage, _REMEMBERED)
        self.seen(key, self._fates.get(key))

    def is_looked_at(self, key: str, crash: tuple[str, str]) -> bool:
        """Whether `found` was told of a crash."""
        return (key, crash) in self._found

    def of(self, key: str) -> PodFate | None:
        """The fate of a pod that exists."""
        return self._fates.get(key)

    def last_of(self, key: str) -> PodFate | None:
        """The fate of a pod that exists or is gone."""
        return self._fates.get(key) or self._gone.get(key)

    def all(self) -> Iterable[PodFate]:
        """The fates of all pods that exist."""
        return self._fates.values()

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` after each change, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self, key: str) -> None:
        for listener in tuple(self._listeners):
            listener(key)
