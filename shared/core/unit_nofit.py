"""Why no units of a vendor's resource serve a demand: the nearest of them, and whether sharing the GPUs would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from shared.api import names
from shared.core.alike import Alike
from shared.core.asks import Ask
from shared.core.cards import Vendor
from shared.core.demand import Demand, Policy
from shared.core.emptied import EmptiedSearch
from shared.core.refusal import UnitAttempt
from shared.core.snapshot import NodeState
from shared.core.unit_choice import (
    UnitShare,
    effective_units,
    is_admitted,
    is_apart_enough,
    is_kind_for,
    is_large_enough,
    own_resource,
    serves,
)
from shared.core.unit_kinds import UnitKind
from shared.core.units import Units, is_partition, memory_label, vendor_of


def scarce_units(groups: Sequence[Alike], demand: Demand) -> tuple[str, int] | None:
    """The resource, and the number of its units, that passes through and is free on no node; None if there is no such
    ask. Where all are free somewhere and no card is asked beside them, it is the first.
    """
    wanted = _passing(demand)
    nowhere = _free_nowhere(groups, wanted)
    return nowhere or (wanted[0] if wanted and not demand.asks else None)


def units_beside(groups: Sequence[Alike], demand: Demand) -> Units:
    """The units that pass through beside other asks, so that a node may have the one and lack the other. Empty where
    some are free on no node, since nothing else matters then.
    """
    wanted = _passing(demand)
    alone = len(wanted) == 1 and not demand.asks
    return () if alone or _free_nowhere(groups, wanted) else wanted


def _passing(demand: Demand) -> Units:
    return effective_units(demand, (UnitShare(ask.container, ask.resource, ask.count) for ask in demand.units))


def _free_nowhere(groups: Sequence[Alike], wanted: Units) -> tuple[str, int] | None:
    for resource, count in wanted:
        if all(state.free_units(resource) < count for alike in groups for state in alike.states):
            return resource, count
    return None


def nearest_units(groups: Iterable[Alike], resource: str, need: int) -> UnitAttempt | None:
    """The node that comes nearest to having `need` units free; None if none advertises the resource."""
    attempts = [
        UnitAttempt(
            state.name, resource, need, state.free_units(resource), state.facts.allocatable.get(resource, 0), away=away
        )
        for alike in groups
        for state in alike.states
        if (away := state.is_away(resource)) or state.facts.allocatable.get(resource)
    ]
    return min(attempts, key=_nearness, default=None)


def spread_over_parts(groups: Iterable[Alike], demand: Demand) -> UnitAttempt | None:
    """The node that comes nearest to parts of cards that would have to stand for cards; None if none would, or none is
    offered.

    It would not do however many are free: the ranks of a server need cards of their own to speak with each other, and
    several replicas may be of one card.
    """
    for ask in demand.units:
        if ask.takes_parts_for_cards:
            nearest = nearest_units(groups, ask.resource, ask.count)
            if nearest is not None:
                return replace(nearest, parts=True, server_cards=ask.cards)
    return None


def nearest_kind(groups: Iterable[Alike], ask: Ask, demand: Demand) -> UnitAttempt | None:
    """The vendor's resource on a managed node that comes nearest to an ask for cards."""
    return min(_attempts(groups, ask, demand), key=_nearness, default=None)


def lacks_sharing(groups: Sequence[Alike], ask: Ask, demand: Demand, own: int) -> bool:
    """Whether the ask is for a part of a card, and all nodes that could serve it empty give whole cards only."""
    if ask.amount.is_whole or ask.count > 1 or not any(alike.example.kinds for alike in groups):
        return False
    search = EmptiedSearch(demand, own)
    candidates = [alike for alike in groups if any(search.fits(alike, state) for state in alike.states)]
    return bool(candidates) and all(_gives_whole_only(alike.example.kinds, ask, demand) for alike in candidates)


def _gives_whole_only(kinds: Sequence[UnitKind], ask: Ask, demand: Demand) -> bool:
    return bool(kinds) and all(kind.whole for kind in kinds if serves(kind, ask, demand))


def size_unknown(state: NodeState, demand: Demand) -> str | None:
    """The label that is missing on a managed node whose units would serve the demand if their size were known."""
    for ask in demand.asks:
        right = [kind for kind in state.kinds if is_kind_for(kind, ask, demand)]
        if right and all(kind.gb is None and not is_large_enough(kind, ask) for kind in right):
            return memory_label(right[0].resource)
    return None


def wanted_resource(ask: Ask, demand: Demand) -> str:
    """The resource that a node would have to offer for an ask where all that is offered are slices."""
    return own_resource(ask, demand) or names.NVIDIA_GPU


def has_units_for(state: NodeState, demand: Demand) -> bool:
    """Whether a managed node has cards of the kind that the pod may have."""
    return any(
        demand.vendor in (None, vendor_of(kind.resource)) and is_admitted(state, kind, demand) for kind in state.kinds
    )


def vendors_of_kinds(state: NodeState) -> set[Vendor]:
    return {vendor_of(kind.resource) for kind in state.kinds}


def _attempts(groups: Iterable[Alike], ask: Ask, demand: Demand) -> Iterator[UnitAttempt]:
    need_gb = max((amount.gb or 0 for amount in (ask.amount, *ask.init)), default=0) or None
    for alike in groups:
        for kind in alike.example.kinds:
            if not is_kind_for(kind, ask, demand) or not is_admitted(alike.example, kind, demand):
                continue
            # Nodes that are alike differ in how many units they have, so the nearest is known before it is described.
            state = min(alike.states, key=partial(_fewest_missing, kind.resource, ask.count))
            parts = not is_apart_enough(kind, ask, demand)
            total, free = state.facts.allocatable.get(kind.resource, 0), state.free_units(kind.resource)
            away = state.is_away(kind.resource)
            yield UnitAttempt(
                state.name,
                kind.resource,
                ask.count,
                free,
                total,
                need_gb,
                kind.gb,
                parts=parts,
                away=away,
                exclusive=parts and is_apart_enough(kind, ask, replace(demand, policy=Policy.BINPACK)),
            )


def _fewest_missing(resource: str, need: int, state: NodeState) -> tuple[bool, bool, int, str]:
    """What of `_nearness` differs between nodes that are alike."""
    total = state.facts.allocatable.get(resource, 0)
    never = need > total and not state.is_away(resource)
    return never, total == 0, max(0, need - state.free_units(resource)), state.name


def _nearness(attempt: UnitAttempt) -> tuple[object, ...]:
    return (
        attempt.never,
        attempt.total == 0,
        attempt.parts,
        attempt.too_small,
        is_partition(attempt.resource),
        max(0, attempt.need - attempt.free),
        -(attempt.gb or 0) if attempt.too_small else 0,
        attempt.node,
        attempt.resource,
    )
