"""A server-side dry run gives the answer that a create would get, and leaves no trace."""

from __future__ import annotations

import pytest

from hack.devcluster.api import Api, Json
from shared.api import names
from tests.e2e.conftest import AnyCluster, MakePool, Pool, Stage, wait_heard
from tests.e2e.kube import (
    Namespace,
    deployment,
    gpu_node,
    ledger,
    node_of,
    pod,
    reservation,
    shares,
    until,
    wait_balanced,
)

pytestmark = pytest.mark.e2e


def _version(api: Api, here: Pool) -> str:
    return str(gpu_node(api, here.node)["metadata"]["resourceVersion"])


def _owned(manifest: Json, replica_set: Json) -> Json:
    metadata = replica_set["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"]}
    manifest["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return manifest


def test_of_a_pod_that_fits_shows_the_placement_and_books_nothing(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    whole = pod("chat", {names.VRAM: "16"}, pool=here.name)
    until("the first summary is written", lambda: gpu_node(api, here.node)["status"].get("summary"))
    before = _version(api, here)
    for _ in range(3):
        shown = namespace.create(whole, dry_run=True)
        assert (node_of(shown), shares(shown)) == (here.node, {0: 16})
        assert reservation(shown)
        assert names.PLACED in shown["metadata"]["annotations"]
    assert _version(api, here) == before
    assert namespace.find("Pod", "chat") is None

    stored = namespace.create(whole)
    assert (node_of(stored), shares(stored)) == (here.node, {0: 16})
    assert list(ledger(api, here.node)) == [reservation(stored)]
    assert reservation(stored) != reservation(shown)


def test_of_a_pod_that_does_not_fit_says_the_same_and_reports_nothing(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    api, here = stage.api, pool(16)
    namespace.create(deployment("holder", {names.VRAM: "10"}, pool=here.name))
    namespace.running("holder")
    wait_balanced(api, here.nodes)
    wait_heard(stage)
    (owner,) = namespace.listed("ReplicaSet", app="holder")
    before = _version(api, here)
    too_much = _owned(pod("chat", {names.VRAM: "10"}, pool=here.name), owner)
    dry = namespace.refusal(too_much, dry_run=True)
    assert "refusals" not in namespace.placement("Deployment", "holder")

    namespace.create(deployment("other", {names.VRAM: "10"}, pool=here.name))
    namespace.waiting("other", "insufficient_capacity")
    assert not namespace.placement("Deployment", "holder").get("refusals")
    assert not namespace.events("Deployment", "holder", "NoFit")
    assert _version(api, here) == before

    real = namespace.refusal(too_much)
    assert (dry.status, dry.message, dry.details) == (real.status, real.message, real.details)


def test_of_kubectl_apply_says_why(cluster: AnyCluster, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    asks = f"""
apiVersion: v1
kind: Pod
metadata: {{name: chat, annotations: {{{names.VRAM}: "20"}}}}
spec:
  nodeSelector: {{pool: {here.name}}}
  containers: [{{name: server, image: none}}]
"""
    done = cluster.kubectl("apply", "--dry-run=server", "-n", namespace.name, "-f", "-", input=asks, check=False)
    assert done.returncode != 0
    assert f"insufficient_capacity: needs 20 GB on one card; the best card, gpu-0 of {here.node}" in done.stderr
