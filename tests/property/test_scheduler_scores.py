"""The ranking by preferences against a second reading of kube-scheduler's score plugins and their default weights.

The model works on the raw JSON alone and shares no code with the product.
"""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.constraints import read_constraints
from shared.core.ranking import preferred_first
from tests.property.test_scheduler_filters import (
    ASKING_NOTHING,
    HOSTNAME,
    clusters,
    node_terms,
    pod_terms,
    product,
    spread_constraints,
)
from tests.scheduler_model import (
    Json,
    Model,
    is_met,
    merge_label_keys,
    node_of,
    selects,
    selects_node,
    speaks_of,
    tolerates,
    tolerates_node,
)

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
weights = st.sampled_from([1, 10, 100])


@st.composite
def preferring(draw: st.DrawFn) -> tuple[list[Json], list[Json], Json]:
    nodes, running, pod = draw(clusters(ASKING_NOTHING, 8))
    affinity = pod["spec"]["affinity"]
    preferred_nodes = st.fixed_dictionaries({"weight": weights, "preference": node_terms})
    preferred_pods = st.fixed_dictionaries({"weight": weights, "podAffinityTerm": pod_terms})
    affinity.setdefault("nodeAffinity", {})[PREFERRED] = draw(st.lists(preferred_nodes, max_size=2))
    affinity["podAffinity"][PREFERRED] = draw(st.lists(preferred_pods, max_size=2))
    affinity["podAntiAffinity"][PREFERRED] = draw(st.lists(preferred_pods, max_size=1))
    soft = [{**rule, "whenUnsatisfiable": "ScheduleAnyway"} for rule in draw(st.lists(spread_constraints, max_size=2))]
    pod["spec"]["topologySpreadConstraints"] = soft
    return nodes, running, pod


class Scores:
    """Points of every node for one pod."""

    def __init__(self, nodes: list[Json], running: list[Json], pod: Json) -> None:
        self.nodes, self.running, self.pod = nodes, running, pod
        self.labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
        affinity = pod["spec"]["affinity"]
        self.pod_terms = [(1, term) for term in affinity["podAffinity"][PREFERRED]]
        self.pod_terms += [(-1, term) for term in affinity["podAntiAffinity"][PREFERRED]]
        self.rules = pod["spec"]["topologySpreadConstraints"]
        for rule in [*(term["podAffinityTerm"] for _, term in self.pod_terms), *self.rules]:
            merge_label_keys(rule, pod["metadata"]["labels"])

    def total(self) -> dict[str, int]:
        taints = [self.taints(node) for node in self.nodes]
        wanted = [self.wanted(node) for node in self.nodes]
        near = [self.near(node) for node in self.nodes]
        spread = self.spread()
        result = {}
        for place, node in enumerate(self.nodes):
            points = 3 * (100 - (100 * taints[place] // max(taints) if max(taints) else 0))
            points += 2 * (100 * wanted[place] // max(wanted) if max(wanted) else 0)
            if max(near) > min(near):
                points += 2 * (100 * (near[place] - min(near)) // (max(near) - min(near)))
            result[node["metadata"]["name"]] = points + 2 * spread[node["metadata"]["name"]]
        return result

    def taints(self, node: Json) -> int:
        return sum(
            taint["effect"] == "PreferNoSchedule"
            and not any(tolerates(each, taint) for each in self.pod["spec"]["tolerations"])
            for taint in node["spec"]["taints"]
        )

    def wanted(self, node: Json) -> int:
        labels, name = node["metadata"]["labels"], {"metadata.name": node["metadata"]["name"]}
        total = 0
        for term in self.pod["spec"]["affinity"]["nodeAffinity"][PREFERRED]:
            by_label = term["preference"].get("matchExpressions") or []
            by_field = term["preference"].get("matchFields") or []
            met = all(is_met(each, labels) for each in by_label) and all(is_met(each, name) for each in by_field)
            total += term["weight"] if met and (by_label or by_field) else 0
        return total

    def near(self, node: Json) -> int:
        """Every pod that a term means counts in its own domain of that term."""
        total = 0
        for sign, term in self.pod_terms:
            rule = term["podAffinityTerm"]
            here = node["metadata"]["labels"].get(rule["topologyKey"])
            for each in self.running:
                there = self.labels[node_of(each)].get(rule["topologyKey"])
                if here is not None and here == there and speaks_of(rule, self.pod, each, looks_around=True):
                    total += sign * term["weight"]
        return total

    def spread(self) -> dict[str, int]:
        names = [name for name, labels in self.labels.items() if all(r["topologyKey"] in labels for r in self.rules)]
        raw: dict[str, float] = dict.fromkeys(names, 0.0)
        for rule in self.rules:
            key = rule["topologyKey"]
            size = len(names) if key == HOSTNAME else len({self.labels[name][key] for name in names})
            for name in names:
                raw[name] += self.pods_beside(rule, name) * math.log(size + 2) + rule["maxSkew"] - 1
        rounded = {name: math.floor(value + 0.5) for name, value in raw.items()}
        most, least = max(rounded.values(), default=0), min(rounded.values(), default=0)
        points = {name: 100 * (most + least - value) // most if most else 100 for name, value in rounded.items()}
        return {name: points.get(name, 0) for name in self.labels}

    def pods_beside(self, rule: Json, name: str) -> int:
        key = rule["topologyKey"]
        return sum(
            each["metadata"]["namespace"] == self.pod["metadata"]["namespace"]
            and "deletionTimestamp" not in each["metadata"]
            and Model.counts(rule.get("labelSelector"))
            and selects(rule.get("labelSelector"), each["metadata"]["labels"])
            for each in self.running
            if (node_of(each) == name if key == HOSTNAME else self.counts_for(rule, node_of(each), name))
        )

    def counts_for(self, rule: Json, there: str, here: str) -> bool:
        node = next(each for each in self.nodes if each["metadata"]["name"] == there)
        key, labels = rule["topologyKey"], self.labels[there]
        honored = (rule.get("nodeAffinityPolicy", "Honor") != "Honor" or selects_node(self.pod, node)) and (
            rule.get("nodeTaintsPolicy", "Ignore") != "Honor" or tolerates_node(self.pod, node)
        )
        complete = all(other["topologyKey"] in labels for other in self.rules)
        return honored and complete and labels.get(key) == self.labels[here][key]


@settings(max_examples=100)
@given(preferring())
def test_the_ranking_agrees_with_the_scheduler(cluster: tuple[list[Json], list[Json], Json]) -> None:
    nodes, running, pod = cluster
    snapshot = product(nodes, running)
    constraints = read_constraints(pod)
    ranked = [state.name for state in preferred_first(iter(snapshot), snapshot, constraints)]
    points = Scores(nodes, running, pod).total()
    assert ranked == sorted(points, key=lambda name: -points[name])
