"""Whether a demand would fit a node once nothing else runs there, its cards are in order and it is back."""

from __future__ import annotations

from collections.abc import Hashable

from shared.core.alike import Alike
from shared.core.demand import Demand
from shared.core.node_choice import NodeSearch
from shared.core.snapshot import NodeState


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
