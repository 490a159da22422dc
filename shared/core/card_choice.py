"""Which cards of one node serve a demand: distinct cards for one container, the tightest that fit first."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shared.core.asks import Ask
from shared.core.cards import Card, CardClass, Inventory, Vendor
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


_Seat: TypeAlias = tuple[int, int, int, int, int, Vendor, Hashable]
"""A card that one ask may have: its position, GB taken, GB that count as taken, budget and slot as they rank, vendor,
kind. Cards of one vendor and kind with as much free are alike.
"""


@dataclass(frozen=True, slots=True)
class _Room:
    """What a node has for one pod: GB by position among its cards, and GB of memory behind `pools`, where several cards
    give away the same.
    """

    free: tuple[int, ...]
    pools: frozenset[int] = frozenset()
    memory_gb: int = 0


class CardSearch:
    """The search for the cards of one demand on one node after another, with one bound on its work in all.

    `own` are the bytes of memory that the pod itself requests: they count where cards are backed by the node's.
    Only a pod with several GPU containers needs to search. The same nodes in the same order end in the same answer,
    also where a bound is hit; `gave_up` then says that a None may be wrong, and `steps` what was spent.
    """

    __slots__ = ("_demand", "_in_vain", "_needs", "_needs_by_shape", "_own", "gave_up", "steps")

    def __init__(self, demand: Demand, own: int = 0) -> None:
        self._demand = demand
        self._own = own
        self._in_vain: set[Hashable] = set()
        self._needs: dict[tuple[int, Vendor, CardClass, bool, bool], tuple[int, ...]] = {}
        self._needs_by_shape: dict[Hashable, Mapping[str, Sequence[int]] | None] = {}
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
        needs = self._needs_on(state.inventory)
        if needs is None:
            return None
        room = self._room_of(state)
        if _is_hopeless(room.free, demand, needs):
            return None
        # Nodes are bought by the dozen: where one has no room, those with the same cards and use have none either.
        look = (
            state.inventory.exclusive,
            room.memory_gb if room.pools else None,
            tuple(
                sorted(
                    (free, card.budget_gb, card.vendor, card.card_class, demand.admits(card))
                    for free, card in zip(room.free, cards, strict=True)
                )
            ),
        )
        chosen = None if look in self._in_vain else self._search(state, room, needs)
        if chosen is None:
            self._in_vain.add(look)
            return None
        return tuple(
            Share(
                ask.container,
                cards[slot],
                needs[ask.container][slot],
                ask.amount.on(cards[slot], exclusive=is_given_whole(cards[slot], state.inventory, demand)),
            )
            for ask in demand.asks
            for slot in sorted(chosen[ask.container], key=lambda slot: cards[slot].index)
        )

    def _room_of(self, state: NodeState) -> _Room:
        memory, cards = state.memory, state.inventory.cards
        if memory is None:
            return _Room(state.free_gb)
        free = tuple(memory.room_gb(card, gb, self._own) for card, gb in zip(cards, state.free_gb, strict=True))
        if len(memory.pools) == 1:
            return _Room(free)
        pools = frozenset(slot for slot, card in enumerate(cards) if card.index in memory.pools)
        return _Room(free, pools, memory.left_gb(self._own))

    def _needs_on(self, inventory: Inventory) -> Mapping[str, Sequence[int]] | None:
        """GB that the ask of each container takes of each card, 0 if it may not have it; None if some ask finds too few
        cards, whatever room they have.
        """
        only = self._demand.only
        admitted = tuple(map(only.admits, inventory.cards)) if only is not None and only.tells_uuids else ()
        shape = inventory.shape, admitted
        if shape not in self._needs_by_shape:
            by_card = [self._needs_of(card, inventory) for card in inventory.cards]
            asks = self._demand.asks
            needs = {ask.container: [need[place] for need in by_card] for place, ask in enumerate(asks)}
            enough = all(sum(map(bool, needs[ask.container])) >= ask.count for ask in asks)
            self._needs_by_shape[shape] = needs if enough else None
        return self._needs_by_shape[shape]

    def _needs_of(self, card: Card, inventory: Inventory) -> tuple[int, ...]:
        """GB that each ask takes of a card, 0 if it may not have it; worked out once for all cards of a size."""
        kind = card.budget_gb, card.vendor, card.card_class, inventory.exclusive, self._demand.admits(card)
        needs = self._needs.get(kind)
        if needs is None:
            demand, suits = self._demand, self._demand.suits(card)
            needs = tuple(
                request_on(ask, card, inventory, demand) * (suits and may_hold(card, ask)) for ask in demand.asks
            )
            self._needs[kind] = needs
        return needs

    def _search(
        self, state: NodeState, room: _Room, needs: Mapping[str, Sequence[int]]
    ) -> Mapping[str, Sequence[int]] | None:
        """Positions among the node's cards by container."""
        order = sorted(
            self._demand.asks, key=lambda ask: (max(needs[ask.container]), ask.count, ask.container), reverse=True
        )
        free = list(room.free)
        memory_gb = room.memory_gb
        chosen: dict[str, Sequence[int]] = {}
        end = min(MOST_STEPS, self.steps + _MOST_STEPS_ON_NODE)
        sign = -1 if self._demand.policy is Policy.SPREAD else 1
        cards = state.inventory.cards
        seats = {ask.container: _seats(needs[ask.container], ask, room.pools, cards, sign) for ask in order}

        def serve(depth: int) -> bool:
            nonlocal memory_gb
            if depth == len(order):
                return True
            ask = order[depth]
            need = needs[ask.container]
            for slots in _options(seats[ask.container], ask.count, free, sign):
                if self.steps >= end:
                    self.gave_up = True
                    return False
                self.steps += 1
                pooled = sum(need[slot] for slot in slots if slot in room.pools) if room.pools else 0
                if pooled and pooled > memory_gb:
                    continue
                memory_gb -= pooled
                for slot in slots:
                    free[slot] -= need[slot]
                chosen[ask.container] = slots
                if serve(depth + 1):
                    return True
                memory_gb += pooled
                for slot in slots:
                    free[slot] += need[slot]
            return False

        return chosen if serve(0) else None


