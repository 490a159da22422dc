"""KAI's annotations: MiB or a fraction of each card, for one container of the pod.

The rules are those of KAI's own admission check: an amount stands alone, never beside whole cards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from shared.api import names
from shared.core import quantity
from shared.core.amounts import Amount
from shared.core.found import FoundAmount, FoundCount, Source, annotation_field, number_of_cards
from shared.core.invalid import InvalidRequest
from shared.core.mebibytes import parse_mebibytes


@dataclass(frozen=True, slots=True)
class KaiAsk:
    """What a pod asks in KAI's words: `amount` on each of `count` cards, one where that is not said."""

    amount: FoundAmount
    count: FoundCount | None


def read_kai(annotations: Mapping[str, str], vendor_counts: Mapping[str, Mapping[str, int]]) -> KaiAsk | None:
    """The ask in KAI's words, or None without one. `vendor_counts` are those of all containers, by name.

    Raises `InvalidRequest`.
    """
    amounts = [
        FoundAmount(annotation_field(key), annotations[key], parse(annotations[key], annotation_field(key)), Source.KAI)
        for key, parse in ((names.KAI_MEMORY, _memory), (names.KAI_FRACTION, _fraction))
        if key in annotations
    ]
    count = None
    if names.KAI_DEVICES in annotations:
        field = annotation_field(names.KAI_DEVICES)
        count = FoundCount(field, number_of_cards(annotations[names.KAI_DEVICES], field), Source.KAI)
    if not amounts:
        if count is not None:
            raise InvalidRequest(
                count.field,
                count.text,
                "says how many cards but not how much memory of each",
                f"add the annotation {names.KAI_FRACTION} or {names.KAI_MEMORY}",
            )
        return None
    if len(amounts) > 1:
        memory, fraction = amounts
        raise InvalidRequest(
            fraction.field,
            fraction.text,
            f"stands beside {memory.field}, which is {memory.text!r}: two amounts for one container",
            "keep one of the two",
        )
    for container, counts in vendor_counts.items():
        for resource, number in counts.items():
            if number:
                raise InvalidRequest(
                    amounts[0].field,
                    amounts[0].text,
                    f"asks for a part of a card beside whole ones, {resource}: {number} of container {container}",
                    f"remove {resource}, or remove the annotation",
                )
    return KaiAsk(amounts[0], count)


def _memory(text: str, field: str) -> Amount:
    return parse_mebibytes(text, field, plain=True)


def _fraction(text: str, field: str) -> Amount:
    try:
        part = quantity.parse(text)
    except quantity.QuantityError:
        part = Fraction(0)
    if not 0 < part <= 1:
        raise InvalidRequest(
            field, text, "is not a part of a card", 'write a number above 0 and up to 1, such as "0.5"'
        )
    return Amount(percent=part * 100)
