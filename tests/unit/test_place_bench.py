"""The bench of `place` measures what the names of its cases say."""

from __future__ import annotations

import pytest

from hack import place_bench
from shared.core.placement import Placed, place
from shared.core.preemption import find_preemption


@pytest.mark.parametrize("case", place_bench._CASES, ids=lambda case: case.name)
def test_every_case_does_what_its_name_says(case: place_bench._Case) -> None:
    snapshot = place_bench._snapshot(min(place_bench.SIZES[1:]))
    verdict = place(snapshot, *place_bench._read(case))
    assert isinstance(verdict, Placed) == ("refused" not in case.name)


def test_the_case_that_may_preempt_finds_a_place() -> None:
    (case,) = [case for case in place_bench._CASES if case.priority]
    snapshot = place_bench._snapshot(place_bench.SIZES[0])
    assert find_preemption(snapshot, *place_bench._read(case), case.priority) is not None


def test_the_made_up_cluster_is_the_same_in_every_run() -> None:
    size = place_bench.SIZES[0]
    assert place_bench._snapshot(size) == place_bench._snapshot(size)


def test_times_are_in_order() -> None:
    times = place_bench._time(place_bench._snapshot(place_bench.SIZES[0]), *place_bench._read(place_bench._CASES[0]))
    assert times == sorted(times)
    assert times
