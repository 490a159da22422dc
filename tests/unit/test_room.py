"""Room: the places of pods that do not exist yet, one after the other, in a cluster that changes meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from controller.room import Needs, Room
from shared.api import names
from shared.core.snapshot import Snapshot
from tests.builders import PodBuilder, a_node, a_pod, labels, term
from tests.unit.core_builders import cards, cluster, entry, holder, node

HOSTNAME = "kubernetes.io/hostname"
_ONLY_A = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["a"]}]}


def model(gb: str | None = "6") -> PodBuilder:
    pod = a_pod("chat").unstored()
    return pod if gb is None else pod.annotated(names.VRAM, gb)


def needs(pod: PodBuilder) -> Needs:
    found = Needs.of(pod.raw())
    assert found is not None
    return found


def taken(room: Room, snapshot: Snapshot, pod: PodBuilder) -> int:
    """How many such pods find a place, up to 9."""
    return next((count for count in range(9) if not room.take(snapshot, needs(pod))), 9)


@pytest.mark.parametrize(
    ("pod", "fitting"),
    [
        pytest.param(model("6"), 4, id="as-many-as-the-cards-hold"),
        pytest.param(model("whole"), 2, id="a-whole-card-is-given-once"),
        pytest.param(model("20"), 0, id="none-that-is-larger-than-a-card"),
        pytest.param(model("1").requesting(cpu="3"), 2, id="their-cpu-is-taken-as-well"),
        pytest.param(model("1").host_port(8000), 2, id="their-host-port-is-taken-as-well"),
        pytest.param(
            model("1").labelled(app="chat").away_from(term(HOSTNAME, labels(app="chat"))),
            2,
            id="they-keep-away-from-each-other",
        ),
        pytest.param(model("1").limited_to({names.NVIDIA_GPU: "1"}), 9, id="the-replaced-resource-is-not-asked-for"),
    ],
)
def test_places_are_given_until_something_runs_out(pod: PodBuilder, fitting: int) -> None:
    two = cluster(*(node(name, cards(16), a_node(name).offering(cpu="4")) for name in ("a", "b")))
    assert taken(Room(), two, pod) == fitting


def test_what_was_given_stays_given_when_its_node_changes() -> None:
    room = Room()
    assert room.take(cluster(node("a", cards(16))), needs(model("6")))
    busier = cluster(node("a", cards(16), pods=[holder("other", {0: 6})]))
    assert not room.take(busier, needs(model("6")))
    assert taken(room, busier, model("2")) == 2


def test_a_node_that_is_gone_takes_what_was_given_on_it_along() -> None:
    room = Room()
    assert room.take(cluster(node("a", cards(16))), needs(model("16")))
    assert room.take(cluster(node("b", cards(16))), needs(model("16")))


def test_needs_that_found_no_place_are_not_looked_at_again() -> None:
    room = Room()
    full, emptied = cluster(node("a", cards(16), pods=[holder("other", {0: 16})])), cluster(node("a", cards(16)))
    assert not room.take(full, needs(model("6")))
    assert not room.take(emptied, needs(model("6")))
    assert room.take(emptied, needs(model("6").labelled(app="other")))
    assert room.take(emptied, needs(model("8")))


@pytest.mark.parametrize(
    ("pod", "gives_needs"),
    [
        pytest.param(model("6").raw(), True, id="an-ask"),
        pytest.param(model(None).raw(), False, id="no-ask"),
        pytest.param(model("16GB").raw(), False, id="a-wrong-ask"),
        pytest.param(model("6").spec(nodeSelector="fast").raw(), False, id="a-wrong-constraint"),
    ],
)
def test_only_a_well_formed_pod_that_asks_for_a_card_has_needs(pod: dict[str, Any], gives_needs: bool) -> None:
    assert (Needs.of(pod) is not None) == gives_needs


def test_seats_are_room_for_those_for_whom_they_are_kept_and_for_nobody_else() -> None:
    room = Room()
    full = cluster(node("a", cards(16), ledger={"one": entry({0: 8}), "two": entry({0: 8})}))
    assert not room.take(full, needs(model("8")))
    seats = {"one": "a", "two": "a", "gone": "b"}
    assert [room.take(full, needs(model("8")), seats) for _ in range(3)] == ["a", "a", None]
    assert not room.take(full, needs(model("8")))


@pytest.mark.parametrize(
    ("pod", "fitting"),
    [
        pytest.param(model("16"), ["b"], id="anywhere-else"),
        pytest.param(model("16").node_affinity(_ONLY_A), [], id="of-those-that-it-selects"),
        pytest.param(model("16").node_affinity({}), [], id="an-empty-term-selects-none"),
    ],
)
def test_needs_of_one_pod_a_node_are_met_on_other_nodes(pod: PodBuilder, fitting: list[str]) -> None:
    two = cluster(*(node(name, cards(16), a_node(name)) for name in ("a", "b")))
    room, once = Room(), needs(pod).off({"a"})
    assert [name for _ in range(2) if (name := room.take(two, once))] == fitting
