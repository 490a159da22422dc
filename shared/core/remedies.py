"""What would give a refused pod a place: found by deciding again with one thing different.

- Had it another toleration, selector or node name: a node that has room and that the pod keeps itself from.
- Could it take the place of pods of lower priority: if somebody has looked for such a place.
- Without older pods of its own workload: with the default rolling update of a Deployment the new pod comes before the
  old one goes. Where the old one has the card, the update waits for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from shared.api import names
from shared.core.constraints import Constraints
from shared.core.demand import Demand
from shared.core.placement import find_place
from shared.core.pods import PodFacts
from shared.core.preemption import Preemption
from shared.core.refusal import Elsewhere, NoFit, RollingUpdate
from shared.core.snapshot import NodeState, Snapshot
from shared.core.tolerations import Toleration, TolerationOperator, untolerated

_WOKEN: Final = frozenset({"v1", "apps/v1", "batch/v1"})
"""The API versions of Kubernetes' own kinds that create pods."""


@dataclass(frozen=True, slots=True)
class _Revision:
    """A revision of a workload whose updates may create new pods before old ones go."""

    namespace: str
    kind: str
    workload: str
    hash: str

    def replaces(self, other: _Revision | None) -> bool:
        """Whether the two are different revisions of one workload."""
        return other is not None and other != self and replace(other, hash=self.hash) == self


def with_remedies(
    refusal: NoFit,
    snapshot: Snapshot,
    pod: PodFacts,
    demand: Demand,
    constraints: Constraints,
    preemption: Preemption | None = None,
) -> NoFit:
    """The refusal of `pod`, which was found in `snapshot`, with what its owner can do about it.

    `preemption` is the place that it would have if it might take that of others.
    """
    return replace(
        refusal,
        owned=pod.owner is not None,
        creator=_creator(pod),
        update=_update(refusal, snapshot, pod, demand, constraints),
        elsewhere=_elsewhere(snapshot, pod, demand, constraints),
        victims=None if preemption is None else preemption.told(pod.namespace),
    )


def _creator(pod: PodFacts) -> str:
    """The owner of a pod if it is of a custom kind. Those of Kubernetes' own kinds are woken once there is room."""
    owner = pod.owner
    return "" if owner is None or owner.api_version in _WOKEN else f"{owner.kind} {owner.name}"


def _elsewhere(snapshot: Snapshot, pod: PodFacts, demand: Demand, constraints: Constraints) -> Elsewhere | None:
    """A node with room that the pod itself keeps away from, and that is in service.

    A DaemonSet has a pod for each node: this one may go to no other.
    """
    free = replace(constraints, tolerations=(*constraints.tolerations, *_of_admins_taints(snapshot)))
    if pod.owner is None or pod.owner.kind != "DaemonSet":
        free = replace(free, node_name=None, node_selector={}, node_affinity=None)
    found = find_place(snapshot, demand, free)
    if found is None:
        return None
    node = snapshot.nodes[found.node].facts
    taint = next(untolerated(node.taints, constraints.tolerations), None)
    elsewhere = Elsewhere(
        node.name,
        taint="" if taint is None else f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}",
        unnamed=constraints.node_name not in (None, node.name),
        unselected=not constraints.select(node),
    )
    # What a pod selects also decides which nodes its topology spread counts: then none of these is in the way.
    return elsewhere if elsewhere.taint or elsewhere.unnamed or elsewhere.unselected else None


def _of_admins_taints(snapshot: Snapshot) -> Iterator[Toleration]:
    """Tolerations of every taint that somebody chose. Those by which Kubernetes says that a node is cordoned or in
    trouble are to be respected.
    """
    keys = {taint.key for state in snapshot for taint in state.facts.taints}
    for key in sorted(keys):
        if not key.startswith(names.NODE_CONDITION_PREFIX):
            yield Toleration(key, TolerationOperator.EXISTS)


def _update(
    refusal: NoFit, snapshot: Snapshot, pod: PodFacts, demand: Demand, constraints: Constraints
) -> RollingUpdate | None:
    """The update that waits for itself: without the old pods near the best cards the new one would have a place."""
    revision = _revision_of(pod)
    if revision is None:
        return None
    old = [
        each for each in _nearby(refusal, snapshot) if revision.replaces(_revision_of(each)) and not each.terminating
    ]
    if not old or find_place(_without(snapshot, old), demand, constraints) is None:
        return None
    return RollingUpdate(revision.kind, revision.workload, min(each.name for each in old))


def _revision_of(pod: PodFacts) -> _Revision | None:
    """The revision that a pod is of, where its labels and its owner tell. A ReplicaSet bears its Deployment's name."""
    if pod.owner is None or pod.owner.api_version != "apps/v1":
        return None
    match pod.owner.kind:
        case "ReplicaSet":
            template = pod.labels.get(names.POD_TEMPLATE_HASH)
            workload = pod.owner.name.removesuffix(f"-{template}")
            if template and workload != pod.owner.name:
                return _Revision(pod.namespace, "Deployment", workload, template)
        case "DaemonSet":
            revision = pod.labels.get(names.CONTROLLER_REVISION_HASH)
            if revision:
                return _Revision(pod.namespace, "DaemonSet", pod.owner.name, revision)
    return None


def _nearby(refusal: NoFit, snapshot: Snapshot) -> Iterator[PodFacts]:
    """The pods on the nodes of the nearest cards or units."""
    units = () if refusal.unit is None else (refusal.unit.node,)
    for node in dict.fromkeys((*units, *(attempt.node for attempt in refusal.attempts))):
        yield from snapshot.nodes[node].pods.values()


def _without(snapshot: Snapshot, pods: Sequence[PodFacts]) -> Snapshot:
    changed: dict[str, NodeState] = {}
    for pod in pods:
        changed[pod.node] = changed.get(pod.node, snapshot.nodes[pod.node]).without_placement_of(pod)
    return snapshot.changed(changed)
