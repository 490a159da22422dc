"""Amounts that other systems count in MiB: `8192` is 8 GB, and 5000 rounds up to 5."""

from __future__ import annotations

import re
from fractions import Fraction

from shared.core import quantity
from shared.core.amounts import Amount
from shared.core.cards import MIB_PER_GB, gb_for_mib
from shared.core.invalid import InvalidRequest

_MOST_MIB = 2048 * MIB_PER_GB
"""No card comes near 2 TB; an ask beyond it is a slip of the unit, such as `16M`."""

_BYTES_PER_MIB = 1024**2
_SIZE = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(m|g|t)(i?)b?\s*\Z", re.IGNORECASE)
_SCALE = {"m": 1, "g": 1024, "t": 1024**2}


def parse_mebibytes(text: str, field: str, *, plain: bool = False) -> Amount:
    """The amount of `text` MiB: any Kubernetes quantity that is a whole number, or only digits where `plain`.

    Raises `InvalidRequest`, with the number that was probably meant: a size with a unit (`16Gi`) is a number of
    bytes to Kubernetes, and would be that many MiB.
    """
    mib = _quantity(text)
    if mib is None or mib.denominator != 1 or mib < 0 or (plain and not text.isdigit()):
        raise InvalidRequest(field, text, "is not a whole number of MiB", _suggest(text))
    if mib == 0:
        raise InvalidRequest(field, text, "asks for no memory", "write the MiB per card, or remove the ask")
    if mib > _MOST_MIB:
        raise InvalidRequest(field, text, "is larger than any card, since it counts MiB", _suggest(text))
    return Amount(gb=gb_for_mib(int(mib)))


def _suggest(text: str) -> str:
    """What to write instead: the MiB of the size that `text` seems to be."""
    if (size := _SIZE.match(text)) and not text.endswith("m"):
        mib = Fraction(size[1]) * _SCALE[size[2].lower()]
    elif (bytes_asked := _quantity(text)) is not None and bytes_asked >= _BYTES_PER_MIB:
        mib = bytes_asked / _BYTES_PER_MIB
    else:
        mib = Fraction(0)
    if 0 < mib <= _MOST_MIB:
        return f'write the MiB per card: "{-(-mib.numerator // mib.denominator)}"'
    return 'write the MiB per card, such as "8192"'


def _quantity(text: str) -> Fraction | None:
    try:
        return quantity.parse(text)
    except quantity.QuantityError:
        return None
