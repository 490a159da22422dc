"""Which nodes are the same to a pod."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.alike import Alike, group_alike
from shared.core.card_filter import CardFilter
from shared.core.cards import Vendor
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand
from shared.core.filters import Exclusion, Filters
from shared.core.peers import Peers
from shared.core.snapshot import NodeState
from tests.builders import a_node, a_pod
from tests.unit.core_builders import ask, card, cards, cluster, demand, holder, node
from tests.unit.units import GPU, managed


def groups(*states: NodeState, wanted: Demand | None = None, may: Constraints | None = None) -> list[Alike]:
    constraints = may or Constraints()
    filters = Filters(constraints, Peers.of(cluster(*states), constraints))
    return group_alike(states, wanted or demand(ask(6)), filters)


def names(*states: NodeState, wanted: Demand | None = None, may: Constraints | None = None) -> list[list[str]]:
    return [[state.name for state in each.states] for each in groups(*states, wanted=wanted, may=may)]


class TestAlike:
    def test_are_nodes_with_cards_of_the_same_kinds_however_full(self) -> None:
        full = node("b", cards(16, 24), pods=[holder("p", {0: 16})])
        assert names(node("a", cards(16, 24)), full) == [["a", "b"]]

    def test_a_card_may_be_out_of_order_or_in_foreign_hands(self) -> None:
        worn = (card(0, 16, healthy=False), card(1, 16, foreign_gb=3, uuid="GPU-other"))
        assert names(node("a", cards(16, 16)), node("b", worn)) == [["a", "b"]]

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(node("b", cards(16, 24)), id="of another size"),
            pytest.param(node("b", cards(16)), id="fewer"),
            pytest.param(node("b", cards(16, 16, vendor=Vendor.AMD)), id="of another vendor"),
            pytest.param(node("b", (card(0, 16), card(1, 16, model="T4"))), id="of another model"),
            pytest.param(node("b", (card(0, 16), card(1, 16, partitioned=True))), id="partitioned"),
            pytest.param(node("b", (card(0, 16), card(1, 16, compute_capable=False))), id="for display"),
            pytest.param(node("b", (card(0, 16), card(1, 16, onlined=True))), id="onlined"),
            pytest.param(node("b", (card(0, 16), card(1, 16, memory_mib=0))), id="of a memory nobody tells"),
            pytest.param(node("b", cards(16, 16), accel={"cuda": (12, 4)}), id="with another driver"),
            pytest.param(node("b", cards(16, 16), exclusive=True), id="exclusive"),
            pytest.param(node("b", cards(16, 16), a_node("b").cordoned()), id="cordoned"),
            pytest.param(managed("b", {GPU: 2}), id="managed"),
        ],
    )
    def test_nodes_that_differ_for_the_pod_are_not(self, other: NodeState) -> None:
        assert names(node("a", cards(16, 16)), other) == [["a"], ["b"]]

    def test_what_the_pod_does_not_look_at_makes_no_difference(self) -> None:
        west = node("a", cards(16), a_node("a").labelled(zone="west"))
        east = node("b", cards(16), a_node("b").labelled(zone="east"))
        assert names(west, east) == [["a", "b"]]
        assert names(west, east, may=read_constraints(a_pod().selecting(zone="west").raw())) == [["a"], ["b"]]

    def test_cards_that_the_pod_tells_apart_by_uuid_are_not(self) -> None:
        one, other = node("a", [card(0, 16, uuid="GPU-A")]), node("b", [card(0, 16, uuid="GPU-B")])
        wanted = demand(ask(6), vendor=Vendor.NVIDIA)
        assert names(one, other, wanted=replace(wanted, only=CardFilter(types=("card",)))) == [["a", "b"]]
        assert names(one, other, wanted=replace(wanted, only=CardFilter(uuids=("gpu-a",)))) == [["a"], ["b"]]

    def test_a_group_knows_what_keeps_the_pod_away_and_which_cards_it_may_have(self) -> None:
        of = (card(0, 16), card(1, 16, Vendor.AMD), card(2, 16, partitioned=True), card(3, 24))
        (group,) = groups(node("a", of, a_node("a").cordoned()), wanted=demand(ask(6), vendor=Vendor.NVIDIA))
        assert group.exclusions == (Exclusion.CORDONED,)
        assert group.suiting == (0, 3)
        assert [each.index for each in group.suiting_cards] == [0, 3]
