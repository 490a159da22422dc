"""The API server answers wrongly, late, or not to the end: to every process, some of the time."""

from __future__ import annotations

import time

from tests.chaos.api_faults import RequestRule, delay, expired_watch, lost_answer, slow, status, truncated
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.fakes.faults import Act, drop

_SLOWEST_S = 2.0
_BYTES_A_SECOND = 50_000


def _errors(scene: Scene) -> None:
    faults: dict[str, tuple[Act, float]] = {
        "409": (status(409), 0.05),
        "429": (status(429), 0.05),
        "500": (status(500), 0.05),
        "503": (status(503), 0.05),
        "truncated": (truncated(), 0.03),
        "dropped": (drop(), 0.03),
        "answer lost": (lost_answer(), 0.03),
    }
    for proxy in scene.operator.proxies.values():
        for name, (act, probability) in faults.items():
            chance = scene.chance(f"{proxy.name}/{name}")
            proxy.rules.append(RequestRule(name, act, chance, probability))
        chance = scene.chance(f"{proxy.name}/expired")
        proxy.rules.append(RequestRule("watch 410", expired_watch(), chance, 0.3, watch=True))
    with scene.load():
        for _ in scene.lasting():
            time.sleep(0.5)


def _slow(scene: Scene) -> None:
    for proxy in scene.operator.proxies.values():
        for part in range(1, 5):
            chance = scene.chance(f"{proxy.name}/{part}")
            late = delay(_SLOWEST_S * part / 4)
            proxy.rules.append(RequestRule("late", late, chance, 0.12, watch=False))
        chance = scene.chance(f"{proxy.name}/slow")
        proxy.rules.append(RequestRule("slow body", slow(_BYTES_A_SECOND), chance, 0.2))
    with scene.load():
        for _ in scene.lasting():
            time.sleep(0.5)


API_ERRORS = Scenario("api-errors", _errors, 30.0, short_s=15.0, least_admitted=20)
SLOW_API = Scenario("slow-api", _slow, 25.0, least_admitted=20)
