"""The ledger of a node: its texts and its sums."""

from __future__ import annotations

import weakref
from dataclasses import replace

import pytest

from shared.core.ledger import (
    ID_ALPHABET,
    ID_LENGTH,
    LONGEST_CARDS,
    Entry,
    LedgerError,
    Mark,
    Summary,
    decode,
    decode_all,
    is_id,
    merge_shares,
    owner_hash,
    summarise,
)
from shared.core.unit_kinds import UnitKind
from tests.unit.core_builders import card, cards, entry

TEXT = "models/0f3a9c1d;1800000000;0:6,1:6"
ENTRY = Entry("models", "0f3a9c1d", 1_800_000_000, ((0, 6), (1, 6)))


def test_an_entry_is_written_as_owner_time_and_shares() -> None:
    assert ENTRY.encode() == TEXT
    assert decode(TEXT) == ENTRY


def test_the_memory_that_a_pod_requests_stands_at_the_end_where_it_matters() -> None:
    with_memory = replace(ENTRY, memory_mib=4096)
    assert with_memory.encode() == f"{TEXT};4096"
    assert decode(f"{TEXT};4096") == with_memory


@pytest.mark.parametrize("mark", [Mark.KEPT, Mark.PREEMPTING])
@pytest.mark.parametrize("memory_mib", [0, 4096])
def test_what_is_special_about_an_entry_is_its_last_word(mark: Mark, memory_mib: int) -> None:
    special = replace(ENTRY, memory_mib=memory_mib, mark=mark)
    assert special.encode() == f"{TEXT}{';4096' if memory_mib else ''};{mark}"
    assert decode(special.encode()) == special


def test_shares_are_read_in_the_order_of_the_slots() -> None:
    assert decode("models/0f3a9c1d;1800000000;7:1,0:6").shares == ((0, 6), (7, 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "models",
        "models/0f3a9c1d;1800000000;",
        "models/0f3a9c1d;1800000000;0",
        "models/0f3a9c1d;1800000000;0:6,",
        "models/0f3a9c1d;1800000000;0:-6",
        "models/0f3a9c1d;1800000000;0:6.5",
        "models/0f3a9c1d;1800000000;0:6;x",
        "models/0f3a9c1d;yesterday;0:6",
        "models/0f3a9c1;1800000000;0:6",
        "models/0F3A9C1D;1800000000;0:6",
        "/0f3a9c1d;1800000000;0:6",
        "Models/0f3a9c1d;1800000000;0:6",
        f"{TEXT};kept;4096",
        f"{TEXT};kept;preempting",
        f"{TEXT};",
        f"{TEXT}\n",
        f"models/0f3a9c1d;1800000000;0:{'9' * 5000}",
        f"models/0f3a9c1d;{'9' * 5000};0:6",
    ],
)
def test_a_text_of_another_form_is_no_entry(text: str) -> None:
    with pytest.raises(LedgerError, match="the form is <namespace>/<hash>;<unix seconds>;<slot>:<GB>"):
        decode(text)


def test_a_card_that_is_named_twice_makes_an_entry_unreadable() -> None:
    with pytest.raises(LedgerError, match="names card 0 twice"):
        decode("models/0f3a9c1d;1800000000;0:6,0:7")


def test_unreadable_entries_are_set_apart_and_do_not_hide_the_others() -> None:
    entries, broken = decode_all({ID_ALPHABET[1:11]: "?", ID_ALPHABET[2:12]: TEXT, ID_ALPHABET[:10]: ""})
    assert entries == {ID_ALPHABET[2:12]: ENTRY}
    assert broken == (ID_ALPHABET[:10], ID_ALPHABET[1:11])


