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


def model(gb: str | None = "6") -> PodBuilder:
    pod = a_pod("chat").unstored()
    return pod if gb is None else pod.annotated(names.VRAM, gb)


def needs(pod: PodBuilder) -> Needs:
    found = Needs.of(pod.raw())
    assert found is not None
    return found


def taken(room: Room, pod: PodBuilder) -> int:
    """How many such pods find a place, up to 9."""
    return next((count for count in range(9) if room.take(needs(pod)) is None), 9)


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
    assert taken(Room(two), pod) == fitting


def test_what_is_found_is_not_given_away() -> None:
    room = Room(cluster(node("a", cards(16))))
    for _ in range(2):
        found = room.find(needs(model("16")))
        assert found is not None
        assert found.node == "a"


def test_what_changes_during_a_walk_is_for_the_next() -> None:
    nodes = {"a": node("a", cards(16))}
    room = Room(Snapshot(nodes))
    nodes["a"] = node("a", cards(16), pods=[holder("other", {0: 16})])
    assert taken(room, model("16")) == 1


def test_one_that_may_go_nowhere_takes_nothing_from_another_that_may() -> None:
    room = Room(cluster(node("a", cards(16), a_node("a").tainted("reserved"))))
    assert room.take(needs(model("16"))) is None
    assert taken(room, model("16").tolerating("reserved")) == 1
    assert room.find(needs(model("16").tolerating("reserved"))) is None


def test_needs_can_be_kept_off_certain_nodes_and_stay_what_they_are() -> None:
    room = Room(cluster(*(node(name, cards(16), a_node(name)) for name in ("a", "b"))))
    on_b = room.find(needs(model()).off({"a"}))
    assert on_b is not None
    assert on_b.node == "b"
    named = needs(model().pinned_to("a"))
    assert room.find(named) is not None
    assert room.find(named.off({"a"})) is None
    assert room.find(needs(model().node_affinity({})).off({"a"})) is None, "a term without conditions selects no node"


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
    room = Room(cluster(node("a", cards(16), ledger={"one": entry({0: 8}), "two": entry({0: 8})})))
    assert room.take(needs(model("8"))) is None
    seats = {"one": "a", "two": "a", "gone": "b"}
    assert [room.take(needs(model("8")), seats) is not None for _ in range(3)] == [True, True, False]
    assert room.take(needs(model("8"))) is None
