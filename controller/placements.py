"""Keeps a `ModelPlacement` for every workload that has placed pods or was refused, and tells its events."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from controller.control_recorder import ControlRecorder
from controller.events import Events, EventType
from controller.lost_refusals import LostRefusals, with_lost
from controller.memory_trouble import memory_trouble
from controller.placement_history import placement_history
from controller.placement_news import News, placement_news
from controller.placement_status import placement_status
from controller.reports import Report, Reports, Workload
from controller.standing import still_refused
from controller.unplaced import Unplaced
from shared.core.ledger import Mark
from shared.core.owners import OwnerRef, controller_of
from shared.core.pod_fate import PodFate
from shared.core.pods import PodFacts
from shared.core.preemption import victims_left
from shared.core.times import in_seconds
from shared.core.wanted import wanted_pods
from shared.kube import paths
from shared.kube.backoff import jittered
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from shared.kube.fates import Fates
from shared.kube.model_placements import patch_status, placement_name
from shared.kube.owners import Owners
from shared.kube.unwritten import Unwritten
from shared.kube.workqueue import WorkQueue
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder

log = get_logger(__name__)

_WORKERS: Final = 8
_TROUBLED_PERIOD_S: Final = 30.0
_PERIOD_S: Final = 600.0
"""How often a workload is looked at unasked: nothing tells of an owner that was scaled. With an error, or while a pod
is missing, it matters soon: a Job says that it is done a moment after its last pod. Of ten thousand others each look is
a live read.
"""
_SETTLE_S: Final = 0.2
"""Pods of one workload come and go in bursts, which one write then reports."""

_MOST_UNTOLD: Final = 25
"""Events that a workload gets at once; no more are kept while none can be written."""
_MEMORY: Final = "outOfMemory"
"""Stands beside the keys of the refusals for what is told of a death for lack of memory."""


class Placements:
    """Writes the `ModelPlacement`s that `reports` reads. `now` is the wall clock in UTC."""

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        fates: Fates,
        reports: Reports,
        owners: Owners,
        events: Events,
        now: Callable[[], datetime],
        queues: QueueRecorder | None = None,
        recorder: ControlRecorder | None = None,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._fates = fates
        self._reports = reports
        self._owners = owners
        self._events = events
        self._now = now
        self._recorder = recorder or ControlRecorder()
        self._workload_of: dict[str, Workload] = {}
        self._pods_of: dict[Workload, set[str]] = {}
        self._has_begun = False
        self._preempting: set[str] = set()
        self._lost = LostRefusals()
        self._unplaced = Unplaced()
        self._unwritten = Unwritten("workload not reported")
        self._told: dict[str, dict[str, object]] = {}
        self._untold: dict[str, deque[News]] = {}
        self._arrivals: WorkQueue[str] = WorkQueue("pods to workloads", queues)
        self._queue: WorkQueue[Workload] = WorkQueue("model placements", queues)

    async def run(self) -> None:
        """Reports every workload now, on each change and on a period, until cancelled."""
        ends = [
            self._cluster.on_pod_change(self._pod_changed),
            self._fates.on_change(self._pod_changed),
            self._cluster.on_node_change(self._node_changed),
            self._reports.on_change(self._report_changed),
        ]
        try:
            for pod in self._cluster.placed_pods():
                self._arrivals.add(pod.key)
            for fate in self._fates.all():
                self._arrivals.add(fate.key)
            for report in self._reports.all():
                self._queue.add((report.namespace, report.workload))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._arrivals.run(self._assign, workers=_WORKERS))
                # A status shows the first of many pods only: until the others are found it would say too few.
                await self._arrivals.idle()
                self._has_begun = True
                group.create_task(self._queue.run(self.reconcile, workers=_WORKERS))
        finally:
            for end in ends:
                end()

    def pods_of(self, namespace: str, top: OwnerRef) -> list[PodFacts] | None:
        """The placed pods of a top owner, as far as their owners could be looked up; None until that has been tried for
        each of those that there were when it began.
        """
        if not self._has_begun:
            return None
        keys = self._pods_of.get((namespace, top), ())
        return [pod for key in keys if (pod := self._cluster.pod(key)) is not None]

    def _pod_changed(self, key: str) -> None:
        if self._member(key) is not None:
            self._arrivals.add(key)
            return
        self._leave(key)

    def _node_changed(self, node: str) -> None:
        """A ledger may say only now that a pod waits for others to leave."""
        for key, pod in self._cluster.pods_on(node).items():
            workload = self._workload_of.get(key)
            if workload is not None and self._waits(pod) != (key in self._preempting):
                self._queue.add_after(workload, _SETTLE_S)

    def _waits(self, pod: PodFacts) -> bool:
        """Whether a pod's cards are still held by others, which are about to leave them."""
        located = None if pod.bound or pod.terminating else self._cluster.locate(pod.reservation or "")
        return located is not None and located.entry.mark is Mark.PREEMPTING

    def _victims_of(self, pod: PodFacts) -> int:
        state = self._cluster.node(pod.node)
        return 0 if state is None else victims_left(state, pod, self._cluster.disruption_budgets.all())

    def _member(self, key: str) -> PodFacts | PodFate | None:
        """A pod that a workload counts: a placed one, or one of which there is something else to tell."""
        pod = self._cluster.pod(key)
        return pod if pod is not None and pod.is_placed else self._fates.of(key)

    def _leave(self, key: str) -> None:
        """Takes a pod off the workload that it counted for, if any."""
        self._preempting.discard(key)
        workload = self._workload_of.pop(key, None)
        if workload is not None:
            members = self._pods_of[workload]
            members.discard(key)
            if not members:
                del self._pods_of[workload]
            self._queue.add_after(workload, _SETTLE_S)

    async def _assign(self, key: str) -> None:
        """Finds the workload of a pod, by live reads of its owners where they are not remembered."""
        pod = self._member(key)
        if pod is None:
            return
        if pod.owner is None:
            top = OwnerRef("v1", "Pod", pod.name, pod.key)
        else:
            top = await self._owners.top(pod.namespace, pod.owner)
            if self._member(key) is None:
                return
        workload = (pod.namespace, top)
        if self._workload_of.get(key, workload) != workload:
            self._leave(key)  # an owner above it could not be read before, or is gone and another has adopted it
        self._workload_of[key] = workload
        self._pods_of.setdefault(workload, set()).add(key)
        self._queue.add_after(workload, _SETTLE_S)

    async def _move(self, workload: Workload) -> None:
        """Takes the pods of a workload that is gone to the one that has adopted them, if there is one."""
        namespace, top = workload
        for key in tuple(self._pods_of.get(workload, ())):
            pod = self._member(key)
            if pod is not None and pod.owner is not None and await self._owners.top(namespace, pod.owner) != top:
                await self._assign(key)

    def _report_changed(self, new: Report | None, old: Report | None) -> None:
        if new is None and old is not None:
            self._lost.deleted(old)
        for report in (new, old):
            if report is not None:
                self._queue.add_after((report.namespace, report.workload), _SETTLE_S)

    async def reconcile(self, workload: Workload) -> None:
        """Brings the `ModelPlacement` of a workload in line with its pods.

        Raises `ApiError`, a `Conflict` too while another workload has the object.
        """
        namespace, top = workload
        report = self._reports.of(namespace, top)
        ours = report if report is not None and report.workload.uid == top.uid else None
        old = ours.status if ours is not None else {}
        owner, is_closed = None, False
        try:
            owner = await self._owners.read(namespace, top)
        except Forbidden:
            is_closed = True  # Nothing is known of it, so nothing of it is over.
        gone = not top.uid or (not is_closed and owner is None and await self._owners.is_gone(namespace, top))
        # What was left behind may have been adopted: then what it has is told of the one above, as is its next refusal.
        is_adopted = owner is not None and controller_of(owner) is not None
        is_top = is_closed or (owner is not None and not is_adopted)
        if gone or not is_top:
            await self._move(workload)
        members = self._members(workload, old)
        pods = [pod for key in members if (pod := self._cluster.pod(key)) is not None]
        fates = [fate for key in members if (fate := self._fates.of(key)) is not None]
        stored = ours.refusals if ours is not None and not gone and not is_adopted else {}
        lost = self._lost.of(workload, owner)
        refusals = with_lost(stored, lost)
        now = self._now()
        standing = {
            key: refusal
            for key, refusal in refusals.items()
            if is_closed or await still_refused(self._owners, namespace, top, owner, key, refusal, pods, now)
        }
        # One that may not be read may be gone: its report, which somebody has collected, is not made again for nothing.
        is_shown = ours is not None if is_closed else is_top
        if gone or not (is_shown or pods or fates or standing):
            self._unplaced.forget(top.uid)
            self._told.pop(top.uid, None)
            self._untold.pop(top.uid, None)
            await self._delete(ours)
            return
        if report is not None and ours is None:
            # What is stored is about an earlier workload of this name, which goes as soon as that is noticed, or about
            # one of another API group, a Job of Volcano's, which keeps it as long as it lives.
            self._queue.add((namespace, report.workload))
            other = report.workload
            raise Conflict(409, "Conflict", f"its report is that of {other.kind} {other.name} of {other.api_version}")
        wanted = _wanted(owner, pods, len(standing))
        time = in_seconds(now)
        over = (fate for fate in fates if fate.is_over)
        history = placement_history(old, over, self._exists, self._fates.last_of, now)
        trouble = memory_trouble(old, pods, fates, history, now)
        down = {fate.key for fate in fates if fate.is_down}
        preempting = {pod.key for pod in pods if self._waits(pod)}
        self._preempting = (self._preempting - members) | preempting
        status = placement_status(
            pods,
            standing,
            wanted,
            old,
            time,
            down=down,
            preempting=preempting,
            unplaced=self._count_unplaced(workload, owner, pods, fates),
            trouble=trouble,
        )
        status["history"] = history
        if stored != standing:
            status["refusals"] = {key: standing.get(key) for key in refusals if stored.get(key) != standing.get(key)}
        troubled = standing or trouble or is_closed or status["phase"] == "Pending"
        self._queue.add_after(workload, _TROUBLED_PERIOD_S if troubled else jittered(_PERIOD_S, 0.5, 1.5))
        # What is shown from now on is no news any more: it is kept until it is told.
        news = tuple(placement_news(old, pods, preempting, self._victims_of))
        try:
            if _differs(old, status):
                try:
                    await patch_status(self._client, namespace, top, status, ours.resource_version if ours else None)
                except Unavailable:
                    self._keep(top, news)  # It may be shown all the same.
                    raise
                if trouble is not None and trouble != old.get("outOfMemory"):
                    self._recorder.ran_out(trouble["code"])
            if ours is not None:
                self._lost.settled(workload, lost)
            untold = self._keep(top, news)
            await self._tell_troubles(namespace, top, standing, trouble, old)
            while untold:
                await self._events.emit(namespace, top, *untold[0])
                untold.popleft()
            self._untold.pop(top.uid, None)
        except (paths.InvalidName, NotFound, Forbidden, Invalid) as error:
            # Its owner or its namespace goes at this moment and takes the object with it, or has a made-up name; or
            # something keeps the object from being written.
            self._unwritten.tell(namespace, f"{top.kind}/{top.name}", error)
            self._untold.pop(top.uid, None)
            self._queue.add_after(workload, _TROUBLED_PERIOD_S)

    def _keep(self, top: OwnerRef, news: Iterable[News]) -> deque[News]:
        """What is to be told of a workload, with `news`."""
        untold = self._untold.setdefault(top.uid, deque(maxlen=_MOST_UNTOLD))
        untold += [each for each in news if each not in untold]
        return untold

    def _members(self, workload: Workload, old: Mapping[str, Any]) -> set[str]:
        """The uids of a workload's pods: those found so far, and those that its status shows, which a controller that
        has just begun may not have found yet.
        """
        shown = (str(placement.get("uid")) for placement in old.get("placements") or ())
        return self._pods_of.get(workload, set()) | {
            key for key in shown if self._workload_of.get(key, workload) == workload
        }

    def _count_unplaced(
        self,
        workload: Workload,
        owner: Mapping[str, Any] | None,
        pods: Collection[PodFacts],
        fates: Collection[PodFate],
    ) -> int:
        """How many pods of a workload lack a place. Where that is not sure yet, it is looked at again."""
        placed = {pod.key for pod in pods if pod.is_placed} | {fate.key for fate in fates}
        number, again_in_s = self._unplaced.of(workload[1].uid, owner, len(placed))
        if again_in_s:
            self._queue.add_after(workload, again_in_s)
        return number

    def _exists(self, key: str) -> bool:
        """Whether a pod still takes what it was given."""
        return self._cluster.pod(key) is not None

    async def _delete(self, report: Report | None) -> None:
        """Deletes the object of a workload of which nothing is left to say.

        Kubernetes' garbage collector may take half a minute with one whose owner is gone, and never collects one whose
        owner is made up. An object that has changed in the meantime stays, and is looked at again.
        """
        if report is not None:
            path = paths.model_placements(report.namespace, placement_name(report.workload))
            preconditions = {"uid": report.uid, "resourceVersion": report.resource_version}
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(path, {"preconditions": preconditions})

    async def _tell_troubles(
        self,
        namespace: str,
        top: OwnerRef,
        standing: Mapping[str, Mapping[str, Any]],
        trouble: Mapping[str, Any] | None,
        old: Mapping[str, Any],
    ) -> None:
        """Tells of each refusal and of a death for lack of memory once. What was held back or could not be written is
        told at the next look, which such a workload gets soon.
        """
        troubles: dict[str, tuple[object, str, str]] = {
            key: ((refusal.get("message"), refusal.get("count")), "NoFit", str(refusal.get("message")))
            for key, refusal in standing.items()
        }
        shown: dict[str, object] = {}
        if trouble is not None:
            troubles[_MEMORY] = (trouble, trouble["code"], trouble["message"])
            shown[_MEMORY] = old.get("outOfMemory")
        told = {**shown, **self._told.pop(top.uid, {})}
        if not troubles:
            return
        self._told[top.uid] = told = {key: state for key, state in told.items() if key in troubles}
        for key, (state, reason, message) in troubles.items():
            if told.get(key) != state:
                told[key] = None
                if await self._events.emit(namespace, top, EventType.WARNING, reason, message):
                    told[key] = state


def _wanted(owner: Mapping[str, Any] | None, pods: Collection[PodFacts], refused: int) -> int:
    """How many pods an owner wants; of one that does not say so, how many were seen of it."""
    if owner is not None and owner["metadata"].get("deletionTimestamp"):
        return 0
    wanted = wanted_pods(owner) if owner is not None else None
    return sum(not pod.terminating for pod in pods) + refused if wanted is None else wanted


def _differs(old: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Whether merging `patch` into `old` would change it."""
    for key, value in patch.items():
        if isinstance(value, dict):
            if _differs(old.get(key) or {}, value):
                return True
        elif old.get(key) != value:
            return True
    return False
