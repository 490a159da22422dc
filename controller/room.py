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
from shared.core.placement import Placed, find_place
from shared.core.pods import PodFacts
from shared.core.preemption import find_preemption
from shared.core.selectors import NodeSelectorTerm, Operator, Requirement
from shared.core.snapshot import NodeState, Snapshot


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

    def off(self, nodes: Collection[str]) -> Needs:
        """The same on any other node than these, as a DaemonSet has it that has its pods there."""
        if not nodes:
            return self
        others = Requirement(names.NODE_NAME_FIELD, Operator.NOT_IN, tuple(sorted(nodes)))
        terms = self.constraints.node_affinity
        # An empty term selects nothing, and does not begin to.
        limited = tuple(
            replace(term, fields=(*term.fields, others)) for term in terms or () if term.expressions or term.fields
        )
        affinity = (NodeSelectorTerm(fields=(others,)),) if terms is None else limited
        return replace(self, constraints=replace(self.constraints, node_affinity=affinity))


class Room:
    """The cluster during one walk, less the places that the walk has given away."""

    def __init__(self) -> None:
        self._filled: dict[str, _Filled] = {}
        self._vain: dict[tuple[Demand, frozenset[str]], list[Constraints]] = {}

    def take(self, snapshot: Snapshot, needs: Needs, seats: Mapping[str, str] = MappingProxyType({})) -> str | None:
        """Takes the place of one pod in the cluster as it is now; on which node, or None if there is none.

        `seats` are those kept for its workload, each with its node: to nobody else they are free. Needs that found no
        place are not looked at again: a walk leaves less and less room, and a change of the cluster starts another.
        """
        vain = self._vain.setdefault((needs.demand, frozenset(seats)), [])
        if needs.constraints in vain:
            return None
        live = snapshot.nodes
        states = {name: each.over(live[name]) for name, each in self._filled.items() if name in live}
        for reservation, name in seats.items():
            if name in live:
                states[name] = states.get(name, live[name]).without_entry(reservation)
        placed = find_place(snapshot.changed(states), needs.demand, needs.constraints)
        if placed is None:
            vain.append(needs.constraints)
            return None
        if placed.node not in self._filled:
            self._filled[placed.node] = _Filled(live[placed.node])
        self._filled[placed.node].add(placed, needs.constraints)
        return placed.node


def may_preempt(snapshot: Snapshot, needs: Needs, priority: int) -> bool:
    """Whether a pod of this priority would have a place if pods of lower priority left."""
    return find_preemption(snapshot, needs.demand, needs.constraints, priority) is not None


class _Filled:
    """A node with the pods that it was given in a walk. The outcome is kept until the node itself changes."""

    def __init__(self, state: NodeState) -> None:
        self._before = state
        self._after = state
        self._given: list[PodFacts] = []

    def add(self, placed: Placed, constraints: Constraints) -> None:
        """Puts a pod on its place."""
        pod = PodFacts(
            key=f"woken/{len(self._given)}",
            namespace=constraints.namespace,
            name="",
            node=placed.node,
            bound=False,
            labels=constraints.labels,
            requests={
                **constraints.requests,
                **{names.card_resource(index): gb for index, gb in placed.booking},
                **dict(placed.units),
            },
            shares=placed.booking,
            host_ports=constraints.host_ports,
            anti_affinity=constraints.pod_anti_affinity,
            claims=tuple(use.name for use in constraints.claims if use.key is not None),
        )
        self._given.append(pod)
        self._after = self._after.with_pod(pod)

    def over(self, state: NodeState) -> NodeState:
        """The node as it is now, with the same pods on it."""
        if state is not self._before:
            self._before = state
            pods = {**state.pods, **{pod.key: pod for pod in self._given}}
            self._after = NodeState.of(state.facts, state.inventory, state.ledger, pods)
        return self._after
