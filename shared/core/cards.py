"""Cards: one physical GPU, or one shared-memory pool, with one budget in whole GB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from shared.core.unit_kinds import UnitKind

MIB_PER_GB = 1024
"""A GB here is 1024 MiB, the unit nvidia-smi and the engines print."""


class Vendor(StrEnum):
    """Who made a card."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"

    @property
    def label(self) -> str:
        """The name as its maker spells it, for texts."""
        return {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}[self.value]


PLACED_VENDORS = (Vendor.NVIDIA, Vendor.AMD)
"""Vendors whose cards this version gives away."""


class CardClass(StrEnum):
    """How a card's memory may be shared."""

    DISCRETE = "discrete"
    UNIFIED = "unified"
    MIG = "mig"


PARTITION_MARK = " MIG "
"""Stands in a partition's model between the model of its card and its own profile."""


@dataclass(frozen=True, slots=True)
class Card:
    """One card of a node.

    `index` is its stable slot number on the node, `budget_gb` the whole GB of it that may be reserved, `foreign_gb` the
    GB that software outside the product was measured to hold on it. A `partitioned` card is given away by its
    partitions only, each of which is a card of class `mig`. The memory of an `onlined` card is at the same time part of
    the node's memory, where its kernel adds it.
    """

    index: int
    uuid: str
    model: str
    vendor: Vendor
    card_class: CardClass
    memory_mib: int
    budget_gb: int
    healthy: bool = True
    foreign_gb: int = 0
    partitioned: bool = False
    compute_capable: bool = True
    onlined: bool = False

    @property
    def unsupported(self) -> str | None:
        """Why the card is never given away, said of nodes (`2 Intel`, `1 with cards of unknown size`), or None."""
        if self.vendor not in PLACED_VENDORS:
            return self.vendor.label
        if not self.compute_capable:
            return "with display adapters only"
        if self.partitioned:
            return "with MIG partitions"
        return "with cards of unknown size" if self.is_of_unknown_size else None

    @property
    def is_of_unknown_size(self) -> bool:
        """Whether neither the driver nor the admin tells how much memory it has."""
        told = self.memory_mib or self.budget_gb or self.is_pool
        return self.compute_capable and not self.partitioned and not told

    @property
    def is_pool(self) -> bool:
        """Whether its memory is the node's memory, so that a share of it is taken from both."""
        return self.card_class is CardClass.UNIFIED

    @property
    def is_backed(self) -> bool:
        """Whether the node's memory has to suffice for what is put on it."""
        return self.is_pool or self.onlined

    @property
    def is_partition(self) -> bool:
        """Whether it is a hardware partition, which one container has for itself."""
        return self.card_class is CardClass.MIG


class Shape:
    """All that stays the same of a node's cards whatever happens to them, and whichever of their like they are.

    Inventories of one shape have cards of the same kinds in the same order, and the same versions. Two objects may
    stand for one shape, so it is good for doing work once, and not for telling inventories apart.
    """

    __slots__ = ()


@lru_cache(maxsize=1024)
def _shape(_look: Hashable) -> Shape:
    return Shape()


@dataclass(frozen=True, slots=True)
class Inventory:
    """The cards of one node and what their drivers can do, as its `GPUNode` publishes them.

    `accel` maps a runtime (`cuda`, `rocm`) to the highest version the node's driver serves. `exclusive` means that a
    card goes to one pod at a time, whatever it asks. `pod_devices` are the slots of the cards that the kubelet says
    other device plugins gave to a pod, by the pod's uid. `kinds` are the vendor's resources that book the cards where
    no agent of ours runs. `served_by_us` means that the admin has said how the product is to give the cards away.
    """

    cards: tuple[Card, ...] = ()
    accel: tuple[tuple[str, tuple[int, ...]], ...] = ()
    injection: str = "env"
    exclusive: bool = False
    pod_devices: tuple[tuple[str, tuple[int, ...]], ...] = ()
    kinds: tuple[UnitKind, ...] = ()
    served_by_us: bool = False
    shape: Shape = field(init=False, repr=False, compare=False)
    """What it has in common with the inventories of nodes that were bought together."""

    def __post_init__(self) -> None:
        kinds = tuple(
            (
                card.vendor,
                card.model,
                card.card_class,
                card.memory_mib,
                card.budget_gb,
                card.partitioned,
                card.compute_capable,
                card.onlined,
            )
            for card in self.cards
        )
        object.__setattr__(self, "shape", _shape((kinds, self.accel, self.exclusive)))

    def card(self, index: int) -> Card | None:
        """The card in slot `index`, if there is one."""
        return next((card for card in self.cards if card.index == index), None)


def describe_models(models: Iterable[str]) -> str:
    """The cards of a node in one line, in the order of their slots: `2 x NVIDIA L4, Tesla T4`."""
    counts = Counter(models)
    return ", ".join(model if count == 1 else f"{count} x {model}" for model, count in counts.items())


def budget_gb(memory_mib: int) -> int:
    """Whole GB of a card of `memory_mib` MiB that may be promised: capacity rounds down."""
    return memory_mib // MIB_PER_GB


def gb_for_mib(memory_mib: int) -> int:
    """Whole GB that a request of `memory_mib` MiB takes: requests round up."""
    return -(-memory_mib // MIB_PER_GB)
