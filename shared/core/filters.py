"""Which nodes a pod may go to: the filters of kube-scheduler, each with a word for the explanation.

Node filters look at the node alone, load filters at what runs there and around it. Both name every check that
fails, not only the first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import StrEnum

from shared.api import names
from shared.core.constraints import Constraints
from shared.core.nodes import NodeFacts, Taint
from shared.core.peers import Peers
from shared.core.pods import ANY_ADDRESS, HostPort
from shared.core.snapshot import NodeState
from shared.core.tolerations import untolerated
from shared.core.volumes import ANYWHERE


class Exclusion(StrEnum):
    """Why a pod may not go to a node."""

    NOT_READY = "not_ready"
    CORDONED = "cordoned"
    UNTOLERATED_TAINT = "untolerated_taint"
    NODE_NAME = "node_name"
    NODE_SELECTOR = "node_selector"
    VOLUME = "volume"
    VOLUME_TO_COME = "volume_to_come"
    CLAIM_IN_USE = "claim_in_use"
    TOO_MANY_PODS = "too_many_pods"
    INSUFFICIENT_CPU = "insufficient_cpu"
    INSUFFICIENT_MEMORY = "insufficient_memory"
    INSUFFICIENT_EPHEMERAL_STORAGE = "insufficient_ephemeral_storage"
    INSUFFICIENT_HUGEPAGES = "insufficient_hugepages"
    INSUFFICIENT_RESOURCE = "insufficient_resource"
    HOST_PORT = "host_port"
    POD_AFFINITY = "pod_affinity"
    POD_ANTI_AFFINITY = "pod_anti_affinity"
    EXISTING_ANTI_AFFINITY = "existing_anti_affinity"
    TOPOLOGY_SPREAD = "topology_spread"

    @property
    def is_lack(self) -> bool:
        """Whether the node has too little of something that pods use up, or what others use now."""
        return self in _LACKS

    def words(self, nodes: int) -> str:
        """How many nodes it excludes, for a text: `2 cordoned`."""
        many = "s" if self is Exclusion.UNTOLERATED_TAINT and nodes > 1 else ""
        return f"{nodes} {_WORDS[self]}{many}"


_LACKS = frozenset(
    {
        Exclusion.CLAIM_IN_USE,
        Exclusion.TOO_MANY_PODS,
        Exclusion.INSUFFICIENT_CPU,
        Exclusion.INSUFFICIENT_MEMORY,
        Exclusion.INSUFFICIENT_EPHEMERAL_STORAGE,
        Exclusion.INSUFFICIENT_HUGEPAGES,
        Exclusion.INSUFFICIENT_RESOURCE,
        Exclusion.HOST_PORT,
    }
)
_WORDS = {
    Exclusion.NOT_READY: "not ready",
    Exclusion.CORDONED: "cordoned",
    Exclusion.UNTOLERATED_TAINT: "untolerated taint",
    Exclusion.NODE_NAME: "not named by spec.nodeName",
    Exclusion.NODE_SELECTOR: "not selected by nodeSelector or node affinity",
    Exclusion.VOLUME: "where its volume cannot go",
    Exclusion.VOLUME_TO_COME: "without a volume for its claim",
    Exclusion.CLAIM_IN_USE: "kept out while another pod uses its claim",
    Exclusion.TOO_MANY_PODS: "without a free pod slot",
    Exclusion.INSUFFICIENT_CPU: "short of cpu",
    Exclusion.INSUFFICIENT_MEMORY: "short of memory",
    Exclusion.INSUFFICIENT_EPHEMERAL_STORAGE: "short of ephemeral-storage",
    Exclusion.INSUFFICIENT_HUGEPAGES: "short of hugepages",
    Exclusion.INSUFFICIENT_RESOURCE: "short of another resource",
    Exclusion.HOST_PORT: "with the host port taken",
    Exclusion.POD_AFFINITY: "away from the pods of its pod affinity",
    Exclusion.POD_ANTI_AFFINITY: "ruled out by its pod anti-affinity",
    Exclusion.EXISTING_ANTI_AFFINITY: "ruled out by other pods' anti-affinity",
    Exclusion.TOPOLOGY_SPREAD: "ruled out by topology spread",
}

_CORDON = Taint(names.TAINT_UNSCHEDULABLE, "", "NoSchedule")

# These taints repeat what the node says of itself: a cordoned node is to be called cordoned, once.
_STATES = {
    names.TAINT_UNSCHEDULABLE: Exclusion.CORDONED,
    names.TAINT_NOT_READY: Exclusion.NOT_READY,
    names.TAINT_UNREACHABLE: Exclusion.NOT_READY,
}
_RESOURCES = {
    names.CPU: Exclusion.INSUFFICIENT_CPU,
    names.MEMORY: Exclusion.INSUFFICIENT_MEMORY,
    names.EPHEMERAL_STORAGE: Exclusion.INSUFFICIENT_EPHEMERAL_STORAGE,
}


def node_exclusions(node: NodeFacts, constraints: Constraints) -> tuple[Exclusion, ...]:
    """What keeps the pod from a node whatever runs there; empty if nothing does."""
    return tuple(sorted(set(_node_exclusions(node, constraints)), key=_ORDER.__getitem__))


class Filters:
    """What the filters say for one pod, worked out once in a decision.

    What is said of a node itself is the same for all nodes that look the same to the pod.
    """

    __slots__ = ("_constraints", "_keys", "_load", "_names_matter", "_node", "_peers")

    def __init__(self, constraints: Constraints, peers: Peers) -> None:
        terms = constraints.node_affinity or ()
        expressions = (requirement.key for term in terms for requirement in term.expressions)
        self._constraints = constraints
        self._peers = peers
        self._keys = tuple({*constraints.node_selector, *expressions})
        self._names_matter = (
            constraints.node_name is not None or constraints.reach != ANYWHERE or any(term.fields for term in terms)
        )
        self._node: dict[Hashable, tuple[Exclusion, ...]] = {}
        self._load: dict[str, tuple[Exclusion, ...]] = {}

    def node_exclusions(self, node: NodeFacts) -> tuple[Exclusion, ...]:
        """What keeps the pod from `node` whatever runs there; empty if nothing does."""
        look: Hashable = node.name
        if not self._names_matter:
            look = node.ready, node.unschedulable, node.taints, tuple(map(node.labels.get, self._keys))
        known = self._node.get(look)
        if known is None:
            known = self._node[look] = node_exclusions(node, self._constraints)
        return known

    def load_exclusions(self, state: NodeState) -> tuple[Exclusion, ...]:
        """What keeps the pod from a node because of the pods there and around it; empty if nothing does."""
        known = self._load.get(state.facts.name)
        if known is None:
            known = self._load[state.facts.name] = load_exclusions(state, self._constraints, self._peers)
        return known

    def other_shortages(self, state: NodeState) -> tuple[str, ...]:
        """The resources by name behind `INSUFFICIENT_RESOURCE`."""
        lacking = _lacking(state, self._constraints)
        return tuple(sorted(each for each in lacking if _shortage(each) is Exclusion.INSUFFICIENT_RESOURCE))


def load_exclusions(state: NodeState, constraints: Constraints, peers: Peers) -> tuple[Exclusion, ...]:
    """What keeps the pod from a node because of the pods there and around it; empty if nothing does."""
    reasons = _load_exclusions(state, constraints, peers)
    return tuple(reasons) if len(reasons) < 2 else tuple(sorted(set(reasons), key=_ORDER.__getitem__))


def admits_node(node: NodeFacts, constraints: Constraints) -> bool:
    """Whether `node_exclusions` is empty, without looking for more than one."""
    return next(_node_exclusions(node, constraints), None) is None


def admits_load(state: NodeState, constraints: Constraints, peers: Peers) -> bool:
    """Whether `load_exclusions` is empty."""
    return not _load_exclusions(state, constraints, peers)


_ORDER = {exclusion: place for place, exclusion in enumerate(Exclusion)}


def _node_exclusions(node: NodeFacts, constraints: Constraints) -> Iterator[Exclusion]:
    if not node.ready:
        yield Exclusion.NOT_READY
    if node.unschedulable and not _tolerates_cordon(constraints):
        yield Exclusion.CORDONED
    for taint in untolerated(node.taints, constraints.tolerations):
        yield _STATES.get(taint.key, Exclusion.UNTOLERATED_TAINT)
    if constraints.node_name is not None and constraints.node_name != node.name:
        yield Exclusion.NODE_NAME
    if not constraints.select(node):
        yield Exclusion.NODE_SELECTOR
    if not constraints.reach.covers(node.name, node.labels):
        yield Exclusion.VOLUME
    if not constraints.reach.can_grow_to(node.name, node.labels):
        yield Exclusion.VOLUME_TO_COME


def _load_exclusions(state: NodeState, constraints: Constraints, peers: Peers) -> list[Exclusion]:
    reasons = [_shortage(resource) for resource in _lacking(state, constraints)]
    if len(state.pods) >= state.facts.allocatable.get(names.POD_SLOTS, 0):
        reasons.append(Exclusion.TOO_MANY_PODS)
    if constraints.host_ports and _has_port_conflict(state, constraints):
        reasons.append(Exclusion.HOST_PORT)
    if peers.claim_in_use:
        reasons.append(Exclusion.CLAIM_IN_USE)
    if peers.admit_all:
        return reasons
    labels = state.facts.labels
    if not peers.meets_affinity(labels):
        reasons.append(Exclusion.POD_AFFINITY)
    if not peers.meets_anti_affinity(labels):
        reasons.append(Exclusion.POD_ANTI_AFFINITY)
    if not peers.is_welcome(labels):
        reasons.append(Exclusion.EXISTING_ANTI_AFFINITY)
    if not peers.spread.allows(labels):
        reasons.append(Exclusion.TOPOLOGY_SPREAD)
    return reasons


def _lacking(state: NodeState, constraints: Constraints) -> list[str]:
    allocatable, requested = state.facts.allocatable, state.requested
    return [
        resource
        for resource, amount in constraints.requests.items()
        if amount > allocatable.get(resource, 0) - requested.get(resource, 0)
    ]


def _tolerates_cordon(constraints: Constraints) -> bool:
    return not any(untolerated((_CORDON,), constraints.tolerations))


def _shortage(resource: str) -> Exclusion:
    if resource.startswith(names.HUGEPAGES_PREFIX):
        return Exclusion.INSUFFICIENT_HUGEPAGES
    return _RESOURCES.get(resource, Exclusion.INSUFFICIENT_RESOURCE)


def _has_port_conflict(state: NodeState, constraints: Constraints) -> bool:
    return any(
        _conflict(wanted, taken)
        for pod in state.pods.values()
        for taken in pod.host_ports
        for wanted in constraints.host_ports
    )


def _conflict(one: HostPort, other: HostPort) -> bool:
    """Whether two host ports exclude each other: same protocol and port, on one address or one on all."""
    (protocol, address, port), (other_protocol, other_address, other_port) = one, other
    if (protocol, port) != (other_protocol, other_port):
        return False
    return address == other_address or ANY_ADDRESS in (address, other_address)
