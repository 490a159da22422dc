"""The `ModelPlacement` of a workload: its name, and how it comes into being."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from shared.api import names
from shared.core.owners import OwnerRef
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.errors import AlreadyExists, NotFound

_LONGEST_NAME: Final = 253
_HASH: Final = 8


def placement_name(owner: OwnerRef) -> str:
    """`deployment-chat`; a name that would be too long is cut and ends with a hash of the whole."""
    name = f"{owner.kind.lower()}-{owner.name}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    return f"{name[: _LONGEST_NAME - _HASH - 1].rstrip('.-')}-{digest}"


def refusal_key(owner: OwnerRef) -> str:
    """The key of an owner's refusal in the status: `ReplicaSet.chat-5d4f`."""
    return f"{owner.kind}.{owner.name}"


async def patch_status(
    client: KubeClient, namespace: str, owner: OwnerRef, status: dict[str, Any], resource_version: str | None = None
) -> None:
    """Merges `status` into the status of the owner's object, which is created first if it is missing.

    The object is owned by the workload, so it goes with it. With a `resource_version` a stale write raises `Conflict`.
    Raises `ApiError`.
    """
    path = paths.status_of(paths.model_placements(namespace, placement_name(owner)))
    patch: dict[str, Any] = {"status": status}
    if resource_version is not None:
        patch["metadata"] = {"resourceVersion": resource_version}
    try:
        await client.merge_patch(path, patch)
    except NotFound:
        await _create(client, namespace, owner)
        await client.merge_patch(path, {"status": status})


async def read_status(client: KubeClient, namespace: str, owner: OwnerRef) -> dict[str, Any]:
    """The status of the owner's object now; empty if there is none. Raises `ApiError`."""
    try:
        raw = await client.get(paths.model_placements(namespace, placement_name(owner)))
    except NotFound:
        return {}
    return raw.get("status") or {}


async def _create(client: KubeClient, namespace: str, owner: OwnerRef) -> None:
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.MODEL_PLACEMENT,
        "metadata": {"name": placement_name(owner), "namespace": namespace, "ownerReferences": [reference]},
    }
    try:
        await client.create(paths.model_placements(namespace), body)
    except AlreadyExists:
        return
