"""Fates of pods that hold 6 GB of the first card of `t4`, for tests of what is told of them."""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.oom import Memory, Shortage
from shared.core.owners import OwnerRef
from shared.core.pod_fate import Crash, Place, PodFate

PLACE = Place("t4", ((0, 6),), ())
SHORT = Shortage(Memory.CARD, "CUDA out of memory (it asked for 2.00 GiB)", 2)
CREATED = "2026-11-30T09:30:00Z"
DIED = "2026-11-30T09:40:00Z"


def a_crash(
    shortage: Shortage | None = SHORT,
    at: str = DIED,
    *,
    container: str = "server",
    place: Place = PLACE,
    running_since: str = "",
    ready: bool = False,
) -> Crash:
    return Crash(container, place, at, bool(running_since), running_since, ready, shortage)


def a_fate(
    name: str = "chat-1",
    phase: str = "Running",
    crashes: Sequence[Crash] = (),
    *,
    owner: OwnerRef | None = None,
    created: str = CREATED,
    changed: str = DIED,
    evicted: bool = False,
) -> PodFate:
    return PodFate(f"uid-{name}", "models", name, owner, created, PLACE, phase, evicted, changed, tuple(crashes))
