"""What a pod asks of the cards: read from its annotations and resources, the first rule that matches wins.

1. `kamiwaza.ai/vram-gb` and `kamiwaza.ai/gpus`, as pod annotations or container resources.
2. The words of HAMi (`nvidia.com/gpumem`) and KAI (`gpu-fraction`).
3. A vendor's GPU resource alone (`nvidia.com/gpu: 2`): so many whole cards.

MIG slices (`nvidia.com/mig-2g.20gb`) and shared replicas are units of their own beside these.

A wrong value is refused and never read as zero or as a whole card.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.api import names
from shared.core.accel import AllOf, Requirement, parse_requirement
from shared.core.asked_words import OUR_WORDS, Words, word_of
from shared.core.asks import VENDOR_RESOURCES, Ask, VendorCounts, read_asks, vendor_counts
from shared.core.card_filter import CardFilter, filter_keys, filter_words, read_card_filters
from shared.core.cards import PLACED_VENDORS, Card, Vendor
from shared.core.containers import Container, Role, mapping, read_containers, texts
from shared.core.found import annotation_field
from shared.core.hami_words import hami_vendors
from shared.core.init_containers import fold_init_containers
from shared.core.invalid import InvalidRequest
from shared.core.misspelt import refuse_misspelt
from shared.core.require_cuda import NotUnderstood, required_cuda
from shared.core.unit_asks import UnitAsk, read_unit_asks
from shared.core.units import is_unit, vendor_of

FOREIGN_RESOURCES = frozenset({*VENDOR_RESOURCES, *names.HAMI_RESOURCES})
"""Other systems' resources that are read as an ask."""

REPLACED_RESOURCES = frozenset({names.VRAM, names.GPUS, *FOREIGN_RESOURCES})
"""What a placed pod no longer asks of its node: its shares of cards stand in their place."""

_MOST_SHOWN = 64


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
    """Everything a pod asks: GB per card and number of cards by container, vendor, accelerator version, policy, and
    which cards of that vendor only.

    `units` are asks for units of a vendor's resource, which pass through. `own` are the vendor's resources that
    containers name themselves for cards, with their counts, and `roles` the containers in the order of the pod. `words`
    are those that vendor, version and the choice among cards were read from.
    """

    asks: tuple[Ask, ...]
    vendor: Vendor | None = None
    accel: Requirement | None = None
    policy: Policy = Policy.BINPACK
    only: CardFilter | None = None
    units: tuple[UnitAsk, ...] = ()
    own: tuple[tuple[str, str, int], ...] = ()
    roles: tuple[tuple[str, Role], ...] = ()
    words: Words = OUR_WORDS

    @property
    def cards(self) -> int:
        """The most cards, or units of one resource, that one container needs."""
        return max([*(ask.count for ask in self.asks), *(unit.count for unit in self.units)])

    def suits(self, card: Card) -> bool:
        """Whether a card is of a kind that the pod may have, whatever room it has."""
        return self.vendor in (None, card.vendor) and self.admits(card)

    def admits(self, card: Card) -> bool:
        """Whether a card passes the pod's own choice among the cards of its vendor."""
        return self.only is None or self.only.admits(card)

    def __str__(self) -> str:
        parts = [*(_words(ask, self.vendor) for ask in self.asks), *map(str, self.units)]
        asks = " and ".join(parts)
        if self.only is None:
            return asks
        return f"{asks} {self.only}" if len(parts) == 1 else f"{asks}, each {self.only}"


