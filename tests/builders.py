"""Raw pods, nodes and clusters for tests, written as a user would say them.

    a_pod("web").labelled(app="web").requesting(cpu="500m").on("node-a").raw()
    a_node("node-a").labelled(zone="west").tainted("gpu", effect="NoSchedule").raw()

Every call changes the builder and gives it back. Label keys with dots and slashes go through `label`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Self

from shared.core.nodes import node_facts
from shared.core.pods import PodFacts, pod_facts
from shared.core.snapshot import NodeState, Snapshot

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"


class PodBuilder:
    """A pod with one container named `main`, not bound to any node."""

    def __init__(self, name: str, namespace: str) -> None:
        self._metadata: dict[str, Any] = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
        }
        self._spec: dict[str, Any] = {"containers": [{"name": "main", "image": "example/main"}]}
        self._status: dict[str, Any] = {"phase": "Pending"}

    def raw(self) -> dict[str, Any]:
        """The pod's JSON, a fresh copy."""
        parts = {"metadata": self._metadata, "spec": self._spec, "status": self._status}
        return {"apiVersion": "v1", "kind": "Pod", **deepcopy(parts)}

    def facts(self) -> PodFacts:
        """The facts of the pod, which must be bound or pinned."""
        facts = pod_facts(self.raw())
        assert facts is not None, "the pod is finished, or neither bound nor pinned"
        return facts

    # --- metadata ---

    def label(self, key: str, value: str) -> Self:
        self._metadata.setdefault("labels", {})[key] = value
        return self

    def labelled(self, **labels: str) -> Self:
        for key, value in labels.items():
            self.label(key, value)
        return self

    def annotated(self, key: str, value: str) -> Self:
        self._metadata.setdefault("annotations", {})[key] = value
        return self

    def owned_by(self, kind: str, name: str, uid: str, api_version: str = "apps/v1") -> Self:
        owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}
        self._metadata.setdefault("ownerReferences", []).append(owner)
        return self

    def created(self, timestamp: str) -> Self:
        self._metadata["creationTimestamp"] = timestamp
        return self

    def unstored(self) -> Self:
        """As a mutating webhook sees it: without a uid."""
        del self._metadata["uid"]
        return self

    def terminating(self) -> Self:
        self._metadata["deletionTimestamp"] = "2026-11-30T10:00:00Z"
        return self

    # --- containers ---

    def requesting(self, resources: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
        """Requests of the main container."""
        main = self._spec["containers"][0]
        main.setdefault("resources", {}).setdefault("requests", {}).update(resources or {}, **more)
        return self

    def limited_to(self, resources: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
        """Limits of the main container."""
        main = self._spec["containers"][0]
        main.setdefault("resources", {}).setdefault("limits", {}).update(resources or {}, **more)
        return self

    def container(self, name: str, **fields: Any) -> Self:
        """One more app container."""
        self._spec["containers"].append({"name": name, **fields})
        return self

    def init(self, name: str, requests: Mapping[str, Any] | None = None, **fields: Any) -> Self:
        """One more init container."""
        container = {"name": name, "resources": {"requests": dict(requests or {})}, **fields}
        self._spec.setdefault("initContainers", []).append(container)
        return self

    def sidecar(self, name: str, requests: Mapping[str, Any] | None = None, **fields: Any) -> Self:
        """One more native sidecar."""
        return self.init(name, requests, restartPolicy="Always", **fields)

    def host_port(self, port: int, protocol: str = "TCP", address: str = "") -> Self:
        entry = {"containerPort": port, "hostPort": port, "protocol": protocol}
        self._spec["containers"][0].setdefault("ports", []).append({**entry, "hostIP": address} if address else entry)
        return self

    # --- where it may go ---

    def selecting(self, **labels: str) -> Self:
        """A node selector."""
        self._spec.setdefault("nodeSelector", {}).update(labels)
        return self

    def node_affinity(self, *terms: Mapping[str, Any]) -> Self:
        """Required node affinity with ORed `terms`."""
        self._affinity("nodeAffinity")[REQUIRED] = {"nodeSelectorTerms": list(terms)}
        return self

    def pinned_to(self, node: str) -> Self:
        """Required node affinity to one node, as the product writes it."""
        return self.node_affinity({"matchFields": [requirement("metadata.name", "In", node)]})

    def on(self, node: str) -> Self:
        """Bound to a node, and running."""
        self._spec["nodeName"] = node
        return self.in_phase("Running")

    def tolerating(self, key: str = "", operator: str = "Exists", value: str = "", effect: str = "") -> Self:
        toleration = {"key": key, "operator": operator, "value": value, "effect": effect}
        self._spec.setdefault("tolerations", []).append({name: text for name, text in toleration.items() if text})
        return self

    def near(self, *terms: Mapping[str, Any]) -> Self:
        """Required pod affinity."""
        self._affinity("podAffinity").setdefault(REQUIRED, []).extend(terms)
        return self

    def away_from(self, *terms: Mapping[str, Any]) -> Self:
        """Required pod anti-affinity."""
        self._affinity("podAntiAffinity").setdefault(REQUIRED, []).extend(terms)
        return self

    def spread_over(self, key: str, selector: Mapping[str, Any] | None, skew: int = 1, **fields: Any) -> Self:
        """A `DoNotSchedule` topology spread constraint."""
        constraint = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **fields}
        if selector is not None:
            constraint["labelSelector"] = selector
        self._spec.setdefault("topologySpreadConstraints", []).append(constraint)
        return self

    def preferring_nodes(self, weight: int, preference: Mapping[str, Any]) -> Self:
        """A preferred node affinity."""
        preferred = {"weight": weight, "preference": preference}
        self._affinity("nodeAffinity").setdefault(PREFERRED, []).append(preferred)
        return self

    def preferring_near(self, weight: int, affinity_term: Mapping[str, Any]) -> Self:
        """A preferred pod affinity."""
        preferred = {"weight": weight, "podAffinityTerm": affinity_term}
        self._affinity("podAffinity").setdefault(PREFERRED, []).append(preferred)
        return self

    def preferring_away(self, weight: int, affinity_term: Mapping[str, Any]) -> Self:
        """A preferred pod anti-affinity."""
        preferred = {"weight": weight, "podAffinityTerm": affinity_term}
        self._affinity("podAntiAffinity").setdefault(PREFERRED, []).append(preferred)
        return self

    def claiming(self, *claims: str) -> Self:
        """A volume for each of these claims."""
        volumes = self._spec.setdefault("volumes", [])
        volumes += [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        return self

    def with_scratch(self, name: str, **claim: Any) -> Self:
        """A generic ephemeral volume, whose claim is made with the pod."""
        volume = {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
        self._spec.setdefault("volumes", []).append(volume)
        return self

    def _affinity(self, kind: str) -> dict[str, Any]:
        affinity: dict[str, Any] = self._spec.setdefault("affinity", {}).setdefault(kind, {})
        return affinity

    # --- anything else ---

    def spec(self, **fields: Any) -> Self:
        self._spec.update(fields)
        return self

    def status(self, **fields: Any) -> Self:
        self._status.update(fields)
        return self

    def in_phase(self, phase: str) -> Self:
        return self.status(phase=phase)


class NodeBuilder:
    """A ready node with 64 cores, 256 GiB and 110 pod slots, labelled with its host name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._labels: dict[str, str] = {HOSTNAME: name}
        self._taints: list[dict[str, str]] = []
        self._allocatable: dict[str, str] = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        self._ready = "True"
        self._unschedulable = False

    def raw(self) -> dict[str, Any]:
        """The node's JSON, a fresh copy."""
        spec: dict[str, Any] = {"taints": self._taints} if self._taints else {}
        if self._unschedulable:
            spec["unschedulable"] = True
        parts = {
            "metadata": {"name": self._name, "uid": f"uid-{self._name}", "labels": self._labels},
            "spec": spec,
            "status": {
                "allocatable": self._allocatable,
                "capacity": self._allocatable,
                "conditions": [{"type": "Ready", "status": self._ready}],
            },
        }
        return {"apiVersion": "v1", "kind": "Node", **deepcopy(parts)}

    def state(self, *pods: PodBuilder) -> NodeState:
        """The node with `pods` on it."""
        facts = [pod.facts() for pod in pods]
        return NodeState.of(node_facts(self.raw()), pods={each.key: each for each in facts})

    def label(self, key: str, value: str) -> Self:
        self._labels[key] = value
        return self

    def labelled(self, **labels: str) -> Self:
        self._labels.update(labels)
        return self

    def without_label(self, key: str) -> Self:
        del self._labels[key]
        return self

    def tainted(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        taint = {"key": key, "effect": effect}
        self._taints.append({**taint, "value": value} if value else taint)
        return self

    def cordoned(self) -> Self:
        """As `kubectl cordon` leaves it, with the taint that the node controller adds."""
        self._unschedulable = True
        return self.tainted("node.kubernetes.io/unschedulable")

    def not_ready(self, status: str = "False") -> Self:
        self._ready = status
        return self

    def offering(self, resources: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Allocatable resources."""
        self._allocatable.update(resources or {}, **more)
        return self


def a_pod(name: str = "pod", namespace: str = "models") -> PodBuilder:
    return PodBuilder(name, namespace)


def a_node(name: str = "node-a") -> NodeBuilder:
    return NodeBuilder(name)


def a_cluster(
    nodes: Iterable[NodeBuilder],
    pods: Iterable[PodBuilder] = (),
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> Snapshot:
    """A snapshot of `nodes` with `pods` on them; each pod must be bound or pinned to one of the nodes."""
    states = {state.name: state for state in (node.state() for node in nodes)}
    for pod in pods:
        facts = pod.facts()
        states[facts.node] = states[facts.node].with_pod(facts)
    return Snapshot(states, namespaces or {})


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One selector requirement."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def expressions(*requirements: Mapping[str, Any]) -> dict[str, Any]:
    """A node selector term, or a label selector, of ANDed requirements."""
    return {"matchExpressions": list(requirements)}


def labels(**match: str) -> dict[str, Any]:
    """A label selector for exact labels."""
    return {"matchLabels": match}


def term(topology_key: str, selector: Mapping[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """A pod affinity or anti-affinity term."""
    chosen = {} if selector is None else {"labelSelector": selector}
    return {"topologyKey": topology_key, **chosen, **fields}
