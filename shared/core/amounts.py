"""How much of a card a pod asks for: whole GB, a percentage of the card, or all of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from shared.core.cards import Card
from shared.core.invalid import InvalidRequest

LARGEST_GB = 65536
"""No card comes near 64 TB; an ask beyond it is a slip of the unit."""

_NUMBER = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(m|k|Ki|Mi|Gi|Ti)?\Z")
_PERCENT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)%\Z")
_LOOSE = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(?:g|gb|gib|gig|gigs|gigabytes?)?\s*\Z", re.IGNORECASE)
_EXPONENT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)[eE]\+?([0-9])\Z")

# `m`, `k` and `Ki` are what the API server makes of 1.5, 2000 and 6144.5Mi in a resource.
_SCALE = {
    None: Fraction(1),
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    "Ki": Fraction(1, 1024**2),
    "Mi": Fraction(1, 1024),
    "Gi": Fraction(1),
    "Ti": Fraction(1024),
}


@dataclass(frozen=True, slots=True)
class Amount:
    """GB asked of each card: `gb` of them, or `percent` of the card's budget. 100 % is a whole card."""

    gb: int | None = None
    percent: Fraction | None = None

    def on(self, card: Card, *, exclusive: bool = False) -> int:
        """Whole GB this takes of `card`. Rounds up; at least 1, and the full budget where cards are exclusive."""
        return max(card.budget_gb, self.gb or 0) if exclusive else self.of(card.budget_gb)

    def of(self, budget_gb: int) -> int:
        """Whole GB this is of a card with such a budget. Rounds up; at least 1."""
        if self.gb is not None:
            return self.gb
        assert self.percent is not None
        return max(1, _ceil(Fraction(budget_gb) * self.percent / 100))

    @property
    def is_whole(self) -> bool:
        return self.percent == 100

    def __str__(self) -> str:
        if self.gb is not None:
            return f"{self.gb} GB"
        if self.is_whole:
            return "all memory"
        assert self.percent is not None
        return f"{float(self.percent):g} % of the memory"


WHOLE = Amount(percent=Fraction(100))


def parse_amount(text: str, field: str, *, annotation: bool) -> Amount:
    """The amount that `text` stands for: `6`, `6.5` (rounds up), `6Gi`, `6144Mi`, and in an annotation `50%` and
    `whole`.

    Raises `InvalidRequest` for anything else, with the form that was probably meant.
    """
    if annotation and text == "whole":
        return WHOLE
    if annotation and text == "auto":
        raise InvalidRequest(
            field,
            text,
            "asks for an estimate, which this version does not make",
            'write the GB per card, such as "24"',
        )
    if percent := _PERCENT.match(text):
        return _parse_percent(text, percent, field, annotation=annotation)
    number = _NUMBER.match(text)
    if number is None:
        raise InvalidRequest(field, text, "is not an amount of memory", _suggest(text, annotation=annotation))
    gb = Fraction(number[1]) * _SCALE[number[2]]
    if gb == 0:
        raise InvalidRequest(field, text, "asks for no memory", 'write at least "1", or remove the ask')
    if gb > LARGEST_GB:
        raise InvalidRequest(field, text, "is larger than any card", f"write the GB per card, at most {LARGEST_GB}")
    return Amount(gb=_ceil(gb))


def _parse_percent(text: str, match: re.Match[str], field: str, *, annotation: bool) -> Amount:
    if not annotation:
        raise InvalidRequest(field, text, "is a percentage in a resource", "write it as a pod annotation instead")
    percent = Fraction(match[1])
    if not 0 < percent <= 100:
        raise InvalidRequest(
            field, text, "is not a part of a card", 'write a percentage above 0 and up to 100, such as "50%"'
        )
    return Amount(percent=percent)


def _suggest(text: str, *, annotation: bool) -> str:
    """What to write instead of `text`: the amount it seems to mean if that is one, else the forms there are."""
    if (loose := _LOOSE.match(text)) and _is_card_size(Fraction(loose[1])):
        return f'write "{loose[1]}"'
    if exponent := _EXPONENT.match(text):
        number = Fraction(exponent[1]) * 10 ** int(exponent[2])
        if _is_card_size(number):
            return f'write the number out: "{_ceil(number)}"'
    if annotation:
        return 'write the GB per card, such as "6", "6Gi", "6144Mi", "50%" or "whole"'
    return 'write the GB per card, such as "6", "6Gi" or "6144Mi"'


def _is_card_size(gb: Fraction) -> bool:
    return 0 < gb <= LARGEST_GB


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
