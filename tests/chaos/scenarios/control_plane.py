"""The API server and its store are killed and come back while models come and go."""

from __future__ import annotations

import time

from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.e2e.trouble import revive, start_api_server


def _restarts(scene: Scene) -> None:
    chance = scene.chance("restarts")
    cluster = scene.stage.cluster
    with scene.load():
        for number, _ in enumerate(scene.lasting()):
            time.sleep(chance.uniform(2.0, 6.0))
            name = "etcd" if number % 2 else "kube-apiserver"
            scene.kill(cluster.process(name))
            time.sleep(chance.uniform(0.5, 5.0))
            if name == "etcd":
                revive(cluster.process("etcd"))
            else:
                start_api_server(cluster)


API_SERVER_RESTART = Scenario("api-server-restart", _restarts, 30.0, least_admitted=20)
