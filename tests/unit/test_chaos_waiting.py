"""What the chaos suite calls the wrong order of waking."""

from __future__ import annotations

import pytest

from tests.chaos.scenarios.waiting import passed_over

_RANKS = {
    "ReplicaSet.urgent": (-3, "2026-11-30T10:00:09Z", "d"),
    "ReplicaSet.old": (0, "2026-11-30T10:00:00Z", "c"),
    "Job.young": (0, "2026-11-30T10:00:05Z", "b"),
}


@pytest.mark.parametrize(
    "woken",
    [
        pytest.param([], id="nobody"),
        pytest.param(["ReplicaSet.urgent"], id="the-first"),
        pytest.param(["ReplicaSet.urgent", "ReplicaSet.old", "Job.young"], id="all-in-turn"),
        pytest.param(["DaemonSet.other", "ReplicaSet.urgent"], id="one-without-a-place-among-them"),
    ],
)
def test_priority_then_age_is_the_right_order(woken: list[str]) -> None:
    assert list(passed_over(woken, _RANKS)) == []


@pytest.mark.parametrize(
    ("woken", "before"),
    [
        pytest.param(["ReplicaSet.old"], "ReplicaSet.urgent", id="one-of-higher-priority-never"),
        pytest.param(["ReplicaSet.urgent", "Job.young"], "ReplicaSet.old", id="an-older-one-never"),
        pytest.param(["ReplicaSet.urgent", "Job.young", "ReplicaSet.old"], "ReplicaSet.old", id="an-older-one-later"),
    ],
)
def test_whoever_is_woken_before_one_that_comes_first_is_found(woken: list[str], before: str) -> None:
    (found,) = passed_over(woken, _RANKS)
    assert f" before {before} " in found
