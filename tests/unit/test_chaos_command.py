"""What `python -m tests.chaos` plays, and what it leaves behind of a scenario that failed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

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
    assert "--seed 7" in explain(row, 7, path)
    assert "--scenario partition" in explain(row, 7, path)
    assert "webhook-1" in path.read_text()
    assert "4 GB are reserved for nobody" in path.read_text()


def test_faults_are_counted_by_kind() -> None:
    schedule = Schedule(
        injected=[Injected(1.0, "a", "429", ""), Injected(2.0, "b", "429", ""), Injected(3.0, "a", "500", "")]
    )
    assert schedule.count() == Counter({"429": 2, "500": 1})


def test_memory_of_a_process_that_is_gone_is_not_known() -> None:
    assert rss_mib(2**22 + 1) is None
