"""What a `ModelPlacement` tells over a workload's life, and that `kubectl wait` can wait for each of it."""

from __future__ import annotations

from typing import Any

import pytest

from hack.devcluster.api import Api, Json
from shared.api import names
from tests.e2e.conftest import AnyCluster, MakePool
from tests.e2e.kube import Namespace, deployment, pod, template, until

pytestmark = pytest.mark.e2e

_OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 16 GiB"
_REPORT = "modelplacement/deployment-chat"


def test_kubectl_waits_for_each_condition(cluster: AnyCluster, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    namespace.create(pod("holder", {names.VRAM: "12"}, pool=here.name))
    namespace.create(deployment("chat", {names.VRAM: "6"}, pool=here.name))
    namespace.waiting("chat", "insufficient_capacity")
    for wish in ("condition=Waiting", "condition=Running=false", "jsonpath={.status.lastErrorCode}=NoFitError"):
        _wait(cluster, namespace, wish)
    columns = _columns(cluster, namespace)
    assert (columns["PHASE"], columns["WAITING"], columns["REASON"]) == ("Failed", "True", "insufficient_capacity")
    namespace.delete("Pod", "holder")
    for wish in (
        "condition=Placed",
        "condition=Running",
        "condition=Waiting=false",
        "jsonpath={.status.phase}=Running",
    ):
        _wait(cluster, namespace, wish)
    assert _columns(cluster, namespace)["WAITING"] == "False"


def test_a_model_that_runs_out_of_memory_is_explained(
    api: Api, cluster: AnyCluster, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(deployment("chat", {names.VRAM: "6"}, pool=here.name))
    (server,) = namespace.running("chat")
    _wait(cluster, namespace, "condition=Running")
    _crash(api, namespace, server, _OOM)
    _wait(cluster, namespace, "jsonpath={.status.lastErrorCode}=OOM")
    status = namespace.placement("Deployment", "chat")
    name = server["metadata"]["name"]
    said = f"container server of pod {name} ran out of GPU memory on gpu-0 of {here.node} with 6 GB: CUDA out of memory"
    assert status["lastErrorMessage"].startswith(said)
    assert "Raise kamiwaza.ai/vram-gb (to 8, say)" in status["lastErrorMessage"]
    _wait(cluster, namespace, "condition=Running=false")
    columns = _columns(cluster, namespace)
    assert (columns["PHASE"], columns["REASON"]) == ("Placed", "out_of_memory")

    def told() -> list[int]:
        return [event["count"] for event in namespace.events("Deployment", "chat", "OOM")]

    until("it is told", lambda: told() == [1])
    _crash(api, namespace, server, _OOM, at="2026-11-30T10:01:00Z")
    until("and counted", lambda: told() == [2])
    _crash(api, namespace, server, _OOM, at="2026-11-30T10:01:00Z", since="2026-11-30T10:02:00Z")
    until("it serves", lambda: namespace.placement("Deployment", "chat").get("phase") == "Running")


def test_how_placements_ended_is_remembered(
    api: Api, cluster: AnyCluster, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(deployment("chat", {names.VRAM: "6"}, pool=here.name))
    (server,) = namespace.running("chat")
    _wait(cluster, namespace, "condition=Running")
    namespace.delete("Pod", server["metadata"]["name"])

    def ended(kind: str, name: str) -> dict[str, str]:
        return {each["pod"]: each["ended"] for each in namespace.placement(kind, name).get("history", ())}

    until("it was deleted", lambda: ended("Deployment", "chat") == {server["metadata"]["name"]: "Deleted"})
    asks = {names.VRAM: "6", "dev.placement/complete-after": "1h"}
    spec = template("train", asks, here.name, restartPolicy="Never")
    job = {"template": spec, "backoffLimit": 0}
    namespace.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": job})
    (worker,) = namespace.running("train")
    until("it is shown", lambda: namespace.placement("Job", "train").get("placed") == 1)
    _crash(api, namespace, worker, _OOM, phase="Failed")
    until("it ran out", lambda: ended("Job", "train") == {worker["metadata"]["name"]: "OOM"})
    assert namespace.placement("Job", "train")["lastErrorCode"] == "OOM"


def _wait(cluster: AnyCluster, namespace: Namespace, wish: str) -> None:
    for state in ("create", wish):
        cluster.kubectl("wait", f"--for={state}", "--timeout=60s", _REPORT, "-n", namespace.name)


def _columns(cluster: AnyCluster, namespace: Namespace) -> dict[str, str]:
    """The row of the report as `kubectl get` shows it, by column."""
    header, row = cluster.kubectl("get", _REPORT, "-n", namespace.name).stdout.splitlines()
    starts = [header.index(name) for name in header.split()]
    ends: list[int | None] = [*starts[1:], None]
    return {header[start:end].strip(): row[start:end].strip() for start, end in zip(starts, ends, strict=True)}


def _crash(
    api: Api,
    namespace: Namespace,
    server: Json,
    words: str,
    at: str = "2026-11-30T10:00:00Z",
    since: str = "",
    **status: Any,
) -> None:
    """The kubelet's word that the server of a pod died, waits to be started again or, with `since`, was."""
    died = {"terminated": {"exitCode": 1, "reason": "Error", "message": words, "startedAt": at, "finishedAt": at}}
    now = {"running": {"startedAt": since}} if since else {"waiting": {"reason": "CrashLoopBackOff"}}
    container = {
        **server["status"]["containerStatuses"][0],
        "state": died if status else now,
        "lastState": {} if status else died,
        "ready": bool(since),
        "restartCount": 1,
    }
    path = namespace.path("Pod", server["metadata"]["name"]) + "/status"
    api.merge(path, {"status": {"containerStatuses": [container], **status}})
