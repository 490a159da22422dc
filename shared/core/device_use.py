"""Which cards pods hold without a reservation, because another device plugin handed them out.

Such a plugin gives a pod whole cards and does not ask us. Its pods are counted for as long as they live, by two facts:
the kubelet's list of devices, as the node's `GPUNode` repeats it, and what the pods request of their node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from shared.core.cards import Card, Inventory, Vendor
from shared.core.pods import PodFacts
from shared.core.units import WHOLE_CARDS

SLOTS_PATTERN = r"^([0-9]{1,3}(,[0-9]{1,3})*)?$"
"""The slots of one pod in `GPUNode.status.podDevices`: `0,1`; empty where none of its devices is a card of ours."""

UNKNOWN_CARD = "where a pod of another device plugin holds a card that is not known yet"
"""Said of nodes: `1 where a pod of ...`."""

DeviceUse: TypeAlias = tuple[PodFacts, Card, int]
"""A pod, a card that it holds without a reservation, and how many GB of it that takes."""

_SLOTS = re.compile(SLOTS_PATTERN)


def parse_slots(text: str) -> tuple[int, ...] | None:
    """The slots that `0,1` names, or None if it is no list of slots."""
    return tuple(int(slot) for slot in text.split(",") if slot) if _SLOTS.match(text) else None


def device_use(inventory: Inventory, pods: Mapping[str, PodFacts]) -> Iterator[DeviceUse]:
    """What pods hold beside their reservations.

    A pod without a share of ours holds the cards that the kubelet lists for it, whole. Until it is listed, each card of
    its vendor may be the one, so it holds them all. A pod with shares that is listed on other cards than it has booked
    uses those in truth: its GB count on both, as the scheduler goes on counting the booked ones.
    """
    if not inventory.cards:
        return
    listed = dict(inventory.pod_devices)
    for pod in pods.values():
        slots = listed.get(pod.key)
        if pod.shares:
            booked = dict(pod.shares)
            moved = [slot for slot in slots or () if slot not in booked]
            yield from ((pod, card, max(booked.values())) for card in inventory.cards if card.index in moved)
        elif slots is not None:
            yield from ((pod, card, card.budget_gb) for card in inventory.cards if card.index in slots)
        elif vendors := _vendors_asked(pod):
            yield from ((pod, card, card.budget_gb) for card in inventory.cards if card.vendor in vendors)


def vendors_in_doubt(inventory: Inventory, pods: Mapping[str, PodFacts]) -> frozenset[Vendor]:
    """The vendors of whose cards a pod holds one that nobody has told yet."""
    listed = {uid for uid, _ in inventory.pod_devices}
    return frozenset().union(
        *(_vendors_asked(pod) for pod in pods.values() if not pod.shares and pod.key not in listed)
    )


def _vendors_asked(pod: PodFacts) -> frozenset[Vendor]:
    """Whose whole cards a pod that runs on the node, or is about to, requests of other device plugins."""
    if not pod.bound:
        return frozenset()
    return frozenset(vendor for resource, vendor in WHOLE_CARDS.items() if pod.requests.get(resource))
