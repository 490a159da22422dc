"""How many pods an owner wants to have, and how many it says that it has: read from the owner as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
            return 0 if status.get("phase") in {"Succeeded", "Failed"} else 1
    return None


def existing_pods(owner: Mapping[str, Any]) -> int:
    """How many pods the owner says that it has, placed or not; 0 for a kind we do not know.

    Its controller writes that after it has looked at the pods, so it may be of a moment ago.
    """
    status = owner.get("status") or {}
    match owner.get("apiVersion"), owner.get("kind"):
        case ("apps/v1", "Deployment" | "ReplicaSet" | "StatefulSet") | ("v1", "ReplicationController"):
            return int(status.get("replicas", 0))
        case "apps/v1", "DaemonSet":
            return int(status.get("currentNumberScheduled", 0))
        case "batch/v1", "Job":
            return int(status.get("active", 0))
    return 0


def current_pods(owner: Mapping[str, Any]) -> int:
    """How many of the pods that the owner says that it has are of its present template."""
    status = owner.get("status") or {}
    match owner.get("apiVersion"), owner.get("kind"):
        case "apps/v1", "Deployment" | "StatefulSet":
            return int(status.get("updatedReplicas", 0))
        case "apps/v1", "DaemonSet":
            return int(status.get("updatedNumberScheduled", 0))
    return existing_pods(owner)


def creates_one_at_a_time(owner: Mapping[str, Any]) -> bool:
    """Whether the owner creates no pod before the one that it created last is ready."""
    one_by_one = (owner.get("spec") or {}).get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    return owner.get("kind") == "StatefulSet" and one_by_one


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
