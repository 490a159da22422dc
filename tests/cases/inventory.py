"""The agent's part: what a node's cards are, written into its `GPUNode` as the agent will write it.

What the facts of a case make of a card is the product's own rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.api import names
from shared.core.cards import MIB_PER_GB, CardClass, Vendor, describe_models
from shared.core.hardware import MeasuredCard, MeasuredPartition, publish_cards, vendor_serves_partitions
from shared.core.nodes import node_facts
from shared.core.quantity import parse
from shared.core.slots import assign_slots
from shared.core.system_memory import BYTES_PER_MIB
from tests.fakes.objects import Json

CAPACITY = "capacity"
ALLOCATABLE = "allocatable"


class Agent:
    """The agent of one node. It remembers every card that it has seen."""

    def __init__(self, node: Json, *, exclusive: bool) -> None:
        self._node: str = node["metadata"]["name"]
        self._system_mib = int(parse(node["status"]["capacity"][names.MEMORY])) // BYTES_PER_MIB
        self._vendor_serves_partitions = vendor_serves_partitions(node_facts(node).allocatable)
        self._exclusive = exclusive
        self._slots: dict[str, int] = {}
        self._cards: dict[int, Json] = {}
        self._headroom: dict[int, int] = {}
        self._accel: dict[str, str] = {}
        self._pod_devices: dict[str, str] = {}

    def find(self, gpus: Sequence[Json]) -> None:
        """Looks at the cards that the driver enumerates now. One that is gone stays listed, as unhealthy."""
        found = {uuid_of(self._node, gpu): gpu for gpu in gpus}
        self._slots = assign_slots(self._slots, {uuid: int(gpu["index"]) for uuid, gpu in found.items()})
        # Partitions come after the cards, so that none takes the number of a card.
        parts = {part: int(gpu["index"]) for uuid, gpu in found.items() for part in _partition_uuids(gpu, uuid)}
        self._slots = assign_slots(self._slots, parts)
        published = publish_cards(
            [_measured(gpu, uuid, self._slots) for uuid, gpu in found.items()],
            system_mib=self._system_mib,
            vendor_serves_partitions=self._vendor_serves_partitions,
            before=self._cards.values(),
            held=self._cards,
        )
        self._cards = {card["index"]: card for card in published}
        self._headroom |= {self._slots[uuid]: int(gpu.get("headroomGB") or 0) for uuid, gpu in found.items()}
        self._accel = _accel_versions(gpus) or self._accel

    def remember(self, pinned: Mapping[str, int], gpus: Sequence[Json]) -> None:
        """Has seen the cards that pods were pinned to, each in its slot, before it finds `gpus` for the first time.

        What is gone by then was a card like the one that is given with that index.
        """
        by_uuid, by_index = {uuid_of(self._node, gpu): gpu for gpu in gpus}, {gpu["index"]: gpu for gpu in gpus}
        parts = {part for uuid, gpu in by_uuid.items() for part in _partition_uuids(gpu, uuid)}
        former = []
        for uuid, slot in pinned.items():
            card = by_uuid.get(uuid) or by_index.get(slot)
            if uuid in parts:
                continue
            if card is None:
                raise ValueError(f"a pod was pinned to {uuid}, card {slot}, and nothing tells what card that is")
            former.append({**card, "uuid": uuid, "index": slot})
        if former:
            self.find(former)

    def report_devices(self, pod_uid: str, uuids: Iterable[str]) -> None:
        """Notes which cards the kubelet shows for a pod; one that the driver does not know is no card."""
        slots = sorted(self._slots[uuid] for uuid in uuids if uuid in self._slots)
        self._pod_devices[pod_uid] = ",".join(map(str, slots))

    def slot_of(self, gpu: Json) -> int:
        """The slot of a card."""
        return self._slots[uuid_of(self._node, gpu)]

    def uuid_at(self, slot: int) -> str:
        """The UUID of the card in a slot."""
        return next(uuid for uuid, known in self._slots.items() if known == slot)

    @property
    def spec(self) -> Json:
        """What the admin wants of the node: `GPUNode.spec`."""
        wishes = [{"index": slot, "headroomGB": gb} for slot, gb in sorted(self._headroom.items()) if gb]
        return {"mode": "exclusive" if self._exclusive else "shared", **({"cards": wishes} if wishes else {})}

    @property
    def status(self) -> Json:
        """The agent's part of `GPUNode.status`."""
        cards = [card for _, card in sorted(self._cards.items())]
        return {
            "source": "agent",
            "cards": cards,
            "models": describe_models(card["model"] for card in cards),
            "accelVersions": dict(self._accel),
            "injection": "env",
            **({"podDevices": dict(self._pod_devices)} if self._pod_devices else {}),
        }

    @property
    def advertised(self) -> dict[str, dict[str, str]]:
        """The per-card resources of the node, which the device plugin has the kubelet write into the Node."""
        budgets = {slot: self._budget(slot) for slot in self._cards}
        return {
            CAPACITY: {names.card_resource(slot): str(gb) for slot, gb in budgets.items()},
            ALLOCATABLE: {
                names.card_resource(slot): str(gb if self._cards[slot]["healthy"] else 0)
                for slot, gb in budgets.items()
            },
        }

    def _budget(self, slot: int) -> int:
        return max(0, int(self._cards[slot]["budgetGB"]) - self._headroom.get(slot, 0))


def uuid_of(node: str, gpu: Mapping[str, Any]) -> str:
    """The card's identity; cases leave it out where it does not matter."""
    return str(gpu.get("uuid") or f"GPU-{node}-{gpu['index']}")


def _partition_uuids(gpu: Mapping[str, Any], uuid: str) -> list[str]:
    return [f"MIG-{uuid}-{number}" for number, _ in enumerate(gpu.get("migDevices") or ())]


# Of an AMD card in a partition mode, what is given is each device that its driver enumerates. `partitionMode` says why
# it has no more memory, and `vramGB` how much; nobody measures the mode itself.
def _measured(gpu: Mapping[str, Any], uuid: str, slots: Mapping[str, int]) -> MeasuredCard:
    return MeasuredCard(
        slot=slots[uuid],
        uuid=uuid,
        model=gpu["model"],
        vendor=Vendor(gpu["vendor"]),
        memory_mib=gpu.get("memoryMiB") or (gpu["vramGB"] * MIB_PER_GB if gpu["vramGB"] else None),
        healthy=gpu.get("health") != "unhealthy",
        compute_capable=gpu.get("computeCapable", True),
        unified=gpu["memoryClass"] == CardClass.UNIFIED,
        carve_out_mib=gpu.get("carveOutMiB"),
        gtt_mib=gpu.get("gttMiB"),
        hbm_mib=gpu.get("hbmMiB"),
        onlined=bool(gpu.get("onlinedAsSystemMemory")),
        mig=gpu["memoryClass"] == CardClass.MIG,
        partitions=tuple(
            MeasuredPartition(slots[part], part, profile)
            for part, profile in zip(_partition_uuids(gpu, uuid), gpu.get("migDevices") or (), strict=True)
        ),
    )


def _accel_versions(gpus: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    versions = [str(gpu["cuda"]) for gpu in gpus if gpu.get("cuda")]
    return {"cuda": versions[0]} if versions else {}
