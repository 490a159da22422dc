"""What the ModelPlacements say of workloads, and what is so: read from raw JSON, without any of the product's code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hack.devcluster.api import Api, Json
from shared.api import names
from tests.e2e.invariants import is_placed

_COLLECTIONS = {
    "Deployment": "/apis/apps/v1/deployments",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
    "CronJob": "/apis/batch/v1/cronjobs",
    "Pod": "/api/v1/pods",
}
_REPORTS = f"/apis/{names.API_VERSION}/modelplacements"


def misreported(api: Api) -> list[str]:
    """Everything that a ModelPlacement of the cluster says wrongly, and each workload that lacks one."""
    reports = api.get(_REPORTS)["items"]
    objects = [{**each, "kind": kind} for kind, path in _COLLECTIONS.items() for each in api.get(path)["items"]]
    namespaces = api.get("/api/v1/namespaces")["items"]
    going = {each["metadata"]["name"] for each in namespaces if "deletionTimestamp" in each["metadata"]}
    return [
        f"{where} {what}"
        for where, namespace, what in compare(reports, objects)
        if namespace not in going  # where all goes, in any order
    ]


def compare(reports: Iterable[Json], objects: Iterable[Json]) -> Iterator[tuple[str, str, str]]:
    """Which report, its namespace, and what is wrong with it, given all `objects` that may own pods, and the pods."""
    by_uid = {each["metadata"]["uid"]: each for each in objects}
    placed: defaultdict[str, list[Json]] = defaultdict(list)
    for each in by_uid.values():
        if each["kind"] == "Pod" and is_placed(each) and "deletionTimestamp" not in each["metadata"]:
            for uid in _line(each, by_uid):
                placed[uid].append(each)
    reported = set()
    for report in reports:
        metadata = report["metadata"]
        where = f"ModelPlacement {metadata['namespace']}/{metadata['name']}"
        ref: Json = next(iter(metadata.get("ownerReferences") or ()), {})
        reported.add(ref.get("uid"))
        if ref.get("kind") in _COLLECTIONS or not ref:
            for what in _said_wrongly(report.get("status") or {}, by_uid.get(ref.get("uid")), by_uid, placed):
                yield where, metadata["namespace"], what
    for uid in placed.keys() - reported:
        owner = by_uid.get(uid)
        if owner is not None and _ref(owner) is None:
            metadata = owner["metadata"]
            where = f"{owner['kind']} {metadata['namespace']}/{metadata['name']}"
            yield where, metadata["namespace"], f"has {len(placed[uid])} placed pods and no ModelPlacement"


def _said_wrongly(
    status: Mapping[str, Any], owner: Json | None, by_uid: Mapping[str, Json], placed: Mapping[str, list[Json]]
) -> Iterator[str]:
    if owner is None:
        yield "is there, and its workload is gone"
        return
    if "deletionTimestamp" in owner["metadata"]:
        return
    pods = placed.get(owner["metadata"]["uid"], [])
    if (said := status.get("placed")) != len(pods):
        yield f"says that {said} pods are placed, and it is {len(pods)}"
    wants = wanted(owner)
    if wants is not None and (said := status.get("wanted")) != wants:
        yield f"says that {said} pods are wanted, and it is {wants}"
    refusals = status.get("refusals") or {}
    right = _phases(pods, status.get("wanted", 0) if wants is None else wants, bool(refusals))
    if (said := status.get("phase")) not in right:
        yield f"says {said}, and it is {' or '.join(right)}"
    for key, refusal in refusals.items():
        refused = by_uid.get(refusal["uid"])
        if refused is None and key.partition(".")[0] in _COLLECTIONS:
            yield f"shows a refusal of {key}, which is gone"
        wants = wanted(refused) if refused is not None else None
        if wants is not None and len(placed.get(refusal["uid"], ())) >= wants:
            yield f"shows a refusal of {key}, which has all {wants} pods that it wants"


def wanted(owner: Json) -> int | None:
    """How many pods an owner wants now; None for a kind that does not say so."""
    spec, status = owner["spec"], owner.get("status") or {}
    match owner["kind"]:
        case "Deployment" | "ReplicaSet" | "StatefulSet":
            return int(spec.get("replicas", 1))
        case "DaemonSet":
            return int(status.get("desiredNumberScheduled", 0))
        case "Job":
            over = any(each["type"] in {"Complete", "Failed"} for each in status.get("conditions") or ())
            left = 0 if over or spec.get("suspend") else spec.get("completions", 1) - status.get("succeeded", 0)
            return int(max(0, min(spec.get("parallelism", 1), left)))
        case "Pod":
            return int(status.get("phase") not in {"Succeeded", "Failed"})
    return None


def _phases(pods: list[Json], wants: int, refused: bool) -> tuple[str, ...]:
    if refused:
        return ("Failed",)
    if not (wants or pods):
        return ("Idle",)
    if len(pods) < wants:
        return ("Pending",)
    if not all(pod["status"].get("phase") == "Running" for pod in pods):
        return ("Placed",)
    # Whether one of its containers is down for good is told by how it ended, which not every status says.
    return ("Placed", "Running") if any(map(_is_down, pods)) else ("Running",)


def _is_down(pod: Json) -> bool:
    """Whether a container of a pod does not run."""
    containers = pod["status"].get("containerStatuses") or ()
    return any(set(each.get("state") or ()) & {"waiting", "terminated"} for each in containers)


def _line(each: Json, by_uid: Mapping[str, Json]) -> Iterator[str]:
    """The uid of an object, of its controller, of that one's controller, and so on."""
    yield each["metadata"]["uid"]
    while (ref := _ref(each)) is not None:
        yield ref["uid"]
        if ref["uid"] not in by_uid:
            return
        each = by_uid[ref["uid"]]


def _ref(each: Json) -> Json | None:
    return next((ref for ref in each["metadata"].get("ownerReferences") or () if ref.get("controller")), None)
