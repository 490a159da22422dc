"""Pauses: an owner that was woken is left alone, for longer the more often it was in vain, until something moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.pauses import Pauses, Progress

THEN = Progress(pods=1, seats=frozenset({"one"}), refused="2026-11-30T10:00:00Z")


def woken(times: int) -> tuple[Pauses, float]:
    """Pauses of an owner that was woken so many times, each as soon as it might be, and when that was last."""
    pauses, now = Pauses(), 100.0
    for _ in range(times):
        now += pauses.wait_s("chat", now)
        pauses.begin("chat", now, THEN)
    return pauses, now


@pytest.mark.parametrize(("times", "wait_s"), [(0, 0), (1, 2), (2, 4), (3, 8), (5, 32), (6, 60), (9, 60)])
def test_the_pause_doubles_up_to_a_minute(times: int, wait_s: float) -> None:
    pauses, now = woken(times)
    assert pauses.wait_s("chat", now) == wait_s
    assert pauses.wait_s("chat", now + wait_s) == 0
    assert pauses.wait_s("other", now) == 0


def test_a_try_is_under_way_for_as_long_as_the_first_pause_and_in_vain_ever_after() -> None:
    pauses, now = woken(0)
    assert not pauses.in_vain("chat", now)
    pauses, now = woken(1)
    assert not pauses.in_vain("chat", now + 1.9)
    assert pauses.in_vain("chat", now + 2)
    pauses, now = woken(2)
    assert pauses.in_vain("chat", now)


@pytest.mark.parametrize(
    ("progress", "wait_s"),
    [
        pytest.param(THEN, 60, id="nothing-moved"),
        pytest.param(replace(THEN, pods=2), 0, id="a-pod-came-of-it"),
        pytest.param(replace(THEN, pods=0), 60, id="a-pod-went"),
        pytest.param(replace(THEN, seats=frozenset({"one", "two"})), 0, id="a-seat-is-kept-since"),
        pytest.param(replace(THEN, seats=frozenset()), 60, id="a-seat-ran-out"),
        pytest.param(replace(THEN, refused="2026-11-30T10:00:09Z"), 60, id="refused-though-there-is-room"),
        pytest.param(None, 0, id="waits-no-longer"),
    ],
)
def test_a_pod_or_a_seat_ends_it(progress: Progress | None, wait_s: float) -> None:
    pauses, now = woken(9)
    pauses.keep({} if progress is None else {"chat": progress})
    assert pauses.wait_s("chat", now) == wait_s


@pytest.mark.parametrize(
    ("refused", "wait_s"),
    [
        pytest.param(THEN.refused, 60, id="it-never-got-as-far-as-a-refusal"),
        pytest.param("2026-11-30T10:00:09Z", 0, id="others-were-faster"),
    ],
)
def test_one_whose_place_others_took_is_woken_at_once_when_there_is_room_again(refused: str, wait_s: float) -> None:
    pauses, now = woken(9)
    pauses.has_no_place("chat", replace(THEN, refused=refused))
    pauses.has_no_place("other", THEN)
    assert pauses.wait_s("chat", now) == wait_s
    assert pauses.in_vain("chat", now) == bool(wait_s)
