"""What the pods of a workload look like, and which workloads a refusal can be about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.core.owners import OwnerRef


def pod_of(owner: Mapping[str, Any], namespace: str) -> dict[str, Any] | None:
    """A pod as the owner would create it, or None for an owner without a template."""
    template = (owner.get("spec") or {}).get("template")
    if not isinstance(template, Mapping):
        return None
    return {**template, "metadata": {**(template.get("metadata") or {}), "namespace": namespace}}


_API_VERSIONS = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "ReplicationController": "v1",
}


def refused_owner(key: str, refusal: Mapping[str, Any]) -> OwnerRef | None:
    """The owner that a refusal in a status is about (`ReplicaSet.chat-5d4f`), or None for a kind we cannot read."""
    kind, _, name = key.partition(".")
    api_version = _API_VERSIONS.get(kind)
    return OwnerRef(api_version, kind, name, str(refusal.get("uid", ""))) if api_version and name else None
