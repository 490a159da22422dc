"""Laws of the index behind decisions: whatever changed in whatever order, it answers as a look at every node would."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.affinity_terms import PodAffinityTerm
from shared.core.node_index import NodeIndex, Nodes
from shared.core.pod_index import PodLook, look_of
from shared.core.pods import PodFacts
from shared.core.selectors import LabelSelector
from shared.core.snapshot import NodeState
from tests.builders import a_node
from tests.unit.core_builders import cards, holder, node
from tests.unit.units import GPU, managed

NAMES = ("a", "b", "c", "d", "e")
KEYS = ("zone", "rack")
AWAY = (PodAffinityTerm("zone", LabelSelector(), frozenset({"models"})),)


@st.composite
def pods(draw: st.DrawFn) -> list[PodFacts]:
    return [
        holder(
            name,
            {0: draw(st.sampled_from([0, 1, 4, 8]))},
            draw(st.sampled_from(["models", "other"])),
            labels={"app": draw(st.sampled_from(["web", "db"]))},
            terminating=draw(st.booleans()),
            anti_affinity=draw(st.sampled_from([(), (), AWAY])),
        )
        for name in draw(st.lists(st.sampled_from(["p", "q", "r"]), unique=True))
    ]


@st.composite
def states(draw: st.DrawFn, name: str) -> NodeState:
    if draw(st.sampled_from([True, False, False])):
        return managed(name, {GPU: draw(st.integers(0, 4))}, {"nvidia.com/gpu.memory": "24576"}, pods=draw(pods()))
    labels = draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["1", "2"])))
    of = draw(st.sampled_from([(), cards(8), cards(8, 8), cards(8, 8)]))
    return node(name, of, a_node(name).labelled(**labels), pods=draw(pods()))


named = st.sampled_from(NAMES)
changes = st.lists(named.flatmap(lambda name: st.tuples(st.just(name), st.none() | states(name))), max_size=8)


def assert_answers_as_a_look_at_every_node(nodes: Nodes, expected: Mapping[str, NodeState]) -> None:
    assert dict(nodes) == expected
    assert repr(nodes) == repr(dict(nodes))
    assert len(nodes) == len(expected)
    assert {state.name: state for state in nodes.states()} == expected
    for name in NAMES:
        assert (name in nodes) is (name in expected)
        assert nodes.get(name) == expected.get(name)
    for least_gb in (0, 1, 8, 12):
        roomy = [state for state in expected.values() if _is_roomy(state, least_gb)]
        up = [state.name for state in sorted(roomy, key=lambda state: (state.total_free_gb, state.name))]
        down = [state.name for state in sorted(roomy, key=lambda state: (-state.total_free_gb, state.name))]
        assert [state.name for state in nodes.by_room(least_gb)] == up
        assert [state.name for state in nodes.by_room(least_gb, most_first=True)] == down
        among = [name for name in up if name in "ace"]
        assert [state.name for state in nodes.by_room(least_gb, among=["e", "c", "a", "nowhere"])] == among
    assert {state.name for state in nodes.repelling()} == {name for name, state in expected.items() if state.repelling}
    for app in ("web", "db", "nobody"):
        counts = {
            name: sum(pod.labels["app"] == app and not pod.terminating for pod in state.pods.values())
            for name, state in expected.items()
        }

        def selects(look: PodLook, app: str = app) -> bool:
            return look.labels["app"] == app and not look.terminating

        assert nodes.pods(selects) == {name: count for name, count in counts.items() if count}
    for key in KEYS:
        labelled = {name: state.facts.labels[key] for name, state in expected.items() if key in state.facts.labels}
        assert nodes.labelled(key) == labelled


def _is_roomy(state: NodeState, least_gb: int) -> bool:
    return state.offers_anything and (bool(state.kinds) or state.total_free_gb >= least_gb)


@settings(max_examples=150)
@given(changes, changes, st.booleans())
def test_it_answers_as_a_look_at_every_node_would(
    made: list[tuple[str, NodeState | None]], changed: list[tuple[str, NodeState | None]], early: bool
) -> None:
    index = NodeIndex()
    if early:
        index.prepare()
        assert_answers_as_a_look_at_every_node(Nodes(index), {})
    expected: dict[str, NodeState] = {}
    for name, state in made:
        if state is None:
            assert index.drop(name) == expected.pop(name, None)
        else:
            index.put(state)
            expected[name] = state
        # Every answer that was worked out is kept up, so it is asked for between the changes.
        assert_answers_as_a_look_at_every_node(Nodes(index), expected)
    view, seen = Nodes(index), dict(expected)
    for name, state in changed:
        if name in expected and state is not None:
            view = view.changed({name: state})
            seen[name] = state
    assert_answers_as_a_look_at_every_node(view, seen)
    assert_answers_as_a_look_at_every_node(Nodes(index), expected)


@given(pods())
def test_pods_that_selectors_cannot_tell_apart_look_the_same(of: list[PodFacts]) -> None:
    for pod in of:
        for other in of:
            same = (pod.namespace, pod.labels, pod.terminating) == (other.namespace, other.labels, other.terminating)
            assert (look_of(pod) == look_of(other)) is same


def test_only_so_many_labels_are_kept_up() -> None:
    index = NodeIndex({"a": node("a", cards(8), a_node("a").labelled(zone="west"))})
    for number in range(100):
        assert index.labelled(f"key-{number}") == {}
    assert index.labelled("zone") == {"a": "west"}
    index.put(node("a", cards(8), a_node("a").labelled(zone="east")))
    assert index.labelled("zone") == {"a": "east"}
