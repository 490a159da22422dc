"""Which entries of the ledgers are vacant: their pods were there and are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from shared.core.cards import Inventory
from shared.core.ledger import Entry, Mark, owner_hash
from shared.core.nodes import NodeFacts
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import GpuNode
from tests.unit.core_builders import cards, entry, holder

ID, OTHER = "aaaaaaaaaa", "bbbbbbbbbb"
OWNER = OwnerRef("apps/v1", "ReplicaSet", "chat", "owner")
SEAT = replace(entry({0: 6}), mark=Mark.KEPT)


def gpu_node(version: int, ledger: Mapping[str, Entry]) -> GpuNode:
    return GpuNode("node", "uid", str(version), Inventory(cards(16, 16)), ledger, (), {})


def pod(name: str = "chat", **fields: Any) -> PodFacts:
    return replace(holder(name, {0: 6}, reservation=ID), **{"owner": OWNER, **fields})


@pytest.fixture
def cluster() -> Cluster:
    """A node with an entry whose pod runs."""
    cluster = Cluster()
    cluster.node_upserted(NodeFacts("node"))
    cluster.gpu_node_upserted(gpu_node(1, {ID: entry({0: 6})}))
    cluster.pod_upserted(pod())
    return cluster


def vacant(cluster: Cluster, namespace: str = "models") -> list[str]:
    return list(cluster.vacancies.of(namespace))


def test_an_entry_is_vacant_once_its_pod_went_and_its_owner_is_known(cluster: Cluster) -> None:
    assert vacant(cluster) == []
    cluster.pod_deleted(pod().key)
    assert vacant(cluster) == [ID]
    assert ID in cluster.vacancies.left
    assert cluster.vacancies.last_owner(ID) == OWNER
    assert vacant(cluster, "other") == []


def test_a_pod_that_succeeded_leaves_no_vacancy_and_its_entry_is_known_to_be_over(cluster: Cluster) -> None:
    cluster.pod_deleted(pod().key, leaves_seat=False)
    assert vacant(cluster) == []
    assert ID in cluster.vacancies.gone
    cluster.pod_upserted(pod("late"))
    assert ID not in cluster.vacancies.gone


def test_the_entry_of_a_pod_without_an_owner_is_over_with_it_and_then_forgotten(cluster: Cluster) -> None:
    cluster.pod_upserted(pod(owner=None))
    cluster.pod_deleted(pod().key)
    assert vacant(cluster) == []
    assert ID in cluster.vacancies.gone
    cluster.gpu_node_upserted(gpu_node(2, {}))
    assert ID not in cluster.vacancies.gone


def test_it_is_vacant_no_more_once_there_is_a_pod_again(cluster: Cluster) -> None:
    cluster.pod_deleted(pod().key)
    cluster.pod_upserted(pod("late"))
    assert vacant(cluster) == []


def test_a_pod_of_another_namespace_with_a_copy_of_the_id_leaves_it_as_it_is(cluster: Cluster) -> None:
    cluster.pod_deleted(pod().key)
    cluster.pod_upserted(pod("copy", namespace="other"))
    assert vacant(cluster) == [ID]
    assert cluster.vacancies.last_owner(ID) == OWNER


def test_it_is_vacant_no_more_once_the_entry_is_gone(cluster: Cluster) -> None:
    cluster.pod_deleted(pod().key)
    cluster.gpu_node_upserted(gpu_node(2, {}))
    assert vacant(cluster) == []
    assert cluster.vacancies.last_owner(ID) is None


def test_it_goes_with_its_node(cluster: Cluster) -> None:
    cluster.gpu_node_upserted(gpu_node(2, {ID: entry({0: 6}), OTHER: SEAT}))
    cluster.pod_deleted(pod().key)
    cluster.node_deleted("node")
    assert vacant(cluster) == [ID, OTHER]
    cluster.gpu_node_deleted("node")
    assert vacant(cluster) == []


def test_while_another_pod_carries_the_id_it_is_not_vacant(cluster: Cluster) -> None:
    cluster.pod_upserted(pod("copy"))
    cluster.pod_deleted(pod().key)
    assert vacant(cluster) == []
    cluster.pod_deleted(pod("copy").key)
    assert vacant(cluster) == [ID]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("bare", owner=None), id="of-nobody"),
        pytest.param(pod("copy", namespace="other"), id="of-another-namespace"),
        pytest.param(pod("copy", node="elsewhere"), id="on-another-node"),
        pytest.param(pod("empty", shares=()), id="without-a-share"),
        pytest.param(pod("unknown", reservation=OTHER), id="of-an-id-in-no-ledger"),
        pytest.param(pod("plain", reservation=None), id="without-an-id"),
    ],
)
def test_a_pod_that_the_entry_did_not_stand_for_leaves_no_vacancy(other: PodFacts) -> None:
    cluster = Cluster()
    cluster.gpu_node_upserted(gpu_node(1, {ID: entry({0: 6})}))
    cluster.pod_upserted(other)
    cluster.pod_deleted(other.key)
    assert [*vacant(cluster), *vacant(cluster, "other")] == []


def test_a_kept_seat_is_vacant_whoever_kept_it_and_is_no_unseen_attempt(cluster: Cluster) -> None:
    cluster.gpu_node_upserted(gpu_node(2, {ID: entry({0: 6}), OTHER: SEAT}))
    assert vacant(cluster) == [OTHER]
    assert OTHER not in cluster.vacancies.left
    assert cluster.vacancies.last_owner(OTHER) is None
    assert list(cluster.unseen("models", owner_hash("owner"))) == []
    assert [seat for seat, _ in cluster.seats_of("models", owner_hash("owner"))] == [OTHER]
    cluster.gpu_node_upserted(gpu_node(3, {ID: entry({0: 6})}))
    assert vacant(cluster) == []


def test_a_seat_that_a_pod_sits_on_is_none(cluster: Cluster) -> None:
    cluster.gpu_node_upserted(gpu_node(2, {ID: SEAT}))
    assert list(cluster.seats_of("models", owner_hash("owner"))) == []


def test_a_copied_id_on_another_node_has_a_seat_of_its_own(cluster: Cluster) -> None:
    elsewhere = replace(gpu_node(1, {ID: SEAT}), name="elsewhere", uid="uid-elsewhere")
    cluster.gpu_node_upserted(elsewhere)
    cluster.gpu_node_upserted(gpu_node(2, {ID: SEAT}))
    cluster.gpu_node_upserted(gpu_node(3, {}))
    assert vacant(cluster) == [ID]
    cluster.gpu_node_upserted(replace(elsewhere, resource_version="2", ledger={}))
    assert vacant(cluster) == []
