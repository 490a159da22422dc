"""Node and load filters: every reason a node is excluded for, and that all of them are named."""

from __future__ import annotations

import pytest

from shared.api import names
from shared.core.constraints import read_constraints
from shared.core.filters import Exclusion, admits_load, admits_node, load_exclusions, node_exclusions
from shared.core.nodes import node_facts
from shared.core.peers import Peers
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

WEB = labels(app="web")


@pytest.mark.parametrize(
    ("node", "pod", "reasons"),
    [
        pytest.param(a_node(), a_pod(), [], id="nothing-in-the-way"),
        pytest.param(a_node().not_ready(), a_pod(), ["not_ready"], id="not-ready"),
        pytest.param(a_node().not_ready("Unknown"), a_pod(), ["not_ready"], id="unreachable"),
        pytest.param(a_node().cordoned(), a_pod(), ["cordoned"], id="cordoned-is-said-once"),
        pytest.param(a_node().cordoned(), a_pod().tolerating(names.TAINT_UNSCHEDULABLE), [], id="cordon-tolerated"),
        pytest.param(
            a_node().cordoned(),
            a_pod().tolerating(names.TAINT_UNSCHEDULABLE, effect="NoExecute"),
            ["cordoned"],
            id="cordon-tolerated-with-another-effect",
        ),
        pytest.param(a_node().cordoned(), a_pod().tolerating(), [], id="everything-tolerated"),
        pytest.param(
            a_node().not_ready().tainted(names.TAINT_NOT_READY),
            a_pod(),
            ["not_ready"],
            id="the-taint-of-a-broken-node-says-the-same",
        ),
        pytest.param(
            a_node().tainted(names.TAINT_UNREACHABLE, effect="NoExecute"),
            a_pod(),
            ["not_ready"],
            id="the-taint-alone-says-it-too",
        ),
        pytest.param(
            a_node().tainted(names.TAINT_NOT_READY, effect="NoExecute"),
            a_pod().tolerating(names.TAINT_NOT_READY, effect="NoExecute"),
            [],
            id="as-soon-as-the-node-is-ready-a-tolerated-taint-is-fine",
        ),
        pytest.param(a_node().tainted("gpu"), a_pod(), ["untolerated_taint"], id="NoSchedule"),
        pytest.param(a_node().tainted("gpu", effect="NoExecute"), a_pod(), ["untolerated_taint"], id="NoExecute"),
        pytest.param(a_node().tainted("gpu", effect="PreferNoSchedule"), a_pod(), [], id="PreferNoSchedule"),
        pytest.param(a_node().tainted("gpu"), a_pod().tolerating("gpu"), [], id="taint-tolerated"),
        pytest.param(
            a_node().tainted("gpu").tainted("team"), a_pod(), ["untolerated_taint"], id="two-taints-are-one-reason"
        ),
        pytest.param(a_node(), a_pod().spec(nodeName="node-a"), [], id="its-own-node-name"),
        pytest.param(a_node(), a_pod().spec(nodeName="node-b"), ["node_name"], id="another-node-name"),
        pytest.param(a_node(), a_pod().selecting(gpu="t4"), ["node_selector"], id="node-selector"),
        pytest.param(
            a_node().labelled(gpu="t4"),
            a_pod().node_affinity(expressions(requirement("gpu", "NotIn", "t4"))),
            ["node_selector"],
            id="node-affinity",
        ),
        pytest.param(a_node(), a_pod().pinned_to("node-b"), ["node_selector"], id="pinned-elsewhere"),
        pytest.param(
            a_node().not_ready().cordoned().tainted("gpu"),
            a_pod().selecting(gpu="t4").spec(nodeName="node-b"),
            ["not_ready", "cordoned", "untolerated_taint", "node_name", "node_selector"],
            id="all-reasons-are-named",
        ),
    ],
)
def test_what_keeps_a_pod_from_a_node_itself(node: NodeBuilder, pod: PodBuilder, reasons: list[str]) -> None:
    facts, constraints = node_facts(node.raw()), read_constraints(pod.raw())
    assert list(node_exclusions(facts, constraints)) == reasons
    assert admits_node(facts, constraints) == (not reasons)


