"""URL paths of the objects that the product reads and writes.

A name may come from a pod somebody wrote, so every segment is checked: no name leads to another collection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias
from urllib.parse import quote

from shared.api import names

_CORE: Final = "/api/v1"
_OWN: Final = f"/apis/{names.API_VERSION}"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_LONGEST_NAME: Final = 253

OwnerKinds: TypeAlias = Mapping[tuple[str, str], str]
"""API version and kind to the plural that stands in the URL."""

OWNER_KINDS: Final[OwnerKinds] = {
    ("v1", "Pod"): "pods",
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "DaemonSet"): "daemonsets",
    ("batch/v1", "Job"): "jobs",
    ("batch/v1", "CronJob"): "cronjobs",
}
"""Kubernetes' own kinds that own pods. Plurals do not follow from kinds, so another kind is an error, not a guess."""


class InvalidName(ValueError):
    """A string that no Kubernetes object can have as its name."""


class UnknownKind(LookupError):
    """An owner kind of which the product does not know the URL."""


def pods(namespace: str | None = None, name: str | None = None) -> str:
    """All pods, the pods of a namespace, or one pod."""
    return _namespaced(_CORE, "pods", namespace, name)


def nodes(name: str | None = None) -> str:
    """All nodes, or one."""
    return _cluster_scoped(_CORE, "nodes", name)


def namespaces(name: str | None = None) -> str:
    """All namespaces, or one."""
    return _cluster_scoped(_CORE, "namespaces", name)


def volumes() -> str:
    """All PersistentVolumes."""
    return _cluster_scoped(_CORE, "persistentvolumes", None)


def volume_claims(namespace: str | None = None) -> str:
    """All PersistentVolumeClaims, or those of a namespace."""
    return _namespaced(_CORE, "persistentvolumeclaims", namespace, None)


def storage_classes() -> str:
    """All StorageClasses."""
    return _cluster_scoped("/apis/storage.k8s.io/v1", "storageclasses", None)


def resource_quotas(namespace: str | None = None) -> str:
    """All ResourceQuotas, or those of a namespace."""
    return _namespaced(_CORE, "resourcequotas", namespace, None)


def disruption_budgets(namespace: str | None = None) -> str:
    """All PodDisruptionBudgets, or those of a namespace."""
    return _namespaced("/apis/policy/v1", "poddisruptionbudgets", namespace, None)


def events(namespace: str, name: str | None = None) -> str:
    """The core/v1 events of a namespace, or one. `kubectl describe` shows these."""
    return _namespaced(_CORE, "events", namespace, name)


def secrets(namespace: str, name: str | None = None) -> str:
    """The Secrets of a namespace, or one."""
    return _namespaced(_CORE, "secrets", namespace, name)


def leases(namespace: str, name: str | None = None) -> str:
    """The Leases of a namespace, or one."""
    return _namespaced("/apis/coordination.k8s.io/v1", "leases", namespace, name)


def gpu_nodes(name: str | None = None) -> str:
    """All GPUNodes, or one."""
    return _cluster_scoped(_OWN, names.GPU_NODE.lower() + "s", name)


def model_placements(namespace: str | None = None, name: str | None = None) -> str:
    """All ModelPlacements, those of a namespace, or one."""
    return _namespaced(_OWN, names.MODEL_PLACEMENT.lower() + "s", namespace, name)


def mutating_webhooks(name: str | None = None) -> str:
    """All MutatingWebhookConfigurations, or one."""
    return _cluster_scoped(_ADMISSION, "mutatingwebhookconfigurations", name)


def validating_webhooks(name: str | None = None) -> str:
    """All ValidatingWebhookConfigurations, or one."""
    return _cluster_scoped(_ADMISSION, "validatingwebhookconfigurations", name)


def status_of(path: str) -> str:
    """The status subresource of the object at `path`."""
    return path + "/status"


def log_of(path: str) -> str:
    """What the containers of the pod at `path` printed."""
    return path + "/log"


def object_path(api_version: str, kind: str, namespace: str, name: str, kinds: OwnerKinds = OWNER_KINDS) -> str:
    """The namespaced object that an owner reference points at.

    Raises `UnknownKind` for kinds outside `kinds`, `InvalidName` for names no object can have.
    """
    plural = kinds.get((api_version, kind))
    if plural is None:
        known = ", ".join(kind for _, kind in kinds)
        raise UnknownKind(f"owner kind {kind!r} of {api_version!r}: only {known} are looked up")
    prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return _namespaced(prefix, plural, namespace, name)


def _cluster_scoped(prefix: str, plural: str, name: str | None) -> str:
    return f"{prefix}/{plural}" + ("" if name is None else f"/{_segment(name)}")


def _namespaced(prefix: str, plural: str, namespace: str | None, name: str | None) -> str:
    if namespace is None:
        if name is not None:
            raise InvalidName(f"{plural} {name!r}: name its namespace too")
        return f"{prefix}/{plural}"
    return _cluster_scoped(f"{prefix}/namespaces/{_segment(namespace)}", plural, name)


def _segment(name: str) -> str:
    """`name` as one path segment, by the rule the API server has for names of any kind."""
    if name in {"", ".", ".."} or "/" in name or "%" in name or len(name) > _LONGEST_NAME:
        raise InvalidName(
            f"name {name[:_LONGEST_NAME]!r}: give 1 to 253 characters without '/' and '%', not '.' or '..'"
        )
    return quote(name, safe="")
