"""Nodes are deleted and come back, are cordoned and tainted, and lose memory to others, while models come and go."""

from __future__ import annotations

import contextlib
import time

from hack.devcluster.api import Api, ApiError, Json
from hack.devcluster.nodes import AGENT_FIELD_MANAGER, GPU_NODES
from shared.api import names
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene

_NODES = "/api/v1/nodes"
_TAINT = {"key": "churn", "value": "yes", "effect": "NoSchedule"}


def _churn(scene: Scene) -> None:
    chance = scene.chance("churn")
    with scene.load():
        whole = {
            node: (scene.api.get(f"{_NODES}/{node}"), scene.api.get(f"{GPU_NODES}/{node}")) for node in scene.nodes
        }
        for _ in scene.lasting():
            node = chance.choice(scene.nodes)
            change = chance.choice(["cordon", "taint", "foreign use", "gone"])
            scene.tell(change, node)
            with contextlib.suppress(ApiError):
                _change(scene.api, node, change)
            time.sleep(chance.uniform(0.5, 3.0))
            _restore(scene.api, *whole[node])


def _change(api: Api, node: str, change: str) -> None:
    match change:
        case "cordon":
            api.merge(f"{_NODES}/{node}", {"spec": {"unschedulable": True}})
        case "taint":
            api.merge(f"{_NODES}/{node}", {"spec": {"taints": [_TAINT]}})
        case "foreign use":
            cards = api.get(f"{GPU_NODES}/{node}")["status"]["cards"]
            _publish(api, node, [{**card, "foreignGB": 20} for card in cards])
        case _:
            api.delete(f"{_NODES}/{node}")


def _restore(api: Api, node: Json, gpu_node: Json) -> None:
    """The node and its cards as they were at the beginning."""
    name = node["metadata"]["name"]
    kept = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
    with contextlib.suppress(ApiError):  # it is there
        api.create(_NODES, {"apiVersion": "v1", "kind": "Node", "metadata": kept, "status": node["status"]})
    api.merge(f"{_NODES}/{name}", {"spec": {"unschedulable": None, "taints": None}})
    _publish(api, name, gpu_node["status"]["cards"])


def _publish(api: Api, name: str, cards: list[Json]) -> None:
    """What the agent says of the node's cards, which belongs to the node as it is now."""
    uid = api.get(f"{_NODES}/{name}")["metadata"]["uid"]
    owners = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]
    head = {"apiVersion": names.API_VERSION, "kind": names.GPU_NODE}
    path = f"{GPU_NODES}/{name}"
    api.apply(path, {**head, "metadata": {"name": name, "ownerReferences": owners}}, manager=AGENT_FIELD_MANAGER)
    status = {"source": "agent", "cards": cards, "injection": "env", "accelVersions": {"cuda": "12.4"}}
    api.apply(f"{path}/status", {**head, "metadata": {"name": name}, "status": status}, manager=AGENT_FIELD_MANAGER)


NODE_CHURN = Scenario("node-churn", _churn, 30.0, least_admitted=20, answers_all=True)
