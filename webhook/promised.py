"""A pod in a review as the pod that it will be: where it may go, and what it will take and be among the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shared.api import names
from shared.core.constraints import Constraints, read_constraints
from shared.core.containers import mapping, text
from shared.core.demand import is_booked
from shared.core.ledger import Shares
from shared.core.pods import PodFacts, pod_facts
from shared.core.units import Units
from webhook.review import Request


def promised(request: Request, pod: Mapping[str, Any], constraints: Constraints) -> PodFacts:
    """The pod as it will be, so that decisions made before it exists count its cpu, ports and labels too."""
    metadata = _metadata(pod, request)
    kept = {key: metadata.get(key) for key in ("namespace", "labels", "ownerReferences")}
    kept["name"] = text(metadata.get("name"), "metadata.name")
    facts = pod_facts({"metadata": kept, "spec": {**pod["spec"], "nodeName": "chosen later"}})
    assert facts is not None, "a pod with a node name is on that node"
    return replace(facts, bound=False, shares=(), requests=constraints.requests)


def on_cards(pod: PodFacts, node: str, shares: Shares, units: Units) -> PodFacts:
    """The promised pod on the node, with the cards and units that were chosen."""
    cards = {names.card_resource(index): gb for index, gb in shares}
    return replace(pod, node=node, shares=shares, requests={**pod.requests, **cards, **dict(units)})


def constraints_of(request: Request, pod: Mapping[str, Any]) -> Constraints:
    """Where the pod may go. Raises `InvalidRequest` where it is not what Kubernetes defines."""
    pod_in_namespace = {**pod, "metadata": _metadata(pod, request)}
    return read_constraints(pod_in_namespace, without=is_booked)


def _metadata(pod: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """The pod's metadata with the namespace of the request: the object itself may leave it out."""
    return {**mapping(pod.get("metadata"), "metadata"), "namespace": request.namespace}
