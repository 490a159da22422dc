"""MIG partitions: each is one unit for one container, and never a whole card."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shared.core.amounts import WHOLE, Amount
from shared.core.asks import Ask
from shared.core.constraints import Constraints
from shared.core.demand import Demand, Policy
from shared.core.placement import Placed, place
from shared.core.refusal import NoFit, Reason
from shared.core.snapshot import NodeState
from tests.unit.core_builders import ask, card, cluster, demand, entry, node, partition

ANYWHERE = Constraints(namespace="models")
PARENT = card(0, 0, partitioned=True, memory_mib=40960)


def verdict(state: NodeState, of: Demand | Ask) -> Placed | NoFit:
    return place(cluster(state), of if isinstance(of, Demand) else demand(of), ANYWHERE)


def taken(state: NodeState, of: Demand | Ask) -> list[tuple[str, int, int, int]]:
    """Container, slot, GB booked and GB for the container itself."""
    found = verdict(state, of)
    assert isinstance(found, Placed), found
    return [(share.container, share.card.index, share.gb, share.own_gb) for share in found.shares]


def refused(state: NodeState, of: Demand | Ask) -> NoFit:
    found = verdict(state, of)
    assert isinstance(found, NoFit), found
    return found


def dgx(*of: int, **fields: object) -> NodeState:
    """A node with a card in MIG mode, which has partitions of so many GB."""
    return node("dgx", [PARENT, *(partition(index, gb) for index, gb in enumerate(of, 1))], **fields)  # type: ignore[arg-type]


class TestOneContainer:
    def test_has_a_partition_for_itself_whatever_it_asks(self) -> None:
        assert taken(dgx(9), ask(2)) == [("main", 1, 9, 9)]

    def test_leaves_nothing_of_it_to_others(self) -> None:
        full = refused(dgx(9, ledger={"r": entry({1: 9})}), ask(2))
        assert (full.reason, full.can_wait, full.attempts[0].free_gb) == (Reason.INSUFFICIENT_CAPACITY, True, 0)

    @pytest.mark.parametrize("booked", [1, 9])
    def test_a_partition_that_is_used_at_all_is_used(self, booked: int) -> None:
        assert refused(dgx(9, ledger={"r": entry({1: booked})}), ask(1)).reason is Reason.INSUFFICIENT_CAPACITY

    def test_gets_the_smallest_that_does(self) -> None:
        assert taken(dgx(39, 4, 9, 9), ask(5)) == [("main", 3, 9, 9)]

    def test_gets_the_largest_where_the_policy_is_to_spread(self) -> None:
        assert taken(dgx(4, 39, 9), demand(ask(4), policy=Policy.SPREAD)) == [("main", 2, 39, 39)]

    def test_may_want_it_exclusively(self) -> None:
        assert taken(dgx(9), demand(ask(2), policy=Policy.EXCLUSIVE)) == [("main", 1, 9, 9)]

    def test_with_init_containers_needs_one_that_holds_their_peak(self) -> None:
        assert taken(dgx(4, 9), ask(2, init=[5])) == [("main", 2, 9, 9)]

    @pytest.mark.parametrize(
        ("gb", "slot"),
        [
            pytest.param(4, 1, id="the-partition-wastes-less"),
            pytest.param(12, 2, id="the-card-wastes-less"),
            pytest.param(39, 1, id="the-partition-is-just-right"),
        ],
    )
    def test_gets_a_part_of_a_card_or_a_partition_by_what_is_left_over(self, gb: int, slot: int) -> None:
        size = 39 if gb > 4 else 4
        state = node("n", [PARENT, partition(1, size), card(2, 80)], ledger={"r": entry({2: 40 if gb != 12 else 60})})
        assert taken(state, ask(gb))[0][1] == slot


class TestSeveral:
    def test_cards_are_never_partitions(self) -> None:
        found = refused(dgx(39, 39), ask(36, 2))
        assert found.reason is Reason.INSUFFICIENT_GPU_COUNT
        assert (found.partitions_only, [fact.words for fact in found.excluded]) == (
            True,
            ["1 with MIG partitions only"],
        )

    def test_a_partition_does_not_stand_in_for_a_card(self) -> None:
        state = node("n", [PARENT, partition(1, 39), card(2, 80)])
        found = refused(state, ask(36, 2))
        assert found.reason is Reason.INSUFFICIENT_GPU_COUNT
        assert found.best_node is not None
        assert (found.best_node.fitting, found.best_node.cards) == (1, 1)

    def test_containers_have_a_partition_each(self) -> None:
        two = demand(ask(3, container="a"), ask(4, container="b"))
        assert taken(dgx(4, 4), two) == [("a", 2, 4, 4), ("b", 1, 4, 4)]
        found = refused(dgx(9), two)
        assert (found.reason, found.every_container_alone) == (Reason.INSUFFICIENT_CAPACITY, True)


class TestWholeCards:
    @pytest.mark.parametrize(
        "amount",
        [pytest.param(WHOLE, id="whole"), pytest.param(Amount(percent=Fraction(50)), id="a-part-of-a-card")],
    )
    def test_a_partition_is_no_card(self, amount: Amount) -> None:
        found = refused(dgx(39), ask(amount))
        assert (found.reason, found.can_wait) == (Reason.INSUFFICIENT_CAPACITY, False)

    def test_a_card_in_mig_mode_is_no_card_either(self) -> None:
        of = [
            *(card(index, 40) for index in range(5)),
            *(card(index, 0, partitioned=True, memory_mib=40960) for index in (5, 6, 7)),
        ]
        held = {f"r{index}": entry({index: 40}) for index in range(4)}
        assert taken(node("dgx", of, ledger=held), ask(WHOLE)) == [("main", 4, 40, 40)]

    def test_a_node_whose_cards_are_all_in_mig_mode_has_none(self) -> None:
        found = refused(node("dgx", [PARENT]), ask(4))
        assert (found.reason, found.unsupported) == (Reason.INSUFFICIENT_CAPACITY, True)
        assert [fact.words for fact in found.excluded] == ["1 with MIG partitions"]


class TestExclusiveNodes:
    def test_a_partition_goes_to_one_pod_there_as_everywhere(self) -> None:
        assert taken(dgx(9, exclusive=True), ask(2)) == [("main", 1, 9, 9)]
        assert refused(dgx(9, exclusive=True, ledger={"r": entry({1: 9})}), ask(2)).reason is (
            Reason.INSUFFICIENT_CAPACITY
        )
