"""What a decision needs to know of volumes, claims and storage classes: projections of their JSON, kept instead of it.

A cluster has tens of thousands of volumes, nearly all of them bound, and of those only the way to them matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.api import names
from shared.core.pods import Raw, interned
from shared.core.quantity import millis, units_of_millis
from shared.core.selectors import (
    NodeSelectorTerm,
    Operator,
    Requirement,
    read_label_selector,
    read_node_selector_terms,
)
from shared.core.volumes import ZONE_LABELS, Claim, ClaimUse, Offer, StorageClass, Volume, Wish

ONE_POD: Final = "ReadWriteOncePod"
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}
_LEFT_BEHIND: Final = frozenset({"Released", "Failed"})
"""Phases of a volume whose claim is gone: what it says of a claim means an earlier one of that name."""


def volume_facts(raw: Raw) -> Volume:
    """The facts of a stored `PersistentVolume`. Raises `QuantityError` where its capacity is no quantity."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = metadata.get("labels") or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    reference = spec.get("claimRef")
    left_behind = status.get("phase") in _LEFT_BEHIND
    is_free = not reference and not left_behind and metadata.get("deletionTimestamp") is None
    return Volume(
        terms=None if required is None else read_node_selector_terms(required.get("nodeSelectorTerms")),
        zones=tuple((key, frozenset(labels[key].split("__"))) for key in ZONE_LABELS if key in labels),
        claim=f"{reference.get('namespace')}/{reference.get('name')}" if reference and not left_behind else None,
        offer=_offer(spec, labels) if is_free else None,
    )


def claim_facts(raw: Raw) -> Claim:
    """The facts of a stored `PersistentVolumeClaim`. Raises `QuantityError` where its request is no quantity."""
    spec, annotations = raw.get("spec") or {}, raw["metadata"].get("annotations") or {}
    volume = spec.get("volumeName")
    wish = None if volume else _wish(spec, annotations)
    return Claim(volume or None, wish, ONE_POD in (spec.get("accessModes") or ()))


def storage_class_facts(raw: Raw) -> StorageClass:
    """The facts of a stored `StorageClass`."""
    metadata = raw["metadata"]
    annotations = metadata.get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in names.DEFAULT_CLASS)
    return StorageClass(
        waits=raw.get("volumeBindingMode") == "WaitForFirstConsumer",
        provisions=raw.get("provisioner") != names.NO_PROVISIONER,
        topologies=tuple(map(_topology, raw.get("allowedTopologies") or ())),
        default_since=metadata.get("creationTimestamp") or "" if is_default else None,
    )


def claim_uses(spec: Raw, namespace: str) -> tuple[ClaimUse, ...]:
    """The claims among the volumes of a pod in `namespace`."""
    uses = []
    for volume in spec.get("volumes") or ():
        claim, ephemeral = volume.get("persistentVolumeClaim"), volume.get("ephemeral")
        if claim:
            name = claim["claimName"]
            uses.append(ClaimUse(name, key=f"{namespace}/{name}"))
        elif ephemeral:
            template = ephemeral.get("volumeClaimTemplate") or {}
            uses.append(ClaimUse(volume.get("name") or "", wish=_wish(template.get("spec") or {})))
    return tuple(uses)


def _offer(spec: Raw, labels: Mapping[str, str]) -> Offer:
    return Offer(
        storage_class=spec.get("storageClassName") or "",
        capacity=_bytes(spec.get("capacity")),
        access_modes=frozenset(spec.get("accessModes") or ()),
        block=spec.get("volumeMode") == "Block",
        labels=interned(labels),
    )


def _wish(spec: Raw, annotations: Mapping[str, str] = _NO_ANNOTATIONS) -> Wish:
    named = spec.get("storageClassName")
    return Wish(
        storage_class=annotations.get(names.CLAIM_CLASS) if named is None else named,
        capacity=_bytes((spec.get("resources") or {}).get("requests")),
        access_modes=frozenset(spec.get("accessModes") or ()),
        block=spec.get("volumeMode") == "Block",
        selector=read_label_selector(spec.get("selector")),
        selected_node=annotations.get(names.CLAIM_SELECTED_NODE),
    )


def _bytes(amounts: Mapping[str, Any] | None) -> int:
    return units_of_millis(millis((amounts or {}).get("storage") or "0"))


def _topology(raw: Raw) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(
            Requirement(expression.get("key") or "", Operator.IN, tuple(expression.get("values") or ()))
            for expression in raw.get("matchLabelExpressions") or ()
        )
    )
