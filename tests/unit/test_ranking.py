"""What a pod prefers ranks the nodes that would do, before cards are packed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from shared.core.constraints import ConstraintError, read_constraints
from shared.core.demand import Policy
from shared.core.placement import Placed, place
from shared.core.ranking import preferred_first
from shared.core.snapshot import NodeState, Snapshot
from tests.builders import (
    HOSTNAME,
    NodeBuilder,
    PodBuilder,
    a_cluster,
    a_node,
    a_pod,
    expressions,
    labels,
    requirement,
    term,
)
from tests.unit.core_builders import ask, card, cards, cluster, demand, node

WEB = {"app": "web"}
WEST = expressions(requirement("zone", "In", "west"))
EAST = expressions(requirement("zone", "In", "east"))


def in_zones(**zones: str) -> list[NodeBuilder]:
    return [a_node(name).labelled(zone=zone) for name, zone in zones.items()]


def order(pod: PodBuilder, nodes: list[NodeBuilder], *running: PodBuilder, **namespaces: dict[str, str]) -> list[str]:
    """The names of the nodes in the order in which they are tried."""
    snapshot = a_cluster(nodes, running, namespaces)
    return [state.name for state in preferred_first(iter(snapshot), snapshot, read_constraints(pod.raw()))]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod().preferring_nodes(1, EAST), ["b", "c", "a"], id="matching-nodes-first"),
        pytest.param(
            a_pod().preferring_nodes(10, EAST).preferring_nodes(20, WEST), ["a", "b", "c"], id="by-sum-of-weights"
        ),
        pytest.param(
            a_pod().preferring_nodes(10, {"matchFields": [requirement("metadata.name", "In", "c")]}),
            ["c", "a", "b"],
            id="by-name",
        ),
        pytest.param(a_pod().preferring_nodes(10, {}), ["a", "b", "c"], id="an-empty-term-says-nothing"),
    ],
)
def test_preferred_node_affinity(pod: PodBuilder, expected: list[str]) -> None:
    assert order(pod, in_zones(a="west", b="east", c="east")) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod().preferring_near(1, term("zone", labels(**WEB))), ["b", "c", "a"], id="near"),
        pytest.param(a_pod().preferring_near(1, term(HOSTNAME, labels(**WEB))), ["b", "a", "c"], id="on-the-node"),
        pytest.param(a_pod().preferring_away(1, term("zone", labels(**WEB))), ["a", "b", "c"], id="away"),
        pytest.param(a_pod().preferring_away(1, term(HOSTNAME, labels(**WEB))), ["a", "c", "b"], id="off-the-node"),
        pytest.param(
            a_pod().preferring_near(9, term("zone", labels(**WEB))).preferring_away(5, term(HOSTNAME, labels(**WEB))),
            ["c", "b", "a"],
            id="near-but-not-on-the-node",
        ),
        pytest.param(a_pod().preferring_near(1, term("zone", labels(app="none"))), ["a", "b", "c"], id="near-nobody"),
        pytest.param(a_pod().preferring_near(1, term("rack", labels(**WEB))), ["a", "b", "c"], id="no-such-topology"),
        pytest.param(
            a_pod(namespace="other").preferring_near(1, term("zone", labels(**WEB))),
            ["a", "b", "c"],
            id="pods-of-its-own-namespace-only",
        ),
        pytest.param(
            a_pod(namespace="other").preferring_near(
                1, term("zone", labels(**WEB), namespaceSelector=labels(team="red"))
            ),
            ["b", "c", "a"],
            id="namespaces-by-label",
        ),
        pytest.param(
            a_pod().labelled(version="2").preferring_near(1, term("zone", labels(**WEB), matchLabelKeys=["version"])),
            ["a", "b", "c"],
            id="label-keys-narrow",
        ),
    ],
)
def test_preferred_pod_affinity(pod: PodBuilder, expected: list[str]) -> None:
    running = a_pod("running").labelled(**WEB).on("b")
    assert order(pod, in_zones(a="west", b="east", c="east"), running, models={"team": "red"}) == expected


def test_a_domain_counts_for_every_pod_in_it() -> None:
    running = [a_pod("one").labelled(**WEB).on("a")] + [
        a_pod(f"more-{number}").labelled(**WEB).on("b") for number in range(2)
    ]
    pod = a_pod().preferring_near(1, term(HOSTNAME, labels(**WEB)))
    assert order(pod, in_zones(a="west", b="east"), *running) == ["b", "a"]


def soft(key: str = "zone", **fields: Any) -> PodBuilder:
    return a_pod().labelled(**WEB).spread_over(key, labels(**WEB), whenUnsatisfiable="ScheduleAnyway", **fields)


def webs(**on: int) -> list[PodBuilder]:
    return [a_pod(f"{name}-{number}").labelled(**WEB).on(name) for name, count in on.items() for number in range(count)]


@pytest.mark.parametrize(
    ("pod", "running", "expected"),
    [
        pytest.param(soft(), webs(a=1), ["b", "c", "a"], id="the-emptier-zone"),
        pytest.param(soft(), webs(a=1, b=2), ["a", "b", "c"], id="pods-of-the-whole-zone"),
        pytest.param(soft(HOSTNAME), webs(a=2, b=1), ["c", "b", "a"], id="the-emptier-node"),
        pytest.param(soft("rack"), webs(a=1), ["a", "b", "c"], id="no-node-has-the-label"),
        pytest.param(soft(), [a_pod("gone").labelled(**WEB).on("a").terminating()], ["a", "b", "c"], id="terminating"),
        pytest.param(soft(), [a_pod("x", "other").labelled(**WEB).on("a")], ["a", "b", "c"], id="another-namespace"),
        pytest.param(
            soft().spread_over(HOSTNAME, labels(**WEB), whenUnsatisfiable="ScheduleAnyway"),
            webs(a=1, b=1),
            ["c", "a", "b"],
            id="zone-and-node",
        ),
        pytest.param(soft().selecting(zone="east"), webs(a=1), ["a", "b", "c"], id="nodes-it-may-not-use-do-not-count"),
        pytest.param(
            soft(nodeAffinityPolicy="Ignore").selecting(zone="east"), webs(a=1), ["b", "c", "a"], id="but-if-it-says-so"
        ),
    ],
)
def test_soft_spread(pod: PodBuilder, running: list[PodBuilder], expected: list[str]) -> None:
    assert order(pod, in_zones(a="west", b="east", c="east"), *running) == expected


def test_a_node_without_the_label_of_a_soft_spread_comes_last() -> None:
    nodes = [a_node("a"), *in_zones(b="east")]
    assert order(soft(), nodes, *webs(b=5)) == ["b", "a"]


@pytest.mark.parametrize("first", ["a_pod", "with-a-preference"])
def test_taints_that_prefer_no_pods_come_last_the_fewer_the_sooner(first: str) -> None:
    nodes = [
        a_node("a").tainted("slow", effect="PreferNoSchedule").tainted("old", effect="PreferNoSchedule"),
        a_node("b").tainted("old", effect="PreferNoSchedule"),
        a_node("c"),
    ]
    pod = a_pod() if first == "a_pod" else a_pod().preferring_nodes(1, WEST)
    assert order(pod, nodes) == ["c", "b", "a"]
    assert order(pod.tolerating("old", "Exists"), nodes) == ["b", "c", "a"]


def test_a_taint_weighs_more_than_an_affinity() -> None:
    nodes = [a_node("a").labelled(zone="west").tainted("slow", effect="PreferNoSchedule"), a_node("b")]
    assert order(a_pod().preferring_nodes(100, WEST), nodes) == ["b", "a"]


def test_without_preferences_no_node_is_looked_at_before_it_is_needed() -> None:
    snapshot = a_cluster(in_zones(a="west", b="east"))

    def one_only() -> Iterator[NodeState]:
        yield snapshot.nodes["a"]
        raise AssertionError("the second was asked for")

    ranked = preferred_first(one_only(), snapshot, read_constraints(a_pod().raw()))
    assert next(ranked).name == "a"


FULL_AND_EMPTY = cluster(
    node("full", cards(16), a_node("full").labelled(zone="west")),
    node("large", cards(80), a_node("large").labelled(zone="east")),
    node("small", [card(0, 24)], a_node("small").labelled(zone="east")),
)


def placed(pod: PodBuilder, snapshot: Snapshot = FULL_AND_EMPTY, policy: Policy = Policy.BINPACK) -> str:
    verdict = place(snapshot, demand(ask(10), policy=policy), read_constraints(pod.raw()))
    assert isinstance(verdict, Placed)
    return verdict.node


def test_a_preference_beats_packing_and_packing_decides_among_equals() -> None:
    assert placed(a_pod()) == "full"
    assert placed(a_pod().preferring_nodes(1, EAST)) == "small"
    assert placed(a_pod().preferring_nodes(1, EAST), policy=Policy.SPREAD) == "large"


def test_a_preference_for_nodes_without_room_is_only_a_preference() -> None:
    pod = a_pod().preferring_nodes(100, expressions(requirement("zone", "In", "nowhere")))
    assert placed(pod) == "full"


@pytest.mark.parametrize(
    ("affinity", "field"),
    [
        pytest.param({"nodeAffinity": [{"preference": {}}]}, "weight", id="no-weight"),
        pytest.param({"nodeAffinity": [{"weight": "1", "preference": {}}]}, "weight", id="a-text"),
        pytest.param({"nodeAffinity": [{"weight": 1}]}, "preference", id="no-preference"),
        pytest.param({"podAffinity": [{"weight": 1}]}, "podAffinityTerm", id="no-term"),
        pytest.param(
            {"podAntiAffinity": [{"weight": 1, "podAffinityTerm": {}}]}, "podAffinityTerm.topologyKey", id="no-topology"
        ),
    ],
)
def test_a_malformed_preference_is_refused_by_field(affinity: dict[str, Any], field: str) -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    ((kind, terms),) = affinity.items()
    with pytest.raises(ConstraintError) as error:
        read_constraints(a_pod().spec(affinity={kind: {preferred: terms}}).raw())
    assert error.value.field == f"spec.affinity.{kind}.{preferred}[0].{field}"


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod(), ["b", "a", "c"], id="no-preference"),
        pytest.param(a_pod().preferring_nodes(100, WEST), ["b", "a", "c"], id="before-all-that-the-pod-prefers"),
        pytest.param(a_pod().preferring_nodes(100, EAST), ["b", "c", "a"], id="among-themselves-as-preferred"),
    ],
)
def test_nodes_that_reject_pods_come_last(pod: PodBuilder, expected: list[str]) -> None:
    snapshot = replace(a_cluster(in_zones(a="west", b="north", c="east"), (), {}), rejecting=frozenset({"a", "c"}))
    tried = preferred_first(iter(snapshot), snapshot, read_constraints(pod.raw()))
    assert [state.name for state in tried] == expected


def test_a_node_that_rejects_pods_is_taken_where_there_is_no_other() -> None:
    snapshot = replace(cluster(node("full", cards(4)), node("a", cards(16))), rejecting={"a"})
    placed = place(snapshot, demand(ask(6)), read_constraints(a_pod().raw()))
    assert isinstance(placed, Placed)
    assert placed.node == "a"
