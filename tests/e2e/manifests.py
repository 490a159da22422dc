"""Manifests that people make of pods which were placed, or to look like them."""

from __future__ import annotations

import copy

from hack.devcluster.api import Json
from shared.api import names

FORGED_ID = "a234567bcd"
"""Has the form of a reservation id; no ledger has it."""


def pinned(node: str) -> Json:
    """The affinity that pins a pod to a node."""
    fields = [{"key": names.NODE_NAME_FIELD, "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def copied(stored: Json, name: str) -> Json:
    """What `kubectl get -o yaml`, another name and `kubectl create` make of a pod."""
    manifest = copy.deepcopy(stored)
    for field in ("namespace", "resourceVersion", "uid", "creationTimestamp", "managedFields"):
        manifest["metadata"].pop(field, None)
    manifest["metadata"]["name"] = name
    return manifest
