"""A `GPUNode` object read into what decisions need: cards, ledger, and the version a write must carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.accel import Version, parse_version
from shared.core.cards import Card, CardClass, Inventory, Vendor
from shared.core.device_use import parse_slots
from shared.core.ledger import Entry, Summary, decode_all

EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True)
class GpuNode:
    """One `GPUNode`. `broken` are ids whose ledger text cannot be read; `summary` is what the object shows now."""

    name: str
    uid: str
    resource_version: str
    inventory: Inventory
    ledger: Mapping[str, Entry]
    broken: tuple[str, ...]
    summary: Mapping[str, Any]
    node_uids: frozenset[str] = frozenset()
    """The uids of the Nodes that own it: one, unless it was just handed on."""

    def is_of(self, node_uid: str) -> bool:
        """Whether it speaks of this Node, and not of an earlier one of its name that Kubernetes has yet to clean up."""
        return not self.node_uids or node_uid in self.node_uids


def gpu_node(raw: Mapping[str, Any], *, exclusive: bool) -> GpuNode:
    """The facts of a raw `GPUNode`. `exclusive` is the installation's choice; what a node's own mode says beats it."""
    metadata = raw["metadata"]
    spec = raw.get("spec") or {}
    status = raw.get("status") or {}
    mode = spec.get("mode")
    entries, broken = decode_all(status.get("reservations") or {})
    return GpuNode(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        inventory=Inventory(
            cards=_cards(spec, status),
            accel=_accel(status.get("accelVersions") or {}),
            injection=status.get("injection") or "env",
            exclusive=exclusive if mode is None else mode == EXCLUSIVE,
            pod_devices=_pod_devices(status.get("podDevices") or {}),
        ),
        ledger=entries,
        broken=broken,
        summary=status.get("summary") or {},
        node_uids=frozenset(
            owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("kind") == "Node"
        ),
    )


def summary_json(summary: Summary) -> dict[str, Any]:
    """`GPUNode.status.summary`."""
    return {
        "budgetGB": summary.budget_gb,
        "reservedGB": summary.reserved_gb,
        "freeGB": summary.free_gb,
        "largestFreeGB": summary.largest_free_gb,
        "cards": summary.cards,
    }


def _cards(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[Card, ...]:
    wishes = {wish["index"]: wish for wish in spec.get("cards") or ()}
    cards = [_card(raw, wishes.get(raw["index"], {})) for raw in status.get("cards") or ()]
    return tuple(sorted(cards, key=lambda card: card.index))


def _card(raw: Mapping[str, Any], wish: Mapping[str, Any]) -> Card:
    return Card(
        index=raw["index"],
        uuid=raw["uuid"],
        model=raw.get("model") or "",
        vendor=Vendor(raw["vendor"]),
        card_class=CardClass(raw.get("class") or CardClass.DISCRETE),
        memory_mib=raw.get("memoryMiB") or 0,
        budget_gb=max(0, _size_gb(raw, wish) - wish.get("headroomGB", 0)),
        healthy=raw.get("healthy", True) and not wish.get("cordoned", False),
        foreign_gb=raw.get("foreignGB") or 0,
        partitioned=raw.get("partitioned", False),
        compute_capable=raw.get("computeCapable", True),
        onlined=raw.get("onlinedAsSystemMemory", False),
    )


def _size_gb(raw: Mapping[str, Any], wish: Mapping[str, Any]) -> int:
    """What the driver told of a card, or else what the admin declares."""
    told = int(raw["budgetGB"])
    if told or raw.get("memoryMiB") or raw.get("class") == CardClass.UNIFIED:
        return told
    return int(wish.get("vramGB") or 0)


def _pod_devices(listed: Mapping[str, str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Slots by pod. A text that is no list of slots is passed over, as if the pod were not listed yet."""
    read = ((uid, parse_slots(text)) for uid, text in sorted(listed.items()))
    return tuple((uid, slots) for uid, slots in read if slots is not None)


def _accel(versions: Mapping[str, str]) -> tuple[tuple[str, Version], ...]:
    parsed = {runtime: parse_version(text) for runtime, text in versions.items()}
    return tuple(sorted((runtime, version) for runtime, version in parsed.items() if version is not None))
