"""Whatever happened in whatever order, the picture is that of a process which starts now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from shared.core.cards import Inventory
from shared.core.ledger import Entry
from shared.core.nodes import NodeFacts
from shared.core.pods import PodFacts
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import GpuNode
from tests.unit.core_builders import cards, entry

NODES = ("node-a", "node-b", "node-c")
IDS = {node: tuple(f"{node[-1]}{letter}" for letter in "xyz") for node in NODES}
"""An id is in the ledger of one node only."""
ALL_IDS = tuple(reservation for ids in IDS.values() for reservation in ids)
PODS = ("pod-1", "pod-2", "pod-3", "pod-4")
HELD = "held/"


@dataclass
class Model:
    """What was said last of everything, kept in the plainest way; a hold ends with its pod's arrival or its entry."""

    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    gpu_nodes: dict[str, GpuNode] = field(default_factory=dict)
    pods: dict[str, PodFacts] = field(default_factory=dict)
    holds: dict[str, PodFacts] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def cluster(self) -> Cluster:
        """The picture of a process that starts now."""
        cluster = Cluster()
        for facts in self.nodes.values():
            cluster.node_upserted(facts)
        for gpu_node in self.gpu_nodes.values():
            cluster.gpu_node_upserted(gpu_node)
        for pod in self.pods.values():
            cluster.pod_upserted(pod)
        for reservation, pod in self.holds.items():
            cluster.hold(reservation, pod)
        for name, labels in self.namespaces.items():
            cluster.namespace_upserted(name, labels)
        return cluster


Step: TypeAlias = Callable[[Cluster, Model], None]

shares = st.dictionaries(st.integers(0, 1), st.integers(1, 9), max_size=2).map(lambda each: tuple(sorted(each.items())))
facts = st.builds(NodeFacts, st.sampled_from(NODES), labels=st.sampled_from([{}, {"zone": "west"}]))
pods = st.builds(
    PodFacts,
    key=st.sampled_from(PODS),
    namespace=st.sampled_from(["models", "other"]),
    name=st.just("pod"),
    node=st.sampled_from(NODES),
    bound=st.booleans(),
    requests=st.sampled_from([{}, {"cpu": 1}, {"cpu": 2, "memory": 3}]),
    shares=shares,
    reservation=st.one_of(st.none(), st.sampled_from(ALL_IDS)),
    created=st.sampled_from(["1", "2"]),
)


def upsert_node(node: NodeFacts) -> Step:
    def step(cluster: Cluster, model: Model) -> None:
        cluster.node_upserted(node)
        model.nodes[node.name] = node

    return step


def delete_node(name: str) -> Step:
    def step(cluster: Cluster, model: Model) -> None:
        cluster.node_deleted(name)
        model.nodes.pop(name, None)

    return step


def upsert_gpu_node(name: str, version: int, uid: str, picks: dict[int, Any], healthy: bool) -> Step:
    def step(cluster: Cluster, model: Model) -> None:
        ledger: dict[str, Entry] = {IDS[name][pick]: entry(dict(each)) for pick, each in picks.items() if each}
        new = GpuNode(name, uid, str(version), Inventory(cards(16, 16 if healthy else 8)), ledger, (), {})
        cluster.gpu_node_upserted(new)
        old = model.gpu_nodes.get(name)
        if old is not None and old.uid == uid and version <= int(old.resource_version):
            return
        model.gpu_nodes[name] = new
        for dropped in (old.ledger.keys() if old else set()) - ledger.keys():
            model.holds.pop(dropped, None)

    return step


def delete_gpu_node(name: str) -> Step:
    def step(cluster: Cluster, model: Model) -> None:
        cluster.gpu_node_deleted(name)
        old = model.gpu_nodes.pop(name, None)
        for dropped in old.ledger if old else ():
            model.holds.pop(dropped, None)

    return step


