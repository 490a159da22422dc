"""For every reason of a refusal: a pod and a cluster of one, of three unlike and of 5,000 nodes without a place.

The clusters look as clusters do: cloud names, cards of several makers, nodes that are away, models of other teams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from shared.core.cards import Card, Vendor
from shared.core.constraints import read_constraints
from shared.core.demand import is_booked, read_pod
from shared.core.invalid import InvalidRequest
from shared.core.placement import place
from shared.core.pods import PodFacts, pod_facts
from shared.core.refusal import Invalid, NoFit, Reason, Refusal
from shared.core.remedies import with_remedies
from shared.core.snapshot import NodeState
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.core_builders import cards, cluster, entry, holder, node, pool
from tests.unit.units import GPU, managed, user

VRAM = "kamiwaza.ai/vram-gb"
GPUS = "kamiwaza.ai/gpus"
VENDOR = "kamiwaza.ai/vendor"
VERSION = "kamiwaza.ai/accel-version"
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Scene:
    """A pod, and the nodes that have no place for it."""

    pod: PodBuilder
    nodes: Callable[[], Sequence[NodeState]]

    def refusal(self) -> Refusal:
        """Why the pod has no place."""
        return refusal_of(self.pod, self.nodes())


def refusal_of(pod: PodBuilder, nodes: Sequence[NodeState]) -> Refusal:
    """How `pod` is refused on `nodes`."""
    raw = pod.raw()
    try:
        demand = read_pod(raw).demand
    except InvalidRequest as error:
        return Invalid.of(error)
    assert demand is not None
    constraints = read_constraints(raw, without=is_booked)
    snapshot = cluster(*nodes)
    verdict = place(snapshot, demand, constraints)
    assert isinstance(verdict, NoFit), verdict
    facts = pod_facts({**raw, "spec": {**raw["spec"], "nodeName": "chosen later"}})
    assert facts is not None
    return with_remedies(verdict, snapshot, facts, demand, constraints)


def _server(gb: str | None = None, gpus: str | None = None, **resources: str) -> PodBuilder:
    pod = a_pod("llm-6d5f9c7b8-x2x4q").owned_by("ReplicaSet", "llm-6d5f9c7b8", "uid-llm")
    for key, value in ((VRAM, gb), (GPUS, gpus)):
        if value is not None:
            pod.annotated(key, value)
    return pod.requesting(resources) if resources else pod


def _nodes(*states: NodeState) -> Callable[[], Sequence[NodeState]]:
    return lambda: states


# --- one node ---

_T4 = node("t4", cards(16), pods=[holder("chat-5c9d7-8xkzv", {0: 6}), holder("ranker-0", {0: 6}, "search")])
_FOUR = node(
    "l40s", cards(48, 48, 48, 48), pods=[holder("chat-0", {0: 40}), holder("chat-1", {1: 40}), holder("embed", {2: 4})]
)
_SPARK = node(
    "spark",
    [pool(111)],
    a_node("spark").offering(memory="119Gi"),
    pods=[holder("postgres-0", {}, "data", requests={"memory": 64 * GIB})],
)
_AMD = node("mi300x", cards(*[191] * 8, vendor=Vendor.AMD))
_L4 = node("l4", cards(22), accel={"cuda": (12, 2)})

# --- three unlike nodes ---

_A10 = node(
    "a10",
    cards(22),
    accel={"cuda": (12, 4)},
    pods=[holder("chat-5c9d7-8xkzv", {0: 12}), holder("embed-0", {0: 2}), holder("ranker-0", {0: 3}, "search")],
)
_TWIN = node("twin", cards(22, 22), accel={"cuda": (12, 8)}, ledger={"r": entry({1: 20}, "search")})
_FULL_SPARK = node(
    "spark",
    [pool(111)],
    a_node("spark").offering(memory="119Gi"),
    accel={"cuda": (12, 8)},
    pods=[holder("notebook-0", {0: 100}, "research")],
)
_CORDONED = node("h100", cards(*[79] * 8), a_node("h100").cordoned(), accel={"cuda": (13, 0)})
_TAINTED_AMD = node("mi300x", cards(*[191] * 8, vendor=Vendor.AMD), a_node("mi300x").tainted("team", "vision"))

# --- 5,000 nodes ---


def _name(number: int) -> str:
    return f"ip-10-{number // 1000}-{number // 250 % 4}-{number % 250}.eu-central-1.compute.internal"


def _of_thousands(number: int) -> NodeState:
    """Of ten nodes: four with H100s, two of them in use by others to the brim, one each with A10s, with MI300Xs behind
    a taint, as a workstation with a pool, cordoned, not ready, and of another pool of nodes.
    """
    name, kind = _name(number), number % 10
    builder = a_node(name).labelled(pool="workstations" if kind == 6 else "training" if kind == 9 else "inference")
    of: Sequence[Card] = cards(*[79] * 8)
    accel: Mapping[str, tuple[int, ...]] = {"cuda": (12, 8)}
    ledger = {f"r{number}": entry(dict.fromkeys(range(8), 60 + number % 7), "research")}
    pods: list[PodFacts] = []
    if kind == 4:
        of, accel, ledger = cards(22), {"cuda": (12, 2)}, {f"r{number}": entry({0: 20}, "search")}
    if kind == 5:
        of, accel, ledger = cards(*[191] * 8, vendor=Vendor.AMD), {"rocm": (6, 4)}, {}
        builder.tainted("team", "vision")
    if kind == 6:
        of, ledger = [pool(111)], {}
        builder.offering(memory="119Gi")
        pods = [holder("postgres-0", {}, "data", requests={"memory": (64 + number % 50) * GIB})]
    if kind == 7:
        builder.cordoned()
    if kind == 8:
        builder.not_ready()
    return node(name, of, builder, accel=accel, ledger=ledger, pods=pods)


@cache
def thousands() -> tuple[NodeState, ...]:
    """5,000 nodes of all kinds."""
    return tuple(map(_of_thousands, range(5000)))


def _eks(name: str, gpus: int, *, used: int, cordoned: bool = False, **labels: str) -> NodeState:
    """A node of a managed cloud, whose A10Gs NVIDIA's own plugin gives away whole."""
    pods = [user(f"notebook-{number}", {GPU: 1}, name) for number in range(used)]
    state = managed(
        name, {GPU: gpus}, labels, pods=pods, memory="23028", count=str(gpus), product="NVIDIA-A10G", replicas="1"
    )
    return replace(state, facts=replace(state.facts, unschedulable=cordoned))


