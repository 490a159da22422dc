"""What each container of a pod asks: GB per card and number of cards, from annotations and resources.

A wrong value is refused and never read as zero or as a whole card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from shared.api import names
from shared.core import quantity
from shared.core.amounts import WHOLE, Amount, parse_amount
from shared.core.cards import Vendor
from shared.core.containers import Container, Role
from shared.core.invalid import InvalidRequest

MOST_CARDS = 64
"""No node carries more cards than this; a larger count is a slip."""

MOST_ASKS = 16
"""Containers of one pod that may ask: how to share cards among more takes too long to work out."""

VENDOR_RESOURCES: Mapping[str, Vendor] = {names.NVIDIA_GPU: Vendor.NVIDIA, names.AMD_GPU: Vendor.AMD}

VendorCounts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Container name to its vendor GPU resources and their counts, zeros included."""


class Source(StrEnum):
    """What an ask was read from; stands in the `kamiwaza.ai/placed` annotation."""

    ANNOTATION = "annotation"
    RESOURCE = "resource"
    VENDOR_COUNT = "vendor-count"
    UNITS = "vendor-units"


@dataclass(frozen=True, slots=True)
class Ask:
    """`amount` GB on each of `count` distinct cards of one node, for one container.

    `init` are the amounts that ordinary init containers need on the same cards before the container starts: the request
    covers them, the engine's own limit does not. `init_containers` are all that use the cards, asking or not.
    """

    container: str
    amount: Amount
    count: int
    source: Source
    field: str
    init: tuple[Amount, ...] = ()
    init_containers: tuple[str, ...] = ()

    @property
    def least_gb(self) -> int:
        """GB that it takes of any card at the least."""
        return max(amount.gb or 1 for amount in (self.amount, *self.init))


def vendor_counts(containers: Sequence[Container]) -> VendorCounts:
    """The vendor GPU resources of every container. Raises `InvalidRequest`."""
    return {container.name: _vendor_counts(container) for container in containers}


def read_asks(annotations: Mapping[str, str], containers: Sequence[Container], counts: VendorCounts) -> tuple[Ask, ...]:
    """The asks of `containers`, those of ordinary init containers included. Raises `InvalidRequest`."""
    pod_level = _pod_level_target(annotations, containers, counts)
    found = (
        _ask(annotations, container, counts[container.name], pod_level=container.name == pod_level)
        for container in containers
    )
    asks = tuple(ask for ask in found if ask is not None)
    if len(asks) > MOST_ASKS:
        one_more = asks[MOST_ASKS]
        raise InvalidRequest(
            one_more.field,
            str(one_more.amount),
            f"is the ask of one container more than the {MOST_ASKS} that may ask in one pod",
            "spread the containers over several pods",
        )
    return asks


def _ask(
    annotations: Mapping[str, str], container: Container, vendor: Mapping[str, int], *, pod_level: bool
) -> Ask | None:
    amount = _amount(annotations, container, pod_level=pod_level)
    count = _count(annotations, container, vendor, pod_level=pod_level)
    if amount is None:
        if count is None or count.number == 0:
            return None
        if count.source is not Source.VENDOR_COUNT:
            raise InvalidRequest(
                count.field,
                str(count.number),
                "says how many cards but not how much memory of each",
                f'add the annotation {names.VRAM} with the GB per card, or "whole"',
            )
        return Ask(container.name, WHOLE, count.number, count.source, count.field)
    if count is not None and count.number == 0:
        raise InvalidRequest(
            count.field,
            "0",
            f"asks for no card beside {amount.field}, which asks for {amount.amount}",
            "remove one of the two",
        )
    return Ask(container.name, amount.amount, count.number if count else 1, amount.source, amount.field)


def _pod_level_target(
    annotations: Mapping[str, str], containers: Sequence[Container], counts: VendorCounts
) -> str | None:
    """The container that a pod-level ask is for, or None if there is no such ask."""
    lasting = [container.name for container in containers if container.role is not Role.INIT]
    named = annotations.get(names.CONTAINER)
    if named is not None and named not in lasting:
        raise InvalidRequest(
            f"metadata.annotations[{names.CONTAINER}]",
            named,
            "is no container of this pod that keeps running",
            f"write one of: {', '.join(lasting)}",
        )
    asked = [key for key in (names.VRAM, names.GPUS) if key in annotations]
    if not asked:
        return None
    if named is not None:
        return named
    # Sidecars come last: the helpers that meshes and agents add do not make it unclear which container serves.
    with_gpu = [name for name in lasting if any(counts[name].values())]
    candidates = with_gpu or [container.name for container in containers if container.role is Role.APP]
    if len(candidates) == 1:
        return candidates[0]
    raise InvalidRequest(
        f"metadata.annotations[{asked[0]}]",
        annotations[asked[0]],
        f"may be meant for any of several containers ({', '.join(candidates)})",
        f"add the annotation {names.CONTAINER}, or write {names.VRAM_OF_CONTAINER_PREFIX}<container>",
    )


