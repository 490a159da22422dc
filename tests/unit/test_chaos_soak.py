"""What a soak calls growth, and too little of what it is for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.memory import Memory
from tests.chaos.soak import Done, grown

_HOUR_S = 3600
_STEP_S = 5


def _memory(rss: Callable[[int], float], seconds: int = _HOUR_S, lives: int = 1) -> Memory:
    samples = [(float(second), rss(second)) for second in range(0, seconds, _STEP_S)]
    return Memory({"webhook-0": samples}, {"webhook-0": set(range(lives))})


def _warms_up(second: int) -> float:
    return min(124.0, 109.0 + second / 20)


def _leaks(second: int) -> float:
    return 100.0 + 15.0 * second / _HOUR_S


def test_memory_that_grows_on_and_on_is_found_however_slowly() -> None:
    (found,) = grown(_memory(_leaks), ["webhook-0"], _HOUR_S)
    assert found == "webhook-0 grew from 106 to 113 MiB"


def test_a_process_may_warm_up_in_the_first_quarter() -> None:
    assert list(grown(_memory(_warms_up), ["webhook-0"], _HOUR_S)) == []


def test_a_short_soak_leaves_room_to_warm_up() -> None:
    assert list(grown(_memory(lambda second: 100.0 + second / 12, 300), ["webhook-0"], 300)) == []
    (found,) = grown(_memory(lambda second: 100.0 + second / 8, 300), ["webhook-0"], 300)
    assert found.startswith("webhook-0 grew")


@pytest.mark.parametrize("lives", [0, 2])
def test_a_process_that_nobody_kills_has_one_life(lives: int) -> None:
    (found,) = grown(_memory(_warms_up, lives=lives), ["webhook-0"], _HOUR_S)
    assert found == f"webhook-0 had {lives} lives, though nobody killed it"


def test_the_slope_is_that_after_the_first_quarter() -> None:
    assert _memory(_leaks).slope("webhook-0") == pytest.approx(15.0)
    assert _memory(_warms_up).slope("webhook-0") == pytest.approx(0.0)


def test_a_process_that_was_never_seen_has_no_memory() -> None:
    assert Memory().quarters("webhook-0") == (0.0, 0.0, 0.0, 0.0)
    assert Memory().slope("webhook-0") == 0.0


@pytest.mark.parametrize(
    ("done", "short_of"),
    [
        pytest.param(Done(3600, 18000, 17000, 50), [], id="an-hour"),
        pytest.param(Done(60, 1, 1, 0), [], id="a-minute-with-little"),
        pytest.param(Done(60, 9, 0, 0), ["0.0 deletes a second, of 4.0 at least"], id="a-minute-without-deletes"),
        pytest.param(Done(300, 1200, 1300, 1), ["4.0 creates a second, of 4.5 at least"], id="too-few-creates"),
        pytest.param(Done(300, 1500, 900, 1), ["3.0 deletes a second, of 4.0 at least"], id="too-few-deletes"),
        pytest.param(Done(300, 1500, 1400, 0), ["no other controller took the lead"], id="no-fail-over"),
    ],
)
def test_a_soak_that_did_too_little_says_of_what(done: Done, short_of: list[str]) -> None:
    assert list(done.short_of()) == short_of
