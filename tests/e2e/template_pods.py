"""The pods that controllers make of the templates in a manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tests.e2e.manifests import pinned
from tests.fakes.api import merged
from tests.fakes.objects import Json, copied

_DAEMON_TOLERATIONS: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_FIRST: Final = "0"


def pods_of(document: Json, nodes: Mapping[str, Mapping[str, str]]) -> dict[str, Json]:
    """A pod for each template, by the part of the document that it comes from; for a DaemonSet one for each of `nodes`
    (their labels by name) that its selector matches. A pod stands for itself.
    """
    name = document["metadata"].get("name") or document["metadata"].get("generateName")
    return {
        part: _pod(document, f"{name}-{part}", template)
        for part, template in _READERS.get(document["kind"], _none)(document, nodes)
    }


def _pod(document: Json, name: str, template: Json) -> Json:
    if document["kind"] == "Pod":
        return copied(document)
    metadata = {**(template.get("metadata") or {}), "name": name, "namespace": document["metadata"]["namespace"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copied(template["spec"])}


_Parts = Iterator[tuple[str, Json]]


def _none(_document: Json, _nodes: Mapping[str, Mapping[str, str]]) -> _Parts:
    yield from ()


def _itself(document: Json, _nodes: Mapping[str, Mapping[str, str]]) -> _Parts:
    yield "itself", document


def _template(document: Json, _nodes: Mapping[str, Mapping[str, str]]) -> _Parts:
    yield "template", document["spec"]["template"]


def _cron_job(document: Json, _nodes: Mapping[str, Mapping[str, str]]) -> _Parts:
    yield "template", document["spec"]["jobTemplate"]["spec"]["template"]


def _stateful_set(document: Json, _nodes: Mapping[str, Mapping[str, str]]) -> _Parts:
    """The first replica, with the claims that are made for it."""
    name, spec = document["metadata"]["name"], document["spec"]
    template = copied(spec["template"])
    for claim in spec.get("volumeClaimTemplates") or ():
        volume = claim["metadata"]["name"]
        source = {"persistentVolumeClaim": {"claimName": f"{volume}-{name}-{_FIRST}"}}
        template["spec"].setdefault("volumes", []).append({"name": volume, **source})
    yield "template", merged(template, {"metadata": {"labels": {"apps.kubernetes.io/pod-index": _FIRST}}})


def _daemon_set(document: Json, nodes: Mapping[str, Mapping[str, str]]) -> _Parts:
    template = document["spec"]["template"]
    selector = template["spec"].get("nodeSelector") or {}
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
        for key, effect in _DAEMON_TOLERATIONS
    ]
    for node, labels in nodes.items():
        if selector.items() <= labels.items():
            own = [*(template["spec"].get("tolerations") or ()), *tolerations]
            yield node, merged(template, {"spec": {"affinity": pinned(node), "tolerations": own}})


def _leader_worker_set(document: Json, _nodes: Mapping[str, Mapping[str, str]]) -> _Parts:
    group = document["spec"]["leaderWorkerTemplate"]
    for role in ("leader", "worker"):
        template = copied(group[f"{role}Template"])
        for container in template["spec"]["containers"]:
            variables = {"LWS_GROUP_SIZE": str(group["size"]), "LWS_LEADER_ADDRESS": "big-moe-0.big-moe.models"}
            container["env"] = [{"name": key, "value": value} for key, value in variables.items()]
        yield role, template


def _ray_service(document: Json, _nodes: Mapping[str, Mapping[str, str]]) -> _Parts:
    cluster = document["spec"]["rayClusterConfig"]
    yield "head", cluster["headGroupSpec"]["template"]
    for group in cluster["workerGroupSpecs"]:
        yield group["groupName"], group["template"]


_READERS: Final[Mapping[str, Callable[[Json, Mapping[str, Mapping[str, str]]], _Parts]]] = {
    "Pod": _itself,
    "Deployment": _template,
    "Job": _template,
    "CronJob": _cron_job,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "LeaderWorkerSet": _leader_worker_set,
    "RayService": _ray_service,
}
