"""Why nothing fits: goes over every node once more and keeps the facts that a person or a program can act on."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from shared.core.accel import spell
from shared.core.asks import Ask
from shared.core.card_choice import accel_met, request_on
from shared.core.cards import Card, Inventory, Vendor
from shared.core.constraints import Constraints
from shared.core.demand import Demand
from shared.core.filters import Exclusion, load_exclusions, node_exclusions
from shared.core.holders import holders_of
from shared.core.node_choice import NodeSearch, offers_anything, units_offered
from shared.core.peers import Peers
from shared.core.refusal import MOST_ATTEMPTS, CardAttempt, Excluded, Holders, NodeAttempt, NoFit, Reason
from shared.core.snapshot import NodeState, Snapshot
from shared.core.unit_nofit import (
    has_units_for,
    lacks_sharing,
    nearest_kind,
    nearest_units,
    scarce_units,
    size_unknown,
    vendors_of_kinds,
)

_PASSING = frozenset({Exclusion.NOT_READY, Exclusion.CORDONED})
"""States of a node that end by themselves, so that waiting can help."""


def explain_no_fit(snapshot: Snapshot, demand: Demand, constraints: Constraints, peers: Peers) -> NoFit:
    """The refusal of a demand for which `place` found no node.

    A node is usable if nothing about the node itself keeps the pod away (readiness, cordon, taints, selectors). Vendor
    and version are judged over usable nodes only; what runs there (cpu, ports, affinity) counts as lack of capacity.
    """
    with_cards = sorted((state for state in snapshot if offers_anything(state)), key=lambda state: state.name)
    out = _Excluded()
    usable: list[NodeState] = []
    lasting: list[NodeState] = []
    for state in with_cards:
        reasons = node_exclusions(state.facts, constraints)
        if _PASSING.issuperset(reasons):
            lasting.append(state)
        if not out.count(state, (*reasons, *_unsupported(state, demand))):
            usable.append(state)
    can_wait = _would_fit_empty(lasting, demand, constraints)

    right_vendor = [state for state in usable if _has_vendor(state, demand)]
    if usable and not right_vendor:
        return NoFit(
            Reason.VENDOR_MISMATCH,
            _asked(demand),
            demand.cards,
            usable_nodes=len(usable),
            excluded_nodes=len(out.nodes),
            excluded=out.facts(),
            found=_vendors(usable),
            can_wait=can_wait,
        )
    for state in usable:
        if not _has_vendor(state, demand):
            out.count(state, _vendors([state]))

    right_version = [state for state in right_vendor if accel_met(state.inventory, demand)]
    if right_vendor and not right_version:
        return NoFit(
            Reason.ACCEL_VERSION_UNMET,
            _asked(demand),
            demand.cards,
            usable_nodes=len(right_vendor),
            excluded_nodes=len(out.nodes),
            excluded=out.facts(),
            found=_versions(right_vendor, demand),
            can_wait=can_wait,
        )
    for state in right_vendor:
        if not accel_met(state.inventory, demand):
            out.count(state, [f"without {demand.accel}"])
    right_cards = [state for state in right_version if _has_cards(state, demand)]
    for state in right_version:
        if not _has_cards(state, demand):
            out.count(state, [f"without a card {demand.only}"])

    sized = [state for state in right_cards if not out.count(state, _of_unknown_size(state, demand))]
    open_nodes = [state for state in sized if not out.count(state, load_exclusions(state, constraints, peers))]
    # Where every node is closed for other reasons than its cards, the cards of those nodes are still the nearest facts.
    considered = open_nodes or sized
    short = _shortage(considered, open_nodes, demand)
    return replace(
        short,
        usable_nodes=len(right_cards),
        excluded_nodes=len(out.nodes),
        excluded=out.facts(),
        unsupported=bool(with_cards) and all(_unsupported(state, demand) for state in with_cards),
        misnamed=bool(with_cards) and out.counts[Exclusion.NODE_NAME] == len(with_cards),
        narrowed=bool(right_version) and not right_cards,
        holders=_holders(snapshot, short.attempts, constraints.namespace),
        can_wait=can_wait,
    )


def _of_unknown_size(state: NodeState, demand: Demand) -> Sequence[str]:
    label = size_unknown(state, demand)
    return () if label is None else [f"with GPUs of unknown size (no label {label})"]


def _shortage(considered: Sequence[NodeState], open_nodes: Sequence[NodeState], demand: Demand) -> NoFit:
    """What is short on the nodes that are left."""
    scarce = scarce_units(considered, demand)
    if scarce is not None:
        count = max(unit.count for unit in demand.units if unit.resource == scarce[0])
        return NoFit(
            _capacity_or(count),
            _asked(demand),
            count,
            unit=nearest_units(considered, *scarce),
            resource=scarce[0],
        )
    ask, alone = _hardest(considered, demand)
    best_node = _best_node(considered, ask, demand) if ask.count > 1 else None
    attempts = _attempts(considered, ask, demand, best_node)
    unit = nearest_kind(considered, ask, demand)
    if unit is not None and (attempts or best_node) and (unit.never or not (attempts and attempts[0].too_small)):
        unit = None  # a card is nearer
    return NoFit(
        Reason.SHARING_NOT_CONFIGURED if lacks_sharing(open_nodes, ask, demand) else _capacity_or(ask.count),
        _asked(demand),
        ask.count,
        every_container_alone=alone and bool(open_nodes),
        attempts=attempts if unit is None else (),
        best_node=best_node if unit is None else None,
        unit=unit,
        resource=unit.resource if unit is not None else "",
    )


def _capacity_or(count: int) -> Reason:
    return Reason.INSUFFICIENT_GPU_COUNT if count > 1 else Reason.INSUFFICIENT_CAPACITY


@dataclass(slots=True)
class _Excluded:
    """Nodes that fell out, counted under every reason that each had."""

    counts: Counter[Exclusion | str] = field(default_factory=Counter)
    nodes: set[str] = field(default_factory=set)

    def count(self, state: NodeState, reasons: Sequence[Exclusion | str]) -> bool:
        """Counts a node under `reasons`; tells whether there were any."""
        self.counts.update(reasons)
        if reasons:
            self.nodes.add(state.name)
        return bool(reasons)

    def facts(self) -> tuple[Excluded, ...]:
        """The reasons by number of nodes, the most frequent first."""
        facts = [
            Excluded(what.words(nodes) if isinstance(what, Exclusion) else f"{nodes} {what}", nodes)
            for what, nodes in self.counts.items()
        ]
        return tuple(sorted(facts, key=lambda fact: (-fact.nodes, fact.words)))


def _asked(demand: Demand) -> str:
    return f"{demand} with {demand.accel}" if demand.accel else str(demand)


def _unsupported(state: NodeState, demand: Demand) -> Sequence[str]:
    """Why this version gives no card of a node away, whatever is asked; empty if it would give one, or units."""
    if state.kinds or not demand.asks:
        return ()
    words = {card.unsupported for card in state.inventory.cards}
    return () if None in words else sorted(filter(None, words))


def _suits(card: Card, demand: Demand) -> bool:
    return demand.suits(card) and card.unsupported is None


def _has_vendor(state: NodeState, demand: Demand) -> bool:
    """Whether a node has cards of the vendor that the demand means, its own choice among them aside."""
    return _has_cards(state, replace(demand, only=None))


def _has_cards(state: NodeState, demand: Demand) -> bool:
    if state.kinds:
        return has_units_for(state, demand)
    if not demand.asks:
        return any(demand.suits(card) for card in state.inventory.cards)
    return any(_suits(card, demand) for card in state.inventory.cards)


def _cards_of(state: NodeState, demand: Demand) -> list[tuple[Card, int]]:
    """The cards that the demand may have, with their free GB. Of a vendor-managed node units are given, no cards."""
    if state.kinds:
        return []
    return [
        (card, free) for card, free in zip(state.inventory.cards, state.free_gb, strict=True) if _suits(card, demand)
    ]


class _Needs:
    """GB that one ask takes of cards: worked out once for all cards of a size."""

    __slots__ = ("_ask", "_demand", "_known")

    def __init__(self, ask: Ask, demand: Demand) -> None:
        self._ask = ask
        self._demand = demand
        self._known: dict[tuple[int, bool], int] = {}

    def on(self, card: Card, inventory: Inventory) -> int:
        kind = card.budget_gb, inventory.exclusive
        need = self._known.get(kind)
        if need is None:
            need = self._known[kind] = request_on(self._ask, card, inventory, self._demand)
        return need


def _vendors(states: Iterable[NodeState]) -> tuple[str, ...]:
    return tuple(
        sorted(
            {card.vendor.label for state in states for card in state.inventory.cards if not card.unsupported}
            | {vendor.label for state in states for vendor in vendors_of_kinds(state)}
        )
    )


def _versions(states: Iterable[NodeState], demand: Demand) -> tuple[str, ...]:
    """What nodes serve of the runtime that is asked for: the newest version, and whether some do not say."""
    assert demand.accel is not None
    served = {dict(state.inventory.accel).get(demand.accel.runtime) for state in states}
    known = [version for version in served if version is not None]
    newest = [f"{demand.accel.label} {spell(max(known))} at most"] if known else []
    return (*newest, *([f"no known {demand.accel.label} version"] if None in served else []))


def _hardest(states: Sequence[NodeState], demand: Demand) -> tuple[Ask, bool]:
    """The ask that facts are given for, and whether every ask would fit a node if it were the only one.

    It is one that fits no node even alone if there is such an ask, else the one that needs most.
    """

    if len(demand.asks) == 1:
        return demand.asks[0], False
    sizes = {
        (card.budget_gb, state.inventory.exclusive): (card, state.inventory)
        for state in states
        for card, _ in _cards_of(state, demand)
    }

    def need(ask: Ask) -> tuple[int, int, str]:
        on_cards = (request_on(ask, card, inventory, demand) for card, inventory in sizes.values())
        return ask.count, max(on_cards, default=0), ask.container

    asks = sorted(demand.asks, key=need, reverse=True)
    for ask in asks:
        search = NodeSearch(replace(demand, asks=(ask,), units=()))
        if not any((state.kinds or state.largest_free_gb >= ask.least_gb) and search.choose(state) for state in states):
            return ask, False
    return asks[0], True


def _attempts(
    states: Iterable[NodeState], ask: Ask, demand: Demand, best_node: NodeAttempt | None
) -> tuple[CardAttempt, ...]:
    """The nearest cards, those first that could hold the ask at all.

    Where one node lacks several cards, only cards without room count, and those of the best node come first.
    """
    needs = _Needs(ask, demand)
    # Tuples in the order wanted, of which no two agree as far as the slot: thousands of cards for a handful of facts.
    ranked = (
        (
            best_node is not None and state.name != best_node.node,
            not card.healthy,
            need > card.budget_gb,
            max(0, need - free),
            state.name,
            card.index,
            need,
            free,
            card,
        )
        for state in states
        for card, free in _cards_of(state, demand)
        if (need := needs.on(card, state.inventory)) > free or not best_node
    )
    return tuple(
        CardAttempt(name, index, card.model, need, free, card.budget_gb, card.healthy)
        for *_, name, index, need, free, card in heapq.nsmallest(MOST_ATTEMPTS, ranked)
    )


def _best_node(states: Iterable[NodeState], ask: Ask, demand: Demand) -> NodeAttempt | None:
    """The node with the most cards of one vendor that have room, and of those the one with the most cards."""
    best: NodeAttempt | None = None
    needs = _Needs(ask, demand)
    for state in states:
        rooms: dict[Vendor, list[bool]] = {}
        for card, free in _cards_of(state, demand):
            rooms.setdefault(card.vendor, []).append(free >= needs.on(card, state.inventory))
        for room in rooms.values():
            if best is None or (sum(room), len(room)) > (best.fitting, best.cards):
                best = NodeAttempt(state.name, sum(room), len(room))
    return best


def _holders(snapshot: Snapshot, attempts: Sequence[CardAttempt], namespace: str) -> Holders:
    """The holders of the nearest card, if it is their shares that are in the way."""
    if not attempts or attempts[0].too_small or not attempts[0].healthy or not attempts[0].short_gb:
        return Holders()
    return holders_of(snapshot.nodes[attempts[0].node], attempts[0].index, namespace)


def _would_fit_empty(states: Iterable[NodeState], demand: Demand, constraints: Constraints) -> bool:
    """Whether the demand fits one of `states` once nothing else runs there, its cards are in order and it is back.

    True as well where the search for cards gave up: a pod that waits in vain is better than one that is never tried.
    """
    search = NodeSearch(demand)
    in_vain: set[Hashable] = set()
    for state in states:
        # Nodes are bought by the dozen: what one cannot hold when it is empty, its like cannot either.
        inventory = state.inventory
        cards = tuple((card.vendor, card.budget_gb, card.unsupported, demand.admits(card)) for card in inventory.cards)
        kind = inventory.exclusive, cards, state.kinds, units_offered(state.facts.allocatable)
        if kind in in_vain or not accel_met(state.inventory, demand):
            continue
        allocatable = state.facts.allocatable
        if any(amount > allocatable.get(resource, 0) for resource, amount in constraints.requests.items()):
            continue
        if search.choose(state.emptied) is not None:
            return True
        in_vain.add(kind)
    return search.gave_up
