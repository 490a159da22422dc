"""Where a pod fits once pods of lower priority have left, and which those are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from shared.api import names
from shared.core.advice import victims_words
from shared.core.cards import Card
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand, Policy
from shared.core.disruption import DisruptionBudget
from shared.core.explain import causes, explain
from shared.core.ledger import Entry, Mark
from shared.core.pods import PodFacts
from shared.core.preemption import find_preemption, victims_left
from shared.core.refusal import CardAttempt, NoFit, Reason, Victims
from shared.core.selectors import LabelSelector, Operator, Requirement
from shared.core.snapshot import NodeState
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, labels, term
from tests.unit.causes_schema import violations
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, node, partition

ME = 100
"""The priority of the pod that looks for a place."""

TEN = demand(ask(10))


def low(name: str, gb: int | Mapping[int, int], priority: int = 0, builder: PodBuilder | None = None) -> PodFacts:
    """A pod that runs with a share of card 0, or of several."""
    held = {0: gb} if isinstance(gb, int) else gb
    limits = {names.card_resource(index): str(amount) for index, amount in held.items()}
    pod = (builder or a_pod(name)).limited_to(limits)
    return pod.spec(priority=priority).on("node-a").facts()


def started(pod: PodFacts, at: str) -> PodFacts:
    return replace(pod, started=at)


def pinned(name: str, gb: int, priority: int = 0, reservation: str | None = None) -> PodFacts:
    """A pod that is placed and not scheduled yet."""
    return replace(low(name, gb, priority), bound=False, reservation=reservation)


def a_gpu_node(
    *pods: PodFacts,
    of: Sequence[Card] = cards(24),
    name: str = "node-a",
    builder: NodeBuilder | None = None,
    **fields: Any,
) -> NodeState:
    """A node that offers its cards to the scheduler too."""
    offered = {names.card_resource(each.index): str(each.budget_gb) for each in of}
    here = [replace(pod, node=name) for pod in pods]
    return node(name, of, (builder or a_node(name)).offering(offered), pods=here, **fields)


def victims(
    *states: NodeState,
    of: Demand = TEN,
    pod: PodBuilder | None = None,
    priority: int = ME,
    keeping: Mapping[str, int] | None = None,
) -> tuple[str, list[str]] | None:
    """The node, and the names of the victims. `keeping` are labels `app`, and how many such pods may be disrupted."""
    constraints = Constraints() if pod is None else read_constraints(pod.raw())
    budgets = {
        app: DisruptionBudget(LabelSelector((Requirement("app", Operator.IN, (app,)),)), allowed)
        for app, allowed in (keeping or {}).items()
    }
    snapshot = replace(cluster(*states), disruption_budgets={"models": budgets})
    found = find_preemption(snapshot, of, constraints, priority)
    return None if found is None else (found.placed.node, [victim.name for victim in found.victims])


class TestVictims:
    def test_one_that_holds_enough_is_found(self) -> None:
        assert victims(a_gpu_node(low("chat", 20))) == ("node-a", ["chat"])

    @pytest.mark.parametrize(
        "state",
        [
            pytest.param(a_gpu_node(low("chat", 20, ME)), id="equal-priority"),
            pytest.param(a_gpu_node(low("chat", 20, ME + 1)), id="higher-priority"),
            pytest.param(a_gpu_node(), id="nobody"),
            pytest.param(a_gpu_node(pinned("chat", 20)), id="one-that-is-not-scheduled-yet"),
            pytest.param(a_gpu_node(ledger={"abcdefghij": entry({0: 20})}), id="one-that-does-not-exist-yet"),
            pytest.param(a_gpu_node(low("chat", 2), low("mine", 20, ME)), id="too-little-of-lower-priority"),
            pytest.param(a_gpu_node(low("chat", 8), of=cards(8)), id="cards-that-are-too-small"),
            pytest.param(a_gpu_node(low("chat", 20), builder=a_node().cordoned()), id="a-cordoned-node"),
        ],
    )
    def test_of_others_there_is_none(self, state: NodeState) -> None:
        assert victims(state) is None

    def test_no_more_have_to_leave_than_needed_the_least_important_first(self) -> None:
        state = a_gpu_node(low("c", 8, 3), low("a", 8, 1), low("b", 8, 2))
        assert victims(state) == ("node-a", ["b", "a"])
        assert victims(state, of=demand(ask(8))) == ("node-a", ["a"])

    def test_of_equal_priority_those_leave_that_run_for_the_shortest_time(self) -> None:
        old, young = started(low("old", 12), "2026-11-30T10:00:00Z"), started(low("young", 12), "2026-11-30T11:00:00Z")
        assert victims(a_gpu_node(young, old)) == ("node-a", ["young"])
        assert victims(a_gpu_node(low("new", 12), old)) == ("node-a", ["new"])

    def test_those_stay_that_a_disruption_budget_keeps_if_others_make_room(self) -> None:
        a, b, c = (low(app, 8, 1, a_pod(app).labelled(app=app)) for app in ("a", "b", "c"))
        state = a_gpu_node(started(a, "2026-11-30T10:00:00Z"), started(b, "2026-11-30T11:00:00Z"), c)
        eight = demand(ask(8))
        assert victims(state, of=eight) == ("node-a", ["c"])
        assert victims(state, of=eight, keeping={"c": 1}) == ("node-a", ["c"])
        assert victims(state, of=eight, keeping={"c": 0}) == ("node-a", ["b"])
        assert victims(state, of=eight, keeping={"c": 0, "b": 0}) == ("node-a", ["a"])
        assert victims(state, of=eight, keeping={"a": 0, "b": 0, "c": 0}) == ("node-a", ["c"])
        # Who has to leave although it should be kept stands among the others by its importance.
        assert victims(state, keeping={"b": 0, "c": 0}) == ("node-a", ["a", "c"])

    def test_the_node_is_taken_where_the_fewest_leave_that_should_be_kept(self) -> None:
        here = a_gpu_node(low("kept", 20, 1, a_pod("kept").labelled(app="kept")), name="here")
        there = a_gpu_node(low("dear", 20, 2), name="there")
        assert victims(here, there) == ("here", ["kept"])
        assert victims(here, there, keeping={"kept": 0}) == ("there", ["dear"])

    def test_the_card_with_the_least_important_ones_is_taken(self) -> None:
        state = a_gpu_node(low("b", {0: 24}, 2), low("a", {1: 24}, 1), of=cards(24, 24))
        assert victims(state) == ("node-a", ["a"])

    def test_several_cards_may_be_freed(self) -> None:
        state = a_gpu_node(low("b", {0: 24}), low("a", {1: 24}), of=cards(24, 24))
        assert victims(state, of=demand(ask(20, 2))) == ("node-a", ["a", "b"])

    def test_those_that_are_on_their_way_out_are_counted_as_the_scheduler_counts_them(self) -> None:
        assert victims(a_gpu_node(low("chat", 20, builder=a_pod("chat").terminating()))) == ("node-a", ["chat"])

    def test_the_entries_of_victims_go_with_them(self) -> None:
        chat = replace(low("chat", 20), reservation="abcdefghij")
        assert victims(a_gpu_node(chat, ledger={"abcdefghij": entry({0: 20})})) == ("node-a", ["chat"])

    def test_an_entry_that_stands_for_a_pod_that_stays_stays_with_it(self) -> None:
        twins = [replace(low(name, 10), reservation="abcdefghij") for name in ("chat", "copy")]
        left = a_gpu_node(*twins, ledger={"abcdefghij": entry({0: 10})}).without_pods({"uid-models-chat"})
        assert (left.free_gb, set(left.ledger)) == ((14,), {"abcdefghij"})


class TestWhatElseTheNodeHas:
    def test_cpu_is_freed_as_well(self) -> None:
        chat = low("chat", 2, builder=a_pod("chat").requesting(cpu="60"))
        assert victims(a_gpu_node(chat), pod=a_pod().requesting(cpu="10")) == ("node-a", ["chat"])

    def test_a_pod_without_a_card_leaves_too_where_the_node_lacks_cpu(self) -> None:
        batch = a_pod("batch").requesting(cpu="60").on("node-a").facts()
        state = a_gpu_node(low("chat", 20), batch)
        assert victims(state, pod=a_pod().requesting(cpu="10")) == ("node-a", ["batch", "chat"])
        assert victims(state) == ("node-a", ["chat"])

    def test_so_are_host_ports_and_slots(self) -> None:
        chat = low("chat", 2, builder=a_pod("chat").host_port(8000))
        assert victims(a_gpu_node(chat), pod=a_pod().host_port(8000)) == ("node-a", ["chat"])
        full = a_gpu_node(low("chat", 2), builder=a_node().offering(pods="1"))
        assert victims(full) == ("node-a", ["chat"])

    def test_whom_the_pod_avoids_it_does_not_drive_out(self) -> None:
        chat = low("chat", 20, builder=a_pod("chat").labelled(app="chat"))
        away = a_pod().away_from(term("kubernetes.io/hostname", labels(app="chat")))
        assert victims(a_gpu_node(chat), pod=away) is None

    def test_whom_the_pod_wants_to_be_near_it_does_not_drive_out(self) -> None:
        near = a_pod().near(term("kubernetes.io/hostname", labels(app="chat")))
        chat, other = low("chat", 12, 1, a_pod("chat").labelled(app="chat")), low("other", 12, ME)
        assert victims(a_gpu_node(chat, other), pod=near) is None
        both = a_gpu_node(replace(other, priority=1), low("friend", 12, ME, a_pod("friend").labelled(app="chat")))
        assert victims(both, of=demand(ask(12)), pod=near) == ("node-a", ["other"])

    def test_a_driver_that_does_not_serve_the_pod_is_no_reason_to_evict(self) -> None:
        state = a_gpu_node(low("chat", 20), accel={"cuda": (12, 2)})
        assert victims(state, of=demand(ask(10), accel="cuda>=12.4")) is None
        assert victims(state, of=demand(ask(10), accel="cuda>=12.2")) == ("node-a", ["chat"])


class TestCardsThatAreGivenWhole:
    def test_an_exclusive_card_is_freed_as_a_whole(self) -> None:
        state = a_gpu_node(low("chat", 24), exclusive=True)
        assert victims(state) == ("node-a", ["chat"])

    def test_so_is_one_that_was_shared_before(self) -> None:
        state = a_gpu_node(low("chat", 6), exclusive=True)
        assert victims(state) == ("node-a", ["chat"])
        assert victims(a_gpu_node(low("chat", 6), low("mine", 6, ME), exclusive=True)) is None

    def test_a_pod_may_want_a_card_of_its_own(self) -> None:
        alone = demand(ask(10), policy=Policy.EXCLUSIVE)
        assert victims(a_gpu_node(low("chat", 2)), of=alone) == ("node-a", ["chat"])

    def test_a_partition_is_freed_as_a_whole(self) -> None:
        assert victims(a_gpu_node(low("chat", 20), of=[partition(0, 20)])) == ("node-a", ["chat"])

    def test_units_of_a_vendor_are_freed(self) -> None:
        """Cards that another plugin gives away whole."""
        offering = a_node().offering({"nvidia.com/gpu": "1"})
        chat = a_pod("chat").limited_to({"nvidia.com/gpu": "1"}).on("node-a").facts()
        state = node("node-a", [card(0, 24)], offering, pods=[chat])
        assert state.kinds
        assert victims(state) == ("node-a", ["chat"])


class TestAgreementWithTheScheduler:
    """A place is only given where the scheduler comes to the same victims."""

    def test_a_card_that_the_kubelet_does_not_offer_now_is_left_alone(self) -> None:
        assert victims(node("node-a", cards(24), pods=[low("chat", 20)])) is None

    def test_what_the_scheduler_does_not_see_yet_is_not_overrun(self) -> None:
        """The scheduler would bind it at once, and the one that is not scheduled yet would be left without room."""
        assert victims(a_gpu_node(low("chat", 12), pinned("other", 12))) is None

    def test_use_that_no_pod_stands_for_is_not_overrun(self) -> None:
        assert victims(a_gpu_node(low("chat", 12), of=[card(0, 24, foreign_gb=12)])) is None

    def test_another_one_that_waits_for_others_to_leave_is_counted_with_what_it_waits_for(self) -> None:
        waiting = pinned("urgent", 20, ME, "abcdefghij")
        marked: dict[str, Entry] = {"abcdefghij": replace(entry({0: 20}), mark=Mark.PREEMPTING)}
        chat = low("chat", 20)
        assert victims(a_gpu_node(chat, waiting, ledger=marked)) is None
        assert victims(a_gpu_node(chat, waiting, ledger=marked), of=demand(ask(4))) == ("node-a", ["chat"])

    def test_one_of_lower_priority_that_waits_for_others_is_left_alone(self) -> None:
        """The scheduler would let the more important one overtake it."""
        waiting = pinned("urgent", 20, ME - 1, "abcdefghij")
        marked = {"abcdefghij": replace(entry({0: 20}), mark=Mark.PREEMPTING)}
        assert victims(a_gpu_node(low("chat", 20), waiting, ledger=marked), of=demand(ask(4))) is None


class TestNodes:
    def on(self, name: str, *pods: PodFacts) -> NodeState:
        return a_gpu_node(*(replace(pod, key=f"{name}-{pod.name}") for pod in pods), name=name)

    @pytest.mark.parametrize(
        ("here", "there", "chosen"),
        [
            pytest.param([low("a", 24, 5)], [low("b", 24, 4)], "there", id="the-lower-highest-priority"),
            pytest.param(
                [low("a", 12, 5), low("b", 12, 4)], [low("c", 12, 5), low("d", 12, 3)], "there", id="the-smaller-sum"
            ),
            pytest.param([low("a", 12), low("b", 12)], [low("c", 24)], "there", id="fewer-victims"),
            pytest.param(
                [low("a", 12, -5), low("b", 12, -5)], [low("c", 24, -5)], "there", id="fewer-of-negative-priority"
            ),
            pytest.param(
                [started(low("a", 24), "2026-11-30T10:00:00Z")],
                [started(low("b", 24), "2026-11-30T11:00:00Z")],
                "there",
                id="those-that-run-for-a-shorter-time",
            ),
            pytest.param([low("a", 24)], [low("b", 24)], "here", id="the-first-by-name"),
        ],
    )
    def test_the_node_is_chosen_as_the_scheduler_compares_nodes(
        self, here: list[PodFacts], there: list[PodFacts], chosen: str
    ) -> None:
        states = self.on("here", *here), self.on("there", *there)
        found = victims(*states, of=demand(ask(24)))
        assert found is not None
        assert found[0] == chosen
        assert victims(*reversed(states), of=demand(ask(24))) == found

    def test_nobody_leaves_a_node_whose_kubelet_rejects_pods(self) -> None:
        both = cluster(self.on("here", low("a", 24)), self.on("there", low("b", 24)))
        assert find_preemption(replace(both, rejecting={"here", "there"}), demand(ask(24)), Constraints(), ME) is None
        found = find_preemption(replace(both, rejecting={"here"}), demand(ask(24)), Constraints(), ME)
        assert found is not None
        assert found.placed.node == "there"

    def test_nodes_where_nobody_is_of_lower_priority_are_not_looked_at(self) -> None:
        snapshot = cluster(self.on("here", low("a", 24, ME)), self.on("there", low("b", 24, 3)), self.on("empty"))
        assert [state.name for state in snapshot.indexed.with_pods_below(ME)] == ["there"]
        assert list(snapshot.indexed.with_pods_below(3)) == []

    def test_a_node_in_another_state_is_looked_at_in_that_state(self) -> None:
        here, there = self.on("here", low("a", 24, 2)), self.on("there", low("b", 24, 3))
        snapshot = cluster(here, there).changed({"here": here.without_pods({"here-a"}), "there": self.on("there")})
        assert list(snapshot.indexed.with_pods_below(ME)) == []
        again = snapshot.changed({"here": self.on("here", low("a", 24, 4)), "there": there})
        assert [state.name for state in again.indexed.with_pods_below(ME)] == ["there", "here"]


class TestTold:
    def test_those_of_other_namespaces_are_only_counted(self) -> None:
        foreign = low("secret", {1: 20}, builder=a_pod("secret", "other"))
        state = a_gpu_node(low("chat", {0: 20}), foreign, of=cards(24, 24))
        found = find_preemption(cluster(state), demand(ask(20, 2)), Constraints(), ME)
        assert found is not None
        assert found.told("models") == Victims("node-a", (0, 1), 40, ("chat",), 1)
        assert found.told("elsewhere") == Victims("node-a", (0, 1), 40, (), 2)

    def test_only_what_they_hold_of_the_cards_concerned_is_told(self) -> None:
        state = a_gpu_node(low("chat", {0: 20, 1: 24}), low("mine", {0: 4}, ME), of=cards(24, 24))
        found = find_preemption(cluster(state), demand(ask(24)), Constraints(), ME)
        assert found is not None
        assert found.told("models") == Victims("node-a", (1,), 24, ("chat",), 0)


class TestWords:
    @pytest.mark.parametrize(
        ("victims", "words"),
        [
            (Victims("t4", (0,), 20, ("chat",)), "chat (20 GB of gpu-0 of t4)"),
            (Victims("t4", (0, 1), 40, ("chat", "embed")), "chat and embed (40 GB of gpu-0 and gpu-1 of t4)"),
            (Victims("t4", (3,), 9, (), 1), "1 pod in another namespace (9 GB of gpu-3 of t4)"),
            (Victims("t4", own=("a",), others=2), "a and 2 pods in other namespaces (on t4)"),
            (
                Victims("t4", (0,), 50, ("a", "b", "c", "d", "e"), 2),
                "a, b, c, 2 more in this namespace and 2 pods in other namespaces (50 GB of gpu-0 of t4)",
            ),
        ],
    )
    def test_they_say_who_and_where(self, victims: Victims, words: str) -> None:
        assert victims_words(victims) == words

    def test_the_refusal_and_its_causes_say_so(self) -> None:
        long = "llama-3-3-70b-instruct-" + "x" * 200
        refusal = NoFit(
            Reason.INSUFFICIENT_CAPACITY,
            "10 GB",
            1,
            attempts=tuple(CardAttempt("node-a", index, "card", 10, 4, 24, True) for index in range(16)),
            usable_nodes=1,
            can_wait=True,
            victims=Victims(long, (0, 1), 20, (long, long + "2", long + "3", long + "4"), 7),
        )
        text = explain(refusal)
        assert "\nPods of lower priority hold enough: llama-3-3-70b-instruct-" in text
        assert len(text) < 900
        assert causes(refusal)[1].reason == "LowerPriorityPods"
        assert violations(refusal) == []


@pytest.mark.parametrize(
    ("others", "left"),
    [
        pytest.param([low("a", 8), low("b", 8), low("c", 8)], 2, id="the-scheduler-keeps-whom-it-can"),
        pytest.param([low("a", 8), low("b", 8)], 1, id="one-has-left"),
        pytest.param([low("a", 8)], 0, id="all-have-left"),
        pytest.param([low("a", 8), low("b", 8, priority=ME)], 1, id="equals-stay"),
        pytest.param([low("a", 24, priority=ME)], 0, id="nobody-whose-place-it-could-have"),
    ],
)
def test_how_many_have_yet_to_leave(others: list[PodFacts], left: int) -> None:
    me = pinned("me", 12, ME, reservation="a" * 10)
    state = a_gpu_node(me, *others, ledger={"a" * 10: replace(entry({0: 12}), mark=Mark.PREEMPTING)})
    assert victims_left(state, me, {}) == left
