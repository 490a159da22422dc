"""Which vacant seats give way to a pod that preempts: those that have no room beside it, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.obstacles import seats_in_the_way
from shared.core.ledger import Entry, Mark
from shared.core.pods import PodFacts
from shared.core.snapshot import NodeState
from tests.unit.core_builders import cards, entry, holder, node

SEAT, YOUNGER, WAITS, OTHER = "aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc", "dddddddddd"


def kept(gb: int, slot: int = 0, since: int = 1) -> Entry:
    return replace(entry({slot: gb}, since=since), mark=Mark.KEPT)


def preempting(gb: int) -> Entry:
    return replace(entry({0: gb}), mark=Mark.PREEMPTING)


def waiting_pod(gb: int) -> PodFacts:
    return replace(holder("waits", {0: gb}, reservation=WAITS), bound=False)


def state(ledger: dict[str, Entry], *pods: PodFacts) -> NodeState:
    """A node with two cards of 16 GB."""
    return node("node", cards(16, 16), ledger=ledger, pods=pods)


@pytest.mark.parametrize(
    ("seat", "gives_way"),
    [
        pytest.param(kept(6), False, id="it-fits-beside"),
        pytest.param(kept(7), True, id="it-does-not"),
        pytest.param(kept(16, slot=1), False, id="it-is-on-another-card"),
    ],
)
def test_a_seat_gives_way_if_both_do_not_fit(seat: Entry, gives_way: bool) -> None:
    found = seats_in_the_way(state({SEAT: seat, WAITS: preempting(10)}, waiting_pod(10)), left=())
    assert found == ({SEAT} if gives_way else set())


def test_before_its_pod_exists_nothing_gives_way() -> None:
    assert seats_in_the_way(state({SEAT: kept(10), WAITS: preempting(10)}), left=()) == set()
    elsewhere = replace(waiting_pod(10), namespace="elsewhere")  # a copy
    assert seats_in_the_way(state({SEAT: kept(6), WAITS: preempting(10)}, elsewhere), left=()) == set()


def test_one_whose_pod_has_just_been_bound_still_counts() -> None:
    bound = replace(waiting_pod(10), bound=True)
    assert seats_in_the_way(state({SEAT: kept(7), WAITS: preempting(10)}, bound), left=()) == {SEAT}


def test_what_is_on_its_way_out_is_not_counted_and_what_stays_is() -> None:
    ledger = {SEAT: kept(6), WAITS: preempting(10), OTHER: entry({0: 6})}
    stays = holder("other", {0: 6}, reservation=OTHER)
    assert seats_in_the_way(state(ledger, waiting_pod(10), stays), left=()) == {SEAT}
    assert seats_in_the_way(state(ledger, waiting_pod(10), replace(stays, terminating=True)), left=()) == set()


def test_the_seat_of_a_pod_that_had_to_leave_gives_way_before_it_is_marked() -> None:
    ledger = {SEAT: entry({0: 10}), WAITS: preempting(10)}
    assert seats_in_the_way(state(ledger, waiting_pod(10)), left={SEAT}) == {SEAT}


def test_of_two_seats_the_younger_gives_way() -> None:
    ledger = {YOUNGER: kept(4, since=2), SEAT: kept(4), WAITS: preempting(10)}
    assert seats_in_the_way(state(ledger, waiting_pod(10)), left=()) == {YOUNGER}


def test_without_a_preempting_entry_every_seat_stays_that_has_room() -> None:
    assert seats_in_the_way(state({SEAT: kept(10), OTHER: entry({0: 6})}), left={OTHER}) == set()


def test_on_a_card_above_its_budget_the_youngest_seats_give_way_and_nothing_else() -> None:
    stays = holder("stays", {0: 10}, reservation=OTHER)
    ledger = {OTHER: entry({0: 10}), SEAT: kept(6), YOUNGER: kept(6, since=2), WAITS: kept(16, slot=1)}
    assert seats_in_the_way(state(ledger, stays), left=()) == {YOUNGER}
    assert seats_in_the_way(state({SEAT: kept(16), OTHER: entry({0: 6})}), left={OTHER}) == {OTHER}


def test_a_seat_stays_while_its_card_is_out_of_order() -> None:
    sick = tuple(replace(each, healthy=False) for each in cards(16))
    assert seats_in_the_way(node("node", sick, ledger={SEAT: kept(16)}), left=()) == set()
