"""Which cards of one node serve a demand: distinct cards for one container, the tightest that fit first."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.core.asks import Ask
from shared.core.cards import Card, Inventory, Vendor
from shared.core.demand import Demand, Policy
from shared.core.snapshot import NodeState

MOST_STEPS = 20_000
"""Bound on the search for cards over all nodes of a decision, in choices tried; it takes a fraction of a second."""

_MOST_STEPS_ON_NODE = 2_000
"""Bound on one node, so that a single node where the containers nearly fit does not use up the whole bound."""


@dataclass(frozen=True, slots=True)
class Share:
    """GB of one card for one container. `gb` is what is requested, `own_gb` what the container itself may use."""

    container: str
    card: Card
    gb: int
    own_gb: int


def accel_met(inventory: Inventory, demand: Demand) -> bool:
    """Whether a node's driver serves the version that the pod needs; a node that does not say is not used."""
    if demand.accel is None:
        return True
    served = dict(inventory.accel).get(demand.accel.runtime)
    return served is not None and demand.accel.met_by(served)


class CardSearch:
    """The search for the cards of one demand on one node after another, with one bound on its work in all.

    Only a pod with several GPU containers needs to search. The same nodes in the same order end in the same answer,
    also where a bound is hit; `gave_up` then says that a None may be wrong, and `steps` what was spent.
    """

    __slots__ = ("_demand", "_in_vain", "_needs", "gave_up", "steps")

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._in_vain: set[Hashable] = set()
        self._needs: dict[tuple[int, Vendor, bool, bool], tuple[int, ...]] = {}
        self.gave_up = False
        self.steps = 0

    def choose(self, state: NodeState) -> tuple[Share, ...] | None:
        """Cards of one node for every ask, or None. The cards of one ask are distinct and of one vendor; whole cards
        are never shared.

        Asks are served largest first, each from its tightest cards; where a later ask then finds no room, the choice
        before it is changed.
        """
        demand, cards = self._demand, state.inventory.cards
        if self.steps >= MOST_STEPS:
            self.gave_up = True
            return None
        by_card = [self._needs_of(card, state.inventory) for card in cards]
        needs = {ask.container: [need[number] for need in by_card] for number, ask in enumerate(demand.asks)}
        if _is_hopeless(state, demand, needs):
            return None
        # Nodes are bought by the dozen: where one has no room, those with the same cards and use have none either.
        look = (
            state.inventory.exclusive,
            tuple(
                sorted(
                    (free, card.budget_gb, card.vendor, demand.admits(card))
                    for free, card in zip(state.free_gb, cards, strict=True)
                )
            ),
        )
        chosen = None if look in self._in_vain else self._search(state, needs)
        if chosen is None:
            self._in_vain.add(look)
            return None
        exclusive = _is_exclusive(state.inventory, demand)
        return tuple(
            Share(
                ask.container, cards[slot], needs[ask.container][slot], ask.amount.on(cards[slot], exclusive=exclusive)
            )
            for ask in demand.asks
            for slot in sorted(chosen[ask.container], key=lambda slot: cards[slot].index)
        )

    def _needs_of(self, card: Card, inventory: Inventory) -> tuple[int, ...]:
        """GB that each ask takes of a card, 0 if it may not have it; worked out once for all cards of a size."""
        kind = card.budget_gb, card.vendor, inventory.exclusive, self._demand.admits(card)
        needs = self._needs.get(kind)
        if needs is None:
            suits = self._demand.suits(card)
            needs = tuple(request_on(ask, card, inventory, self._demand) * suits for ask in self._demand.asks)
            self._needs[kind] = needs
        return needs

    def _search(self, state: NodeState, needs: Mapping[str, Sequence[int]]) -> Mapping[str, Sequence[int]] | None:
        """Positions among the node's cards by container."""
        order = sorted(
            self._demand.asks, key=lambda ask: (max(needs[ask.container]), ask.count, ask.container), reverse=True
        )
        free = list(state.free_gb)
        chosen: dict[str, Sequence[int]] = {}
        end = min(MOST_STEPS, self.steps + _MOST_STEPS_ON_NODE)

        def serve(depth: int) -> bool:
            if depth == len(order):
                return True
            ask = order[depth]
            need = needs[ask.container]
            for slots in _options(need, ask.count, free, state, self._demand):
                if self.steps >= end:
                    self.gave_up = True
                    return False
                self.steps += 1
                for slot in slots:
                    free[slot] -= need[slot]
                chosen[ask.container] = slots
                if serve(depth + 1):
                    return True
                for slot in slots:
                    free[slot] += need[slot]
            return False

        return chosen if serve(0) else None


def request_on(ask: Ask, card: Card, inventory: Inventory, demand: Demand) -> int:
    """GB that `ask` takes of `card`: its amount, or what an init container needs there before it, if that is more."""
    exclusive = _is_exclusive(inventory, demand)
    return max(amount.on(card, exclusive=exclusive) for amount in (ask.amount, *ask.init))


def _is_hopeless(state: NodeState, demand: Demand, needs: Mapping[str, Sequence[int]]) -> bool:
    """Whether a count shows without any search that a node has no room."""
    least: list[tuple[int, int]] = []
    for ask in demand.asks:
        room = [need for need, free in zip(needs[ask.container], state.free_gb, strict=True) if 0 < need <= free]
        if len(room) < ask.count:
            return True
        least.append((min(room), ask.count))
    if sum(gb * count for gb, count in least) > state.total_free_gb:
        return True
    # A card holds so many shares of `gb` or more, and no more than that.
    return len(least) > 1 and any(
        sum(count for other, count in least if other >= gb) > sum(free // gb for free in state.free_gb)
        for gb, _ in least
    )


def _options(
    need: Sequence[int], count: int, free: Sequence[int], state: NodeState, demand: Demand
) -> Iterator[tuple[int, ...]]:
    """Sets of `count` cards that have room, by their positions among the node's cards, the preferred set first."""
    sign = -1 if demand.policy is Policy.SPREAD else 1
    fitting = [
        (sign * (free[slot] - need[slot]), sign * card.budget_gb, card.index, slot)
        for slot, card in enumerate(state.inventory.cards)
        if 0 < need[slot] <= free[slot]
    ]
    # Cards that are alike stand for each other: a node of eight equal cards has one way to give four.
    alike: dict[Vendor, dict[tuple[int, int], list[int]]] = {}
    for *_, slot in sorted(fitting):
        card = state.inventory.cards[slot]
        alike.setdefault(card.vendor, {}).setdefault((free[slot], card.budget_gb), []).append(slot)
    for groups in alike.values():
        yield from _picks(list(groups.values()), count)


def _picks(groups: Sequence[Sequence[int]], count: int) -> Iterator[tuple[int, ...]]:
    """Every way to take `count` from `groups`, as many as possible from the first ones first."""
    if count > sum(map(len, groups)):
        return
    if count == 0:
        yield ()
        return
    first, *rest = groups
    for taken in range(min(count, len(first)), -1, -1):
        for others in _picks(rest, count - taken):
            yield (*first[:taken], *others)


def _is_exclusive(inventory: Inventory, demand: Demand) -> bool:
    """Whether cards are given whole: because the node does so, or because the pod wants it."""
    return inventory.exclusive or demand.policy is Policy.EXCLUSIVE