def small() -> NodeBuilder:
    """A node with 4 cores, 8 GiB and room for 3 pods."""
    return a_node().offering(cpu="4", memory="8Gi", pods="3")


def other(name: str = "other") -> PodBuilder:
    return a_pod(name).on("node-a")


@pytest.mark.parametrize(
    ("node", "pods", "pod", "reasons"),
    [
        pytest.param(small(), [], a_pod().requesting(cpu="4", memory="8Gi"), [], id="exactly-fits-an-empty-node"),
        pytest.param(
            small(), [other().requesting(cpu="1")], a_pod().requesting(cpu="3"), [], id="exactly-fits-what-is-left"
        ),
        pytest.param(
            small(),
            [other().requesting(cpu="1")],
            a_pod().requesting(cpu="3001m"),
            ["insufficient_cpu"],
            id="a-millicore-too-much",
        ),
        pytest.param(small(), [], a_pod().requesting(memory="9Gi"), ["insufficient_memory"], id="memory"),
        pytest.param(
            small(),
            [],
            a_pod().requesting({"ephemeral-storage": "1"}),
            ["insufficient_ephemeral_storage"],
            id="a-resource-the-node-does-not-offer",
        ),
        pytest.param(
            small().offering({"hugepages-2Mi": "2Mi"}),
            [],
            a_pod().limited_to({"hugepages-2Mi": "4Mi"}),
            ["insufficient_hugepages"],
            id="hugepages",
        ),
        pytest.param(
            small().offering({"example.com/fpga": "1"}),
            [other().limited_to({"example.com/fpga": "1"})],
            a_pod().limited_to({"example.com/fpga": "1"}),
            ["insufficient_resource"],
            id="extended-resource-taken",
        ),
        pytest.param(
            small(),
            [other().requesting(cpu="9")],
            a_pod().requesting(memory="1Gi"),
            [],
            id="an-overcommitted-resource-matters-only-to-who-asks-for-it",
        ),
        pytest.param(
            small(),
            [other().requesting(cpu="3").terminating()],
            a_pod().requesting(cpu="2"),
            ["insufficient_cpu"],
            id="a-terminating-pod-holds-its-share",
        ),
        pytest.param(
            small(),
            [a_pod("other").pinned_to("node-a").requesting(cpu="3")],
            a_pod().requesting(cpu="2"),
            ["insufficient_cpu"],
            id="a-pinned-pod-holds-its-share-before-it-is-bound",
        ),
        pytest.param(small(), [other("a"), other("b")], a_pod(), [], id="the-last-pod-slot"),
        pytest.param(small(), [other("a"), other("b"), other("c")], a_pod(), ["too_many_pods"], id="no-pod-slot"),
        pytest.param(small().offering(pods="0"), [], a_pod(), ["too_many_pods"], id="a-node-for-no-pods"),
        pytest.param(
            small(),
            [],
            a_pod().requesting(cpu="1").spec(overhead={"cpu": "3500m"}),
            ["insufficient_cpu"],
            id="overhead-counts",
        ),
        pytest.param(
            a_node(),
            [other().away_from(term(HOSTNAME, WEB)).labelled(app="db")],
            a_pod().labelled(app="web"),
            ["existing_anti_affinity"],
            id="kept-away-by-another-pod",
        ),
        pytest.param(
            a_node(),
            [other().labelled(app="web")],
            a_pod().labelled(app="web").away_from(term(HOSTNAME, WEB)),
            ["pod_anti_affinity"],
            id="keeps-away-from-another-pod",
        ),
        pytest.param(
            a_node(), [], a_pod().near(term(HOSTNAME, WEB)), ["pod_affinity"], id="nobody-there-to-be-near-to"
        ),
        pytest.param(
            a_node(), [], a_pod().spread_over("zone", WEB), ["topology_spread"], id="outside-of-the-spread-topology"
        ),
        pytest.param(
            small().offering(pods="1"),
            [other().labelled(app="web").host_port(80).away_from(term(HOSTNAME, labels(app="llm")))],
            a_pod()
            .labelled(app="llm")
            .requesting(cpu="5", memory="9Gi")
            .limited_to({"ephemeral-storage": "1", "hugepages-1Gi": "1Gi", "example.com/a": "1", "example.com/b": "1"})
            .host_port(80)
            .near(term(HOSTNAME, labels(app="db")))
            .away_from(term(HOSTNAME, WEB))
            .spread_over("zone", WEB),
            [
                "too_many_pods",
                "insufficient_cpu",
                "insufficient_memory",
                "insufficient_ephemeral_storage",
                "insufficient_hugepages",
                "insufficient_resource",
                "host_port",
                "pod_affinity",
                "pod_anti_affinity",
                "existing_anti_affinity",
                "topology_spread",
            ],
            id="all-reasons-are-named-once",
        ),
    ],
)
def test_what_keeps_a_pod_from_a_node_because_of_other_pods(
    node: NodeBuilder, pods: list[PodBuilder], pod: PodBuilder, reasons: list[str]
) -> None:
    snapshot = a_cluster([node], pods)
    constraints = read_constraints(pod.raw())
    peers = Peers.of(snapshot, constraints)
    state = snapshot.nodes["node-a"]
    assert list(load_exclusions(state, constraints, peers)) == reasons
    assert admits_load(state, constraints, peers) == (not reasons)


