"""Whether a demand would fit a node once nothing else runs there, its cards are in order, and it and what offers its
cards are back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from shared.core.alike import Alike
from shared.core.demand import Demand
from shared.core.node_choice import NodeSearch
from shared.core.snapshot import NodeState
from shared.core.unit_asks import MOST_UNITS
from shared.core.unit_kinds import UnitKind
from shared.core.units import is_partition, vendor_of


class EmptiedSearch:
    """The search on one node after another; `gave_up` says that a no may be wrong.

    Nodes are bought by the dozen: what one can or cannot hold when it is empty, its like can or cannot either.
    """

    __slots__ = ("_demand", "_known", "_search")

    def __init__(self, demand: Demand, own: int) -> None:
        self._demand = demand
        self._search = NodeSearch(demand, own)
        self._known: dict[Hashable, bool] = {}

    @property
    def gave_up(self) -> bool:
        return self._search.gave_up

    def fits(self, alike: Alike, state: NodeState) -> bool:
        """Whether the demand fits one of the nodes that are `alike`, `state`, when it is empty."""
        look: Hashable = alike
        if state.memory is not None or state.kinds or self._demand.units:
            memory = state.memory and (state.memory.allocatable, state.memory.kept)
            concerned = (*(kind.resource for kind in state.kinds), *(unit.resource for unit in self._demand.units))
            look = alike, memory, tuple(map(state.facts.allocatable.get, concerned))
        known = self._known.get(look)
        if known is None:
            known = self._known[look] = self._search.choose(state.emptied) is not None
        return known


def with_plugins(state: NodeState, demand: Demand) -> NodeState:
    """The node once every device plugin that is away offers again what the demand may want of it."""
    back = dict(_away(state, demand))
    if not back:
        return state
    return replace(state, facts=replace(state.facts, allocatable={**state.facts.allocatable, **back}))


def _away(state: NodeState, demand: Demand) -> Iterator[tuple[str, int]]:
    """The resources that are away, and how many units there will be as far as anything tells, else enough."""
    for unit in demand.units:
        if state.is_away(unit.resource):
            yield unit.resource, MOST_UNITS
    for kind in state.kinds:
        if state.is_away(kind.resource):
            yield kind.resource, _units_of(state, kind) or MOST_UNITS


def _units_of(state: NodeState, kind: UnitKind) -> int:
    if is_partition(kind.resource):
        return 0
    return kind.per_card * sum(card.vendor is vendor_of(kind.resource) for card in state.inventory.cards)
