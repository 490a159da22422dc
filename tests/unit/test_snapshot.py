"""What is used and free on a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.cards import Card
from shared.core.ledger import Entry
from shared.core.pods import PodFacts
from tests.builders import a_node
from tests.unit.core_builders import card, cards, cluster, entry, holder, node


@pytest.mark.parametrize(
    ("ledger", "pods", "used"),
    [
        pytest.param({}, [], {}, id="nothing"),
        pytest.param({"r": entry({0: 6})}, [], {0: 6}, id="a-reservation-without-a-pod"),
        pytest.param({}, [holder("a", {0: 6})], {0: 6}, id="a-pod-without-a-reservation"),
        pytest.param({}, [holder("a", {0: 6}, reservation="r")], {0: 6}, id="a-pod-whose-reservation-was-dropped"),
        pytest.param(
            {"r": entry({0: 6})}, [holder("a", {0: 6}, reservation="r")], {0: 6}, id="a-pod-and-its-reservation"
        ),
        pytest.param(
            {"r": entry({0: 6, 1: 2})},
            [holder("a", {0: 4, 1: 8}, reservation="r")],
            {0: 6, 1: 8},
            id="the-larger-of-the-two-on-each-card",
        ),
        pytest.param(
            {"r": entry({0: 6})},
            [holder("a", {0: 5})],
            {0: 11},
            id="an-unconfirmed-reservation-does-not-hide-an-unrecorded-pod",
        ),
        pytest.param(
            {"r": entry({0: 5})},
            [
                holder("young", {0: 6}, reservation="r", created="2026-01-02T00:00:00Z"),
                holder("old", {0: 4}, reservation="r", created="2026-01-01T00:00:00Z"),
            ],
            {0: 11},
            id="of-two-pods-on-one-id-the-oldest-is-the-one-it-stands-for",
        ),
        pytest.param(
            {"r": entry({0: 6})},
            [holder("web", {}, reservation="r")],
            {0: 6},
            id="a-pod-without-a-share-stands-for-none",
        ),
        pytest.param(
            {"r": entry({0: 5})},
            [
                holder("copy", {0: 6}, "other", reservation="r", created="2026-01-01T00:00:00Z"),
                holder("own", {0: 4}, reservation="r", created="2026-01-02T00:00:00Z"),
            ],
            {0: 11},
            id="a-pod-of-another-namespace-is-not-the-one-it-stands-for",
        ),
        pytest.param({"r": entry({0: 6}), "s": entry({0: 2, 1: 2})}, [], {0: 8, 1: 2}, id="reservations-add-up"),
    ],
)
def test_used_gb_are_the_union_of_ledger_and_pods(
    ledger: dict[str, Entry], pods: list[PodFacts], used: dict[int, int]
) -> None:
    assert node("n", cards(80, 80), ledger=ledger, pods=pods).used_gb == used
    assert node("n", cards(80, 80), ledger=ledger, pods=pods[::-1]).used_gb == used


@pytest.mark.parametrize(
    ("of", "exclusive", "used", "free"),
    [
        pytest.param(card(0, 24), False, 6, 18, id="budget-less-use"),
        pytest.param(card(0, 24), False, 24, 0, id="full"),
        pytest.param(card(0, 24), False, 30, 0, id="never-below-zero"),
        pytest.param(card(0, 24, foreign_gb=5), False, 6, 13, id="foreign-use-comes-on-top"),
        pytest.param(card(0, 24, healthy=False), False, 0, 0, id="an-unhealthy-card-has-nothing-free"),
        pytest.param(card(0, 24), True, 0, 24, id="an-unused-exclusive-card"),
        pytest.param(card(0, 24), True, 1, 0, id="a-used-exclusive-card"),
    ],
)
def test_free_gb_are_what_may_still_be_booked(of: Card, exclusive: bool, used: int, free: int) -> None:
    ledger = {"r": entry({0: used})} if used else {}
    assert node("n", [of], exclusive=exclusive, ledger=ledger).free_gb == (free,)


def test_a_pod_that_comes_and_goes_leaves_the_node_as_it_was() -> None:
    before = node("n", cards(24))
    pod = holder("a", {0: 6}, requests={"cpu": 500, "memory": 7})
    during = before.with_pod(pod)
    assert (during.free_gb, during.requested) == ((18,), {"cpu": 500, "memory": 7})
    assert during.without_pod(pod.key) == before


def test_a_pod_that_is_seen_again_counts_once_with_its_newest_facts() -> None:
    state = node("n", cards(24)).with_pod(holder("a", {0: 6})).with_pod(holder("a", {0: 8}))
    assert state.free_gb == (16,)


def test_taking_away_a_pod_that_is_not_there_changes_nothing() -> None:
    state = node("n", cards(24))
    assert state.without_pod("unknown") is state


def test_requests_of_all_pods_add_up() -> None:
    state = node("n", pods=[holder("a", {}, requests={"cpu": 1}), holder("b", {}, requests={"cpu": 2, "memory": 3})])
    assert state.requested == {"cpu": 3, "memory": 3}


@pytest.mark.parametrize(
    ("namespace", "count"), [pytest.param("models", 2, id="its-pod"), pytest.param("other", 3, id="a-copy-elsewhere")]
)
def test_units_of_a_reservation_are_unseen_until_a_pod_of_its_namespace_has_them(namespace: str, count: int) -> None:
    promised = replace(entry({}), units=(("nvidia.com/gpu", 1),))
    seen = holder("pod", {}, namespace, reservation="r", requests={"nvidia.com/gpu": 2})
    assert node("n", ledger={"r": promised}, pods=[seen]).requested == {"nvidia.com/gpu": count}


def test_a_new_inventory_and_ledger_keep_the_pods() -> None:
    state = node("n", cards(24), pods=[holder("a", {0: 6})])
    grown = state.with_inventory(node("n", cards(48)).inventory, {"r": entry({0: 2})})
    assert grown.free_gb == (40,)


def test_new_facts_of_the_node_keep_everything_else() -> None:
    state = node("n", cards(24), pods=[holder("a", {0: 6})])
    cordoned = state.with_facts(node("n", (), a_node("n").cordoned()).facts)
    assert cordoned.facts.unschedulable
    assert (cordoned.name, cordoned.free_gb) == ("n", (18,))


def test_an_emptied_node_has_all_its_budget_free_and_every_card_in_order() -> None:
    of = [card(0, 24, foreign_gb=4), card(1, 16, healthy=False)]
    state = node("n", of, ledger={"r": entry({0: 6})}, pods=[holder("a", {0: 6}, requests={"cpu": 1})])
    assert state.emptied.free_gb == (24, 16)
    assert state.emptied.requested == {}


def test_a_snapshot_gives_its_nodes() -> None:
    snapshot = cluster(node("a"), node("b"))
    assert [state.name for state in snapshot] == ["a", "b"]


def test_a_node_without_an_entry_has_its_room_and_keeps_the_others() -> None:
    state = node("node", cards(16), ledger={"a": entry({0: 6}), "b": entry({0: 4})})
    assert state.without_entry("a") == node("node", cards(16), ledger={"b": entry({0: 4})})
    assert state.without_entry("c") is state
