"""Simulated nodes: the Node with its capacity, and the card inventory as the node agent publishes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hack.devcluster.api import Api, ApiError, Json
from hack.devcluster.patience import looks
from hack.devcluster.spec import NodeSpec
from shared.api.names import API_VERSION, GPU_NODE, GROUP, VERSION, card_resource
from shared.core.cards import CardClass, budget_gb, describe_models

AGENT_FIELD_MANAGER = "placement-agent"
GPU_NODES = f"/apis/{GROUP}/{VERSION}/gpunodes"
_NODES = "/api/v1/nodes"
_CONFLICT = 409
_NEW_NODE_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_READY_S = 90.0
_POLL_S = 0.2


class NodesNotReadyError(Exception):
    """Some nodes did not get ready; the text names them."""


def seed_nodes(api: Api, nodes: Sequence[NodeSpec]) -> None:
    """Create the nodes, publish their cards, and wait until they take pods.

    The cluster must know the GPUNode resource. NodesNotReadyError if that takes too long.
    """

    def seed(node: NodeSpec) -> None:
        uid = create_node(api, node)
        publish_inventory(api, node, uid)

    api.each(seed, nodes)
    wait_nodes_ready(api, [node.name for node in nodes])


def wait_nodes_ready(api: Api, names: Iterable[str]) -> None:
    """Wait until these nodes are Ready and have lost the taint of new nodes."""
    waiting = set(names)
    for _ in looks(_READY_S, _POLL_S):
        waiting -= {node["metadata"]["name"] for node in api.get(_NODES)["items"] if _takes_pods(node)}
        if not waiting:
            return
    raise NodesNotReadyError(f"not ready after {_READY_S:.0f} s: {', '.join(sorted(waiting))}")


def _takes_pods(node: Json) -> bool:
    conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])}
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and not taints & _NEW_NODE_TAINTS


def create_node(api: Api, node: NodeSpec) -> str:
    """Create the Node, or grow one that is there to the described capacity; its uid."""
    manifest = node_manifest(node)
    try:
        created = api.create(_NODES, manifest)
    except ApiError as error:
        if error.status != _CONFLICT:
            raise
        created = api.merge(f"{_NODES}/{node.name}/status", {"status": manifest["status"]})
    return str(created["metadata"]["uid"])


def publish_inventory(api: Api, node: NodeSpec, uid: str) -> None:
    """Write the node's `GPUNode` as the agent does: owned by the Node, inventory by forced apply."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": uid}
    path = f"{GPU_NODES}/{node.name}"
    named = {"name": node.name, "ownerReferences": [owner]}
    api.apply(path, _gpu_node(named), manager=AGENT_FIELD_MANAGER)
    status = {**_gpu_node({"name": node.name}), "status": inventory(node)}
    api.apply(f"{path}/status", status, manager=AGENT_FIELD_MANAGER)


def node_manifest(node: NodeSpec) -> Json:
    """The Node object, with one extended resource per card in GB."""
    capacity = {"cpu": node.cpu, "memory": node.memory, "ephemeral-storage": "1Ti", "pods": str(node.pods)}
    for slot, (_, gpu) in enumerate(node.cards()):
        capacity[card_resource(slot)] = str(budget_gb(gpu.mib))
    labels = {"kubernetes.io/hostname": node.name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {**labels, **node.labels},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": node.taints} if node.taints else {},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def inventory(node: NodeSpec) -> Json:
    """The part of a GPUNode's status that the agent owns."""
    cards = [
        {
            "index": slot,
            "uuid": uuid,
            "model": gpu.model,
            "vendor": gpu.vendor.value,
            "class": CardClass.DISCRETE.value,
            "memoryMiB": gpu.mib,
            "budgetGB": budget_gb(gpu.mib),
            "healthy": True,
        }
        for slot, (uuid, gpu) in enumerate(node.cards())
    ]
    versions = {"cuda": node.cuda, "rocm": node.rocm}
    return {
        "source": "agent",
        "cards": cards,
        "models": describe_models(gpu.model for _, gpu in node.cards()),
        "accelVersions": {runtime: version for runtime, version in versions.items() if version},
        "injection": "env",
    }


def _gpu_node(metadata: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": GPU_NODE, "metadata": metadata}
