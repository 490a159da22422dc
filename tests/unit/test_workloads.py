"""How many pods a workload wants, and what they look like."""

from __future__ import annotations

from typing import Any

import pytest

from controller.workloads import pod_of, pods_of, refused_owner
from shared.core.owners import OwnerRef
from shared.core.wanted import existing_pods, wanted_pods

COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "status", "wanted"),
    [
        pytest.param("apps/v1", "Deployment", {"replicas": 3}, {}, 3, id="deployment"),
        pytest.param("apps/v1", "Deployment", {}, {}, 1, id="deployment-without-a-number"),
        pytest.param("apps/v1", "ReplicaSet", {"replicas": 0}, {}, 0, id="scaled-down"),
        pytest.param("apps/v1", "StatefulSet", {"replicas": 2}, {}, 2, id="stateful-set"),
        pytest.param("v1", "ReplicationController", {"replicas": 2}, {}, 2, id="replication-controller"),
        pytest.param("apps/v1", "DaemonSet", {}, {"desiredNumberScheduled": 5}, 5, id="daemon-set"),
        pytest.param("apps/v1", "DaemonSet", {}, {}, 0, id="daemon-set-not-looked-at-yet"),
        pytest.param("v1", "Pod", {}, {}, 1, id="bare-pod"),
        pytest.param("v1", "Pod", {}, {"phase": "Failed"}, 0, id="bare-pod-that-ended"),
        pytest.param("batch/v1", "Job", {"parallelism": 4}, {}, 4, id="job-with-a-queue"),
        pytest.param("batch/v1", "Job", {}, {}, 1, id="job"),
        pytest.param(
            "batch/v1", "Job", {"parallelism": 4, "completions": 10}, {"succeeded": 8}, 2, id="job-at-its-end"
        ),
        pytest.param(
            "batch/v1", "Job", {"parallelism": 2, "completions": 2}, {"succeeded": 3}, 0, id="job-beyond-its-end"
        ),
        pytest.param("batch/v1", "Job", {"parallelism": 2}, COMPLETE, 0, id="job-that-is-complete"),
        pytest.param(
            "batch/v1", "Job", {}, {"conditions": [{"type": "Failed", "status": "True"}]}, 0, id="job-that-has-failed"
        ),
        pytest.param(
            "batch/v1",
            "Job",
            {},
            {"conditions": [{"type": "Failed", "status": "False"}]},
            1,
            id="job-that-has-not-failed",
        ),
        pytest.param("batch/v1", "Job", {"suspend": True}, {}, 0, id="suspended-job"),
        pytest.param("batch/v1", "CronJob", {}, {}, None, id="cron-job"),
        pytest.param("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 3}, {}, None, id="unknown-kind"),
        pytest.param("batch.volcano.sh/v1alpha1", "Job", {"tasks": []}, {}, None, id="job-of-another-group"),
    ],
)
def test_how_many_pods_an_owner_wants(
    api_version: str, kind: str, spec: dict[str, Any], status: dict[str, Any], wanted: int | None
) -> None:
    assert wanted_pods({"apiVersion": api_version, "kind": kind, "spec": spec, "status": status}) == wanted


@pytest.mark.parametrize(
    ("api_version", "kind", "status", "existing"),
    [
        pytest.param("apps/v1", "Deployment", {"replicas": 3}, 3, id="deployment"),
        pytest.param("apps/v1", "ReplicaSet", {"replicas": 2, "readyReplicas": 1}, 2, id="replica-set"),
        pytest.param("apps/v1", "StatefulSet", {"replicas": 2}, 2, id="stateful-set"),
        pytest.param("v1", "ReplicationController", {"replicas": 2}, 2, id="replication-controller"),
        pytest.param(
            "apps/v1", "DaemonSet", {"desiredNumberScheduled": 5, "currentNumberScheduled": 4}, 4, id="daemon-set"
        ),
        pytest.param("batch/v1", "Job", {"active": 3, "succeeded": 1}, 3, id="job"),
        pytest.param("apps/v1", "ReplicaSet", {}, 0, id="not-looked-at-yet"),
        pytest.param("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 3}, 0, id="unknown-kind"),
    ],
)
def test_how_many_pods_an_owner_says_that_it_has(
    api_version: str, kind: str, status: dict[str, Any], existing: int
) -> None:
    assert existing_pods({"apiVersion": api_version, "kind": kind, "status": status}) == existing


def test_an_owner_without_a_status_yet_wants_what_its_spec_says() -> None:
    assert wanted_pods({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 2}}) == 2
    assert wanted_pods({"apiVersion": "apps/v1", "kind": "Deployment"}) == 1


