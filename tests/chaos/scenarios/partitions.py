"""Each process in turn is cut off from the API server, in one direction or both, without being told."""

from __future__ import annotations

import time

from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene


def _partition(scene: Scene) -> None:
    chance = scene.chance("partitions")
    proxies = list(scene.operator.proxies.values())
    chance.shuffle(proxies)
    each_s = scene.seconds / len(proxies)
    with scene.load():
        for proxy in proxies:
            proxy.partition(answers_only=chance.random() < 0.5)
            time.sleep(each_s)
            proxy.release()


PARTITION = Scenario("partition", _partition, 110.0, short_s=None, least_admitted=20)
