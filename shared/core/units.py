"""Units: pieces of a vendor's extended resource, which Kubernetes counts and the kubelet gives out.

Where they do the booking there is no share of a certain card: the vendor's device plugin chooses the card.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from shared.api import names
from shared.core.cards import Card, Inventory, Vendor, budget_gb
from shared.core.mig_profiles import PROFILE, gb_by_name, partition_mib
from shared.core.unit_kinds import UnitKind

Units: TypeAlias = tuple[tuple[str, int], ...]
"""Resource and number of its units, in the order of the resources."""

WHOLE_CARDS: Mapping[str, Vendor] = {
    names.NVIDIA_GPU: Vendor.NVIDIA,
    names.NVIDIA_GPU_SHARED: Vendor.NVIDIA,
    names.AMD_GPU: Vendor.AMD,
}
"""The vendors' resources for cards, and for replicas of them."""

_PARTITION = re.compile(re.escape(names.NVIDIA_MIG_PREFIX) + r"[a-z0-9][a-z0-9.-]{1,40}\Z")


def is_unit(resource: str) -> bool:
    """Whether Kubernetes counts GPUs, or parts of them, under this name."""
    return resource in WHOLE_CARDS or is_partition(resource)


@lru_cache(maxsize=1024)
def is_partition(resource: str) -> bool:
    """Whether a unit of this resource is a MIG slice."""
    return _PARTITION.match(resource) is not None


def vendor_of(resource: str) -> Vendor:
    """Whose cards the units of a resource are."""
    return WHOLE_CARDS.get(resource, Vendor.NVIDIA)


def units_among(amounts: Mapping[str, int]) -> Units:
    """The units among the amounts that a pod requests."""
    return tuple(sorted((resource, count) for resource, count in amounts.items() if count and is_unit(resource)))


def add_units(*each: Iterable[tuple[str, int]]) -> Units:
    """Several numbers of units together."""
    total: dict[str, int] = {}
    for units in each:
        for resource, count in units:
            total[resource] = total.get(resource, 0) + count
    return tuple(sorted(total.items()))


def describe_units(units: Units) -> str:
    """Units in words: `1 nvidia.com/gpu, 2 nvidia.com/mig-1g.10gb`."""
    return ", ".join(f"{count} {resource}" for resource, count in units)


def kinds_of(
    inventory: Inventory, allocatable: Mapping[str, int], in_use: Callable[[str], bool]
) -> tuple[UnitKind, ...]:
    """What books the cards of a node if the product's own resources do not; empty if they do.

    A node without an agent says it in its `GPUNode`. On one with an agent, a vendor's device plugin that gives whole
    cards away as well goes first, until the admin has set `GPUNode.spec.mode`; where it gives away the partitions of
    every card, nothing is left to us. `in_use` tells whether pods on the node have units of a resource: a plugin that
    restarts offers none for a moment and is there all the same.
    """
    if inventory.kinds:
        return inventory.kinds
    if inventory.cards and all(card.partitioned for card in inventory.cards):
        return tuple(_partitions(inventory.cards, allocatable, in_use))
    return () if inventory.served_by_us else tuple(_other_plugins(inventory, allocatable, in_use))


def spread_units(cards: Iterable[Card], kinds: Iterable[UnitKind], units: Mapping[str, int]) -> dict[int, int]:
    """GB by slot that `units` take, told of the lowest slots: which cards they really are only the kubelet knows."""
    cards = tuple(cards)
    used: dict[int, int] = {}
    for kind in kinds:
        left = 0 if is_partition(kind.resource) else units.get(kind.resource, 0)
        for card in cards:
            here = min(left, kind.per_card) if card.vendor is vendor_of(kind.resource) else 0
            if here:
                left -= here
                used[card.index] = card.budget_gb if kind.whole else here * (kind.gb or 0)
    return used


def _other_plugins(
    inventory: Inventory, allocatable: Mapping[str, int], in_use: Callable[[str], bool]
) -> Iterator[UnitKind]:
    for resource, vendor in WHOLE_CARDS.items():
        offered = allocatable.get(resource)
        cards = [card for card in inventory.cards if card.vendor is vendor]
        if offered is not None and cards and (offered or in_use(resource)):
            per_card = max(1, -(-offered // len(cards)))
            yield UnitKind(resource, min(card.budget_gb for card in cards) // per_card, per_card)


def _partitions(
    cards: Sequence[Card], allocatable: Mapping[str, int], in_use: Callable[[str], bool]
) -> Iterator[UnitKind]:
    for resource, offered in sorted(allocatable.items()):
        if is_partition(resource) and (offered or in_use(resource)):
            yield UnitKind(resource, _partition_gb(cards, resource), partition=True)


def _partition_gb(cards: Sequence[Card], resource: str) -> int | None:
    """GB of a partition of the smallest card that may have it, by what is known of such cards, else by its name."""
    profile = PROFILE.search(resource)
    if profile is None:
        return None
    known = [partition_mib(card.model, card.memory_mib, profile[0]) for card in cards]
    sizes = [mib for mib in known if mib is not None]
    return budget_gb(min(sizes)) if sizes else gb_by_name(resource)


def memory_label(resource: str) -> str:
    """The node label that tells how much memory a unit of a resource has."""
    if is_partition(resource):
        return f"{resource}.memory"
    return names.AMD_VRAM if vendor_of(resource) is Vendor.AMD else names.GFD_MEMORY
