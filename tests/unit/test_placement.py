"""Which node a pod gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.amounts import WHOLE
from shared.core.cards import Vendor
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand, Policy
from shared.core.ledger import Shares
from shared.core.placement import Placed, fits, has_cards, place
from shared.core.refusal import NoFit, Reason
from shared.core.snapshot import NodeState, Snapshot
from tests.builders import HOSTNAME, a_node, a_pod, labels, term
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, holder, node

ANYWHERE = Constraints(namespace="models")


def placed(snapshot: Snapshot, wanted: Demand, constraints: Constraints = ANYWHERE) -> tuple[str, Shares]:
    verdict = place(snapshot, wanted, constraints)
    assert isinstance(verdict, Placed), verdict
    return verdict.node, verdict.booking


def reason(snapshot: Snapshot, wanted: Demand, constraints: Constraints = ANYWHERE) -> Reason:
    verdict = place(snapshot, wanted, constraints)
    assert isinstance(verdict, NoFit), verdict
    return verdict.reason


@pytest.mark.parametrize(
    ("states", "wanted", "where"),
    [
        pytest.param(
            [node("a", cards(24)), node("b", cards(24), ledger={"r": entry({0: 10})})],
            demand(ask(10)),
            ("b", ((0, 10),)),
            id="the-node-with-the-least-free-memory-that-fits",
        ),
        pytest.param(
            [node("a", cards(24)), node("b", cards(24), ledger={"r": entry({0: 20})})],
            demand(ask(10)),
            ("a", ((0, 10),)),
            id="and-not-one-that-has-less-and-does-not-fit",
        ),
        pytest.param(
            [node("a", cards(12)), node("b", cards(8, 3))],
            demand(ask(8)),
            ("b", ((0, 8),)),
            id="the-sum-over-the-cards-of-a-node-counts",
        ),
        pytest.param(
            [node("a", cards(8, 24))],
            demand(ask(10)),
            ("a", ((1, 10),)),
            id="ten-gb-go-to-the-24-gb-card-while-the-8-gb-card-idles",
        ),
        pytest.param(
            [node("b", cards(24)), node("a", cards(24))],
            demand(ask(10)),
            ("a", ((0, 10),)),
            id="equal-nodes-by-name",
        ),
        pytest.param(
            [node("a", cards(24)), node("b", cards(48))],
            demand(ask(10), policy=Policy.SPREAD),
            ("b", ((0, 10),)),
            id="spread-takes-the-node-with-the-most-free-memory",
        ),
        pytest.param(
            [node("a", cards(24)), node("b", cards(24), ledger={"r": entry({0: 1})})],
            demand(ask(4), policy=Policy.EXCLUSIVE),
            ("a", ((0, 24),)),
            id="exclusive-takes-an-empty-card-whole",
        ),
        pytest.param(
            [node("a", cards(24)), node("b", cards(24, 24))],
            demand(ask(10, 2)),
            ("b", ((0, 10), (1, 10))),
            id="two-cards-lie-on-one-node",
        ),
        pytest.param(
            [node("a", cards(24), ledger={"r": entry({0: 1})}), node("b", cards(80))],
            demand(ask(WHOLE)),
            ("b", ((0, 80),)),
            id="a-whole-card-is-an-empty-one",
        ),
        pytest.param(
            [node("a", cards(24))],
            demand(ask(10, container="one"), ask(6, container="two")),
            ("a", ((0, 16),)),
            id="two-containers-on-one-card-are-booked-together",
        ),
        pytest.param(
            [node("a", cards(24, vendor=Vendor.AMD)), node("b", cards(48))],
            demand(ask(10), vendor=Vendor.NVIDIA),
            ("b", ((0, 10),)),
            id="the-vendor-that-is-asked-for",
        ),
        pytest.param(
            [node("a", [card(0, 24, Vendor.AMD), card(1, 48)])],
            demand(ask(10), vendor=Vendor.NVIDIA),
            ("a", ((1, 10),)),
            id="the-vendor-within-a-node-of-two",
        ),
        pytest.param(
            [node("old", cards(24), accel={"cuda": (12, 2)}), node("new", cards(48), accel={"cuda": (13, 0)})],
            demand(ask(10), accel="cuda>=12.4"),
            ("new", ((0, 10),)),
            id="a-node-whose-driver-serves-the-version",
        ),
        pytest.param(
            [node("a", [card(0, 24, healthy=False), card(1, 24)])],
            demand(ask(10)),
            ("a", ((1, 10),)),
            id="unhealthy-cards-are-passed-over",
        ),
        pytest.param(
            [node("a", [card(0, 24, foreign_gb=20), card(1, 24)])],
            demand(ask(10)),
            ("a", ((1, 10),)),
            id="foreign-use-is-not-free",
        ),
    ],
)
def test_a_pod_is_placed_on(states: list[NodeState], wanted: Demand, where: tuple[str, Shares]) -> None:
    assert placed(cluster(*states), wanted) == where


def test_the_second_model_finds_no_room_on_an_exclusive_card() -> None:
    state = node("a", cards(24), exclusive=True)
    _, booking = placed(cluster(state), demand(ask(4)))
    assert booking == ((0, 24),)
    taken = state.with_inventory(state.inventory, {"first": entry(dict(booking))})
    assert reason(cluster(taken), demand(ask(4))) is Reason.INSUFFICIENT_CAPACITY


def test_an_unrecorded_pod_and_an_entry_without_a_pod_both_hold_their_card() -> None:
    pods = [holder("unrecorded", {0: 10})]
    state = node("a", cards(24), ledger={"r": entry({0: 10})}, pods=pods)
    assert placed(cluster(state), demand(ask(4))) == ("a", ((0, 4),))
    assert reason(cluster(state), demand(ask(5))) is Reason.INSUFFICIENT_CAPACITY


@pytest.mark.parametrize(
    ("best", "constraints"),
    [
        pytest.param(node("a", cards(12), a_node("a").cordoned()), ANYWHERE, id="cordoned"),
        pytest.param(node("a", cards(12), a_node("a").not_ready()), ANYWHERE, id="not-ready"),
        pytest.param(node("a", cards(12), a_node("a").tainted("gpu")), ANYWHERE, id="tainted"),
        pytest.param(
            node("a", cards(12), a_node("a").offering(cpu="1")),
            read_constraints(a_pod().requesting(cpu="2").raw()),
            id="short-of-cpu",
        ),
        pytest.param(node("a", cards(12), a_node("a").offering(pods="0")), ANYWHERE, id="without-a-pod-slot"),
        pytest.param(
            node("a", cards(12)), read_constraints(a_pod().selecting(**{HOSTNAME: "b"}).raw()), id="not-selected"
        ),
        pytest.param(
            node("a", cards(12), pods=[holder("twin", {}, labels={"app": "llm"})]),
            read_constraints(a_pod().labelled(app="llm").away_from(term(HOSTNAME, labels(app="llm"))).raw()),
            id="with-a-replica-it-avoids",
        ),
    ],
)
def test_a_node_that_the_scheduler_would_not_admit_is_passed_over(best: NodeState, constraints: Constraints) -> None:
    assert placed(cluster(best, node("b", cards(48))), demand(ask(10)), constraints)[0] == "b"


@pytest.mark.parametrize(
    ("states", "wanted", "why"),
    [
        pytest.param([], demand(ask(1)), Reason.INSUFFICIENT_CAPACITY, id="no-node"),
        pytest.param([node("a")], demand(ask(1)), Reason.INSUFFICIENT_CAPACITY, id="no-card"),
        pytest.param([node("a", cards(7, 7))], demand(ask(8)), Reason.INSUFFICIENT_CAPACITY, id="two-halves"),
        pytest.param([node("a", cards(24))], demand(ask(8, 2)), Reason.INSUFFICIENT_GPU_COUNT, id="one-card-of-two"),
        pytest.param(
            [node("a", cards(24)), node("b", cards(24))],
            demand(ask(8, 2)),
            Reason.INSUFFICIENT_GPU_COUNT,
            id="two-cards-on-two-nodes",
        ),
        pytest.param(
            [node("a", cards(24))], demand(ask(99), vendor=Vendor.AMD), Reason.VENDOR_MISMATCH, id="vendor-first"
        ),
        pytest.param(
            [node("a", cards(24), accel={"rocm": (6, 2)})],
            demand(ask(99, 4), vendor=Vendor.AMD, accel="rocm>=6.4"),
            Reason.VENDOR_MISMATCH,
            id="vendor-before-version-count-and-capacity",
        ),
        pytest.param(
            [node("a", cards(24), accel={"cuda": (12, 2)})],
            demand(ask(99, 4), accel="cuda>=12.4"),
            Reason.ACCEL_VERSION_UNMET,
            id="version-before-count-and-capacity",
        ),
        pytest.param([node("a", cards(24))], demand(ask(99, 4)), Reason.INSUFFICIENT_GPU_COUNT, id="count-before-size"),
        pytest.param(
            [node("a", cards(24), a_node("a").cordoned()), node("b", cards(24, vendor=Vendor.AMD))],
            demand(ask(8), vendor=Vendor.NVIDIA),
            Reason.VENDOR_MISMATCH,
            id="vendor-is-judged-over-nodes-that-may-be-used",
        ),
        pytest.param(
            [node("a", cards(24, vendor=Vendor.AMD), a_node("a").cordoned())],
            demand(ask(8), vendor=Vendor.NVIDIA),
            Reason.INSUFFICIENT_CAPACITY,
            id="where-none-may-be-used-nothing-is-said-of-vendors",
        ),
        pytest.param(
            [node("a", cards(24, 24), a_node("a").cordoned())],
            demand(ask(8, 2)),
            Reason.INSUFFICIENT_GPU_COUNT,
            id="two-cards-on-a-cordoned-node",
        ),
        pytest.param(
            [node("a", cards(24, 24))],
            demand(ask(4, 2, "pair"), ask(99, 1, "large")),
            Reason.INSUFFICIENT_CAPACITY,
            id="the-container-that-fits-nowhere-gives-the-reason",
        ),
    ],
)
def test_a_pod_without_a_place_is_refused_for_the_first_reason_that_holds(
    states: list[NodeState], wanted: Demand, why: Reason
) -> None:
    assert reason(cluster(*states), wanted) is why


@pytest.mark.parametrize(
    ("state", "still"),
    [
        pytest.param(node("a", cards(24, 24)), True, id="nothing-changed"),
        pytest.param(node("a", cards(24, 24), ledger={"r": entry({0: 18})}), True, id="room-is-left"),
        pytest.param(node("a", cards(24, 24), ledger={"r": entry({0: 19})}), False, id="others-were-faster"),
        pytest.param(node("a", cards(24)), False, id="the-card-is-gone"),
        pytest.param(node("a", [card(0, 24), replace(card(1, 24), healthy=False)]), False, id="a-card-broke"),
    ],
)
def test_a_choice_is_checked_again_before_it_is_written(state: NodeState, still: bool) -> None:
    assert fits(state, ((0, 6), (1, 6))) is still


@pytest.mark.parametrize(
    ("state", "has"),
    [
        pytest.param(node("a", cards(16)), True, id="free"),
        pytest.param(node("a", cards(16), a_node("a").tainted("reserved")), True, id="where-not-everybody-may-go"),
        pytest.param(node("a", cards(16), pods=[holder("other", {0: 10})]), False, id="too-full"),
        pytest.param(node("a", cards(6, 6)), False, id="enough-only-in-sum"),
    ],
)
def test_whether_a_node_has_the_cards_is_asked_of_all_nodes(state: NodeState, has: bool) -> None:
    assert has_cards(cluster(node("small", cards(4)), state), demand(ask(10))) == has
