"""Where the pods that a walk over the waiting owners wants to see created would go, one after the other. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from shared.api import names
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand, is_booked, read_pod
from shared.core.invalid import InvalidRequest
from shared.core.node_index import NodeIndex, Nodes
from shared.core.placement import Placed, find_place, has_cards
from shared.core.pods import PodFacts
from shared.core.preemption import find_preemption
from shared.core.selectors import NodeSelectorTerm, Operator, Requirement
from shared.core.snapshot import NodeState, Snapshot
from shared.core.tolerations import Toleration, read_tolerations
from shared.core.volumes import ClaimUse

_NO_SEATS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pod asks of the cards and of its node."""

    demand: Demand
    constraints: Constraints

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> Needs | None:
        """The needs of a pod that does not exist yet, or None if it asks for no card or is malformed."""
        try:
            demand = read_pod(pod).demand
            constraints = read_constraints(pod, without=is_booked)
        except InvalidRequest:
            return None
        return None if demand is None else cls(demand, constraints)

    def tolerating(self, *tolerations: Toleration) -> Needs:
        """The same, where a taint that one of `tolerations` tolerates keeps it from no node."""
        more = (*self.constraints.tolerations, *tolerations)
        return replace(self, constraints=replace(self.constraints, tolerations=more))

    def admitted_like(self, pod: Mapping[str, Any]) -> Needs:
        """The same with what a stored `pod` tolerates and selects besides: what admission adds to one template's pods.

        Its affinity is not taken: that is where a placement pins it.
        """
        spec = pod["spec"]
        selector = {**(spec.get("nodeSelector") or {}), **self.constraints.node_selector}
        narrowed = replace(self, constraints=replace(self.constraints, node_selector=selector))
        return narrowed.tolerating(*read_tolerations(spec.get("tolerations")))

    def claiming(self, uses: tuple[ClaimUse, ...]) -> Needs:
        """The same with more volume claims."""
        return replace(self, constraints=replace(self.constraints, claims=(*self.constraints.claims, *uses)))

    def off(self, nodes: Collection[str]) -> Needs:
        """The same, on other nodes than these."""
        other = Requirement(names.NODE_NAME_FIELD, Operator.NOT_IN, tuple(sorted(nodes)))
        terms = self.constraints.node_affinity
        if terms is None:
            narrowed = [NodeSelectorTerm(fields=(other,))]
        else:
            # A term without conditions selects no node, and is to go on doing so.
            told = (term for term in terms if term.expressions or term.fields)
            narrowed = [replace(term, fields=(*term.fields, other)) for term in told]
        return replace(self, constraints=replace(self.constraints, node_affinity=tuple(narrowed)))


class Room:
    """The cluster as it is when a walk begins, less the places that the walk gives away.

    Memory that is freed under way is for the first in rank, in the next walk.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = NodeIndex(snapshot.nodes)
        self._snapshot = replace(snapshot, nodes=Nodes(self._nodes), namespaces=dict(snapshot.namespaces))
        self._given = 0
        self._short: set[Demand] = set()
        """Demands for which no node has the cards. A walk leaves less and less room: to the end of it none will."""

    def find(self, needs: Needs, seats: Mapping[str, str] = _NO_SEATS) -> Placed | None:
        """The place of one pod, or None if there is none.

        `seats` are those kept for its workload, each with its node: to nobody else they are free.
        """
        if needs.demand in self._short and not seats:
            return None
        without: dict[str, NodeState] = {}
        for reservation, name in seats.items():
            state = without.get(name) or self._nodes.states.get(name)
            if state is not None:
                without[name] = state.without_entry(reservation)
        placed = find_place(self._snapshot.changed(without), needs.demand, needs.constraints)
        if placed is None and not has_cards(self._snapshot, needs.demand):
            self._short.add(needs.demand)
        return placed

    def take(self, needs: Needs, seats: Mapping[str, str] = _NO_SEATS) -> Placed | None:
        """Finds the place of one pod and gives it away."""
        placed = self.find(needs, seats)
        if placed is not None:
            state = self._nodes.states[placed.node]
            self._given += 1
            self._nodes.put(state.with_pod(_pod(f"woken/{self._given}", placed, needs.constraints)))
        return placed

    def find_preempting(self, needs: Needs, priority: int) -> Placed | None:
        """The place that a pod of this priority would have if pods of lower priority left.

        What they leave the scheduler keeps for it: nothing of the room is given away.
        """
        found = find_preemption(self._snapshot, needs.demand, needs.constraints, priority)
        return None if found is None else found.placed


def _pod(key: str, placed: Placed, constraints: Constraints) -> PodFacts:
    """A pod that was given a place."""
    return PodFacts(
        key=key,
        namespace=constraints.namespace,
        name="",
        node=placed.node,
        bound=False,
        labels=constraints.labels,
        requests={**constraints.requests, **placed.requests},
        shares=placed.booking,
        host_ports=constraints.host_ports,
        anti_affinity=constraints.pod_anti_affinity,
        claims=tuple(use.name for use in constraints.claims if use.key is not None),
    )
