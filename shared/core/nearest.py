"""The cards, and the node, that come nearest to an ask which fits nowhere: the facts that a refusal is made of."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter, le, sub
from typing import TypeAlias

from shared.core.alike import Alike
from shared.core.asks import Ask
from shared.core.card_choice import is_given_away_whole, may_hold, request_on
from shared.core.cards import Card, CardClass
from shared.core.demand import Demand, Policy
from shared.core.node_choice import NodeSearch
from shared.core.refusal import MOST_ATTEMPTS, CardAttempt, NodeAttempt
from shared.core.snapshot import NodeState
from shared.core.special_cards import backing_of

_Bound: TypeAlias = tuple[bool, bool, bool, int, str]
"""How near the cards of a node may be at best: compares with the beginning of `_Near`."""

_Near: TypeAlias = tuple[bool, bool, bool, int, str, int, int, int, Card, NodeState]
"""A card in the order of nearness: not on the best node, not healthy, too small, GB that are missing, node, slot. No
two agree so far; then GB that are needed and free, the card, and its node.
"""


@dataclass(frozen=True, slots=True)
class _Seats:
    """Cards that an ask may have, by their positions among those of nodes that are alike, and GB it takes of each."""

    positions: tuple[int, ...]
    needs: tuple[int, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> _Seats:
        pairs = tuple(pairs)
        return cls(tuple(position for position, _ in pairs), tuple(need for _, need in pairs))


def hardest(groups: Sequence[Alike], demand: Demand, own: int) -> tuple[Ask, bool]:
    """The ask that facts are given for, and whether every ask would fit a node if it were the only one.

    It is one that fits no node even alone if there is such an ask, else the one that needs most.
    """
    if len(demand.asks) == 1:
        return demand.asks[0], False
    sizes = {
        (card.budget_gb, card.card_class, alike.example.inventory.exclusive): (card, alike.example.inventory)
        for alike in groups
        for card in alike.suiting_cards
    }

    def need(ask: Ask) -> tuple[int, int, str]:
        on_cards = (request_on(ask, card, inventory, demand) for card, inventory in sizes.values())
        return ask.count, max(on_cards, default=0), ask.container

    asks = sorted(demand.asks, key=need, reverse=True)
    states = sorted((state for alike in groups for state in alike.states), key=attrgetter("facts.name"))
    for ask in asks:
        search = NodeSearch(replace(demand, asks=(ask,), units=()), own)
        if not any((state.kinds or state.largest_free_gb >= ask.least_gb) and search.choose(state) for state in states):
            return ask, False
    return asks[0], True


def nearest_cards(
    groups: Iterable[Alike], ask: Ask, demand: Demand, own: int, best_node: NodeAttempt | None
) -> tuple[CardAttempt, ...]:
    """The nearest cards, those first that could hold the ask at all.

    Where one node lacks several cards, only cards without room count, and those of the best node come first.
    """
    # Thousands of nodes for a handful of cards: they are looked at from the nearest on, until no other can be nearer.
    waiting: list[tuple[_Bound, NodeState, _Seats]] = []
    for alike in groups:
        seats = _seats(alike, ask, demand)
        if seats.positions:
            waiting += [(bound, state, seats) for bound, state in _bounds(alike, seats, best_node)]
    heapq.heapify(waiting)
    nearest: list[_Near] = []
    while waiting and (len(nearest) < MOST_ATTEMPTS or waiting[0][0] < nearest[-1][:5]):
        _, state, its_seats = heapq.heappop(waiting)
        nearest = sorted((*nearest, *_near(state, its_seats, own, best_node)))[:MOST_ATTEMPTS]
    return tuple(
        CardAttempt(
            name,
            index,
            card.model,
            need,
            free,
            card.budget_gb,
            card.healthy,
            card.card_class,
            backing_of(state, card, own),
            whole_only=not ask.amount.is_whole and is_given_away_whole(card, state.inventory),
            part_gb=_part_gb(ask, card, state, demand),
        )
        for *_, name, index, need, free, card, state in nearest
    )


def _part_gb(ask: Ask, card: Card, state: NodeState, demand: Demand) -> int | None:
    """GB that would be asked of a card that only the pod's policy wants whole."""
    if demand.policy is not Policy.EXCLUSIVE or ask.amount.is_whole or is_given_away_whole(card, state.inventory):
        return None
    return request_on(ask, card, state.inventory, replace(demand, policy=Policy.BINPACK))


def nearest_node(groups: Iterable[Alike], ask: Ask, demand: Demand, own: int) -> NodeAttempt | None:
    """The node with the most cards of one vendor that have room, and of those the one with the most cards.

    Where no card has room, it is one with enough cards that could have, if there is any, and the nearest of those.
    """
    best = min(_fitting(groups, ask, demand, own), key=itemgetter(0), default=None)
    if best is None:
        return None
    (fitting, _, _, cards, name), state, seats = best
    of = (state.inventory.cards[position] for position in seats.positions)
    out = sum(not card.healthy and need <= _most(card, state, own) for card, need in zip(of, seats.needs, strict=True))
    return NodeAttempt(name, -fitting, -cards, out)


