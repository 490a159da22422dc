"""The facts of a refusal: what was nearest, what fell out, who is in the way, and whether waiting helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.amounts import WHOLE
from shared.core.cards import Card, Vendor
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand
from shared.core.placement import place
from shared.core.refusal import CardAttempt, Excluded, Holders, NodeAttempt, NoFit
from shared.core.snapshot import NodeState
from tests.builders import HOSTNAME, a_node, a_pod, labels, term
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, holder, node

ANYWHERE = Constraints(namespace="models")


def refusal(*states: NodeState, of: Demand, constraints: Constraints = ANYWHERE) -> NoFit:
    verdict = place(cluster(*states), of, constraints)
    assert isinstance(verdict, NoFit), verdict
    return verdict


def excluded(verdict: NoFit) -> dict[str, int]:
    return {fact.words: fact.nodes for fact in verdict.excluded}


def nearest(verdict: NoFit) -> list[tuple[str, int]]:
    return [(attempt.node, attempt.index) for attempt in verdict.attempts]


class TestAttempts:
    def test_each_tells_what_was_needed_and_what_is_free(self) -> None:
        state = node("a", cards(24), ledger={"r": entry({0: 20})})
        assert refusal(state, of=demand(ask(6))).attempts == (
            CardAttempt("a", 0, "card of 24 GB", need_gb=6, free_gb=4, budget_gb=24, healthy=True),
        )

    def test_a_part_of_a_card_is_told_in_gb_of_that_card(self) -> None:
        state = node("a", cards(16, 24), ledger={"r": entry({0: 1, 1: 2})})
        attempts = refusal(state, of=demand(ask(WHOLE))).attempts
        assert [(each.need_gb, each.short_gb) for each in attempts] == [(16, 1), (24, 2)]

    def test_the_peak_of_init_containers_is_what_is_needed(self) -> None:
        assert refusal(node("a", cards(24)), of=demand(ask(6, init=[30]))).attempts[0].need_gb == 30

    def test_cards_that_could_hold_it_come_before_cards_that_never_can_and_broken_ones_last(self) -> None:
        states = [
            node("a", [card(0, 80, healthy=False), card(1, 48)]),
            node("b", cards(24, 64), ledger={"r": entry({1: 60})}),
            node("c", cards(64), ledger={"r": entry({0: 20})}),
        ]
        assert nearest(refusal(*states, of=demand(ask(60)))) == [("c", 0), ("b", 1), ("a", 1), ("b", 0), ("a", 0)]

    def test_of_cards_that_never_can_the_largest_is_the_nearest_whatever_is_used_of_it(self) -> None:
        states = [node("a", cards(10)), node("b", cards(20), ledger={"r": entry({0: 15})})]
        assert nearest(refusal(*states, of=demand(ask(25)))) == [("b", 0), ("a", 0)]

    def test_cards_of_another_vendor_are_not_among_them(self) -> None:
        state = node("a", [card(0, 24), card(1, 80, Vendor.AMD)])
        assert nearest(refusal(state, of=demand(ask(30), vendor=Vendor.NVIDIA))) == [("a", 0)]

    def test_sixteen_are_kept(self) -> None:
        states = [node(f"n{number:02}", cards(*[8] * 4)) for number in range(10)]
        assert nearest(refusal(*states, of=demand(ask(9)))) == [(f"n{n:02}", i) for n in range(4) for i in range(4)]

    def test_nodes_that_something_else_closes_are_left_out_while_others_are_open(self) -> None:
        shut = node("a", cards(24), a_node("a").offering(pods="0"), ledger={"r": entry({0: 19})})
        assert nearest(refusal(shut, node("b", cards(4)), of=demand(ask(6)))) == [("b", 0)]

    def test_where_every_node_is_closed_their_cards_are_the_facts(self) -> None:
        verdict = refusal(node("a", cards(24), a_node("a").offering(pods="0")), of=demand(ask(6)))
        assert [(each.node, each.short_gb) for each in verdict.attempts] == [("a", 0)]

    def test_for_several_cards_those_without_room_count_and_the_best_node_comes_first(self) -> None:
        states = [
            node("a", cards(8, 4, 4)),
            node("b", cards(8, 8, 8), ledger={"r": entry({0: 7})}),
        ]
        verdict = refusal(*states, of=demand(ask(6, 3)))
        assert verdict.best_node == NodeAttempt("b", fitting=2, cards=3)
        assert nearest(verdict) == [("b", 0), ("a", 1), ("a", 2)]


class TestBestNode:
    @pytest.mark.parametrize(
        ("states", "best"),
        [
            pytest.param([node("a", cards(8, 8)), node("b", cards(8, 4))], NodeAttempt("a", 2, 2), id="most-with-room"),
            pytest.param(
                [node("a", cards(8, 8)), node("b", cards(8, 8, 4))], NodeAttempt("b", 2, 3), id="then-most-cards"
            ),
            pytest.param([node("b", cards(8)), node("a", cards(8))], NodeAttempt("a", 1, 1), id="then-the-first-name"),
            pytest.param(
                [node("a", [card(0, 8), card(1, 8), card(2, 8, Vendor.AMD)])],
                NodeAttempt("a", 2, 2),
                id="cards-of-two-vendors-do-not-add-up",
            ),
        ],
    )
    def test_it_is_the_one_that_comes_nearest(self, states: list[NodeState], best: NodeAttempt) -> None:
        assert refusal(*states, of=demand(ask(6, 3))).best_node == best

    @pytest.mark.parametrize(
        ("states", "best"),
        [
            pytest.param(
                [node("a", cards(80, 80, 80)), node("b", cards(96, 96), pods=[holder("chat", {0: 60, 1: 60})])],
                NodeAttempt("b", 0, 2),
                id="one-that-would-do-if-it-were-empty",
            ),
            pytest.param(
                [
                    node("a", cards(96, 96), pods=[holder("chat", {0: 60, 1: 60})]),
                    node("b", cards(96, 96), pods=[holder("chat", {0: 60, 1: 20})]),
                ],
                NodeAttempt("b", 0, 2),
                id="then-the-nearest-card",
            ),
            pytest.param(
                [node("a", cards(80)), node("b", cards(80, 80))], NodeAttempt("b", 0, 2), id="else-most-cards"
            ),
        ],
    )
    def test_where_no_card_has_room_it_is_one_that_could_hold_the_ask(
        self, states: list[NodeState], best: NodeAttempt
    ) -> None:
        verdict = refusal(*states, of=demand(ask(90, 2)))
        assert verdict.best_node == best
        assert verdict.attempts[0].node == best.node

    def test_there_is_none_where_one_card_is_asked_for(self) -> None:
        assert refusal(node("a", cards(4)), of=demand(ask(6))).best_node is None


class TestExcluded:
    def test_nodes_are_counted_under_every_reason_and_the_most_frequent_comes_first(self) -> None:
        states = [
            node("a", cards(80), a_node("a").cordoned().tainted("gpu")),
            node("b", cards(80), a_node("b").cordoned()),
            node("c", cards(80), a_node("c").not_ready()),
            node("d", cards(80), a_node("d").label(HOSTNAME, "x")),
            node("e", cards(80, vendor=Vendor.AMD)),
            node("f", cards(80), accel={"cuda": (12, 2)}),
            node("g", cards(80), a_node("g").offering(cpu="1"), accel={"cuda": (13, 0)}),
            node("h", cards(80), accel={"cuda": (13, 0)}, pods=[holder("twin", {0: 1}, labels={"app": "llm"})]),
            node("i", cards(4), accel={"cuda": (13, 0)}),
            node("without-cards", (), a_node("without-cards").cordoned()),
        ]
        pod = (
            a_pod()
            .labelled(app="llm")
            .requesting(cpu="2")
            .away_from(term(HOSTNAME, labels(app="llm")))
            .node_affinity({"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": ["x"]}]})
        )
        verdict = refusal(
            *states,
            of=demand(ask(6), vendor=Vendor.NVIDIA, accel="cuda>=12.4"),
            constraints=read_constraints(pod.raw()),
        )
        assert verdict.excluded[0] == Excluded("2 cordoned", 2)
        assert excluded(verdict) == {
            "2 cordoned": 2,
            "1 AMD": 1,
            "1 not ready": 1,
            "1 not selected by nodeSelector or node affinity": 1,
            "1 ruled out by its pod anti-affinity": 1,
            "1 short of cpu": 1,
            "1 untolerated taint": 1,
            "1 without CUDA 12.4 or newer": 1,
        }
        assert (verdict.usable_nodes, verdict.excluded_nodes) == (3, 8)

    def test_nodes_of_the_wrong_vendor_are_no_exclusion_where_all_are(self) -> None:
        states = [
            node("a", cards(80, vendor=Vendor.AMD)),
            node("b", cards(80, vendor=Vendor.INTEL)),
            node("c", cards(80), a_node("c").cordoned()),
        ]
        verdict = refusal(*states, of=demand(ask(6), vendor=Vendor.NVIDIA))
        assert (verdict.usable_nodes, verdict.excluded_nodes, verdict.found) == (1, 2, ("AMD",))
        assert excluded(verdict) == {"1 cordoned": 1, "1 Intel": 1}

    def test_nodes_whose_cards_are_never_given_away_are_counted_by_what_they_have(self) -> None:
        states = [
            node("a", cards(80, vendor=Vendor.INTEL)),
            node("b", [card(0, 20, partitioned=True)]),
            node("c", [card(0, 20, partitioned=True), card(1, 4)]),
            node("d", [card(0, 20, Vendor.INTEL), card(1, 20, partitioned=True)], a_node("d").cordoned()),
        ]
        verdict = refusal(*states, of=demand(ask(6)))
        assert excluded(verdict) == {"2 Intel": 2, "2 with MIG partitions": 2, "1 cordoned": 1}
        assert (verdict.usable_nodes, verdict.excluded_nodes, nearest(verdict)) == (1, 3, [("c", 1)])
        assert (verdict.unsupported, verdict.can_wait) == (False, False)
        assert refusal(*states[:2], of=demand(ask(6))).unsupported

    @pytest.mark.parametrize(
        ("named", "misnamed"), [pytest.param("nope", True, id="no-node"), pytest.param("a", False, id="a-full-one")]
    )
    def test_a_node_name_that_leaves_no_node_is_told(self, named: str, misnamed: bool) -> None:
        states = [node("a", cards(4)), node("b", cards(80))]
        verdict = refusal(*states, of=demand(ask(6)), constraints=replace(ANYWHERE, node_name=named))
        assert verdict.misnamed is misnamed

    def test_nodes_of_an_old_version_are_no_exclusion_where_all_are(self) -> None:
        states = [
            node("a", cards(80), accel={"cuda": (12, 2)}),
            node("b", cards(80), accel={"cuda": (11, 8)}),
            node("c", cards(80)),
            node("d", cards(80, vendor=Vendor.AMD)),
        ]
        verdict = refusal(*states, of=demand(ask(6), vendor=Vendor.NVIDIA, accel="cuda>=12.4"))
        assert verdict.found == ("CUDA 12.2 at most", "no known CUDA version")
        assert (verdict.usable_nodes, verdict.excluded_nodes, excluded(verdict)) == (3, 1, {"1 AMD": 1})

    def test_a_version_that_no_node_tells_is_unknown(self) -> None:
        verdict = refusal(node("a", cards(80)), of=demand(ask(6), accel="cuda>=12.4"))
        assert verdict.found == ("no known CUDA version",)


class TestHolders:
    def test_they_are_those_of_the_nearest_card(self) -> None:
        state = node("a", cards(24, 24), pods=[holder("chat", {0: 20}), holder("big", {1: 23}, "other")])
        assert refusal(state, of=demand(ask(6))).holders == Holders(own=(("chat", 20),))

    def test_for_several_cards_they_are_those_of_the_card_that_is_missing(self) -> None:
        state = node("a", cards(24, 24), pods=[holder("chat", {1: 20}), holder("small", {0: 1})])
        assert refusal(state, of=demand(ask(6, 2))).holders == Holders(own=(("chat", 20),))

    @pytest.mark.parametrize(
        ("of_card", "gb"),
        [
            pytest.param(card(0, 24), 30, id="a-card-that-is-too-small"),
            pytest.param(card(0, 24, healthy=False), 6, id="a-broken-card"),
        ],
    )
    def test_they_are_not_named_where_their_leaving_would_not_help(self, of_card: Card, gb: int) -> None:
        state = node("a", [of_card], pods=[holder("chat", {0: 4})])
        assert refusal(state, of=demand(ask(gb))).holders == Holders()

    def test_they_are_not_named_where_the_card_has_room(self) -> None:
        state = node("a", cards(24), a_node("a").offering(pods="0"), pods=[holder("chat", {0: 4})])
        assert refusal(state, of=demand(ask(6))).holders == Holders()


class TestSeveralContainers:
    def test_each_fits_alone_and_not_all_at_once(self) -> None:
        verdict = refusal(node("a", cards(24)), of=demand(ask(WHOLE, container="a"), ask(WHOLE, container="b")))
        assert (verdict.every_container_alone, verdict.count) == (True, 1)

    def test_the_facts_are_about_the_one_that_fits_nowhere(self) -> None:
        verdict = refusal(node("a", cards(24, 24)), of=demand(ask(4, 2, "pair"), ask(99, 1, "large")))
        assert (verdict.every_container_alone, verdict.count, verdict.attempts[0].need_gb) == (False, 1, 99)

    def test_the_largest_of_those_that_fit_nowhere_is_told(self) -> None:
        verdict = refusal(node("a", cards(24)), of=demand(ask(30, 1, "a"), ask(40, 1, "b"), ask(1, 1, "c")))
        assert verdict.attempts[0].need_gb == 40

    def test_on_closed_nodes_it_is_not_the_containers_that_are_too_many(self) -> None:
        state = node("a", cards(24), a_node("a").offering(pods="0"))
        assert not refusal(state, of=demand(ask(1, 1, "a"), ask(1, 1, "b"))).every_container_alone


class TestWaiting:
    @pytest.mark.parametrize(
        ("state", "helps"),
        [
            pytest.param(node("a", cards(24), ledger={"r": entry({0: 20})}), True, id="full"),
            pytest.param(node("a", cards(5)), False, id="too-small"),
            pytest.param(node("a", [card(0, 24, foreign_gb=20)]), True, id="held-by-foreign-programs"),
            pytest.param(node("a", [card(0, 24, healthy=False)]), True, id="out-of-service"),
            pytest.param(node("a", cards(24), a_node("a").cordoned()), True, id="cordoned"),
            pytest.param(node("a", cards(24), a_node("a").not_ready()), True, id="not-ready"),
            pytest.param(node("a", cards(24), a_node("a").tainted("gpu")), False, id="tainted"),
            pytest.param(node("a", cards(24), a_node("a").cordoned().tainted("gpu")), False, id="cordoned-and-tainted"),
            pytest.param(node("a", cards(24, vendor=Vendor.AMD)), False, id="another-vendor"),
            pytest.param(node("a", cards(24), exclusive=True, ledger={"r": entry({0: 24})}), True, id="exclusive"),
            pytest.param(node("a", cards(24), a_node("a").offering(cpu="1")), False, id="more-cpu-than-the-node-has"),
            pytest.param(
                node("a", cards(24), a_node("a").offering(cpu="2"), pods=[holder("w", {}, requests={"cpu": 1000})]),
                True,
                id="cpu-that-others-use",
            ),
            pytest.param(node("a", cards(24), a_node("a").cordoned(), accel={"cuda": (13, 0)}), True, id="new-driver"),
        ],
    )
    def test_it_helps_where_the_pod_would_fit_an_empty_node(self, state: NodeState, helps: bool) -> None:
        constraints = read_constraints(a_pod().requesting(cpu="2").raw())
        verdict = refusal(state, of=demand(ask(6), vendor=Vendor.NVIDIA), constraints=constraints)
        assert verdict.can_wait is helps

    def test_a_search_that_gave_up_does_not_say_that_waiting_is_in_vain(self) -> None:
        state = node("a", cards(31, 32, 33, 34, 43, 44, 45, 46))
        assert refusal(state, of=demand(*(ask(20 + number, 1, f"c{number:02}") for number in range(12)))).can_wait

    def test_an_old_driver_does_not_get_newer_by_waiting(self) -> None:
        state = node("a", cards(24), accel={"cuda": (12, 2)})
        assert not refusal(state, of=demand(ask(6), accel="cuda>=12.4")).can_wait

    def test_one_node_of_a_kind_speaks_for_the_others_but_not_for_larger_ones(self) -> None:
        small = [node(f"small-{number}", cards(5)) for number in range(3)]
        large = node("z-large", cards(24), a_node("z-large").cordoned())
        assert not refusal(*small, of=demand(ask(6))).can_wait
        assert refusal(*small, large, of=demand(ask(6))).can_wait


def test_the_ask_is_told_with_the_version_it_needs() -> None:
    verdict = refusal(node("a", cards(4)), of=demand(ask(6), accel="cuda>=12.4"))
    assert verdict.asked == "6 GB on one card with CUDA 12.4 or newer"


def test_the_facts_do_not_depend_on_the_order_of_nodes_or_pods() -> None:
    pods = [holder("b", {0: 3}), holder("a", {0: 3}), holder("c", {0: 3}, "other"), holder("d", {1: 5})]
    states = [
        node("a", cards(24, 24), a_node("a").cordoned()),
        node("b", cards(8, 8), pods=pods),
        node("c", cards(8, 8), ledger={"r": entry({0: 5}), "s": entry({1: 5})}),
        node("d", cards(8), a_node("d").tainted("gpu")),
    ]
    mirrored = [replace(state, pods=dict(reversed(list(state.pods.items())))) for state in reversed(states)]
    for wanted in (demand(ask(6)), demand(ask(6, 2)), demand(ask(6, container="a"), ask(5, 2, "b"))):
        assert refusal(*states, of=wanted) == refusal(*mirrored, of=wanted)
