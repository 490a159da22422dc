"""Every kind of workload gets its cards, runs, is shown, and gives the cards back."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from hack.devcluster.api import Api, Json
from shared.api import names
from tests.e2e.conftest import AnyCluster, MakePool, Pool, Stage, wait_heard
from tests.e2e.kube import (
    IMAGE,
    Namespace,
    Shares,
    booked,
    deployment,
    node_of,
    phase,
    pod,
    reservation,
    shares,
    template,
    until,
    wait_balanced,
    workload,
)

pytestmark = pytest.mark.e2e


def _placed(api: Api, here: Pool, pods: Iterable[Json], shape: list[Shares]) -> None:
    """The pods hold shares of this shape on nodes of `here`, each by an id of its own, and the ledgers say the same."""
    pods = list(pods)
    assert [shares(pod) for pod in pods] == shape
    assert {node_of(pod) for pod in pods} <= set(here.nodes)
    assert len({reservation(pod) for pod in pods}) == len(pods)
    held = sum(sum(each.values()) for each in shape)
    # Pods that are on their way out still hold theirs.
    until(f"{held} GB are booked", lambda: sum(sum(booked(api, node).values()) for node in here.nodes) == held)
    wait_balanced(api, here.nodes)


def _freed(api: Api, here: Pool) -> None:
    for node in here.nodes:
        until(f"{node} is free", lambda node=node: booked(api, node) == {})  # type: ignore[misc]
    wait_balanced(api, here.nodes)


def test_a_deployment_gets_its_cards_and_frees_them(
    api: Api, cluster: AnyCluster, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16, 16)
    namespace.create(deployment("chat", {names.VRAM: "8"}, pool=here.name, replicas=3))
    pods = namespace.running("chat", 3)
    assert sorted(index for pod in pods for index in shares(pod)) == [0, 0, 1]
    _placed(api, here, pods, [shares(pod) for pod in pods])
    described = cluster.kubectl("describe", "node", here.node).stdout
    allocated = {line.split()[0]: line.split()[1] for line in described.splitlines() if " " in line.strip()}
    assert allocated[names.card_resource(0)] == "16"
    assert allocated[names.card_resource(1)] == "8"

    namespace.merge("Deployment", "chat", {"spec": {"replicas": 1}})
    rest = namespace.running("chat", 1)
    _placed(api, here, rest, [shares(pod) for pod in rest])
    namespace.delete("Deployment", "chat")
    _freed(api, here)


def test_a_rolling_update_places_the_new_pods_and_frees_the_old(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(24, 24)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    namespace.create(deployment("chat", {names.VRAM: "8"}, pool=here.name, replicas=3, strategy=rolling))
    old = {reservation(pod) for pod in namespace.running("chat", 3)}

    larger = {"spec": {"template": {"metadata": {"annotations": {names.VRAM: "10"}}}}}
    namespace.merge("Deployment", "chat", larger)
    until(
        "the rollout is complete",
        lambda: [sum(shares(pod).values()) for pod in namespace.pods("chat")] == [10, 10, 10],
    )
    new = namespace.running("chat", 3)
    assert old.isdisjoint(reservation(pod) for pod in new)
    _placed(api, here, new, [shares(pod) for pod in new])
    until("it is shown", lambda: namespace.placement("Deployment", "chat").get("phase") == "Running")


def test_a_stateful_set_gets_its_cards_pod_by_pod(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    namespace.create(workload("StatefulSet", "chat", template("chat", {names.VRAM: "6"}, here.name), replicas=2))
    pods = namespace.running("chat", 2)
    assert [pod["metadata"]["name"] for pod in pods] == ["chat-0", "chat-1"]
    _placed(api, here, pods, [{0: 6}, {0: 6}])

    namespace.delete("Pod", "chat-0")
    until(
        "chat-0 is made anew", lambda: reservation(namespace.find("Pod", "chat-0") or pods[0]) != reservation(pods[0])
    )
    _placed(api, here, namespace.running("chat", 2), [{0: 6}, {0: 6}])
    namespace.delete("StatefulSet", "chat")
    _freed(api, here)


def test_a_daemon_set_gets_a_card_of_every_node(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16, nodes=2)
    namespace.create(workload("DaemonSet", "chat", template("chat", {names.VRAM: "6"}, here.name)))
    pods = namespace.running("chat", 2)
    assert {node_of(pod) for pod in pods} == set(here.nodes)
    _placed(api, here, pods, [{0: 6}, {0: 6}])
    namespace.delete("DaemonSet", "chat")
    _freed(api, here)


def test_a_job_frees_its_cards_when_it_completes(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    done_at_once = {names.VRAM: "6", "dev.placement/complete-after": "500ms"}
    namespace.create(_job("train", template("train", done_at_once, here.name, restartPolicy="Never")))
    until(
        "the pod ran with its share and is done",
        lambda: [(shares(pod), phase(pod)) for pod in namespace.pods("train")] == [({0: 6}, "Succeeded")],
    )
    _freed(api, here)
    until("the Job is complete", lambda: namespace.get("Job", "train")["status"].get("succeeded") == 1)


def test_a_failed_pod_frees_its_cards(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    fails = {names.VRAM: "6", "dev.placement/behaviour": "fail"}
    namespace.create(pod("chat", fails, pool=here.name, restartPolicy="Never"))
    until("the pod has failed", lambda: phase(namespace.get("Pod", "chat")) == "Failed")
    _freed(api, here)


def test_a_cron_job_is_the_top_owner_of_its_pods(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    asks = {names.VRAM: "6", "dev.placement/complete-after": "1h"}
    job = _job("nightly", template("nightly", asks, here.name, restartPolicy="Never"))
    spec = {"schedule": "0 0 30 2 *", "jobTemplate": {"spec": job["spec"]}}
    nightly = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec}
    owner = namespace.create(nightly)
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": owner["metadata"]["uid"]}
    job["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    namespace.create(job)
    _placed(api, here, namespace.running("nightly"), [{0: 6}])
    until("it is shown", lambda: namespace.placement("CronJob", "nightly").get("placed") == 1)


def test_a_bare_pod_gets_its_cards_and_frees_them(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16, 16, 16)
    namespace.create(pod("chat", {names.VRAM: "10", names.GPUS: "2"}, pool=here.name))
    _placed(api, here, namespace.running("chat"), [{0: 10, 1: 10}])
    namespace.delete("Pod", "chat")
    _freed(api, here)


def test_whole_cards_are_taken_by_a_vendor_count(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16, 16, 16)
    namespace.create(pod("chat", limits={names.NVIDIA_GPU: "2"}, pool=here.name))
    (placed,) = namespace.running("chat")
    _placed(api, here, [placed], [{0: 16, 1: 16}])
    assert names.NVIDIA_GPU not in placed["spec"]["containers"][0]["resources"]["limits"]
    error = namespace.refusal(pod("more", limits={names.NVIDIA_GPU: "2"}, pool=here.name))
    assert "insufficient_gpu_count" in error.message


def test_a_pod_that_is_on_its_way_out_keeps_its_card_until_it_is_gone(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    lingers = {names.VRAM: "10", "dev.placement/behaviour": "linger"}
    namespace.create(pod("chat", lingers, pool=here.name))
    namespace.running("chat")
    namespace.delete("Pod", "chat")
    until("it is on its way out", lambda: "deletionTimestamp" in namespace.get("Pod", "chat")["metadata"])
    assert "insufficient_capacity" in namespace.refusal(pod("next", {names.VRAM: "10"}, pool=here.name)).message
    assert booked(api, here.node) == {0: 10}
    api.delete(namespace.path("Pod", "chat") + "?gracePeriodSeconds=0")
    _freed(api, here)


def test_a_pod_that_names_its_node_is_placed_there_without_the_scheduler(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16, nodes=2)
    first, second = here.nodes
    namespace.create(pod("chat", {names.VRAM: "10"}, nodeName=second))
    (placed,) = namespace.running("chat")
    assert node_of(placed) == second
    _placed(api, here, [placed], [{0: 10}])
    error = namespace.refusal(pod("next", {names.VRAM: "10"}, nodeName=second))
    assert f"gpu-0 of {second}, has 6 of 16 GB free" in error.message
    assert "insufficient_capacity" in namespace.refusal(pod("lost", {names.VRAM: "6"}, nodeName="nowhere")).message
    assert booked(api, first) == {}


def test_a_pod_that_waits_at_a_gate_keeps_its_share(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    gates = [{"name": "example.com/wait"}]
    stored = namespace.create(pod("gated", {names.VRAM: "10"}, pool=here.name, schedulingGates=gates))
    assert (node_of(stored), shares(stored)) == (here.node, {0: 10})
    assert "has 6 of 16 GB free" in namespace.refusal(pod("next", {names.VRAM: "10"}, pool=here.name)).message
    namespace.merge("Pod", "gated", {"spec": {"schedulingGates": None}})
    _placed(api, here, namespace.running("gated"), [{0: 10}])


def test_a_model_placement_tells_the_story(api: Api, cluster: AnyCluster, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    namespace.create(pod("holder", {names.VRAM: "6"}, pool=here.name))
    owner = namespace.create(deployment("chat", {names.VRAM: "6"}, pool=here.name, replicas=2))
    namespace.running("chat", 1)
    namespace.waiting("chat", "insufficient_capacity")
    until("one is shown", lambda: namespace.placement("Deployment", "chat").get("placed") == 1)
    status = namespace.placement("Deployment", "chat")
    assert (status["phase"], status["wanted"], status["lastErrorCode"]) == ("Failed", 2, "NoFitError")
    assert status["lastErrorMessage"].startswith("insufficient_capacity: needs 6 GB")
    assert _conditions(status) == {"Placed": "False", "Running": "False", "Waiting": "True"}
    (refusal,) = status["refusals"].values()
    assert (refusal["reason"], refusal["waitable"]) == ("insufficient_capacity", True)

    report = namespace.get(names.MODEL_PLACEMENT, "deployment-chat")
    (reference,) = report["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"]) == ("Deployment", owner["metadata"]["uid"])
    header, *rows = cluster.kubectl("get", "modelplacements", "-n", namespace.name).stdout.splitlines()
    (row,) = [row for row in rows if row.startswith("deployment-chat")]
    for column in ("Failed", "insufficient_capacity", f"{here.node} gpu-0 6 GB"):
        assert column in row, f"{header}\n{row}"

    namespace.delete("Pod", "holder")
    waits = ("wait", "--for=condition=Placed", "--timeout=60s", "modelplacement/deployment-chat")
    cluster.kubectl(*waits, "-n", namespace.name)
    until("it runs", lambda: namespace.placement("Deployment", "chat").get("phase") == "Running")
    status = namespace.placement("Deployment", "chat")
    assert "lastErrorCode" not in status
    assert not status.get("refusals")
    assert sorted(each["pod"] for each in status["placements"]) == [
        pod["metadata"]["name"] for pod in namespace.running("chat", 2)
    ]

    namespace.delete("Deployment", "chat")
    until("it goes with its owner", lambda: namespace.find(names.MODEL_PLACEMENT, "deployment-chat") is None)


def test_events_stand_on_the_top_owner_and_are_folded(
    stage: Stage, cluster: AnyCluster, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(deployment("first", {names.VRAM: "10"}, pool=here.name))
    (first,) = namespace.running("first")
    (placed,) = until("the placement is told", lambda: namespace.events("Deployment", "first", "Placed"))
    assert placed["type"] == "Normal"
    assert placed["message"] == f"pod {first['metadata']['name']} is placed on gpu-0 of {here.node} with 10 GB"

    wait_heard(stage)  # so that every refusal names the same pod
    namespace.create(deployment("second", {names.VRAM: "10"}, pool=here.name))

    def folded() -> list[Json]:
        events = namespace.events("Deployment", "second", "NoFit")
        return events if events and events[0]["count"] >= 2 else []

    (refused,) = until("the refusal is told again", folded, within_s=30)
    assert refused["type"] == "Warning"
    assert refused["message"].startswith("insufficient_capacity: needs 10 GB")
    assert not namespace.pods("second")
    (replica_set,) = namespace.listed("ReplicaSet", app="second")
    assert not namespace.events("ReplicaSet", replica_set["metadata"]["name"])
    described = cluster.kubectl("describe", "deployment", "second", "-n", namespace.name).stdout
    assert refused["message"].splitlines()[0] in described


def test_what_a_template_is_warned_of_reaches_those_who_look_at_its_deployment_and_its_pods(
    cluster: AnyCluster, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    warned = deployment("chat", {names.VRAM: "6"}, replicas=2, pool=here.name)
    warned["spec"]["template"]["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    namespace.create(warned)
    pods = namespace.running("chat", 2)

    until("both are told", lambda: len(namespace.events("Deployment", "chat", "PlacementWarning")) == 2)
    events = namespace.events("Deployment", "chat", "PlacementWarning")
    assert {event["type"] for event in events} == {"Warning"}
    privileged, limit = sorted(event["message"] for event in events)[::-1]
    assert privileged == "container server: it is privileged and can use every card of its node, whatever is reserved"
    assert "--gpu-memory-utilization is not set" in limit
    for kind, name in (("deployment", "chat"), *(("pod", each["metadata"]["name"]) for each in pods)):
        shown = cluster.kubectl("describe", kind, name, "-n", namespace.name).stdout
        assert all(event["message"] in " ".join(shown.split()) for event in events), shown


def test_a_sidecar_and_an_init_container_are_counted_with_their_server(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(24)
    ask = {"limits": {names.VRAM: "4"}}
    before = [
        {"name": "embed", "image": IMAGE, "restartPolicy": "Always", "resources": ask},
        {"name": "convert", "image": IMAGE, "resources": {"limits": {names.VRAM: "12"}}},
    ]
    namespace.create(pod("chat", {f"{names.VRAM}.server": "8"}, pool=here.name, initContainers=before))
    (placed,) = namespace.running("chat")
    _placed(api, here, [placed], [{0: 16}])
    by_name = {each["name"]: each for each in (*placed["spec"]["containers"], *placed["spec"]["initContainers"])}
    assert by_name["embed"]["resources"]["limits"] == {names.card_resource(0): "4"}
    assert by_name["server"]["resources"]["limits"] == {names.card_resource(0): "12"}
    assert names.card_resource(0) not in by_name["convert"].get("resources", {}).get("limits", {})


def _job(name: str, pods: Json) -> Json:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": pods}}


def _conditions(status: Json) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status["conditions"]}
