"""What one decision costs: `place` on made-up clusters of 10, 500 and 5,000 nodes, each with 8 cards and 8 pods.

The times are CPU times of the process, to which other work on the machine adds little. Before each decision a pod has
come or gone somewhere, as it is in a live cluster, and what that costs the picture of it is counted. The pods hold the
memory that is in use, and their labels are there for the rules about other pods to read.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

from shared.api import names
from shared.core.cards import Card, CardClass, Inventory, Vendor
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand, read_pod
from shared.core.ledger import Entry, owner_hash
from shared.core.node_index import NodeIndex, Nodes
from shared.core.nodes import NodeFacts
from shared.core.placement import place
from shared.core.pods import REQUIRED, PodFacts
from shared.core.preemption import find_preemption
from shared.core.refusal import NoFit
from shared.core.snapshot import NodeState, Snapshot

SIZES: Final = (10, 500, 5000)
_CARDS: Final = 8
_CARD_GB: Final = 80
_RESOURCES: Final = tuple(map(names.card_resource, range(_CARDS)))
_RACKS: Final = 50
_NAMESPACE: Final = "models"
_HOSTNAME: Final = "kubernetes.io/hostname"
_SEED: Final = 7
_RUNS: Final = 200
_PATIENCE_S: Final = 1.0
_CHANGED_NODES: Final = 10


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    annotations: Mapping[str, str]
    spec: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    """Above 0 a place of less important pods is looked for, where there is no other."""


def _away_from(app: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": _HOSTNAME, "labelSelector": selector}]}}}


def _spread(app: str) -> dict[str, Any]:
    rule = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": {"app": app}}}]}


# `app-0` runs on every node, `rare` on every 50th, in one rack.
_CASES: Final = (
    _Case("6 GB, fits", {names.VRAM: "6"}),
    _Case("40 GB x 4, fits", {names.VRAM: "40", names.GPUS: "4"}),
    _Case("6 GB on 2 % of the nodes", {names.VRAM: "6"}, {"nodeSelector": {"rack": "r7"}}),
    _Case("6 GB, anti-affinity to a few", {names.VRAM: "6"}, _away_from("rare")),
    _Case("6 GB, spread over racks", {names.VRAM: "6"}, _spread("app-0")),
    _Case(
        "12 containers nearly fit, refused", {f"{names.VRAM_OF_CONTAINER_PREFIX}c{n}": str(20 + n) for n in range(12)}
    ),
    _Case("too big, refused", {names.VRAM: "100"}),
    _Case("40 GB x 9, refused", {names.VRAM: "40", names.GPUS: "9"}),
    _Case("6 GB, anti-affinity to all, refused", {names.VRAM: "6"}, _away_from("app-0")),
    _Case("80 GB x 8, refused", {names.VRAM: "80", names.GPUS: "8"}),
    _Case("80 GB x 8, refused, may preempt", {names.VRAM: "80", names.GPUS: "8"}, priority=1),
)


def bench_place(show: Callable[[str], None]) -> None:
    """Times every case at every size and shows a table."""
    show(f"place(), CPU milliseconds, cards half full at random (seed {_SEED}), 8 pods a node")
    show(f"{'case':<36}" + "".join(f"{f'{size} nodes p50':>16} {'p99':>8}" for size in SIZES))
    snapshots = {size: _snapshot(size) for size in SIZES}
    gc.collect()
    gc.freeze()  # as the webhook does with its picture of the cluster
    for case in _CASES:
        demand, constraints = _read(case)
        cells = []
        for size in SIZES:
            times = _time(snapshots[size], demand, constraints, case.priority)
            cells.append(f"{times[len(times) // 2]:>16.3f} {times[int(0.99 * len(times))]:>8.3f}")
        show(f"{case.name:<36}" + "".join(cells))


def _time(snapshot: Snapshot, demand: Demand, constraints: Constraints, priority: int = 0) -> list[float]:
    """CPU time of up to `_RUNS` decisions, as many as fit into `_PATIENCE_S`; sorted."""
    index = NodeIndex(snapshot.nodes)
    index.prepare()
    changes = cycle(_changes(snapshot))
    times: list[float] = []
    enough = time.process_time() + _PATIENCE_S
    while len(times) < _RUNS and (not times or time.process_time() < enough):
        changed = next(changes)
        began = time.process_time()
        index.put(changed)
        if isinstance(place(Snapshot(Nodes(index)), demand, constraints), NoFit):
            find_preemption(Snapshot(Nodes(index)), demand, constraints, priority)
        times.append(1000 * (time.process_time() - began))
    return sorted(times)


def _changes(snapshot: Snapshot) -> list[NodeState]:
    """A pod less on a few nodes, and the same pods again."""
    before = list(snapshot)[:_CHANGED_NODES]
    after = [state.without_pod(list(state.pods)[-1]) for state in before]
    return [*after, *before]


def _read(case: _Case) -> tuple[Demand, Constraints]:
    named = [key.removeprefix(names.VRAM_OF_CONTAINER_PREFIX) for key in case.annotations]
    containers = [name for name in named if names.PREFIX not in name] or ["server"]
    pod = {
        "metadata": {"namespace": _NAMESPACE, "annotations": case.annotations, "labels": {"app": "new"}},
        "spec": {
            "containers": [{"name": name, "resources": {"requests": {"cpu": "100m"}}} for name in containers],
            **case.spec,
        },
    }
    demand = read_pod(pod).demand
    assert demand is not None
    return demand, read_constraints(pod)


def _snapshot(size: int) -> Snapshot:
    chance = random.Random(_SEED)  # noqa: S311 - a made-up cluster, the same in every run
    nodes = {}
    for number in range(size):
        name = f"gpu-{number:04}"
        cards = tuple(
            Card(index, f"GPU-{name}-{index}", "NVIDIA H100", Vendor.NVIDIA, CardClass.DISCRETE, 81920, _CARD_GB)
            for index in range(_CARDS)
        )
        facts = NodeFacts(
            name,
            labels={"rack": f"r{number % _RACKS}", _HOSTNAME: name},
            allocatable={"cpu": 128_000, "memory": 2**40, "pods": 110} | dict.fromkeys(_RESOURCES, _CARD_GB),
        )
        pods = [_pod(number, index, name, chance.randrange(_CARD_GB + 1)) for index in range(_CARDS)]
        ledger = {str(pod.reservation): Entry(pod.namespace, owner_hash(""), 0, pod.shares) for pod in pods}
        nodes[name] = NodeState.of(facts, Inventory(cards), ledger, {pod.key: pod for pod in pods})
    return Snapshot(nodes)


def _pod(number: int, index: int, node: str, gb: int) -> PodFacts:
    app = "rare" if index == 1 and number % _RACKS == 0 else f"app-{index}"
    return PodFacts(
        key=f"uid-{number}-{index}",
        namespace=_NAMESPACE,
        name=f"{app}-{number}",
        node=node,
        bound=True,
        labels={"app": app, "pod-template-hash": "5f6d7c8b9"},
        requests={"cpu": 4000, _RESOURCES[index]: gb},
        shares=((index, gb),),
        reservation=f"{number}-{index}",
    )


if __name__ == "__main__":
    bench_place(print)