@dataclass(frozen=True, slots=True)
class ReadPod:
    """A pod as far as cards are concerned: its containers, its demand if it asks, and who must see no device at all.

    `hidden` are the containers that ask for zero GPUs: without a word they would see every card of the node. `warnings`
    are about words that were passed over.
    """

    containers: tuple[Container, ...]
    demand: Demand | None
    hidden: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def read_pod(pod: Mapping[str, Any], meant: Collection[str] = ()) -> ReadPod:
    """What `pod` asks for. Raises `InvalidRequest` where an ask is malformed, contradictory or cannot be attributed.

    An ask that may be for any of several containers is for those that are `meant`.
    """
    metadata = mapping(pod.get("metadata"), "metadata")
    annotations = texts(metadata.get("annotations"), "metadata.annotations")
    labels = texts(metadata.get("labels"), "metadata.labels")
    containers = read_containers(pod)
    refuse_misspelt(annotations, labels, containers)

    counts = vendor_counts(containers)
    asks = read_asks(annotations, containers, counts, meant)
    read_units = read_unit_asks(containers, asks)
    units = tuple(unit for unit in read_units if unit.count)
    asking = {ask.container for ask in asks} | {unit.container for unit in units}
    zero = {unit.container for unit in read_units} | {name for name, count in counts.items() if count}
    _refuse_unbooked_devices(containers, asking | zero, asks, units)
    hidden = tuple(each.name for each in containers if each.name in zero and each.name not in asking)
    if not asks and not units:
        _refuse_lone_details(annotations)
        return ReadPod(containers, None, hidden)
    named = annotations.get(names.CONTAINER)
    # A container with units has its memory by them: what an init container asks beside them has no card to go to.
    cannot_carry = {*hidden, *(unit.container for unit in units)}
    may_carry = [
        each.name
        for each in containers
        if each.name not in cannot_carry and (each.name == named if named is not None else each.role is Role.APP)
    ]
    may_carry = [name for name in may_carry if name in meant] or may_carry
    folded = fold_init_containers(asks, containers, may_carry) if asks else ()
    accel = _accel(annotations)
    users = asking.union(*(ask.init_containers for ask in folded))
    cuda, warnings = _required_cuda([container for container in containers if container.name in users])
    asking_containers = [container for container in containers if container.name in asking]
    vendor, vendor_words = _vendor(annotations, asking_containers, counts, units, accel)
    version_words: tuple[str, ...] = () if accel is None else (names.ACCEL_VERSION,)
    if cuda is not None and vendor not in (None, Vendor.NVIDIA):
        warnings.append(f"{names.NVIDIA_REQUIRE_CUDA} is passed over, since the pod asks for {vendor.label} cards")
    elif cuda is not None:
        vendor, accel = Vendor.NVIDIA, cuda if accel is None else AllOf((accel, cuda))
        version_words += (names.NVIDIA_REQUIRE_CUDA,)
        vendor_words += (names.NVIDIA_REQUIRE_CUDA,)
    demand = Demand(
        asks=folded,
        vendor=vendor,
        accel=accel,
        policy=_policy(annotations),
        only=read_card_filters(annotations).get(vendor) if vendor else None,
        units=units,
        own=tuple((name, resource, n) for name, count in counts.items() for resource, n in count.items() if n),
        roles=tuple((each.name, each.role) for each in containers),
        words=Words(
            vendor=vendor_words or (names.VENDOR,),
            version=version_words or (names.ACCEL_VERSION,),
            choice=filter_keys(annotations, vendor) if vendor else (),
        ),
    )
    return ReadPod(containers, demand, hidden, tuple(warnings))


def _vendor(
    annotations: Mapping[str, str],
    asking: Iterable[Container],
    counts: VendorCounts,
    units: Sequence[UnitAsk],
    accel: Requirement | None,
) -> tuple[Vendor | None, tuple[str, ...]]:
    """The one vendor that the pod's words mean, or None if any will do, and those words. CUDA means NVIDIA, ROCm means
    AMD.

    A choice among cards means their vendor only where nothing else means one: templates carry it to every pod.
    """
    found: list[tuple[str, str, Vendor]] = []
    if names.VENDOR in annotations:
        text = annotations[names.VENDOR]
        if text not in set(Vendor):
            known = [vendor.value for vendor in PLACED_VENDORS]
            meant = text.strip().lower()
            fix = f"write {meant if meant in known else ' or '.join(known)}"
            raise InvalidRequest(annotation_field(names.VENDOR), text, "is no vendor we know", fix)
        found.append((annotation_field(names.VENDOR), text, Vendor(text)))
    if accel is not None:
        found.append((annotation_field(names.ACCEL_VERSION), annotations[names.ACCEL_VERSION], accel.vendor))
    found += [
        (annotation_field(key), annotations[key], Vendor.NVIDIA)
        for key in (names.KAI_MEMORY, names.KAI_FRACTION)
        if key in annotations
    ]
    for container in asking:
        found += [
            (container.field(resource), str(count), VENDOR_RESOURCES[resource])
            for resource, count in counts[container.name].items()
            if count
        ]
        found += hami_vendors(container)
    found += [(unit.field, str(unit.count), vendor_of(unit.resource)) for unit in units]
    found = found or list(filter_words(annotations))
    for field, text, vendor in found[1:]:
        first_field, first_text, first = found[0]
        if vendor is not first:
            raise InvalidRequest(
                field,
                text,
                f"means {vendor.label} cards, while {first_field}, which is {first_text!r}, means {first.label} cards",
                "keep one vendor",
            )
    return found[0][2] if found else None, tuple(word_of(field) for field, *_ in found)


