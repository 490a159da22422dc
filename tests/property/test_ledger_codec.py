"""Ledger texts: what is written reads back, and what reads at all is what would be written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.core.ledger import (
    ID_ALPHABET,
    ID_LENGTH,
    Entry,
    LedgerError,
    Mark,
    Shares,
    decode,
    decode_all,
    is_id,
    merge_shares,
    owner_hash,
    summarise,
)
from shared.core.units import Units
from tests.unit.core_builders import card

namespaces = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
slots = st.integers(min_value=0, max_value=999)
gbs = st.integers(min_value=0, max_value=65536)
shares: st.SearchStrategy[Shares] = st.dictionaries(slots, gbs, min_size=1, max_size=8).map(
    lambda made: tuple(sorted(made.items()))
)
resources = st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"]) | st.from_regex(
    r"nvidia\.com/mig-[0-9]g\.[0-9]{1,3}gb(\.me)?", fullmatch=True
)
units: st.SearchStrategy[Units] = st.dictionaries(resources, st.integers(1, 512), max_size=8).map(
    lambda made: tuple(sorted(made.items()))
)
held = st.tuples(shares, units) | st.tuples(st.just(()), units.filter(bool))
entries = st.builds(
    lambda namespace, owner, since, held, mib, mark: Entry(namespace, owner, since, held[0], mib, held[1], mark),
    namespaces,
    st.text(max_size=40).map(owner_hash),
    st.integers(min_value=0, max_value=10**12 - 1),
    held,
    st.integers(min_value=0, max_value=10**9),
    st.sampled_from(Mark),
)


@given(entries)
def test_an_entry_reads_back_as_it_was_written(entry: Entry) -> None:
    assert decode(entry.encode()) == entry


@given(
    st.text()
    | st.from_regex(
        r"[a-z]{1,3}/[0-9a-f]{8};[0-9]{1,3};([0-9]{1,2}:[0-9]{1,2},?|[ab]{1,2}/[ab]=[0-9]{1,2},?){1,3}(;[0-9]{1,3})?",
        fullmatch=True,
    )
)
def test_any_text_is_an_entry_or_a_ledger_error(text: str) -> None:
    try:
        entry = decode(text)
    except LedgerError:
        return
    assert decode(entry.encode()) == entry


ids = st.text(ID_ALPHABET, min_size=ID_LENGTH, max_size=ID_LENGTH)


@given(st.dictionaries(ids | st.text(max_size=10), entries.map(Entry.encode) | st.text(max_size=30), max_size=6))
def test_every_reservation_is_either_read_or_named_as_broken(reservations: dict[str, str]) -> None:
    read, broken = decode_all(reservations)
    assert sorted([*read, *broken]) == sorted(reservations)
    assert all(is_id(key) and decode(reservations[key]) == entry for key, entry in read.items())


@given(st.lists(st.tuples(st.integers(0, 4), gbs), max_size=12))
def test_merged_shares_keep_every_gb_and_name_each_card_once(pairs: list[tuple[int, int]]) -> None:
    merged = merge_shares(pairs)
    assert sum(gb for _, gb in merged) == sum(gb for _, gb in pairs)
    assert [index for index, _ in merged] == sorted({index for index, _ in pairs})


@given(
    st.lists(st.builds(card, st.just(0), st.integers(0, 80), healthy=st.booleans(), foreign_gb=st.integers(0, 90))),
    st.dictionaries(st.text(max_size=4), entries, max_size=4),
)
def test_a_summary_shows_no_more_free_than_the_budget_has(made: list, reservations: dict[str, Entry]) -> None:  # type: ignore[type-arg]
    cards = [card(index, each.budget_gb, healthy=each.healthy) for index, each in enumerate(made)]
    summary = summarise(cards, reservations)
    assert 0 <= summary.largest_free_gb <= summary.free_gb <= summary.budget_gb
    assert summary.reserved_gb == sum(gb for entry in reservations.values() for _, gb in entry.shares)
