"""Quantities: every way to write an amount reads back as that amount, and nothing else gets through."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from shared.core.quantity import QuantityError, millis, parse, units

SCALES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(1024),
    "Mi": Fraction(1024**2),
    "Gi": Fraction(1024**3),
}

whole = st.integers(min_value=0, max_value=10**6)
decimals = st.text("0123456789", max_size=6)


@given(st.sampled_from(["", "+", "-"]), whole, decimals, st.sampled_from(sorted(SCALES)))
def test_a_number_with_a_suffix_reads_as_number_times_scale(sign: str, number: int, places: str, suffix: str) -> None:
    amount = Fraction(f"{number}.{places}0") * SCALES[suffix] * (-1 if sign == "-" else 1)
    assert parse(f"{sign}{number}.{places}{suffix}") == amount


@given(whole, st.integers(min_value=-9, max_value=12), st.sampled_from("eE"))
def test_an_exponent_moves_the_point(number: int, exponent: int, letter: str) -> None:
    assert parse(f"{number}{letter}{exponent}") == number * Fraction(10) ** exponent


@given(st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1))
def test_whole_amounts_survive_a_round_trip(number: int) -> None:
    assert units(str(number)) == units(number) == number
    assert units(f"{number}000m") == max(1 - 2**63, min(number, 2**63 - 1))


@given(st.floats(min_value=1e-30, max_value=1e15))
def test_a_json_number_counts_like_the_text_that_prints_it(number: float) -> None:
    assert parse(number) == parse(repr(number)) == Fraction(repr(number))


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_rounding_goes_up_and_by_less_than_one(amount: int) -> None:
    text = f"{amount}n"
    assert millis(text) == ceil(Fraction(amount, 10**6))
    assert units(text) == ceil(Fraction(amount, 10**9))


@given(st.one_of(st.text(), st.text("0123456789.+-eEinumkKMGTP", max_size=100)))
def test_a_text_is_either_read_or_refused(text: str) -> None:
    try:
        amount = parse(text)
    except QuantityError:
        return
    assert abs(amount) < 2**63
    assert text == text.strip()
    assert parse(text.lstrip("+")) == amount
