"""What is kept of an existing pod, and which pods are charged to a node."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api import names
from shared.core.affinity_terms import PodAffinityTerm
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts, pinned_node, pod_facts
from shared.core.quantity import QuantityError
from shared.core.selectors import LabelSelector, Requirement
from tests.builders import REQUIRED, PodBuilder, a_pod, expressions, labels, requirement, term

BY_NAME = requirement("metadata.name", "In", "node-a")


def test_the_facts_of_a_placed_pod() -> None:
    pod = (
        a_pod("web-1", "models")
        .label("app", "web")
        .label(names.RESERVATION, "abcdefghij")
        .requesting(cpu="500m", memory="1Gi")
        .limited_to({names.card_resource(1): "6", names.card_resource(0): "4"})
        .owned_by("ReplicaSet", "web", "uid-of-web")
        .created("2026-11-30T09:00:00Z")
        .host_port(8080)
        .away_from(term("kubernetes.io/hostname", labels(app="web")))
        .on("node-a")
    )
    assert pod_facts(pod.raw()) == PodFacts(
        key="uid-models-web-1",
        namespace="models",
        name="web-1",
        node="node-a",
        bound=True,
        labels={"app": "web", names.RESERVATION: "abcdefghij"},
        requests={"cpu": 500, "memory": 2**30, names.card_resource(0): 4, names.card_resource(1): 6},
        shares=((0, 4), (1, 6)),
        host_ports=frozenset({("TCP", "0.0.0.0", 8080)}),
        anti_affinity=(
            PodAffinityTerm(
                "kubernetes.io/hostname",
                LabelSelector((Requirement("app", "In", ("web",)),)),
                frozenset({"models"}),
            ),
        ),
        reservation="abcdefghij",
        owner=OwnerRef("apps/v1", "ReplicaSet", "web", "uid-of-web"),
        created="2026-11-30T09:00:00Z",
        running=True,
    )


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod().on("node-a").in_phase("Succeeded"), id="succeeded"),
        pytest.param(a_pod().on("node-a").in_phase("Failed"), id="failed"),
        pytest.param(a_pod(), id="neither-bound-nor-pinned"),
        pytest.param(a_pod().selecting(gpu="t4"), id="bound-by-nothing-but-a-selector"),
    ],
)
def test_a_pod_that_takes_nothing_has_no_facts(pod: PodBuilder) -> None:
    assert pod_facts(pod.raw()) is None


def test_a_pinned_pod_is_charged_to_its_node_before_it_is_bound() -> None:
    facts = a_pod().pinned_to("node-b").facts()
    assert (facts.node, facts.bound) == ("node-b", False)


def test_binding_beats_the_pin() -> None:
    facts = a_pod().pinned_to("node-b").on("node-a").facts()
    assert (facts.node, facts.bound) == ("node-a", True)


def test_a_terminating_pod_still_holds_what_it_has() -> None:
    facts = a_pod().requesting(cpu="1").on("node-a").terminating().facts()
    assert facts.terminating
    assert facts.requests == {"cpu": 1000}


def test_a_promised_pod_is_known_by_its_reservation() -> None:
    facts = a_pod().unstored().label(names.RESERVATION, "abcdefghij").pinned_to("node-a").facts()
    assert facts.key == "abcdefghij"


def test_a_pod_without_a_controller_has_no_owner() -> None:
    assert a_pod().on("node-a").facts().owner is None


def test_shares_follow_the_counting_rule() -> None:
    card = names.card_resource(0)
    pod = a_pod().limited_to({card: "6"}).sidecar("proxy", {card: "2"}).init("setup", {card: "5"}).on("node-a")
    assert pod.facts().shares == ((0, 8),)


def test_a_share_of_nothing_is_no_share() -> None:
    assert a_pod().limited_to({names.card_resource(0): "0"}).on("node-a").facts().shares == ()


def test_a_request_that_is_no_quantity_is_the_caller_s_to_decide() -> None:
    with pytest.raises(QuantityError):
        pod_facts(a_pod().requesting(cpu="lots").on("node-a").raw())


@pytest.mark.parametrize(
    ("pod", "ports"),
    [
        pytest.param(a_pod().host_port(80), {("TCP", "0.0.0.0", 80)}, id="any-address"),
        pytest.param(
            a_pod().host_port(53, "UDP", "10.0.0.1"), {("UDP", "10.0.0.1", 53)}, id="one-address-and-protocol"
        ),
        pytest.param(
            a_pod().container("second", ports=[{"containerPort": 80}]), set(), id="a-container-port-takes-nothing"
        ),
        pytest.param(
            a_pod().container("second", ports=[{"containerPort": 80}]).spec(hostNetwork=True),
            {("TCP", "0.0.0.0", 80)},
            id="in-the-host-network-it-does",
        ),
        pytest.param(
            a_pod().sidecar("proxy", ports=[{"containerPort": 1, "hostPort": 9000}]),
            {("TCP", "0.0.0.0", 9000)},
            id="a-sidecar-keeps-its-port",
        ),
        pytest.param(
            a_pod().init("setup", ports=[{"containerPort": 1, "hostPort": 9000}]),
            set(),
            id="an-init-container-does-not",
        ),
    ],
)
def test_host_ports(pod: PodBuilder, ports: set[tuple[str, str, int]]) -> None:
    assert pod.on("node-a").facts().host_ports == ports


@pytest.mark.parametrize(
    ("stored", "requirements"),
    [
        pytest.param(
            True, (Requirement("app", "In", ("web",)),), id="stored-they-are-merged-and-labels-may-have-changed"
        ),
        pytest.param(
            False,
            (
                Requirement("app", "In", ("web",)),
                Requirement("version", "In", ("2",)),
                Requirement("team", "NotIn", ("red",)),
            ),
            id="promised-they-will-be-merged",
        ),
    ],
)
def test_label_keys_of_anti_affinity(stored: bool, requirements: tuple[Requirement, ...]) -> None:
    rule = term("zone", labels(app="web"), matchLabelKeys=["version"], mismatchLabelKeys=["team", "absent"])
    pod = a_pod().labelled(version="2", team="red").away_from(rule).pinned_to("node-a")
    (read,) = (pod if stored else pod.unstored()).facts().anti_affinity
    assert read.selector == LabelSelector(requirements)


@pytest.mark.parametrize(
    ("rule", "namespaces", "has_selector"),
    [
        pytest.param(term("zone", {}), {"models"}, False, id="without-namespaces-its-own"),
        pytest.param(term("zone", {}, namespaces=["a", "b"]), {"a", "b"}, False, id="listed"),
        pytest.param(term("zone", {}, namespaceSelector={}), set(), True, id="selected"),
        pytest.param(term("zone", {}, namespaceSelector={}, namespaces=["a"]), {"a"}, True, id="both"),
    ],
)
def test_the_namespaces_of_a_term(rule: dict[str, Any], namespaces: set[str], has_selector: bool) -> None:
    (read,) = a_pod().away_from(rule).on("node-a").facts().anti_affinity
    assert read.namespaces == namespaces
    assert (read.namespace_selector is not None) is has_selector


@pytest.mark.parametrize(
    ("terms", "node"),
    [
        pytest.param([{"matchFields": [BY_NAME]}], "node-a", id="one-term"),
        pytest.param(
            [{"matchFields": [BY_NAME]}, {"matchFields": [BY_NAME], **expressions(requirement("gpu", "Exists"))}],
            "node-a",
            id="every-term-names-the-same-node",
        ),
        pytest.param([{"matchFields": [BY_NAME]}, expressions(requirement("gpu", "Exists"))], None, id="a-way-out"),
        pytest.param(
            [{"matchFields": [BY_NAME]}, {"matchFields": [requirement("metadata.name", "In", "node-b")]}],
            None,
            id="two-nodes",
        ),
        pytest.param([{"matchFields": [requirement("metadata.name", "NotIn", "node-a")]}], None, id="all-but-one"),
        pytest.param(
            [{"matchFields": [requirement("metadata.name", "In", "node-a", "node-b")]}], None, id="one-of-two"
        ),
        pytest.param([expressions(requirement("kubernetes.io/hostname", "In", "node-a"))], None, id="by-label"),
        pytest.param([], None, id="no-terms"),
        pytest.param("terms", None, id="not-a-list"),
        pytest.param([None, 7, {"matchFields": "x"}, {"matchFields": [None]}], None, id="not-terms"),
        pytest.param(
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [7]}]}], None, id="not-a-name"
        ),
    ],
)
def test_the_pin_is_the_one_node_that_every_term_names(terms: Any, node: str | None) -> None:
    assert pinned_node({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}) == node


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"affinity": None},
        {"affinity": "x"},
        {"affinity": {"nodeAffinity": []}},
        {"affinity": {"nodeAffinity": {REQUIRED: 1}}},
    ],
)
def test_a_spec_without_node_affinity_is_not_pinned(spec: dict[str, Any]) -> None:
    assert pinned_node(spec) is None
