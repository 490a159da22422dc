"""What the end-to-end tests say to a cluster and read from it, as raw JSON."""

from __future__ import annotations

import http
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from hack.devcluster.api import Api, ApiError, Json
from hack.devcluster.nodes import GPU_NODES
from hack.devcluster.patience import looks
from shared.api import names
from shared.core.ledger import Entry, decode_all, merge_shares

T = TypeVar("T")
Shares = dict[int, int]
"""GB by slot of a card."""

IMAGE = "registry.example/vllm-openai:v0.11"
PATIENCE_S = 20.0
_POLL_S = 0.05

_GROUPS = {
    "Pod": "/api/v1",
    "Event": "/api/v1",
    "ResourceQuota": "/api/v1",
    "PersistentVolumeClaim": "/api/v1",
    "ReplicationController": "/api/v1",
    "Deployment": "/apis/apps/v1",
    "ReplicaSet": "/apis/apps/v1",
    "StatefulSet": "/apis/apps/v1",
    "DaemonSet": "/apis/apps/v1",
    "Job": "/apis/batch/v1",
    "CronJob": "/apis/batch/v1",
    "PodDisruptionBudget": "/apis/policy/v1",
    names.MODEL_PLACEMENT: f"/apis/{names.API_VERSION}",
}


def until(what: str, read: Callable[[], T], *, within_s: float = PATIENCE_S) -> T:
    """Asks `read` again and again until it gives something true, and returns that. Fails the test after `within_s`,
    later where the machine is busy.
    """
    for _ in looks(within_s, _POLL_S):
        if last := read():
            return last
    pytest.fail(f"not true after {within_s:.0f} s or more: {what} (last seen: {last!r})")


def create_namespace(api: Api, name: str, labels: Mapping[str, str] | None = None) -> None:
    """Creates a namespace, and waits until pods may be created there: not before it has a service account."""
    metadata = {"name": name, "labels": dict(labels or {})}
    api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    until(f"pods may be created in {name}", lambda: api.exists(account))


def find(api: Api, path: str) -> Json | None:
    """The object at `path`, or None if there is none."""
    try:
        return api.get(path)
    except ApiError as error:
        if error.status == http.HTTPStatus.NOT_FOUND:
            return None
        raise


def delete_if_there(api: Api, path: str) -> None:
    """Deletes an object that may be gone already."""
    try:
        api.delete(path)
    except ApiError as error:
        if error.status != http.HTTPStatus.NOT_FOUND:
            raise


