"""Units in the books: ledger rules, summaries, reports and the walk over waiting owners."""

from __future__ import annotations

import pytest

from controller.ledger_rules import Sightings, review_ledger
from controller.placement_status import card_phrase, card_words, placement_status
from controller.room import Needs, Room
from shared.api import names
from shared.core.ledger import Entry, LedgerError, decode, owner_hash, summarise
from shared.core.units import add_units, describe_units, is_unit
from shared.kube.gpunodes import gpu_node
from tests.builders import a_pod
from tests.unit.core_builders import cards, cluster
from tests.unit.units import AMD, GPU, SHARED, SLICE, a10g, held, managed, user

ID = "aaaaaaaaaa"


def test_an_entry_of_units_reads_as_people_would_write_it() -> None:
    entry = Entry("models", "0123abcd", 7, ((0, 6),), units=((SLICE, 1),))
    assert entry.encode() == f"models/0123abcd;7;0:6,{SLICE}=1"
    assert decode("models/0123abcd;7;nvidia.com/gpu=2") == Entry("models", "0123abcd", 7, (), units=((GPU, 2),))


@pytest.mark.parametrize(
    "held",
    ["", "nvidia.com/gpu=", "nvidia.com/gpu=-1", "gpu=1", "nvidia.com/gpu=1,nvidia.com/gpu=2", "nvidia.com/gpu:1"],
)
def test_what_is_no_entry_of_units_is_refused(held: str) -> None:
    with pytest.raises(LedgerError):
        decode(f"models/0123abcd;7;{held}")


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (GPU, True),
        (SHARED, True),
        (AMD, True),
        (SLICE, True),
        ("nvidia.com/mig-", False),
        ("nvidia.com/mig-1G", False),
        ("nvidia.com/gpumem", False),
        ("cpu", False),
    ],
)
def test_which_resources_are_units(resource: str, *, expected: bool) -> None:
    assert is_unit(resource) is expected


def test_units_are_added_and_told() -> None:
    assert add_units(((GPU, 1),), ((GPU, 2), (SLICE, 1))) == ((GPU, 3), (SLICE, 1))
    assert describe_units(((GPU, 3), (SLICE, 1))) == f"3 {GPU}, 1 {SLICE}"


def test_a_summary_tells_units_on_the_lowest_cards() -> None:
    state = managed("eks", {GPU: 4}, memory="24576", count="2", replicas="2")
    summary = summarise(state.inventory.cards, {"r": held({GPU: 3})}, state.kinds)
    assert (summary.reserved_gb, summary.free_gb, summary.cards) == (36, 12, "0: 24/24, 1: 12/24")
    assert summarise(cards(24), {"r": held({SLICE: 3})}).reserved_gb == 0


class TestLedgerRules:
    def test_a_pod_with_units_and_our_id_gets_its_entry_back(self) -> None:
        pod = user("ours", {GPU: 2}, "eks", ID)
        review = review_ledger({}, {pod.key: pod}, Sightings(), 0.0, 20.0, unix_now=0.0)
        assert review.changes == {ID: Entry("models", owner_hash(""), 0, (), units=((GPU, 2),))}

    def test_an_entry_unlike_its_pod_is_corrected(self) -> None:
        pod = user("ours", {GPU: 2}, "eks", ID)
        ledger = {ID: held({GPU: 1}, owner="")}
        review = review_ledger(ledger, {pod.key: pod}, Sightings(), 0.0, 20.0, unix_now=0.0)
        assert review.changes[ID] == Entry("models", owner_hash(""), 0, (), units=((GPU, 2),))

    def test_a_pod_that_nobody_placed_gets_none(self) -> None:
        pod = user("theirs", {GPU: 2})
        assert review_ledger({}, {pod.key: pod}, Sightings(), 0.0, 20.0, unix_now=0.0).changes == {}

    def test_an_entry_whose_pod_is_gone_is_dropped(self) -> None:
        pod, seen = user("ours", {GPU: 1}, "eks", ID), Sightings()
        ledger = {ID: held({GPU: 1}, owner="")}
        assert review_ledger(ledger, {pod.key: pod}, seen, 0.0, 20.0, unix_now=0.0).changes == {}
        assert review_ledger(ledger, {}, seen, 1.0, 20.0, unix_now=0.0).changes == {ID: None}


def test_a_report_tells_the_units_of_a_pod() -> None:
    pod = user("ours", {GPU: 2}, "eks", ID)
    assert card_words(pod) == "eks 2 nvidia.com/gpu"
    assert card_phrase(pod) == "2 nvidia.com/gpu of eks"
    status = placement_status([pod, user("theirs", {GPU: 1})], {}, 1, {}, "2026-11-30T10:00:00Z")
    assert (status["phase"], status["placed"], status["where"]) == ("Running", 1, "eks 2 nvidia.com/gpu")
    assert [(each["pod"], each["node"], each["cards"]) for each in status["placements"]] == [("ours", "eks", [])]


def test_a_walk_gives_each_unit_away_once() -> None:
    needs = Needs.of(a_pod().annotated(names.VRAM, "2").raw())
    assert needs is not None
    room = Room(cluster(a10g(gpus=2)))
    assert [room.take(needs) is not None for _ in range(3)] == [True, True, False]


def test_who_publishes_a_nodes_cards_is_read_from_it() -> None:
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1"}
    units = [{"resource": GPU, "gb": 6, "perCard": 4}, {"resource": AMD}]
    read = gpu_node({"metadata": metadata, "status": {"source": "labels", "units": units}}, exclusive=True)
    assert [(kind.resource, kind.gb, kind.per_card, kind.whole) for kind in read.inventory.kinds] == [
        (AMD, None, 1, True),
        (GPU, 6, 4, False),
    ]
    assert read.from_labels
    assert not read.has_other_source
    agent = gpu_node({"metadata": metadata, "status": {"source": "agent", "units": units}}, exclusive=True)
    assert agent.inventory.kinds == ()
    assert agent.has_other_source
    assert agent.stale_units
    mode = gpu_node({"metadata": metadata, "spec": {"mode": "exclusive"}}, exclusive=False)
    assert mode.inventory.served_by_us
    assert not mode.has_other_source
