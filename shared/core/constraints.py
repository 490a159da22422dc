"""Where a pod that is to be placed may go: what its spec demands of a node and of the pods around it.

A pod in an admission review is hostile input that nobody has validated yet. Its shape is checked here once,
so that the readers of selectors, terms, tolerations and requests can rely on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from shared.api import names
from shared.core.affinity_terms import PodAffinityTerm, read_pod_affinity_terms
from shared.core.invalid import InvalidRequest
from shared.core.nodes import NodeFacts
from shared.core.pod_requests import pod_requests
from shared.core.pods import PREFERRED, REQUIRED, Amounts, HostPort, Raw, host_ports
from shared.core.preferences import NO_PREFERENCES, Preferences, read_preferences
from shared.core.quantity import QuantityError, millis
from shared.core.selectors import (
    NodeSelectorTerm,
    Operator,
    int64,
    read_node_selector_terms,
)
from shared.core.spread import DO_NOT_SCHEDULE, HONOR, SCHEDULE_ANYWAY, TopologySpreadConstraint, read_topology_spread
from shared.core.tolerations import Toleration, TolerationOperator, read_tolerations, untolerated
from shared.core.volume_facts import claim_uses
from shared.core.volumes import ANYWHERE, ClaimUse, Reach, Volumes, reach_of


class ConstraintError(InvalidRequest):
    """A part of a pod that is not what Kubernetes defines, by field, value and fix."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a pod demands. `node_affinity` are the ORed required terms, None where there is no such affinity.

    `requests` leave out what the product books itself: per-card amounts, and what the caller named. `reach` is what
    the `claims` come to in one snapshot, see `settled`.
    """

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    node_name: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    requests: Amounts = field(default_factory=dict)
    host_ports: frozenset[HostPort] = frozenset()
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    topology_spread: tuple[TopologySpreadConstraint, ...] = ()
    claims: tuple[ClaimUse, ...] = ()
    reach: Reach = ANYWHERE
    preferences: Preferences = NO_PREFERENCES

    @property
    def named_nodes(self) -> frozenset[str] | None:
        """The only nodes that can meet the demand, where it names them, as a pod of a DaemonSet does; else None."""
        if self.node_name is not None:
            return frozenset((self.node_name,))
        named = [term.named_nodes for term in self.node_affinity or (NodeSelectorTerm(),)]
        known = [names for names in named if names is not None]
        return frozenset().union(*known) if len(known) == len(named) else None

    def select(self, node: NodeFacts) -> bool:
        """Whether `nodeSelector` and required node affinity select a node."""
        if any(node.labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return self.node_affinity is None or any(term.matches(node.name, node.labels) for term in self.node_affinity)

    def tolerate(self, node: NodeFacts) -> bool:
        """Whether no taint of a node keeps the pod away."""
        return not node.taints or next(untolerated(node.taints, self.tolerations), None) is None

    def settled(self, volumes: Volumes) -> Constraints:
        """These constraints with the reach that the claims have in a cluster with `volumes`."""
        return replace(self, reach=reach_of(self.claims, volumes)) if self.claims else self


def _none(_resource: str) -> bool:
    return False


def read_constraints(raw: Raw, without: Callable[[str], bool] = _none) -> Constraints:
    """The constraints of a pod that is not stored yet, or of the template of one (give it a namespace).

    `without` tells the resources that are not to be asked of the node, beside the per-card ones: those which
    a placement replaces. Raises `ConstraintError` where the pod is not what Kubernetes defines.
    """
    _POD(raw, "")
    metadata, spec = raw.get("metadata") or {}, raw.get("spec") or {}
    namespace, labels = metadata.get("namespace") or "", metadata.get("labels") or {}
    affinity = spec.get("affinity") or {}
    node_affinity = (affinity.get("nodeAffinity") or {}).get(REQUIRED)
    return Constraints(
        namespace=namespace,
        labels=labels,
        node_name=spec.get("nodeName") or None,
        node_selector=spec.get("nodeSelector") or {},
        node_affinity=None
        if node_affinity is None
        else read_node_selector_terms(node_affinity.get("nodeSelectorTerms")),
        tolerations=read_tolerations(spec.get("tolerations")),
        requests={
            resource: amount
            for resource, amount in pod_requests(spec).items()
            if amount and names.card_index(resource) is None and not without(resource)
        },
        host_ports=host_ports(spec),
        pod_affinity=read_pod_affinity_terms((affinity.get("podAffinity") or {}).get(REQUIRED), namespace, labels),
        pod_anti_affinity=read_pod_affinity_terms(
            (affinity.get("podAntiAffinity") or {}).get(REQUIRED), namespace, labels
        ),
        topology_spread=read_topology_spread(spec.get("topologySpreadConstraints"), labels),
        claims=claim_uses(spec, namespace),
        preferences=read_preferences(spec, namespace, labels),
    )


_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")

Check: TypeAlias = Callable[[Any, str], None]
"""Raises `ConstraintError` unless a value, which stands at a field, has a certain shape."""


def _refuse(value: object, where: str, problem: str, fix: str) -> ConstraintError:
    shown = str(value) if isinstance(value, (str, int, float)) else type(value).__name__
    return ConstraintError(where or "pod", shown[:64], problem, fix)


def _text(value: Any, where: str) -> None:
    if not isinstance(value, str):
        raise _refuse(value, where, "is not a text", "write it in quotes")


def _name(value: Any, where: str) -> None:
    _text(value, where)
    if not value:
        raise _refuse(value, where, "is empty", "write a name")


def _label_value(value: Any, where: str) -> None:
    _text(value, where)
    if _LABEL_VALUE.match(value) is None:
        raise _refuse(value, where, "is not a label value", "write up to 63 letters, digits, '-', '_' and '.'")


def _number(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refuse(value, where, "is not a whole number", "write a whole number")


def _positive(value: Any, where: str) -> None:
    _number(value, where)
    if value < 1:
        raise _refuse(value, where, "is less than 1", "write 1 or more")


def _flag(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        raise _refuse(value, where, "is not true or false", "write true or false")


def _amount(value: Any, where: str) -> None:
    try:
        negative = millis(value) < 0
    except QuantityError as error:
        raise _refuse(value, where, str(error), "write a quantity such as 500m or 2Gi") from None
    if negative:
        raise _refuse(value, where, "is negative", "write 0 or more")


def _one_of(*words: str) -> Check:
    def check(value: Any, where: str) -> None:
        if value not in words or not isinstance(value, str):
            raise _refuse(value, where, "is not known", f"write one of {', '.join(filter(None, words))}")

    return check


def _many(check_each: Check) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise _refuse(value, where, "is not a list", "write a list")
        for index, item in enumerate(value):
            check_each(item, f"{where}[{index}]")

    return check


def _map_of(check_each: Check) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise _refuse(value, where, "is not an object", "write an object")
        for key, item in value.items():
            check_each(item, f"{where}[{key}]")

    return check


def _record(required: Mapping[str, Check] | None = None, /, **optional: Check) -> Check:
    """An object with these fields, as far as they matter here; null is as good as absent."""
    mandatory = required or {}

    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise _refuse(value, where, "is not an object", "write an object")
        for key, check_field in {**optional, **mandatory}.items():
            item = value.get(key)
            if item is not None:
                check_field(item, f"{where}.{key}" if where else key)
            elif key in mandatory:
                raise _refuse("", f"{where}.{key}", "is missing", "write it, or remove what it belongs to")

    return check


def _requirement(*operators: Operator, key: Check = _name, value: Check = _label_value, single: bool = False) -> Check:
    """A selector requirement with one of `operators` and as many values as that takes."""
    shape = _record({"key": key, "operator": _one_of(*operators)}, values=_many(value))

    def check(value: Any, where: str) -> None:
        shape(value, where)
        operator, values = value["operator"], value.get("values") or []
        field_name = f"{where}.values"
        if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            if values:
                raise _refuse(values, field_name, f"is not empty, but {operator} takes none", "remove it")
        elif operator in (Operator.GT, Operator.LT):
            if len(values) != 1 or int64(values[0]) is None:
                raise _refuse(values, field_name, f"is not one whole number, as {operator} takes", "write one")
        elif not values or (single and len(values) != 1):
            count = "one value" if single else "at least one value"
            raise _refuse(values, field_name, f"does not hold {count}, as {operator} takes", f"write {count}")

    return check


_LABEL_OPERATORS = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
_SELECTOR = _record(matchLabels=_map_of(_label_value), matchExpressions=_many(_requirement(*_LABEL_OPERATORS)))
_NODE_TERM = _record(
    matchExpressions=_many(_requirement(*Operator)),
    matchFields=_many(
        _requirement(Operator.IN, Operator.NOT_IN, key=_one_of(names.NODE_NAME_FIELD), value=_name, single=True)
    ),
)
_POD_TERM = _record(
    {"topologyKey": _name},
    labelSelector=_SELECTOR,
    namespaceSelector=_SELECTOR,
    namespaces=_many(_text),
    matchLabelKeys=_many(_text),
    mismatchLabelKeys=_many(_text),
)
_POD_TERMS = _record(
    **{
        REQUIRED: _many(_POD_TERM),
        PREFERRED: _many(_record({"weight": _number, "podAffinityTerm": _POD_TERM})),
    }
)
_AFFINITY = _record(
    nodeAffinity=_record(
        **{
            REQUIRED: _record(nodeSelectorTerms=_many(_NODE_TERM)),
            PREFERRED: _many(_record({"weight": _number, "preference": _NODE_TERM})),
        }
    ),
    podAffinity=_POD_TERMS,
    podAntiAffinity=_POD_TERMS,
)
_SPREAD = _record(
    {
        "topologyKey": _name,
        "maxSkew": _positive,
        "whenUnsatisfiable": _one_of(DO_NOT_SCHEDULE, SCHEDULE_ANYWAY),
    },
    labelSelector=_SELECTOR,
    matchLabelKeys=_many(_text),
    minDomains=_positive,
    nodeAffinityPolicy=_one_of(HONOR, "Ignore"),
    nodeTaintsPolicy=_one_of(HONOR, "Ignore"),
)
_TOLERATION = _record(key=_text, value=_text, effect=_text, operator=_one_of("", *TolerationOperator))
_RESOURCES = _record(requests=_map_of(_amount), limits=_map_of(_amount))
_PORT = _record(hostPort=_number, containerPort=_number, hostIP=_text, protocol=_text)
_CLAIM = _record(
    storageClassName=_text, accessModes=_many(_text), volumeMode=_text, selector=_SELECTOR, resources=_RESOURCES
)
_VOLUME = _record(
    name=_text,
    persistentVolumeClaim=_record({"claimName": _name}),
    ephemeral=_record(volumeClaimTemplate=_record(spec=_CLAIM)),
)
_CONTAINER = _record(resources=_RESOURCES, ports=_many(_PORT), restartPolicy=_text)
_POD = _record(
    metadata=_record(namespace=_text, labels=_map_of(_text)),
    spec=_record(
        nodeName=_text,
        priority=_number,
        preemptionPolicy=_text,
        nodeSelector=_map_of(_label_value),
        affinity=_AFFINITY,
        tolerations=_many(_TOLERATION),
        topologySpreadConstraints=_many(_SPREAD),
        hostNetwork=_flag,
        overhead=_map_of(_amount),
        resources=_RESOURCES,
        containers=_many(_CONTAINER),
        initContainers=_many(_CONTAINER),
        volumes=_many(_VOLUME),
    ),
)
