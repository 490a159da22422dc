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


@pytest.mark.parametrize(
    ("look_s", "taken"), [pytest.param(1.5, 5, id="slow"), pytest.param(4.0, 4, id="so-slow-that-it-is-given-up")]
)
def test_slow_looks_take_none_from_those_after_them_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, look_s: float, taken: int
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.append(clock[-1] + seconds))
    monkeypatch.setattr(time, "monotonic", lambda: clock[-1])
    count = 0
    for _ in looks(1.0, 0.25):
        clock.append(clock[-1] + look_s)
        count += 1
    assert count == taken
