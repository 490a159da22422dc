"""The cluster of a case as real objects: nodes that kwok runs, cards as an agent publishes them, and pods."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pytest

from hack.devcluster.api import Api
from hack.devcluster.nodes import AGENT_FIELD_MANAGER, GPU_NODES, wait_nodes_ready
from shared.api import names
from shared.core.nodes import node_facts
from shared.core.pods import pod_facts
from shared.core.vendor_labels import names_cards
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import gpu_node
from tests.cases import booked
from tests.cases.given import node_object, pod_object
from tests.cases.inventory import Agent
from tests.cases.kinds import place_of_object
from tests.cases.outcome import State, state_of
from tests.e2e.caught_up import wait_caught_up
from tests.e2e.kube import Namespace, create_namespace, delete_if_there, find, phase, pod, until
from tests.e2e.reviews import WebhookPort
from tests.fakes.objects import Json

AS_SENT: Final = "cases-as-sent"
"""A namespace that is not opted in: what the API server makes of a pod there is what our webhooks see first."""

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
_RUNTIME_CLASS: Final[Json] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
"""The one that clusters with NVIDIA's cards have. The API server stores no pod that names one which is not there."""

_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "cluster": frozenset({"optedInNamespaces", "managed", "gpuSharing"}),
    "node": frozenset({
        "name", "labels", "taints", "unschedulable", "ready", "allocatable", "gpus", "allocatableExtended",
        "capacity", "sharing",
    }),
    "pod": frozenset({"name", "namespace", "node", "phase", "holds", "managed", "resources", "labels"}),
}  # fmt: skip
"""What of `given` can be made here; a case with anything else fails."""


