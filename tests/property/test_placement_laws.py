"""Laws of placement on small random clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from random import Random
from typing import TypeVar

from hypothesis import event, given, settings
from hypothesis import strategies as st

from shared.core.amounts import WHOLE, Amount
from shared.core.asks import Ask
from shared.core.card_choice import CardSearch, Share, accel_met
from shared.core.cards import Card, CardClass, Vendor
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand, Policy
from shared.core.explain import causes, explain
from shared.core.filters import admits_load, admits_node, load_exclusions, node_exclusions
from shared.core.ledger import Entry
from shared.core.peers import Peers
from shared.core.placement import Placed, find_place, fits, place
from shared.core.pods import PodFacts
from shared.core.refusal import NoFit, Reason
from shared.core.snapshot import NodeState, Snapshot
from tests.builders import NodeBuilder, a_node, a_pod
from tests.unit.core_builders import ask, card, cluster, demand, entry, holder, node

GIB = 2**30

Item = TypeVar("Item")

# --- random clusters -----------------------------------------------------------------------------------------------

budgets = st.sampled_from([8, 16, 16, 24, 24])
vendors = st.sampled_from([Vendor.NVIDIA] * 5 + [Vendor.AMD])
flags = st.sampled_from([False] * 9 + [True])


classes = st.sampled_from([CardClass.DISCRETE] * 3 + [CardClass.UNIFIED, CardClass.MIG])


@st.composite
def inventories(draw: st.DrawFn, most: int = 4) -> tuple[Card, ...]:
    """Cards of every class; on some nodes all of one."""
    of_all = draw(st.sampled_from([None, None, CardClass.DISCRETE, CardClass.UNIFIED, CardClass.MIG]))
    return tuple(
        card(
            slot,
            draw(budgets),
            draw(vendors),
            healthy=not draw(flags),
            foreign_gb=3 if draw(flags) else 0,
            card_class=of_all or draw(classes),
            partitioned=draw(flags),
            compute_capable=not draw(flags),
            onlined=draw(flags),
        )
        for slot in draw(st.lists(st.integers(0, 6), min_size=1, max_size=most, unique=True))
    )


@st.composite
def usages(draw: st.DrawFn) -> tuple[dict[str, Entry], list[PodFacts]]:
    """Reservations and pods of a node, some of them for one another."""
    held = st.dictionaries(st.integers(0, 6), st.integers(1, 8), min_size=1, max_size=2)
    ledger = draw(st.dictionaries(st.sampled_from(["r", "s"]), held.map(entry), max_size=2))
    carried = st.sampled_from([None, "r", "s"])
    memory = st.integers(0, 12).map(lambda gib: gib * GIB)
    pods = [
        holder(
            name,
            draw(held),
            draw(st.sampled_from(["models", "other"])),
            draw(carried),
            requests={"cpu": 1000, "memory": draw(memory)},
        )
        for name in draw(st.lists(st.sampled_from(["p", "q"]), unique=True))
    ]
    if draw(flags):
        pods.append(holder("foreign", {}, "other", requests={"nvidia.com/gpu": 1}))
    return {key: replace(each, memory_mib=draw(st.sampled_from([0, 2048]))) for key, each in ledger.items()}, pods


@st.composite
def builders(draw: st.DrawFn, name: str) -> NodeBuilder:
    builder = a_node(name).offering(
        cpu=draw(st.sampled_from(["2", "64"])), memory=draw(st.sampled_from(["16Gi", "24Gi", "40Gi", "256Gi"]))
    )
    if draw(flags):
        builder.cordoned()
    if draw(flags):
        builder.not_ready()
    if draw(flags):
        builder.tainted("gpu")
    return builder


@st.composite
def states(draw: st.DrawFn, name: str) -> NodeState:
    ledger, pods = draw(usages())
    return node(
        name,
        draw(inventories()),
        draw(builders(name)),
        accel=draw(st.sampled_from([{}, {"cuda": (12, 2)}, {"cuda": (13, 0)}, {"cuda": (13, 0)}])),
        exclusive=draw(flags),
        pod_devices=draw(
            st.dictionaries(
                st.sampled_from([pod.key for pod in pods] or ["gone"]),
                st.lists(st.integers(0, 6), max_size=2, unique=True).map(tuple),
                max_size=1,
            )
        ),
        ledger=ledger,
        pods=pods,
    )


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    return cluster(*(draw(states(name)) for name in ["a", "b", "c"][: draw(st.sampled_from([0, 1, 2, 2, 3, 3]))]))


amounts = st.sampled_from(
    [*(Amount(gb=gb) for gb in (1, 2, 3, 4, 5, 6, 8, 10, 20)), WHOLE, *(Amount(percent=Fraction(p)) for p in (25, 50))]
)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    asks = [
        ask(draw(amounts), draw(st.sampled_from([1, 1, 1, 2, 3])), container, [draw(amounts)] if draw(flags) else [])
        for container in ["main", "second", "third"][: draw(st.sampled_from([1, 1, 1, 2, 3]))]
    ]
    return demand(
        *asks,
        vendor=draw(st.sampled_from([None, None, None, Vendor.NVIDIA, Vendor.AMD])),
        accel=draw(st.sampled_from([None, None, None, "cuda>=12.4", "cuda 12.9"])),
        policy=draw(st.sampled_from([Policy.BINPACK, Policy.BINPACK, Policy.SPREAD, Policy.EXCLUSIVE])),
    )


constraints = st.sampled_from(
    [
        Constraints(namespace="models"),
        read_constraints(a_pod().requesting(cpu="1").raw()),
        read_constraints(a_pod().requesting(cpu="2").raw()),
        read_constraints(a_pod().requesting(cpu="3").tolerating().raw()),
        read_constraints(a_pod().requesting(memory="2Gi").raw()),
        read_constraints(a_pod().requesting(memory="9Gi").raw()),
        read_constraints(a_pod().selecting(**{"kubernetes.io/hostname": "b"}).raw()),
    ]
)

# --- a second, slow reading of what may be placed -----------------------------------------------------------------


def needed(asked: Ask, on: Card, wanted: Demand, state: NodeState) -> int:
    """GB of a card by the words of the design, with no line of the product."""
    whole = state.inventory.exclusive or wanted.policy is Policy.EXCLUSIVE or on.card_class is CardClass.MIG
    least = on.budget_gb if whole else 1
    return max(least, *(_in_gb(amount, on) for amount in (asked.amount, *asked.init)))


def _in_gb(amount: Amount, on: Card) -> int:
    return amount.gb if amount.gb is not None else int(-(-on.budget_gb * (amount.percent or 0) // 100))


def ways(state: NodeState, wanted: Demand) -> Iterator[Mapping[int, int]]:
    """Every way to give each ask so many cards of one vendor, as GB by slot; whether there is room is not looked at."""
    of = state.inventory.cards
    sets = [
        [
            chosen
            for chosen in combinations(of, each.count)
            if len({one.vendor for one in chosen}) == 1
            and wanted.vendor in (None, chosen[0].vendor)
            and not any(one.card_class is CardClass.MIG and _wants_cards(each) for one in chosen)
        ]
        for each in wanted.asks
    ]
    for chosen in product(*sets):
        booked: dict[int, int] = {}
        for each, given_cards in zip(wanted.asks, chosen, strict=True):
            for one in given_cards:
                gb = needed(each, one, wanted, state)
                booked[one.index] = booked.get(one.index, 0) + gb
        yield booked


def _wants_cards(asked: Ask) -> bool:
    return asked.count > 1 or any(amount.gb is None for amount in (asked.amount, *asked.init))


def has_memory(state: NodeState, booked: Mapping[int, int], own: int) -> bool:
    """Whether the node's memory does for what is to be booked on cards that have none of their own."""
    of = {one.index: one for one in state.inventory.cards}
    backed = [one for one in of.values() if one.card_class is CardClass.UNIFIED or one.onlined]
    if not any(of[index] in backed for index in booked):
        return True
    kept = sum(one.memory_mib * 2**20 for one in backed if one.onlined)
    pools = [one for one in backed if not one.onlined]
    given = sum(min(one.budget_gb, state.used_gb.get(one.index, 0)) + booked.get(one.index, 0) for one in pools)
    carried = {(pod.namespace, pod.reservation) for pod in state.pods.values()}
    promised = sum(
        each.memory_mib * 2**20 for key, each in state.ledger.items() if (each.namespace, key) not in carried
    )
    requested = sum(pod.requests.get("memory", 0) for pod in state.pods.values())
    return kept + given * GIB + promised + requested + own <= state.facts.allocatable["memory"]


