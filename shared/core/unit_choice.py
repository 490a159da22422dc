"""Which units of one node's vendor resources serve a demand.

On a vendor-managed node every ask for cards becomes units of the resource that books them there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.core.asks import Ask
from shared.core.containers import Role, spec_of
from shared.core.demand import Demand, Policy
from shared.core.found import Source
from shared.core.pod_requests import pod_requests
from shared.core.snapshot import NodeState
from shared.core.unit_kinds import UnitKind
from shared.core.units import Units, is_partition, units_among, vendor_of


@dataclass(frozen=True, slots=True)
class UnitShare:
    """`count` units of a vendor's resource for one container."""

    container: str
    resource: str
    count: int


def choose_units(state: NodeState, demand: Demand) -> tuple[UnitShare, ...] | None:
    """Units of one node for every ask that is served by units there, or None where they are not free."""
    if any(ask.takes_parts_for_cards for ask in demand.units):
        return None
    given: list[UnitShare] = [UnitShare(ask.container, ask.resource, ask.count) for ask in demand.units]
    left = {kind.resource: state.free_units(kind.resource) for kind in state.kinds}
    if state.kinds:
        # Whatever serves the most demanding ask serves those after it, so no choice has to be taken back.
        for ask in sorted(demand.asks, key=lambda ask: (-ask.count, -ask.least_gb, ask.container)):
            kind = _best_kind(state, ask, demand, left)
            if kind is None:
                return None
            left[kind.resource] -= ask.count
            given += _shares(ask, demand, kind)
    shares = tuple(given)
    fits = all(count <= state.free_units(resource) for resource, count in effective_units(demand, shares))
    return shares if fits else None


def effective_units(demand: Demand, shares: Iterable[UnitShare]) -> Units:
    """What a pod takes from its node with `shares`, by the scheduler's counting rule."""
    wanted: dict[str, dict[str, str]] = {}
    for share in shares:
        wanted.setdefault(share.container, {})[share.resource] = str(share.count)
    roles = dict(demand.roles)
    order = [*roles, *(container for container in wanted if container not in roles)]
    limits = ((name, {"limits": wanted.get(name, {})}) for name in order)
    spec = spec_of((roles.get(name, Role.APP), {"name": name, "resources": resources}) for name, resources in limits)
    return units_among(pod_requests(spec))


def serves(kind: UnitKind, ask: Ask, demand: Demand) -> bool:
    """Whether units of a kind are what an ask needs, whether or not they are free."""
    return is_kind_for(kind, ask, demand) and is_large_enough(kind, ask) and is_apart_enough(kind, ask, demand)


def is_kind_for(kind: UnitKind, ask: Ask, demand: Demand) -> bool:
    """Whether an ask may be served from a resource at all, by vendor and by the resource that the pod names itself.

    A pod that names a number of GPUs and no amount gets just those. Slices of a card serve amounts of GB only.
    """
    if demand.vendor not in (None, vendor_of(kind.resource)):
        return False
    own = own_resource(ask, demand)
    if ask.source is Source.VENDOR_COUNT:
        return own is None or kind.resource == own
    return not is_partition(kind.resource) or (own is None and ask.amount.gb is not None)


def is_large_enough(kind: UnitKind, ask: Ask) -> bool:
    """Whether a unit has the memory that is asked; one of unknown size serves no amount of GB."""
    wanted = max((amount.gb or 0 for amount in (ask.amount, *ask.init)), default=0)
    return wanted == 0 or (kind.gb is not None and kind.gb >= wanted)


def is_apart_enough(kind: UnitKind, ask: Ask, demand: Demand) -> bool:
    """Whether units are as separate as asked: of N units that are parts of cards two may lie on one card."""
    wants_card = ask.count > 1 or demand.policy is Policy.EXCLUSIVE
    by_word = ask.amount.is_whole and ask.source is not Source.VENDOR_COUNT
    return kind.whole or not (wants_card or by_word)


def is_admitted(state: NodeState, kind: UnitKind, demand: Demand) -> bool:
    """Whether the pod's own choice among cards admits all that a unit may be of: the kubelet takes any of them."""
    vendor = vendor_of(kind.resource)
    return all(demand.admits(card) for card in state.inventory.cards if card.vendor is vendor)


def _best_kind(state: NodeState, ask: Ask, demand: Demand, left: dict[str, int]) -> UnitKind | None:
    """The tightest units that serve an ask, those that the pod names itself before others."""
    own = own_resource(ask, demand)
    fitting = [
        kind
        for kind in state.kinds
        if left[kind.resource] >= ask.count and serves(kind, ask, demand) and is_admitted(state, kind, demand)
    ]
    return min(fitting, key=lambda kind: (kind.resource != own, kind.gb or 0, kind.resource), default=None)


def _shares(ask: Ask, demand: Demand, kind: UnitKind) -> Sequence[UnitShare]:
    """The units of a container and of the init containers that use its cards before it."""
    counts = {container: count for container, _, count in demand.own}
    return [
        UnitShare(ask.container, kind.resource, ask.count),
        *(UnitShare(name, kind.resource, counts.get(name, ask.count)) for name in ask.init_containers),
    ]


def own_resource(ask: Ask, demand: Demand) -> str | None:
    """The vendor's resource for cards that the container of an ask names itself."""
    return next((resource for container, resource, _ in demand.own if container == ask.container), None)
