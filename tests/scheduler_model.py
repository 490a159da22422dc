"""kube-scheduler's filters as the Kubernetes documentation has them: a second, slow reading, on raw JSON alone.

It shares no code with the product, so that both can be held against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from fractions import Fraction
from typing import Any

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMESPACES: dict[str, dict[str, str]] = {"red": {"team": "red"}, "blue": {"team": "blue"}, "plain": {}}
"""The namespaces of the tests' own clusters, with their labels."""

_SCALES = {
    **{
        suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P"), -3)
    },
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)},
}
_REASONS = {
    "cpu": "insufficient_cpu",
    "memory": "insufficient_memory",
    "ephemeral-storage": "insufficient_ephemeral_storage",
}
_STAYING = "Always"


def completed(pod: Json) -> Json:
    """A copy of a pod with everything in place that may be left out."""
    whole = deepcopy(pod)
    metadata, spec = whole["metadata"], whole["spec"]
    metadata["labels"] = metadata.get("labels") or {}
    for key, empty in (
        ("tolerations", []),
        ("topologySpreadConstraints", []),
        ("initContainers", []),
        ("overhead", {}),
    ):
        spec[key] = spec.get(key) or empty
    spec["affinity"] = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = spec["affinity"].get(kind) or {}
        spec["affinity"][kind] = {**terms, REQUIRED: terms.get(REQUIRED) or []}
    for container in [*spec["initContainers"], *spec["containers"]]:
        resources = container.get("resources") or {}
        container["resources"] = {kind: resources.get(kind) or {} for kind in ("requests", "limits")}
        container["ports"] = container.get("ports") or []
    return whole


def quantity(amount: object) -> Fraction:
    text = str(amount)
    number = text.rstrip("numkKMGTPi")
    return Fraction(number) * _SCALES[text[len(number) :]]


def is_met(expression: Json, labels: Mapping[str, Any]) -> bool:
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
        for taint in node["spec"].get("taints") or []
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

    spec = pod["spec"]
    everyone = [*spec["initContainers"], *spec["containers"]]
    asked = {resource for each in everyone for amounts in each["resources"].values() for resource in amounts}
    result = {}
    for resource in asked:
        sidecars, peaks = Fraction(0), []
        for container in spec["initContainers"]:
            peaks.append(sidecars + asks(container, resource))
            if container.get("restartPolicy") == _STAYING:
                sidecars += asks(container, resource)
        peaks.append(sidecars + sum(asks(container, resource) for container in spec["containers"]))
        result[resource] = max(peaks)
    of_pod = spec.get("resources") or {}
    for resource in ("cpu", "memory"):
        if resource in (of_pod.get("requests") or {}):
            result[resource] = quantity(of_pod["requests"][resource])
        elif resource in (of_pod.get("limits") or {}) and resource not in asked:
            result[resource] = quantity(of_pod["limits"][resource])
    for resource, amount in spec["overhead"].items():
        result[resource] = result.get(resource, Fraction(0)) + quantity(amount)
    return result


def occupied_ports(pod: Json) -> set[tuple[str, str, int]]:
    staying = [each for each in pod["spec"]["initContainers"] if each.get("restartPolicy") == _STAYING]
    found = set()
    for port in (port for each in [*pod["spec"]["containers"], *staying] for port in each["ports"]):
        number = port.get("hostPort") or (port["containerPort"] if pod["spec"].get("hostNetwork") else None)
        if number:
            found.add((port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number))
    return found


