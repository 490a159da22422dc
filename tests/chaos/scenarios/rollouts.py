"""Models restart again and again on full cards that others wait for, while controllers and webhooks are killed."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial

from hack.devcluster.api import Json
from shared.api import names
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.e2e.conftest import Pool
from tests.e2e.creates import Outcome, create
from tests.e2e.kube import Namespace, deployment, phase, pod, reservation, template, until, workload
from tests.e2e.trouble import CONVERGED_S, repeatedly, revive

_WHOLE = {names.VRAM: "16"}
_MODELS = {"chat": ("Deployment", 1), "code": ("Deployment", 1), "embed": ("StatefulSet", 2)}
"""Kind and replicas of each model: together they fill the cards."""
_WAITERS = 4
_TRY_S = 0.05
_LONGEST_DOWN_S = 1.0


def _rollouts(scene: Scene) -> None:
    here, namespace = scene.pool(16, 16, nodes=2), scene.make_namespace()
    _fill(namespace, here)
    outcomes: Counter[Outcome] = Counter()

    def take() -> None:
        outcomes[create(namespace, pod("greedy", _WHOLE, pool=here.name)).outcome] += 1

    chance = scene.chance("rounds")
    slowest_s = 0.0
    with repeatedly(take, _TRY_S):
        for number, _ in enumerate(scene.lasting()):
            revive(*scene.operator.processes)
            chosen = chance.sample(list(_MODELS), chance.randint(1, len(_MODELS)))
            victim = scene.leader() if number % 2 else chance.choice(scene.operator.webhooks)
            before = {name: _reservations(namespace, name) for name in chosen}
            began = time.monotonic()
            for name in chosen:
                _restart(scene, namespace, name, number)
            time.sleep(chance.uniform(0.0, 0.3))
            scene.strike(victim, chance.uniform(0.0, _LONGEST_DOWN_S))
            for name, old in before.items():
                until(f"{name} runs again", partial(_runs_again, namespace, name, old), within_s=CONVERGED_S)
            slowest_s = max(slowest_s, time.monotonic() - began)
    scene.created.update({str(outcome): number for outcome, number in outcomes.items()})
    scene.figures["all ran again within"] = f"{slowest_s:.1f} s"
    assert outcomes[Outcome.REFUSED]
    assert not outcomes[Outcome.ADMITTED], "a model's memory was given to somebody who tried all the time"


def _fill(namespace: Namespace, here: Pool) -> None:
    """The models run, and some that came later wait."""
    for name, (kind, replicas) in _MODELS.items():
        strategy = {"strategy": {"type": "Recreate"}} if kind == "Deployment" else {}
        namespace.create(workload(kind, name, template(name, _WHOLE, here.name), replicas=replicas, **strategy))
        namespace.running(name, replicas)
    for number in range(_WAITERS):
        namespace.create(deployment(f"waiter-{number}", _WHOLE, pool=here.name))
        namespace.waiting(f"waiter-{number}", "insufficient_capacity")


def _restart(scene: Scene, namespace: Namespace, name: str, number: int) -> None:
    """As `kubectl rollout restart` does."""
    scene.tell("restart", name)
    kind, replicas = _MODELS[name]
    scene.created["by owners"] += replicas
    annotations = {"example.com/restarted": str(number)}
    namespace.merge(kind, name, {"spec": {"template": {"metadata": {"annotations": annotations}}}})


def _reservations(namespace: Namespace, name: str) -> set[str]:
    return {reservation(each) for each in namespace.pods(name)}


def _runs_again(namespace: Namespace, name: str, old: set[str]) -> bool:
    """Whether all pods of a model are new and run. That nobody else took its memory meanwhile is asserted."""
    pods: list[Json] = namespace.listed("Pod")
    taken = [each["metadata"]["name"] for each in pods if each["metadata"]["labels"]["app"].startswith("waiter")]
    assert not taken, f"while {name} restarted, its memory was given to {', '.join(taken)}"
    mine = [each for each in pods if each["metadata"]["labels"]["app"] == name]
    run = [each for each in mine if phase(each) == "Running" and reservation(each) not in old]
    return len(mine) == len(run) == _MODELS[name][1]


ROLLOUTS = Scenario("rollouts", _rollouts, 30.0, short_s=10.0)
