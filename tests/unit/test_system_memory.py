"""Pools of the node's memory: GB booked on them and memory requested by pods come out of one amount."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.amounts import WHOLE
from shared.core.asks import Ask
from shared.core.cards import Card, Vendor
from shared.core.constraints import read_constraints
from shared.core.demand import Demand, Policy
from shared.core.explain import explain
from shared.core.ledger import Entry
from shared.core.placement import Placed, find_place, fits, place
from shared.core.pods import PodFacts
from shared.core.refusal import Backing, NoFit, Reason
from shared.core.snapshot import NodeState
from tests.builders import NodeBuilder, a_node, a_pod
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, holder, node, pool

GIB = 2**30
MEMORY = Reason.INSUFFICIENT_SYSTEM_MEMORY
CAPACITY = Reason.INSUFFICIENT_CAPACITY
COUNT = Reason.INSUFFICIENT_GPU_COUNT


def with_memory(name: str, gib: float) -> NodeBuilder:
    return a_node(name).offering(memory=f"{int(gib * 1024)}Mi")


def spark(
    name: str = "spark",
    of: tuple[Card, ...] = (pool(111),),
    gib: float = 119,
    pods: tuple[PodFacts, ...] = (),
    **fields: Any,
) -> NodeState:
    return node(name, of, with_memory(name, gib), pods=pods, **fields)


def requesting(name: str, gib: float, shares: dict[int, int] | None = None, **fields: Any) -> PodFacts:
    """A pod on the node that requests memory, and maybe holds a share."""
    fields = {"namespace": "data", "requests": {"memory": int(gib * GIB)}, **fields}
    return holder(name, shares or {}, **fields)


def verdict(state: NodeState | list[NodeState], of: Demand | Ask, own: str = "4Gi") -> Placed | NoFit:
    states = state if isinstance(state, list) else [state]
    wanted = of if isinstance(of, Demand) else demand(of)
    constraints = read_constraints(a_pod().requesting(memory=own).raw())
    found = place(cluster(*states), wanted, constraints)
    assert find_place(cluster(*states), wanted, constraints) == (found if isinstance(found, Placed) else None)
    return found


def reason(state: NodeState | list[NodeState], of: Demand | Ask, own: str = "4Gi") -> Reason:
    found = verdict(state, of, own)
    assert isinstance(found, NoFit), found
    return found.reason


class TestRoom:
    @pytest.mark.parametrize(
        ("pods", "own", "gb", "fits_in"),
        [
            pytest.param((), "8Gi", 60, True, id="an-empty-node"),
            pytest.param((), "8Gi", 111, True, id="the-whole-pool-beside-its-own-request"),
            pytest.param((), "9Gi", 111, False, id="the-whole-pool-and-a-gb-too-much"),
            pytest.param((requesting("db", 64),), "4Gi", 60, False, id="memory-that-others-request"),
            pytest.param((requesting("db", 55),), "4Gi", 60, True, id="memory-that-others-leave"),
            pytest.param((requesting("db", 55),), "5Gi", 60, False, id="its-own-request-is-what-is-too-much"),
            pytest.param((requesting("db", 55.5),), "4Gi", 60, False, id="half-a-gb-is-no-gb"),
            pytest.param((requesting("llm", 2, {0: 50}),), "4Gi", 60, True, id="beside-another-model"),
            pytest.param((requesting("llm", 2, {0: 60}),), "4Gi", 60, False, id="beside-a-model-that-is-too-large"),
            pytest.param((requesting("a", 9, {0: 50}),), "4Gi", 60, False, id="another-models-own-request-counts"),
            pytest.param((requesting("p", 9, {0: 50}, bound=False),), "4Gi", 60, False, id="one-that-is-promised-too"),
            pytest.param((), "200Gi", 1, False, id="more-memory-than-the-node-has"),
        ],
    )
    def test_a_share_needs_room_in_the_pool_and_in_the_nodes_memory(
        self, pods: tuple[PodFacts, ...], own: str, gb: int, fits_in: bool
    ) -> None:
        found = verdict(spark(pods=pods), ask(gb), own)
        assert isinstance(found, Placed) is fits_in
        if isinstance(found, NoFit):
            assert found.reason is MEMORY

    def test_a_small_system_runs_out_of_memory_before_its_pool_does(self) -> None:
        first = requesting("a", 5, {0: 5}, namespace="models")
        assert reason(spark("jetson", (pool(7),), 14, (first,)), ask(2), "3Gi") is MEMORY
        assert isinstance(verdict(spark("jetson", (pool(7),), 14, (first,)), ask(2), "2Gi"), Placed)

    @pytest.mark.parametrize(
        "of",
        [
            pytest.param(ask(WHOLE), id="whole"),
            pytest.param(demand(ask(1), policy=Policy.EXCLUSIVE), id="exclusive-by-the-pod"),
        ],
    )
    def test_a_whole_pool_needs_the_memory_of_all_of_it(self, of: Demand | Ask) -> None:
        assert isinstance(verdict(spark(), of, "8Gi"), Placed)
        assert reason(spark(), of, "9Gi") is MEMORY
        assert reason(spark(pods=(requesting("db", 5),)), of, "4Gi") is MEMORY

    def test_an_exclusive_pool_goes_to_one_pod(self) -> None:
        assert isinstance(verdict(spark(exclusive=True), ask(1)), Placed)
        held = spark(exclusive=True, pods=(requesting("llm", 1, {0: 111}),))
        assert reason(held, ask(1)) is MEMORY

    def test_shares_of_two_containers_come_out_of_one_pool(self) -> None:
        both = demand(ask(50, container="a"), ask(50, container="b"))
        assert isinstance(verdict(spark(), both), Placed)
        assert reason(spark(pods=(requesting("db", 30),)), both) is MEMORY
        too_much = verdict(spark(), demand(ask(60, container="a"), ask(60, container="b")))
        assert isinstance(too_much, NoFit)
        assert (too_much.reason, too_much.every_container_alone, too_much.can_wait) == (MEMORY, True, False)

    def test_headroom_is_taken_off_the_pool_and_not_off_the_memory(self) -> None:
        assert reason(spark(of=(pool(100),)), ask(101)) is MEMORY
        assert isinstance(verdict(spark(of=(pool(100),)), ask(100), "19Gi"), Placed)


class TestSeveralPools:
    """A server whose processors each have a part of the memory and a GPU of their own."""

    MI300A = tuple(pool(120, index, Vendor.AMD) for index in range(4))

    def test_their_shares_come_out_of_the_same_memory(self) -> None:
        state = node("apu", self.MI300A, with_memory("apu", 250))
        assert isinstance(verdict(state, ask(120, 2)), Placed)
        assert reason(state, ask(120, 3)) is COUNT

    def test_a_card_with_memory_of_its_own_is_taken_where_the_pools_have_none_left(self) -> None:
        of = (pool(50, 0), pool(50, 1), card(2, 50))
        state = node("mixed", of, with_memory("mixed", 104))
        found = verdict(state, ask(50, 3), "4Gi")
        assert isinstance(found, Placed)
        found = verdict(node("mixed", of, with_memory("mixed", 60)), ask(50, 2), "4Gi")
        assert isinstance(found, Placed)
        assert [share.card.index for share in found.shares] == [0, 2]
        assert reason(node("mixed", of, with_memory("mixed", 60)), ask(50, 3), "4Gi") is COUNT

    def test_containers_share_what_memory_there_is(self) -> None:
        of = (pool(50, 0), pool(50, 1))
        both = demand(ask(40, container="a"), ask(40, container="b"))
        assert isinstance(verdict(node("two", of, with_memory("two", 84)), both), Placed)
        assert reason(node("two", of, with_memory("two", 83)), both) is MEMORY


class TestReason:
    def test_a_pool_that_is_too_small_for_ever_is_named_with_its_size(self) -> None:
        halo = spark("halo", (pool(31, vendor=Vendor.AMD),), 62)
        found = verdict(halo, ask(40), "2Gi")
        assert isinstance(found, NoFit)
        assert (found.reason, found.can_wait) == (MEMORY, False)
        assert "has 31 GB in all and is 9 GB too small" in explain(found)

    def test_one_candidate_with_memory_of_its_own_makes_it_a_matter_of_capacity(self) -> None:
        full = spark(pods=(requesting("db", 64),))
        assert reason([full, node("t4", cards(16))], ask(60)) is CAPACITY

    def test_cards_of_another_vendor_or_on_closed_nodes_are_no_candidates(self) -> None:
        others = [
            node("amd", cards(192, vendor=Vendor.AMD)),
            node("cordoned", cards(80), a_node("cordoned").cordoned()),
            node("partitioned", [card(0, 0, partitioned=True, memory_mib=81920)]),
        ]
        full = spark(pods=(requesting("db", 64),))
        assert reason([full, *others], demand(ask(60), vendor=Vendor.NVIDIA)) is MEMORY

    def test_too_few_cards_are_told_before_too_little_memory(self) -> None:
        assert reason(spark(), ask(10, 2)) is COUNT
        assert reason(spark(pods=(requesting("db", 118),)), ask(10, 2)) is COUNT

    def test_memory_that_the_pod_itself_requests_is_the_pools_too(self) -> None:
        found = verdict(spark(pods=(requesting("db", 100),)), ask(1), "20Gi")
        assert isinstance(found, NoFit)
        assert (found.reason, found.can_wait, found.excluded) == (MEMORY, True, ())

    def test_a_node_that_is_closed_for_another_reason_is_short_of_capacity(self) -> None:
        state = node("spark", [pool(111)], with_memory("spark", 119).offering(pods="0"))
        assert reason(state, ask(60)) is CAPACITY

    def test_a_pool_out_of_service_is_no_matter_of_memory(self) -> None:
        assert reason(spark(of=(pool(111, healthy=False),)), ask(60)) is CAPACITY

    def test_a_node_with_both_kinds_is_short_of_memory_as_any_other(self) -> None:
        state = spark(of=(pool(50), card(1, 24)), gib=64, pods=(requesting("db", 62),))
        found = verdict(state, ask(30))
        assert isinstance(found, NoFit)
        assert found.reason is CAPACITY
        assert [fact.words for fact in found.excluded] == ["1 short of memory"]

    def test_the_facts_tell_who_has_the_memory(self) -> None:
        state = spark(pods=(requesting("db", 60.5), requesting("llm", 1, {0: 20})))
        found = verdict(state, ask(60))
        assert isinstance(found, NoFit)
        assert found.attempts[0].backing == Backing(
            node_gb=119, requested_gb=62, booked_gb=20, kept_gb=0, own_gb=4, room_gb=33, most_gb=111
        )
        assert (found.attempts[0].free_gb, found.attempts[0].short_gb) == (91, 27)

    @pytest.mark.parametrize(
        ("pods", "own", "gb", "helps"),
        [
            pytest.param((requesting("db", 64),), "4Gi", 60, True, id="when-the-others-go"),
            pytest.param((), "60Gi", 60, False, id="never-with-so-much-of-its-own"),
            pytest.param((), "4Gi", 112, False, id="never-on-so-small-a-pool"),
        ],
    )
    def test_whether_waiting_helps_is_a_matter_of_both(
        self, pods: tuple[PodFacts, ...], own: str, gb: int, helps: bool
    ) -> None:
        found = verdict(spark(pods=pods), ask(gb), own)
        assert isinstance(found, NoFit)
        assert found.can_wait is helps

    def test_a_larger_node_of_the_same_kind_is_not_taken_for_a_small_one(self) -> None:
        small = spark("a-small", (pool(50),), 58)
        large = node("b-large", [pool(50)], with_memory("b-large", 200).cordoned())
        found = verdict([small, large], ask(50), "20Gi")
        assert isinstance(found, NoFit)
        assert found.can_wait


class TestOnlined:
    """Grace Hopper: 464 GB beside the processor and 96 GB on the card, which the node's 560 GB hold both."""

    def grace(self, *pods: PodFacts, **fields: Any) -> NodeState:
        return node("gh200", [card(0, 96, onlined=True, **fields)], with_memory("gh200", 560), pods=pods)

    @pytest.mark.parametrize(
        ("requested", "own", "fits_in"),
        [
            pytest.param(400, "64Gi", True, id="memory-beside-the-processor-is-left"),
            pytest.param(400, "65Gi", False, id="only-the-cards-own-memory-is-left"),
            pytest.param(480, "0", False, id="others-reach-into-the-cards-memory"),
        ],
    )
    def test_the_cards_memory_is_kept_for_the_card(self, requested: int, own: str, fits_in: bool) -> None:
        found = verdict(self.grace(requesting("db", requested)), ask(90), own)
        assert isinstance(found, Placed) is fits_in
        if isinstance(found, NoFit):
            assert (found.reason, found.can_wait) == (MEMORY, True)

    def test_shares_of_the_card_take_nothing_more_from_the_nodes_memory(self) -> None:
        held = requesting("llm", 60, {0: 90})
        assert isinstance(verdict(self.grace(requesting("db", 400), held), ask(6), "4Gi"), Placed)

    def test_a_full_card_is_short_of_capacity_as_any_card_is(self) -> None:
        assert reason(self.grace(requesting("llm", 1, {0: 90})), ask(10)) is CAPACITY

    def test_one_that_never_fits_says_so(self) -> None:
        found = verdict(self.grace(), ask(90), "470Gi")
        assert isinstance(found, NoFit)
        assert (found.reason, found.can_wait) == (MEMORY, False)


