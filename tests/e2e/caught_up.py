"""Tells when every webhook has heard of everything that was written so far.

A watch keeps the order of its kind: who has seen a marker of a kind has seen what was written before it.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence

from hack.devcluster.api import Api, Json
from hack.devcluster.nodes import AGENT_FIELD_MANAGER, GPU_NODES
from shared.api import names
from shared.core.cards import CardClass, Vendor
from tests.e2e.kube import Namespace, delete_if_there, pod, until
from tests.e2e.reviews import NOWHERE, WebhookPort

_HOME = "default"
_CPUS = "8"
_TAINT = {"key": "marker", "value": "true", "effect": "NoSchedule"}
_RUN = secrets.token_hex(2)
_numbers = itertools.count(1)


def wait_caught_up(api: Api, ports: Sequence[WebhookPort]) -> None:
    """Waits until all webhooks know the nodes, the cards and the pods that are stored now."""
    name = f"marker-{_RUN}-{next(_numbers)}"
    _publish_card(api, name)
    api.create("/api/v1/nodes", _node(name))
    probe = pod(
        "probe",
        {names.VRAM: "1"},
        requests={"cpu": "1"},
        nodeSelector={"kubernetes.io/hostname": name},
        tolerations=[{"operator": "Exists"}],
    )

    def answers() -> set[bool]:
        return {port.mutate(probe, NOWHERE, dryRun=True).allowed for port in ports}

    until("the webhooks have heard of every node and card", lambda: answers() == {True})
    home = Namespace(api, _HOME)
    home.create(pod(name, requests={"cpu": _CPUS}, nodeName=name, tolerations=[{"operator": "Exists"}]))
    until("the webhooks have heard of every pod", lambda: answers() == {False})
    for path in (home.path("Pod", name) + "?gracePeriodSeconds=0", f"/api/v1/nodes/{name}", f"{GPU_NODES}/{name}"):
        delete_if_there(api, path)


def _node(name: str) -> Json:
    amounts = {"cpu": _CPUS, "memory": "8Gi", "pods": "10", names.card_resource(0): "1"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": [_TAINT]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Marker"}],
        },
    }


def _publish_card(api: Api, name: str) -> None:
    card = {
        "index": 0,
        "uuid": f"GPU-{name}",
        "model": "Marker",
        "vendor": Vendor.NVIDIA.value,
        "class": CardClass.DISCRETE.value,
        "memoryMiB": 1024,
        "budgetGB": 1,
        "healthy": True,
    }
    head = {"apiVersion": names.API_VERSION, "kind": names.GPU_NODE, "metadata": {"name": name}}
    path = f"{GPU_NODES}/{name}"
    api.apply(path, head, manager=AGENT_FIELD_MANAGER)
    status = {"source": "agent", "cards": [card], "injection": "env"}
    api.apply(f"{path}/status", {**head, "status": status}, manager=AGENT_FIELD_MANAGER)