def _accel(annotations: Mapping[str, str]) -> Requirement | None:
    text = annotations.get(names.ACCEL_VERSION)
    return None if text is None else parse_requirement(text, annotation_field(names.ACCEL_VERSION))


def _required_cuda(users: Iterable[Container]) -> tuple[Requirement | None, list[str]]:
    """What the containers that use cards require of CUDA by their variable, and warnings where it is not understood.

    It is a convention of images, whose makers write it and whose runtime checks it again, so it is no reason to refuse.
    """
    found: dict[Requirement, None] = {}
    warnings: list[str] = []
    for container in users:
        try:
            required = required_cuda(container)
        except NotUnderstood as error:
            warnings.append(
                f"container {container.name}: {names.NVIDIA_REQUIRE_CUDA} is {str(error)[:_MOST_SHOWN]!r}, which "
                "is not understood and passed over"
            )
            continue
        if required is not None:
            found[required] = None
    parts = tuple(found)
    if not parts:
        return None, warnings
    return parts[0] if len(parts) == 1 else AllOf(parts), warnings


def _policy(annotations: Mapping[str, str]) -> Policy:
    text = annotations.get(names.POLICY)
    if text is None:
        return Policy.BINPACK
    if text not in set(Policy):
        known = ", ".join(policy.value for policy in Policy)
        raise InvalidRequest(annotation_field(names.POLICY), text, "is no policy", f"write one of: {known}")
    return Policy(text)


def _refuse_lone_details(annotations: Mapping[str, str]) -> None:
    for key in sorted(names.ASK_ANNOTATIONS - {names.VRAM, names.GPUS}):
        if key in annotations:
            raise InvalidRequest(
                annotation_field(key),
                annotations[key],
                "says more about an ask that the pod does not make",
                f"add {names.VRAM} with the GB per card, or remove it",
            )


def _refuse_unbooked_devices(
    containers: Sequence[Container], told: set[str], asks: Sequence[Ask], units: Sequence[UnitAsk]
) -> None:
    """Refuses a container that would see cards that nothing is booked on.

    Those that have `told` what they ask, zero or more, have the variable set for them. An init container of a pod that
    asks for cards is given those of the container it prepares; units name no card that could be given.
    """
    for container in containers:
        if container.name in told or (asks and container.role is Role.INIT):
            continue
        if container.visible_devices is not None:
            raise InvalidRequest(
                f"containers[{container.name}].env[{names.NVIDIA_VISIBLE_DEVICES}]",
                container.visible_devices,
                "would show cards that nothing is booked on",
                _booking(container, units, alone=len(containers) == 1),
            )


def _booking(container: Container, units: Sequence[UnitAsk], *, alone: bool) -> str:
    """How a container gets cards, or sees none. Beside others, the pod's own amount may be meant for one of those."""
    if alone:
        return f"ask for memory with the annotation {names.VRAM} and remove the variable"
    if container.role is Role.INIT and units:
        # Units of its own would do, but the kubelet ends a running pod whose init container has any when it restarts.
        return f"set it to void to see no card, and do what needs one in container {units[0].container}"
    own = f"{names.VRAM_OF_CONTAINER_PREFIX}{container.name}"
    return f"ask for its memory with the annotation {own} and remove the variable, or set it to void to see no card"


def _words(ask: Ask, vendor: Vendor | None) -> str:
    whose = f"{vendor.label} " if vendor else ""
    before = f" (before it starts: {', '.join(map(str, ask.init))})" if ask.init else ""
    if ask.amount.is_whole:
        return (f"a whole {whose}card" if ask.count == 1 else f"{ask.count} whole {whose}cards") + before
    where = f"one {whose}card" if ask.count == 1 else f"each of {ask.count} {whose}cards"
    return f"{ask.amount} on {where}{before}"
