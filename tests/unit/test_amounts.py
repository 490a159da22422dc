"""How much of a card an ask is for: the forms that are read, and what is said of those that are not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shared.core.amounts import WHOLE, Amount, parse_amount
from shared.core.invalid import InvalidRequest
from tests.unit.core_builders import card

FIELD = "metadata.annotations[kamiwaza.ai/vram-gb]"


@pytest.mark.parametrize(
    ("text", "gb"),
    [
        pytest.param("6", 6, id="a-plain-number-is-gb"),
        pytest.param("06", 6, id="leading-zeros-change-nothing"),
        pytest.param("6Gi", 6, id="gi-is-our-gb"),
        pytest.param("6144Mi", 6, id="mi-is-a-1024th"),
        pytest.param("6145Mi", 7, id="a-request-rounds-up"),
        pytest.param("1Ti", 1024, id="ti-is-1024-gb"),
        pytest.param("1.5", 2, id="a-fraction-rounds-up"),
        pytest.param("1500m", 2, id="1.5-as-the-api-server-spells-it"),
        pytest.param("2k", 2000, id="2000-as-the-api-server-spells-it"),
        pytest.param("6291968Ki", 7, id="6144.5Mi-as-the-api-server-spells-it"),
        pytest.param("0.001", 1, id="the-least-is-one-gb"),
        pytest.param("65536", 65536, id="the-largest-amount-there-is"),
    ],
)
@pytest.mark.parametrize("annotation", [True, False], ids=["annotation", "resource"])
def test_amounts_are_read_the_same_in_annotations_and_resources(text: str, gb: int, annotation: bool) -> None:
    assert parse_amount(text, FIELD, annotation=annotation) == Amount(gb=gb)


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        pytest.param("50%", Fraction(50), id="half"),
        pytest.param("12.5%", Fraction(25, 2), id="an-eighth"),
        pytest.param("100%", Fraction(100), id="all"),
        pytest.param("whole", Fraction(100), id="whole-means-all"),
    ],
)
def test_annotations_may_ask_for_a_part_of_the_card(text: str, percent: Fraction) -> None:
    assert parse_amount(text, FIELD, annotation=True) == Amount(percent=percent)


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        pytest.param("16GB", "is not an amount of memory", 'write "16"', id="gb-is-the-unit-already"),
        pytest.param("16 gib", "is not an amount of memory", 'write "16"', id="spelled-out-unit"),
        pytest.param("6G", "is not an amount of memory", 'write "6"', id="decimal-giga"),
        pytest.param(" 6", "is not an amount of memory", 'write "6"', id="white-space"),
        pytest.param("6\n", "is not an amount of memory", 'write "6"', id="line-end"),
        pytest.param("1e3", "is not an amount of memory", 'write the number out: "1000"', id="exponent"),
        pytest.param("1.5e1", "is not an amount of memory", 'write the number out: "15"', id="decimal-exponent"),
        pytest.param("1e9", "is not an amount of memory", "write the GB per card", id="exponent-beyond-any-card"),
        pytest.param("0GB", "is not an amount of memory", "write the GB per card", id="no-zero-is-suggested"),
        pytest.param("-1", "is not an amount of memory", "write the GB per card", id="negative"),
        pytest.param("", "is not an amount of memory", "write the GB per card", id="empty"),
        pytest.param("six", "is not an amount of memory", "write the GB per card", id="a-word"),
        pytest.param("٦", "is not an amount of memory", "write the GB per card", id="digits-of-another-script"),
        pytest.param("6,5", "is not an amount of memory", "write the GB per card", id="decimal-comma"),
        pytest.param("0", "asks for no memory", 'at least "1"', id="zero"),
        pytest.param("0.0Gi", "asks for no memory", 'at least "1"', id="zero-with-a-unit"),
        pytest.param("65537", "is larger than any card", "at most 65536", id="beyond-the-largest"),
        pytest.param("6442450944", "is larger than any card", "write the GB per card", id="bytes"),
    ],
)
@pytest.mark.parametrize("annotation", [True, False], ids=["annotation", "resource"])
def test_a_wrong_amount_is_refused_with_field_value_and_the_right_form(
    text: str, problem: str, fix: str, annotation: bool
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_amount(text, FIELD, annotation=annotation)
    assert refused.value.field == FIELD
    assert refused.value.value == text
    assert refused.value.problem == problem
    assert fix in refused.value.fix


@pytest.mark.parametrize("text", ["0%", "150%", "100.1%"])
def test_a_percentage_must_be_a_part_of_a_card(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a part of a card; write a percentage above 0 and up to 100"):
        parse_amount(text, FIELD, annotation=True)


def test_an_estimate_is_refused_by_name_and_never_guessed() -> None:
    with pytest.raises(InvalidRequest, match="asks for an estimate, which this version does not make; write the GB"):
        parse_amount("auto", FIELD, annotation=True)


def test_a_resource_cannot_be_a_percentage() -> None:
    with pytest.raises(InvalidRequest, match="is a percentage in a resource; write it as a pod annotation instead"):
        parse_amount("50%", "resources", annotation=False)


@pytest.mark.parametrize("word", ["whole", "auto"])
def test_words_are_amounts_in_annotations_only(word: str) -> None:
    with pytest.raises(InvalidRequest, match="is not an amount of memory"):
        parse_amount(word, "resources", annotation=False)


@pytest.mark.parametrize("text", ["six", "1e9", "0GB"])
def test_what_only_an_annotation_takes_is_suggested_for_annotations_only(text: str) -> None:
    with pytest.raises(InvalidRequest, match="whole"):
        parse_amount(text, FIELD, annotation=True)
    with pytest.raises(InvalidRequest, match=r'"6", "6Gi" or "6144Mi"$'):
        parse_amount(text, FIELD, annotation=False)


@pytest.mark.parametrize(
    ("amount", "gb"),
    [
        pytest.param(Amount(gb=6), 6, id="gb"),
        pytest.param(Amount(percent=Fraction(50)), 12, id="half-of-24"),
        pytest.param(Amount(percent=Fraction(1)), 1, id="a-sliver-rounds-up"),
        pytest.param(WHOLE, 24, id="whole"),
    ],
)
def test_an_amount_takes_whole_gb_of_a_card(amount: Amount, gb: int) -> None:
    assert amount.on(card(0, 24)) == gb


def test_an_exclusive_card_is_taken_whole_whatever_is_asked() -> None:
    assert Amount(gb=6).on(card(0, 24), exclusive=True) == 24
    assert Amount(percent=Fraction(50)).on(card(0, 24), exclusive=True) == 24


def test_what_is_larger_than_an_exclusive_card_stays_larger() -> None:
    assert Amount(gb=40).on(card(0, 24), exclusive=True) == 40


def test_a_part_of_a_card_without_budget_is_more_than_it_has() -> None:
    assert WHOLE.on(card(0, 0)) == 1


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (Amount(gb=6), "6 GB"),
        (Amount(percent=Fraction(25, 2)), "12.5 % of the memory"),
        (WHOLE, "all memory"),
    ],
)
def test_amounts_are_told_in_words(amount: Amount, words: str) -> None:
    assert str(amount) == words
