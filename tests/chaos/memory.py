"""How much memory processes have, again and again, and whether it is still growing once they are warm."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hack.devcluster.processes import Process

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 2**20
_HOUR_S = 3600.0


@dataclass(slots=True)
class Memory:
    """Resident memory in MiB of each process with the time of the sample, and the pids that it had."""

    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    lives: dict[str, set[int]] = field(default_factory=dict)

    def sample(self, processes: Iterable[Process]) -> None:
        """Adds one sample of each that runs."""
        now = time.monotonic()
        for process in processes:
            rss = rss_mib(process.pid) if process.alive else None
            if rss is not None:
                self.samples.setdefault(process.name, []).append((now, rss))
                self.lives.setdefault(process.name, set()).add(process.pid)

    def quarters(self, name: str) -> tuple[float, ...]:
        """The median of each quarter of the time in which a process was sampled, restarts or not."""
        rss = [mib for _, mib in self.samples.get(name, ())]
        return tuple(_median(rss[len(rss) * part // 4 : len(rss) * (part + 1) // 4]) for part in range(4))

    def slope(self, name: str) -> float:
        """MiB an hour that a process gained after its first quarter, in which it warms up."""
        samples = self.samples.get(name, [])
        times, rss = zip(*samples[len(samples) // 4 :], strict=True) if len(samples) > 1 else ((), ())
        return statistics.linear_regression(times, rss).slope * _HOUR_S if len(times) > 1 else 0.0


def rss_mib(pid: int) -> float | None:
    """Resident memory of a process; None if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * _PAGE / _MIB
    except (FileNotFoundError, ProcessLookupError):
        return None


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0
