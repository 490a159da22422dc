"""The live picture of the cluster, put together from events in any order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from shared.core.cards import Inventory
from shared.core.ledger import Entry
from shared.core.nodes import NodeFacts
from shared.core.pods import PodFacts
from shared.kube.cluster import Cluster, Located
from shared.kube.gpunodes import GpuNode
from tests.unit.core_builders import cards, entry, holder

ID, OTHER = "aaaaaaaaaa", "bbbbbbbbbb"


def gpu_node(version: int = 1, ledger: Mapping[str, Entry] | None = None, uid: str = "uid") -> GpuNode:
    """The cards of `node-a`, two of 16 GB, with a ledger."""
    return GpuNode("node-a", uid, str(version), Inventory(cards(16, 16)), ledger or {}, (), {})


def pod(name: str, node: str = "node-a", gb: int = 6, reservation: str | None = None, created: str = "") -> PodFacts:
    return replace(holder(name, {0: gb}, reservation=reservation, node=node), created=created)


def free(cluster: Cluster, node: str = "node-a") -> tuple[int, ...]:
    state = cluster.node(node)
    assert state is not None
    return state.free_gb


@pytest.fixture
def cluster() -> Cluster:
    """A node with two free cards of 16 GB."""
    cluster = Cluster()
    cluster.node_upserted(NodeFacts("node-a"))
    cluster.gpu_node_upserted(gpu_node())
    return cluster


def test_pods_and_cards_that_come_before_their_node_count_as_soon_as_it_is_there() -> None:
    cluster = Cluster()
    cluster.pod_upserted(pod("one"))
    cluster.gpu_node_upserted(gpu_node(ledger={ID: entry({1: 10})}))
    assert cluster.snapshot().nodes == {}
    assert list(cluster.pods_on("node-a")) == ["uid-models-one"]
    cluster.node_upserted(NodeFacts("node-a"))
    assert free(cluster) == (10, 6)


def test_a_node_that_comes_back_has_its_pods_and_cards_again(cluster: Cluster) -> None:
    cluster.pod_upserted(pod("one"))
    cluster.node_deleted("node-a")
    assert cluster.node("node-a") is None
    assert cluster.pod("uid-models-one") is not None
    cluster.node_upserted(NodeFacts("node-a"))
    assert free(cluster) == (10, 16)


OLD = replace(gpu_node(5, {ID: entry({0: 6})}), node_uids=frozenset({"uid-old"}))


@pytest.mark.parametrize("deleted_first", [True, False], ids=["seen-to-go", "replaced-unseen"])
def test_a_node_that_is_set_up_anew_does_not_have_the_cards_of_the_old_one(deleted_first: bool) -> None:
    cluster = Cluster()
    cluster.node_upserted(NodeFacts("node-a", "uid-old"))
    cluster.gpu_node_upserted(OLD)
    cluster.pod_upserted(pod("one"))
    assert free(cluster) == (4, 16)
    if deleted_first:
        cluster.node_deleted("node-a")
    cluster.node_upserted(NodeFacts("node-a", "uid-new"))
    assert free(cluster) == ()
    cluster.gpu_node_upserted(replace(OLD, resource_version="6"))
    assert free(cluster) == (), "Kubernetes has yet to delete what belongs to the old node"
    cluster.gpu_node_upserted(replace(gpu_node(7, uid="new"), node_uids=frozenset({"uid-new"})))
    assert free(cluster) == (10, 16)


def test_cards_that_are_handed_on_to_the_new_node_are_its_own() -> None:
    cluster = Cluster()
    cluster.gpu_node_upserted(replace(OLD, node_uids=frozenset({"uid-old", "uid-new"})))
    cluster.node_upserted(NodeFacts("node-a", "uid-new"))
    assert free(cluster) == (10, 16)


def test_a_pod_that_is_bound_elsewhere_than_pinned_moves(cluster: Cluster) -> None:
    cluster.node_upserted(NodeFacts("node-b"))
    cluster.pod_upserted(pod("one", reservation=ID))
    cluster.pod_upserted(pod("one", node="node-b", reservation=ID))
    assert free(cluster) == (16, 16)
    assert list(cluster.pods_on("node-b")) == ["uid-models-one"]
    assert [each.node for each in cluster.carriers(ID, "models")] == ["node-b"]


def test_a_node_that_a_pod_leaves_is_told_of_as_well_as_the_one_it_goes_to(cluster: Cluster) -> None:
    cluster.pod_upserted(pod("one"))
    told: list[str] = []
    cluster.on_node_change(told.append)
    cluster.pod_upserted(pod("one", node="node-b"))
    assert set(told) == {"node-a", "node-b"}


def test_an_older_version_of_a_nodes_cards_is_passed_over(cluster: Cluster) -> None:
    cluster.gpu_node_upserted(gpu_node(10, {ID: entry({0: 6})}))
    cluster.gpu_node_upserted(gpu_node(version=9))
    assert free(cluster) == (10, 16)
    assert cluster.locate(ID) == Located("node-a", entry({0: 6}))


def test_a_new_object_of_the_same_name_counts_whatever_its_version(cluster: Cluster) -> None:
    cluster.gpu_node_upserted(gpu_node(10, {ID: entry({0: 6})}))
    cluster.gpu_node_upserted(gpu_node(version=9, uid="uid-new"))
    assert free(cluster) == (16, 16)
    assert cluster.locate(ID) is None


def test_a_node_without_cards_has_none_to_give(cluster: Cluster) -> None:
    cluster.gpu_node_upserted(gpu_node(2, {ID: entry({0: 6})}))
    cluster.gpu_node_deleted("node-a")
    assert free(cluster) == ()
    assert cluster.locate(ID) is None
    assert cluster.gpu_nodes() == {}


def test_the_carriers_of_an_id_are_told_oldest_first(cluster: Cluster) -> None:
    cluster.pod_upserted(pod("young", reservation=ID, created="2026-11-30T10:00:01Z"))
    cluster.pod_upserted(pod("old", reservation=ID, created="2026-11-30T10:00:00Z"))
    assert [each.name for each in cluster.carriers(ID, "models")] == ["old", "young"]
    cluster.pod_deleted("uid-models-old")
    cluster.pod_deleted("uid-models-young")
    assert cluster.carriers(ID, "models") == ()


def test_a_pod_of_another_namespace_is_no_carrier_and_ends_no_hold(cluster: Cluster) -> None:
    cluster.hold(ID, pod("promised"))
    cluster.pod_upserted(replace(pod("copy", reservation=ID), key="uid-copy", namespace="other"))
    assert cluster.carriers(ID, "models") == ()
    assert [each.name for each in cluster.carriers(ID, "other")] == ["copy"]
    assert cluster.is_held(ID)
    cluster.pod_upserted(pod("promised", reservation=ID))
    assert not cluster.is_held(ID)


def test_a_hold_counts_until_it_is_released(cluster: Cluster) -> None:
    cluster.hold(ID, pod("promised"))
    assert free(cluster) == (10, 16)
    cluster.release(ID)
    cluster.release(ID)
    assert free(cluster) == (16, 16)


def test_what_a_hold_was_to_replace_is_for_the_next_one_if_it_was_not_recorded(cluster: Cluster) -> None:
    cluster.gpu_node_upserted(gpu_node(2, {OTHER: entry({0: 6})}))
    cluster.hold(ID, pod("promised"), replaces=OTHER)
    assert cluster.is_replaced(OTHER)
    assert list(cluster.replaced()) == [(OTHER, "node-a")]
    cluster.release(ID)
    assert not cluster.is_replaced(OTHER)


def test_a_hold_and_its_entry_are_one_reservation(cluster: Cluster) -> None:
    cluster.hold(ID, pod("promised"))
    cluster.gpu_node_upserted(gpu_node(2, {ID: entry({0: 6})}))
    assert free(cluster) == (10, 16)


def test_a_hold_ends_when_its_pod_arrives(cluster: Cluster) -> None:
    cluster.hold(ID, pod("promised"))
    cluster.pod_upserted(pod("real", reservation=ID))
    assert list(cluster.pods_on("node-a")) == ["uid-models-real"]
    assert free(cluster) == (10, 16)


@pytest.mark.parametrize("deleted", [False, True], ids=["dropped", "cards-deleted"])
def test_a_hold_ends_when_its_entry_goes(cluster: Cluster, deleted: bool) -> None:
    cluster.hold(ID, pod("promised"))
    cluster.gpu_node_upserted(gpu_node(2, {ID: entry({0: 6})}))
    if deleted:
        cluster.gpu_node_deleted("node-a")
    else:
        cluster.gpu_node_upserted(gpu_node(version=3))
    assert cluster.pods_on("node-a") == {}


def test_a_hold_that_is_not_recorded_yet_outlives_other_writes(cluster: Cluster) -> None:
    cluster.hold(ID, pod("promised"))
    cluster.gpu_node_upserted(gpu_node(2, {OTHER: entry({1: 6})}))
    assert free(cluster) == (10, 10)


def test_pods_that_exist_and_hold_a_share_are_the_placed_ones(cluster: Cluster) -> None:
    cluster.pod_upserted(pod("placed"))
    cluster.pod_upserted(replace(pod("plain"), shares=()))
    cluster.hold(ID, pod("promised"))
    assert [each.name for each in cluster.placed_pods()] == ["placed"]
    assert [each.name for each in cluster.pods()] == ["placed", "plain"]


def test_listeners_are_told_until_they_leave(cluster: Cluster) -> None:
    nodes: list[str] = []
    pods: list[str] = []
    leave = [cluster.on_node_change(nodes.append), cluster.on_pod_change(pods.append)]
    cluster.pod_upserted(pod("one"))
    cluster.pod_deleted("uid-models-one")
    assert nodes == ["node-a", "node-a"]
    assert pods == ["uid-models-one", "uid-models-one"]
    for each in leave:
        each()
    cluster.pod_upserted(pod("one"))
    assert len(nodes) == len(pods) == 2


def test_a_pod_that_was_never_seen_can_be_deleted(cluster: Cluster) -> None:
    told: list[str] = []
    cluster.on_pod_change(told.append)
    cluster.pod_deleted("uid-unknown")
    assert told == []


def test_namespace_labels_are_kept_as_last_told(cluster: Cluster) -> None:
    cluster.namespace_upserted("models", {"team": "a"})
    cluster.namespace_upserted("models", {"team": "b"})
    assert cluster.snapshot().namespaces.get("models") == {"team": "b"}
    assert cluster.snapshot().namespaces == {"models": {"team": "b"}}
    cluster.namespace_deleted("models")
    cluster.namespace_deleted("models")
    assert "models" not in cluster.snapshot().namespaces


def test_entries_are_known_in_the_order_of_their_writes_while_they_last(cluster: Cluster) -> None:
    cluster.gpu_node_upserted(gpu_node(2, {OTHER: entry({0: 6})}))
    cluster.gpu_node_upserted(gpu_node(3, {OTHER: entry({0: 6}), ID: entry({0: 6})}))
    assert 0 < cluster.arrival(OTHER) < cluster.arrival(ID)
    cluster.gpu_node_upserted(gpu_node(4, {ID: entry({0: 6})}))
    assert cluster.arrival(OTHER) == 0
    cluster.gpu_node_deleted("node-a")
    assert cluster.arrival(ID) == 0


def test_of_entries_that_were_there_before_the_version_of_their_ledger_tells_no_order(cluster: Cluster) -> None:
    """Each ledger was written last for another reason: how old they are stands in the entries alone."""
    other = replace(gpu_node(7, {OTHER: entry({0: 6})}), name="node-b")
    cluster.gpu_node_upserted(other)
    assert cluster.arrival(OTHER) == 0
    again = replace(gpu_node(9, {ID: entry({0: 6})}, uid="uid-again"), name="node-a")
    cluster.gpu_node_upserted(again)
    assert cluster.arrival(ID) == 0
