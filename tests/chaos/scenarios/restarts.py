"""Webhooks are killed, frozen, and restarted in good order while models come and go."""

from __future__ import annotations

import signal
import time

from hack.devcluster.processes import Process
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.e2e.creates import steady_creates

_GRACE_S = 30.0
"""The chart's terminationGracePeriodSeconds."""
_ROOMY_GB = 999
"""Nobody is refused here, though what is deleted is not given back for a while."""


def _kills(scene: Scene) -> None:
    chance = scene.chance("kills")
    with scene.load():
        for number, _ in enumerate(scene.lasting()):
            victim = scene.operator.webhooks[number % len(scene.operator.webhooks)]
            time.sleep(chance.uniform(0.2, 1.5))
            if chance.random() < 0.5:
                scene.kill(victim)
                time.sleep(chance.uniform(0.0, 1.0))
                victim.start()
            else:
                scene.kill(victim, signal.SIGSTOP)
                time.sleep(chance.uniform(0.5, 4.0))
                victim.kill(signal.SIGCONT)


def _rolling(scene: Scene) -> None:
    here, namespace = scene.pool(_ROOMY_GB), scene.make_namespace()
    end = time.monotonic() + scene.seconds
    with steady_creates(namespace, here.name, callers=4, pause_s=0.1) as stream:
        while True:
            for webhook in scene.operator.webhooks:
                _restart(scene, webhook)
            if time.monotonic() > end:
                break
    scene.count(stream.creates)
    failed = [f"{one.name}: {one.said}" for one in stream.failed()]
    assert not failed, f"reviews failed: {'; '.join(failed[:3])}"


def _restart(scene: Scene, webhook: Process) -> None:
    """As the kubelet does it: the next is told to end when the last is ready again."""
    scene.kill(webhook, signal.SIGTERM)
    assert webhook.wait_ended(_GRACE_S), f"{webhook.name} did not end"
    assert webhook.returncode == 0, f"{webhook.name} ended with {webhook.returncode}"
    webhook.start()
    webhook.wait_ready()


WEBHOOK_KILLS = Scenario("webhook-kills", _kills, 30.0, short_s=15.0, least_admitted=20)
ROLLING_RESTART = Scenario("rolling-restart", _rolling, 25.0, short_s=1.0, least_admitted=20, answers_all=True)