@pytest.mark.parametrize(
    ("taken", "wanted", "conflict"),
    [
        pytest.param(("TCP", ""), ("TCP", ""), True, id="any-against-any"),
        pytest.param(("TCP", "0.0.0.0"), ("TCP", "10.0.0.1"), True, id="any-against-one"),
        pytest.param(("TCP", "10.0.0.1"), ("TCP", "0.0.0.0"), True, id="one-against-any"),
        pytest.param(("TCP", "10.0.0.1"), ("TCP", "10.0.0.1"), True, id="one-against-the-same"),
        pytest.param(("TCP", "10.0.0.1"), ("TCP", "10.0.0.2"), False, id="one-against-another"),
        pytest.param(("TCP", ""), ("UDP", ""), False, id="another-protocol"),
        pytest.param(("TCP", "::"), ("TCP", "10.0.0.1"), False, id="only-0.0.0.0-stands-for-any"),
    ],
)
def test_host_ports_exclude_each_other(taken: tuple[str, str], wanted: tuple[str, str], conflict: bool) -> None:
    state = a_node().state(other().host_port(80, *taken))
    constraints = read_constraints(a_pod().host_port(80, *wanted).raw())
    assert load_exclusions(state, constraints, Peers()) == ((Exclusion.HOST_PORT,) if conflict else ())


def test_other_port_numbers_do_not_conflict() -> None:
    state = a_node().state(other().host_port(80))
    assert admits_load(state, read_constraints(a_pod().host_port(81).raw()), Peers())


def test_every_exclusion_has_words_for_a_text() -> None:
    assert Exclusion.CORDONED.words(2) == "2 cordoned"
    assert len({exclusion.words(1) for exclusion in Exclusion}) == len(Exclusion)


@pytest.mark.parametrize("pressure", ["memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable"])
def test_the_taints_by_which_kubernetes_marks_a_node_under_pressure_are_taints_like_others(pressure: str) -> None:
    key = f"node.kubernetes.io/{pressure}"
    node = node_facts(a_node().tainted(key).raw())
    assert node_exclusions(node, read_constraints(a_pod().raw())) == (Exclusion.UNTOLERATED_TAINT,)
    assert node_exclusions(node, read_constraints(a_pod().tolerating(key).raw())) == ()


def test_a_toleration_for_a_while_is_enough_to_be_placed() -> None:
    node = node_facts(a_node().tainted("gpu", effect="NoExecute").raw())
    toleration = {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    assert node_exclusions(node, read_constraints(a_pod().spec(tolerations=[toleration]).raw())) == ()
