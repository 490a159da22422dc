"""Cards that pods hold without a reservation, through another device plugin."""

from __future__ import annotations

import pytest

from shared.core.amounts import WHOLE
from shared.core.cards import Vendor
from shared.core.constraints import Constraints
from shared.core.demand import Demand
from shared.core.device_use import UNKNOWN_CARD, parse_slots
from shared.core.explain import explain
from shared.core.placement import Placed, place
from shared.core.pods import PodFacts, pod_facts
from shared.core.refusal import Holders, NoFit, Reason
from shared.core.snapshot import NodeState
from tests.builders import a_pod
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, holder, node, partition, pool

ANYWHERE = Constraints(namespace="models")


def foreign(name: str = "foreign", resource: str = "nvidia.com/gpu", namespace: str = "team-b") -> PodFacts:
    """A pod that another device plugin gives a card."""
    pod = a_pod(name, namespace).requesting({resource: "1"}).limited_to({resource: "1"}).on("n")
    return pod.facts()


FOREIGN = foreign()


def verdict(state: NodeState, of: Demand) -> Placed | NoFit:
    return place(cluster(state), of, ANYWHERE)


class TestListed:
    def test_its_card_is_taken_whole_and_the_others_are_free(self) -> None:
        state = node("n", cards(24, 24), pods=[FOREIGN], pod_devices={FOREIGN.key: (0,)})
        assert state.free_gb == (0, 24)
        found = verdict(state, demand(ask(16)))
        assert isinstance(found, Placed)
        assert found.booking == ((1, 16),)

    def test_the_card_is_free_as_soon_as_the_pod_is_gone(self) -> None:
        state = node("n", cards(24, 24), pods=[FOREIGN], pod_devices={FOREIGN.key: (0,)})
        assert state.without_pod(FOREIGN.key).free_gb == (24, 24)

    def test_a_pod_that_is_finished_is_gone(self) -> None:
        finished = a_pod().requesting({"nvidia.com/gpu": "1"}).on("n").in_phase("Succeeded")
        assert pod_facts(finished.raw()) is None

    def test_a_pod_that_the_kubelet_lists_without_a_card_of_ours_holds_none(self) -> None:
        assert node("n", cards(24), pods=[FOREIGN], pod_devices={FOREIGN.key: ()}).free_gb == (24,)

    def test_a_pod_that_is_listed_needs_no_request_to_count(self) -> None:
        quiet = holder("quiet", {}, "team-b")
        assert node("n", cards(24), pods=[quiet], pod_devices={quiet.key: (0,)}).free_gb == (0,)

    def test_several_cards_and_slots_that_are_not_there(self) -> None:
        state = node("n", cards(24, 24, 24), pods=[FOREIGN], pod_devices={FOREIGN.key: (0, 2, 9)})
        assert state.free_gb == (0, 24, 0)

    def test_it_comes_on_top_of_what_is_booked_there(self) -> None:
        state = node("n", cards(24), ledger={"r": entry({0: 6})}, pods=[FOREIGN], pod_devices={FOREIGN.key: (0,)})
        assert state.free_gb == (0,)


