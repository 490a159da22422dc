"""The agent's part: what a node's cards are, written into its `GPUNode` as the agent will write it.

The only place that knows how measured facts become cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.api import names
from shared.core.cards import MIB_PER_GB, describe_models
from shared.core.slots import assign_slots
from tests.fakes.objects import Json

CAPACITY = "capacity"
ALLOCATABLE = "allocatable"


class Agent:
    """The agent of one node. It remembers every card that it has seen."""

    def __init__(self, node: str, *, exclusive: bool) -> None:
        self._node = node
        self._exclusive = exclusive
        self._slots: dict[str, int] = {}
        self._cards: dict[int, Json] = {}
        self._headroom: dict[int, int] = {}
        self._accel: dict[str, str] = {}
        self._pod_devices: dict[str, str] = {}

    def find(self, gpus: Sequence[Json]) -> None:
        """Looks at the cards that the driver enumerates now. One that is gone stays listed, as unhealthy."""
        found = {uuid_of(self._node, gpu): int(gpu["index"]) for gpu in gpus}
        self._slots = assign_slots(self._slots, found)
        self._cards = {slot: {**card, "healthy": False} for slot, card in self._cards.items()}
        for gpu in gpus:
            uuid = uuid_of(self._node, gpu)
            slot = self._slots[uuid]
            self._cards[slot] = _card(gpu, slot, uuid)
            self._headroom[slot] = int(gpu.get("headroomGB") or 0)
        self._accel = _accel_versions(gpus) or self._accel

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


def _card(gpu: Mapping[str, Any], slot: int, uuid: str) -> Json:
    budget = gpu["vramGB"] or 0
    return {
        "index": slot,
        "uuid": uuid,
        "model": gpu["model"],
        "vendor": gpu["vendor"],
        "class": gpu["memoryClass"],
        "memoryMiB": gpu.get("memoryMiB") or budget * MIB_PER_GB,
        "budgetGB": budget,
        "healthy": gpu.get("health") != "unhealthy",
    }


def _accel_versions(gpus: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    versions = [str(gpu["cuda"]) for gpu in gpus if gpu.get("cuda")]
    return {"cuda": versions[0]} if versions else {}
