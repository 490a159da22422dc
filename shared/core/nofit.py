"""Why nothing fits: goes over every node once more and keeps the facts that a person or a program can act on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from shared.api import names
from shared.core.accel import spell
from shared.core.alike import Alike, group_alike, suits
from shared.core.card_choice import accel_met
from shared.core.constraints import Constraints
from shared.core.demand import Demand
from shared.core.emptied import EmptiedSearch, with_plugins
from shared.core.exclusion_count import ExclusionCount
from shared.core.filters import Exclusion, Filters
from shared.core.holders import holders_of, unit_holders_of
from shared.core.nearest import hardest, is_divisible, nearest_cards, nearest_node
from shared.core.pods import Amounts
from shared.core.refusal import Holders, NoFit, Reason
from shared.core.snapshot import NodeState, Snapshot
from shared.core.special_cards import closing_reasons, is_memory_the_matter, only_partitions
from shared.core.unit_nofit import (
    has_units_for,
    lacks_sharing,
    nearest_kind,
    nearest_units,
    scarce_units,
    size_unknown,
    spread_over_parts,
    units_beside,
    vendors_of_kinds,
    wanted_resource,
)
from shared.core.units import Units

_PASSING = frozenset({Exclusion.NOT_READY, Exclusion.CORDONED, Exclusion.VOLUME_TO_COME})
"""States of a node that end by themselves, so that waiting can help."""

_RULES = (
    Exclusion.POD_AFFINITY,
    Exclusion.POD_ANTI_AFFINITY,
    Exclusion.TOPOLOGY_SPREAD,
    Exclusion.EXISTING_ANTI_AFFINITY,
)
_SHORT_OF = "short of "


def explain_no_fit(snapshot: Snapshot, demand: Demand, constraints: Constraints, filters: Filters) -> NoFit:
    """The refusal of a demand for which `place` found no node.

    A node is usable if nothing about the node itself keeps the pod away (readiness, cordon, taints, selectors). Vendor
    and version are judged over usable nodes only; what runs there (cpu, ports, affinity) counts as lack of capacity.
    """
    with_cards = sorted((state for state in snapshot if state.offers_anything), key=attrgetter("facts.name"))
    groups = group_alike(with_cards, demand, filters)
    out = ExclusionCount()
    lasting = [alike for alike in groups if _PASSING.issuperset(alike.exclusions)]
    usable = [alike for alike in groups if not out.count(alike, (*alike.exclusions, *_unsupported(alike, demand)))]
    can_wait = _would_fit_empty(lasting, demand, constraints)

    def told(short: NoFit, left: Iterable[Alike]) -> NoFit:
        """The refusal with what is told whatever is short; `left` are the nodes on which that was found."""
        return replace(
            short,
            usable_nodes=_nodes(left),
            excluded_nodes=out.nodes,
            excluded=out.facts(),
            excluded_by_name=out.by_name(),
            can_wait=can_wait,
        )

    of_vendor = replace(demand, only=None)
    right_vendor = [alike for alike in usable if _has_cards(alike, of_vendor)]
    if usable and not right_vendor:
        found = _vendors(usable)
        other = NoFit(Reason.VENDOR_MISMATCH, _asked(demand), demand.cards, found=found, words=demand.words)
        return told(other, usable)
    for alike in usable:
        if not _has_cards(alike, of_vendor):
            out.count(alike, _vendors([alike]))

    right_version = [alike for alike in right_vendor if accel_met(alike.example.inventory, demand)]
    if right_vendor and not right_version:
        unmet = NoFit(
            Reason.ACCEL_VERSION_UNMET,
            _asked(demand),
            demand.cards,
            found=_versions(right_vendor, demand),
            versionless=_versionless(right_vendor, demand),
            words=demand.words,
        )
        return told(unmet, right_vendor)
    for alike in right_vendor:
        if not accel_met(alike.example.inventory, demand):
            out.count(alike, [f"without {demand.accel}"])
    right_cards = [alike for alike in right_version if not out.count(alike, _without_its_choice(alike, demand))]

    able = [alike for alike in right_cards if not out.count(alike, _unable(alike, demand))]
    beside = units_beside(able, demand)
    opened = (_opened(alike, demand, filters, out, beside) for alike in able)
    open_nodes = [alike for alike in opened if alike is not None]
    # Where every node is closed for other reasons than its cards, the cards of those nodes are still the nearest facts.
    short = _shortage(open_nodes or able, open_nodes, able, demand, constraints.requests.get(names.MEMORY, 0))
    return replace(
        told(short, able),
        unsupported=bool(groups) and all(_unsupported(alike, demand) for alike in groups),
        undeclared=_undeclared(lasting, demand),
        partitions_only=bool(right_cards)
        and not able
        and all(only_partitions(alike.example, demand) for alike in right_cards),
        unlabelled=next(filter(None, (size_unknown(alike.example, demand) for alike in right_cards)), ""),
        node_name=constraints.node_name or "",
        misnamed=bool(groups) and out.counts[Exclusion.NODE_NAME] == len(with_cards),
        narrowed=bool(right_version) and not right_cards,
        holders=_holders(snapshot, short, constraints.namespace),
        ruled_out=tuple(rule for rule in _RULES if out.counts[rule]),
        lacking=any(what.is_lack if isinstance(what, Exclusion) else what.startswith(_SHORT_OF) for what in out.counts),
    )


def _shortage(
    considered: Sequence[Alike],
    open_nodes: Sequence[Alike],
    able: Sequence[Alike],
    demand: Demand,
    own: int,
) -> NoFit:
    """What is short on the nodes that are left: cards, before the memory that pools give away, before everything else.

    `own` are the bytes that the pod requests of its node's memory.
    """
    spread = spread_over_parts(considered, demand)
    if spread is not None:
        count = max(spread.server_cards, spread.need)
        return NoFit(
            Reason.INSUFFICIENT_GPU_COUNT,
            _asked(demand),
            count,
            unit=spread,
            resource=spread.resource,
            words=replace(demand.words, count=(spread.resource,)),
        )
    scarce = scarce_units(considered, demand)
    if scarce is not None:
        count = max(unit.count for unit in demand.units if unit.resource == scarce[0])
        reason = Reason.INSUFFICIENT_GPU_COUNT if count > 1 else Reason.INSUFFICIENT_CAPACITY
        return NoFit(
            reason,
            _asked(demand),
            count,
            unit=nearest_units(considered, *scarce),
            resource=scarce[0],
            words=replace(demand.words, count=(scarce[0],)),
        )
    ask, alone = hardest(considered, demand, own)
    every_container_alone = alone and bool(open_nodes)
    with_shares = [alike for alike in considered if not alike.example.kinds]
    best_node = nearest_node(with_shares, ask, demand, own) if ask.count > 1 else None
    attempts = nearest_cards(with_shares, ask, demand, own, best_node)
    unit = nearest_kind(considered, ask, demand)
    if unit is not None and (attempts or best_node) and (unit.never or not (attempts and attempts[0].too_small)):
        unit = None  # a card is nearer
    resource = unit.resource if unit is not None else ""
    if unit is None and not attempts and best_node is None:
        resource = wanted_resource(ask, demand)
    reason = Reason.INSUFFICIENT_CAPACITY
    if ask.count > 1:
        reason = Reason.INSUFFICIENT_GPU_COUNT
    elif is_memory_the_matter(able, attempts, every_container_alone=every_container_alone):
        reason = Reason.INSUFFICIENT_SYSTEM_MEMORY
    elif lacks_sharing(open_nodes, ask, demand, own):
        reason = Reason.SHARING_NOT_CONFIGURED
    # Where it is all containers together that find no room, each of them may ask for less.
    asks, budget_gb = demand.asks if every_container_alone else (ask,), attempts[0].budget_gb if attempts else 0
    amount_words = tuple(word for each in asks for word in each.words_for(budget_gb))
    return NoFit(
        reason,
        _asked(demand),
        ask.count,
        every_container_alone=every_container_alone,
        attempts=attempts if unit is None else (),
        best_node=best_node if unit is None else None,
        unit=unit,
        resource=resource,
        divisible=ask.count == 1 and is_divisible(with_shares, ask, demand),
        words=replace(demand.words, amount=amount_words, count=ask.count_words),
    )


def _nodes(groups: Iterable[Alike]) -> int:
    return sum(len(alike.states) for alike in groups)


def _asked(demand: Demand) -> str:
    return f"{demand} with {demand.accel}" if demand.accel else str(demand)


def _unable(alike: Alike, demand: Demand) -> Sequence[str]:
    """Why nodes' cards, or their vendor's units, serve the demand in no way; empty if they do."""
    if label := size_unknown(alike.example, demand):
        return [f"with GPUs of unknown size (no label {label})"]
    return () if _gives_units(alike.example, demand) else only_partitions(alike.example, demand)


def _opened(alike: Alike, demand: Demand, filters: Filters, out: ExclusionCount, beside: Units) -> Alike | None:
    """Those of some nodes from which the pods there do not keep this one, if there are any; counts the others.

    `beside` are units that the pod needs on the node of its cards.
    """
    gives_units = _gives_units(alike.example, demand)
    states: list[NodeState] = []
    for state in alike.states:
        reasons = filters.load_exclusions(state) if gives_units else closing_reasons(state, alike, filters)
        if Exclusion.INSUFFICIENT_RESOURCE in reasons:
            others = [reason for reason in reasons if reason is not Exclusion.INSUFFICIENT_RESOURCE]
            reasons = [*others, *(f"{_SHORT_OF}{resource}" for resource in filters.other_shortages(state))]
        if beside:
            short = (f"{_SHORT_OF}{resource}" for resource, count in beside if state.free_units(resource) < count)
            reasons = [*reasons, *short]
        if not out.count_one(state.name, reasons):
            states.append(state)
    return replace(alike, states=states) if states else None


def _gives_units(state: NodeState, demand: Demand) -> bool:
    """Whether a node would serve the demand without any share of its cards."""
    return bool(state.kinds) or not demand.asks


def _undeclared(groups: Iterable[Alike], demand: Demand) -> str | None:
    """The first node with a card that the demand may have and whose size nobody tells."""
    found = (
        alike.example.name
        for alike in groups
        if not alike.example.kinds
        and any(card.is_of_unknown_size and demand.suits(card) for card in alike.example.inventory.cards)
    )
    return min(found, default=None)


def _unsupported(alike: Alike, demand: Demand) -> Sequence[str]:
    """Why this version gives no card of a node away, whatever is asked; empty if it would give one, or units."""
    if _gives_units(alike.example, demand):
        return ()
    words = {card.unsupported for card in alike.example.inventory.cards}
    return () if None in words else sorted(filter(None, words))


def _has_cards(alike: Alike, demand: Demand) -> bool:
    state = alike.example
    if state.kinds:
        return has_units_for(state, demand)
    if not demand.asks:
        return any(demand.suits(card) for card in state.inventory.cards)
    return any(suits(card, demand) for card in state.inventory.cards)


def _without_its_choice(alike: Alike, demand: Demand) -> Sequence[str]:
    """What keeps a pod that chooses among cards from nodes where none is of its choice; empty if one is."""
    return () if _has_cards(alike, demand) else (f"without a card {demand.only}",)


def _vendors(groups: Iterable[Alike]) -> tuple[str, ...]:
    """Whose cards nodes offer; where they offer none, whose they have."""
    states = [alike.example for alike in groups]
    cards = [card for state in states for card in state.inventory.cards]
    offered = {card.vendor.label for card in cards if not card.unsupported}
    offered |= {vendor.label for state in states for vendor in vendors_of_kinds(state)}
    return tuple(sorted(offered or {card.vendor.label for card in cards}))


def _versions(groups: Iterable[Alike], demand: Demand) -> tuple[str, ...]:
    """What nodes serve of the runtime that is asked for: the newest version, and whether some do not say."""
    assert demand.accel is not None
    served = {dict(alike.example.inventory.accel).get(demand.accel.runtime) for alike in groups}
    known = [version for version in served if version is not None]
    newest = [f"{demand.accel.label} {spell(max(known))} at most"] if known else []
    return (*newest, *([f"no known {demand.accel.label} version"] if None in served else []))


def _versionless(groups: Iterable[Alike], demand: Demand) -> str:
    """The name of the runtime that is asked for, where none of the nodes tells its version; else empty."""
    assert demand.accel is not None
    runtime = demand.accel.runtime
    return "" if any(runtime in dict(alike.example.inventory.accel) for alike in groups) else demand.accel.label


def _holders(snapshot: Snapshot, short: NoFit, namespace: str) -> Holders:
    """The holders of the nearest card, or of the nearest units, if it is they that are in the way."""
    unit, attempts = short.unit, short.attempts
    if unit is not None:
        in_the_way = not (unit.never or unit.away or unit.has_room)
        return unit_holders_of(snapshot.nodes[unit.node], unit.resource, namespace) if in_the_way else Holders()
    if not attempts or attempts[0].too_small or not attempts[0].healthy or not attempts[0].short_gb:
        return Holders()
    return holders_of(snapshot.nodes[attempts[0].node], attempts[0].index, namespace)


def _would_fit_empty(groups: Iterable[Alike], demand: Demand, constraints: Constraints) -> bool:
    """Whether the demand fits a node of `groups` once nothing else runs there, its cards are in order, and it and its
    device plugins are back.

    True as well where the search for cards gave up: a pod that waits in vain is better than one that is never tried.
    """
    search = EmptiedSearch(demand, constraints.requests.get(names.MEMORY, 0))
    requests = constraints.requests
    for alike in groups:
        if accel_met(alike.example.inventory, demand):
            for state in alike.states:
                if _offers(state.facts.allocatable, requests) and search.fits(alike, with_plugins(state, demand)):
                    return True
    return search.gave_up


def _offers(allocatable: Amounts, requests: Amounts) -> bool:
    for resource, amount in requests.items():  # noqa: SIM110 - asked for every node of a cluster, and faster than all()
        if amount > allocatable.get(resource, 0):
            return False
    return True