@pytest.mark.parametrize("key", ["", "good", "a" * 70, "ABCDEFGHIJ", "abcdefghij\n", "Ünïcode key", "a,b in (c)"])
def test_a_text_under_a_key_that_is_no_id_is_no_entry(key: str) -> None:
    assert decode_all({key: TEXT}) == ({}, (key,))


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        pytest.param(ID_ALPHABET[:ID_LENGTH], True, id="the-form"),
        pytest.param(ID_ALPHABET[-ID_LENGTH:], True, id="with-digits"),
        pytest.param("abcdefghi", False, id="too-short"),
        pytest.param("abcdefghijk", False, id="too-long"),
        pytest.param("abcdefghi1", False, id="a-digit-that-looks-like-a-letter"),
        pytest.param("ABCDEFGHIJ", False, id="capitals"),
        pytest.param("abcdefghij\n", False, id="a-line-end"),
        pytest.param("", False, id="empty"),
    ],
)
def test_an_id_is_ten_characters_of_the_alphabet(text: str, yes: bool) -> None:
    assert is_id(text) is yes


def test_an_owner_is_hashed_to_eight_hexadecimal_digits() -> None:
    assert owner_hash("") == "e3b0c442"
    assert owner_hash("3a1f") != owner_hash("3a1e")
    assert decode(Entry("models", owner_hash("3a1f"), 1, ((0, 1),)).encode()).owner_hash == owner_hash("3a1f")


def test_shares_of_several_containers_on_one_card_are_one_booking() -> None:
    assert merge_shares([(1, 2), (0, 6), (1, 3)]) == ((0, 6), (1, 5))
    assert merge_shares([]) == ()


def test_a_summary_counts_kept_seats_and_shows_them() -> None:
    seat = replace(entry({0: 6}), mark=Mark.KEPT)
    of = summarise(cards(24, 16), {"r": entry({0: 4, 1: 8}), "s": seat, "t": seat})
    assert (of.reserved_gb, of.free_gb, of.cards) == (24, 16, "0: 16/24 (12 kept), 1: 8/16")


def test_a_summary_adds_up_cards_and_entries() -> None:
    assert summarise(cards(24, 16)[::-1], {"r": entry({0: 6}), "s": entry({0: 2, 1: 16})}) == Summary(
        budget_gb=40, reserved_gb=24, free_gb=16, largest_free_gb=16, cards="0: 8/24, 1: 16/16"
    )


def test_a_card_out_of_service_and_foreign_use_are_not_free() -> None:
    of = [card(0, 24, healthy=False), card(1, 24, foreign_gb=20), card(2, 8)]
    assert summarise(of, {"r": entry({0: 4, 2: 10})}) == Summary(
        budget_gb=56, reserved_gb=14, free_gb=4, largest_free_gb=4, cards="0: 4/24, 1: 0/24, 2: 10/8"
    )


def test_what_is_held_on_a_card_that_is_gone_stays_reserved() -> None:
    assert summarise([], {"r": entry({3: 6})}) == Summary(0, 6, 0, 0, "3: 6/0")
    seat = replace(entry({0: 4, 2: 5}), mark=Mark.KEPT)
    of = summarise(cards(24), {"r": entry({1: 6, 3: 0}), "s": seat})
    assert (of.reserved_gb, of.free_gb, of.cards) == (15, 20, "0: 4/24 (4 kept), 1: 6/0, 2: 5/0 (5 kept)")


def test_units_of_a_kept_seat_are_shown_as_kept() -> None:
    seat = Entry("models", owner_hash(""), 1, (), units=(("nvidia.com/gpu", 1),), mark=Mark.KEPT)
    assert (
        summarise(cards(22, 22), {"s": seat}, (UnitKind("nvidia.com/gpu", 22),)).cards == "0: 22/22 (22 kept), 1: 0/22"
    )


def test_the_column_of_single_cards_is_never_longer_than_the_api_server_takes() -> None:
    held = {"r": entry(dict.fromkeys(range(300), 999999999))}
    text = summarise(cards(24), held).cards
    assert LONGEST_CARDS - 40 < len(text) <= LONGEST_CARDS
    assert text.endswith("/0, ...")


def test_an_entry_is_parsed_once_and_remembered_for_as_long_as_somebody_has_it() -> None:
    text = "models/0123abcd;1800000000;0:6"
    first = decode(text)
    assert decode("".join(text)) is first
    gone = weakref.ref(first)
    del first
    assert gone() is None
