"""What the leading controller tells of cards and of those who wait."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from controller.picture_metrics import CardMetrics, waiting_families
from shared.api import names
from shared.core.ledger import Entry, Mark
from shared.core.nodes import node_facts
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import gpu_node as read_gpu_node
from shared.obs.metrics import AtScrape
from tests.builders import a_node, a_pod
from tests.unit.admission import gpu_node
from tests.unit.controlling import an_owner, controlling
from tests.unit.scraping import moved, value

OWNER = "0" * 8


def a_cluster(
    *gbs: int, ledger: Mapping[str, Entry] = MappingProxyType({}), node: str = "t4", there: bool = True
) -> Cluster:
    """A cluster with one node, its cards of `gbs` GB, and the entries of its ledger."""
    cluster = Cluster()
    add_node(cluster, node, *gbs, ledger=ledger, there=there)
    return cluster


def add_node(
    cluster: Cluster,
    node: str,
    *gbs: int,
    ledger: Mapping[str, Entry] = MappingProxyType({}),
    there: bool = True,
    version: int = 1,
) -> None:
    """Puts a node in, or in the place of one of that name."""
    reservations = {(reservation * 10)[:10]: entry.encode() for reservation, entry in ledger.items()}
    raw = gpu_node(node, *gbs, reservations=reservations)
    if there:
        cluster.node_upserted(node_facts(a_node(node).raw()))
    metadata = {"name": node, "uid": "uid", "resourceVersion": str(version)}
    cluster.gpu_node_upserted(read_gpu_node({**raw, "metadata": metadata}, exclusive=False))


def an_entry(*gbs: int, mark: Mark = Mark.NONE) -> Entry:
    return Entry("models", OWNER, 1, tuple(enumerate(gbs)), mark=mark)


def cards(cluster: Cluster) -> AtScrape:
    return AtScrape(CardMetrics(cluster).families)


def of_card(cluster: Cluster, card: str, node: str = "t4") -> dict[str, float]:
    """The GB of a card by metric."""
    return {
        each.name.removeprefix("placement_card_").removesuffix("_gb"): each.value
        for family in CardMetrics(cluster).families()
        for each in family.samples
        if each.labels == {"node": node, "card": card}
    }


def test_each_card_has_its_own_sums() -> None:
    cluster = a_cluster(16, 24, ledger={"a": an_entry(6), "b": an_entry(4, 8)})
    assert of_card(cluster, "0") == {"budget": 16, "reserved": 10, "free": 6}
    assert of_card(cluster, "1") == {"budget": 24, "reserved": 8, "free": 16}


def test_kept_and_preempting_entries_are_told_besides_being_reserved() -> None:
    cluster = a_cluster(16, ledger={"a": an_entry(6, mark=Mark.KEPT), "b": an_entry(12, mark=Mark.PREEMPTING)})
    assert of_card(cluster, "0") == {"budget": 16, "reserved": 18, "kept": 6, "preempting": 12, "free": 0}


def test_a_pod_whose_id_was_taken_off_is_told_as_the_column_tells_it() -> None:
    cluster = a_cluster(16, ledger={"a": an_entry(6)})
    cluster.pod_upserted(a_pod("chat").requesting({names.card_resource(0): "4"}).on("t4").facts())
    assert of_card(cluster, "0") == {"budget": 16, "reserved": 10, "free": 6}


def test_a_node_that_is_away_keeps_its_cards_and_has_nothing_free() -> None:
    cluster = a_cluster(16, ledger={"a": an_entry(6)}, there=False)
    assert of_card(cluster, "0") == {"budget": 16, "reserved": 6, "free": 0}


def test_of_a_pool_only_what_its_nodes_memory_backs_is_left() -> None:
    raw = gpu_node("spark", 100)
    raw["status"]["cards"][0]["class"] = "unified"
    cluster = Cluster()
    cluster.node_upserted(node_facts(a_node("spark").offering(memory="119Gi").raw()))
    metadata = {"name": "spark", "uid": "uid", "resourceVersion": "1"}
    cluster.gpu_node_upserted(read_gpu_node({**raw, "metadata": metadata}, exclusive=False))
    assert of_card(cluster, "0", "spark")["free"] == 100
    cluster.pod_upserted(a_pod("other").requesting(memory="60Gi").on("spark").facts())
    state = cluster.node("spark")
    assert state is not None
    assert of_card(cluster, "0", "spark")["free"] == state.largest_free_gb < 60


def test_a_node_that_goes_takes_its_series_with_it() -> None:
    cluster = a_cluster(16)
    assert moved(cards(cluster), "placement_card_budget_gb") == {("t4", "0"): 16}
    cluster.gpu_node_deleted("t4")
    assert moved(cards(cluster), "placement_card_budget_gb") == {}


def test_the_series_are_as_many_as_the_cards_whatever_is_on_them() -> None:
    def series(cluster: Cluster) -> int:
        return sum(len(family.samples) for family in CardMetrics(cluster).families())

    entries = {letter: an_entry(1) for letter in "abcdefghij"}
    assert series(a_cluster(16, 16)) == series(a_cluster(16, 16, ledger=entries)) == 2 * 3


def test_only_what_changed_is_worked_out_anew_and_it_is() -> None:
    def samples() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for family in told.families():
            for each in family.samples:
                found.setdefault(each.labels["node"], []).append(id(each))
        return found

    cluster = a_cluster(16, ledger={"a": an_entry(6)}, node="t4")
    add_node(cluster, "t5", 16)
    told = CardMetrics(cluster)
    before = list(told.families())  # which keeps the samples, and so their identities, alive
    assert before
    first = samples()
    assert samples() == first
    other = a_pod("other").limited_to({names.card_resource(0): 4}).label(names.RESERVATION, "c" * 10)
    cluster.pod_upserted(other.on("t5").facts())
    assert samples()["t4"] == first["t4"]
    assert not set(samples()["t5"]) & set(first["t5"])
    assert value(AtScrape(told.families), "placement_card_free_gb", node="t5", card="0") == 12
    add_node(cluster, "t5", 16, ledger={"b": an_entry(8)}, version=2)
    assert value(AtScrape(told.families), "placement_card_reserved_gb", node="t5", card="0") == 8


def test_units_of_a_vendor_are_told_in_the_gb_that_they_stand_for() -> None:
    node = a_node("managed").offering({names.NVIDIA_GPU: "2"})
    cluster = a_cluster(
        16, 16, node="managed", there=False, ledger={"a": Entry("models", OWNER, 1, (), units=((names.NVIDIA_GPU, 1),))}
    )
    cluster.node_upserted(node_facts(node.raw()))
    assert moved(cards(cluster), "placement_card_reserved_gb") == {("managed", "0"): 16}


async def test_owners_that_wait_are_counted_by_reason(tmp_path: Path) -> None:
    async with controlling(tmp_path) as control:
        first, second = (an_owner(control.served, "StatefulSet", name) for name in ("first", "second"))
        malformed = an_owner(control.served, "StatefulSet", "malformed")
        await control.refuse(first, first)
        await control.refuse(second, second, reason="vendor_mismatch")
        await control.refuse(malformed, malformed, reason="invalid_request")
        waiting = AtScrape(lambda: waiting_families(control.reports.all()))
        assert moved(waiting, "placement_waiting_owners") == {
            ("insufficient_capacity",): 1,
            ("vendor_mismatch",): 1,
        }
        assert value(waiting, "placement_waiting_owners", reason="insufficient_gpu_count") == 0
