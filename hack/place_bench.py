"""How long one decision takes: `place` on made-up clusters of 10, 500 and 5,000 nodes with 8 cards each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from shared.api import names
from shared.core.cards import Card, CardClass, Inventory, Vendor
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand, read_pod
from shared.core.ledger import Entry
from shared.core.nodes import NodeFacts
from shared.core.placement import place
from shared.core.snapshot import NodeState, Snapshot

SIZES: Final = (10, 500, 5000)
_CARDS: Final = 8
_CARD_GB: Final = 80
_SEED: Final = 7
_RUNS: Final = 200
_PATIENCE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    annotations: dict[str, str]
    spec: dict[str, Any]


_CASES: Final = (
    _Case("6 GB, fits", {names.VRAM: "6"}, {}),
    _Case("40 GB x 4, fits", {names.VRAM: "40", names.GPUS: "4"}, {}),
    _Case("6 GB on 2 % of the nodes", {names.VRAM: "6"}, {"nodeSelector": {"rack": "r7"}}),
    _Case("too big, refused", {names.VRAM: "100"}, {}),
)


def bench_place(show: Callable[[str], None]) -> None:
    """Times every case at every size and shows a table."""
    show(f"place(), milliseconds, cards half full at random (seed {_SEED})")
    show(f"{'case':<26}" + "".join(f"{f'{size} nodes p50':>16} {'p99':>8}" for size in SIZES))
    snapshots = {size: _snapshot(size) for size in SIZES}
    for case in _CASES:
        demand, constraints = _read(case)
        cells = []
        for size in SIZES:
            times = _time(snapshots[size], demand, constraints)
            cells.append(f"{times[len(times) // 2]:>16.3f} {times[int(0.99 * len(times))]:>8.3f}")
        show(f"{case.name:<26}" + "".join(cells))


def _time(snapshot: Snapshot, demand: Demand, constraints: Constraints) -> list[float]:
    """Up to `_RUNS` decisions, as many as fit into `_PATIENCE_S`; sorted."""
    times: list[float] = []
    enough = time.perf_counter() + _PATIENCE_S
    while len(times) < _RUNS and (not times or time.perf_counter() < enough):
        began = time.perf_counter()
        place(snapshot, demand, constraints)
        times.append(1000 * (time.perf_counter() - began))
    return sorted(times)


def _read(case: _Case) -> tuple[Demand, Constraints]:
    pod = {
        "metadata": {"namespace": "models", "annotations": case.annotations},
        "spec": {"containers": [{"name": "server", "resources": {"requests": {"cpu": "4"}}}], **case.spec},
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
            name, labels={"rack": f"r{number % 50}"}, allocatable={"cpu": 128_000, "memory": 2**40, "pods": 110}
        )
        ledger = {
            f"{number}-{index}": Entry("models", "0" * 8, 0, ((index, chance.randrange(_CARD_GB + 1)),))
            for index in range(_CARDS)
        }
        nodes[name] = NodeState.of(facts, Inventory(cards), ledger)
    return Snapshot(nodes)


if __name__ == "__main__":
    bench_place(print)
