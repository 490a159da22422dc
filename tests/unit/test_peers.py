"""Pod affinity and anti-affinity: near whom, away from whom, in which namespaces, and who may come first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from shared.core.constraints import read_constraints
from shared.core.peers import Peers
from shared.core.snapshot import Snapshot
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

ZONE = "zone"
DB = labels(app="db")
WEB = labels(app="web")
NAMESPACES: Mapping[str, Mapping[str, str]] = {"models": {}, "data": {"team": "blue"}, "lab": {"team": "red"}}


def nodes() -> list[NodeBuilder]:
    """Two nodes in the west, one in the east, one in no zone."""
    return [
        a_node("west-1").labelled(zone="west"),
        a_node("west-2").labelled(zone="west"),
        a_node("east-1").labelled(zone="east"),
        a_node("nowhere"),
    ]


def cluster(*pods: PodBuilder) -> Snapshot:
    return a_cluster(nodes(), pods, NAMESPACES)


def db(namespace: str = "models") -> PodBuilder:
    return a_pod("db", namespace).labelled(app="db")


def web() -> PodBuilder:
    return a_pod("web").labelled(app="web")


def open_nodes(snapshot: Snapshot, pod: PodBuilder) -> set[str]:
    """The nodes that the pod's peers leave open."""
    peers = Peers.of(snapshot, read_constraints(pod.raw()))
    return {
        state.name
        for state in snapshot
        if peers.meets_affinity(state.facts.labels)
        and peers.meets_anti_affinity(state.facts.labels)
        and peers.is_welcome(state.facts.labels)
    }


ALL = {"west-1", "west-2", "east-1", "nowhere"}


@pytest.mark.parametrize(
    ("pods", "pod", "open_to_it"),
    [
        pytest.param([db().on("west-1")], web(), ALL, id="no-terms-no-limits"),
        pytest.param(
            [db().on("west-1")], web().near(term(ZONE, DB)), {"west-1", "west-2"}, id="the-whole-zone-is-near"
        ),
        pytest.param([db().on("west-1")], web().near(term(HOSTNAME, DB)), {"west-1"}, id="only-the-node-is-near"),
        pytest.param([], web().near(term(ZONE, DB)), set(), id="nobody-to-be-near-to"),
        pytest.param(
            [db().on("nowhere")], web().near(term(ZONE, DB)), set(), id="a-pod-outside-of-all-zones-is-in-no-domain"
        ),
        pytest.param(
            [db().on("west-1").terminating()],
            web().near(term(ZONE, DB)),
            {"west-1", "west-2"},
            id="a-terminating-pod-still-counts",
        ),
        pytest.param(
            [db().pinned_to("west-1")],
            web().near(term(ZONE, DB)),
            {"west-1", "west-2"},
            id="a-pinned-pod-counts-as-there",
        ),
        pytest.param(
            [db().on("west-1"), a_pod("cache").labelled(app="cache").on("west-1")],
            web().near(term(ZONE, DB), term(HOSTNAME, labels(app="cache"))),
            set(),
            id="one-pod-must-meet-all-terms",
        ),
        pytest.param(
            [a_pod("both").labelled(app="db", tier="1").on("west-1")],
            web().near(term(ZONE, DB), term(HOSTNAME, labels(tier="1"))),
            {"west-1"},
            id="one-pod-meets-all-terms",
        ),
        pytest.param(
            [db().on("west-1")],
            web().near(term(ZONE, None)),
            set(),
            id="an-absent-selector-selects-nobody",
        ),
    ],
)
def test_affinity(pods: list[PodBuilder], pod: PodBuilder, open_to_it: set[str]) -> None:
    assert open_nodes(cluster(*pods), pod) == open_to_it


ZONED = {"west-1", "west-2", "east-1"}