def is_divisible(groups: Iterable[Alike], ask: Ask, demand: Demand) -> bool:
    """Whether several free cards of one node and vendor would together hold what is asked of one."""
    for alike in groups:
        cards, every = alike.example.inventory.cards, _seats(alike, ask, demand)
        discrete = [
            (position, need)
            for position, need in zip(every.positions, every.needs, strict=True)
            if cards[position].card_class is CardClass.DISCRETE
        ]
        for seats in _by_vendor(alike, _Seats.of(discrete)):
            need, several = min(seats.needs), len(seats.needs)
            for state in alike.states:
                if several > 1 and state.largest_free_gb * several >= need:
                    free = sorted((state.free_gb[position] for position in seats.positions), reverse=True)
                    if any(number * least >= need for number, least in enumerate(free[1:], 2)):
                        return True
    return False


def _fitting(
    groups: Iterable[Alike], ask: Ask, demand: Demand, own: int
) -> Iterator[tuple[tuple[int, int, int, int, str], NodeState, _Seats]]:
    """For each vendor's cards on each node: how many have room; where none has, how many that are needed could have,
    and the GB by which the nearest of them falls short; how many there are; then the node and the cards. Numbers of
    cards are negative.
    """
    for alike in groups:
        budgets = [card.budget_gb for card in alike.example.inventory.cards]
        for seats in _by_vendor(alike, _seats(alike, ask, demand)):
            could = [need <= budgets[position] for need, position in zip(seats.needs, seats.positions, strict=True)]
            enough, cards = min(sum(could), ask.count), -len(seats.needs)
            for state in alike.states:
                rooms = _rooms(state, seats, own)
                if fitting := sum(map(le, seats.needs, rooms)):
                    yield (-fitting, 0, 0, cards, state.facts.name), state, seats
                else:
                    short = [need - room for need, room, can in zip(seats.needs, rooms, could, strict=True) if can]
                    yield (0, -enough, min(short, default=0), cards, state.facts.name), state, seats


def _by_vendor(alike: Alike, seats: _Seats) -> list[_Seats]:
    cards, pairs = alike.example.inventory.cards, list(zip(seats.positions, seats.needs, strict=True))
    vendors = dict.fromkeys(cards[position].vendor for position in seats.positions)
    return [_Seats.of(pair for pair in pairs if cards[pair[0]].vendor is vendor) for vendor in vendors]


def _seats(alike: Alike, ask: Ask, demand: Demand) -> _Seats:
    inventory = alike.example.inventory
    return _Seats.of(
        (position, request_on(ask, inventory.cards[position], inventory, demand))
        for position in alike.suiting
        if may_hold(inventory.cards[position], ask)
    )


def _bounds(alike: Alike, seats: _Seats, best_node: NodeAttempt | None) -> Iterator[tuple[_Bound, NodeState]]:
    """How near the cards of each node may be at best, as far as the sizes of cards and the largest free one tell."""
    budgets = [alike.example.inventory.cards[position].budget_gb for position in seats.positions]
    least = min((need for need, budget in zip(seats.needs, budgets, strict=True) if need <= budget), default=None)
    excess = min(map(sub, seats.needs, budgets))
    at_least = 0 if best_node is None else 1
    for state in alike.states:
        name = state.facts.name
        missing = excess if least is None else max(at_least, least - state.largest_free_gb)
        yield (best_node is not None and name != best_node.node, False, least is None, missing, name), state


def _near(state: NodeState, seats: _Seats, own: int, best_node: NodeAttempt | None) -> Iterator[_Near]:
    cards = state.inventory.cards
    elsewhere = best_node is not None and state.name != best_node.node
    for position, need, room in zip(seats.positions, seats.needs, _rooms(state, seats, own), strict=True):
        card = cards[position]
        most = _most(card, state, own)
        if best_node is None or need > room:
            missing = need - most if need > most else max(0, need - room)
            free = state.free_gb[position]
            yield elsewhere, not card.healthy, need > most, missing, state.name, card.index, need, free, card, state


def _most(card: Card, state: NodeState, own: int) -> int:
    """What of a card a pod could get if nothing else ran on its node."""
    return card.budget_gb if state.memory is None else state.memory.emptied.room_gb(card, card.budget_gb, own)


def _rooms(state: NodeState, seats: _Seats, own: int) -> Sequence[int]:
    """What of each card the ask could get."""
    memory, free = state.memory, state.free_gb
    if memory is None:
        return free if len(free) == len(seats.positions) else [free[position] for position in seats.positions]
    return [memory.room_gb(state.inventory.cards[position], free[position], own) for position in seats.positions]
