"""Paths point where they say, whatever the name of an object is."""

from __future__ import annotations

import pytest

from shared.kube import paths


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (paths.pods(), "/api/v1/pods"),
        (paths.pods("team-a"), "/api/v1/namespaces/team-a/pods"),
        (paths.pods("team-a", "llm-0"), "/api/v1/namespaces/team-a/pods/llm-0"),
        (paths.nodes("gpu-1"), "/api/v1/nodes/gpu-1"),
        (paths.namespaces("team-a"), "/api/v1/namespaces/team-a"),
        (paths.events("team-a"), "/api/v1/namespaces/team-a/events"),
        (paths.secrets("sys", "tls"), "/api/v1/namespaces/sys/secrets/tls"),
        (paths.leases("sys", "lead"), "/apis/coordination.k8s.io/v1/namespaces/sys/leases/lead"),
        (paths.gpu_nodes(), "/apis/placement.kamiwaza.ai/v1alpha1/gpunodes"),
        (paths.status_of(paths.gpu_nodes("n")), "/apis/placement.kamiwaza.ai/v1alpha1/gpunodes/n/status"),
        (
            paths.model_placements("team-a", "deployment-llm"),
            "/apis/placement.kamiwaza.ai/v1alpha1/namespaces/team-a/modelplacements/deployment-llm",
        ),
        (
            paths.mutating_webhooks("zz"),
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz",
        ),
        (
            paths.validating_webhooks("v"),
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v",
        ),
        (paths.object_path("v1", "Pod", "a", "b"), "/api/v1/namespaces/a/pods/b"),
        (paths.object_path("apps/v1", "ReplicaSet", "a", "b"), "/apis/apps/v1/namespaces/a/replicasets/b"),
        (paths.object_path("batch/v1", "Job", "a", "b"), "/apis/batch/v1/namespaces/a/jobs/b"),
    ],
)
def test_a_path_points_at_its_object(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets/token", "%2e%2e", "x" * 254])
def test_no_name_leads_out_of_its_collection(name: str) -> None:
    with pytest.raises(paths.InvalidName):
        paths.pods("default", name)
    with pytest.raises(paths.InvalidName):
        paths.object_path("apps/v1", "Deployment", name, "web")


def test_a_name_with_url_characters_stays_one_segment() -> None:
    assert paths.nodes("a?watch=true&b#c d") == "/api/v1/nodes/a%3Fwatch%3Dtrue%26b%23c%20d"


def test_one_pod_cannot_be_named_without_its_namespace() -> None:
    with pytest.raises(paths.InvalidName, match="namespace"):
        paths.pods(name="llm-0")


def test_a_kind_that_was_named_has_the_plural_that_was_named() -> None:
    kinds = {("ray.io/v1", "RayCluster"): "rayclusters"}
    path = paths.object_path("ray.io/v1", "RayCluster", "a", "b", kinds)
    assert path == "/apis/ray.io/v1/namespaces/a/rayclusters/b"
    with pytest.raises(paths.UnknownKind, match="only RayCluster are looked up"):
        paths.object_path("ray.io/v1", "RayJob", "a", "b", kinds)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("argoproj.io/v1alpha1", "Rollout"),
        ("apps/v1beta1", "Deployment"),
        ("../v1", "Pod"),
        ("apps/v1", "deployment"),
    ],
)
def test_a_kind_that_is_not_known_is_never_guessed(api_version: str, kind: str) -> None:
    with pytest.raises(paths.UnknownKind, match="ReplicaSet"):
        paths.object_path(api_version, kind, "default", "web")
