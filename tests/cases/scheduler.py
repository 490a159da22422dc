"""Where the scheduler would bind a pod: the nodes that its selectors, its affinity and its volumes allow.

Room is not looked at: a case says itself when a pod is not to be scheduled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.fakes.objects import Json
from tests.scheduler_model import is_met

_HOSTNAME: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def required_terms(pod: Mapping[str, Any]) -> list[Json]:
    """The alternatives of the required node affinity; none if there is no such affinity."""
    node_affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    return (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def chosen_node(pod: Mapping[str, Any]) -> str | None:
    """The one node that a pod is bound or pinned to by name; None if several would do."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    if (spec.get("nodeSelector") or {}).get(_HOSTNAME):
        return str(spec["nodeSelector"][_HOSTNAME])
    named = {_named(term) for term in required_terms(pod)}
    return named.pop() if len(named) == 1 else None


def allowed_nodes(pod: Mapping[str, Any], nodes: Iterable[Json], volumes: Sequence[Json] = ()) -> list[str]:
    """The names of the nodes that the pod may be bound to, in their order. `volumes` are those that it has claimed."""
    return [
        node["metadata"]["name"]
        for node in nodes
        if _admits(pod, node) and all(_reaches(volume, node) for volume in volumes)
    ]


def _admits(pod: Mapping[str, Any], node: Json) -> bool:
    spec, labels = pod.get("spec") or {}, node["metadata"].get("labels") or {}
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node["metadata"]["name"])
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return _REQUIRED not in affinity or any(_term_matches(term, node) for term in required_terms(pod))


def _reaches(volume: Json, node: Json) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or any(_term_matches(term, node) for term in required["nodeSelectorTerms"])


def _term_matches(term: Json, node: Json) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    labels = node["metadata"].get("labels") or {}
    named = {"metadata.name": node["metadata"]["name"]}
    return all(is_met(each, labels) for each in expressions) and all(is_met(each, named) for each in fields)


def _named(term: Json) -> str | None:
    for requirement in (*(term.get("matchFields") or ()), *(term.get("matchExpressions") or ())):
        if requirement["key"] in {"metadata.name", _HOSTNAME} and requirement["operator"] == "In":
            values = requirement.get("values") or []
            if len(values) == 1:
                return str(values[0])
    return None
