"""The node filters against a second, slow reading of the Kubernetes documentation.

For every random cluster and pod the product and the model must name the same reasons for every node.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.constraints import read_constraints
from shared.core.filters import Filters, admits_load, admits_node, load_exclusions, node_exclusions
from shared.core.nodes import node_facts
from shared.core.peers import Peers
from shared.core.pods import pod_facts
from shared.core.snapshot import NodeState, Snapshot
from tests.scheduler_model import NAMESPACES, REQUIRED, Json, Model, merge_label_keys

HOSTNAME = "kubernetes.io/hostname"
TOPOLOGIES = ("zone", HOSTNAME, "rack")

# --- random clusters -----------------------------------------------------------------------------------------------


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """An object; a field whose value comes out as None is left out."""
    return st.fixed_dictionaries(fields).map(
        lambda made: {key: value for key, value in made.items() if value is not None}
    )


def few(strategy: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=most)


namespaces = st.sampled_from(["red", "red", "red", "blue", "plain", "unseen"])
pod_labels = record(app=st.sampled_from(["web", "db"]), version=maybe(st.sampled_from(["1", "2"])))
amounts = st.sampled_from(["0", "1", "500m", "2", "100m"])
resources = record(
    requests=record(cpu=maybe(amounts), memory=maybe(st.sampled_from(["1Gi", "512Mi", "3Gi"]))),
    limits=record(**{"example.com/fpga": maybe(st.sampled_from(["0", "1", "2"])), "cpu": maybe(st.just("2"))}),
)
ports = few(
    record(
        containerPort=st.sampled_from([80, 81]),
        hostPort=maybe(st.sampled_from([80, 81])),
        protocol=maybe(st.sampled_from(["TCP", "UDP"])),
        hostIP=maybe(st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"])),
    ),
    1,
)
containers = record(name=st.just("c"), resources=resources, ports=ports)
init_containers = record(name=st.just("i"), resources=resources, ports=ports, restartPolicy=maybe(st.just("Always")))
set_based = st.one_of(
    record(
        key=st.sampled_from(["app", "version", "team"]),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from(["web", "db", "1", "red"]), min_size=1, max_size=2),
    ),
    record(key=st.sampled_from(["app", "version", "team"]), operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
pod_selectors = record(
    matchLabels=maybe(record(app=maybe(st.sampled_from(["web", "db"])))), matchExpressions=maybe(few(set_based, 1))
)
namespace_selectors = record(
    matchLabels=maybe(record(team=maybe(st.sampled_from(["red", "blue"])))), matchExpressions=maybe(few(set_based, 1))
)
label_keys = maybe(st.sampled_from([["version"], ["absent"], []]))
pod_terms = record(
    topologyKey=st.sampled_from(TOPOLOGIES),
    labelSelector=maybe(pod_selectors),
    namespaces=maybe(few(namespaces)),
    namespaceSelector=maybe(namespace_selectors),
    matchLabelKeys=label_keys,
    mismatchLabelKeys=label_keys,
)
spread_constraints = record(
    topologyKey=st.sampled_from(["zone", "zone", HOSTNAME, "rack"]),
    maxSkew=st.integers(1, 2),
    whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
    labelSelector=st.just({"matchLabels": {"app": "web"}}) | maybe(pod_selectors),
    matchLabelKeys=label_keys,
    minDomains=maybe(st.integers(1, 3)),
    nodeAffinityPolicy=maybe(st.sampled_from(["Honor", "Ignore"])),
    nodeTaintsPolicy=maybe(st.sampled_from(["Honor", "Ignore"])),
)
node_expressions = st.one_of(
    record(
        key=st.sampled_from(["zone", "gpu"]),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from(["west", "east", "t4", "7"]), min_size=1, max_size=2),
    ),
    record(key=st.sampled_from(["zone", "gpu"]), operator=st.sampled_from(["Exists", "DoesNotExist"])),
    record(key=st.just("gpu"), operator=st.sampled_from(["Gt", "Lt"]), values=st.sampled_from([["7"], ["10"], ["0"]])),
)
node_fields = record(
    key=st.just("metadata.name"),
    operator=st.sampled_from(["In", "NotIn"]),
    values=st.sampled_from([["n0"], ["n1"]]),
)
node_terms = record(matchExpressions=maybe(few(node_expressions)), matchFields=maybe(few(node_fields, 1)))
tolerations = st.one_of(
    record(
        key=maybe(st.sampled_from(["gpu", "node.kubernetes.io/unschedulable"])),
        operator=st.just("Exists"),
        effect=maybe(st.sampled_from(["NoSchedule", "NoExecute"])),
    ),
    record(key=st.just("gpu"), operator=maybe(st.just("Equal")), value=maybe(st.sampled_from(["t4", "5"]))),
    record(key=st.just("gpu"), operator=st.sampled_from(["Gt", "Lt"]), value=st.sampled_from(["4", "10", "04", "x"])),
)
taints = record(
    key=st.sampled_from(["gpu", "team"]),
    value=maybe(st.sampled_from(["t4", "5"])),
    effect=st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
)


@st.composite
def nodes(draw: st.DrawFn, index: int) -> Json:
    labels = draw(record(zone=maybe(st.sampled_from(["west", "east"])), gpu=maybe(st.sampled_from(["t4", "7", "12"]))))
    if draw(st.booleans()):
        labels["rack"] = "1"
    allocatable = draw(
        record(
            cpu=st.sampled_from(["2", "4"]),
            memory=st.sampled_from(["2Gi", "8Gi"]),
            pods=st.sampled_from(["1", "3", "10"]),
            **{"example.com/fpga": maybe(st.just("2"))},
        )
    )
    cordoned = draw(st.sampled_from([False, False, True]))
    return {
        "metadata": {"name": f"n{index}", "labels": {HOSTNAME: f"n{index}", **labels}},
        "spec": {"unschedulable": cordoned, "taints": draw(few(taints, 1))},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": draw(st.sampled_from(["True", "True", "False"]))}],
        },
    }


ASKING = {
    "containers": st.lists(containers, min_size=1, max_size=2),
    "initContainers": few(init_containers),
    "hostNetwork": st.booleans(),
    "overhead": record(cpu=maybe(st.just("100m"))),
}
"""The parts of a pod that take something from its node."""

ASKING_NOTHING = {
    "containers": st.just([]),
    "initContainers": st.just([]),
    "hostNetwork": st.just(False),
    "overhead": st.just({}),
}


@st.composite
def pods(draw: st.DrawFn, name: str, asking: dict[str, st.SearchStrategy[Any]]) -> Json:
    affinity = {
        "podAffinity": {REQUIRED: draw(few(pod_terms))},
        "podAntiAffinity": {REQUIRED: draw(few(pod_terms))},
    }
    return {
        "metadata": {"name": name, "namespace": draw(namespaces), "labels": draw(pod_labels)},
        "spec": {**draw(st.fixed_dictionaries(asking)), "affinity": affinity},
        "status": {"phase": "Pending"},
    }


@st.composite
def existing_pods(draw: st.DrawFn, index: int, node_count: int, asking: dict[str, st.SearchStrategy[Any]]) -> Json:
    """A pod on a node or pinned to one, with what its label keys add merged into its selectors."""
    pod = draw(pods(f"p{index}", asking))
    pod["metadata"]["uid"] = f"uid-{index}"
    if draw(st.sampled_from([False, False, True])):
        pod["metadata"]["deletionTimestamp"] = "2026-11-30T10:00:00Z"
    node = f"n{draw(st.integers(0, node_count - 1))}"
    if draw(st.booleans()):
        pod["spec"]["nodeName"] = node
    else:
        pin = {"key": "metadata.name", "operator": "In", "values": [node]}
        pod["spec"]["affinity"]["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [pin]}]}}
    for anti_term in pod["spec"]["affinity"]["podAntiAffinity"][REQUIRED]:
        merge_label_keys(anti_term, pod["metadata"]["labels"])
    return pod


@st.composite
def incoming_pods(draw: st.DrawFn, asking: dict[str, st.SearchStrategy[Any]]) -> Json:
    pod = draw(pods("incoming", asking))
    pod["spec"] |= draw(
        record(
            nodeName=maybe(st.sampled_from(["n0", "n1"])),
            nodeSelector=maybe(record(zone=maybe(st.sampled_from(["west", "east"])))),
            tolerations=few(tolerations),
            topologySpreadConstraints=few(spread_constraints),
        )
    )
    if draw(st.booleans()):
        required = {"nodeSelectorTerms": draw(few(node_terms))}
        pod["spec"]["affinity"]["nodeAffinity"] = {REQUIRED: required}
    return pod


@st.composite
def clusters(
    draw: st.DrawFn, asking: dict[str, st.SearchStrategy[Any]], most_pods: int
) -> tuple[list[Json], list[Json], Json]:
    """Up to four nodes, the pods on them, and the pod that is to be placed."""
    count = draw(st.integers(1, 4))
    made = [draw(nodes(index)) for index in range(count)]
    running = [draw(existing_pods(index, count, asking)) for index in range(draw(st.integers(0, most_pods)))]
    return made, running, draw(incoming_pods(asking))


# --- the comparison ------------------------------------------------------------------------------------------------


def product(made: list[Json], running: list[Json]) -> Snapshot:
    states = {}
    facts = [each for each in map(pod_facts, running) if each is not None]
    for node in made:
        name = node["metadata"]["name"]
        here = {each.key: each for each in facts if each.node == name}
        states[name] = NodeState.of(node_facts(node), pods=here)
    return Snapshot(states, NAMESPACES)


def assert_agreement(made: list[Json], running: list[Json], pod: Json) -> None:
    snapshot = product(made, running)
    constraints = read_constraints(pod)
    peers = Peers.of(snapshot, constraints)
    model = Model(made, running, pod)
    for node in made:
        state = snapshot.nodes[node["metadata"]["name"]]
        node_reasons = node_exclusions(state.facts, constraints)
        load_reasons = load_exclusions(state, constraints, peers)
        assert set(node_reasons) == model.node_reasons(node)
        assert set(load_reasons) == model.load_reasons(node)
        assert admits_node(state.facts, constraints) == (not node_reasons)
        assert admits_load(state, constraints, peers) == (not load_reasons)


@settings(max_examples=100)
@given(clusters(ASKING, 4))
def test_all_filters_agree_with_the_documentation(cluster: tuple[list[Json], list[Json], Json]) -> None:
    assert_agreement(*cluster)


@settings(max_examples=100)
@given(clusters(ASKING_NOTHING, 8))
def test_the_peers_of_a_pod_agree_with_the_documentation(cluster: tuple[list[Json], list[Json], Json]) -> None:
    assert_agreement(*cluster)


@settings(max_examples=100)
@given(clusters(ASKING, 4))
def test_what_is_worked_out_once_for_all_nodes_that_look_the_same_is_true_of_each(
    cluster: tuple[list[Json], list[Json], Json],
) -> None:
    made, running, pod = cluster
    snapshot, constraints = product(made, running), read_constraints(pod)
    peers = Peers.of(snapshot, constraints)
    filters, named = Filters(constraints, peers), constraints.named_nodes
    for state in (*snapshot, *snapshot):
        assert filters.node_exclusions(state.facts) == node_exclusions(state.facts, constraints)
        assert filters.load_exclusions(state) == load_exclusions(state, constraints, peers)
        if named is not None and state.name not in named:
            assert not admits_node(state.facts, constraints)