@cache
def managed_thousands() -> tuple[NodeState, ...]:
    """5,000 nodes of four A10Gs each, all in use; a tenth of them cordoned, a tenth of another pool."""
    return tuple(
        _eks(
            _name(number),
            4,
            used=4,
            cordoned=number % 10 == 7,
            pool="training" if number % 10 == 9 else "inference",
        )
        for number in range(5000)
    )


_OTHERS = _nodes(_A10, _FULL_SPARK, _TAINTED_AMD)

SCENES: Mapping[Reason, Mapping[str, Scene]] = {
    Reason.INVALID_REQUEST: {
        "1-node": Scene(_server("16GB"), _nodes(_T4)),
        "3-nodes": Scene(_server("6").annotated(VENDOR, "amd").limited_to({"nvidia.com/gpu": "1"}), _OTHERS),
        "5000-nodes": Scene(
            _server("6").container("envoy").annotated("kamiwaza.ai/container", "server"),
            thousands,
        ),
    },
    Reason.VENDOR_MISMATCH: {
        "1-node": Scene(_server().limited_to({"nvidia.com/gpu": "1"}), _nodes(_AMD)),
        "3-nodes": Scene(_server().limited_to({"amd.com/gpu": "2"}), _OTHERS),
        "5000-nodes": Scene(_server("40").annotated(VENDOR, "amd").selecting(pool="inference"), thousands),
    },
    Reason.ACCEL_VERSION_UNMET: {
        "1-node": Scene(_server("6").annotated(VERSION, "cuda>=12.9"), _nodes(_L4)),
        "3-nodes": Scene(_server("6").annotated(VERSION, "cuda 13.0"), _nodes(_A10, _CORDONED, _TAINTED_AMD)),
        "5000-nodes": Scene(_server("6").annotated(VERSION, "cuda 13.0").selecting(pool="inference"), thousands),
    },
    Reason.INSUFFICIENT_GPU_COUNT: {
        "1-node": Scene(_server("40", "4"), _nodes(_FOUR)),
        "3-nodes": Scene(_server("20", "2").annotated(VENDOR, "nvidia"), _nodes(_A10, _TWIN, _TAINTED_AMD)),
        "5000-nodes": Scene(_server("25", "8").annotated(VENDOR, "nvidia").selecting(pool="inference"), thousands),
    },
    Reason.INSUFFICIENT_SYSTEM_MEMORY: {
        "1-node": Scene(_server("60", memory="4Gi"), _nodes(_SPARK)),
        "3-nodes": Scene(_server("20").annotated(VENDOR, "nvidia"), _nodes(_FULL_SPARK, _CORDONED, _TAINTED_AMD)),
        "5000-nodes": Scene(_server("60", memory="4Gi").selecting(pool="workstations"), thousands),
    },
    Reason.SHARING_NOT_CONFIGURED: {
        "1-node": Scene(_server("6"), _nodes(_eks("eks", 1, used=1))),
        "3-nodes": Scene(
            _server("6").annotated(VENDOR, "nvidia"),
            _nodes(_eks("eks-a", 1, used=1), _eks("eks-b", 4, used=4), _TAINTED_AMD),
        ),
        "5000-nodes": Scene(_server("6").selecting(pool="inference"), managed_thousands),
    },
    Reason.INSUFFICIENT_CAPACITY: {
        "1-node": Scene(_server("6"), _nodes(_T4)),
        "3-nodes": Scene(_server("16").annotated(VENDOR, "nvidia"), _OTHERS),
        "5000-nodes": Scene(_server("40").annotated(VENDOR, "nvidia").selecting(pool="inference"), thousands),
    },
}
"""Reason, then size of the cluster."""

ALL = [(reason, size) for reason, sizes in SCENES.items() for size in sizes]
