"""Laws of placement by units: never more units than a node advertises, whatever comes in whatever order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import event, given, settings
from hypothesis import strategies as st

from shared.core.amounts import WHOLE, Amount
from shared.core.asks import Ask
from shared.core.constraints import Constraints
from shared.core.demand import Demand, Policy
from shared.core.explain import causes, explain
from shared.core.found import Source
from shared.core.ledger import Entry
from shared.core.placement import Placed, find_place, fits, place
from shared.core.refusal import NoFit
from shared.core.snapshot import NodeState, Snapshot
from shared.core.unit_asks import UnitAsk
from shared.core.unit_choice import effective_units, serves
from tests.unit.core_builders import cards, cluster, node
from tests.unit.units import AMD, GPU, SHARED, SLICE, held, managed, user

LARGE_SLICE = "nvidia.com/mig-3g.40gb"
ANYWHERE = Constraints(namespace="models")

offers = st.dictionaries(st.sampled_from([GPU, SHARED, SLICE, LARGE_SLICE, AMD]), st.integers(0, 6), max_size=4)
labels = st.fixed_dictionaries(
    {},
    optional={
        "nvidia.com/gpu.memory": st.sampled_from(["24576", "81559", "x"]),
        "nvidia.com/gpu.count": st.sampled_from(["1", "2", "4"]),
        "nvidia.com/gpu.replicas": st.sampled_from(["0", "1", "2"]),
        "nvidia.com/gpu.product": st.sampled_from(["NVIDIA-L4", "NVIDIA-A100-MIG-1g.10gb"]),
        "amd.com/gpu.vram": st.just("64G"),
    },
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeState:
    """A managed node with reservations and pods, some of them for one another, or a node with an agent."""
    if draw(st.booleans()) and draw(st.booleans()):
        return node(name, cards(24, 80))
    ids = ["aaaaaaaaaa", "bbbbbbbbbb"]
    amounts = st.dictionaries(st.sampled_from([GPU, SLICE, AMD]), st.integers(1, 2), min_size=1, max_size=2)
    ledger = draw(st.dictionaries(st.sampled_from(ids), amounts.map(held), max_size=2))
    pods = [
        user(f"pod-{number}", draw(amounts), name, draw(st.sampled_from([None, *ids])))
        for number in range(draw(st.integers(0, 2)))
    ]
    return managed(name, draw(offers), draw(labels), ledger=ledger, pods=pods)


clusters = st.tuples(nodes("a"), nodes("b")).map(lambda states: cluster(*states))


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    containers = draw(st.lists(st.sampled_from("pqr"), min_size=1, max_size=3, unique=True))
    asks: list[Ask] = []
    units: list[UnitAsk] = []
    own: list[tuple[str, str, int]] = []
    for container in containers:
        count = draw(st.sampled_from([1, 1, 1, 2, 3]))
        match draw(st.integers(0, 3)):
            case 0:
                resource = draw(st.sampled_from([SLICE, LARGE_SLICE, SHARED]))
                units.append(UnitAsk(container, resource, count, "field"))
            case 1:
                asks.append(Ask(container, WHOLE, count, Source.VENDOR_COUNT, "field"))
                own.append((container, GPU, count))
            case _:
                amount = draw(st.sampled_from([Amount(gb=4), Amount(gb=20), Amount(gb=90), WHOLE]))
                asks.append(Ask(container, amount, count, Source.ANNOTATION, "field"))
    policy = draw(st.sampled_from([Policy.BINPACK, Policy.BINPACK, *Policy]))
    return Demand(tuple(asks), policy=policy, units=tuple(units), own=tuple(own))


@settings(max_examples=200)
@given(clusters, st.lists(demands(), min_size=1, max_size=8))
def test_no_more_units_are_given_than_a_node_advertises(snapshot: Snapshot, arrivals: Sequence[Demand]) -> None:
    before = {state.name: dict(state.requested) for state in snapshot}
    for number, wanted in enumerate(arrivals):
        verdict = place(snapshot, wanted, ANYWHERE)
        event(type(verdict).__name__)
        if isinstance(verdict, Placed):
            snapshot = _book(snapshot, verdict, f"new-{number}")
    for state in snapshot:
        for resource, requested in state.requested.items():
            if "/" in resource:
                most = max(state.facts.allocatable.get(resource, 0), before[state.name].get(resource, 0))
                assert requested <= most


@settings(max_examples=300)
@given(clusters, demands())
def test_a_placed_pod_has_what_it_asked(snapshot: Snapshot, wanted: Demand) -> None:
    verdict = place(snapshot, wanted, ANYWHERE)
    assert find_place(snapshot, wanted, ANYWHERE) == (verdict if isinstance(verdict, Placed) else None)
    if isinstance(verdict, NoFit):
        assert len(explain(verdict).partition("\n")[0]) < 240
        assert len(explain(verdict)) < 900
        assert causes(verdict)
        return
    state = snapshot.nodes[verdict.node]
    assert fits(state, verdict.booking, units=verdict.units)
    assert verdict.units == effective_units(wanted, verdict.unit_shares)
    by_resource = {kind.resource: kind for kind in state.kinds}
    for each in wanted.asks:
        given = [share for share in verdict.unit_shares if share.container == each.container]
        if state.kinds:
            (share,) = given
            assert share.count == each.count
            assert serves(by_resource[share.resource], each, wanted)
        else:
            assert given == []
            assert len([share for share in verdict.shares if share.container == each.container]) == each.count
    for unit in wanted.units:
        assert any(
            (share.container, share.resource, share.count) == (unit.container, unit.resource, unit.count)
            for share in verdict.unit_shares
        )


@settings(max_examples=100)
@given(clusters, demands())
def test_a_node_more_never_turns_a_yes_into_a_no(snapshot: Snapshot, wanted: Demand) -> None:
    if isinstance(place(snapshot, wanted, ANYWHERE), Placed):
        more: Mapping[str, NodeState] = {**snapshot.nodes, "0": managed("0", {GPU: 8}, memory="24576", count="8")}
        assert isinstance(place(Snapshot(more), wanted, ANYWHERE), Placed)


@settings(max_examples=100)
@given(clusters, demands())
def test_the_order_of_nodes_does_not_matter(snapshot: Snapshot, wanted: Demand) -> None:
    mirrored = Snapshot(dict(reversed(list(snapshot.nodes.items()))))
    assert place(mirrored, wanted, ANYWHERE) == place(snapshot, wanted, ANYWHERE)


def _book(snapshot: Snapshot, placed: Placed, reservation: str) -> Snapshot:
    state = snapshot.nodes[placed.node]

    entry = Entry("models", "0" * 8, 0, placed.booking, units=placed.units)
    after = state.with_inventory(state.inventory, {**state.ledger, reservation: entry})
    return Snapshot({**snapshot.nodes, placed.node: after})
