"""A `GPUNode` object read into what decisions need: cards, ledger, and the version a write must carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from shared.core.accel import Version, parse_version
from shared.core.cards import MIB_PER_GB, Card, CardClass, Inventory, Vendor
from shared.core.device_use import parse_slots
from shared.core.ledger import Entry, Summary, decode_all
from shared.core.unit_kinds import UnitKind
from shared.core.units import is_partition, vendor_of

EXCLUSIVE = "exclusive"
FROM_LABELS = "labels"
"""`status.source` of a node without an agent, whose cards the controller reads from the node's labels."""


VENDOR_PLUGIN_PRESENT = "VendorPluginPresent"
"""The condition of a node with an agent on which a vendor's device plugin serves whole cards as well."""
_MOST_GB: Final = 2**20
"""More than any card has, and little enough that the sums over all cards are integers to the API server."""
PUBLISHED = ("source", "cards", "models", "accelVersions", "units")


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
    source: str | None = None
    published: Mapping[str, Any] = field(default_factory=dict)
    """The status that the controller keeps of a node without an agent, as it is now."""
    other_plugin: bool = False
    """Whether the object says that a vendor's device plugin gives the agent's cards away too."""
    stale_units: bool = False
    """Whether the controller published this node before it had an agent, and still owns fields of it."""

    def is_of(self, node_uid: str) -> bool:
        """Whether it speaks of this Node, and not of an earlier one of its name that Kubernetes has yet to clean up."""
        return not self.node_uids or node_uid in self.node_uids

    @property
    def from_labels(self) -> bool:
        """Whether the controller publishes the cards."""
        return self.source == FROM_LABELS

    @property
    def has_other_source(self) -> bool:
        """Whether an agent or an admin publishes the cards."""
        return not self.from_labels and (self.source is not None or bool(self.inventory.cards))


def gpu_node(raw: Mapping[str, Any], *, exclusive: bool) -> GpuNode:
    """The facts of a raw `GPUNode`. `exclusive` is the installation's choice; what a node's own mode says beats it."""
    metadata = raw["metadata"]
    spec = raw.get("spec") or {}
    status = raw.get("status") or {}
    mode = spec.get("mode")
    entries, broken = decode_all(status.get("reservations") or {})
    from_labels = status.get("source") == FROM_LABELS
    cards = _cards(spec, status)
    return GpuNode(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        inventory=Inventory(
            cards=cards,
            accel=_accel(status.get("accelVersions") or {}),
            injection=status.get("injection") or "env",
            exclusive=exclusive if mode is None else mode == EXCLUSIVE,
            pod_devices=_pod_devices(status.get("podDevices") or {}),
            kinds=_kinds(status, cards) if from_labels else (),
            served_by_us=mode is not None and not from_labels,
        ),
        ledger=entries,
        broken=broken,
        summary=status.get("summary") or {},
        node_uids=frozenset(
            owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("kind") == "Node"
        ),
        source=status.get("source"),
        published={key: status[key] for key in PUBLISHED if status.get(key)} if from_labels else {},
        stale_units=not from_labels and bool(status.get("units")),
        other_plugin=any(
            condition.get("type") == VENDOR_PLUGIN_PRESENT and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
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
    size_gb = _size_gb(raw, wish)
    return Card(
        index=raw["index"],
        uuid=raw["uuid"],
        model=raw.get("model") or "",
        vendor=Vendor(raw["vendor"]),
        card_class=CardClass(raw.get("class") or CardClass.DISCRETE),
        memory_mib=raw.get("memoryMiB") or size_gb * MIB_PER_GB,
        budget_gb=max(0, size_gb - wish.get("headroomGB", 0)),
        healthy=raw.get("healthy", True) and not wish.get("cordoned", False),
        foreign_gb=raw.get("foreignGB") or 0,
        partitioned=raw.get("partitioned", False),
        compute_capable=raw.get("computeCapable", True),
        onlined=raw.get("onlinedAsSystemMemory", False),
    )


def _kinds(status: Mapping[str, Any], cards: Sequence[Card]) -> tuple[UnitKind, ...]:
    """The node's units, of which the admin's wishes for cards hold as well: the kubelet may take a unit of any card."""
    return tuple(_kind(raw, cards) for raw in sorted(status.get("units") or (), key=lambda raw: str(raw["resource"])))


def _kind(raw: Mapping[str, Any], cards: Sequence[Card]) -> UnitKind:
    resource, gb, per_card = raw["resource"], raw.get("gb"), raw.get("perCard") or 1
    partition = bool(raw.get("partition"))
    budgets = [card.budget_gb // per_card for card in cards if card.vendor is vendor_of(resource) and card.memory_mib]
    if budgets and not is_partition(resource) and not partition:
        gb = min(budgets) if gb is None else min(gb, *budgets)
    return UnitKind(resource, gb if gb is None else min(gb, _MOST_GB), per_card, partition)


def _size_gb(raw: Mapping[str, Any], wish: Mapping[str, Any]) -> int:
    """What the driver told of a card, or else what the admin declares."""
    told = min(int(raw["budgetGB"]), _MOST_GB)
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
