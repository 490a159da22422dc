"""How much memory processes have, again and again, by how long they have been up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hack.devcluster.processes import Process

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 2**20


@dataclass(slots=True)
class Memory:
    """Resident memory in MiB of each process, sampled with its uptime; a restarted process begins anew."""

    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    _since: dict[str, tuple[int, float]] = field(default_factory=dict)

    def sample(self, processes: Iterable[Process]) -> None:
        """Adds one sample of each that runs."""
        now = time.monotonic()
        for process in processes:
            rss = rss_mib(process.pid) if process.alive else None
            if rss is None:
                continue
            pid, since = self._since.get(process.name, (0, now))
            if pid != process.pid:
                pid, since = process.pid, now
            self._since[process.name] = pid, since
            self.samples.setdefault(process.name, []).append((now - since, rss))

    def growth(self, name: str, settled_s: float) -> tuple[float, float]:
        """Medians of the first and the last quarter of what was sampled of a process that was up for `settled_s`."""
        settled = [rss for uptime_s, rss in self.samples.get(name, ()) if uptime_s >= settled_s]
        quarter = max(1, len(settled) // 4)
        return _median(settled[:quarter]), _median(settled[-quarter:])


def rss_mib(pid: int) -> float | None:
    """Resident memory of a process; None if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * _PAGE / _MIB
    except (FileNotFoundError, ProcessLookupError):
        return None


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0
