"""Wakes workloads whose pods were refused, once there is room: otherwise their controllers back off for minutes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from controller.control_recorder import ControlRecorder
from controller.reports import Report, Reports
from controller.room import Needs, Room, may_preempt
from controller.workloads import NO_KINDS, pods_of, refused_owner
from shared.api import names
from shared.core.ledger import owner_hash
from shared.core.owners import OwnerRef
from shared.core.refusal import Reason
from shared.core.snapshot import Snapshot
from shared.core.wanted import wanted_pods
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.errors import ApiError, Forbidden, NotFound
from shared.kube.owners import Owners
from shared.obs.logs import get_logger

log = get_logger(__name__)

_DEBOUNCE_S: Final = 1.0
_RESYNC_S: Final = 60.0
_FIRST_PAUSE_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 60.0
_MOST_WOKEN: Final = 50
"""How many are touched in one walk, and so in a second: each makes a controller create pods, which are all admitted."""
_MOST_PODS: Final = 16
"""For how many pods of one owner a walk keeps places from the owners after it; one is reason enough to wake it."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An owner whose creates were refused, and its workload. `rank` orders them: higher priority first, then older."""

    namespace: str
    owner: OwnerRef
    workload: OwnerRef
    rank: tuple[int, str, str]

    @property
    def priority(self) -> int:
        return -self.rank[0]


@dataclass(slots=True)
class _Pause:
    """How long an owner that was woken is left alone, unless a pod came of it: more than the `pods` it had then."""

    until: float
    length_s: float
    pods: int


