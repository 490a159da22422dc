"""How many pods a workload wants, and what they look like: read from the owner as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.core.owners import OwnerRef


def wanted_pods(owner: Mapping[str, Any]) -> int | None:
    """How many pods the owner wants to have at this moment, or None for a kind we do not know."""
    spec = owner.get("spec") or {}
    status = owner.get("status") or {}
    match owner.get("apiVersion"), owner.get("kind"):
        case ("apps/v1", "Deployment" | "ReplicaSet" | "StatefulSet") | ("v1", "ReplicationController"):
            return int(spec.get("replicas", 1))
        case "apps/v1", "DaemonSet":
            return int(status.get("desiredNumberScheduled", 0))
        case "batch/v1", "Job":
            return _wanted_by_job(spec, status)
        case "v1", "Pod":
            return 1
    return None


def pod_of(owner: Mapping[str, Any], namespace: str) -> dict[str, Any] | None:
    """A pod as the owner would create it, or None for an owner without a template."""
    template = (owner.get("spec") or {}).get("template")
    if not isinstance(template, Mapping):
        return None
    return {**template, "metadata": {**(template.get("metadata") or {}), "namespace": namespace}}


def _wanted_by_job(spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    finished = any(
        condition.get("type") in {"Complete", "Failed"} and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    if finished or spec.get("suspend"):
        return 0
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is None:
        return parallelism
    return max(0, min(parallelism, int(completions) - int(status.get("succeeded", 0))))


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