def request_on(ask: Ask, card: Card, inventory: Inventory, demand: Demand) -> int:
    """GB that `ask` takes of `card`: its amount, or what an init container needs there before it, if that is more."""
    exclusive = is_given_whole(card, inventory, demand)
    return max(amount.on(card, exclusive=exclusive) for amount in (ask.amount, *ask.init))


def may_hold(card: Card, ask: Ask) -> bool:
    """Whether a card is something that `ask` can be put on.

    A partition is no card: it serves one container that asks for GB of one, and not several that belong together, nor
    an ask for a whole card or a part of one.
    """
    amounts = (ask.amount, *ask.init)
    return not card.is_partition or (ask.count == 1 and all(amount.gb is not None for amount in amounts))


def _is_hopeless(free_gb: Sequence[int], demand: Demand, needs: Mapping[str, Sequence[int]]) -> bool:
    """Whether a count shows without any search that a node has no room."""
    least: list[tuple[int, int]] = []
    for ask in demand.asks:
        room = [need for need, free in zip(needs[ask.container], free_gb, strict=True) if 0 < need <= free]
        if len(room) < ask.count:
            return True
        least.append((min(room), ask.count))
    if sum(gb * count for gb, count in least) > sum(free_gb):
        return True
    # A card holds so many shares of `gb` or more, and no more than that.
    return len(least) > 1 and any(
        sum(count for other, count in least if other >= gb) > sum(free // gb for free in free_gb) for gb, _ in least
    )


def _seats(need: Sequence[int], ask: Ask, pools: frozenset[int], cards: Sequence[Card], sign: int) -> list[_Seat]:
    """The cards for one ask. Of a partition all that is not asked for is left over."""
    return [
        (
            position,
            gb,
            ask.least_gb if card.is_partition else gb,
            sign * card.budget_gb,
            card.index,
            card.vendor,
            (card.budget_gb, gb, position in pools),
        )
        for position, (card, gb) in enumerate(zip(cards, need, strict=True))
        if gb
    ]


def _options(seats: Iterable[_Seat], count: int, free: Sequence[int], sign: int) -> Iterator[tuple[int, ...]]:
    """Sets of cards for one ask that have room, by their positions among the node's cards, the preferred set first.

    Preferred is the set that leaves least.
    """
    fitting = [
        (sign * (free[position] - counted), budget, index, position, vendor, (free[position], kind))
        for position, need, counted, budget, index, vendor, kind in seats
        if need <= free[position]
    ]
    fitting.sort()
    # Cards that are alike stand for each other: a node of eight equal cards has one way to give four.
    alike: dict[Vendor, dict[Hashable, list[int]]] = {}
    for _, _, _, position, vendor, kind in fitting:
        groups = alike.setdefault(vendor, {})
        if kind in groups:
            groups[kind].append(position)
        else:
            groups[kind] = [position]
    for groups in alike.values():
        if count == 1:
            for positions in groups.values():
                yield (positions[0],)
        else:
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


def is_given_whole(card: Card, inventory: Inventory, demand: Demand) -> bool:
    """Whether a card is given whole: because the pod wants it, or in any case."""
    return demand.policy is Policy.EXCLUSIVE or is_given_away_whole(card, inventory)


def is_given_away_whole(card: Card, inventory: Inventory) -> bool:
    """Whether a card is given whole to whoever asks for a part of it: because its node does so, or as a partition."""
    return inventory.exclusive or card.is_partition