class Waker:
    """Looks who would fit whenever something changes that can make room, and touches just those."""

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        reports: Reports,
        owners: Owners,
        now: Callable[[], datetime],
        more_kinds: paths.OwnerKinds = NO_KINDS,
        recorder: ControlRecorder | None = None,
        *,
        preemption: bool = False,
    ) -> None:
        """`more_kinds` are custom kinds that this account has the right to touch."""
        self._client = client
        self._cluster = cluster
        self._reports = reports
        self._owners = owners
        self._now = now
        self._more_kinds = more_kinds
        self._recorder = recorder or ControlRecorder()
        self._preemption = preemption
        self._due = asyncio.Event()
        self._again: asyncio.TimerHandle | None = None
        self._pauses: dict[str, _Pause] = {}

    async def run(self) -> None:
        """Walks the waiting owners after each change, at most once in a second, until cancelled."""
        ends = [
            self._cluster.on_node_change(lambda _node: self._due.set()),
            self._cluster.storage.on_change(self._due.set),
            self._reports.on_change(lambda _new, _old: self._due.set()),
        ]
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._due.wait(), _RESYNC_S)
                await asyncio.sleep(_DEBOUNCE_S)
                self._due.clear()
                await self.walk()
        finally:
            for end in ends:
                end()
            self._cancel_again()

    async def walk(self) -> None:
        """Looks at every waiting owner now, the first in rank first, and wakes those who would fit."""
        waiting = sorted(self._waiting(), key=lambda one: one.rank)
        known = {one.owner.uid for one in waiting}
        self._pauses = {uid: pause for uid, pause in self._pauses.items() if uid in known}
        if not waiting:
            return
        pods = self._nodes_of_pods(known)
        room = Room()
        # One picture for the whole walk: memory that is freed under way is for the first in rank, in the next walk.
        live = self._cluster.snapshot()
        snapshot = replace(live, nodes=dict(live.nodes), namespaces=dict(live.namespaces))
        woken = 0
        for one in waiting:
            if woken == _MOST_WOKEN:
                self._due.set()
                return
            try:
                if await self._would_fit(one, pods[one.owner.uid], snapshot, room):
                    woken += await self._wake(one, len(pods[one.owner.uid]))
            except ApiError as error:
                log.info("waiting owner not looked at", namespace=one.namespace, owner=one.owner.name, error=error)
                self._walk_again_in(_FIRST_PAUSE_S)
            except Exception:
                log.exception("waiting owner passed over", namespace=one.namespace, owner=one.owner.name)

    def _waiting(self) -> Iterator[_Waiting]:
        for report in self._reports.all():
            yield from _refused(report, self._more_kinds)

    async def _would_fit(self, one: _Waiting, pods: Sequence[str], snapshot: Snapshot, room: Room) -> bool:
        """Whether at least one pod that the owner of pods on the nodes `pods` lacks has a place; takes the places from
        `room`.

        Of an owner that does not say how many it wants, the refusal says that it lacks one.
        """
        raw = await self._owners.read(one.namespace, one.owner)
        if raw is None:
            return False
        templates = [needs for pod in pods_of(raw, one.namespace) if (needs := Needs.of(pod)) is not None]
        wanted = wanted_pods(raw)
        missing = min(_MOST_PODS, 1 if wanted is None else wanted - len(pods))
        has = set(pods) if one.owner.kind == "DaemonSet" else set()
        seats = {
            reservation: located.node
            for reservation, located in self._cluster.seats_of(one.namespace, owner_hash(one.workload.uid))
        }
        fits = False
        for _ in range(missing):
            lacking = [needs.off(has) for needs in templates]
            node = next(filter(None, (room.take(snapshot, needs, seats) for needs in lacking)), None)
            if node is None:
                # Whose place it takes has none in `room`, and the scheduler keeps for it what they leave.
                return fits or (
                    self._preemption and any(may_preempt(snapshot, needs, one.priority) for needs in lacking)
                )
            if one.owner.kind == "DaemonSet":
                has.add(node)
            fits = True
            await asyncio.sleep(0)
        return fits

    def _nodes_of_pods(self, owners: set[str]) -> defaultdict[str, list[str]]:
        """Where the pods are that each of `owners`, by uid, has at this moment."""
        nodes: defaultdict[str, list[str]] = defaultdict(list)
        for pod in self._cluster.placed_pods():
            if pod.owner is not None and pod.owner.uid in owners and not pod.terminating:
                nodes[pod.owner.uid].append(pod.node)
        return nodes

    def _walk_again_in(self, seconds: float) -> None:
        """Makes a walk due after so long. One timer is enough, for the earliest: each walk asks anew for the others."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._again is None or not loop.time() < self._again.when() <= at:
            self._cancel_again()
            self._again = loop.call_at(at, self._due.set)

    def _cancel_again(self) -> None:
        if self._again is not None:
            self._again.cancel()

    async def _wake(self, one: _Waiting, pods: int) -> bool:
        """Touches an owner, unless that was done a moment ago; whether it was touched."""
        now = time.monotonic()
        pause = self._pauses.get(one.owner.uid)
        if pause is not None and pods > pause.pods:
            pause = None
        if pause is not None and now < pause.until:
            self._walk_again_in(pause.until - now)
            return False
        length_s = _FIRST_PAUSE_S if pause is None else min(2 * pause.length_s, _LONGEST_PAUSE_S)
        self._pauses[one.owner.uid] = _Pause(now + length_s, length_s, pods)
        kinds = {**self._more_kinds, **paths.OWNER_KINDS}
        path = paths.object_path(one.owner.api_version, one.owner.kind, one.namespace, one.owner.name, kinds)
        stamp = self._now().isoformat(timespec="milliseconds")
        try:
            await self._client.merge_patch(path, {"metadata": {"annotations": {names.WOKEN: stamp}}})
        except (NotFound, Forbidden) as error:
            log.info("owner not woken", namespace=one.namespace, owner=one.owner.name, error=error)
            return False
        self._recorder.woken.inc()
        log.info("owner woken", namespace=one.namespace, kind=one.owner.kind, owner=one.owner.name)
        return True


def _refused(report: Report, more_kinds: paths.OwnerKinds) -> Iterator[_Waiting]:
    for key, refusal in report.refusals.items():
        owner = refused_owner(key, refusal, more_kinds)
        if owner is not None and refusal.get("reason") != Reason.INVALID_REQUEST:
            rank = (-int(refusal.get("priority") or 0), str(refusal.get("since")), owner.uid)
            yield _Waiting(report.namespace, owner, report.workload, rank)
