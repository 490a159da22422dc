"""How often pods are replaced: one after another, and an owner whose pods get stuck again less and less often."""

from __future__ import annotations

from controller.pace import Pace, Rounds


def test_one_turn_in_a_period() -> None:
    pace = Pace(2.0)
    assert pace.wait_s(10.0) == 0.0
    pace.take(10.0)
    assert [pace.wait_s(now) for now in (10.0, 11.5, 12.0, 20.0)] == [2.0, 0.5, 0.0, 0.0]


def test_the_pods_that_an_owner_had_at_first_are_replaced_without_a_pause() -> None:
    rounds = Rounds(60.0, 300.0)
    for number in range(5):
        assert rounds.wait_s("owner", since=1.0, now=100.0 + number) == 0.0
        rounds.replaced("owner", since=1.0, now=100.0 + number)


def test_a_pod_that_came_since_waits_for_the_next_round_and_each_takes_twice_as_long() -> None:
    rounds = Rounds(60.0, 300.0)
    now, waits = 100.0, []
    rounds.replaced("owner", since=1.0, now=now)
    for _ in range(5):
        waits.append(rounds.wait_s("owner", since=now + 1, now=now + 1))
        since, now = now + 1, now + 1 + waits[-1]
        assert rounds.wait_s("owner", since, now) == 0.0
        rounds.replaced("owner", since, now)
    assert waits == [59.0, 119.0, 239.0, 299.0, 299.0]


def test_the_other_replacements_of_a_round_need_not_wait_for_each_other() -> None:
    rounds = Rounds(60.0, 300.0)
    rounds.replaced("owner", since=1.0, now=100.0)
    rounds.replaced("owner", since=101.0, now=170.0)
    assert rounds.wait_s("owner", since=102.0, now=171.0) == 0.0


def test_owners_do_not_wait_for_each_other() -> None:
    rounds = Rounds(60.0, 300.0)
    rounds.replaced("one", since=1.0, now=100.0)
    assert rounds.wait_s("other", since=101.0, now=102.0) == 0.0


def test_an_owner_that_was_quiet_for_long_begins_anew() -> None:
    rounds = Rounds(60.0, 300.0)
    rounds.replaced("one", since=1.0, now=100.0)
    rounds.replaced("one", since=101.0, now=200.0)
    rounds.replaced("other", since=1.0, now=1400.0)
    rounds.replaced("one", since=1401.0, now=1402.0)
    assert rounds.wait_s("one", since=1403.0, now=1403.0) == 59.0