def node_of(pod: Json) -> str:
    """The node that a pod is on, or pinned to."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    terms = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    named = (each["values"][0] for each in terms[0]["matchFields"] if each["operator"] == "In")
    return str(next(named))


def speaks_of(
    term: Json,
    owner: Json,
    pod: Json,
    *,
    looks_around: bool,
    namespaces: Mapping[str, Mapping[str, str]] = NAMESPACES,
) -> bool:
    """Whether `term` of `owner` means `pod`.

    A pod that looks around sees the namespaces that exist; one that is there sees the labels of who comes, if any.
    """
    namespace = pod["metadata"]["namespace"]
    listed, selector = term.get("namespaces") or [], term.get("namespaceSelector")
    if not listed and selector is None:
        listed = [owner["metadata"]["namespace"]]
    known = namespace in namespaces or not looks_around or not any((selector or {}).values())
    in_scope = namespace in listed or (known and selects(selector, dict(namespaces.get(namespace, {}))))
    return in_scope and selects(term.get("labelSelector"), pod["metadata"]["labels"])


class Model:
    """One decision: where `pod` may go in a cluster of `made` nodes with `running` pods."""

    def __init__(
        self,
        made: Sequence[Json],
        running: Sequence[Json],
        pod: Json,
        namespaces: Mapping[str, Mapping[str, str]] = NAMESPACES,
    ) -> None:
        self.nodes = made
        self.running = [completed(each) for each in running]
        self.pod = pod = completed(pod)
        self.namespaces = namespaces
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
            "cordoned": not node["spec"].get("unschedulable")
            or any(tolerates(each, cordon) for each in spec["tolerations"]),
            "untolerated_taint": tolerates_node(self.pod, node),
            "node_name": spec.get("nodeName") in (None, "", node["metadata"]["name"]),
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
                self.shares_domain(labels, each, term) and self.means(term, self.pod, each, looks_around=True)
                for each in self.running
                for term in self.away
            ),
            "existing_anti_affinity": not any(
                self.shares_domain(labels, each, term) and self.means(term, each, self.pod, looks_around=False)
                for each in self.running
                for term in each["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
            ),
            "topology_spread": all(self.is_even(labels, rule) for rule in self.spread),
        }
        for resource, wanted in effective_requests(self.pod).items():
            taken = sum(effective_requests(each).get(resource, 0) for each in here)
            reason = _REASONS.get(resource, "insufficient_resource")
            enough = not wanted or wanted + taken <= quantity(offered.get(resource, "0"))
            checks[reason] = checks.get(reason, True) and enough
        return {reason for reason, passed in checks.items() if not passed}

    def reasons(self, node: Json) -> set[str]:
        """Everything that keeps the pod from a node."""
        return self.node_reasons(node) | self.load_reasons(node)

    def means(self, term: Json, owner: Json, pod: Json, *, looks_around: bool) -> bool:
        return speaks_of(term, owner, pod, looks_around=looks_around, namespaces=self.namespaces)

    def shares_domain(self, labels: Json, pod: Json, term: Json) -> bool:
        key = term["topologyKey"]
        return key in labels and labels[key] == self.labels.get(node_of(pod), {}).get(key)

    def is_near(self, labels: Json) -> bool:
        """Each term needs, in its domain, a pod that all terms mean; if there is none anywhere, the first may come."""
        if not all(term["topologyKey"] in labels for term in self.near):
            return False
        meant = [
            each
            for each in self.running
            if all(self.means(term, self.pod, each, looks_around=True) for term in self.near)
        ]
        if all(any(self.shares_domain(labels, each, term) for each in meant) for term in self.near):
            return True
        in_any_domain = any(
            term["topologyKey"] in self.labels.get(node_of(each), {}) for each in meant for term in self.near
        )
        return not in_any_domain and all(self.means(term, self.pod, self.pod, looks_around=True) for term in self.near)

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


def evicted(node: Json, running: Sequence[Json], pod: Json) -> list[str] | None:
    """The names of the pods that the scheduler evicts from `node`, the only node of `pod`; None if that is no use.

    As the documentation of DefaultPreemption has it, without disruption budgets: all of lower priority go, and as many
    as possible come back, the most important first. Pods that are not bound are not on the node for it.
    """
    there = [each for each in running if each["spec"].get("nodeName") == node["metadata"]["name"]]
    lower = [each for each in there if each["spec"].get("priority", 0) < pod["spec"].get("priority", 0)]
    kept = [each for each in there if each not in lower]
    if Model([node], kept, pod).reasons(node):
        return None
    victims = []
    for each in sorted(lower, key=lambda one: (-one["spec"].get("priority", 0), one["status"]["startTime"])):
        if Model([node], [*kept, each], pod).reasons(node):
            victims.append(each["metadata"]["name"])
        else:
            kept.append(each)
    return victims
