"""What the pods of a workload look like, and which workloads a refusal can be about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from shared.core.owners import OwnerRef
from shared.kube.paths import OwnerKinds

NO_KINDS: Final[OwnerKinds] = {}
_DEEPEST: Final = 8


def pod_of(owner: Mapping[str, Any], namespace: str) -> dict[str, Any] | None:
    """A pod as the owner would create it, or None for an owner without a template."""
    template = (owner.get("spec") or {}).get("template")
    return _pod(template, namespace) if isinstance(template, Mapping) else None


def pods_of(owner: Mapping[str, Any], namespace: str) -> Iterator[dict[str, Any]]:
    """A pod of each template in the spec of an owner: custom kinds may have one for every group of workers.

    A template is what holds a pod's spec under `template`, however deep: Kubernetes' API conventions have it so.
    """
    pending: list[tuple[object, int]] = [(owner.get("spec"), 0)]
    while pending:
        value, depth = pending.pop()
        if depth > _DEEPEST:
            continue
        if isinstance(value, list):
            pending += [(item, depth + 1) for item in reversed(value)]
        elif isinstance(value, Mapping):
            for key, item in value.items():
                if key == "template" and _is_template(item):
                    yield _pod(item, namespace)
                else:
                    pending.append((item, depth + 1))


_API_VERSIONS = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "ReplicationController": "v1",
}


def refused_owner(key: str, refusal: Mapping[str, Any], more_kinds: OwnerKinds = NO_KINDS) -> OwnerRef | None:
    """The owner that a refusal in a status is about (`ReplicaSet.chat-5d4f`), or None for a kind that is neither
    Kubernetes' own nor among `more_kinds`.
    """
    kind, _, name = key.partition(".")
    api_versions = {kind: api_version for api_version, kind in more_kinds} | _API_VERSIONS
    api_version = api_versions.get(kind)
    return OwnerRef(api_version, kind, name, str(refusal.get("uid", ""))) if api_version and name else None


def _pod(template: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    return {**template, "metadata": {**(template.get("metadata") or {}), "namespace": namespace}}


def _is_template(value: object) -> bool:
    spec = value.get("spec") if isinstance(value, Mapping) else None
    return isinstance(spec, Mapping) and isinstance(spec.get("containers"), list)