def has_room(state: NodeState, wanted: Demand, own: int) -> bool:
    free = dict(zip((one.index for one in state.inventory.cards), state.free_gb, strict=True))
    return any(
        all(gb <= free[index] for index, gb in booked.items()) and has_memory(state, booked, own)
        for booked in ways(state, wanted)
    )


def book(snapshot: Snapshot, placed: Placed, reservation: str) -> Snapshot:
    """The snapshot once the placement stands in the ledger."""
    state = snapshot.nodes[placed.node]
    ledger = {**state.ledger, reservation: entry(dict(placed.booking))}
    return replace(snapshot, nodes={**snapshot.nodes, state.name: state.with_inventory(state.inventory, ledger)})


# --- laws ---------------------------------------------------------------------------------------------------------


@settings(max_examples=400)
@given(clusters(), demands(), constraints)
def test_there_is_a_place_exactly_where_a_search_through_all_ways_finds_one(
    snapshot: Snapshot, wanted: Demand, may: Constraints
) -> None:
    peers = Peers.of(snapshot, may)
    possible = [
        state.name
        for state in snapshot
        if admits_node(state.facts, may)
        and admits_load(state, may, peers)
        and accel_met(state.inventory, wanted)
        and has_room(state, wanted, may.requests.get("memory", 0))
    ]
    verdict = place(snapshot, wanted, may)
    assert find_place(snapshot, wanted, may) == (verdict if isinstance(verdict, Placed) else None)
    event("placed" if possible else "refused")
    if isinstance(verdict, Placed):
        assert verdict.node in possible
    else:
        assert possible == []


