"""Quantities: what Kubernetes reads, what it refuses, and how it rounds."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shared.core.quantity import QuantityError, millis, parse, units


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("12", 12, id="plain-number"),
        pytest.param("007", 7, id="leading-zeros"),
        pytest.param("+5", 5, id="plus-sign"),
        pytest.param("-5", -5, id="minus-sign"),
        pytest.param("1.5", Fraction(3, 2), id="decimals"),
        pytest.param("1.", 1, id="trailing-dot"),
        pytest.param(".5", Fraction(1, 2), id="leading-dot"),
        pytest.param("5n", Fraction(5, 10**9), id="nano"),
        pytest.param("5u", Fraction(5, 10**6), id="micro"),
        pytest.param("500m", Fraction(1, 2), id="milli"),
        pytest.param("2k", 2_000, id="kilo"),
        pytest.param("2M", 2 * 10**6, id="mega"),
        pytest.param("2G", 2 * 10**9, id="giga"),
        pytest.param("2T", 2 * 10**12, id="tera"),
        pytest.param("2P", 2 * 10**15, id="peta"),
        pytest.param("2E", 2 * 10**18, id="exa-is-no-exponent"),
        pytest.param("2Ki", 2 * 2**10, id="kibi"),
        pytest.param("2Mi", 2 * 2**20, id="mebi"),
        pytest.param("1.5Gi", 3 * 2**29, id="gibi-with-decimals"),
        pytest.param("2Ti", 2 * 2**40, id="tebi"),
        pytest.param("2Pi", 2 * 2**50, id="pebi"),
        pytest.param("2Ei", 2 * 2**60, id="exbi"),
        pytest.param("1e3", 1000, id="exponent"),
        pytest.param("1E3", 1000, id="capital-exponent"),
        pytest.param("1e+3", 1000, id="exponent-with-plus"),
        pytest.param("1500e-3", Fraction(3, 2), id="negative-exponent"),
        pytest.param("9223372036854775807", 2**63 - 1, id="largest"),
        pytest.param("16Ei", 2**63 - 1, id="larger-is-capped"),
        pytest.param("-1e60", 1 - 2**63, id="larger-negative-is-capped"),
        pytest.param(10**5000, 2**63 - 1, id="json-integer-of-5000-digits-is-capped"),
        pytest.param(3, 3, id="json-integer"),
        pytest.param(0.1, Fraction(1, 10), id="json-decimal-is-exact"),
        pytest.param(1e16, 10**16, id="json-decimal-with-exponent"),
    ],
)
def test_parse_reads_what_kubernetes_reads(text: object, amount: Fraction) -> None:
    assert parse(text) == amount


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param(" 1", id="space-before"),
        pytest.param("1 ", id="space-after"),
        pytest.param("1\n", id="newline-after"),
        pytest.param("1 Gi", id="space-before-suffix"),
        pytest.param("+", id="sign-alone"),
        pytest.param(".", id="dot-alone"),
        pytest.param("Gi", id="suffix-alone"),
        pytest.param("--1", id="two-signs"),
        pytest.param("1.2.3", id="two-dots"),
        pytest.param("16GB", id="GB"),
        pytest.param("1K", id="capital-K"),
        pytest.param("1gi", id="lower-case-gi"),
        pytest.param("1mi", id="lower-case-mi"),
        pytest.param("1e", id="exponent-without-digits"),
        pytest.param("1e3Gi", id="exponent-and-suffix"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("1_000", id="underscore"),
        pytest.param("1,5", id="comma"),
        pytest.param("\u0661", id="arabic-digit"),
        pytest.param("nan", id="not-a-number"),
        pytest.param("1e999999999", id="absurd-exponent"),
        pytest.param("1e-999999999", id="absurd-negative-exponent"),
        pytest.param("1e" + "9" * 10_000, id="exponent-of-10000-digits"),
        pytest.param("9" * 100_000, id="number-of-100000-digits"),
        pytest.param(float("nan"), id="json-nan"),
        pytest.param(float("inf"), id="json-infinity"),
        pytest.param(1e300, id="json-decimal-too-large"),
        pytest.param(True, id="true"),
        pytest.param(None, id="null"),
        pytest.param(["1"], id="list"),
        pytest.param({"value": 1}, id="object"),
    ],
)
def test_parse_refuses_everything_else(value: object) -> None:
    with pytest.raises(QuantityError):
        parse(value)


def test_the_refusal_names_the_value_and_the_accepted_forms() -> None:
    with pytest.raises(QuantityError, match=r"'16GB' is not a quantity; write a number, with a suffix .* Gi .* 1e3"):
        parse("16GB")


def test_the_refusal_of_a_huge_text_stays_short() -> None:
    with pytest.raises(QuantityError) as refusal:
        parse("9" * 100_000)
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize(
    ("text", "in_units", "in_millis"),
    [
        pytest.param("500m", 1, 500, id="half-a-core"),
        pytest.param("1.5", 2, 1500, id="one-and-a-half"),
        pytest.param("1n", 1, 1, id="a-trace-is-not-nothing"),
        pytest.param("1e-30", 1, 1, id="finer-than-nano-rounds-up"),
        pytest.param("0", 0, 0, id="zero"),
        pytest.param("1Ki", 1024, 1024_000, id="whole"),
        pytest.param("-1500m", -1, -1500, id="negative-rounds-up-too"),
    ],
)
def test_units_and_millis_round_up(text: str, in_units: int, in_millis: int) -> None:
    assert (units(text), millis(text)) == (in_units, in_millis)


def test_numbers_and_texts_count_the_same() -> None:
    assert millis(2) == millis("2") == millis(2.0) == 2000
