"""The way from the API server to the webhooks is late, silent in one direction, or cut, before or after the answer."""

from __future__ import annotations

import time

from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.chaos.webhook_proxy import Moment, TcpAct, TcpRule, delay, reset, silence

_LATE_S = 3.0


def _network(scene: Scene) -> None:
    faults: dict[str, tuple[TcpAct, Moment, float]] = {
        "never connected": (silence(), Moment.CONNECT, 0.1),
        "request cut": (reset(), Moment.REQUEST, 0.03),
        "request late": (delay(_LATE_S), Moment.REQUEST, 0.05),
        "answer cut": (reset(), Moment.ANSWER, 0.03),
        "answer late": (delay(_LATE_S), Moment.ANSWER, 0.05),
        "answer lost": (silence(), Moment.ANSWER, 0.02),
    }
    for name, (act, moment, probability) in faults.items():
        scene.operator.front.rules.append(TcpRule(name, act, scene.chance(name), probability, moment=moment))
    with scene.load(callers=6):
        for _ in scene.lasting():
            time.sleep(0.5)


WEBHOOK_NETWORK = Scenario("webhook-network", _network, 30.0, least_admitted=20)