@pytest.mark.parametrize(
    ("pods", "pod", "open_to_it"),
    [
        pytest.param([], web().near(term(ZONE, WEB)), ZONED, id="the-first-of-a-group-may-start-in-any-domain"),
        pytest.param(
            [a_pod("other").labelled(app="web").on("east-1")],
            web().near(term(ZONE, WEB)),
            {"east-1"},
            id="the-second-has-to-follow",
        ),
        pytest.param(
            [a_pod("other").labelled(app="web").on("nowhere")],
            web().near(term(ZONE, WEB)),
            ZONED,
            id="a-member-outside-of-all-domains-is-not-followed",
        ),
        pytest.param(
            [a_pod("other").labelled(app="web").on("nowhere")],
            web().near(term(ZONE, WEB), term(HOSTNAME, WEB)),
            set(),
            id="a-member-in-one-of-two-topologies-ends-the-exception",
        ),
        pytest.param([], web().near(term(ZONE, WEB), term(ZONE, DB)), set(), id="it-must-meet-all-of-its-own-terms"),
        pytest.param([], web().near(term(ZONE, WEB, namespaces=["data"])), set(), id="its-own-namespace-must-count"),
        pytest.param([], web().near(term("rack", WEB)), set(), id="nodes-must-have-the-topology"),
    ],
)
def test_the_first_pod_of_a_group(pods: list[PodBuilder], pod: PodBuilder, open_to_it: set[str]) -> None:
    assert open_nodes(cluster(*pods), pod) == open_to_it


@pytest.mark.parametrize(
    ("pods", "pod", "open_to_it"),
    [
        pytest.param(
            [db().on("west-1")], web().away_from(term(ZONE, DB)), {"east-1", "nowhere"}, id="the-whole-zone-is-shut"
        ),
        pytest.param(
            [db().on("west-1")], web().away_from(term(HOSTNAME, DB)), ALL - {"west-1"}, id="only-the-node-is-shut"
        ),
        pytest.param(
            [db().on("nowhere")], web().away_from(term(ZONE, DB)), ALL, id="a-node-without-zone-shuts-nothing"
        ),
        pytest.param(
            [db().on("west-1").terminating()],
            web().away_from(term(ZONE, DB)),
            {"east-1", "nowhere"},
            id="a-terminating-pod-still-counts",
        ),
        pytest.param(
            [db().on("west-1"), a_pod("cache").labelled(app="cache").on("east-1")],
            web().away_from(term(ZONE, DB), term(HOSTNAME, labels(app="cache"))),
            {"nowhere"},
            id="each-term-shuts-its-own-domains",
        ),
        pytest.param(
            [a_pod("web-0").labelled(app="web").on("west-1")],
            web().away_from(term(HOSTNAME, WEB)),
            ALL - {"west-1"},
            id="replicas-keep-apart",
        ),
    ],
)
def test_anti_affinity(pods: list[PodBuilder], pod: PodBuilder, open_to_it: set[str]) -> None:
    assert open_nodes(cluster(*pods), pod) == open_to_it