def upsert_pod(pod: PodFacts) -> Step:
    def step(cluster: Cluster, model: Model) -> None:
        cluster.pod_upserted(pod)
        model.pods[pod.key] = pod
        held = model.holds.get(pod.reservation or "")
        if held is not None and held.namespace == pod.namespace:
            del model.holds[str(pod.reservation)]

    return step


def delete_pod(key: str) -> Step:
    def step(cluster: Cluster, model: Model) -> None:
        cluster.pod_deleted(key)
        model.pods.pop(key, None)

    return step


def hold(reservation: str, pod: PodFacts) -> Step:
    def step(cluster: Cluster, model: Model) -> None:
        # A process holds an id once: it makes a new one for every review.
        if reservation not in model.holds:
            cluster.hold(reservation, pod)
            model.holds[reservation] = pod

    return step


def release(reservation: str) -> Step:
    def step(cluster: Cluster, model: Model) -> None:
        cluster.release(reservation)
        model.holds.pop(reservation, None)

    return step


def label_namespace(labels: dict[str, str] | None) -> Step:
    def step(cluster: Cluster, model: Model) -> None:
        if labels is None:
            cluster.namespace_deleted("models")
            model.namespaces.pop("models", None)
        else:
            cluster.namespace_upserted("models", labels)
            model.namespaces["models"] = labels

    return step


steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.builds(upsert_node, facts),
        st.builds(delete_node, st.sampled_from(NODES)),
        st.builds(
            upsert_gpu_node,
            st.sampled_from(NODES),
            st.integers(1, 9),
            st.sampled_from(["uid-1", "uid-2"]),
            st.dictionaries(st.integers(0, 2), shares, max_size=3),
            st.booleans(),
        ),
        st.builds(delete_gpu_node, st.sampled_from(NODES)),
        st.builds(upsert_pod, pods),
        st.builds(delete_pod, st.sampled_from(PODS)),
        st.builds(hold, st.sampled_from(ALL_IDS), pods),
        st.builds(release, st.sampled_from(ALL_IDS)),
        st.builds(label_namespace, st.sampled_from([None, {}, {"team": "a"}])),
    ),
    max_size=25,
)


def picture(cluster: Cluster) -> dict[str, Any]:
    """Everything that can be read from a cluster."""
    return {
        "nodes": dict(cluster.snapshot().nodes),
        "namespaces": dict(cluster.snapshot().namespaces),
        "pods on": {node: dict(cluster.pods_on(node)) for node in NODES},
        "pods": {key: cluster.pod(key) for key in PODS},
        "placed": sorted(pod.key for pod in cluster.placed_pods()),
        "entries": {reservation: cluster.locate(reservation) for reservation in ALL_IDS},
        "carriers": {
            (reservation, namespace): cluster.carriers(reservation, namespace)
            for reservation in ALL_IDS
            for namespace in ("models", "other")
        },
        "cards": dict(cluster.gpu_nodes()),
    }


@given(steps)
def test_events_in_any_order_end_in_the_picture_of_a_fresh_start(taken: list[Step]) -> None:
    cluster, model = Cluster(), Model()
    for step in taken:
        step(cluster, model)
    assert picture(cluster) == picture(model.cluster())


@given(steps)
def test_every_node_whose_pods_or_cards_change_is_told_of(taken: list[Step]) -> None:
    cluster, model = Cluster(), Model()
    told: set[str] = set()
    cluster.on_node_change(told.add)
    for step in taken:
        before = visible(cluster)
        told.clear()
        step(cluster, model)
        after = visible(cluster)
        assert {node for node in NODES if before[node] != after[node]} <= told


def visible(cluster: Cluster) -> dict[str, Any]:
    """By node, what others than the process itself can know of it: holds are its own."""
    return {
        node: (
            cluster.gpu_node(node),
            {key: pod for key, pod in cluster.pods_on(node).items() if not key.startswith(HELD)},
            getattr(cluster.node(node), "facts", None),
        )
        for node in NODES
    }
