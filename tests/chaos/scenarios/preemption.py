"""Models of high priority drive out others while webhooks and controllers are killed."""

from __future__ import annotations

import time
from functools import partial

from shared.api import names
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.e2e.conftest import Pool
from tests.e2e.kube import Namespace, deployment, phase, until
from tests.e2e.trouble import CONVERGED_S, revive

_REPLICAS = 8
_GB = 12
"""Two on each of the four cards."""


def _preemption(scene: Scene) -> None:
    here, namespace = scene.pool(24, 24, nodes=2), scene.make_namespace()
    low = scene.priority_class("chaos-low", 10)
    namespace.create(deployment("calm", _asks(_GB), pool=here.name, replicas=_REPLICAS, priorityClassName=low))
    namespace.running("calm", _REPLICAS)
    scene.created["by owners"] += _REPLICAS
    for number, _ in enumerate(scene.lasting()):
        _round(scene, here, namespace, number)


def _round(scene: Scene, here: Pool, namespace: Namespace, number: int) -> None:
    """An urgent model takes the place of calm ones, which have it again once the other is gone."""
    chance = scene.chance(f"round {number}")
    high = scene.priority_class("chaos-high", 1000)
    name, gb, replicas = f"urgent-{number}", chance.choice([_GB, 2 * _GB]), chance.randint(1, 3)
    victim = scene.leader() if number % 2 else chance.choice(scene.operator.webhooks)
    namespace.create(deployment(name, _asks(gb), pool=here.name, replicas=replicas, priorityClassName=high))
    scene.created["by owners"] += replicas
    time.sleep(chance.uniform(0.0, 0.3))
    scene.strike(victim, chance.uniform(0.0, 1.0))
    until(f"{name} runs", partial(_run, namespace, name, replicas), within_s=CONVERGED_S)
    revive(*scene.operator.processes)
    namespace.delete("Deployment", name)
    until("the others run again", partial(_run, namespace, "calm", _REPLICAS), within_s=CONVERGED_S)


def _run(namespace: Namespace, name: str, count: int) -> bool:
    pods = namespace.pods(name)
    return len(pods) == count and all(phase(each) == "Running" for each in pods)


def _asks(gb: int) -> dict[str, str]:
    return {names.VRAM: str(gb)}


PREEMPTION = Scenario("preemption", _preemption, 25.0, settings={"PLACEMENT_PREEMPTION": "enabled"})
