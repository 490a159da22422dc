"""The leading controller is killed: another one leads soon, and a waiting model is placed."""

from __future__ import annotations

import time

from shared.api import names
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene, identity
from tests.e2e.conftest import Pool
from tests.e2e.kube import Namespace, deployment, until
from tests.e2e.trouble import CONVERGED_S, revive

_DONE_S = 20.0


def _failover(scene: Scene) -> None:
    here, namespace = scene.pool(12), scene.make_namespace()
    rounds = [_once(scene, here, namespace, number) for number, _ in enumerate(scene.lasting())]
    led_s, placed_s = (max(times) for times in zip(*rounds, strict=True))
    scene.figures["another led within"] = f"{led_s:.1f} s"
    scene.figures["the waiting model was placed within"] = f"{placed_s:.1f} s"
    assert placed_s < _DONE_S, f"it took {placed_s:.1f} s until another controller had done the work of the first"


def _once(scene: Scene, here: Pool, namespace: Namespace, number: int) -> tuple[float, float]:
    """Seconds until another controller leads, and until it has given away the room that came free meanwhile."""
    holds, waits = f"holds-{number}", f"waits-{number}"
    namespace.create(deployment(holds, {names.VRAM: "12"}, pool=here.name))
    namespace.running(holds)
    namespace.create(deployment(waits, {names.VRAM: "12"}, pool=here.name))
    namespace.waiting(waits, "insufficient_capacity")
    scene.created["by owners"] += 2
    leader = scene.leader()
    began = time.monotonic()
    scene.kill(leader)
    namespace.delete("Deployment", holds)
    until("another one leads", lambda: scene.leads() not in {"", identity(leader)}, within_s=CONVERGED_S)
    led_s = time.monotonic() - began
    until("the waiting model is placed", lambda: namespace.pods(waits), within_s=CONVERGED_S)
    placed_s = time.monotonic() - began
    namespace.delete("Deployment", waits)
    until("it is gone", lambda: not namespace.listed("Pod", app=waits))
    revive(leader)
    return led_s, placed_s


CONTROLLER_FAILOVER = Scenario("controller-failover", _failover, 30.0, short_s=1.0)
