"""Volumes, quotas and failed creates on a real control plane: the operator's rights and watches are enough for them."""

from __future__ import annotations

import pytest

from hack.devcluster.api import Api, ApiError, Json
from hack.devcluster.operator import Operator
from shared.api import names
from tests.e2e.conftest import MakePool, Stage
from tests.e2e.kube import Namespace, deployment, ledger, node_of, pod, until

pytestmark = pytest.mark.e2e

_NOT_LOOKED_AT = "earlier attempts not looked at"
_MOST_NOT_LOOKED_AT = 2


def _create_volume(api: Api, namespace: Namespace, node: str) -> str:
    """Path of a volume that only `node` reaches, set aside for a claim of the namespace."""
    name = f"{namespace.name}-disk"
    only = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    volume: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "local": {"path": "/models"},
            "claimRef": {"namespace": namespace.name, "name": "cache"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}},
        },
    }
    api.create("/api/v1/persistentvolumes", volume)
    return f"/api/v1/persistentvolumes/{name}"


def test_a_pod_goes_to_the_node_of_its_volume(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16, 16, nodes=2)
    full, other = here.nodes
    namespace.create(pod("first", {names.VRAM: "6"}, pool=here.name))
    first = namespace.running("first")[0]
    elsewhere = other if node_of(first) == full else full
    path = _create_volume(api, namespace, elsewhere)
    namespace.create({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "cache"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": f"{namespace.name}-disk",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })  # fmt: skip
    claiming = pod("second", {names.VRAM: "6"}, pool=here.name)
    claiming["spec"]["volumes"] = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]
    until("the volume decides", lambda: node_of(namespace.create(claiming, dry_run=True)) == elsewhere)
    api.request("DELETE", path)


def test_a_workload_whose_pods_a_quota_refuses_holds_no_more_than_it_wants(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(80)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    namespace.create(quota)
    until("the quota is in force", lambda: _is_refused(namespace, pod("plain", pool=here.name)))
    namespace.create(deployment("chat", {names.VRAM: "6"}, pool=here.name))
    seen: set[str] = set()
    most = 0

    def tries() -> int:
        nonlocal most
        entries = ledger(stage.api, here.node)
        seen.update(entries)
        most = max(most, len(entries))
        return len(seen)

    until("it tries again and again", lambda: tries() > 3, within_s=60)
    # Where a look takes too long, an attempt is left to run out.
    logs = [each.log.read_text() for each in stage.operator.webhooks] if stage.operator is not None else []
    unseen = [line for log in logs for line in log.splitlines() if _NOT_LOOKED_AT in line and namespace.name in line]
    assert most <= 1 + min(len(unseen), _MOST_NOT_LOOKED_AT), unseen


def test_a_quota_that_keeps_refusals_from_being_reported_is_logged(
    operator: Operator, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    count = "count/modelplacements.placement.kamiwaza.ai"
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {count: "0"}}}
    namespace.create(quota)
    until("the quota is in force", lambda: namespace.get("ResourceQuota", "few")["status"].get("hard"))
    namespace.create(deployment("late", {names.VRAM: "20"}, pool=here.name))

    def warnings() -> list[str]:
        logs = (each.log.read_text() for each in operator.webhooks)
        return [line for log in logs for line in log.splitlines() if namespace.name in line and "level=warning" in line]

    (warning, *_) = until("it is logged", warnings)
    assert f'field="ResourceQuota few: spec.hard[{count}]" value=0' in warning
    assert "fix=" in warning
    assert namespace.placement("Deployment", "late") == {}


def _is_refused(namespace: Namespace, manifest: Json) -> bool:
    try:
        namespace.create(manifest, dry_run=True)
    except ApiError:
        return True
    return False