class TestNotListedYet:
    def test_each_card_of_its_vendor_may_be_the_one(self) -> None:
        state = node("n", [card(0, 24), card(1, 24), card(2, 24, Vendor.AMD)], pods=[FOREIGN])
        assert state.free_gb == (0, 0, 24)

    @pytest.mark.parametrize(
        ("resource", "closed"),
        [
            pytest.param("nvidia.com/gpu", True, id="whole"),
            pytest.param("nvidia.com/gpu.shared", True, id="time-slice"),
            pytest.param("amd.com/gpu", False, id="another-vendor"),
            pytest.param("nvidia.com/mig-1g.5gb", False, id="a-partition-that-its-plugin-serves"),
        ],
    )
    def test_what_it_requests_tells_whose_cards(self, resource: str, closed: bool) -> None:
        assert (node("n", cards(24), pods=[foreign(resource=resource)]).free_gb == (0,)) is closed

    def test_a_count_of_zero_is_no_card(self) -> None:
        zero = a_pod("zero").requesting({"nvidia.com/gpu": "0"}).on("n").facts()
        assert node("n", cards(24), pods=[zero]).free_gb == (24,)

    def test_a_pod_that_is_not_bound_has_been_given_nothing(self) -> None:
        waiting = a_pod("waiting").requesting({"nvidia.com/gpu": "1"}).pinned_to("n").facts()
        assert node("n", cards(24), pods=[waiting]).free_gb == (24,)

    def test_a_static_pod_counts_beside_what_is_booked(self) -> None:
        mirror = a_pod("asr-n1").annotated("kubernetes.io/config.mirror", "abc")
        pods = [mirror.limited_to({"nvidia.com/gpu": "1"}).on("n").facts(), holder("x", {0: 6})]
        assert node("n", cards(24), pods=pods).free_gb == (0,)

    def test_the_node_is_counted_with_the_reason(self) -> None:
        found = verdict(node("n", cards(24, 24), pods=[FOREIGN]), demand(ask(16)))
        assert isinstance(found, NoFit)
        assert (found.reason, found.can_wait) == (Reason.INSUFFICIENT_CAPACITY, True)
        assert [fact.words for fact in found.excluded] == [f"1 {UNKNOWN_CARD}"]

    def test_a_node_where_it_is_known_is_not(self) -> None:
        state = node("n", cards(24), pods=[FOREIGN], pod_devices={FOREIGN.key: (0,)})
        found = verdict(state, demand(ask(16)))
        assert isinstance(found, NoFit)
        assert found.excluded == ()

    def test_a_node_without_cards_of_ours_has_nothing_to_close(self) -> None:
        assert node("n", pods=[FOREIGN]).used_gb == {}


class TestMoved:
    """A pod of ours that runs on another card than it has booked."""

    @pytest.mark.parametrize(
        ("slots", "free"),
        [
            pytest.param((0,), (16, 24), id="as-booked"),
            pytest.param((1,), (16, 16), id="on-another"),
            pytest.param((0, 1), (16, 16), id="on-both"),
        ],
    )
    def test_its_gb_count_where_they_are_booked_and_where_it_runs(
        self, slots: tuple[int, ...], free: tuple[int, int]
    ) -> None:
        pod = holder("x", {0: 8})
        assert node("n", cards(24, 24), pods=[pod], pod_devices={pod.key: slots}).free_gb == free

    def test_a_whole_card_is_whole_there_too(self) -> None:
        pod = holder("x", {1: 24}, reservation="r")
        state = node("n", cards(24, 24), ledger={"r": entry({1: 24})}, pods=[pod], pod_devices={pod.key: (0,)})
        assert state.free_gb == (0, 0)


@pytest.mark.parametrize(
    ("state", "of"),
    [
        pytest.param(node("n", cards(24), exclusive=True, pods=[FOREIGN]), demand(ask(1)), id="exclusive"),
        pytest.param(node("n", cards(24, 24), pods=[FOREIGN]), demand(ask(WHOLE)), id="whole"),
        pytest.param(
            node("n", [partition(0, 9)], pods=[FOREIGN], pod_devices={FOREIGN.key: (0,)}),
            demand(ask(1)),
            id="partition",
        ),
        pytest.param(
            node("n", [pool(111)], pods=[FOREIGN], pod_devices={FOREIGN.key: (0,)}), demand(ask(1)), id="pool"
        ),
    ],
)
def test_every_class_of_card_is_closed_by_it(state: NodeState, of: Demand) -> None:
    assert isinstance(verdict(state, of), NoFit)


class TestHolders:
    def test_a_pod_of_the_callers_namespace_is_named_and_others_are_counted(self) -> None:
        own = foreign("mine", namespace="models")
        state = node("n", cards(24), pods=[own, FOREIGN], pod_devices={own.key: (0,), FOREIGN.key: (0,)})
        found = verdict(state, demand(ask(16)))
        assert isinstance(found, NoFit)
        assert found.holders == Holders(own=(("mine", 24),), others_gb=24, others=1)
        assert "24 GB by mine, 24 GB by 1 pod in another namespace" in explain(found)


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("0", (0,)),
        ("0,12", (0, 12)),
        ("", ()),
        ("all", None),
        ("0,", None),
        ("-1", None),
        ("0, 1", None),
        ("\u0661", None),
    ],
)
def test_slots_are_read_from_numbers_with_commas(text: str, slots: tuple[int, ...] | None) -> None:
    assert parse_slots(text) == slots
