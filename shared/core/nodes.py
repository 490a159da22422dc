"""What a decision needs to know of a node: a projection of its JSON, kept instead of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.core.pod_requests import in_base_units
from shared.core.pods import Amounts, Raw, interned
from shared.core.quantity import millis


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as the scheduler's filters see it. `allocatable` is in the units of `Amounts`."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    allocatable: Amounts = field(default_factory=dict)


def node_facts(raw: Raw) -> NodeFacts:
    """The facts of a stored node. One that reports no `Ready` condition is not ready.

    Raises `QuantityError` where an allocatable amount is no quantity.
    """
    metadata = raw["metadata"]
    spec = raw.get("spec") or {}
    status = raw.get("status") or {}
    return NodeFacts(
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        labels=interned(metadata.get("labels")),
        taints=tuple(
            Taint(taint["key"], taint.get("value") or "", taint["effect"]) for taint in spec.get("taints") or ()
        ),
        unschedulable=bool(spec.get("unschedulable")),
        ready=any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        ),
        allocatable={
            resource: in_base_units(resource, millis(amount))
            for resource, amount in (status.get("allocatable") or {}).items()
        },
    )
