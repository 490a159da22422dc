"""The owners that wait for room, and what is remembered of each: a walk over thousands is to cost few requests."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from controller.lacking import Wants
from controller.pace import Pause
from controller.reports import Report
from controller.workloads import refused_owner
from shared.core.owners import OwnerRef
from shared.core.refusal import Reason
from shared.core.tolerations import Toleration, read_tolerations
from shared.kube.errors import Forbidden
from shared.kube.owners import Owners
from shared.kube.paths import OwnerKinds

_MOST_READ: Final = 200
"""How many owners are read in one walk, and so in a second."""
_STALE_S: Final = 300.0
"""How long is believed what was read, as long as the owner is not refused anew: changed, it tries anew."""
_FORBIDDEN_S: Final = 2.0
_LONGEST_FORBIDDEN_S: Final = 60.0
"""How long an owner that may not be read is left alone, first and at most: rights are new or may come back."""
_MOST_STALE: Final = 10
"""How many owners are read in one walk for no other reason than that it was long ago."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An owner whose creates were refused, and its workload. `rank` orders them: higher priority first, then older."""

    namespace: str
    owner: OwnerRef
    workload: OwnerRef
    rank: tuple[int, str, str]
    refused: str
    """Its last refusal: another text after each."""
    preempts: bool
    tolerated: tuple[Toleration, ...]
    """What the refused pod tolerated, which its template may lack."""

    @property
    def uid(self) -> str:
        return self.owner.uid

    @property
    def priority(self) -> int:
        return -self.rank[0]


def waiting_in(report: Report, more_kinds: OwnerKinds) -> Iterator[Waiting]:
    """The owners in a report that wait. One whose ask is malformed does not: room is no help."""
    for key, refusal in report.refusals.items():
        owner = refused_owner(key, refusal, more_kinds)
        if owner is not None and refusal.get("reason") != Reason.INVALID_REQUEST:
            yield Waiting(
                report.namespace,
                owner,
                report.workload,
                (-int(refusal.get("priority") or 0), str(refusal.get("since")), owner.uid),
                f"{refusal.get('last')} {refusal.get('count')}",
                refusal.get("preempts") is not False,
                read_tolerations(refusal.get("tolerations")),
            )


class TooManyReads(Exception):
    """A walk has read as many owners as it may: the next goes on."""


@dataclass(frozen=True, slots=True)
class _Read:
    wants: Wants | None
    refused: str
    at: float


class Memory:
    """What each waiting owner wants, as far as it was read. Times are seconds of one monotonic clock."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._known: dict[str, _Read] = {}
        self._closed: dict[str, Pause] = {}
        """The owners that may not be read."""
        self._walk_began = 0.0
        self._reads = 0

    def begin_walk(self, waiting: Collection[str], now: float) -> None:
        """Forgets whoever is not among the uids `waiting`."""
        self._known = {uid: read for uid, read in self._known.items() if uid in waiting}
        self._closed = {uid: pause for uid, pause in self._closed.items() if uid in waiting}
        self._walk_began = now
        self._reads = 0

    def closed_s(self, uid: str) -> float:
        """How long an owner that may not be read is still left alone; 0 if it may be tried now."""
        pause = self._closed.get(uid)
        return 0.0 if pause is None else pause.left_s(self._walk_began)

    async def wants(self, one: Waiting) -> Wants | None:
        """What an owner wants, or None if it cannot be read. Raises `ApiError` or `TooManyReads`."""
        known = self._known.get(one.uid)
        if known is not None and known.refused == one.refused and not self._is_stale(known):
            return known.wants
        return await self._read(one)

    async def wants_now(self, one: Waiting) -> Wants | None:
        """The same, as it was read in this walk."""
        known = self._known.get(one.uid)
        if known is not None and known.at == self._walk_began:
            return known.wants
        return await self._read(one)

    def _is_stale(self, known: _Read) -> bool:
        return self._walk_began - known.at > _STALE_S and self._reads < _MOST_STALE

    async def _read(self, one: Waiting) -> Wants | None:
        if self._reads >= _MOST_READ:
            raise TooManyReads
        self._reads += 1
        try:
            raw = await self._owners.read(one.namespace, one.owner)
        except Forbidden:
            last = self._closed.get(one.uid)
            self._closed[one.uid] = Pause.after(last, self._walk_began, _FORBIDDEN_S, _LONGEST_FORBIDDEN_S)
            raise
        self._closed.pop(one.uid, None)
        wants = None if raw is None else Wants.of(raw, one.namespace, one.tolerated)
        self._known[one.uid] = _Read(wants, one.refused, self._walk_began)
        return wants
