"""Amounts and counts as they stand on a pod: where, in whose words, and how one contradicts another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from shared.core import quantity
from shared.core.amounts import Amount
from shared.core.containers import Container
from shared.core.invalid import InvalidRequest

MOST_CARDS = 64
"""No node carries more cards than this; a larger count is a slip."""


class Source(StrEnum):
    """What an ask was read from; stands in the `kamiwaza.ai/placed` annotation."""

    ANNOTATION = "annotation"
    RESOURCE = "resource"
    HAMI = "hami"
    KAI = "kai"
    VENDOR_COUNT = "vendor-count"
    UNITS = "vendor-units"


@dataclass(frozen=True, slots=True)
class FoundAmount:
    """GB per card that stand at `field` as `text`."""

    field: str
    text: str
    amount: Amount
    source: Source

    @property
    def value(self) -> Amount:
        return self.amount

    @property
    def shown(self) -> str:
        return repr(self.text)


@dataclass(frozen=True, slots=True)
class FoundCount:
    """A number of cards that stands at `field`."""

    field: str
    number: int
    source: Source

    @property
    def text(self) -> str:
        return str(self.number)

    @property
    def value(self) -> int:
        return self.number

    @property
    def shown(self) -> str:
        return self.text


_Found = TypeVar("_Found", FoundAmount, FoundCount)


def the_one(found: Sequence[_Found], what: str) -> _Found | None:
    """The first of several that all say the same. Raises `InvalidRequest` where two differ; `what` names their kind."""
    for other in found[1:]:
        if other.value != found[0].value:
            raise InvalidRequest(
                other.field,
                other.text,
                f"contradicts {found[0].field}, which is {found[0].shown}: two {what} for one container",
                "keep one of the two",
            )
    return found[0] if found else None


def annotation_field(key: str) -> str:
    """Where a pod annotation stands, for a refusal."""
    return f"metadata.annotations[{key}]"


def limit_of(container: Container, resource: str) -> str | None:
    """The text of an extended resource on a container, which must stand in its limits. Raises `InvalidRequest`."""
    request, limit = container.requests.get(resource), container.limits.get(resource)
    if request is not None and (limit is None or not _same_quantity(request, limit)):
        raise InvalidRequest(
            container.field(resource, "requests"),
            request,
            "stands in requests without limits" if limit is None else f"differs from its limit, which is {limit!r}",
            f"write {resource} in resources.limits; the request follows by itself",
        )
    return limit


def number_of_cards(text: str, field: str, *, least: int = 1) -> int:
    """A whole number of cards, however Kubernetes lets one write it (`2`, `2000m`, `2e0`). Raises `InvalidRequest`."""
    number = whole_number(text)
    if number is None or not least <= number <= MOST_CARDS:
        raise InvalidRequest(
            field, text, "is not a number of cards", f"write a whole number from {least} to {MOST_CARDS}"
        )
    return number


def whole_number(text: str) -> int | None:
    """The whole number that a quantity stands for, or None if it is no quantity or not whole."""
    try:
        number = quantity.parse(text)
    except quantity.QuantityError:
        return None
    return int(number) if number.denominator == 1 else None


def _same_quantity(one: str, other: str) -> bool:
    """Whether two texts stand for one quantity (`1`, `1000m`), or are equal where they stand for none."""
    try:
        return quantity.parse(one) == quantity.parse(other)
    except quantity.QuantityError:
        return one == other
