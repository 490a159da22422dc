"""How evenly `DoNotSchedule` constraints want the pods of a group spread, and which nodes that leaves open.

The count is made over all nodes that the pod may use, before it is pinned to one: once it is pinned the
scheduler sees a single domain and every skew is fine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.core.selectors import LabelSelector, Operator, label_key_requirements, read_label_selector

if TYPE_CHECKING:
    from shared.core.constraints import Constraints
    from shared.core.snapshot import NodeState, Snapshot

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """No domain of `topology_key` may hold more than `max_skew` selected pods above the emptiest domain.

    With fewer than `min_domains` domains the emptiest counts as empty. `honor_affinity` and `honor_taints`
    leave out of the count the nodes which the pod cannot use for these reasons.
    """

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


def read_topology_spread(
    raw: Iterable[Mapping[str, Any]] | None, labels: Mapping[str, str], unsatisfiable: str = DO_NOT_SCHEDULE
) -> tuple[TopologySpreadConstraint, ...]:
    """The constraints of a pod with `labels` that say `unsatisfiable` of nodes which do not meet them."""
    return tuple(_read_constraint(each, labels) for each in raw or () if each.get("whenUnsatisfiable") == unsatisfiable)


@dataclass(frozen=True, slots=True)
class DomainLimit:
    """A constraint, worked out: the selected pods by domain, and the most that an open domain may hold."""

    topology_key: str
    counts: Mapping[str, int]
    most: int

    def allows(self, node_labels: Mapping[str, str]) -> bool:
        domain = node_labels.get(self.topology_key)
        return domain is not None and self.counts.get(domain, 0) <= self.most


@dataclass(frozen=True, slots=True)
class Spread:
    """The limits that all spread constraints of one pod put on its nodes."""

    limits: tuple[DomainLimit, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot, constraints: Constraints) -> Spread:
        """The limits for a pod with `constraints`, from all pods in `snapshot`."""
        rules = constraints.topology_spread
        if not rules:
            return cls()
        labelled = [snapshot.indexed.labelled(rule.topology_key) for rule in rules]
        nodes = labelled[0].keys() if len(labelled) == 1 else set(labelled[0]).intersection(*labelled[1:])
        return cls(
            tuple(
                _limit(rule, domains, nodes, snapshot, constraints)
                for rule, domains in zip(rules, labelled, strict=True)
            )
        )

    def allows(self, node_labels: Mapping[str, str]) -> bool:
        """Whether the pod may go to a node with these labels."""
        return not self.limits or all(limit.allows(node_labels) for limit in self.limits)


def _limit(
    rule: TopologySpreadConstraint,
    domains: Mapping[str, str],
    nodes: Set[str],
    snapshot: Snapshot,
    constraints: Constraints,
) -> DomainLimit:
    """The limit among `nodes`, each of which `domains` gives a domain."""
    if _depends_on_node(rule, constraints):
        nodes = {node for node in nodes if is_counted(rule, snapshot.nodes[node], constraints)}
    if len(nodes) < len(domains):
        domains = {node: domains[node] for node in nodes}
    counts = dict.fromkeys(domains.values(), 0)
    for node, pods in selected_pods(rule, snapshot, constraints.namespace).items():
        domain = domains.get(node)
        if domain is not None:
            counts[domain] += pods
    emptiest = min(counts.values()) if len(counts) >= max(1, rule.min_domains) else 0
    counts_itself = rule.selector is not None and rule.selector.matches(constraints.labels)
    return DomainLimit(rule.topology_key, counts, most=rule.max_skew + emptiest - int(counts_itself))


def _depends_on_node(rule: TopologySpreadConstraint, constraints: Constraints) -> bool:
    """Whether `is_counted` may tell one node from another."""
    selects = bool(constraints.node_selector) or constraints.node_affinity is not None
    return rule.honor_taints or (rule.honor_affinity and selects)


def is_counted(rule: TopologySpreadConstraint, state: NodeState, constraints: Constraints) -> bool:
    """Whether the pods of a node count, by the policies of a constraint."""
    if rule.honor_affinity and not constraints.select(state.facts):
        return False
    return not rule.honor_taints or constraints.tolerate(state.facts)


def selected_pods(rule: TopologySpreadConstraint, snapshot: Snapshot, namespace: str) -> Mapping[str, int]:
    """The pods that count, by node: not the terminating ones, and none if the selector has no conditions."""
    if rule.selector is None or not rule.selector.requirements:
        return {}
    selects = rule.selector.matches
    return snapshot.indexed.pods(
        lambda look: look.namespace == namespace and not look.terminating and selects(look.labels)
    )


def _read_constraint(raw: Mapping[str, Any], labels: Mapping[str, str]) -> TopologySpreadConstraint:
    selector = read_label_selector(raw.get("labelSelector"))
    if selector is not None:
        selector = selector.narrowed(label_key_requirements(raw.get("matchLabelKeys"), labels, Operator.IN))
    return TopologySpreadConstraint(
        topology_key=raw["topologyKey"],
        max_skew=raw["maxSkew"],
        selector=selector,
        min_domains=raw.get("minDomains") or 1,
        honor_affinity=(raw.get("nodeAffinityPolicy") or HONOR) == HONOR,
        honor_taints=raw.get("nodeTaintsPolicy") == HONOR,
    )
