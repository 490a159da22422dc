"""When a placed pod is stuck, why, and whether placing it anew would help. Pure: what is known comes as arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from controller.room import Needs
from controller.workloads import pod_of
from shared.api import names
from shared.core.constraints import read_constraints
from shared.core.filters import Exclusion, node_exclusions
from shared.core.invalid import InvalidRequest
from shared.core.nodes import NodeFacts
from shared.core.placement import find_place, has_room
from shared.core.pods import PodFacts
from shared.core.snapshot import Snapshot

_INSUFFICIENT: Final = re.compile(r"Insufficient ([^\s,;]+)")
_NODE_SAYS = {
    Exclusion.NOT_READY: "is not ready",
    Exclusion.CORDONED: "is cordoned",
    Exclusion.UNTOLERATED_TAINT: "has a taint that the pod does not tolerate",
    Exclusion.NODE_SELECTOR: "has no longer the labels that the pod selects",
}


def waits_for_node(pod: PodFacts) -> bool:
    """Whether the scheduler has yet to bind a pod that we placed. A gated pod waits for somebody else."""
    return pod.is_placed and not (pod.bound or pod.gated or pod.terminating)


def why_unbound(raw: Mapping[str, Any], name: str, node: NodeFacts | None) -> str | None:
    """Why the pod `raw` will not be bound to the node `name` to which it is pinned; None if nothing is known to be
    wrong.

    The scheduler's own words, or where it said nothing what its node tells.
    """
    for condition in (raw.get("status") or {}).get("conditions") or ():
        if (condition.get("type"), condition.get("reason")) == ("PodScheduled", "Unschedulable"):
            return str(condition.get("message") or "the scheduler gives no reason")
    if node is None:
        return f"node {name} is gone"
    try:
        exclusions = node_exclusions(node, read_constraints(raw))
    except InvalidRequest:
        return None
    words = [_NODE_SAYS[each] for each in exclusions if each in _NODE_SAYS]
    return f"node {name} {' and '.join(words)}" if words else None


def made_again(owner: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any] | None:
    """The pod that `owner` would create in the place of `pod`, or None if it would create none that could go elsewhere.

    Its volumes are those of the pod: a StatefulSet adds claims that its template does not name.
    """
    if owner["metadata"].get("deletionTimestamp") or owner.get("kind") == "DaemonSet" or _gives_up(owner):
        return None
    again = pod_of(owner, pod["metadata"]["namespace"])
    if again is None:
        return None
    return {**again, "spec": {**again["spec"], "volumes": pod["spec"].get("volumes")}}


def is_of_present_template(owner: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether `owner` made `pod` of the template that it has now. Only a StatefulSet's may be of an earlier one."""
    if owner.get("kind") != "StatefulSet":
        return True
    revision = (pod["metadata"].get("labels") or {}).get(names.CONTROLLER_REVISION_HASH)
    return bool(revision == (owner.get("status") or {}).get("updateRevision"))


def says_it_lacks(words: str, pod: PodFacts) -> bool:
    """Whether the scheduler's words are that a node has too little of what `pod` was given by its placement."""
    given = {*(names.card_resource(index) for index, _ in pod.shares), *(resource for resource, _ in pod.units)}
    return not given.isdisjoint(each.rstrip(".") for each in _INSUFFICIENT.findall(words))


def better_node(snapshot: Snapshot, pod: PodFacts, needs: Needs, *, is_overlooked: bool = False) -> str | None:
    """Where `pod` would go if it were placed anew by `needs`, or None if that is nowhere or where it stands already.

    On its own node it is better off only if the cards that it has are no longer good for it, or if it is overlooked.
    """
    state = snapshot.nodes.get(pod.node)
    if state is not None:
        snapshot = snapshot.changed({pod.node: state.without_placement_of(pod)})
    placed = find_place(snapshot, needs.demand, needs.constraints)
    if placed is None:
        return None
    if state is not None and placed.node == pod.node and has_room(state, pod) and not is_overlooked:
        return None
    return placed.node


def _gives_up(owner: Mapping[str, Any]) -> bool:
    """Whether it is a Job that counts a deleted pod as failed and has no failure to spare."""
    if owner.get("kind") != "Job":
        return False
    spec = owner.get("spec") or {}
    spare = int(spec.get("backoffLimit", 6)) - int((owner.get("status") or {}).get("failed", 0))
    return spare < 1 or spec.get("backoffLimitPerIndex") is not None
