"""What is read of a pod that is to be placed, and how malformed input is refused."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api import names
from shared.core.constraints import ConstraintError, Constraints, read_constraints
from shared.core.invalid import InvalidRequest
from shared.core.nodes import NodeFacts, Taint
from shared.core.pods import PREFERRED
from shared.core.selectors import LabelSelector, NodeSelectorTerm, Requirement
from shared.core.spread import TopologySpreadConstraint
from shared.core.tolerations import Toleration
from tests.builders import REQUIRED, PodBuilder, a_pod, expressions, labels, requirement, term

APP = {"app": "web"}
FULL = (
    a_pod("web", "models")
    .unstored()
    .labelled(app="web", version="2")
    .requesting(cpu="1")
    .host_port(80)
    .selecting(gpu="t4")
    .node_affinity(
        expressions(requirement("zone", "In", "west")), {"matchFields": [requirement("metadata.name", "NotIn", "x")]}
    )
    .tolerating("gpu", "Exists")
    .near(term("zone", labels(app="db"), matchLabelKeys=["version"]))
    .away_from(term("zone", labels(app="web"), mismatchLabelKeys=["version"]))
    .spread_over("zone", labels(app="web"), 2, matchLabelKeys=["version"], minDomains=3, nodeTaintsPolicy="Honor")
    .sidecar("proxy", {"memory": "1Mi"})
    .spec(overhead={"cpu": "1m"}, resources={"limits": {"memory": "1Gi"}}, hostNetwork=False)
)


def is_app(value: str) -> Requirement:
    return Requirement("app", "In", (value,))


def test_all_that_a_pod_can_demand() -> None:
    read = read_constraints(FULL.raw())
    version = Requirement("version", "In", ("2",))
    assert (read.namespace, read.labels) == ("models", {"app": "web", "version": "2"})
    assert read.node_name is None
    assert read.node_selector == {"gpu": "t4"}
    assert read.node_affinity == (
        NodeSelectorTerm(expressions=(Requirement("zone", "In", ("west",)),)),
        NodeSelectorTerm(fields=(Requirement("metadata.name", "NotIn", ("x",)),)),
    )
    assert read.tolerations == (Toleration("gpu", "Exists"),)
    assert read.requests == {"cpu": 1001, "memory": 2**20}
    assert read.host_ports == {("TCP", "0.0.0.0", 80)}
    assert [each.selector for each in read.pod_affinity] == [LabelSelector((is_app("db"), version))]
    assert [each.selector for each in read.pod_anti_affinity] == [
        LabelSelector((is_app("web"), Requirement("version", "NotIn", ("2",))))
    ]
    assert read.topology_spread == (
        TopologySpreadConstraint("zone", 2, LabelSelector((is_app("web"), version)), min_domains=3, honor_taints=True),
    )


def test_a_pod_that_demands_nothing() -> None:
    assert read_constraints({"metadata": {}, "spec": {}}) == Constraints()
    assert read_constraints({}) == Constraints()


def test_null_is_as_good_as_absent() -> None:
    spec = dict.fromkeys(["affinity", "tolerations", "nodeSelector", "containers", "overhead", "nodeName", "resources"])
    assert read_constraints({"metadata": {"labels": None}, "spec": spec}) == Constraints()


def test_what_a_placement_books_itself_is_not_asked_of_the_node() -> None:
    pod = a_pod().requesting(cpu="1").limited_to({names.card_resource(3): "6", names.NVIDIA_GPU: "1"})
    replaced = frozenset({names.NVIDIA_GPU})
    assert read_constraints(pod.raw(), replaced.__contains__).requests == {"cpu": 1000}
    assert read_constraints(pod.raw()).requests == {"cpu": 1000, names.NVIDIA_GPU: 1}


def test_a_request_of_zero_asks_nothing() -> None:
    assert read_constraints(a_pod().requesting(cpu="0").raw()).requests == {}


def test_preferences_constrain_nothing() -> None:
    pod = a_pod().spread_over("zone", labels(app="web"), whenUnsatisfiable="ScheduleAnyway")
    preferred = {"weight": 1, "preference": expressions(requirement("zone", "Exists"))}
    raw = pod.spec(affinity={"nodeAffinity": {PREFERRED: [preferred]}}).raw()
    read = read_constraints(raw)
    assert read.topology_spread == ()
    assert read.node_affinity is None


@pytest.mark.parametrize(
    ("fields", "honors"),
    [
        pytest.param({}, (True, False), id="default"),
        pytest.param({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Ignore"}, (False, False), id="ignore"),
        pytest.param({"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"}, (True, True), id="honor"),
    ],
)
def test_the_inclusion_policies_of_a_spread_constraint(fields: dict[str, Any], honors: tuple[bool, bool]) -> None:
    (rule,) = read_constraints(a_pod().spread_over("zone", None, **fields).raw()).topology_spread
    assert (rule.honor_affinity, rule.honor_taints) == honors


WEST = NodeFacts("node-a", labels={"zone": "west", "gpu": "t4"})


@pytest.mark.parametrize(
    ("pod", "selected"),
    [
        pytest.param(a_pod(), True, id="no-selector"),
        pytest.param(a_pod().selecting(zone="west", gpu="t4"), True, id="all-labels"),
        pytest.param(a_pod().selecting(zone="west", gpu="a10"), False, id="one-label-differs"),
        pytest.param(a_pod().selecting(rack="1"), False, id="label-missing"),
        pytest.param(
            a_pod().node_affinity(
                expressions(requirement("zone", "In", "east")), expressions(requirement("gpu", "Exists"))
            ),
            True,
            id="terms-are-ORed",
        ),
        pytest.param(a_pod().node_affinity(), False, id="affinity-without-terms-selects-nothing"),
        pytest.param(a_pod().node_affinity({}), False, id="empty-term-selects-nothing"),
        pytest.param(
            a_pod().selecting(zone="east").node_affinity(expressions(requirement("gpu", "Exists"))),
            False,
            id="selector-and-affinity-are-ANDed",
        ),
    ],
)
def test_which_nodes_a_pod_selects(pod: PodBuilder, selected: bool) -> None:
    assert read_constraints(pod.raw()).select(WEST) is selected


ON_A = {"matchFields": [requirement("metadata.name", "In", "a")]}
ON_B_IN_WEST = {
    **expressions(requirement("zone", "In", "west")),
    "matchFields": [requirement("metadata.name", "In", "b")],
}


@pytest.mark.parametrize(
    ("pod", "named"),
    [
        pytest.param(a_pod(), None, id="no-word"),
        pytest.param(a_pod().spec(nodeName="a"), {"a"}, id="node-name"),
        pytest.param(a_pod().selecting(zone="west"), None, id="labels-name-no-node"),
        pytest.param(a_pod().node_affinity(ON_A), {"a"}, id="a-daemonset-names-its-node"),
        pytest.param(a_pod().node_affinity(ON_A, ON_B_IN_WEST), {"a", "b"}, id="terms-are-ORed"),
        pytest.param(a_pod().node_affinity(ON_A, expressions(requirement("zone", "Exists"))), None, id="not-all-terms"),
        pytest.param(
            a_pod().node_affinity({"matchFields": [requirement("metadata.name", "NotIn", "a")]}), None, id="all-but-one"
        ),
        pytest.param(a_pod().node_affinity(), None, id="affinity-without-terms"),
    ],
)
def test_which_nodes_a_pod_names(pod: PodBuilder, named: set[str] | None) -> None:
    assert read_constraints(pod.raw()).named_nodes == named


def test_a_pod_tolerates_a_node_if_it_tolerates_all_its_taints() -> None:
    read = read_constraints(a_pod().tolerating("gpu").raw())
    assert read.tolerate(NodeFacts("a", taints=(Taint("gpu", "t4", "NoSchedule"),)))
    assert not read.tolerate(NodeFacts("a", taints=(Taint("gpu", "", "NoSchedule"), Taint("x", "", "NoExecute"))))


NODE_TERM = "spec.affinity.nodeAffinity." + REQUIRED + ".nodeSelectorTerms[0]"
POD_TERM = "spec.affinity.podAffinity." + REQUIRED + "[0]"
SPREAD = "spec.topologySpreadConstraints[0]"


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        pytest.param(a_pod().spec(affinity="none"), "spec.affinity", id="affinity-is-text"),
        pytest.param(a_pod().spec(affinity={"nodeAffinity": []}), "spec.affinity.nodeAffinity", id="affinity-is-list"),
        pytest.param(a_pod().spec(nodeSelector=["gpu"]), "spec.nodeSelector", id="selector-is-list"),
        pytest.param(a_pod().spec(nodeSelector={"gpu": True}), "spec.nodeSelector[gpu]", id="label-is-boolean"),
        pytest.param(a_pod().selecting(gpu="t 4"), "spec.nodeSelector[gpu]", id="label-with-space"),
        pytest.param(
            a_pod().node_affinity(expressions(requirement("a", "Gt", "-1"))),
            NODE_TERM + ".matchExpressions[0].values[0]",
            id="negative-number-is-no-label-value",
        ),
        pytest.param(a_pod().spec(nodeName=7), "spec.nodeName", id="node-name-is-number"),
        pytest.param(a_pod().spec(tolerations={}), "spec.tolerations", id="tolerations-are-object"),
        pytest.param(a_pod().spec(tolerations=[None]), "spec.tolerations[0]", id="toleration-is-null"),
        pytest.param(a_pod().tolerating(operator="Like"), "spec.tolerations[0].operator", id="toleration-operator"),
        pytest.param(
            a_pod().spec(tolerations=[{"operator": ["Equal"]}]), "spec.tolerations[0].operator", id="operator-is-list"
        ),
        pytest.param(
            a_pod().node_affinity(expressions({"operator": "Exists"})),
            NODE_TERM + ".matchExpressions[0].key",
            id="no-key",
        ),
        pytest.param(
            a_pod().node_affinity(expressions({"key": "", "operator": "Exists"})),
            NODE_TERM + ".matchExpressions[0].key",
            id="empty-key",
        ),
        pytest.param(
            a_pod().node_affinity(expressions(requirement("a", "Like", "b"))),
            NODE_TERM + ".matchExpressions[0].operator",
            id="unknown-operator",
        ),
        pytest.param(
            a_pod().node_affinity(expressions(requirement("a", "In"))),
            NODE_TERM + ".matchExpressions[0].values",
            id="In-without-values",
        ),
        pytest.param(
            a_pod().node_affinity(expressions(requirement("a", "Exists", "b"))),
            NODE_TERM + ".matchExpressions[0].values",
            id="Exists-with-values",
        ),
        pytest.param(
            a_pod().node_affinity(expressions(requirement("a", "Gt", "1", "2"))),
            NODE_TERM + ".matchExpressions[0].values",
            id="Gt-with-two-values",
        ),
        pytest.param(
            a_pod().node_affinity(expressions(requirement("a", "Lt", "few"))),
            NODE_TERM + ".matchExpressions[0].values",
            id="Lt-with-a-word",
        ),
        pytest.param(
            a_pod().node_affinity({"matchFields": [requirement("metadata.uid", "In", "a")]}),
            NODE_TERM + ".matchFields[0].key",
            id="unknown-field",
        ),
        pytest.param(
            a_pod().node_affinity({"matchFields": [requirement("metadata.name", "In", "a", "b")]}),
            NODE_TERM + ".matchFields[0].values",
            id="two-names-in-one-field",
        ),
        pytest.param(
            a_pod().node_affinity({"matchFields": [requirement("metadata.name", "Exists")]}),
            NODE_TERM + ".matchFields[0].operator",
            id="field-operator",
        ),
        pytest.param(a_pod().near({"labelSelector": {}}), POD_TERM + ".topologyKey", id="no-topology-key"),
        pytest.param(
            a_pod().near(term("zone", expressions(requirement("a", "Gt", "1")))),
            POD_TERM + ".labelSelector.matchExpressions[0].operator",
            id="label-selectors-know-no-Gt",
        ),
        pytest.param(a_pod().near(term("zone", {}, namespaces="all")), POD_TERM + ".namespaces", id="namespaces-text"),
        pytest.param(a_pod().near("zone"), POD_TERM, id="term-is-text"),  # type: ignore[arg-type]
        pytest.param(a_pod().spread_over("zone", {}, 0), SPREAD + ".maxSkew", id="skew-of-0"),
        pytest.param(a_pod().spread_over("zone", {}, True), SPREAD + ".maxSkew", id="skew-is-boolean"),
        pytest.param(a_pod().spread_over("zone", {}, minDomains="2"), SPREAD + ".minDomains", id="domains-are-text"),
        pytest.param(
            a_pod().spread_over("zone", {}, whenUnsatisfiable=None), SPREAD + ".whenUnsatisfiable", id="no-action"
        ),
        pytest.param(
            a_pod().spread_over("zone", {}, nodeTaintsPolicy="Obey"), SPREAD + ".nodeTaintsPolicy", id="policy"
        ),
        pytest.param(a_pod().requesting(cpu="lots"), "spec.containers[0].resources.requests[cpu]", id="no-quantity"),
        pytest.param(a_pod().requesting(cpu="-1"), "spec.containers[0].resources.requests[cpu]", id="negative"),
        pytest.param(a_pod().spec(overhead={"cpu": []}), "spec.overhead[cpu]", id="overhead-is-list"),
        pytest.param(a_pod().spec(hostNetwork="yes"), "spec.hostNetwork", id="host-network-is-text"),
        pytest.param(
            a_pod().container("x", ports=[{"hostPort": "80"}]),
            "spec.containers[1].ports[0].hostPort",
            id="port-is-text",
        ),
        pytest.param(a_pod().spec(initContainers=[[]]), "spec.initContainers[0]", id="container-is-list"),
    ],
)
def test_a_malformed_pod_is_refused_by_field(pod: PodBuilder, field: str) -> None:
    with pytest.raises(ConstraintError) as refusal:
        read_constraints(pod.raw())
    assert refusal.value.field == field
    assert isinstance(refusal.value, InvalidRequest)


def test_a_pod_that_is_no_object_is_refused() -> None:
    with pytest.raises(ConstraintError, match=r"^pod: 'list': is not an object"):
        read_constraints([])  # type: ignore[arg-type]


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, item in items for path in paths(item, (*here, key)))]


@pytest.mark.parametrize("junk", [None, True, 7, 1.5, "junk", [], ["junk"], {}, {"junk": [{}]}], ids=repr)
def test_whatever_stands_anywhere_nothing_but_a_constraint_error_comes_out(junk: Any) -> None:
    for path in paths(FULL.raw())[1:]:
        raw = FULL.raw()
        parent = raw
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = junk
        try:
            read = read_constraints(raw)
        except ConstraintError:
            continue
        read.select(WEST)
        read.tolerate(WEST)
