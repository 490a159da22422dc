"""Owners that lack pods for which there is room, and pods that are never bound: read from raw JSON.

As the rest of the checker it shares no code with the product. It reads pods that ask by annotation and select their
nodes by label, as the scenarios' do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hack.devcluster.api import Api, Json
from shared.api import names
from tests.e2e.invariants import booked_gb
from tests.e2e.kube import node_of

_OWNERS = {
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
}
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Standstill:
    """An owner that lacks pods, and a node on which one would fit; or a pod, and the node to which it is not bound."""

    owner: str
    uid: str
    node: str
    what: str

    def __str__(self) -> str:
        return f"{self.owner} stands still: {self.what}"


def standstills(api: Api, nodes: Collection[str]) -> list[Standstill]:
    """Every owner that stands still though it would fit on one of `nodes`."""
    owners = [{"kind": kind, **each} for kind, path in _OWNERS.items() for each in api.get(path)["items"]]
    pods = api.get("/api/v1/pods")["items"]
    ledgers = api.get(f"/apis/{names.API_VERSION}/gpunodes")["items"]
    ours = [each for each in api.get("/api/v1/nodes")["items"] if each["metadata"]["name"] in nodes]
    return [*standing(owners, pods, ledgers, ours), *unbound(pods, nodes)]


def standing(
    owners: Iterable[Json], pods: Collection[Json], gpu_nodes: Iterable[Json], nodes: Collection[Json]
) -> Iterator[Standstill]:
    """The same of what was read."""
    ledgers = {each["metadata"]["name"]: each.get("status") or {} for each in gpu_nodes}
    free = {node["metadata"]["name"]: _free(ledgers, pods, node["metadata"]["name"]) for node in nodes}
    by_owner: defaultdict[str, list[Json]] = defaultdict(list)
    for pod in pods:
        if pod["status"].get("phase") not in _ENDED:
            by_owner[_owner(pod)].append(pod)
    for owner in owners:
        metadata, template = owner["metadata"], owner["spec"]["template"]
        asks = (template["metadata"].get("annotations") or {}).get(names.VRAM)
        if asks is None or "deletionTimestamp" in metadata:
            continue
        count = int((template["metadata"].get("annotations") or {}).get(names.GPUS, "1"))
        for node in nodes:
            name = node["metadata"]["name"]
            lacks = _lacks(owner, by_owner[metadata["uid"]], name)
            fit = [gb for gb in free[name].values() if gb >= int(asks)]
            if lacks > 0 and len(fit) >= count and _is_open(node, template["spec"]):
                who = f"{metadata['namespace']}/{metadata['name']}"
                what = f"it lacks {lacks} pods of {count} x {asks} GB, and {name} has cards with {sorted(fit)} GB free"
                yield Standstill(who, metadata["uid"], name, what)
                break


def unbound(pods: Iterable[Json], nodes: Collection[str]) -> Iterator[Standstill]:
    """Pods that are placed on one of `nodes` and wait for a scheduler that has nothing else to wait for."""
    for pod in pods:
        metadata, spec, node = pod["metadata"], pod["spec"], node_of(pod)
        waits = not (spec.get("nodeName") or spec.get("schedulingGates") or "deletionTimestamp" in metadata)
        if waits and node in nodes:
            who = f"{metadata['namespace']}/{metadata['name']}"
            yield Standstill(who, metadata["uid"], node, f"it is placed on {node} and not bound to it")


def _free(ledgers: Mapping[str, Mapping[str, Any]], pods: Iterable[Json], node: str) -> dict[int, int]:
    """By card what neither the node's ledger nor the pods on it have taken."""
    status = ledgers.get(node, {})
    reserved, held = booked_gb(status, pods, node)
    return {
        card["index"]: card["budgetGB"] - max(reserved[card["index"]], held[card["index"]])
        for card in status.get("cards") or ()
        if card.get("healthy")
    }


def _is_open(node: Json, spec: Mapping[str, Any]) -> bool:
    labels = node["metadata"].get("labels") or {}
    ready = any((each["type"], each["status"]) == ("Ready", "True") for each in node["status"].get("conditions") or ())
    selected = all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
    return ready and selected and not node["spec"].get("unschedulable") and not node["spec"].get("taints")


def _lacks(owner: Json, pods: Collection[Json], node: str) -> int:
    """How many more pods an owner wants than `pods`, if one could go to this node."""
    spec, status = owner["spec"], owner.get("status") or {}
    match owner.get("kind"):
        case "DaemonSet":
            return 1 - sum(node_of(pod) == node for pod in pods)
        case "Job":
            over = any(each["type"] in {"Complete", "Failed"} for each in status.get("conditions") or ())
            left = 0 if over else spec.get("completions", 1) - status.get("succeeded", 0)
            return int(min(spec.get("parallelism", 1), left)) - len(pods)
        case _:
            return int(spec.get("replicas", 1)) - len(pods)


def _owner(pod: Json) -> str:
    return next((ref["uid"] for ref in pod["metadata"].get("ownerReferences") or () if ref.get("controller")), "")
