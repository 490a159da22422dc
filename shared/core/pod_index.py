"""Which nodes have pods that look a certain way: pods are made from templates, so of thousands few look different."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.core.pods import PodFacts
    from shared.core.snapshot import NodeState


@dataclass(frozen=True, slots=True)
class PodLook:
    """What selectors see of a pod."""

    namespace: str
    labels: Mapping[str, str]
    terminating: bool


class PodIndex:
    """The number of pods of each look on each node."""

    __slots__ = ("_hosts", "_looks")

    def __init__(self, states: Iterable[NodeState]) -> None:
        self._looks: dict[Hashable, PodLook] = {}
        self._hosts: dict[Hashable, dict[str, int]] = {}
        for state in states:
            for pod in state.pods.values():
                self._add(state.name, pod)

    def change(self, node: str, old: Mapping[str, PodFacts], new: Mapping[str, PodFacts]) -> None:
        """Takes in that the pods on a node are others now."""
        for key, pod in old.items():
            if new.get(key) is not pod:
                self._remove(node, pod)
        for key, pod in new.items():
            if old.get(key) is not pod:
                self._add(node, pod)

    def hosts(self, selects: Callable[[PodLook], bool]) -> list[Mapping[str, int]]:
        """For each look that `selects` selects, the number of its pods by node."""
        return [self._hosts[key] for key, look in self._looks.items() if selects(look)]

    def _add(self, node: str, pod: PodFacts) -> None:
        key = _key(pod)
        hosts = self._hosts.get(key)
        if hosts is None:
            hosts = self._hosts[key] = {}
            self._looks[key] = look_of(pod)
        hosts[node] = hosts.get(node, 0) + 1

    def _remove(self, node: str, pod: PodFacts) -> None:
        key = _key(pod)
        hosts = self._hosts[key]
        hosts[node] -= 1
        if not hosts[node]:
            del hosts[node]
        if not hosts:
            del self._hosts[key], self._looks[key]


def look_of(pod: PodFacts) -> PodLook:
    return PodLook(pod.namespace, pod.labels, pod.terminating)


def _key(pod: PodFacts) -> Hashable:
    return pod.namespace, frozenset(pod.labels.items()), pod.terminating
