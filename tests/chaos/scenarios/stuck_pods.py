"""Nodes are closed while the scheduler stands still: pods that were placed there are placed anew elsewhere."""

from __future__ import annotations

import signal
from functools import partial

from hack.devcluster.api import Json
from shared.api import names
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.e2e.conftest import Pool
from tests.e2e.kube import Namespace, deployment, node_of, phase, until
from tests.e2e.trouble import CONVERGED_S, revive

_NODES = "/api/v1/nodes"
_TAINT = {"key": "closed", "value": "yes", "effect": "NoSchedule"}
_CLOSED: dict[str, Json] = {"cordon": {"unschedulable": True}, "taint": {"taints": [_TAINT]}}
_OPEN: Json = {"unschedulable": None, "taints": None}
_MODELS, _REPLICAS = 2, 2


def _stuck(scene: Scene) -> None:
    here, namespace = scene.pool(24, 24, nodes=3), scene.make_namespace()
    for number, _ in enumerate(scene.lasting()):
        _round(scene, here, namespace, number)


def _round(scene: Scene, here: Pool, namespace: Namespace, number: int) -> None:
    revive(*scene.operator.processes)
    chance = scene.chance(f"round {number}")
    models = [f"model-{number}-{each}" for each in range(_MODELS)]
    scheduler = scene.stage.cluster.process("kube-scheduler")
    scene.kill(scheduler, signal.SIGSTOP)
    for name in models:
        namespace.create(deployment(name, {names.VRAM: "6"}, pool=here.name, replicas=_REPLICAS))
        scene.created["by owners"] += _REPLICAS
    placed = until("all are placed", partial(_all_of, namespace, models))
    closed = node_of(chance.choice(placed))
    fault = chance.choice(list(_CLOSED))
    scene.tell(fault, closed)
    scene.api.merge(f"{_NODES}/{closed}", {"spec": _CLOSED[fault]})
    if number % 2:
        # It goes on, and may bind some before it hears of the node.
        scheduler.kill(signal.SIGCONT)
        scene.strike(scene.leader(), 0.5)
        until("all run", partial(_all_run, namespace, models), within_s=CONVERGED_S)
    else:
        scene.kill(scheduler)
        revive(scheduler)
        until("all run elsewhere", partial(_all_run, namespace, models, closed), within_s=CONVERGED_S)
    scene.api.merge(f"{_NODES}/{closed}", {"spec": _OPEN})
    for name in models:
        namespace.delete("Deployment", name)


def _all_of(namespace: Namespace, models: list[str]) -> list[Json]:
    pods = [each for name in models for each in namespace.pods(name)]
    return pods if len(pods) == len(models) * _REPLICAS else []


def _all_run(namespace: Namespace, models: list[str], closed: str = "") -> bool:
    pods = _all_of(namespace, models)
    return bool(pods) and all(phase(each) == "Running" and node_of(each) != closed for each in pods)


STUCK_PODS = Scenario("stuck-pods", _stuck, 25.0, settings={"PLACEMENT_STUCK_AFTER_SECONDS": "3"})
