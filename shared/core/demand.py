"""What a pod asks of the cards: read from its annotations and resources, the first rule that matches wins.

1. `kamiwaza.ai/vram-gb` and `kamiwaza.ai/gpus`, as pod annotations or container resources.
2. A vendor's GPU resource alone (`nvidia.com/gpu: 2`): so many whole cards.

A wrong value is refused and never read as zero or as a whole card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.api import names
from shared.core.accel import AccelRequirement, parse_requirement
from shared.core.asks import VENDOR_RESOURCES, Ask, VendorCounts, read_asks, vendor_counts
from shared.core.cards import PLACED_VENDORS, Card, Vendor
from shared.core.containers import Container, Role, mapping, read_containers, texts
from shared.core.foreign_words import refuse_foreign_words
from shared.core.init_containers import fold_init_containers
from shared.core.invalid import InvalidRequest
from shared.core.misspelt import refuse_misspelt
from shared.core.unit_asks import UnitAsk, read_unit_asks
from shared.core.units import is_unit, vendor_of

REPLACED_RESOURCES = frozenset({names.VRAM, names.GPUS, *VENDOR_RESOURCES})
"""What a placed pod no longer asks of its node: its shares of cards stand in their place."""


def is_booked(resource: str) -> bool:
    """Whether a placement books this resource itself, so that it is none of the node's other resources."""
    return resource in REPLACED_RESOURCES or is_unit(resource)


class Policy(StrEnum):
    """How cards are chosen among those that fit."""

    BINPACK = "binpack"
    SPREAD = "spread"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True)
class Demand:
    """Everything a pod asks: GB per card and number of cards by container, vendor, accelerator version, policy.

    `units` are asks for units of a vendor's resource, which pass through. `own` are the vendor's resources that
    containers name themselves for cards, with their counts, and `roles` the containers in the order of the pod.
    """

    asks: tuple[Ask, ...]
    vendor: Vendor | None = None
    accel: AccelRequirement | None = None
    policy: Policy = Policy.BINPACK
    units: tuple[UnitAsk, ...] = ()
    own: tuple[tuple[str, str, int], ...] = ()
    roles: tuple[tuple[str, Role], ...] = ()

    @property
    def cards(self) -> int:
        """The most cards, or units of one resource, that one container needs."""
        return max([*(ask.count for ask in self.asks), *(unit.count for unit in self.units)])

    def suits(self, card: Card) -> bool:
        """Whether a card is of a kind that the pod may have, whatever room it has."""
        return self.vendor in (None, card.vendor)

    def __str__(self) -> str:
        return " and ".join([*(_words(ask, self.vendor) for ask in self.asks), *map(str, self.units)])


@dataclass(frozen=True, slots=True)
class ReadPod:
    """A pod as far as cards are concerned: its containers, its demand if it asks, and who must see no device at all.

    `hidden` are the containers that ask for zero GPUs: without a word they would see every card of the node.
    """

    containers: tuple[Container, ...]
    demand: Demand | None
    hidden: tuple[str, ...]


def read_pod(pod: Mapping[str, Any]) -> ReadPod:
    """What `pod` asks for. Raises `InvalidRequest` where an ask is malformed, contradictory or cannot be attributed."""
    metadata = mapping(pod.get("metadata"), "metadata")
    annotations = texts(metadata.get("annotations"), "metadata.annotations")
    labels = texts(metadata.get("labels"), "metadata.labels")
    containers = read_containers(pod)
    refuse_misspelt(annotations, labels, containers)
    refuse_foreign_words(annotations, containers)

    counts = vendor_counts(containers)
    asks = read_asks(annotations, containers, counts)
    read_units = read_unit_asks(containers, asks)
    units = tuple(unit for unit in read_units if unit.count)
    asking = {ask.container for ask in asks} | {unit.container for unit in units}
    zero = {unit.container for unit in read_units} | {name for name, count in counts.items() if count}
    _refuse_unbooked_devices(containers, asking, zero)
    hidden = tuple(each.name for each in containers if each.name in zero and each.name not in asking)
    if not asks and not units:
        _refuse_lone_details(annotations)
        return ReadPod(containers, None, hidden)
    accel = _accel(annotations)
    demand = Demand(
        asks=fold_init_containers(asks, containers) if asks else (),
        vendor=_vendor(annotations, containers, counts, asking, units, accel),
        accel=accel,
        policy=_policy(annotations),
        units=units,
        own=tuple((name, resource, n) for name, count in counts.items() for resource, n in count.items() if n),
        roles=tuple((each.name, each.role) for each in containers),
    )
    return ReadPod(containers, demand, hidden)