@settings(max_examples=300)
@given(clusters(), demands(), constraints)
def test_a_placed_pod_is_what_was_asked_on_a_node_that_admits_it(
    snapshot: Snapshot, wanted: Demand, may: Constraints
) -> None:
    verdict = place(snapshot, wanted, may)
    if isinstance(verdict, NoFit):
        return
    state = snapshot.nodes[verdict.node]
    assert node_exclusions(state.facts, may) == ()
    assert load_exclusions(state, may, Peers.of(snapshot, may)) == ()
    assert fits(state, verdict.booking)
    shares: dict[str, list[Share]] = {}
    for share in verdict.shares:
        shares.setdefault(share.container, []).append(share)
        assert 1 <= share.own_gb <= share.gb <= share.card.budget_gb
        assert share.card.healthy
        assert wanted.vendor in (None, share.card.vendor)
    for each in wanted.asks:
        assert len({share.card.index for share in shares[each.container]}) == each.count
        assert len({share.card.vendor for share in shares[each.container]}) == 1
        if each.amount.is_whole or wanted.policy is Policy.EXCLUSIVE or state.inventory.exclusive:
            assert all(state.used_gb.get(share.card.index, 0) == 0 for share in shares[each.container])
            assert all(dict(verdict.booking)[share.card.index] == share.gb for share in shares[each.container])
        if _wants_cards(each):
            assert all(share.card.card_class is not CardClass.MIG for share in shares[each.container])
    own = may.requests.get("memory", 0)
    assert has_memory(state, dict(verdict.booking), own)
    assert fits(state, verdict.booking, own // 2**20)


@settings(max_examples=100)
@given(clusters(), st.lists(demands(), min_size=1, max_size=12))
def test_no_card_and_no_memory_is_ever_booked_over_its_budget(snapshot: Snapshot, arrivals: Sequence[Demand]) -> None:
    before = {state.name: dict(state.used_gb) for state in snapshot}
    for number, wanted in enumerate(arrivals):
        verdict = place(snapshot, wanted, Constraints(namespace="models"))
        if isinstance(verdict, Placed):
            snapshot = book(snapshot, verdict, f"new-{number}")
            for index, _ in verdict.booking:
                state = snapshot.nodes[verdict.node]
                at = state.inventory.card(index)
                assert at is not None
                assert state.used_gb[index] + at.foreign_gb <= at.budget_gb
                if at.card_class is CardClass.UNIFIED:
                    assert state.memory is not None
                    assert state.memory.left_gb() >= 0
    for state in snapshot:
        for one in state.inventory.cards:
            assert state.used_gb.get(one.index, 0) <= max(one.budget_gb, before[state.name].get(one.index, 0))


@settings(max_examples=200)
@given(clusters(), demands(), constraints, st.randoms(use_true_random=False))
def test_the_answer_is_the_same_whatever_the_order_of_nodes_pods_and_reservations(
    snapshot: Snapshot, wanted: Demand, may: Constraints, random: Random
) -> None:
    def shuffled(items: Mapping[str, Item]) -> dict[str, Item]:
        pairs = list(items.items())
        random.shuffle(pairs)
        return dict(pairs)

    mixed = {
        name: NodeState.of(state.facts, state.inventory, shuffled(state.ledger), shuffled(state.pods))
        for name, state in snapshot.nodes.items()
    }
    verdict = place(snapshot, wanted, may)
    again = place(Snapshot(shuffled(mixed)), wanted, may)
    assert again == verdict
    if isinstance(verdict, NoFit):
        assert isinstance(again, NoFit)
        assert explain(again) == explain(verdict)
        assert causes(again) == causes(verdict)


@settings(max_examples=200)
@given(clusters(), demands(), budgets, vendors)
def test_a_card_more_or_a_node_more_never_turns_a_yes_into_a_no(
    snapshot: Snapshot, wanted: Demand, gb: int, vendor: Vendor
) -> None:
    may = Constraints(namespace="models")
    verdict = place(snapshot, wanted, may)
    if isinstance(verdict, NoFit):
        return
    more_nodes = {**snapshot.nodes, "0": node("0", [card(0, gb, vendor)])}
    assert isinstance(place(Snapshot(more_nodes), wanted, may), Placed)
    for state in snapshot:
        inventory = replace(state.inventory, cards=(*state.inventory.cards, card(9, gb, vendor)))
        grown = {**snapshot.nodes, state.name: state.with_inventory(inventory, state.ledger)}
        assert isinstance(place(Snapshot(grown), wanted, may), Placed)


@settings(max_examples=300)
@given(clusters(), demands(), constraints)
def test_a_refusal_tells_the_truth_and_keeps_to_its_limits(
    snapshot: Snapshot, wanted: Demand, may: Constraints
) -> None:
    verdict = place(snapshot, wanted, may)
    if isinstance(verdict, Placed):
        return
    event(verdict.reason)
    text = explain(verdict)
    assert text.startswith(f"{verdict.reason}: needs ")
    assert len(text.partition("\n")[0]) < 240
    assert len(text) < 900
    assert len(causes(verdict)) <= 16
    with_cards = [state for state in snapshot if state.inventory.cards]
    assert verdict.usable_nodes <= len(with_cards)
    assert verdict.excluded_nodes <= len(with_cards)
    assert all(1 <= fact.nodes <= verdict.excluded_nodes for fact in verdict.excluded)
    if verdict.reason is Reason.INSUFFICIENT_SYSTEM_MEMORY:
        assert verdict.attempts[0].backing is not None
    assert (verdict.reason is Reason.INSUFFICIENT_GPU_COUNT) == (
        verdict.count > 1 and verdict.reason not in (Reason.VENDOR_MISMATCH, Reason.ACCEL_VERSION_UNMET)
    )
    for attempt in verdict.attempts:
        state = snapshot.nodes[attempt.node]
        at = state.inventory.card(attempt.index)
        assert at is not None
        assert (attempt.budget_gb, attempt.healthy) == (at.budget_gb, at.healthy)
        assert (
            attempt.free_gb
            == dict(zip((c.index for c in state.inventory.cards), state.free_gb, strict=True))[attempt.index]
        )
    named = {pod.name for state in snapshot for pod in state.pods.values() if pod.namespace == may.namespace}
    assert {name for name, _ in verdict.holders.own} <= named | {"a pod being created"}


@settings(max_examples=200)
@given(clusters(), demands())
def test_waiting_helps_exactly_where_an_empty_node_would_do(snapshot: Snapshot, wanted: Demand) -> None:
    may = Constraints(namespace="models")
    verdict = place(snapshot, wanted, may)
    if isinstance(verdict, Placed):
        return
    emptied = [
        node(
            state.name,
            [replace(one, healthy=True, foreign_gb=0) for one in state.inventory.cards],
            a_node(state.name).offering(memory=str(state.facts.allocatable["memory"])),
            exclusive=state.inventory.exclusive,
        )
        for state in snapshot
        if not any(taint.key == "gpu" for taint in state.facts.taints) and accel_met(state.inventory, wanted)
    ]
    event(f"waiting helps: {verdict.can_wait}")
    assert verdict.can_wait is any(has_room(state, wanted, 0) for state in emptied)


@given(states("a"), demands())
def test_a_choice_of_cards_lies_within_what_is_free(state: NodeState, wanted: Demand) -> None:
    shares = CardSearch(wanted, 3 * GIB).choose(state)
    assert (shares is not None) is has_room(state, wanted, 3 * GIB)
    if shares is not None:
        assert fits(state, Placed(state.name, shares).booking)