class RealWorld:
    """A real cluster that becomes the one of a case, and afterwards is empty again.

    `ports` are those of all webhooks. The cluster's other nodes, if there are any, must have no cards.
    """

    def __init__(self, api: Api, ports: Sequence[WebhookPort]) -> None:
        self.api = api
        self._ports = ports
        self._nodes: list[str] = []
        self._namespaces: list[str] = []

    def begin(self) -> None:
        """Makes what every case finds."""
        self.api.create(_RUNTIME_CLASSES, _RUNTIME_CLASS)

    def build(self, given: Json, namespaces: Iterable[str] = ()) -> None:
        """Makes everything that is given, and `namespaces` besides. ValueError for what can not be made here."""
        _check(given)
        cluster, pods = given["cluster"], given["pods"]
        opted_in = cluster["optedInNamespaces"]
        for namespace in {AS_SENT, *opted_in, *namespaces, *(each["namespace"] for each in pods)}:
            self._add_namespace(namespace)
        agents = self.api.each(lambda node: self._add_node(node, cluster), given["nodes"])
        wait_nodes_ready(self.api, [node["name"] for node in given["nodes"] if node.get("ready", True)])
        for each in pods:
            if not each.get("holds"):
                self._add_pod(each, pod_object(each))
        for namespace in opted_in:
            self._opt_in(namespace)
        self.catch_up()
        by_node = {node["name"]: (node, agent) for node, agent in zip(given["nodes"], agents, strict=True)}
        for number, each in enumerate(pods):
            if each.get("holds"):
                self._add_pod(each, self._with_its_booking(number, each, *by_node[each["node"]]))
        if pods:
            self.catch_up()

    def clear(self) -> None:
        """Takes away what `build` made and what was created meanwhile. Namespaces stay, opted in no more."""
        for namespace in self._namespaces:
            self._delete_all(Namespace(self.api, namespace))
            label = {"metadata": {"labels": {names.NAMESPACE_LABEL: None}}}
            self.api.merge(f"/api/v1/namespaces/{namespace}", label)
        # Nodes first: the controller publishes the cards of those that are there.
        for collection in ("/api/v1/nodes", GPU_NODES):
            for node in self._nodes:
                delete_if_there(self.api, f"{collection}/{node}")
        # kwok leaves the pods of a new node alone where the Lease of an old one of that name is still there.
        gone = [f"{collection}/{node}" for collection in (GPU_NODES, _LEASES) for node in self._nodes]
        until("what belongs to the nodes is gone", lambda: not any(self.api.exists(path) for path in gone))
        self._nodes.clear()

    def end(self) -> None:
        """Takes away what `begin` made, and the namespaces."""
        self.api.delete(f"{_RUNTIME_CLASSES}/{_RUNTIME_CLASS['metadata']['name']}")
        for namespace in self._namespaces:
            self.api.delete(f"/api/v1/namespaces/{namespace}")
        self._namespaces.clear()

    def catch_up(self) -> None:
        """Waits until the webhooks have heard of everything."""
        wait_caught_up(self.api, self._ports)

    def state(self) -> State:
        """The cluster as it is now, and what the product makes of it."""
        cluster = Cluster()
        for raw in self.nodes():
            cluster.node_upserted(node_facts(raw))
        for raw in self.all(GPU_NODES):
            cluster.gpu_node_upserted(gpu_node(raw, exclusive=False))
        for raw in self.pods():
            facts = pod_facts(raw)
            if facts is not None:
                cluster.pod_upserted(facts)
        return state_of(self, cluster, 0)

    def pods(self) -> list[Json]:
        """Every pod."""
        return self.all("/api/v1/pods")

    def nodes(self) -> list[Json]:
        """Every node."""
        return self.all("/api/v1/nodes")

    def all(self, path: str) -> list[Json]:
        """Every object of a collection."""
        items: list[Json] = self.api.get(path)["items"]
        return items

    def find(self, raw: Mapping[str, Any]) -> Json | None:
        """A stored object, given whole or by kind, namespace and name."""
        place = place_of_object(raw)
        within = f"namespaces/{place.namespace}/" if place.namespace else ""
        return find(self.api, f"/{place.prefix}/{within}{place.plural}/{place.name}")

    def _add_namespace(self, name: str) -> None:
        if name in self._namespaces:
            return
        self._namespaces.append(name)
        create_namespace(self.api, name)

    def _opt_in(self, name: str) -> None:
        label = {"metadata": {"labels": {names.NAMESPACE_LABEL: names.MODE_ENABLED}}}
        self.api.merge(f"/api/v1/namespaces/{name}", label)
        wrong = pod("probe", {names.VRAM: "not an amount"})

        def refused() -> bool:
            return self.api.send("POST", f"{Namespace(self.api, name).path('Pod')}?dryRun=All", wrong).status == 403

        until(f"the webhooks are asked about pods in {name}", refused)

    def _add_node(self, given: Json, cluster: Json) -> Agent | None:
        """Stores a node; whoever publishes its cards has done so when this returns."""
        name, raw = given["name"], node_object(given)
        raw["metadata"]["annotations"] = {"kwok.x-k8s.io/node": "fake"}
        if given.get("ready", True):
            # kwok makes it ready, and with that its kubelet's.
            del raw["status"]["conditions"]
        self._nodes.append(name)
        if cluster["managed"]:
            node = self.api.create("/api/v1/nodes", raw)
            if names_cards(node["metadata"]["labels"], node["status"]["allocatable"]):
                until(f"the controller publishes {name}", lambda: self._published(name))
            return None
        agent = Agent(raw, exclusive=not cluster["gpuSharing"])
        agent.find(given["gpus"])
        for kind, amounts in agent.advertised.items():
            raw["status"][kind] = {**raw["status"][kind], **amounts}
        head: Json = {"apiVersion": names.API_VERSION, "kind": names.GPU_NODE, "metadata": {"name": name}}
        path = f"{GPU_NODES}/{name}"
        # Before the Node, so that nobody takes it for one without an agent.
        self.api.apply(path, {**head, "spec": agent.spec}, manager=AGENT_FIELD_MANAGER)
        self.api.apply(f"{path}/status", {**head, "status": agent.status}, manager=AGENT_FIELD_MANAGER)
        self.api.create("/api/v1/nodes", raw)
        return agent

    def _published(self, node: str) -> bool:
        found = find(self.api, f"{GPU_NODES}/{node}") or {}
        return "source" in (found.get("status") or {})

    def _with_its_booking(self, number: int, given: Json, given_node: Json, agent: Agent | None) -> Json:
        """The pod as the product would have left it. What it holds is in the ledger first, as when it was placed."""
        if agent is None:
            return booked.asking_for_units(pod_object(given), given["holds"], given_node)
        node, path = self.api.get(f"/api/v1/nodes/{given['node']}"), f"{GPU_NODES}/{given['node']}"
        reservation = booked.reservation_id(number)
        placed, entry = booked.on_own_node(
            pod_object(given), given, node, self.api.get(path), reservation, int(time.time())
        )
        self.api.merge(f"{path}/status", {"status": {"reservations": {reservation: entry}}})
        self.catch_up()
        return placed

    def _add_pod(self, given: Json, raw: Json) -> None:
        """Stores a pod, which then runs, or has ended if that is what is given."""
        namespace, name = Namespace(self.api, given["namespace"]), given["name"]
        namespace.create(raw)
        wait_running(namespace, name)
        if given["phase"] != "Running":
            self.api.merge(f"{namespace.path('Pod', name)}/status", {"status": {"phase": given["phase"]}})

    def _delete_all(self, namespace: Namespace) -> None:
        pods = namespace.path("Pod")
        self.api.delete(f"{pods}?gracePeriodSeconds=0")
        self.api.delete(namespace.path(names.MODEL_PLACEMENT))
        until(f"the pods of {namespace.name} are gone", lambda: not self.all(pods))


def wait_running(namespace: Namespace, name: str) -> None:
    """Waits until a pod runs."""

    def read() -> bool:
        return phase(namespace.get("Pod", name)) == "Running"

    try:
        until(f"{name} runs", read)
    except pytest.fail.Exception:
        raw = namespace.get("Pod", name)
        pytest.fail(f"{name} does not run; its node is {raw['spec'].get('nodeName')}, its status {raw['status']}")


def _check(given: Json) -> None:
    """Raises ValueError for what can not be made on a real cluster, or not yet."""
    found = [("cluster", given["cluster"]), *(("node", each) for each in given["nodes"])]
    for what, each in [*found, *(("pod", each) for each in given["pods"])]:
        unknown = each.keys() - _KNOWN[what]
        if unknown:
            raise ValueError(f"given: {what} {each.get('name', '')}: {', '.join(sorted(unknown))} can not be made here")
    for each in given["pods"]:
        if each["phase"] not in {"Running", "Succeeded", "Failed"} or not each.get("node"):
            raise ValueError(f"given: pod {each['name']}: only pods that run or have ended can be made here")
