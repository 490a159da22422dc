"""HAMi's resources: MiB or a percentage of each card, and what has no meaning for memory.

`nvidia.com/gpu` is the number of cards, 1 where it is left out. https://project-hami.io/docs/userguide/nvidia-device
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from shared.api import names
from shared.core.amounts import WHOLE, Amount
from shared.core.cards import Vendor
from shared.core.containers import Container
from shared.core.found import FoundAmount, Source, limit_of, whole_number
from shared.core.invalid import InvalidRequest
from shared.core.mebibytes import parse_mebibytes

_MEMORY: Mapping[str, Vendor] = {names.NVIDIA_GPUMEM: Vendor.NVIDIA, names.AMD_GPUMEM: Vendor.AMD}
_CORES: Mapping[str, Vendor] = {names.NVIDIA_GPUCORES: Vendor.NVIDIA, names.AMD_GPUCORES: Vendor.AMD}
_PERCENTAGE: Mapping[str, Vendor] = {names.NVIDIA_GPUMEM_PERCENTAGE: Vendor.NVIDIA}
_WORDS: Mapping[str, Vendor] = {**_MEMORY, **_PERCENTAGE, **_CORES}


def hami_amounts(container: Container, *, none_wanted: bool) -> Iterator[FoundAmount]:
    """What a container asks for in HAMi's words. Raises `InvalidRequest`.

    `none_wanted` says that the container counts its cards as zero; memory of zero then goes with it.
    """
    for resource in (*_MEMORY, *_PERCENTAGE):
        text = limit_of(container, resource)
        if text is not None and not (none_wanted and whole_number(text) == 0):
            field = container.field(resource)
            amount = parse_mebibytes(text, field) if resource in _MEMORY else _percentage(text, field)
            yield FoundAmount(field, text, amount, Source.HAMI)


def hami_whole_card(container: Container) -> FoundAmount | None:
    """The ask of a container that names a share of a card's cores and neither memory nor a number of cards."""
    for resource in _CORES:
        text = container.limits.get(resource)
        if text is not None and whole_number(text) != 0:
            return FoundAmount(container.field(resource), text, WHOLE, Source.HAMI)
    return None


def hami_vendors(container: Container) -> Iterator[tuple[str, str, Vendor]]:
    """Whose cards the words of a container mean, with field and text."""
    for resource, vendor in _WORDS.items():
        text = container.limits.get(resource)
        if text is not None and whole_number(text) != 0:
            yield container.field(resource), text, vendor


def check_hami_details(container: Container, *, asks: bool) -> None:
    """Raises `InvalidRequest` where a share of the cores or a priority is no number, or stands beside no ask.

    No node offers them here: left on a container that asks for nothing they would keep the pod from starting.
    """
    for resource in (*_CORES, names.NVIDIA_PRIORITY):
        text = limit_of(container, resource)
        if text is None:
            continue
        field, number = container.field(resource), whole_number(text)
        if resource in _CORES and (number is None or not 0 <= number <= 100):
            raise InvalidRequest(
                field, text, "is not a percentage of a card's cores", "write a whole number from 0 to 100"
            )
        if number is None or number < 0:
            raise InvalidRequest(field, text, "is not a priority", "write 0 (high) or 1 (low)")
        if number and not asks:
            raise InvalidRequest(
                field,
                text,
                "says more about an ask that the container does not make",
                f"ask for cards with {names.NVIDIA_GPU}, or remove it",
            )


def _percentage(text: str, field: str) -> Amount:
    number = whole_number(text)
    if number is None or not 1 <= number <= 100:
        raise InvalidRequest(field, text, "is not a percentage of a card", "write a whole number from 1 to 100")
    return Amount(percent=Fraction(number))
