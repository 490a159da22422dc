"""What a decision needs to know of a pod that exists: a projection of its JSON, kept instead of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, TypeAlias

from shared.api import names
from shared.core.affinity_terms import PodAffinityTerm, read_pod_affinity_terms
from shared.core.owners import OwnerRef, controller_of
from shared.core.pod_requests import is_sidecar, pod_requests
from shared.core.pod_warnings import read_warnings
from shared.core.units import Units, units_among

Raw: TypeAlias = Mapping[str, Any]
"""JSON of a Kubernetes object as the API server sends it."""

Amounts: TypeAlias = Mapping[str, int]
"""Resource name to amount: cpu in millicores, everything else in its base unit (bytes, pieces)."""

HostPort: TypeAlias = tuple[str, str, int]
"""Protocol, host address (`0.0.0.0` for any) and port."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_TERMINAL = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod on a node, or pinned to one, as far as later placements depend on it.

    `key` is its uid; of a pod that was promised and is yet to be seen it is made of its reservation id. `requests`
    follows the scheduler's counting rule (max of init containers and the sum of the others, sidecars added, overhead on
    top) and holds the per-card resources too. `shares` are those per-card GB by slot.
    """

    key: str
    namespace: str
    name: str
    node: str
    bound: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    requests: Amounts = field(default_factory=dict)
    shares: tuple[tuple[int, int], ...] = ()
    host_ports: frozenset[HostPort] = frozenset()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    terminating: bool = False
    reservation: str | None = None
    owner: OwnerRef | None = None
    created: str = ""
    running: bool = False
    claims: tuple[str, ...] = ()
    """The volume claims that it uses, by name."""
    gated: bool = False
    """Whether the scheduler does not look at it yet."""
    priority: int = 0
    started: str = ""
    """When the kubelet took it up; empty until then."""
    warnings: tuple[str, ...] = ()
    """What its creator was warned of when it was placed."""

    @property
    def units(self) -> Units:
        """The units of vendor resources among its requests."""
        return units_among(self.requests)

    @property
    def is_placed(self) -> bool:
        """Whether it holds something that a placement gave it: a share of a card, or units and a reservation's id."""
        return bool(self.shares) or (self.reservation is not None and bool(self.units))


def pod_facts(raw: Raw) -> PodFacts | None:
    """The facts of a pod, or None if it takes nothing from a node we know: finished, or not bound nor pinned.

    `raw` is a pod as the API server stores it, or one without a uid that it is about to store. Raises
    `QuantityError` where a request is no quantity.
    """
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    if status.get("phase") in _TERMINAL:
        return None
    bound_to = spec.get("nodeName")
    node = bound_to or pinned_node(spec)
    if not node:
        return None
    uid = metadata.get("uid")
    namespace = metadata.get("namespace") or ""
    labels = interned(metadata.get("labels"))
    reservation = labels.get(names.RESERVATION)
    requests = {intern(resource): amount for resource, amount in pod_requests(spec, status).items()}
    affinity = spec.get("affinity") or {}
    return PodFacts(
        key=uid or reservation or "",
        namespace=intern(namespace),
        name=metadata.get("name") or "",
        node=intern(node),
        bound=bool(bound_to),
        labels=labels,
        requests=requests,
        shares=card_shares(requests),
        host_ports=host_ports(spec),
        anti_affinity=read_pod_affinity_terms(
            (affinity.get("podAntiAffinity") or {}).get(REQUIRED), namespace, None if uid else labels
        ),
        terminating=metadata.get("deletionTimestamp") is not None,
        reservation=reservation,
        owner=controller_of(raw),
        created=metadata.get("creationTimestamp") or "",
        running=status.get("phase") == "Running",
        claims=tuple(
            intern(volume["persistentVolumeClaim"]["claimName"])
            for volume in spec.get("volumes") or ()
            if volume.get("persistentVolumeClaim")
        ),
        gated=bool(spec.get("schedulingGates")),
        priority=spec.get("priority") or 0,
        started=status.get("startTime") or "",
        warnings=tuple(map(intern, read_warnings(metadata.get("annotations")))),
    )


def pinned_node(spec: Raw) -> str | None:
    """The one node that every term of the required node affinity names, or None. Accepts any JSON."""
    node_affinity = _object(_object(spec.get("affinity")).get("nodeAffinity"))
    terms = _object(node_affinity.get(REQUIRED)).get("nodeSelectorTerms")
    if not isinstance(terms, list) or not terms:
        return None
    nodes = {_named_node(term) for term in terms}
    return nodes.pop() if len(nodes) == 1 else None


def card_shares(requests: Amounts) -> tuple[tuple[int, int], ...]:
    """The GB by slot among `requests`."""
    shares = ((names.card_index(resource), amount) for resource, amount in requests.items() if amount)
    return tuple(sorted((index, amount) for index, amount in shares if index is not None))


def host_ports(spec: Raw) -> frozenset[HostPort]:
    """The ports that a pod occupies on its node while it runs: in the host's network, all its ports."""
    in_host_network = bool(spec.get("hostNetwork"))
    occupied = set()
    for port in _ports(spec):
        number = port.get("hostPort") or (port.get("containerPort") if in_host_network else None) or 0
        if number > 0:
            occupied.add((port.get("protocol") or "TCP", port.get("hostIP") or ANY_ADDRESS, number))
    return frozenset(occupied)


def interned(labels: Mapping[str, str] | None) -> dict[str, str]:
    """A copy that shares its texts with all others: the labels of a cluster's objects are few and repeat."""
    return {intern(key): intern(value) for key, value in (labels or {}).items()}


def _ports(spec: Raw) -> Iterator[Raw]:
    for container in spec.get("initContainers") or ():
        if is_sidecar(container):
            yield from container.get("ports") or ()
    for container in spec.get("containers") or ():
        yield from container.get("ports") or ()


def _named_node(term: object) -> str | None:
    """The node that a term's `matchFields` name."""
    fields = _object(term).get("matchFields")
    for requirement in fields if isinstance(fields, list) else ():
        match _object(requirement):
            case {"key": names.NODE_NAME_FIELD, "operator": "In", "values": [str(node)]}:
                return node
    return None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