def refused(action: Callable[[], object]) -> ApiError:
    """The error that the API server answers `action` with. Fails the test if it lets it pass."""
    with pytest.raises(ApiError) as caught:
        action()
    return caught.value


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace of the cluster, and what stands in it."""

    api: Api
    name: str

    def path(self, kind: str, name: str = "") -> str:
        """URL path of an object, or of all objects of its kind here."""
        collection = f"{_GROUPS[kind]}/namespaces/{self.name}/{kind.lower()}s"
        return f"{collection}/{name}" if name else collection

    def create(self, manifest: Json, *, dry_run: bool = False) -> Json:
        """Creates an object; ApiError if it is refused."""
        return self.api.create(self.path(manifest["kind"]) + ("?dryRun=All" if dry_run else ""), manifest)

    def refusal(self, manifest: Json, *, dry_run: bool = False) -> ApiError:
        """The error that creating `manifest` is answered with; that it is answered with one is asserted."""
        return refused(lambda: self.create(manifest, dry_run=dry_run))

    def get(self, kind: str, name: str) -> Json:
        return self.api.get(self.path(kind, name))

    def find(self, kind: str, name: str) -> Json | None:
        """The object, or None if there is none."""
        return find(self.api, self.path(kind, name))

    def listed(self, kind: str, **labels: str) -> list[Json]:
        """All objects of a kind that carry the labels."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        listing = self.api.get(f"{self.path(kind)}?labelSelector={selector}")
        return [{"apiVersion": listing["apiVersion"], "kind": kind, **item} for item in listing["items"]]

    def merge(self, kind: str, name: str, patch: Json) -> Json:
        """Changes an object by a JSON merge patch."""
        return self.api.merge(self.path(kind, name), patch)

    def delete(self, kind: str, name: str) -> None:
        """Deletes an object, and what it owns in the background."""
        self.api.request("DELETE", self.path(kind, name), {"kind": "DeleteOptions", "propagationPolicy": "Background"})

    def pods(self, app: str) -> list[Json]:
        """The pods with the label `app`, without those that are on their way out."""
        return [pod for pod in self.listed("Pod", app=app) if "deletionTimestamp" not in pod["metadata"]]

    def running(self, app: str, count: int = 1) -> list[Json]:
        """Waits until exactly `count` pods of `app` exist and all run; the pods, by name."""

        def read() -> list[Json]:
            pods = self.pods(app)
            return pods if len(pods) == count and all(phase(pod) == "Running" for pod in pods) else []

        pods = until(f"{count} pod(s) of {app} run", read)
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def placement(self, kind: str, name: str) -> Json:
        """The status of a workload's ModelPlacement; empty while there is none."""
        found = self.find(names.MODEL_PLACEMENT, f"{kind.lower()}-{name}")
        return (found or {}).get("status") or {}

    def waiting(self, name: str, reason: str, *, kind: str = "Deployment") -> Json:
        """Waits until the workload's ModelPlacement says that it was refused for `reason`; its status."""

        def read() -> Json:
            status = self.placement(kind, name)
            return status if status.get("reason") == reason else {}

        return until(f"{kind} {name} is refused with {reason}", read)

    def events(self, kind: str, name: str, reason: str | None = None) -> list[Json]:
        """The operator's own events about an object, or those of one reason."""
        return [
            event
            for event in self.listed("Event")
            if (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
            and event.get("source", {}).get("component") == names.PRODUCT
            and reason in (None, event["reason"])
        ]


def pod(
    name: str,
    asks: Mapping[str, str] | None = None,
    *,
    pool: str | None = None,
    limits: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A pod with one container; `asks` are its annotations, `pool` the pool of nodes that it selects."""
    return {"apiVersion": "v1", "kind": "Pod", **template(name, asks, pool, limits, requests, name=name, **spec)}


def template(
    app: str,
    asks: Mapping[str, str] | None = None,
    pool: str | None = None,
    limits: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    name: str | None = None,
    **spec: Any,
) -> Json:
    """Metadata and spec of a pod with the label `app` and one container, `server`."""
    container: Json = {"name": "server", "image": IMAGE}
    resources = {"limits": limits, "requests": requests}
    if amounts := {kind: dict(amount) for kind, amount in resources.items() if amount is not None}:
        container["resources"] = amounts
    selector = {"nodeSelector": {"pool": pool}} if pool is not None else {}
    metadata = {"name": name} if name is not None else {}
    return {
        "metadata": {**metadata, "labels": {"app": app}, "annotations": dict(asks or {})},
        "spec": {**selector, "containers": [container], **spec},
    }


def deployment(
    name: str, asks: Mapping[str, str], *, pool: str, replicas: int = 1, strategy: Json | None = None, **spec: Any
) -> Json:
    """A Deployment of pods as `template` makes them; `spec` goes to the pods."""
    extra = {"strategy": strategy} if strategy is not None else {}
    return workload("Deployment", name, template(name, asks, pool, **spec), replicas=replicas, **extra)


def workload(kind: str, name: str, pods: Json, **spec: Any) -> Json:
    """An apps/v1 object with a template of pods that carry the label `app`."""
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": pods, **spec},
    }


def phase(pod: Json) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def reservation(pod: Json) -> str:
    """The reservation id that a pod carries; empty if it has none."""
    return str(pod["metadata"].get("labels", {}).get(names.RESERVATION, ""))


def shares(pod: Json) -> Shares:
    """GB by slot that the limits of a pod's containers and sidecars add up to."""
    spec = pod["spec"]
    return dict(
        merge_shares(
            (index, int(amount))
            for container in (*spec["containers"], *spec.get("initContainers", ()))
            for resource, amount in container.get("resources", {}).get("limits", {}).items()
            if (index := names.card_index(resource)) is not None
        )
    )


def node_of(pod: Json) -> str:
    """The node that a pod is on, or is pinned to while it is on none."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    pins = {
        value
        for term in required.get("nodeSelectorTerms", ())
        for field in term.get("matchFields", ())
        if field["key"] == names.NODE_NAME_FIELD
        for value in field["values"]
    }
    return str(pins.pop()) if len(pins) == 1 else ""


def gpu_node(api: Api, node: str) -> Json:
    """The `GPUNode` of a node."""
    return api.get(f"{GPU_NODES}/{node}")


def ledger(api: Api, node: str) -> dict[str, Entry]:
    """The reservations on a node by id; that each can be read is asserted."""
    entries, broken = decode_all(gpu_node(api, node).get("status", {}).get("reservations") or {})
    assert not broken, f"node {node}: broken entries {broken}"
    return entries


def booked(api: Api, node: str) -> Shares:
    """GB by slot that a node's ledger adds up to."""
    return dict(merge_shares(share for entry in ledger(api, node).values() for share in entry.shares))


def holding_pods(api: Api, nodes: Iterable[str]) -> list[Json]:
    """Every pod of the cluster that holds shares on one of `nodes`: finished pods hold none."""
    wanted = set(nodes)
    pods: list[Json] = api.get("/api/v1/pods")["items"]
    return [pod for pod in pods if node_of(pod) in wanted and shares(pod) and phase(pod) not in {"Succeeded", "Failed"}]


def mismatch(api: Api, nodes: Iterable[str]) -> str:
    """In what the ledgers of `nodes`, their summaries and their pods differ, or which budget is exceeded; empty if in
    nothing.
    """
    nodes = list(nodes)
    pods: dict[str, dict[str, Shares]] = {node: {} for node in nodes}
    for pod in holding_pods(api, nodes):
        pods[node_of(pod)][reservation(pod)] = shares(pod)
    found: list[str] = []
    for node in nodes:
        status = gpu_node(api, node).get("status", {})
        entries, broken = decode_all(status.get("reservations") or {})
        books = {key: dict(entry.shares) for key, entry in entries.items()}
        if broken or books != pods[node]:
            found.append(f"{node}: the ledger says {books}, broken {broken}; the pods say {pods[node]}")
        total = dict(merge_shares((index, gb) for held in books.values() for index, gb in held.items()))
        if status.get("summary", {}).get("reservedGB", 0) != sum(total.values()):
            found.append(f"{node}: the summary says {status.get('summary')}, the ledger {total}")
        budgets = {card["index"]: card["budgetGB"] for card in status.get("cards", ())}
        if over := {index: gb for index, gb in total.items() if gb > budgets.get(index, 0)}:
            found.append(f"{node}: more than the budget {budgets} is booked: {over}")
    return "; ".join(found)


def wait_balanced(api: Api, nodes: Iterable[str], *, within_s: float = PATIENCE_S) -> None:
    """Waits until ledgers, summaries and pods of `nodes` say the same and no budget is exceeded."""
    nodes = list(nodes)
    for _ in looks(within_s, _POLL_S):
        if not (difference := mismatch(api, nodes)):
            return
    pytest.fail(f"after {within_s:.0f} s or more: {difference}")
