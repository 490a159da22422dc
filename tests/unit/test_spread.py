"""`DoNotSchedule` topology spread: skew, minDomains, who counts and where."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.constraints import read_constraints
from shared.core.snapshot import Snapshot
from shared.core.spread import Spread
from tests.builders import HOSTNAME, NodeBuilder, PodBuilder, a_cluster, a_node, a_pod, labels

WEB = labels(app="web")


def node(name: str, zone: str) -> NodeBuilder:
    return a_node(name).labelled(zone=zone)


def webs(*counts: tuple[str, int], namespace: str = "models") -> list[PodBuilder]:
    """So many web pods on each node."""
    return [
        a_pod(f"web-{name}-{number}", namespace).labelled(app="web").on(name)
        for name, count in counts
        for number in range(count)
    ]


def web() -> PodBuilder:
    return a_pod("web").labelled(app="web")


def open_nodes(snapshot: Snapshot, pod: PodBuilder) -> set[str]:
    spread = Spread.of(snapshot, read_constraints(pod.raw()))
    return {state.name for state in snapshot if spread.allows(state.facts.labels)}


NODES = [node("a", "west"), node("b", "west"), node("c", "east")]


@pytest.mark.parametrize(
    ("pods", "pod", "open_to_it"),
    [
        pytest.param(webs(("a", 9)), web(), {"a", "b", "c"}, id="no-constraint"),
        pytest.param([], web().spread_over("zone", WEB), {"a", "b", "c"}, id="the-first-pod-goes-anywhere"),
        pytest.param(webs(("a", 1)), web().spread_over("zone", WEB), {"c"}, id="the-second-goes-elsewhere"),
        pytest.param(
            webs(("a", 1), ("c", 1)), web().spread_over("zone", WEB), {"a", "b", "c"}, id="level-again-all-are-open"
        ),
        pytest.param(
            webs(("a", 1), ("b", 1)), web().spread_over("zone", WEB, 2), {"c"}, id="the-nodes-of-a-zone-count-together"
        ),
        pytest.param(webs(("a", 1)), web().spread_over("zone", WEB, 2), {"a", "b", "c"}, id="a-larger-skew"),
        pytest.param(webs(("a", 1)), web().spread_over(HOSTNAME, WEB), {"b", "c"}, id="by-node"),
        pytest.param(
            webs(("a", 1)),
            web().spread_over("zone", WEB).spread_over(HOSTNAME, WEB, 5),
            {"c"},
            id="all-constraints-hold",
        ),
        pytest.param(
            webs(("a", 1)),
            a_pod("db").labelled(app="db").spread_over("zone", WEB),
            {"a", "b", "c"},
            id="a-pod-that-does-not-count-itself-makes-no-skew",
        ),
        pytest.param(
            webs(("a", 2)),
            a_pod("db").labelled(app="db").spread_over("zone", WEB),
            {"c"},
            id="but-it-keeps-to-the-skew-of-the-others",
        ),
        pytest.param(
            webs(("a", 1), namespace="other"), web().spread_over("zone", WEB), {"a", "b", "c"}, id="other-namespace"
        ),
        pytest.param(
            [pod.terminating() for pod in webs(("a", 1))],
            web().spread_over("zone", WEB),
            {"a", "b", "c"},
            id="terminating-pods-do-not-count",
        ),
        pytest.param(
            [a_pod("other").labelled(app="web").pinned_to("a")],
            web().spread_over("zone", WEB),
            {"c"},
            id="a-pinned-pod-counts-as-there",
        ),
        pytest.param(
            webs(("a", 9)), web().spread_over("zone", None), {"a", "b", "c"}, id="an-absent-selector-counts-nobody"
        ),
        pytest.param(
            webs(("a", 9)), web().spread_over("zone", {}), {"a", "b", "c"}, id="an-empty-selector-counts-nobody"
        ),
        pytest.param(webs(("a", 9)), web().spread_over("rack", WEB), set(), id="a-node-without-the-topology-is-shut"),
        pytest.param(
            [a_pod("old").labelled(app="web", version="1").on("a")],
            web().labelled(version="2").spread_over("zone", WEB, matchLabelKeys=["version"]),
            {"a", "b", "c"},
            id="matchLabelKeys-count-one-version",
        ),
        pytest.param(
            [a_pod("old").labelled(app="web", version="2").on("a")],
            web().labelled(version="2").spread_over("zone", {}, matchLabelKeys=["version"]),
            {"c"},
            id="matchLabelKeys-give-an-empty-selector-a-condition",
        ),
        pytest.param([], web().spread_over("zone", WEB, minDomains=2), {"a", "b", "c"}, id="enough-domains"),
        pytest.param(
            webs(("a", 1), ("c", 1)),
            web().spread_over("zone", WEB, minDomains=3),
            set(),
            id="with-too-few-domains-the-emptiest-counts-as-empty",
        ),
    ],
)
def test_spread(pods: list[PodBuilder], pod: PodBuilder, open_to_it: set[str]) -> None:
    assert open_nodes(a_cluster(NODES, pods), pod) == open_to_it


def test_a_node_that_lacks_one_topology_key_counts_for_no_constraint() -> None:
    bare = a_node("bare")
    snapshot = a_cluster([*NODES, bare], webs(("a", 1), ("c", 1)))
    pod = web().spread_over("zone", WEB, 5).spread_over(HOSTNAME, WEB, 1)
    assert open_nodes(snapshot, pod) == {"b"}, "the empty node without a zone must not lower the minimum"


@pytest.mark.parametrize(
    ("shut", "demand", "fields", "open_to_it"),
    [
        pytest.param(node("c", "east"), {"zone": "west"}, {}, {"a", "b", "c"}, id="unselected-zones-do-not-count"),
        pytest.param(
            node("c", "east"),
            {"zone": "west"},
            {"nodeAffinityPolicy": "Ignore"},
            {"c"},
            id="unless-affinity-is-ignored",
        ),
        pytest.param(node("c", "east").tainted("gpu"), {}, {}, {"c"}, id="tainted-zones-count"),
        pytest.param(
            node("c", "east").tainted("gpu"),
            {},
            {"nodeTaintsPolicy": "Honor"},
            {"a", "b", "c"},
            id="unless-taints-are-honored",
        ),
        pytest.param(
            node("c", "east").tainted("gpu", effect="PreferNoSchedule"),
            {},
            {"nodeTaintsPolicy": "Honor"},
            {"c"},
            id="a-soft-taint-does-not-shut-a-zone",
        ),
        pytest.param(node("c", "east").cordoned(), {}, {}, {"c"}, id="cordoned-zones-count"),
    ],
)
def test_which_nodes_count(
    shut: NodeBuilder, demand: dict[str, str], fields: dict[str, Any], open_to_it: set[str]
) -> None:
    """Two web pods in the west, none in the east; node `c` in the east may be one that the pod cannot use."""
    snapshot = a_cluster([node("a", "west"), node("b", "west"), shut], webs(("a", 1), ("b", 1)))
    pod = web().selecting(**demand).spread_over("zone", WEB, **fields)
    assert open_nodes(snapshot, pod) == open_to_it


def test_with_no_node_that_counts_every_domain_is_empty() -> None:
    pod = web().selecting(zone="north").spread_over("zone", WEB)
    assert open_nodes(a_cluster(NODES, webs(("a", 3))), pod) == {"a", "b", "c"}
