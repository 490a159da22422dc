"""What was measured of a node's GPUs, as the cards that its `GPUNode` lists.

The rules for each class of hardware are here and nowhere else; how to measure is the agent's matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.api import names
from shared.core.cards import MIB_PER_GB, PARTITION_MARK, CardClass, Vendor, budget_gb
from shared.core.mig_profiles import partition_mib
from shared.core.pods import Amounts

SYSTEM_RESERVE_MIB = 8 * MIB_PER_GB
"""Memory of a node with one pool for all that is left to its operating system and its pods' daemons."""

_LONGEST_MODEL = 128


@dataclass(frozen=True, slots=True)
class MeasuredPartition:
    """A MIG device of a card: its slot, uuid and profile (`1g.5gb`), and its memory if the driver tells it."""

    slot: int
    uuid: str
    profile: str
    memory_mib: int | None = None
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class MeasuredCard:
    """A GPU as its driver enumerates it; of an AMD card in a partition mode each partition is one.

    `memory_mib` is None where the driver does not tell (`NOT_SUPPORTED`), and `declared_gb` what the admin says then.
    `unified` means that the card has no memory of its own but what the firmware carved out of the system's for it
    (`carve_out_mib`); `gtt_mib` bounds what it may address of the rest. `mig` means that it is in MIG mode, with these
    `partitions`. `onlined` means that the kernel adds the card's own memory (`hbm_mib`) to the system's.
    """

    slot: int
    uuid: str
    model: str
    vendor: Vendor
    memory_mib: int | None = None
    healthy: bool = True
    compute_capable: bool = True
    unified: bool = False
    carve_out_mib: int | None = None
    gtt_mib: int | None = None
    hbm_mib: int | None = None
    onlined: bool = False
    mig: bool = False
    partitions: tuple[MeasuredPartition, ...] = ()
    declared_gb: int | None = None


def publish_cards(
    measured: Iterable[MeasuredCard],
    *,
    system_mib: int,
    vendor_serves_partitions: bool = False,
    before: Iterable[Mapping[str, Any]] = (),
    held: Collection[int] = (),
) -> list[dict[str, Any]]:
    """`GPUNode.status.cards`, in the order of the slots.

    `system_mib` is the memory that the operating system has. Partitions that the vendor's own device plugin serves are
    its units and no cards of ours. Of the cards listed `before`, those that are gone stay listed as unhealthy, since
    pods may be booked on them; a partition that is gone only while its slot is among the `held` ones, because each new
    layout makes new partitions.
    """
    cards: dict[int, dict[str, Any]] = {}
    known: set[str] = set()
    for card in measured:
        partitions = () if vendor_serves_partitions else card.partitions
        for published in (_card(card, system_mib), *(_partition(card, partition) for partition in partitions)):
            cards[published["index"]] = published
            known.add(published["uuid"])
    for old in before:
        lasting = old.get("class") != CardClass.MIG or old["index"] in held
        if old["uuid"] not in known and old["index"] not in cards and lasting:
            cards[old["index"]] = {**old, "healthy": False}
    return [cards[slot] for slot in sorted(cards)]


def vendor_serves_partitions(allocatable: Amounts) -> bool:
    """Whether the vendor's device plugin gives a node's MIG partitions away; a count of 0 is a trace of old ones."""
    return any(amount and resource.startswith(names.NVIDIA_MIG_PREFIX) for resource, amount in allocatable.items())


def unified_budget_gb(system_mib: int, gtt_mib: int | None = None) -> int:
    """Whole GB of a pool that may be promised: the system's memory less the reserve, as far as the graphics part may
    address it.
    """
    return budget_gb(max(0, _least(system_mib - SYSTEM_RESERVE_MIB, gtt_mib)))


def _least(mib: int, *bounds: int | None) -> int:
    return min([mib, *(bound for bound in bounds if bound is not None)])


def _card(card: MeasuredCard, system_mib: int) -> dict[str, Any]:
    card_class, memory_mib, budget = _memory(card, system_mib)
    if not memory_mib:
        budget = card.declared_gb or 0
    published = _published(card.slot, card.uuid, card.model, card, card_class, memory_mib, budget)
    if card.mig:
        published |= {"partitioned": True, "budgetGB": 0}
    if not card.compute_capable:
        published |= {"computeCapable": False, "budgetGB": 0}
    if card.onlined:
        published["onlinedAsSystemMemory"] = True
    return published


def _memory(card: MeasuredCard, system_mib: int) -> tuple[CardClass, int, int]:
    """How a card's memory may be shared, how many MiB an engine sees of it, and the GB that may be promised."""
    if not card.unified:
        own_mib = card.memory_mib or card.hbm_mib or 0
        return CardClass.DISCRETE, own_mib, budget_gb(own_mib)
    if card.onlined and card.hbm_mib:
        return CardClass.UNIFIED, card.hbm_mib, budget_gb(card.hbm_mib)
    seen_mib = _least(system_mib, card.gtt_mib, card.memory_mib)
    budget = unified_budget_gb(system_mib, seen_mib)
    # Memory that the firmware took at boot is not the system's any more: such a part is a card like any other.
    if card.carve_out_mib and budget_gb(card.carve_out_mib) >= budget:
        return CardClass.DISCRETE, card.carve_out_mib, budget_gb(card.carve_out_mib)
    return CardClass.UNIFIED, seen_mib, budget


def _partition(card: MeasuredCard, partition: MeasuredPartition) -> dict[str, Any]:
    memory_mib = partition.memory_mib or partition_mib(card.model, card.memory_mib or 0, partition.profile) or 0
    return _published(
        partition.slot,
        partition.uuid,
        f"{card.model}{PARTITION_MARK}{partition.profile}",
        card,
        CardClass.MIG,
        memory_mib,
        budget_gb(memory_mib),
    ) | {"healthy": card.healthy and partition.healthy}


def _published(
    slot: int, uuid: str, model: str, card: MeasuredCard, card_class: CardClass, memory_mib: int, budget: int
) -> dict[str, Any]:
    return {
        "index": slot,
        "uuid": uuid,
        "model": model[:_LONGEST_MODEL],
        "vendor": card.vendor.value,
        "class": card_class.value,
        "memoryMiB": memory_mib,
        "budgetGB": budget,
        "healthy": card.healthy,
    }
