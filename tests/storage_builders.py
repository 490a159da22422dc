"""Raw volumes, claims and storage classes for tests, and the picture that decisions have of them.

storage(a_volume("disk", claim="models/cache", node="t4"), a_claim("cache", volume="disk"), a_class("ssd", waits=True))
"""

from __future__ import annotations

from typing import Any, Final

from shared.core.volume_facts import claim_facts, storage_class_facts, volume_facts
from shared.core.volumes import Volumes
from shared.kube.storage import Storage
from tests.builders import HOSTNAME, expressions, requirement

Raw = dict[str, Any]
_GIB: Final = "Gi"


def a_volume(
    name: str = "disk",
    *,
    claim: str | None = None,
    node: str | None = None,
    terms: list[Raw] | None = None,
    labels: dict[str, str] | None = None,
    phase: str | None = None,
    gib: int = 10,
    **spec: Any,
) -> Raw:
    """A volume that belongs to `claim` (`namespace/name`), or a free one; `node` is the one node that reaches it."""
    if node is not None:
        terms = [expressions(requirement(HOSTNAME, "In", node))]
    body: Raw = {"capacity": {"storage": f"{gib}{_GIB}"}, "accessModes": ["ReadWriteOnce"], **spec}
    if terms is not None:
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if claim is not None:
        namespace, _, of = claim.partition("/")
        body["claimRef"] = {"namespace": namespace, "name": of}
    status = {"phase": phase or ("Bound" if claim else "Available")}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": body,
        "status": status,
    }


def a_claim(
    name: str = "cache",
    *,
    volume: str | None = None,
    of_class: str | None = None,
    gib: int = 5,
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    annotations: dict[str, str] | None = None,
    namespace: str = "models",
    **spec: Any,
) -> Raw:
    """A claim that is bound to `volume`, or one that waits for a volume of a class."""
    body: Raw = {"accessModes": list(modes), "resources": {"requests": {"storage": f"{gib}{_GIB}"}}, **spec}
    if volume is not None:
        body["volumeName"] = volume
    if of_class is not None:
        body["storageClassName"] = of_class
    metadata: Raw = {"name": name, "namespace": namespace, "annotations": annotations or {}}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": body}


def a_class(
    name: str = "local",
    *,
    waits: bool = True,
    provisioner: str = "kubernetes.io/no-provisioner",
    zones: tuple[str, ...] = (),
    default_since: str | None = None,
) -> Raw:
    """A storage class; `zones` are those where it makes volumes."""
    raw: Raw = {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    }
    if zones:
        raw["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}]
    if default_since is not None:
        raw["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        raw["metadata"]["creationTimestamp"] = default_since
    return raw


def fill(target: Storage, *raws: Raw) -> None:
    """Tells `target` of these objects, as the watches would."""
    for raw in raws:
        name = raw["metadata"]["name"]
        match raw["kind"]:
            case "PersistentVolume":
                target.volume_upserted(name, volume_facts(raw))
            case "PersistentVolumeClaim":
                target.claim_upserted(f"{raw['metadata']['namespace']}/{name}", claim_facts(raw))
            case _:
                target.class_upserted(name, storage_class_facts(raw))


def storage(*raws: Raw) -> Volumes:
    """The picture of a cluster with these objects."""
    target = Storage()
    fill(target, *raws)
    return target.volumes
