"""The node filters against a second, slow reading of the Kubernetes documentation.

The model below works on the raw JSON alone and shares no code with the product. For every random cluster and pod both
must name the same reasons for every node.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.constraints import read_constraints
from shared.core.filters import admits_load, admits_node, load_exclusions, node_exclusions
from shared.core.nodes import node_facts
from shared.core.peers import Peers
from shared.core.pods import pod_facts
from shared.core.snapshot import NodeState, Snapshot

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
TOPOLOGIES = ("zone", HOSTNAME, "rack")
NAMESPACES: dict[str, dict[str, str]] = {"red": {"team": "red"}, "blue": {"team": "blue"}, "plain": {}}

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


# --- the model: the documentation, word by word --------------------------------------------------------------------


def quantity(text: str) -> Fraction:
    for suffix, scale in {"m": Fraction(1, 1000), "Gi": Fraction(2**30), "Mi": Fraction(2**20)}.items():
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * scale
    return Fraction(text)


def is_met(expression: Json, labels: Json) -> bool:
    key, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt":
            return labels.get(key, "").isdigit() and int(labels[key]) > int(values[0])
        case "Lt":
            return labels.get(key, "").isdigit() and int(labels[key]) < int(values[0])
    raise AssertionError(expression)


def selects(selector: Json | None, labels: Json) -> bool:
    """A null selector matches no objects, an empty one all."""
    if selector is None:
        return False
    return (selector.get("matchLabels") or {}).items() <= labels.items() and all(
        is_met(expression, labels) for expression in selector.get("matchExpressions") or []
    )


def merge_label_keys(rule: Json, labels: Json) -> None:
    """What the API server does with (mis)matchLabelKeys when it stores a pod."""
    if rule.get("labelSelector") is None:
        return
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in rule.get(name) or []:
            if key in labels:
                expression = {"key": key, "operator": operator, "values": [labels[key]]}
                selector = rule["labelSelector"]
                rule["labelSelector"] = selector | {
                    "matchExpressions": [*(selector.get("matchExpressions") or []), expression]
                }


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    ours, theirs = toleration.get("value", ""), taint.get("value", "")
    match toleration.get("operator", "Equal"):
        case "Exists":
            return True
        case "Equal":
            return bool(ours == theirs)
        case operator:
            if not (ours.isdigit() and theirs.isdigit()) or (ours != "0" and ours.startswith("0")):
                return False
            return int(theirs) > int(ours) if operator == "Gt" else int(theirs) < int(ours)


def tolerates_node(pod: Json, node: Json) -> bool:
    return all(
        taint["effect"] == "PreferNoSchedule" or any(tolerates(each, taint) for each in pod["spec"]["tolerations"])
        for taint in node["spec"]["taints"]
    )


def selects_node(pod: Json, node: Json) -> bool:
    labels, name = node["metadata"]["labels"], {"metadata.name": node["metadata"]["name"]}
    if not (pod["spec"].get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = pod["spec"]["affinity"].get("nodeAffinity")
    if affinity is None or REQUIRED not in affinity:
        return True
    for term in affinity[REQUIRED]["nodeSelectorTerms"]:
        by_label, by_field = term.get("matchExpressions") or [], term.get("matchFields") or []
        empty = not by_label and not by_field
        if not empty and all(is_met(e, labels) for e in by_label) and all(is_met(e, name) for e in by_field):
            return True
    return False


def effective_requests(pod: Json) -> dict[str, Fraction]:
    """The most that runs at any one time: each init container in its turn, and then all that stay."""

    def asks(container: Json, resource: str) -> Fraction:
        given = container["resources"]
        return quantity(given["requests"].get(resource) or given["limits"].get(resource) or "0")

    result = {}
    for resource in ("cpu", "memory", "example.com/fpga"):
        sidecars, peaks = Fraction(0), []
        for container in pod["spec"]["initContainers"]:
            peaks.append(sidecars + asks(container, resource))
            if container.get("restartPolicy") == "Always":
                sidecars += asks(container, resource)
        peaks.append(sidecars + sum(asks(container, resource) for container in pod["spec"]["containers"]))
        overhead = quantity(pod["spec"]["overhead"].get(resource) or "0")
        result[resource] = max(peaks) + overhead
    return result


def occupied_ports(pod: Json) -> set[tuple[str, str, int]]:
    staying = [each for each in pod["spec"]["initContainers"] if each.get("restartPolicy") == "Always"]
    found = set()
    for port in (port for each in [*pod["spec"]["containers"], *staying] for port in each["ports"]):
        number = port.get("hostPort") or (port["containerPort"] if pod["spec"]["hostNetwork"] else None)
        if number:
            found.add((port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number))
    return found


def node_of(pod: Json) -> str:
    if "nodeName" in pod["spec"]:
        return str(pod["spec"]["nodeName"])
    terms = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def speaks_of(term: Json, owner: Json, pod: Json, *, looks_around: bool) -> bool:
    """Whether `term` of `owner` means `pod`.

    A pod that looks around sees the namespaces that exist; one that is there sees the labels of who comes, if any.
    """
    namespace = pod["metadata"]["namespace"]
    listed, selector = term.get("namespaces") or [], term.get("namespaceSelector")
    if not listed and selector is None:
        listed = [owner["metadata"]["namespace"]]
    known = namespace in NAMESPACES or not looks_around or not any((selector or {}).values())
    in_scope = namespace in listed or (known and selects(selector, NAMESPACES.get(namespace, {})))
    return in_scope and selects(term.get("labelSelector"), pod["metadata"]["labels"])


class Model:
    """One decision: where `pod` may go in a cluster of `made` nodes with `running` pods."""

    def __init__(self, made: list[Json], running: list[Json], pod: Json) -> None:
        self.nodes = made
        self.running = running
        self.pod = pod
        self.labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in made}
        spec = pod["spec"]
        self.near = spec["affinity"]["podAffinity"][REQUIRED]
        self.away = spec["affinity"]["podAntiAffinity"][REQUIRED]
        self.spread = [c for c in spec["topologySpreadConstraints"] if c["whenUnsatisfiable"] == "DoNotSchedule"]
        for rule in [*self.near, *self.away, *self.spread]:
            merge_label_keys(rule, pod["metadata"]["labels"])

    def node_reasons(self, node: Json) -> set[str]:
        cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        spec = self.pod["spec"]
        checks = {
            "not_ready": node["status"]["conditions"][0]["status"] == "True",
            "cordoned": not node["spec"]["unschedulable"]
            or any(tolerates(each, cordon) for each in spec["tolerations"]),
            "untolerated_taint": tolerates_node(self.pod, node),
            "node_name": spec.get("nodeName") in (None, node["metadata"]["name"]),
            "node_selector": selects_node(self.pod, node),
        }
        return {name for name, passed in checks.items() if not passed}

    def load_reasons(self, node: Json) -> set[str]:
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        here = [each for each in self.running if node_of(each) == name]
        offered = node["status"]["allocatable"]
        checks = {
            "too_many_pods": len(here) + 1 <= int(offered["pods"]),
            "host_port": not any(
                one[0] == two[0] and one[2] == two[2] and (one[1] == two[1] or "0.0.0.0" in (one[1], two[1]))
                for one in occupied_ports(self.pod)
                for each in here
                for two in occupied_ports(each)
            ),
            "pod_affinity": self.is_near(labels),
            "pod_anti_affinity": not any(
                self.shares_domain(labels, each, term) and speaks_of(term, self.pod, each, looks_around=True)
                for each in self.running
                for term in self.away
            ),
            "existing_anti_affinity": not any(
                self.shares_domain(labels, each, term) and speaks_of(term, each, self.pod, looks_around=False)
                for each in self.running
                for term in each["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
            ),
            "topology_spread": all(self.is_even(labels, rule) for rule in self.spread),
        }
        for resource, wanted in effective_requests(self.pod).items():
            taken = sum(effective_requests(each)[resource] for each in here)
            reason = {"cpu": "insufficient_cpu", "memory": "insufficient_memory"}.get(resource, "insufficient_resource")
            checks[reason] = not wanted or wanted + taken <= quantity(offered.get(resource, "0"))
        return {reason for reason, passed in checks.items() if not passed}

    def shares_domain(self, labels: Json, pod: Json, term: Json) -> bool:
        key = term["topologyKey"]
        return key in labels and labels[key] == self.labels[node_of(pod)].get(key)

    def is_near(self, labels: Json) -> bool:
        """Each term needs, in its domain, a pod that all terms mean; if there is none anywhere, the first may come."""
        if not all(term["topologyKey"] in labels for term in self.near):
            return False
        meant = [
            each
            for each in self.running
            if all(speaks_of(term, self.pod, each, looks_around=True) for term in self.near)
        ]
        if all(any(self.shares_domain(labels, each, term) for each in meant) for term in self.near):
            return True
        in_any_domain = any(term["topologyKey"] in self.labels[node_of(each)] for each in meant for term in self.near)
        return not in_any_domain and all(speaks_of(term, self.pod, self.pod, looks_around=True) for term in self.near)

    def is_even(self, labels: Json, rule: Json) -> bool:
        key, selector = rule["topologyKey"], rule.get("labelSelector")
        if key not in labels:
            return False
        domains: dict[str, int] = {}
        for node in self.nodes:
            has_all_keys = all(each["topologyKey"] in node["metadata"]["labels"] for each in self.spread)
            excluded = (rule.get("nodeAffinityPolicy", "Honor") == "Honor" and not selects_node(self.pod, node)) or (
                rule.get("nodeTaintsPolicy", "Ignore") == "Honor" and not tolerates_node(self.pod, node)
            )
            if not has_all_keys or excluded:
                continue
            domain = node["metadata"]["labels"][key]
            domains[domain] = domains.get(domain, 0) + sum(
                node_of(each) == node["metadata"]["name"]
                and each["metadata"]["namespace"] == self.pod["metadata"]["namespace"]
                and "deletionTimestamp" not in each["metadata"]
                and self.counts(selector)
                and selects(selector, each["metadata"]["labels"])
                for each in self.running
            )
        minimum = min(domains.values(), default=0) if len(domains) >= rule.get("minDomains", 1) else 0
        itself = int(selects(selector, self.pod["metadata"]["labels"]))
        return bool(domains.get(labels[key], 0) + itself - minimum <= rule["maxSkew"])

    @staticmethod
    def counts(selector: Json | None) -> bool:
        """The scheduler counts no pod for a selector without conditions."""
        return selector is not None and any(selector.values())


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


@settings(max_examples=100, deadline=None)
@given(clusters(ASKING, 4))
def test_all_filters_agree_with_the_documentation(cluster: tuple[list[Json], list[Json], Json]) -> None:
    assert_agreement(*cluster)


@settings(max_examples=100, deadline=None)
@given(clusters(ASKING_NOTHING, 8))
def test_the_peers_of_a_pod_agree_with_the_documentation(cluster: tuple[list[Json], list[Json], Json]) -> None:
    assert_agreement(*cluster)
