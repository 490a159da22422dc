"""What `python -m tests.chaos` plays, and what it leaves behind of a scenario that failed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.__main__ import again, parser
from tests.chaos.memory import rss_mib
from tests.chaos.report import Row, explain, keep
from tests.chaos.rules import Injected, Schedule
from tests.chaos.scenarios import SCENARIOS


def test_the_short_run_is_a_part_of_the_long_one_and_shorter() -> None:
    short = [scenario for scenario in SCENARIOS.values() if scenario.short_s is not None]
    assert 0 < len(short) < len(SCENARIOS)
    assert all((scenario.short_s or 0.0) < scenario.seconds for scenario in short)


def test_a_failed_scenario_says_how_to_see_it_again_and_what_was_injected(tmp_path: Path) -> None:
    row = Row("partition", Counter(partition=1), Counter(admitted=3), 9, 9, frozenset(), 4, 3.0)
    schedule = Schedule()
    schedule.add("webhook-1", "partition", "answers only")
    path = keep(row, 7, schedule.injected, tmp_path)
    assert "python -m tests.chaos --scenario partition --seed 7 " in explain(row, "--scenario partition --seed 7", path)
    assert "webhook-1" in path.read_text()
    assert "4 GB are reserved for nobody" in path.read_text()


@pytest.mark.parametrize(
    ("given", "scenario", "same"),
    [
        pytest.param("", "partition", "--scenario partition --seed 7", id="one-of-all"),
        pytest.param("--short --seed 1", "rollouts", "--scenario rollouts --seed 7 --short", id="short"),
        pytest.param("--minutes 30", "rollouts", "--scenario rollouts --seed 7", id="a-later-round"),
        pytest.param("soak", "soak", "soak --minutes 60 --seed 7", id="soak"),
        pytest.param("soak --minutes 2.5", "soak", "soak --minutes 2.5 --seed 7", id="short-soak"),
    ],
)
def test_what_is_to_be_played_again_lasts_as_long(given: str, scenario: str, same: str) -> None:
    assert again(parser().parse_args(given.split()), scenario, 7) == same


def test_faults_are_counted_by_kind() -> None:
    schedule = Schedule(
        injected=[Injected(1.0, "a", "429", ""), Injected(2.0, "b", "429", ""), Injected(3.0, "a", "500", "")]
    )
    assert schedule.count() == Counter({"429": 2, "500": 1})


def test_memory_of_a_process_that_is_gone_is_not_known() -> None:
    assert rss_mib(2**22 + 1) is None