def _vendor(
    annotations: Mapping[str, str],
    containers: Sequence[Container],
    counts: VendorCounts,
    asking: set[str],
    units: Sequence[UnitAsk],
    accel: AccelRequirement | None,
) -> Vendor | None:
    """The one vendor that the pod's words mean, or None if any will do. CUDA means NVIDIA, ROCm means AMD."""
    found: list[tuple[str, str, Vendor]] = []
    if names.VENDOR in annotations:
        text = annotations[names.VENDOR]
        if text not in PLACED_VENDORS:
            known = " or ".join(vendor.value for vendor in PLACED_VENDORS)
            problem = "is not placed by this version" if text in set(Vendor) else "is no vendor we know"
            raise InvalidRequest(_annotation(names.VENDOR), text, problem, f"write {known}")
        found.append((_annotation(names.VENDOR), text, Vendor(text)))
    if accel is not None:
        found.append((_annotation(names.ACCEL_VERSION), annotations[names.ACCEL_VERSION], accel.vendor))
    for container in containers:
        if container.name in asking:
            found += [
                (container.field(resource), str(count), VENDOR_RESOURCES[resource])
                for resource, count in counts[container.name].items()
                if count
            ]
    found += [(unit.field, str(unit.count), vendor_of(unit.resource)) for unit in units]
    for field, text, vendor in found[1:]:
        first_field, first_text, first = found[0]
        if vendor is not first:
            raise InvalidRequest(
                field,
                text,
                f"means {vendor.label} cards, while {first_field}, which is {first_text!r}, means {first.label} cards",
                "keep one vendor",
            )
    return found[0][2] if found else None


def _accel(annotations: Mapping[str, str]) -> AccelRequirement | None:
    text = annotations.get(names.ACCEL_VERSION)
    return None if text is None else parse_requirement(text, _annotation(names.ACCEL_VERSION))


def _policy(annotations: Mapping[str, str]) -> Policy:
    text = annotations.get(names.POLICY)
    if text is None:
        return Policy.BINPACK
    if text not in set(Policy):
        known = ", ".join(policy.value for policy in Policy)
        raise InvalidRequest(_annotation(names.POLICY), text, "is no policy", f"write one of: {known}")
    return Policy(text)


def _refuse_lone_details(annotations: Mapping[str, str]) -> None:
    for key in sorted(names.ASK_ANNOTATIONS - {names.VRAM, names.GPUS}):
        if key in annotations:
            raise InvalidRequest(
                _annotation(key),
                annotations[key],
                "says more about an ask that the pod does not make",
                f"add {names.VRAM} with the GB per card, or remove it",
            )


def _refuse_unbooked_devices(containers: Iterable[Container], asking: set[str], zero: set[str]) -> None:
    """Refuses a container that would see cards that nothing is booked on.

    One that asks, or asks for zero, has the variable set for it; so has an init container of a pod that asks.
    """
    for container in containers:
        if container.name in asking or container.name in zero or (asking and container.role is Role.INIT):
            continue
        if container.visible_devices is not None:
            raise InvalidRequest(
                f"containers[{container.name}].env[{names.NVIDIA_VISIBLE_DEVICES}]",
                container.visible_devices,
                "would show cards that nothing is booked on",
                f"ask for memory with the annotation {names.VRAM} and remove the variable",
            )


def _annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _words(ask: Ask, vendor: Vendor | None) -> str:
    whose = f"{vendor.label} " if vendor else ""
    before = f" (before it starts: {', '.join(map(str, ask.init))})" if ask.init else ""
    if ask.amount.is_whole:
        return (f"a whole {whose}card" if ask.count == 1 else f"{ask.count} whole {whose}cards") + before
    where = f"one {whose}card" if ask.count == 1 else f"each of {ask.count} {whose}cards"
    return f"{ask.amount} on {where}{before}"
