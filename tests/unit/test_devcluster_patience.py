"""`hack.devcluster.patience`: waiting is counted in looks, not by a clock that a busy machine falls behind."""

from __future__ import annotations

import time

import pytest

from hack.devcluster.patience import looks


def test_a_look_comes_first_and_one_after_each_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    assert len(list(looks(1.0, 0.25))) == 5
    assert pauses == [0.25] * 4


def test_looks_that_take_long_take_none_from_those_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.append(clock[-1] + seconds))
    monkeypatch.setattr(time, "monotonic", lambda: clock[-1])
    taken = 0
    for _ in looks(1.0, 0.25):
        clock.append(clock[-1] + 100)
        taken += 1
    assert taken == 5
