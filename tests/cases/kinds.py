"""Kinds of objects that cases name, and where an API server keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.fakes.objects import Place

_API_VERSIONS: Final[Mapping[str, str]] = {
    "Pod": "v1",
    "Node": "v1",
    "Namespace": "v1",
    "Secret": "v1",
    "ReplicationController": "v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "InferenceService": "serving.kserve.io/v1beta1",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "RayService": "ray.io/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "GPUNode": "placement.kamiwaza.ai/v1alpha1",
}
_SOME_GROUP: Final = "example.com/v1"
_CLUSTER_SCOPED: Final = frozenset({
    "Node", "Namespace", "PersistentVolume", "GPUNode", "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
})  # fmt: skip


def api_version_of(kind: str) -> str:
    """The API version of a kind that a case names without one."""
    return _API_VERSIONS.get(kind, _SOME_GROUP)


def plural_of(kind: str) -> str:
    """The collection's name in URLs."""
    lower = kind.lower()
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"


def namespace_of(raw: Mapping[str, Any]) -> str:
    """The namespace of an object, given whole or by kind, namespace and name; empty for the cluster's own."""
    if raw["kind"] in _CLUSTER_SCOPED:
        return ""
    return str((raw.get("metadata") or raw).get("namespace") or "default")


def place_of_object(raw: Mapping[str, Any]) -> Place:
    """Where an object is kept, given whole or by kind, namespace and name."""
    api_version = raw.get("apiVersion") or api_version_of(raw["kind"])
    prefix = f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"
    name = (raw.get("metadata") or raw).get("name") or ""
    return Place(prefix, plural_of(raw["kind"]), namespace_of(raw) or None, str(name))
