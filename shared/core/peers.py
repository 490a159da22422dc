"""Where the pods that run already let one more go: pod affinity, anti-affinity from both sides, spread.

Worked out once per decision over all nodes; after that a node is judged by its labels alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from shared.core.affinity_terms import PodAffinityTerm
from shared.core.constraints import Constraints
from shared.core.pod_index import PodLook
from shared.core.snapshot import NodeState, Snapshot
from shared.core.spread import Spread

Domains: TypeAlias = Mapping[str, set[str]]
"""Topology key to the values of it (zones, host names, ...) where certain pods run."""

_NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Peers:
    """What the pods of a cluster mean for one more pod.

    `wanted` are the domains with a pod that its affinity asks for, all of `affinity_keys` among them needed;
    `starts_group` says that there is none anywhere and the pod is itself of the kind it asks for, so it may
    be the first. `avoided` are the domains that its anti-affinity rules out, `barred` those from which the
    anti-affinity of pods there keeps it. `claim_in_use` says that one of them has a volume claim that it needs and
    that is for one pod at a time.
    """

    affinity_keys: tuple[str, ...] = ()
    wanted: Domains = field(default_factory=dict)
    starts_group: bool = False
    avoided: Domains = field(default_factory=dict)
    barred: Domains = field(default_factory=dict)
    spread: Spread = field(default_factory=Spread)
    claim_in_use: bool = False
    admit_all: bool = field(init=False, repr=False, compare=False)
    """Whether no label of a node could keep the pod away."""

    def __post_init__(self) -> None:
        told = self.affinity_keys or self.avoided or self.barred or self.spread.limits
        object.__setattr__(self, "admit_all", not told)

    @classmethod
    def of(cls, snapshot: Snapshot, constraints: Constraints) -> Peers:
        """The peers of a pod with `constraints`."""
        affinity = tuple(by_name(term, snapshot) for term in constraints.pod_affinity)
        wanted = _domains_with_all(affinity, snapshot)
        return cls(
            affinity_keys=tuple(term.topology_key for term in affinity),
            wanted=wanted,
            starts_group=bool(affinity)
            and not wanted
            and all(term.selects(constraints.namespace, constraints.labels, _NO_LABELS) for term in affinity),
            avoided=_domains_with_any(constraints.pod_anti_affinity, snapshot),
            barred=_barred(snapshot, constraints),
            spread=Spread.of(snapshot, constraints),
            claim_in_use=_is_claim_in_use(snapshot, constraints),
        )

    def meets_affinity(self, node_labels: Mapping[str, str]) -> bool:
        """Whether a node is in the domains with the pods that this one wants to be near."""
        if not self.affinity_keys:
            return True
        if not all(key in node_labels for key in self.affinity_keys):
            return False
        return self.starts_group or all(node_labels[key] in self.wanted.get(key, ()) for key in self.affinity_keys)

    def meets_anti_affinity(self, node_labels: Mapping[str, str]) -> bool:
        """Whether a node is outside the domains with the pods that this one avoids."""
        return not _within(self.avoided, node_labels)

    def is_welcome(self, node_labels: Mapping[str, str]) -> bool:
        """Whether no pod in the domains of a node avoids this one."""
        return not _within(self.barred, node_labels)


def _domains_with_all(terms: tuple[PodAffinityTerm, ...], snapshot: Snapshot) -> Domains:
    """For the key of each term, the domains with a pod that all terms speak of."""
    if not terms:
        return {}
    nodes = snapshot.indexed.pods(lambda look: all(speaks_of(term, look) for term in terms))
    domains = {term.topology_key: _domains_of(nodes, term.topology_key, snapshot) for term in terms}
    return {key: values for key, values in domains.items() if values}


def _domains_with_any(terms: tuple[PodAffinityTerm, ...], snapshot: Snapshot) -> Domains:
    """For the key of each term, the domains with a pod that this term speaks of."""
    domains: dict[str, set[str]] = {}
    for term in terms:
        nodes = snapshot.indexed.pods(partial(speaks_of, by_name(term, snapshot)))
        domains.setdefault(term.topology_key, set()).update(_domains_of(nodes, term.topology_key, snapshot))
    return domains


def _domains_of(nodes: Iterable[str], key: str, snapshot: Snapshot) -> set[str]:
    """The values of a label on those of `nodes` that have it."""
    labelled = snapshot.indexed.labelled(key)
    return {labelled[node] for node in nodes if node in labelled}


def _barred(snapshot: Snapshot, constraints: Constraints) -> Domains:
    """The domains where a pod has a term that speaks of the one with `constraints`."""
    own_namespace_labels = snapshot.namespaces.get(constraints.namespace, _NO_LABELS)
    domains: dict[str, set[str]] = {}
    for state in snapshot.indexed.repelling():
        for pod in state.repelling:
            for term in pod.anti_affinity:
                if term.selects(constraints.namespace, constraints.labels, own_namespace_labels):
                    _record(domains, term, state)
    return domains


def _is_claim_in_use(snapshot: Snapshot, constraints: Constraints) -> bool:
    """Whether a pod has a claim that is for one pod at a time, wherever it runs."""
    known = snapshot.volumes.claims
    for_one = {
        use.name for use in constraints.claims if use.key is not None and use.key in known and known[use.key].one_pod
    }
    return bool(for_one) and any(
        pod.namespace == constraints.namespace and not for_one.isdisjoint(pod.claims)
        for state in snapshot
        for pod in state.pods.values()
    )


def by_name(term: PodAffinityTerm, snapshot: Snapshot) -> PodAffinityTerm:
    """`term` with the namespaces that exist and are selected listed by name. Selecting all stays as it is."""
    selector = term.namespace_selector
    if selector is None or not selector.requirements:
        return term
    selected = {name for name, labels in snapshot.namespaces.items() if selector.matches(labels)}
    return replace(term, namespaces=term.namespaces | selected, namespace_selector=None)


def speaks_of(term: PodAffinityTerm, look: PodLook) -> bool:
    """Whether pods that look like this are among those that `term`, with its namespaces by name, speaks of."""
    return term.selects(look.namespace, look.labels, _NO_LABELS)


def _record(domains: dict[str, set[str]], term: PodAffinityTerm, state: NodeState) -> None:
    value = state.facts.labels.get(term.topology_key)
    if value is not None:
        domains.setdefault(term.topology_key, set()).add(value)


def _within(domains: Domains, node_labels: Mapping[str, str]) -> bool:
    for key, values in domains.items():  # noqa: SIM110 - asked for every node of a cluster, and faster than any()
        if node_labels.get(key) in values:
            return True
    return False
