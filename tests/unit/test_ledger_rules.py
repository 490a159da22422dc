"""What a node's ledger should say, given its pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.ledger_rules import Review, Sightings, entry_of, review_ledger
from shared.core.ledger import Entry, Mark, decode, owner_hash
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from tests.unit.core_builders import entry, holder

ID, OTHER = "aaaaaaaaaa", "bbbbbbbbbb"
TTL_S = 20.0
KEPT_S = 30.0
SINCE = entry({0: 6}).since
SEAT = replace(entry({0: 6}), mark=Mark.KEPT)


def pod(
    name: str = "pod", gb: int = 6, reservation: str | None = ID, created: str = "2026-11-30T10:00:00Z"
) -> PodFacts:
    owner = OwnerRef("apps/v1", "ReplicaSet", "chat", "owner")
    return replace(holder(name, {0: gb}, reservation=reservation, created=created), owner=owner)


def review(
    ledger: dict[str, Entry],
    *pods: PodFacts,
    seen: Sightings | None = None,
    now: float = 100.0,
    left: frozenset[str] = frozenset(),
    in_the_way: frozenset[str] = frozenset(),
    kept_s: float = KEPT_S,
    unix_now: float = SINCE,
) -> Review:
    by_key = {each.key: each for each in pods}
    seen = seen if seen is not None else Sightings()
    return review_ledger(
        ledger, by_key, seen, now, TTL_S, unix_now=unix_now, left=left, in_the_way=in_the_way, kept_s=kept_s
    )


def test_a_ledger_that_says_what_its_pods_say_stays() -> None:
    assert review({ID: entry({0: 6})}, pod()) == Review({}, (), None)


def test_a_young_entry_without_a_pod_waits_from_when_it_was_first_seen() -> None:
    seen = Sightings()
    assert review({ID: entry({0: 6})}, seen=seen, now=100.0) == Review({}, (), TTL_S)
    assert review({ID: entry({0: 6})}, seen=seen, now=115.0) == Review({}, (), 5.0)


def test_an_entry_whose_pod_did_not_come_in_time_is_overdue_and_not_yet_dropped() -> None:
    seen = Sightings()
    review({ID: entry({0: 6})}, seen=seen, now=100.0)
    assert review({ID: entry({0: 6})}, seen=seen, now=120.0) == Review({}, (ID,), None)


def test_a_new_leader_counts_from_when_it_saw_the_entry_itself() -> None:
    review({ID: entry({0: 6})}, now=100.0)
    assert review({ID: entry({0: 6})}, now=500.0) == Review({}, (), TTL_S)


@pytest.mark.parametrize(
    ("unix_now", "waits_s"),
    [
        pytest.param(SINCE + 600.0, TTL_S, id="of-a-clock-that-is-behind-by-minutes"),
        pytest.param(SINCE + 601.0, 5.0, id="older-leaders-that-died-have-waited-as-well"),
        pytest.param(SINCE - 3600.0, TTL_S, id="of-a-clock-that-is-ahead"),
    ],
)
def test_an_entry_that_is_old_by_the_wall_clock_too_waits_for_a_part_of_its_time(
    unix_now: float, waits_s: float
) -> None:
    seen = Sightings()
    ledger = {ID: entry({0: 6})}
    assert review(ledger, seen=seen, now=100.0, unix_now=unix_now) == Review({}, (), waits_s)
    assert review(ledger, seen=seen, now=100.0 + waits_s, unix_now=unix_now) == Review({}, (ID,), None)


def test_the_wait_is_that_of_the_entry_which_is_due_first() -> None:
    seen = Sightings()
    review({ID: entry({0: 6})}, seen=seen, now=100.0)
    assert review({ID: entry({0: 6}), OTHER: entry({0: 6})}, seen=seen, now=110.0).again_in_s == 10.0


def test_an_entry_whose_pod_was_seen_and_is_gone_is_dropped_at_once() -> None:
    seen = Sightings()
    review({ID: entry({0: 6})}, pod(), seen=seen)
    assert review({ID: entry({0: 6})}, seen=seen) == Review({ID: None}, (), None)


def test_a_pod_that_comes_late_takes_its_entry_out_of_the_wait() -> None:
    seen = Sightings()
    review({ID: entry({0: 6})}, seen=seen, now=100.0)
    assert review({ID: entry({0: 6})}, pod(), seen=seen, now=200.0) == Review({}, (), None)
    assert seen.first_seen == {}


def test_a_pod_that_no_entry_can_stand_for_gets_none() -> None:
    """Nobody admitted it: an entry for it could not be read, would be dropped, and be written again for ever."""
    huge = replace(pod(), shares=(), requests={"nvidia.com/gpu": 100_000})
    assert huge.is_placed
    assert review({}, huge) == Review({}, (), None)
    assert review({ID: entry({0: 6})}, huge) == Review({}, (), None)


def test_a_pod_without_an_entry_gets_it_back() -> None:
    assert review({}, pod()).changes == {ID: entry_of(pod())}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(entry({0: 5}), id="other-gb"),
        pytest.param(entry({1: 6}), id="another-card"),
    ],
)
def test_an_entry_that_says_something_else_than_its_pod_is_corrected(wrong: Entry) -> None:
    assert review({ID: wrong}, pod()).changes == {ID: entry_of(pod())}


class TestPreempting:
    MARKED = replace(entry({0: 6}), mark=Mark.PREEMPTING)

    def test_it_stays_so_until_its_pod_is_bound(self) -> None:
        waiting = replace(pod(), bound=False)
        assert review({ID: self.MARKED}, waiting).changes == {}
        assert review({ID: self.MARKED}, pod()).changes == {ID: entry_of(pod())}

    def test_it_stays_so_where_it_is_corrected(self) -> None:
        waiting = replace(pod(gb=5), bound=False)
        assert review({ID: self.MARKED}, waiting).changes == {ID: replace(entry_of(waiting), mark=Mark.PREEMPTING)}

    def test_one_that_was_lost_is_so_again_where_others_may_have_to_leave(self) -> None:
        waiting = replace(pod(), bound=False, priority=5)
        equal, lower = (holder(name, {0: 6}, priority=priority) for name, priority in (("equal", 5), ("lower", 4)))
        assert review({}, waiting, lower).changes == {ID: replace(entry_of(waiting), mark=Mark.PREEMPTING)}
        assert review({}, waiting, equal, replace(lower, bound=False)).changes == {ID: entry_of(waiting)}
        assert review({}, pod(), lower).changes == {ID: entry_of(pod())}

    def test_it_waits_for_its_pod_and_goes_with_it_like_any_other(self) -> None:
        seen = Sightings()
        assert review({ID: self.MARKED}, seen=seen, now=100.0) == Review({}, (), TTL_S)
        review({ID: self.MARKED}, replace(pod(), bound=False), seen=seen, now=101.0)
        assert review({ID: self.MARKED}, seen=seen, now=102.0).changes == {ID: None}


def test_an_entry_follows_its_pod_to_another_owner() -> None:
    orphan = replace(pod(), owner=None)
    adopted = replace(pod(), owner=OwnerRef("apps/v1", "ReplicaSet", "next", "another"))
    of_pod, of_orphan = entry_of(pod()), entry_of(orphan)
    assert of_pod.owner_hash != of_orphan.owner_hash
    assert review({ID: of_pod}, orphan).changes == {ID: of_orphan}
    assert review({ID: of_orphan}, adopted).changes == {ID: entry_of(adopted)}
    assert review({ID: entry_of(adopted)}, adopted).changes == {}


def test_an_entry_stands_for_no_pod_of_another_namespace() -> None:
    seen = Sightings()
    stranger = replace(pod("copy", 9, created="2020-01-01T00:00:00Z"), namespace="elsewhere")
    assert review({ID: entry({0: 6})}, stranger, seen=seen, now=100.0) == Review({}, (), TTL_S)
    assert review({ID: entry({0: 6})}, stranger, seen=seen, now=120.0) == Review({}, (ID,), None)
    assert review({ID: entry({0: 6})}, stranger, pod(), seen=seen, now=120.0) == Review({}, (), None)
    assert review({ID: entry({0: 6})}, stranger, seen=seen, now=121.0) == Review({ID: None}, (), None)
    assert review({}, stranger, seen=seen, now=122.0).changes == {ID: entry_of(stranger)}


def test_a_copy_that_was_seen_before_its_entry_does_not_end_a_young_one() -> None:
    seen = Sightings()
    stranger = replace(pod("copy"), namespace="elsewhere")
    review({}, stranger, seen=seen)
    assert review({ID: entry({0: 6})}, stranger, seen=seen) == Review({}, (), TTL_S)


@pytest.mark.parametrize(
    "carrier",
    [
        pytest.param(pod(reservation=None), id="no-id"),
        pytest.param(pod(reservation="mine"), id="not-an-id"),
        pytest.param(replace(pod(), shares=()), id="no-share"),
    ],
)
def test_a_pod_that_is_not_a_placed_one_gets_no_entry(carrier: PodFacts) -> None:
    assert review({}, carrier) == Review({}, (), None)


def test_of_two_pods_with_one_id_the_older_keeps_it() -> None:
    young, old = pod("young", 9, created="2026-11-30T10:00:01Z"), pod("old", 6)
    assert review({ID: entry({0: 6})}, young, old) == Review({}, (), None)
    assert review({}, young, old).changes == {ID: entry_of(old)}


def test_of_two_pods_of_one_moment_it_is_the_same_one_every_time() -> None:
    pods = [pod("b", 6), pod("a", 9)]
    assert review({}, *pods).changes == review({}, *reversed(pods)).changes == {ID: entry_of(pods[1])}


def test_what_is_gone_from_ledger_and_pods_is_forgotten() -> None:
    seen = Sightings()
    review({ID: entry({0: 6}), OTHER: entry({0: 6})}, pod(), seen=seen)
    review({}, seen=seen)
    assert seen == Sightings()


def test_an_entry_that_is_made_again_begins_its_wait_anew() -> None:
    seen = Sightings()
    review({ID: entry({0: 6})}, seen=seen, now=100.0)
    review({}, seen=seen, now=110.0)
    assert review({ID: entry({0: 6})}, seen=seen, now=119.0).again_in_s == TTL_S


def test_the_entry_of_a_pod_is_one_that_can_be_read_back() -> None:
    made = entry_of(pod())
    assert decode(made.encode()) == made
    assert made.owner_hash == owner_hash("owner")
    assert made.since == 1_796_032_800


@pytest.mark.parametrize("created", ["", "yesterday"])
def test_a_pod_without_a_proper_age_counts_as_the_oldest(created: str) -> None:
    assert entry_of(pod(created=created)).since == 0


def test_a_bare_pod_has_the_hash_of_no_owner() -> None:
    assert entry_of(replace(pod(), owner=None)).owner_hash == owner_hash("")


@pytest.mark.parametrize("reviewed_before", [pytest.param(True, id=""), pytest.param(False, id="by-a-new-leader")])
@pytest.mark.parametrize(
    ("kept_s", "mark", "in_the_way", "expected"),
    [
        pytest.param(KEPT_S, Mark.NONE, False, Review({}, (), 2.0, (ID,)), id="its-owner-is-asked"),
        pytest.param(0.0, Mark.NONE, False, Review({ID: None}, (), None), id="nothing-is-kept"),
        pytest.param(KEPT_S, Mark.PREEMPTING, False, Review({ID: None}, (), None), id="it-may-be-above-the-budget"),
        pytest.param(KEPT_S, Mark.NONE, True, Review({ID: None}, (), None), id="it-is-in-the-way-of-another"),
    ],
)
def test_an_entry_that_an_owners_pod_has_left(
    reviewed_before: bool, kept_s: float, mark: Mark, in_the_way: bool, expected: Review
) -> None:
    seen = Sightings()
    if reviewed_before:
        review({ID: entry({0: 6})}, pod(), seen=seen)
    ledger, ids = {ID: replace(entry({0: 6}), mark=mark)}, frozenset({ID})
    assert review(ledger, seen=seen, left=ids, in_the_way=ids if in_the_way else ids - ids, kept_s=kept_s) == expected


def test_an_entry_of_which_its_owner_cannot_be_asked_is_given_up_after_the_time_of_a_seat() -> None:
    seen, left = Sightings(), frozenset({ID})
    old = entry({0: 6}, since=1)  # of its pod, which ran for long
    assert review({ID: old}, seen=seen, now=100.0, left=left) == Review({}, (), 2.0, (ID,))
    assert review({ID: old}, seen=seen, now=129.0, left=left) == Review({}, (), 1.0, (ID,))
    assert review({ID: old}, seen=seen, now=130.0, left=left) == Review({ID: None}, (), None)


def test_the_time_that_an_entry_waited_for_its_pod_does_not_count_as_that_of_its_seat() -> None:
    seen = Sightings()
    review({ID: entry({0: 6})}, seen=seen, now=100.0)
    assert review({ID: entry({0: 6})}, seen=seen, now=119.0, left=frozenset({ID}), kept_s=5.0).vacant == (ID,)


def test_a_kept_seat_runs_out_after_its_time() -> None:
    seen = Sightings()
    assert review({ID: SEAT}, seen=seen, now=100.0) == Review({}, (), 2.0, (ID,))
    assert review({ID: SEAT}, seen=seen, now=129.0) == Review({}, (), 1.0, (ID,))
    assert review({ID: SEAT}, seen=seen, now=130.0) == Review({ID: None}, (), None)


def test_a_kept_seat_that_is_old_by_the_wall_clock_too_stands_for_a_part_of_its_time() -> None:
    seen, unix_now = Sightings(), SINCE + 601.0
    assert review({ID: SEAT}, seen=seen, now=100.0, unix_now=unix_now) == Review({}, (), 2.0, (ID,))
    assert review({ID: SEAT}, seen=seen, now=107.5, unix_now=unix_now) == Review({ID: None}, (), None)


def test_a_kept_seat_is_not_overdue_when_an_entry_without_a_pod_would_be() -> None:
    seen = Sightings()
    review({ID: SEAT, OTHER: entry({0: 6})}, seen=seen, now=100.0)
    assert review({ID: SEAT, OTHER: entry({0: 6})}, seen=seen, now=125.0) == Review({}, (OTHER,), 2.0, (ID,))


def test_a_seat_that_is_kept_again_is_kept_for_the_whole_time() -> None:
    seen = Sightings()
    review({ID: SEAT}, seen=seen, now=100.0)
    review({ID: SEAT}, pod(), seen=seen, now=120.0)
    assert review({ID: SEAT}, seen=seen, now=140.0) == Review({}, (), 2.0, (ID,))


def test_a_pod_that_has_its_kept_seat_after_all_makes_an_ordinary_entry_of_it() -> None:
    assert review({ID: SEAT}, pod()) == Review({ID: entry_of(pod())}, (), None)


def test_a_kept_seat_that_is_in_the_way_is_given_back() -> None:
    assert review({ID: SEAT, OTHER: SEAT}, in_the_way=frozenset({ID})) == Review({ID: None}, (), 2.0, (OTHER,))


def test_an_entry_is_preempting_until_what_its_victims_held_is_out_of_the_ledger() -> None:
    """A controller that has just begun did not see the victims go, so their entries stay for a while."""
    urgent = replace(pod("urgent", reservation=OTHER), bound=True)
    preempting = replace(entry_of(urgent), mark=Mark.PREEMPTING)
    ledger = {ID: entry({0: 6}), OTHER: preempting}
    assert review(ledger, urgent).changes == {}
    assert review({ID: entry({1: 6}), OTHER: preempting}, urgent).changes == {OTHER: entry_of(urgent)}
    victim_was_seen = Sightings(confirmed={(ID, entry({0: 6}).namespace)})
    assert review(ledger, urgent, seen=victim_was_seen).changes == {ID: None, OTHER: entry_of(urgent)}


def test_a_seat_beside_an_entry_keeps_it_from_nothing_once_its_pod_is_bound() -> None:
    """A seat that has no room beside it is given back, so one that stays has."""
    urgent = replace(pod("urgent", reservation=OTHER), bound=True)
    ledger = {ID: SEAT, OTHER: replace(entry_of(urgent), mark=Mark.PREEMPTING)}
    assert review(ledger, urgent).changes == {OTHER: entry_of(urgent)}


def test_seats_of_before_are_dropped_where_none_are_kept() -> None:
    assert review({ID: SEAT}, kept_s=0.0) == Review({ID: None}, (), None)
