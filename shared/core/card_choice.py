"""Which cards of one node serve a demand: distinct cards for one container, the tightest that fit first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shared.core.asks import Ask
from shared.core.cards import Card, Inventory, Vendor
from shared.core.demand import Demand, Policy
from shared.core.snapshot import NodeState

_MOST_STEPS = 2000
"""Bound on the search for cards on one node; only a pod with many GPU containers comes near it."""


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


def choose_cards(state: NodeState, demand: Demand) -> tuple[Share, ...] | None:
    """Cards of one node for every ask, or None. The cards of one ask are distinct and of one vendor; whole cards are
    never shared.

    Asks are served largest first, each from its tightest cards; where a later ask then finds no room, the choice before
    it is changed.
    """
    cards, inventory = state.inventory.cards, state.inventory
    order = sorted(demand.asks, key=lambda ask: _weight(ask, inventory, demand), reverse=True)
    free = list(state.free_gb)
    chosen: dict[str, tuple[int, ...]] = {}
    steps = 0

    def search(depth: int) -> bool:
        nonlocal steps
        if depth == len(order):
            return True
        ask = order[depth]
        for slots in _options(ask, free, state, demand):
            steps += 1
            if steps > _MOST_STEPS:
                return False
            taken = [(slot, request_on(ask, cards[slot], inventory, demand)) for slot in slots]
            for slot, gb in taken:
                free[slot] -= gb
            chosen[ask.container] = slots
            if search(depth + 1):
                return True
            for slot, gb in taken:
                free[slot] += gb
        return False

    if not search(0):
        return None
    return tuple(
        Share(
            ask.container,
            card,
            request_on(ask, card, inventory, demand),
            ask.amount.on(card, exclusive=_is_exclusive(inventory, demand)),
        )
        for ask in demand.asks
        for card in sorted((cards[slot] for slot in chosen[ask.container]), key=lambda card: card.index)
    )


def request_on(ask: Ask, card: Card, inventory: Inventory, demand: Demand) -> int:
    """GB that `ask` takes of `card`: its amount, or what an init container needs there before it, if that is more."""
    exclusive = _is_exclusive(inventory, demand)
    return max(amount.on(card, exclusive=exclusive) for amount in (ask.amount, *ask.init))


def _options(ask: Ask, free: Sequence[int], state: NodeState, demand: Demand) -> Iterator[tuple[int, ...]]:
    """Sets of cards that could serve `ask`, by their positions among the node's cards, the preferred set first."""
    sign = -1 if demand.policy is Policy.SPREAD else 1
    fitting: list[tuple[int, int, int, int]] = []
    for slot, card in enumerate(state.inventory.cards):
        gb = request_on(ask, card, state.inventory, demand)
        if demand.vendor in (None, card.vendor) and 0 < gb <= free[slot]:
            fitting.append((sign * (free[slot] - gb), sign * card.budget_gb, card.index, slot))
    # Cards that are alike stand for each other: a node of eight equal cards has one way to give four.
    alike: dict[Vendor, dict[tuple[int, int], list[int]]] = {}
    for *_, slot in sorted(fitting):
        card = state.inventory.cards[slot]
        alike.setdefault(card.vendor, {}).setdefault((free[slot], card.budget_gb), []).append(slot)
    for groups in alike.values():
        yield from _picks(list(groups.values()), ask.count)


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


def _weight(ask: Ask, inventory: Inventory, demand: Demand) -> tuple[int, int, str]:
    largest = max((request_on(ask, card, inventory, demand) for card in inventory.cards), default=0)
    return largest, ask.count, ask.container
