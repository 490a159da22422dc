"""Kubernetes quantities: the texts in which pods ask for, and nodes offer, cpu, memory and everything else.

The grammar is that of `k8s.io/apimachinery/pkg/api/resource`: a decimal number with an SI suffix (`500m`,
`2G`), a binary one (`6Gi`) or an exponent (`1e3`). The API server rounds every amount up to thousandths, so sums
are made in thousandths.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

_LARGEST = Fraction(2**63 - 1)
_LONGEST_TEXT = 64
_LARGEST_EXPONENT = 64
_CACHED_TEXTS = 4096

_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?\Z"
)
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_FORMS = "a number, with a suffix n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent as in 1e3"


class QuantityError(ValueError):
    """A value that is no Kubernetes quantity."""


def parse(value: object) -> Fraction:
    """The exact amount that `value` (text or number) stands for; a magnitude over 2^63-1 counts as that.

    Raises `QuantityError` for anything that is no quantity, white space around one included, and for an
    exponent beyond 64. The work is bounded whatever the text says.
    """
    if isinstance(value, str):
        amount = _parse_text(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        amount = Fraction(value)
    elif isinstance(value, float):
        amount = _parse_text(repr(value))
    else:
        raise QuantityError(f"{_shown(value)} is not a quantity; write {_FORMS}")
    return max(-_LARGEST, min(amount, _LARGEST))


def units(value: object) -> int:
    """`value` in whole base units (bytes, pieces), rounded up. Raises `QuantityError`."""
    return units_of_millis(millis(value))


def millis(value: object) -> int:
    """`value` in thousandths (millicores), rounded up. Raises `QuantityError`."""
    return _millis_of_text(value) if isinstance(value, str) else ceil(parse(value) * 1000)


def units_of_millis(amount: int) -> int:
    """Thousandths in whole base units, rounded up."""
    return -(-amount // 1000)


def _parse_text(text: str) -> Fraction:
    match = _FORM.match(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise QuantityError(f"{_shown(text)} is not a quantity; write {_FORMS}")
    number = Fraction(match["number"])
    if match["suffix"]:
        return number * _SUFFIXES[match["suffix"]]
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > _LARGEST_EXPONENT:
        raise QuantityError(f"{_shown(text)} has an exponent beyond {_LARGEST_EXPONENT}; write {_FORMS}")
    return number * Fraction(10) ** exponent


@lru_cache(maxsize=_CACHED_TEXTS)
def _millis_of_text(text: str) -> int:
    # The texts of a cluster repeat: thousands of pods ask for the same few amounts.
    return ceil(parse(text) * 1000)


def _shown(value: object) -> str:
    """`value` as a message may quote it: short, whatever a request brought."""
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}...")
    return str(value) if value is None or isinstance(value, bool) else f"a {type(value).__name__}"
