"""The fates of pods as they are remembered."""

from __future__ import annotations

import pytest

from shared.kube import fates as module
from shared.kube.fates import Fates
from tests.unit.fates import DIED, SHORT, a_crash, a_fate

KEY = "uid-chat-1"
FATE = a_fate(crashes=[a_crash(None)])


def test_listeners_hear_of_changes_and_of_nothing_else_until_they_leave() -> None:
    fates = Fates()
    heard: list[str] = []
    leave = fates.on_change(heard.append)
    fates.seen("uid-quiet", None)
    fates.gone("uid-quiet")
    assert heard == []
    fates.seen(KEY, FATE)
    fates.seen(KEY, FATE)
    assert heard == [KEY]
    fates.gone(KEY)
    assert heard == [KEY, KEY]
    leave()
    fates.seen(KEY, FATE)
    assert heard == [KEY, KEY]


def test_a_pod_of_which_there_is_nothing_more_to_tell_is_forgotten() -> None:
    fates = Fates()
    fates.seen(KEY, FATE)
    fates.seen(KEY, None)
    assert fates.last_of(KEY) is None


def test_how_a_pod_that_is_gone_ended_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    fates = Fates()
    for number in range(3):
        fates.seen(f"uid-chat-{number}", a_fate(f"chat-{number}"))
        fates.gone(f"uid-chat-{number}")
    assert list(fates.all()) == []
    assert [fates.last_of(f"uid-chat-{number}") is not None for number in range(3)] == [False, True, True]
    assert fates.of("uid-chat-2") is None


def test_what_was_found_out_about_a_crash_stays_with_it_when_the_pod_is_seen_again() -> None:
    fates = Fates()
    fates.seen(KEY, FATE)
    fates.found(KEY, ("server", DIED), SHORT)
    known = a_fate(crashes=[a_crash(SHORT)])
    assert fates.of(KEY) == known
    fates.seen(KEY, FATE)
    assert fates.of(KEY) == known


def test_what_was_found_out_about_a_pod_that_is_gone_is_nothing_new() -> None:
    fates = Fates()
    heard: list[str] = []
    fates.on_change(heard.append)
    fates.found(KEY, ("server", DIED), SHORT)
    assert heard == []
