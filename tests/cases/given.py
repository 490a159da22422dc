"""What `given` says of nodes and pods, as the objects that a cluster has of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.fakes.objects import Json
from tests.fakes.pod_rules import is_extended

SERVER: Final = "server"
"""The one container of a pod that exists already."""

_HOSTNAME: Final = "kubernetes.io/hostname"
_ALLOCATABLE: Final = {"cpu": "32", "memory": "256Gi", "pods": "110"}


def node_object(given: Json) -> Json:
    """A given node with its status."""
    allocatable = {**(given.get("allocatable") or _ALLOCATABLE), **(given.get("allocatableExtended") or {})}
    ready = "True" if given.get("ready", True) else "False"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": given["name"], "labels": {_HOSTNAME: given["name"], **(given.get("labels") or {})}},
        "spec": {
            **({"taints": given["taints"]} if given.get("taints") else {}),
            **({"unschedulable": True} if given.get("unschedulable") else {}),
        },
        "status": {
            "capacity": {**texts(allocatable), **texts(given.get("capacity") or {})},
            "allocatable": texts(allocatable),
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }  # fmt: skip


def pod_object(given: Json) -> Json:
    """A given pod as its client sent it, with the status that it has now."""
    requests = texts(given.get("resources") or {})
    limits = {name: value for name, value in requests.items() if is_extended(name)}
    container: Json = {"name": SERVER, "image": "registry.example/server:1"}
    if requests:
        container["resources"] = {"requests": requests, **({"limits": limits} if limits else {})}
    spec: Json = {"containers": [container]}
    if given.get("node"):
        spec["nodeName"] = given["node"]
    if given.get("priority") is not None:
        spec["priority"] = given["priority"]
    phase = given.get("phase") or "Running"
    status: Json = {"phase": phase}
    if given.get("reason"):
        status["reason"] = given["reason"]
    if given.get("containerState"):
        waiting = {"waiting": {"reason": given["containerState"]}}
        status["containerStatuses"] = [{"name": SERVER, "state": waiting, "restartCount": 5}]
    labels = given.get("labels")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": given["name"],
            "namespace": given["namespace"],
            **({"labels": dict(labels)} if labels else {}),
        },
        "spec": spec,
        "status": status,
    }


def texts(amounts: Mapping[str, Any]) -> dict[str, str]:
    """Amounts as the API server writes them."""
    return {name: str(value) for name, value in amounts.items()}
