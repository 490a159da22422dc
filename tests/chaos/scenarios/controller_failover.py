"""The leading controller is killed, or frozen and woken: another one leads soon, and a waiting model is placed."""

from __future__ import annotations

import itertools
import signal
import time

from shared.api import names
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene, identity
from tests.e2e.conftest import Pool
from tests.e2e.kube import Namespace, deployment, until
from tests.e2e.scrape import samples
from tests.e2e.trouble import CONVERGED_S, revive

_DONE_S = 20.0
"""What is promised. It is judged in the whole run: the short one is a part of the tests, which judge no times."""
_SHORT_S = 1.0
_FROZEN_S = 20.0
"""Longer than a lease: when it wakes, another one leads."""
_LOOKS, _LOOK_S = 20, 0.2
"""Together longer than a leader takes to try to renew its lease."""
_SIGNALS = (signal.SIGKILL, signal.SIGSTOP)


def _failover(scene: Scene) -> None:
    here, namespace = scene.pool(12), scene.make_namespace()
    end = time.monotonic() + scene.seconds
    rounds = []
    for number in itertools.count():
        rounds.append(_once(scene, here, namespace, number))
        if len(rounds) >= len(_SIGNALS) and time.monotonic() > end:
            break
    led_s, placed_s = (max(times) for times in zip(*rounds, strict=True))
    scene.figures["another led within"] = f"{led_s:.1f} s"
    scene.figures["the waiting model was placed within"] = f"{placed_s:.1f} s"
    if scene.seconds > _SHORT_S:
        assert placed_s < _DONE_S, f"it took {placed_s:.1f} s until another controller had done the work of the first"


def _once(scene: Scene, here: Pool, namespace: Namespace, number: int) -> tuple[float, float]:
    """Seconds until another controller leads, and until it has given away the room that came free meanwhile."""
    revive(*scene.operator.controllers)
    holds, waits = f"holds-{number}", f"waits-{number}"
    namespace.create(deployment(holds, {names.VRAM: "12"}, pool=here.name))
    namespace.running(holds)
    namespace.create(deployment(waits, {names.VRAM: "12"}, pool=here.name))
    namespace.waiting(waits, "insufficient_capacity")
    scene.created["by owners"] += 2
    leader, blow = scene.leader(), _SIGNALS[number % len(_SIGNALS)]
    began = time.monotonic()
    scene.kill(leader, blow)
    namespace.delete("Deployment", holds)
    until("another one leads", lambda: scene.leads() not in {"", identity(leader)}, within_s=CONVERGED_S)
    led_s = time.monotonic() - began
    until("the waiting model is placed", lambda: namespace.pods(waits), within_s=CONVERGED_S)
    placed_s = time.monotonic() - began
    if blow is signal.SIGSTOP:
        time.sleep(max(0.0, began + _FROZEN_S - time.monotonic()))
        leader.kill(signal.SIGCONT)
        _wakes(scene, identity(leader))
    namespace.delete("Deployment", waits)
    until("it is gone", lambda: not namespace.listed("Pod", app=waits))
    return led_s, placed_s


def _wakes(scene: Scene, woken: str) -> None:
    """A leader that was frozen for longer than its lease is none from the moment it wakes, and does not become one."""
    led: set[str] = set()
    for _ in range(_LOOKS):
        lead = [identity(each) for each in scene.operator.controllers if samples(each, "placement_leader")]
        assert len(lead) <= 1, f"{lead} say that they lead; the lease says {scene.leads()}"
        assert lead != [woken], f"{woken} leads again, though the other runs"
        led |= set(lead)
        time.sleep(_LOOK_S)
    assert led, "nobody says that it leads"


CONTROLLER_FAILOVER = Scenario("controller-failover", _failover, 45.0, short_s=_SHORT_S)
