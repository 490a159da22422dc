"""The nearest cards and the nearest node against a slow reading that looks at every card."""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from shared.core.alike import group_alike
from shared.core.cards import CardClass
from shared.core.constraints import Constraints
from shared.core.demand import Policy
from shared.core.filters import Filters
from shared.core.nearest import nearest_cards, nearest_node
from shared.core.peers import Peers
from shared.core.refusal import MOST_ATTEMPTS, NodeAttempt
from shared.core.snapshot import NodeState
from tests.builders import a_node
from tests.unit.core_builders import ask, card, cluster, demand, holder, node, partition

GIB = 2**30
ANYWHERE = Constraints()


@st.composite
def states(draw: st.DrawFn, name: str) -> NodeState:
    sizes, unwell = st.sampled_from([8, 16, 16, 16]), st.sampled_from([False, False, False, True])
    of_class = draw(st.sampled_from([CardClass.DISCRETE, CardClass.DISCRETE, CardClass.UNIFIED]))
    of = [
        card(slot, draw(sizes), healthy=not draw(unwell), card_class=of_class)
        for slot in range(draw(st.integers(1, 4)))
    ]
    held = {one.index: draw(st.integers(0, 16)) for one in of}
    builder = a_node(name).offering(memory=draw(st.sampled_from(["12Gi", "64Gi"])))
    return node(name, of, builder, pods=[holder("p", held, requests={"memory": draw(st.integers(0, 2)) * GIB})])


clusters = st.lists(st.integers(0, 99).map(lambda number: f"n{number:02}"), max_size=14, unique=True).flatmap(
    lambda names: st.tuples(*map(states, names))
)


@settings(max_examples=200)
@given(
    clusters,
    st.sampled_from([1, 4, 9, 12, 16, 20]),
    st.integers(1, 4),
    st.sampled_from(list(Policy)),
    st.integers(0, 3),
)
def test_no_card_is_nearer_than_those_that_are_told(
    of: tuple[NodeState, ...], gb: int, count: int, policy: Policy, own_gib: int
) -> None:
    wanted, asked, own = demand(ask(gb, count), policy=policy), ask(gb, count), own_gib * GIB
    groups = group_alike(of, wanted, Filters(ANYWHERE, Peers.of(cluster(*of), ANYWHERE)))

    looked_at = []
    by_node: dict[str, list[tuple[int, int, int]]] = {}
    out: dict[str, int] = {}
    for state in of:
        for one, free in zip(state.inventory.cards, state.free_gb, strict=True):
            need = max(gb, one.budget_gb) if policy is Policy.EXCLUSIVE else gb
            room, most = free, one.budget_gb
            if state.memory is not None:
                room, most = state.memory.room_gb(one, free, own), state.memory.emptied.room_gb(one, most, own)
            missing = need - most if need > most else max(0, need - room)
            looked_at.append((not one.healthy, need > most, missing, state.name, one.index, room < need))
            out[state.name] = out.get(state.name, 0) + (not one.healthy and need <= most)
            by_node.setdefault(state.name, []).append((need, room, one.budget_gb))
    best = min(((*_worth(of_node, count), name) for name, of_node in by_node.items()), default=None)
    best_node = nearest_node(groups, asked, wanted, own)
    name = "" if best is None else best[-1]
    assert best_node == (None if best is None else NodeAttempt(name, -best[0], len(by_node[name]), out[name]))

    event("more cards than are told" if len(looked_at) > MOST_ATTEMPTS else "few cards")
    for beside in (None, best_node):
        ranked = sorted(
            (beside is not None and name != beside.node, unwell, small, missing, name, index)
            for unwell, small, missing, name, index, lacks in looked_at
            if beside is None or lacks
        )
        told = nearest_cards(groups, asked, wanted, own, beside)
        assert [(each.node, each.index) for each in told] == [place[-2:] for place in ranked[:MOST_ATTEMPTS]]


def _worth(of_node: list[tuple[int, int, int]], count: int) -> tuple[int, int, int, int]:
    """How a node ranks by the needs, rooms and budgets of its cards."""
    fitting = sum(room >= need for need, room, _ in of_node)
    short = [need - room for need, room, budget in of_node if need <= budget]
    nearness = (0, 0) if fitting else (-min(len(short), count), min(short, default=0))
    return -fitting, *nearness, -len(of_node)


def test_nodes_whose_cards_cannot_hold_the_ask_at_all_have_no_near_card() -> None:
    of, wanted = node("a", [partition(0, 10)]), demand(ask(4, 2))
    groups = group_alike([of], wanted, Filters(ANYWHERE, Peers()))
    assert nearest_cards(groups, wanted.asks[0], wanted, 0, None) == ()
    assert nearest_node(groups, wanted.asks[0], wanted, 0) is None