class TestRecheck:
    """What is looked at again before an entry is written."""

    def test_room_means_memory_too(self) -> None:
        state = spark()
        assert fits(state, ((0, 60),), memory_mib=59 * 1024)
        assert not fits(state, ((0, 60),), memory_mib=60 * 1024)
        assert not fits(state, ((0, 112),))

    def test_cards_with_memory_of_their_own_are_not_concerned(self) -> None:
        mixed = spark(of=(pool(50), card(1, 24)), gib=60)
        assert fits(mixed, ((1, 24),), memory_mib=2**20)
        assert not fits(mixed, ((0, 50), (1, 24)), memory_mib=11 * 1024)

    def test_an_entry_whose_pod_nobody_has_seen_counts_with_the_memory_of_that_pod(self) -> None:
        promised = Entry("models", entry({}).owner_hash, 0, ((0, 40),), memory_mib=20 * 1024)
        alone = spark(ledger={"r": promised})
        assert reason(alone, ask(56)) is MEMORY
        assert isinstance(verdict(alone, ask(55)), Placed)
        seen = spark(
            ledger={"r": promised}, pods=(requesting("llm", 10, {0: 40}, namespace="models", reservation="r"),)
        )
        assert isinstance(verdict(seen, ask(65)), Placed)
        copy = spark(ledger={"r": promised}, pods=(requesting("llm", 10, reservation="r"),))
        assert reason(copy, ask(46)) is MEMORY
        assert isinstance(verdict(copy, ask(45)), Placed)


def test_a_node_that_gets_more_memory_has_more_room() -> None:
    state = spark(gib=20)
    assert state.largest_free_gb == 20
    assert state.with_facts(spark(gib=119).facts).largest_free_gb == 111
    assert state.free_gb == (111,)


def test_cards_with_memory_of_their_own_are_given_where_the_node_has_none_left_for_others() -> None:
    """The node's own memory is for pods that request it; what a pod holds of such a card takes nothing from it."""
    state = node("mixed", [card(0, 8), card(1, 8, onlined=True), pool(8, 2)], with_memory("mixed", 16))
    found = verdict(state, ask(1), "9Gi")
    assert isinstance(found, Placed)
    assert [share.card.index for share in found.shares] == [0]
