"""What a pod would like of its node and its neighbours without insisting on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.core.affinity_terms import PodAffinityTerm, read_pod_affinity_terms
from shared.core.pods import PREFERRED, Raw
from shared.core.selectors import NodeSelectorTerm, read_node_selector_terms
from shared.core.spread import SCHEDULE_ANYWAY, TopologySpreadConstraint, read_topology_spread


@dataclass(frozen=True, slots=True)
class Preferences:
    """Weighted terms: of nodes, of pods to be near (or, with a negative weight, away from), and soft spread."""

    nodes: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    pods: tuple[tuple[int, PodAffinityTerm], ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.pods or self.spread)


NO_PREFERENCES: Final = Preferences()


def read_preferences(spec: Raw, namespace: str, labels: Mapping[str, str]) -> Preferences:
    """The preferences of a pod with `labels` that is not stored yet."""
    affinity = spec.get("affinity") or {}
    near = (affinity.get("podAffinity") or {}).get(PREFERRED)
    away = (affinity.get("podAntiAffinity") or {}).get(PREFERRED)
    return Preferences(
        nodes=_weighted_node_terms((affinity.get("nodeAffinity") or {}).get(PREFERRED)),
        pods=(*_weighted_pod_terms(near, namespace, labels), *_weighted_pod_terms(away, namespace, labels, sign=-1)),
        spread=read_topology_spread(spec.get("topologySpreadConstraints"), labels, SCHEDULE_ANYWAY),
    )


def _weighted_node_terms(raw: Iterable[Mapping[str, Any]] | None) -> tuple[tuple[int, NodeSelectorTerm], ...]:
    preferred = tuple(raw or ())
    terms = read_node_selector_terms(item["preference"] for item in preferred)
    return tuple((item["weight"], term) for item, term in zip(preferred, terms, strict=True))


def _weighted_pod_terms(
    raw: Iterable[Mapping[str, Any]] | None, namespace: str, labels: Mapping[str, str], sign: int = 1
) -> tuple[tuple[int, PodAffinityTerm], ...]:
    preferred = tuple(raw or ())
    terms = read_pod_affinity_terms((item["podAffinityTerm"] for item in preferred), namespace, labels)
    return tuple((sign * item["weight"], term) for item, term in zip(preferred, terms, strict=True))
