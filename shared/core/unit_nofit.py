"""Why no units of a vendor's resource serve a demand: the nearest of them, and whether sharing the GPUs would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from shared.api import names
from shared.core.asks import Ask
from shared.core.cards import Vendor
from shared.core.demand import Demand
from shared.core.node_choice import NodeSearch, offers_anything
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
from shared.core.units import is_partition, memory_label, vendor_of


def scarce_units(states: Sequence[NodeState], demand: Demand) -> tuple[str, int] | None:
    """The resource, and the number of its units, that passes through and is free on none of `states`; None if there is
    no such ask. Where all are free somewhere and no card is asked beside them, it is the first.
    """
    wanted = effective_units(demand, (UnitShare(ask.container, ask.resource, ask.count) for ask in demand.units))
    for resource, count in wanted:
        if all(state.free_units(resource) < count for state in states):
            return resource, count
    return wanted[0] if wanted and not demand.asks else None


def nearest_units(states: Iterable[NodeState], resource: str, need: int) -> UnitAttempt | None:
    """The node that comes nearest to having `need` units free; None if none of `states` advertises the resource."""
    attempts = [
        UnitAttempt(state.name, resource, need, state.free_units(resource), total)
        for state in states
        if (total := state.facts.allocatable.get(resource, 0))
    ]
    return min(attempts, key=_nearness, default=None)


def nearest_kind(states: Iterable[NodeState], ask: Ask, demand: Demand) -> UnitAttempt | None:
    """The vendor's resource on a managed node that comes nearest to an ask for cards."""
    return min(_attempts(states, ask, demand), key=_nearness, default=None)


def lacks_sharing(states: Iterable[NodeState], ask: Ask, demand: Demand, own: int = 0) -> bool:
    """Whether the ask is for a part of a card, and all of `states` that could serve it empty give whole cards only."""
    if ask.amount.is_whole or ask.count > 1:
        return False
    search = NodeSearch(demand, own)
    candidates = [state for state in states if offers_anything(state) and search.choose(state.emptied) is not None]
    return bool(candidates) and all(
        state.kinds and all(kind.whole for kind in state.kinds if serves(kind, ask, demand)) for state in candidates
    )


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


def _attempts(states: Iterable[NodeState], ask: Ask, demand: Demand) -> Iterator[UnitAttempt]:
    need_gb = max((amount.gb or 0 for amount in (ask.amount, *ask.init)), default=0) or None
    for state in states:
        for kind in state.kinds:
            if is_kind_for(kind, ask, demand) and is_admitted(state, kind, demand):
                yield UnitAttempt(
                    state.name,
                    kind.resource,
                    ask.count,
                    state.free_units(kind.resource),
                    state.facts.allocatable.get(kind.resource, 0),
                    need_gb,
                    kind.gb,
                    parts=not is_apart_enough(kind, ask, demand),
                )


def _nearness(attempt: UnitAttempt) -> tuple[object, ...]:
    return (
        attempt.total == 0,
        attempt.parts,
        attempt.too_small,
        attempt.never,
        is_partition(attempt.resource),
        max(0, attempt.need - attempt.free),
        -(attempt.gb or 0) if attempt.too_small else 0,
        attempt.node,
        attempt.resource,
    )