def test_a_pod_of_an_owner_is_its_template_in_the_owners_namespace() -> None:
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": []}}
    pod = pod_of({"spec": {"template": template}}, "models")
    assert pod == {"metadata": {"labels": {"app": "chat"}, "namespace": "models"}, "spec": {"containers": []}}
    assert pod_of({"spec": {"template": {"spec": {}}}}, "models") == {"metadata": {"namespace": "models"}, "spec": {}}


@pytest.mark.parametrize(
    "owner", [{}, {"spec": None}, {"spec": {"template": None}}, {"spec": {"template": 7}}], ids=str
)
def test_an_owner_without_a_template_has_no_pods_to_show(owner: dict[str, Any]) -> None:
    assert pod_of(owner, "models") is None


POD = {"spec": {"containers": [{"name": "main"}]}}
SHOWN = {"metadata": {"namespace": "models"}, **POD}


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        pytest.param({"template": POD}, 1, id="kubernetes-own"),
        pytest.param(
            {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"template": POD}, {"template": POD}]},
            3,
            id="ray-cluster",
        ),
        pytest.param({"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": POD}}}, 1, id="pytorch-job"),
        pytest.param({"replicatedJobs": [{"template": {"spec": {"template": POD}}}]}, 1, id="template-of-a-template"),
        pytest.param({"template": {"spec": {"text": "{{ name }}"}}}, 0, id="template-of-something-else"),
        pytest.param({"template": "text", "steps": [1, None]}, 0, id="a-word-of-that-name"),
        pytest.param(None, 0, id="no-spec"),
    ],
)
def test_every_template_in_the_spec_of_an_owner_is_found(spec: Any, pods: int) -> None:
    assert list(pods_of({"spec": spec}, "models")) == [SHOWN] * pods


def test_templates_are_searched_only_so_deep() -> None:
    nested: dict[str, Any] = {"template": POD}
    for _ in range(1000):
        nested = {"deeper": nested}
    assert list(pods_of({"spec": nested}, "models")) == []


def test_the_templates_come_in_their_order() -> None:
    groups = [{"template": {**POD, "metadata": {"name": name}}} for name in "abc"]
    assert [pod["metadata"]["name"] for pod in pods_of({"spec": {"groups": groups}}, "models")] == ["a", "b", "c"]


def test_a_custom_kind_is_known_where_it_is_among_those_given() -> None:
    ray = ("ray.io/v1", "RayCluster")
    owner = OwnerRef(*ray, "chat", "uid")
    assert refused_owner("RayCluster.chat", {"uid": "uid"}, {ray: "rayclusters"}) == owner
    assert refused_owner("RayCluster.chat", {"uid": "uid"}) is None


def test_a_custom_kind_with_the_name_of_one_of_kubernetes_is_not_taken_for_it() -> None:
    volcano = {("batch.volcano.sh/v1alpha1", "Job"): "jobs"}
    owner = refused_owner("Job.train", {"uid": "uid"}, volcano)
    assert owner == OwnerRef("batch/v1", "Job", "train", "uid")


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        ("ReplicaSet.chat-5d4f", OwnerRef("apps/v1", "ReplicaSet", "chat-5d4f", "uid")),
        ("StatefulSet.chat.v2", OwnerRef("apps/v1", "StatefulSet", "chat.v2", "uid")),
        ("Job.batch", OwnerRef("batch/v1", "Job", "batch", "uid")),
        ("LeaderWorkerSet.chat", None),
        ("ReplicaSet.", None),
        ("ReplicaSet", None),
        ("", None),
    ],
)
def test_the_owner_that_a_refusal_is_about(key: str, owner: OwnerRef | None) -> None:
    assert refused_owner(key, {"uid": "uid"}) == owner
