"""The scenarios by name, in the order in which they are played."""

from __future__ import annotations

from tests.chaos.scenarios.api_trouble import API_ERRORS, SLOW_API
from tests.chaos.scenarios.certificate_rotation import CERTIFICATE_ROTATION
from tests.chaos.scenarios.clock_steps import CLOCK_STEPS
from tests.chaos.scenarios.control_plane import API_SERVER_RESTART
from tests.chaos.scenarios.controller_failover import CONTROLLER_FAILOVER
from tests.chaos.scenarios.lost_creates import LOST_CREATES
from tests.chaos.scenarios.node_churn import NODE_CHURN
from tests.chaos.scenarios.partitions import PARTITION
from tests.chaos.scenarios.pod_ends import POD_ENDS
from tests.chaos.scenarios.preemption import PREEMPTION
from tests.chaos.scenarios.restarts import ROLLING_RESTART, WEBHOOK_KILLS
from tests.chaos.scenarios.rollouts import ROLLOUTS
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scenarios.stale_cache import STALE_CACHE
from tests.chaos.scenarios.stuck_pods import STUCK_PODS
from tests.chaos.scenarios.waiting import WAITING
from tests.chaos.scenarios.webhook_network import WEBHOOK_NETWORK

__all__ = ["SCENARIOS", "Scenario"]

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        LOST_CREATES,
        WEBHOOK_KILLS,
        ROLLING_RESTART,
        CERTIFICATE_ROTATION,
        CONTROLLER_FAILOVER,
        PARTITION,
        STALE_CACHE,
        API_ERRORS,
        SLOW_API,
        WEBHOOK_NETWORK,
        CLOCK_STEPS,
        API_SERVER_RESTART,
        NODE_CHURN,
        POD_ENDS,
        ROLLOUTS,
        STUCK_PODS,
        PREEMPTION,
        WAITING,
    )
}
