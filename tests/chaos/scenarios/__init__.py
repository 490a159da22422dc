"""The scenarios by name, in the order in which they are played."""

from __future__ import annotations

from tests.chaos.scenarios.api_trouble import API_ERRORS, SLOW_API
from tests.chaos.scenarios.clock_steps import CLOCK_STEPS
from tests.chaos.scenarios.controller_failover import CONTROLLER_FAILOVER
from tests.chaos.scenarios.partitions import PARTITION
from tests.chaos.scenarios.restarts import ROLLING_RESTART, WEBHOOK_KILLS
from tests.chaos.scenarios.scenario import Scenario

__all__ = ["SCENARIOS", "Scenario"]

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        WEBHOOK_KILLS,
        ROLLING_RESTART,
        CONTROLLER_FAILOVER,
        PARTITION,
        API_ERRORS,
        SLOW_API,
        CLOCK_STEPS,
    )
}