@pytest.mark.parametrize(
    ("existing", "pod", "open_to_it"),
    [
        pytest.param(
            db().away_from(term(ZONE, WEB)).on("west-1"), web(), {"east-1", "nowhere"}, id="it-shuts-its-zone"
        ),
        pytest.param(db().away_from(term(ZONE, WEB)).on("nowhere"), web(), ALL, id="outside-of-all-zones-it-cannot"),
        pytest.param(db().away_from(term(ZONE, DB)).on("west-1"), web(), ALL, id="it-means-others"),
        pytest.param(db("data").away_from(term(ZONE, WEB)).on("west-1"), web(), ALL, id="it-means-its-own-namespace"),
        pytest.param(
            db("data").away_from(term(ZONE, WEB, namespaces=["models"])).on("west-1"),
            web(),
            {"east-1", "nowhere"},
            id="it-names-our-namespace",
        ),
        pytest.param(
            db("data").away_from(term(ZONE, WEB, namespaceSelector={})).on("west-1"),
            web(),
            {"east-1", "nowhere"},
            id="it-means-all-namespaces",
        ),
        pytest.param(
            db().away_from(term(ZONE, labels(app="llm"), namespaceSelector=labels(team="blue"))).on("west-1"),
            a_pod("llm", "data").labelled(app="llm"),
            {"east-1", "nowhere"},
            id="it-selects-our-namespace-by-label",
        ),
        pytest.param(
            db().away_from(term(ZONE, labels(app="llm"), namespaceSelector=labels(team="blue"))).on("west-1"),
            a_pod("llm", "lab").labelled(app="llm"),
            ALL,
            id="it-selects-another-namespace",
        ),
        pytest.param(
            db()
            .away_from(
                term(ZONE, labels(app="llm"), namespaceSelector=expressions(requirement("team", "DoesNotExist")))
            )
            .on("west-1"),
            a_pod("llm", "unseen").labelled(app="llm"),
            {"east-1", "nowhere"},
            id="an-unseen-namespace-is-taken-to-have-no-labels",
        ),
        pytest.param(
            db().away_from(term(ZONE, WEB)).on("west-1").terminating(),
            web(),
            {"east-1", "nowhere"},
            id="it-is-terminating-but-there",
        ),
    ],
)
def test_anti_affinity_of_pods_that_exist(existing: PodBuilder, pod: PodBuilder, open_to_it: set[str]) -> None:
    assert open_nodes(cluster(existing), pod) == open_to_it


@pytest.mark.parametrize(
    ("namespace", "fields", "avoided"),
    [
        pytest.param("models", {}, True, id="its-own-by-default"),
        pytest.param("data", {}, False, id="no-other-by-default"),
        pytest.param("data", {"namespaces": ["data"]}, True, id="listed"),
        pytest.param("models", {"namespaces": ["data"]}, False, id="a-list-replaces-its-own"),
        pytest.param("data", {"namespaceSelector": labels(team="blue")}, True, id="selected"),
        pytest.param("lab", {"namespaceSelector": labels(team="blue")}, False, id="not-selected"),
        pytest.param("models", {"namespaceSelector": labels(team="blue")}, False, id="a-selector-replaces-its-own"),
        pytest.param("unseen", {"namespaceSelector": {}}, True, id="the-empty-selector-means-all-even-unseen"),
        pytest.param(
            "unseen",
            {"namespaceSelector": expressions(requirement("team", "DoesNotExist"))},
            False,
            id="other-selectors-mean-namespaces-that-are-known",
        ),
        pytest.param(
            "lab", {"namespaces": ["lab"], "namespaceSelector": labels(team="blue")}, True, id="list-or-selector"
        ),
    ],
)
def test_in_which_namespaces_a_pod_looks_for_peers(namespace: str, fields: dict[str, Any], avoided: bool) -> None:
    pod = web().away_from(term(HOSTNAME, DB, **fields))
    found = open_nodes(cluster(db(namespace).on("west-1")), pod)
    assert found == (ALL - {"west-1"} if avoided else ALL)


@pytest.mark.parametrize(
    ("fields", "open_to_it"),
    [
        pytest.param({"matchLabelKeys": ["version"]}, ALL - {"west-2"}, id="only-pods-of-its-own-version"),
        pytest.param({"mismatchLabelKeys": ["version"]}, ALL - {"west-1"}, id="only-pods-of-other-versions"),
        pytest.param({"matchLabelKeys": ["absent"]}, ALL - {"west-1", "west-2"}, id="a-label-it-lacks-is-skipped"),
    ],
)
def test_label_keys_narrow_the_peers(fields: dict[str, Any], open_to_it: set[str]) -> None:
    snapshot = cluster(
        a_pod("old").labelled(app="web", version="1").on("west-1"),
        a_pod("new").labelled(app="web", version="2").on("west-2"),
    )
    pod = web().labelled(version="2").away_from(term(HOSTNAME, WEB, **fields))
    assert open_nodes(snapshot, pod) == open_to_it
