"""Why nothing fits: goes over every node once more and keeps the facts that a person or a program can act on."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from shared.api import names
from shared.core.accel import spell
from shared.core.asks import Ask
from shared.core.card_choice import accel_met, is_given_whole, request_on
from shared.core.cards import Card, CardClass, Inventory, Vendor
from shared.core.constraints import Constraints
from shared.core.demand import Demand
from shared.core.filters import Exclusion, load_exclusions, node_exclusions, other_shortages
from shared.core.holders import holders_of, unit_holders_of
from shared.core.node_choice import NodeSearch, offers_anything, units_offered
from shared.core.peers import Peers
from shared.core.refusal import MOST_ATTEMPTS, CardAttempt, Excluded, Holders, NodeAttempt, NoFit, Reason
from shared.core.snapshot import NodeState, Snapshot
from shared.core.special_cards import (
    backing_of,
    cards_of,
    closing_reasons,
    is_memory_the_matter,
    only_partitions,
    rooms_on,
    suits,
)
from shared.core.unit_nofit import (
    has_units_for,
    lacks_sharing,
    nearest_kind,
    nearest_units,
    scarce_units,
    size_unknown,
    vendors_of_kinds,
    wanted_resource,
)

_PASSING = frozenset({Exclusion.NOT_READY, Exclusion.CORDONED, Exclusion.VOLUME_TO_COME})
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

    of_vendor = replace(demand, only=None)
    right_vendor = [state for state in usable if _has_cards(state, of_vendor)]
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
        if not _has_cards(state, of_vendor):
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
    right_cards = [state for state in right_version if not out.count(state, _without_its_choice(state, demand))]

    able = [state for state in right_cards if not out.count(state, _unable(state, demand))]
    open_nodes = [state for state in able if not out.count(state, _closed(state, demand, constraints, peers))]
    # Where every node is closed for other reasons than its cards, the cards of those nodes are still the nearest facts.
    short = _shortage(open_nodes or able, open_nodes, able, demand, constraints.requests.get(names.MEMORY, 0))
    return replace(
        short,
        usable_nodes=len(able),
        excluded_nodes=len(out.nodes),
        excluded=out.facts(),
        unsupported=bool(with_cards) and all(_unsupported(state, demand) for state in with_cards),
        undeclared=_undeclared(lasting, demand),
        partitions_only=bool(right_cards) and not able and all(only_partitions(each, demand) for each in right_cards),
        unlabelled=next(filter(None, (size_unknown(state, demand) for state in right_cards)), ""),
        node_name=constraints.node_name or "",
        misnamed=bool(with_cards) and out.counts[Exclusion.NODE_NAME] == len(with_cards),
        narrowed=bool(right_version) and not right_cards,
        holders=_holders(snapshot, short, constraints.namespace),
        can_wait=can_wait,
    )


def _shortage(
    considered: Sequence[NodeState],
    open_nodes: Sequence[NodeState],
    able: Sequence[NodeState],
    demand: Demand,
    own: int,
) -> NoFit:
    """What is short on the nodes that are left: cards, before the memory that pools give away, before everything else.

    `own` are the bytes that the pod requests of its node's memory.
    """
    scarce = scarce_units(considered, demand)
    if scarce is not None:
        count = max(unit.count for unit in demand.units if unit.resource == scarce[0])
        reason = Reason.INSUFFICIENT_GPU_COUNT if count > 1 else Reason.INSUFFICIENT_CAPACITY
        return NoFit(reason, _asked(demand), count, unit=nearest_units(considered, *scarce), resource=scarce[0])
    ask, alone = _hardest(considered, demand, own)
    every_container_alone = alone and bool(open_nodes)
    with_shares = [state for state in considered if not state.kinds]
    best_node = _best_node(with_shares, ask, demand, own) if ask.count > 1 else None
    attempts = _attempts(with_shares, ask, demand, own, best_node)
    unit = nearest_kind(considered, ask, demand)
    if unit is not None and (attempts or best_node) and (unit.never or not (attempts and attempts[0].too_small)):
        unit = None  # a card is nearer
    resource = unit.resource if unit is not None else ""
    if unit is None and not attempts and best_node is None:
        resource = wanted_resource(ask, demand)
    reason = Reason.INSUFFICIENT_CAPACITY
    if ask.count > 1:
        reason = Reason.INSUFFICIENT_GPU_COUNT
    elif is_memory_the_matter(able, demand, attempts, every_container_alone=every_container_alone):
        reason = Reason.INSUFFICIENT_SYSTEM_MEMORY
    elif lacks_sharing(open_nodes, ask, demand, own):
        reason = Reason.SHARING_NOT_CONFIGURED
    return NoFit(
        reason,
        _asked(demand),
        ask.count,
        every_container_alone=every_container_alone,
        attempts=attempts if unit is None else (),
        best_node=best_node if unit is None else None,
        unit=unit,
        resource=resource,
    )


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


def _unable(state: NodeState, demand: Demand) -> Sequence[str]:
    """Why a node's cards, or its vendor's units, serve the demand in no way; empty if they do."""
    if label := size_unknown(state, demand):
        return [f"with GPUs of unknown size (no label {label})"]
    return () if _gives_units(state, demand) else only_partitions(state, demand)


def _closed(state: NodeState, demand: Demand, constraints: Constraints, peers: Peers) -> Sequence[Exclusion | str]:
    """What keeps the pod from a node because of the pods there; empty if nothing does."""
    reasons: list[Exclusion | str] = list(
        load_exclusions(state, constraints, peers)
        if _gives_units(state, demand)
        else closing_reasons(state, demand, constraints, peers)
    )
    if Exclusion.INSUFFICIENT_RESOURCE in reasons:
        reasons.remove(Exclusion.INSUFFICIENT_RESOURCE)
        reasons += [f"short of {resource}" for resource in other_shortages(state, constraints)]
    return reasons


def _gives_units(state: NodeState, demand: Demand) -> bool:
    """Whether a node would serve the demand without any share of its cards."""
    return bool(state.kinds) or not demand.asks


def _undeclared(states: Iterable[NodeState], demand: Demand) -> str | None:
    """The first node with a card that the demand may have and whose size nobody tells."""
    for state in states:
        if state.kinds:
            continue
        if any(card.is_of_unknown_size and demand.suits(card) for card in state.inventory.cards):
            return state.name
    return None


def _unsupported(state: NodeState, demand: Demand) -> Sequence[str]:
    """Why this version gives no card of a node away, whatever is asked; empty if it would give one, or units."""
    if _gives_units(state, demand):
        return ()
    words = {card.unsupported for card in state.inventory.cards}
    return () if None in words else sorted(filter(None, words))


def _has_cards(state: NodeState, demand: Demand) -> bool:
    if state.kinds:
        return has_units_for(state, demand)
    if not demand.asks:
        return any(demand.suits(card) for card in state.inventory.cards)
    return any(suits(card, demand) for card in state.inventory.cards)


def _without_its_choice(state: NodeState, demand: Demand) -> Sequence[str]:
    """What keeps a pod that chooses among cards from a node where none is of its choice; empty if one is."""
    return () if _has_cards(state, demand) else (f"without a card {demand.only}",)


class _Needs:
    """GB that one ask takes of cards: worked out once for all cards of a size."""

    __slots__ = ("_ask", "_demand", "_known")

    def __init__(self, ask: Ask, demand: Demand) -> None:
        self._ask = ask
        self._demand = demand
        self._known: dict[tuple[int, CardClass, bool], int] = {}

    def on(self, card: Card, inventory: Inventory) -> int:
        kind = card.budget_gb, card.card_class, inventory.exclusive
        need = self._known.get(kind)
        if need is None:
            need = self._known[kind] = request_on(self._ask, card, inventory, self._demand)
        return need


def _vendors(states: Iterable[NodeState]) -> tuple[str, ...]:
    """Whose cards nodes offer; where they offer none, whose they have."""
    states = tuple(states)
    cards = [card for state in states for card in state.inventory.cards]
    offered = {card.vendor.label for card in cards if not card.unsupported}
    offered |= {vendor.label for state in states for vendor in vendors_of_kinds(state)}
    return tuple(sorted(offered or {card.vendor.label for card in cards}))


def _versions(states: Iterable[NodeState], demand: Demand) -> tuple[str, ...]:
    """What nodes serve of the runtime that is asked for: the newest version, and whether some do not say."""
    assert demand.accel is not None
    served = {dict(state.inventory.accel).get(demand.accel.runtime) for state in states}
    known = [version for version in served if version is not None]
    newest = [f"{demand.accel.label} {spell(max(known))} at most"] if known else []
    return (*newest, *([f"no known {demand.accel.label} version"] if None in served else []))


def _hardest(states: Sequence[NodeState], demand: Demand, own: int) -> tuple[Ask, bool]:
    """The ask that facts are given for, and whether every ask would fit a node if it were the only one.

    It is one that fits no node even alone if there is such an ask, else the one that needs most.
    """

    if len(demand.asks) == 1:
        return demand.asks[0], False
    sizes = {
        (card.budget_gb, card.card_class, state.inventory.exclusive): (card, state.inventory)
        for state in states
        for card, _ in cards_of(state, demand)
    }

    def need(ask: Ask) -> tuple[int, int, str]:
        on_cards = (request_on(ask, card, inventory, demand) for card, inventory in sizes.values())
        return ask.count, max(on_cards, default=0), ask.container

    asks = sorted(demand.asks, key=need, reverse=True)
    for ask in asks:
        search = NodeSearch(replace(demand, asks=(ask,), units=()), own)
        if not any((state.kinds or state.largest_free_gb >= ask.least_gb) and search.choose(state) for state in states):
            return ask, False
    return asks[0], True


def _attempts(
    states: Iterable[NodeState], ask: Ask, demand: Demand, own: int, best_node: NodeAttempt | None
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
            need > most,
            need - most if need > most else max(0, need - room),
            state.name,
            card.index,
            need,
            free,
            card,
            state,
        )
        for state in states
        for card, free, room, most in rooms_on(state, ask, demand, own)
        if (need := needs.on(card, state.inventory)) > room or not best_node
    )
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
            whole_only=not ask.amount.is_whole and is_given_whole(card, state.inventory, demand),
        )
        for *_, name, index, need, free, card, state in heapq.nsmallest(MOST_ATTEMPTS, ranked)
    )


def _best_node(states: Iterable[NodeState], ask: Ask, demand: Demand, own: int) -> NodeAttempt | None:
    """The node with the most cards of one vendor that have room, and of those the one with the most cards."""
    best: NodeAttempt | None = None
    needs = _Needs(ask, demand)
    for state in states:
        rooms: dict[Vendor, list[bool]] = {}
        for card, _, room, _ in rooms_on(state, ask, demand, own):
            rooms.setdefault(card.vendor, []).append(room >= needs.on(card, state.inventory))
        for fitting in rooms.values():
            if best is None or (sum(fitting), len(fitting)) > (best.fitting, best.cards):
                best = NodeAttempt(state.name, sum(fitting), len(fitting))
    return best


def _holders(snapshot: Snapshot, short: NoFit, namespace: str) -> Holders:
    """The holders of the nearest card, or of the nearest units, if it is they that are in the way."""
    unit, attempts = short.unit, short.attempts
    if unit is not None:
        in_the_way = not (unit.never or unit.has_room)
        return unit_holders_of(snapshot.nodes[unit.node], unit.resource, namespace) if in_the_way else Holders()
    if not attempts or attempts[0].too_small or not attempts[0].healthy or not attempts[0].short_gb:
        return Holders()
    return holders_of(snapshot.nodes[attempts[0].node], attempts[0].index, namespace)


def _would_fit_empty(states: Iterable[NodeState], demand: Demand, constraints: Constraints) -> bool:
    """Whether the demand fits one of `states` once nothing else runs there, its cards are in order and it is back.

    True as well where the search for cards gave up: a pod that waits in vain is better than one that is never tried.
    """
    search = NodeSearch(demand, constraints.requests.get(names.MEMORY, 0))
    in_vain: set[Hashable] = set()
    for state in states:
        # Nodes are bought by the dozen: what one cannot hold when it is empty, its like cannot either.
        inventory = state.inventory
        kind = (
            inventory.exclusive,
            state.memory and state.memory.emptied,
            tuple(
                (card.vendor, card.budget_gb, card.card_class, card.unsupported, demand.admits(card))
                for card in inventory.cards
            ),
            state.kinds,
            units_offered(state.facts.allocatable),
        )
        if kind in in_vain or not accel_met(state.inventory, demand):
            continue
        allocatable = state.facts.allocatable
        if any(amount > allocatable.get(resource, 0) for resource, amount in constraints.requests.items()):
            continue
        if search.choose(state.emptied) is not None:
            return True
        in_vain.add(kind)
    return search.gave_up
