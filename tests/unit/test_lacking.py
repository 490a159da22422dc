"""Which pods an owner lacks: of which needs, and where they could go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from controller.lacking import Wants
from controller.room import Needs, Room
from shared.api import names
from shared.core.pods import PodFacts
from tests.builders import a_node, a_pod
from tests.storage_builders import a_claim, a_volume, storage
from tests.unit.core_builders import cards, cluster, node

CLAIMS = [{"metadata": {"name": "models"}}]


def owner(kind: str, api: str = "apps/v1", *, desired: int = 0, gb: str = "6", **spec: Any) -> dict[str, Any]:
    pods = {"metadata": {"annotations": {names.VRAM: gb}}, "spec": {"containers": [{"name": "main"}]}}
    status = {"desiredNumberScheduled": desired}
    metadata = {"name": "chat", "namespace": "models"}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": metadata,
        "spec": {"template": pods, **spec},
        "status": status,
    }


def pods(*on: tuple[str, str]) -> list[PodFacts]:
    """Pods by name and node."""
    return [a_pod(name).on(where).facts() for name, where in on]


def places(raw: dict[str, Any], has: Sequence[PodFacts], room: Room) -> list[str]:
    return [placed.node for placed in Wants.of(raw, "models").places(has, room.take)]


@pytest.mark.parametrize(
    ("says", "has_all"),
    [({}, False), ({"replicas": 1}, False), ({"replicas": 2}, True), ({"replicas": 3}, True)],
)
def test_whether_it_says_that_it_has_all(says: dict[str, int], has_all: bool) -> None:
    raw = owner("ReplicaSet", replicas=2)
    assert Wants.of({**raw, "status": says}, "models").has_all is has_all


def test_a_kind_that_does_not_say_what_it_wants_does_not_say_that_it_has_all() -> None:
    assert not Wants.of(owner("RayCluster", "ray.io/v1"), "models").has_all


@pytest.mark.parametrize(
    ("raw", "has", "lacks"),
    [
        pytest.param(owner("ReplicaSet", replicas=3), pods(("a", "n")), 2, id="those-beyond-what-it-has"),
        pytest.param(owner("ReplicaSet", replicas=1), pods(("a", "n"), ("b", "n")), 0, id="none-of-too-many"),
        pytest.param(owner("Job", "batch/v1", parallelism=2), [], 2, id="a-jobs"),
        pytest.param(owner("RayCluster", "ray.io/v1"), pods(("a", "n")), 1, id="one-of-a-kind-that-does-not-say"),
        pytest.param(owner("StatefulSet", replicas=3), [], 1, id="the-next-of-those-that-are-created-in-order"),
        pytest.param(
            owner("StatefulSet", replicas=3, podManagementPolicy="Parallel"),
            pods(("chat-1", "n"), ("chat-9", "n")),
            2,
            id="the-numbers-that-are-missing",
        ),
        pytest.param(owner("DaemonSet", desired=3), pods(("a", "n")), 2, id="of-as-many-as-there-are-to-be-daemons"),
        pytest.param(owner("ReplicaSet", replicas=99), [], 16, id="no-more-than-are-worth-a-look"),
    ],
)
def test_so_many_are_lacking(raw: dict[str, Any], has: list[PodFacts], lacks: int) -> None:
    room = Room(cluster(*(node(f"n{number}", cards(6), a_node(f"n{number}")) for number in range(20))))
    assert len(places(raw, has, room)) == lacks


def test_the_first_that_finds_no_place_is_the_last_that_is_looked_at() -> None:
    asked: list[Needs] = []
    wants = Wants.of(owner("ReplicaSet", replicas=9), "models")
    assert list(wants.places([], asked.append)) == []
    assert len(asked) == 1


def test_a_daemon_goes_where_there_is_none_yet_also_to_a_cordoned_node() -> None:
    names_of = ("cordoned", "has-one", "small")
    built = {name: a_node(name) for name in names_of}
    built["cordoned"].cordoned()
    room = Room(cluster(*(node(name, cards(4 if name == "small" else 32), built[name]) for name in names_of)))
    assert places(owner("DaemonSet", desired=3), pods(("chat-x", "has-one")), room) == ["cordoned"]


def disks(**node_of_claim: str) -> Any:
    """Bound claims, each with a volume that one node reaches."""
    raws = []
    for claim, where in node_of_claim.items():
        name = claim.replace("_", "-")
        raws += [a_volume(name, claim=f"models/{name}", node=where), a_claim(name, volume=name)]
    return storage(*raws)


@pytest.mark.parametrize(
    ("spec", "has", "found"),
    [
        pytest.param({"replicas": 1}, [], ["b"], id="where-its-volume-is"),
        pytest.param({"replicas": 2}, ["chat-0"], [], id="not-where-another-has-its-volume"),
        pytest.param({"replicas": 3}, ["chat-0", "chat-1"], ["a"], id="anywhere-without-a-volume"),
        pytest.param({"replicas": 2}, [], ["b"], id="in-order-the-first-alone"),
        pytest.param(
            {"replicas": 3, "podManagementPolicy": "Parallel"}, [], ["b", "a"], id="one-that-has-no-place-holds-up-none"
        ),
        pytest.param({"replicas": 1, "ordinals": {"start": 1}}, [], [], id="numbered-from-where-it-says"),
    ],
)
def test_a_pod_of_a_stateful_set_follows_its_volumes(spec: dict[str, Any], has: list[str], found: list[str]) -> None:
    two = [node(name, cards(16), a_node(name)) for name in ("a", "b")]
    full = node("full", cards(4), a_node("full"))
    volumes = disks(models_chat_0="b", models_chat_1="full")
    room = Room(replace(cluster(*two, full), volumes=volumes))
    raw = owner("StatefulSet", gb="10", volumeClaimTemplates=CLAIMS, **spec)
    assert places(raw, pods(*((name, "full") for name in has)), room) == found
