"""Which nodes are the same to a pod, so that what is said of one is true of all: thousands of nodes are a few kinds.

Two nodes are alike if their cards are of the same kinds in the same order, they serve the same versions, the same
resources book their cards, and the same things about the nodes themselves keep the pod away. How full they are, and
what runs there, may differ.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from shared.core.cards import Card
from shared.core.demand import Demand
from shared.core.filters import Exclusion, Filters
from shared.core.snapshot import NodeState


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Nodes that are alike, in the order in which they came.

    `exclusions` is what keeps the pod from each of them, and `suiting` are the positions, among the cards of each, of
    those that it may have.
    """

    states: Sequence[NodeState]
    exclusions: tuple[Exclusion, ...]
    suiting: tuple[int, ...]

    @property
    def example(self) -> NodeState:
        return self.states[0]

    @property
    def suiting_cards(self) -> list[Card]:
        """The cards of the example that the pod may have: in all but slot, UUID and condition those of every node."""
        return [self.example.inventory.cards[position] for position in self.suiting]


def group_alike(states: Iterable[NodeState], demand: Demand, filters: Filters) -> list[Alike]:
    """The nodes that are alike for a pod, each group in the order of its first node."""
    groups: dict[Hashable, list[NodeState]] = {}
    exclusions: dict[Hashable, tuple[Exclusion, ...]] = {}
    chosen_by_uuid = demand.only is not None and demand.only.tells_uuids
    for state in states:
        inventory, reasons = state.inventory, filters.node_exclusions(state.facts)
        admitted = tuple(map(demand.admits, inventory.cards)) if chosen_by_uuid else ()
        key = inventory.shape, state.kinds, reasons, admitted
        group = groups.get(key)
        if group is None:
            groups[key], exclusions[key] = [state], reasons
        else:
            group.append(state)
    return [
        Alike(
            group,
            exclusions[key],
            tuple(place for place, card in enumerate(group[0].inventory.cards) if suits(card, demand)),
        )
        for key, group in groups.items()
    ]


def suits(card: Card, demand: Demand) -> bool:
    """Whether a card is one that the demand may have and that is given away at all."""
    return demand.suits(card) and card.unsupported is None
