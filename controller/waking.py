"""Wakes workloads whose pods were refused, once there is room: otherwise their controllers back off for minutes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from controller.control_recorder import ControlRecorder
from controller.lacking import Wants
from controller.pauses import Pauses, Progress
from controller.reports import Reports
from controller.room import Room
from controller.waiting import Memory, TooManyReads, Waiting, waiting_in
from controller.workloads import NO_KINDS
from shared.api import names
from shared.core.ledger import owner_hash
from shared.core.pods import PodFacts
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.errors import ApiError, Throttled, Unavailable
from shared.kube.owners import Owners
from shared.obs.logs import get_logger

log = get_logger(__name__)

_DEBOUNCE_S: Final = 1.0
_RESYNC_S: Final = 60.0
_RETRY_S: Final = 2.0
_MOST_WOKEN: Final = 50
"""How many are touched in one walk, and so in a second: each makes a controller create pods, which are all admitted."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A waiting owner, the pods that it has, and the seats that are kept for its workload, each with its node."""

    one: Waiting
    pods: Sequence[PodFacts]
    seats: Mapping[str, str]

    @property
    def progress(self) -> Progress:
        return Progress(len(self.pods), frozenset(self.seats), self.one.refused)


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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`more_kinds` are custom kinds that this account has the right to touch. `clock` is monotonic, in seconds."""
        self._client = client
        self._cluster = cluster
        self._reports = reports
        self._now = now
        self._more_kinds = more_kinds
        self._recorder = recorder or ControlRecorder()
        self._preemption = preemption
        self._clock = clock
        self._due = asyncio.Event()
        self._memory = Memory(owners)
        self._pauses = Pauses()
        self._again: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Walks the waiting owners now and after each change, at most once in a second, until cancelled."""
        ends = [
            self._cluster.on_node_change(lambda _node: self._due.set()),
            self._cluster.storage.on_change(self._due.set),
            self._reports.on_change(lambda _new, _old: self._due.set()),
        ]
        # The leader before this one may have died between a change and its walk.
        self._due.set()
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RESYNC_S):
                        await self._due.wait()
                await asyncio.sleep(_DEBOUNCE_S)
                self._due.clear()
                await self.walk()
        finally:
            self._cancel_again()
            for end in ends:
                end()

    async def walk(self) -> None:
        """Looks at every waiting owner now, the first in rank first, and wakes those who would fit."""
        began = self._clock()
        looks = self._looks()
        self._memory.begin_walk(looks, began)
        self._pauses.keep({uid: look.progress for uid, look in looks.items()})
        if not looks:
            return
        room = Room(self._cluster.snapshot())
        in_vain = {uid for uid in looks if self._pauses.in_vain(uid, began)}
        woken = 0
        # Those for whom no room is kept come last, so that they do not take the others' turns either.
        for look in sorted(looks.values(), key=lambda look: (look.one.uid in in_vain, look.one.rank)):
            if woken == _MOST_WOKEN:
                self._due.set()
                return
            one = look.one
            try:
                woken += await self._look_at(look, room, keeps_room=one.uid not in in_vain)
            except TooManyReads:
                self._due.set()
                return
            except ApiError as error:
                log.info("waiting owner not looked at", namespace=one.namespace, owner=one.owner.name, error=error)
                self._walk_again_in(_RETRY_S)
            except Exception:
                log.exception("waiting owner passed over", namespace=one.namespace, owner=one.owner.name)
            await asyncio.sleep(0)

    def _looks(self) -> dict[str, _Look]:
        """Every waiting owner by its uid, with what there is of it at this moment."""
        waiting = {one.uid: one for report in self._reports.all() for one in waiting_in(report, self._more_kinds)}
        pods: dict[str, list[PodFacts]] = {uid: [] for uid in waiting}
        # One that was created past the webhook is there as well.
        for pod in self._cluster.pods() if waiting else ():
            if pod.owner is not None and pod.owner.uid in pods and not pod.terminating:
                pods[pod.owner.uid].append(pod)
        return {uid: _Look(one, pods[uid], self._seats_of(one)) for uid, one in waiting.items()}

    async def _look_at(self, look: _Look, room: Room, *, keeps_room: bool) -> bool:
        """Wakes an owner if one of the pods that it lacks has a place, and it was not woken a moment ago.

        Nothing of it is asked of the API server unless it would be woken by what is remembered.
        """
        one = look.one
        if (closed_s := self._memory.closed_s(one.uid)) > 0:
            self._walk_again_in(closed_s)
            return False
        wants = await self._memory.wants(one)
        if wants is None or not self._would_fit(look, wants, room):
            self._pauses.has_no_place(one.uid, look.progress)
            return False
        wait_s = self._pauses.wait_s(one.uid, self._clock())
        if wait_s > 0:
            self._walk_again_in(wait_s)
        else:
            wants = await self._memory.wants_now(one)
            if wants is not None and wants.has_all:
                # Its refusal ends with that, unless this is from before it and in a moment no longer so.
                self._walk_again_in(_RETRY_S)
                return False
            if wants is None or not self._would_fit(look, wants, room):
                return False
        if keeps_room:
            for _ in wants.places(look.pods, partial(room.take, seats=look.seats)):
                await asyncio.sleep(0)
        return wait_s == 0 and await self._wake(look)

    def _would_fit(self, look: _Look, wants: Wants, room: Room) -> bool:
        """Whether at least one pod that an owner lacks has a place, or may take that of others."""
        if any(wants.places(look.pods, partial(room.find, seats=look.seats))):
            return True
        if not self._preemption or not look.one.preempts:
            return False
        return any(wants.places(look.pods, partial(room.find_preempting, priority=look.one.priority)))

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

    def _seats_of(self, one: Waiting) -> dict[str, str]:
        """The seats that are kept for the workload of an owner, each with its node."""
        kept = self._cluster.seats_of(one.namespace, owner_hash(one.workload.uid))
        return {reservation: located.node for reservation, located in kept}

    async def _wake(self, look: _Look) -> bool:
        """Touches an owner; whether that was possible. Raises `ApiError` where it may be so in a moment."""
        one = look.one
        kinds = {**self._more_kinds, **paths.OWNER_KINDS}
        path = paths.object_path(one.owner.api_version, one.owner.kind, one.namespace, one.owner.name, kinds)
        stamp = self._now().isoformat(timespec="milliseconds")
        try:
            await self._client.merge_patch(path, {"metadata": {"annotations": {names.WOKEN: stamp}}})
        except (Throttled, Unavailable):
            self._pauses.unanswered(one.uid, self._clock(), look.progress)
            raise
        except ApiError as error:
            log.info("owner not woken", namespace=one.namespace, owner=one.owner.name, error=error)
            is_woken = False
        else:
            log.info("owner woken", namespace=one.namespace, kind=one.owner.kind, owner=one.owner.name)
            self._recorder.woken.inc()
            is_woken = True
        now = self._clock()
        self._pauses.begin(one.uid, now, look.progress)
        # Nothing may change until then, and what it makes nothing of is for the next.
        self._walk_again_in(self._pauses.wait_s(one.uid, now))
        return is_woken
