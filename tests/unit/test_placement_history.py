"""How the last placements of a workload ended, worked out from what its status showed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from controller.placement_history import MOST_REMEMBERED, has_finished_since, placement_history
from shared.core.pod_fate import PodFate
from tests.unit.fates import CREATED, DIED, a_crash, a_fate

NOW = "2026-11-30T10:00:00Z"


def shown(name: str = "chat-1", **fields: Any) -> dict[str, Any]:
    """A placement as the status showed it."""
    cards = [{"index": 0, "gb": 6}]
    return {
        "pod": name,
        "uid": f"uid-{name}",
        "node": "t4",
        "cards": cards,
        "since": CREATED,
        "running": True,
        **fields,
    }


def entry(name: str = "chat-1", until: str = NOW, ended: str = "Deleted") -> dict[str, Any]:
    return {key: value for key, value in shown(name).items() if key != "running"} | {"until": until, "ended": ended}


def history(
    placements: Sequence[dict[str, Any]] = (),
    before: Sequence[dict[str, Any]] = (),
    over: Sequence[PodFate] = (),
    living: Sequence[str] = (),
    gone: Sequence[PodFate] = (),
) -> list[dict[str, Any]]:
    fates = {fate.key: fate for fate in (*over, *gone)}
    old = {"placements": list(placements), "history": list(before)}
    return placement_history(old, over, lambda key: key in living, fates.get, datetime(2026, 11, 30, 10, tzinfo=UTC))


def test_a_pod_that_was_shown_and_is_gone_ended() -> None:
    assert history([shown()]) == [entry()]


def test_a_pod_that_still_holds_its_cards_did_not() -> None:
    assert history([shown()], living=["uid-chat-1"]) == []


def test_what_is_known_of_a_pod_that_is_gone_says_how_it_ended() -> None:
    assert history([shown()], gone=[a_fate(evicted=True)]) == [entry(ended="Evicted")]
    assert history([shown()], gone=[a_fate(phase="Failed")]) == [entry(ended="Failed", until=DIED)]


def test_a_pod_that_ended_and_still_exists_is_told_whether_it_was_shown_or_not() -> None:
    failed = a_fate(phase="Failed", crashes=[a_crash()])
    assert history([shown()], over=[failed]) == [entry(ended="OOM", until=DIED)]
    assert history([], over=[failed]) == [entry(ended="OOM", until=DIED)]


def test_nothing_is_told_twice() -> None:
    first = history([shown()])
    assert history([shown()], before=first) == first
    over = [a_fate(phase="Succeeded")]
    assert history([shown()], before=history(over=over), over=over) == [entry(ended="Finished", until=DIED)]


def test_an_entry_about_a_pod_that_is_there_after_all_is_taken_back() -> None:
    assert history(before=[entry()], living=["uid-chat-1"]) == []


def test_what_its_log_told_of_a_pod_is_not_forgotten_with_the_log() -> None:
    over = [a_fate(phase="Failed", crashes=[a_crash(None)])]
    assert history(before=[entry(ended="OOM", until=DIED)], over=over)[0]["ended"] == "OOM"


def test_the_newest_are_kept_newest_first_however_many_exist() -> None:
    over = [a_fate(f"chat-{minute}", "Failed", changed=f"2026-11-30T09:{minute}:00Z") for minute in range(10, 30)]
    first = history(over=over)
    assert [each["pod"] for each in first] == [f"chat-{minute}" for minute in range(29, 19, -1)]
    assert len(first) == MOST_REMEMBERED
    assert history(over=over, before=first) == first


@pytest.mark.parametrize("missing", [{"uid", "since"}, {"uid"}, {"since"}])
def test_a_placement_of_which_too_little_is_shown_is_passed_over(missing: set[str]) -> None:
    """An older version showed neither, and the schema still lets an edited status leave either out."""
    without = {key: value for key, value in shown().items() if key not in missing}
    assert history([without, shown("chat-2")]) == [entry("chat-2")]


@pytest.mark.parametrize(
    ("until", "is_told"),
    [
        pytest.param("2026-11-30T10:30:00Z", True, id="by-a-node-whose-clock-is-ahead"),
        pytest.param("9999-12-31T23:59:59Z", False, id="by-hand"),
    ],
)
def test_what_has_not_been_yet_does_not_stand_before_all_that_comes(until: str, is_told: bool) -> None:
    assert history(before=[entry(until=until)]) == ([entry(until=until)] if is_told else [])
    assert history([shown(since=until)]) == ([{**entry(), "since": until}] if is_told else [])


@pytest.mark.parametrize(
    ("ended", "time", "finished"),
    [
        ("Finished", "2026-11-30T09:29:00Z", True),
        ("Finished", CREATED, False),
        ("Failed", "2026-11-30T09:29:00Z", False),
    ],
)
def test_whether_a_later_pod_ended_as_it_should(ended: str, time: str, finished: bool) -> None:
    assert has_finished_since([entry(ended=ended)], time) == finished
