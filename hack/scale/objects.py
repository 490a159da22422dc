"""The objects of a made-up cluster, about as large as real ones: nodes with 8 cards, model pods and others.

Half of the pods are model servers that were placed, each with its owners and with its entry in a ledger.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from shared.api import names
from shared.core.ledger import ID_ALPHABET, ID_LENGTH, Entry, owner_hash
from shared.kube import paths

Json: TypeAlias = dict[str, Any]

SYSTEM: Final = "placement-system"
MODELS: Final = "models"
CARDS: Final = 8
CARD_GB: Final = 80
_NAMESPACES: Final = 50
_IMAGES: Final = 40
_CREATED: Final = "2026-01-01T00:00:00Z"
_CREATED_S: Final = 1767225600


def everything(nodes: int, pods: int) -> Iterator[tuple[str, Json]]:
    """Every object with the path of its collection."""
    for namespace in (MODELS, SYSTEM, *(f"team-{number}" for number in range(_NAMESPACES))):
        labels = {names.NAMESPACE_LABEL: names.MODE_ENABLED} if namespace == MODELS else {}
        yield paths.namespaces(), {"metadata": {"name": namespace, "labels": labels}}
    for path, name in (
        (paths.mutating_webhooks(), "zz-placement-operator"),
        (paths.validating_webhooks(), "placement-operator"),
    ):
        yield path, {"metadata": {"name": name}, "webhooks": [{"name": "pods.kamiwaza.ai", "clientConfig": {}}]}
    ledgers: dict[int, dict[str, str]] = {}
    for number in range(pods // 2):
        gb = random.Random(number).randrange(4, 41)  # noqa: S311 - the same cluster in every run
        place, card = number % nodes, number // nodes % CARDS
        yield paths.pods(MODELS), _model_pod(number, place, card, gb)
        yield f"/apis/apps/v1/namespaces/{MODELS}/replicasets", _replica_set(number)
        yield f"/apis/apps/v1/namespaces/{MODELS}/deployments", _deployment(number)
        entry = Entry(MODELS, owner_hash(f"uid-model-{number}-5f6d7c8b9"), _CREATED_S, ((card, gb),))
        ledgers.setdefault(place, {})[reservation_id(number)] = entry.encode()
    for number in range(pods - pods // 2):
        yield paths.pods(f"team-{number % _NAMESPACES}"), _other_pod(number, number % nodes)
    for number in range(nodes):
        yield paths.nodes(), _node(number)
        yield paths.gpu_nodes(), _gpu_node(number, ledgers.get(number, {}))


def reservation_id(number: int) -> str:
    """The id of a model pod's reservation."""
    digits = [ID_ALPHABET[number // len(ID_ALPHABET) ** place % len(ID_ALPHABET)] for place in range(ID_LENGTH)]
    return "".join(digits)


def _name(number: int) -> str:
    return f"gpu-node-{number:04}.example.internal"


def _node(number: int) -> Json:
    name = _name(number)
    amounts = {
        "cpu": "128",
        "memory": "1056270324Ki",
        "ephemeral-storage": "1813510Mi",
        "pods": "110",
        **{names.card_resource(index): str(CARD_GB) for index in range(CARDS)},
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "r1",
        "topology.kubernetes.io/zone": f"z{number % 3}",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        **{f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{each}": "true" for each in range(40)},
    }
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "reason": f"Kubelet{kind}",
            "message": f"kubelet says about {kind} what it has to say",
            "lastHeartbeatTime": _CREATED,
            "lastTransitionTime": _CREATED,
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [
        {
            "names": [
                f"registry.example/team/image-{each}@sha256:{each:064x}",
                f"registry.example/team/image-{each}:1",
            ],
            "sizeBytes": 10**9 + each,
        }
        for each in range(_IMAGES)
    ]
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, "managedFields": _managed(labels)},
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"example://{name}"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images},
    }


def _gpu_node(number: int, ledger: dict[str, str]) -> Json:
    name = _name(number)
    cards = [
        {
            "index": index,
            "uuid": f"GPU-{number:08x}-0000-4000-8000-{index:012x}",
            "model": "NVIDIA H100 80GB HBM3",
            "vendor": "nvidia",
            "class": "discrete",
            "memoryMiB": CARD_GB * 1024,
            "budgetGB": CARD_GB,
            "healthy": True,
            "foreignGB": 0,
        }
        for index in range(CARDS)
    ]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": f"uid-{name}"}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.GPU_NODE,
        "metadata": {"name": name, "ownerReferences": [owner], "managedFields": _managed({})},
        "status": {"source": "agent", "cards": cards, "accelVersions": {"cuda": "12.9"}, "reservations": ledger},
    }


def _model_pod(number: int, node: int, card: int, gb: int) -> Json:
    name = f"model-{number}-5f6d7c8b9"
    share = {names.card_resource(card): str(gb)}
    pod = _pod(f"{name}-x7k2p", node, "ReplicaSet", name, {"limits": share, "requests": {"cpu": "4", **share}})
    pod["metadata"]["labels"] |= {names.RESERVATION: reservation_id(number)}
    return pod


def _other_pod(number: int, node: int) -> Json:
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    return _pod(f"web-{number}-6c9f8-k2x7p", node, "ReplicaSet", f"web-{number}-6c9f8", resources)


def _pod(name: str, node: int, owner_kind: str, owner: str, resources: Json) -> Json:
    labels = {"app": owner, "app.kubernetes.io/part-of": "platform", "pod-template-hash": "5f6d7c8b9"}
    container: Json = {
        "name": "server",
        "image": "registry.example/server@sha256:" + 64 * "0",
        "args": ["--model", "/models/one", "--port", "8000"],
        "env": [{"name": f"VARIABLE_{each}", "value": "x" * 40} for each in range(20)],
        "resources": resources,
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8000, "scheme": "HTTP"}, "periodSeconds": 10},
        "volumeMounts": [{"name": f"volume-{each}", "mountPath": f"/mnt/{each}"} for each in range(4)],
    }
    reference = {"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    return {
        "metadata": {
            "name": name,
            "labels": labels,
            "ownerReferences": [reference],
            "managedFields": _managed({entry["name"]: "" for entry in container["env"]}),
        },
        "spec": {
            "nodeName": _name(node),
            "containers": [container],
            "volumes": [{"name": f"volume-{each}", "emptyDir": {}} for each in range(4)],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": "server", "ready": True}]},
    }


def _replica_set(number: int) -> Json:
    deployment = f"model-{number}"
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": f"uid-{deployment}"}
    return _owner(f"{deployment}-5f6d7c8b9") | {
        "metadata": {
            "name": f"{deployment}-5f6d7c8b9",
            "uid": f"uid-{deployment}-5f6d7c8b9",
            "ownerReferences": [{**reference, "controller": True}],
        }
    }


def _deployment(number: int) -> Json:
    return _owner(f"model-{number}")


def _owner(name: str) -> Json:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"replicas": 1, "template": {}}}


def _managed(fields: Json) -> list[Json]:
    """Which field is whose, which makes up a good part of most objects."""
    return [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": _CREATED,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, **{f"f:{key}": {} for key in fields}}}},
        }
    ]