@dataclass(frozen=True, slots=True)
class _FoundAmount:
    field: str
    text: str
    amount: Amount
    source: Source


def _amount(annotations: Mapping[str, str], container: Container, *, pod_level: bool) -> _FoundAmount | None:
    found: list[_FoundAmount] = []
    for key in (names.VRAM_OF_CONTAINER_PREFIX + container.name, *((names.VRAM,) if pod_level else ())):
        if key in annotations:
            field, text = f"metadata.annotations[{key}]", annotations[key]
            found.append(_FoundAmount(field, text, parse_amount(text, field, annotation=True), Source.ANNOTATION))
    resource = _limit(container, names.VRAM)
    if resource is not None:
        field = container.field(names.VRAM)
        found.append(_FoundAmount(field, resource, parse_amount(resource, field, annotation=False), Source.RESOURCE))
    for other in found[1:]:
        if other.amount != found[0].amount:
            raise InvalidRequest(
                other.field,
                other.text,
                f"contradicts {found[0].field}, which is {found[0].text!r}: two amounts for one container",
                "keep one of the two",
            )
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class _FoundCount:
    field: str
    number: int
    source: Source


def _count(
    annotations: Mapping[str, str], container: Container, vendor: Mapping[str, int], *, pod_level: bool
) -> _FoundCount | None:
    found: list[_FoundCount] = []
    if pod_level and names.GPUS in annotations:
        field = f"metadata.annotations[{names.GPUS}]"
        found.append(_FoundCount(field, _whole_number(annotations[names.GPUS], field), Source.ANNOTATION))
    resource = _limit(container, names.GPUS)
    if resource is not None:
        field = container.field(names.GPUS)
        found.append(_FoundCount(field, _whole_number(resource, field), Source.RESOURCE))
    # A zero for one vendor's cards takes nothing away from the cards of another.
    wanted = {name: number for name, number in vendor.items() if number} or vendor
    found += [_FoundCount(container.field(name), number, Source.VENDOR_COUNT) for name, number in wanted.items()]
    for other in found[1:]:
        if other.number != found[0].number:
            raise InvalidRequest(
                other.field,
                str(other.number),
                f"contradicts {found[0].field}, which is {found[0].number}: two counts for one container",
                "keep one of the two",
            )
    return found[0] if found else None


def _vendor_counts(container: Container) -> dict[str, int]:
    texts = {resource: _limit(container, resource) for resource in VENDOR_RESOURCES}
    return {
        resource: _whole_number(text, container.field(resource), least=0)
        for resource, text in texts.items()
        if text is not None
    }


def _limit(container: Container, resource: str) -> str | None:
    """The text of an extended resource on a container, which must stand in its limits."""
    request, limit = container.requests.get(resource), container.limits.get(resource)
    if request is not None and (limit is None or not _same_quantity(request, limit)):
        raise InvalidRequest(
            container.field(resource, "requests"),
            request,
            "stands in requests without limits" if limit is None else f"differs from its limit, which is {limit!r}",
            f"write {resource} in resources.limits; the request follows by itself",
        )
    return limit


def _same_quantity(one: str, other: str) -> bool:
    """Whether two texts stand for one quantity (`1`, `1000m`), or are equal where they stand for none."""
    try:
        return quantity.parse(one) == quantity.parse(other)
    except quantity.QuantityError:
        return one == other


def _whole_number(text: str, field: str, *, least: int = 1) -> int:
    try:
        number = quantity.parse(text)
    except quantity.QuantityError:
        number = None
    if number is None or number.denominator != 1 or not least <= number <= MOST_CARDS:
        raise InvalidRequest(
            field, text, "is not a number of cards", f"write a whole number from {least} to {MOST_CARDS}"
        )
    return int(number)
