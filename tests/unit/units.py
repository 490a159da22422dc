"""Vendor-managed nodes for tests: as the controller reads them from labels, without any API server.

managed("eks", {"nvidia.com/gpu": 4}, memory="23028", count="4")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.core.accel import parse_version
from shared.core.amounts import WHOLE
from shared.core.asks import Ask
from shared.core.cards import Inventory
from shared.core.demand import Demand
from shared.core.found import Source
from shared.core.ledger import Entry, owner_hash
from shared.core.nodes import node_facts
from shared.core.pods import PodFacts
from shared.core.snapshot import NodeState
from shared.core.unit_asks import UnitAsk
from shared.core.vendor_labels import read_labels
from tests.builders import NodeBuilder, a_node, a_pod

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
SLICE = "nvidia.com/mig-1g.10gb"
AMD = "amd.com/gpu"


def managed_node(
    name: str, offered: Mapping[str, int], labels: Mapping[str, str] | None = None, **gfd: str
) -> NodeBuilder:
    """A node that advertises vendor resources; `gfd` are labels of GPU Feature Discovery: `memory="23028"`."""
    builder = a_node(name).offering({resource: str(amount) for resource, amount in offered.items()})
    for key, value in {**(labels or {}), **{f"nvidia.com/gpu.{key}": value for key, value in gfd.items()}}.items():
        builder.label(key, value)
    return builder


def managed(
    name: str,
    offered: Mapping[str, int],
    labels: Mapping[str, str] | None = None,
    *,
    ledger: Mapping[str, Entry] | None = None,
    pods: Sequence[PodFacts] = (),
    **gfd: str,
) -> NodeState:
    facts = node_facts(managed_node(name, offered, labels, **gfd).raw())
    read = read_labels(name, facts.labels, facts.allocatable)
    accel = tuple((runtime, version) for runtime, text in read.accel.items() if (version := parse_version(text)))
    inventory = Inventory(read.cards, accel, kinds=read.kinds)
    return NodeState.of(facts, inventory, ledger, {pod.key: pod for pod in pods})


def a10g(name: str = "eks", gpus: int = 1, **fields: Any) -> NodeState:
    """A node of whole GPUs of 22 GB that are not shared."""
    return managed(name, {GPU: gpus}, memory="23028", count=str(gpus), product="NVIDIA-A10G", replicas="1", **fields)


def user(name: str, units: Mapping[str, int], node: str = "eks", reservation: str | None = None) -> PodFacts:
    """A pod on a node that requests units of vendor resources."""
    pod = a_pod(name).limited_to({resource: str(count) for resource, count in units.items()}).on(node)
    return (pod if reservation is None else pod.label("kamiwaza.ai/reservation", reservation)).facts()


def held(units: Mapping[str, int], namespace: str = "models", owner: str = "owner") -> Entry:
    """A reservation of units."""
    return Entry(namespace, owner_hash(owner), 1_800_000_000, (), units=tuple(sorted(units.items())))


def slices(resource: str = SLICE, count: int = 1, container: str = "main") -> UnitAsk:
    return UnitAsk(container, resource, count, "field")


def counted(count: int, resource: str = GPU, container: str = "main") -> Demand:
    """A number of GPUs and nothing else, as `nvidia.com/gpu: 2` asks it."""
    ask = Ask(container, WHOLE, count, Source.VENDOR_COUNT, "field")
    return Demand((ask,), own=((container, resource, count),))
