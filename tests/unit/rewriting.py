"""Pods rewritten for a place in a small cluster, without any API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.core.constraints import read_constraints
from shared.core.demand import REPLACED_RESOURCES, read_pod
from shared.core.placement import Placed, place
from shared.core.snapshot import NodeState, Snapshot
from tests.builders import PodBuilder
from tests.unit.core_builders import cards, cluster, node
from webhook.marks import strip
from webhook.patch import PodPatch
from webhook.rewrite import hide_devices, rewrite

ID = "abcdefghij"
NODE = node("node-a", cards(16, 16, 80))


def injecting(state: NodeState, injection: str) -> NodeState:
    """A node whose cards are shown to containers in another way."""
    return replace(state, inventory=replace(state.inventory, injection=injection))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A placed pod, the patch that made it so, and what its creator is warned of."""

    patch: PodPatch
    warnings: tuple[str, ...]

    @property
    def pod(self) -> dict[str, Any]:
        return self.patch.pod

    def container(self, name: str = "main") -> dict[str, Any]:
        """A container of either kind."""
        spec = self.pod["spec"]
        (found,) = [each for each in (*spec.get("initContainers", ()), *spec["containers"]) if each["name"] == name]
        container: dict[str, Any] = found
        return container

    def env(self, name: str = "main") -> dict[str, Any]:
        """The literal variables of a container; the last of a name counts."""
        return {entry["name"]: entry.get("value") for entry in self.container(name).get("env") or ()}


def placed(
    pod: PodBuilder | Mapping[str, Any], *states: NodeState, runtime_class: str | None = None, reservation: str = ID
) -> Rewritten:
    """The pod with its place on one of the nodes; it must have one."""
    raw = pod.raw() if isinstance(pod, PodBuilder) else pod
    snapshot: Snapshot = cluster(*(states or (NODE,)))
    patch = PodPatch(raw)
    read = read_pod(raw)
    hide_devices(patch, read.hidden)
    assert read.demand is not None
    verdict = place(snapshot, read.demand, read_constraints(raw, without=REPLACED_RESOURCES.__contains__))
    assert isinstance(verdict, Placed), verdict
    warnings = rewrite(patch, read, verdict, snapshot.nodes[verdict.node], reservation, runtime_class)
    return Rewritten(patch, warnings)


def stripped(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod without what a placement put on it."""
    patch = PodPatch(pod)
    strip(patch)
    return patch.pod


def without_empty(value: Any) -> Any:
    """JSON without its empty maps and lists, and without nulls."""
    if isinstance(value, Mapping):
        kept = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [], None)}
    return [without_empty(item) for item in value] if isinstance(value, list) else value
