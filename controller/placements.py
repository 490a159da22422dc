"""Keeps a `ModelPlacement` for every workload that has placed pods or was refused, and tells its events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from controller.events import Events, EventType
from controller.placement_status import card_words, placement_status
from controller.reports import Report, Reports
from controller.workloads import refused_owner, wanted_pods
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.errors import Conflict, NotFound
from shared.kube.model_placements import patch_status, placement_name
from shared.kube.owners import Owners
from shared.kube.workqueue import WorkQueue

_WORKERS: Final = 8
_RESYNC_S: Final = 30.0
_SETTLE_S: Final = 0.2
"""Pods of one workload come and go in bursts, which one write then reports."""

Workload: TypeAlias = tuple[str, OwnerRef]
"""Namespace and top owner."""


class Placements:
    """Writes the `ModelPlacement`s that `reports` reads. `now` is the wall clock in UTC."""

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        reports: Reports,
        owners: Owners,
        events: Events,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._reports = reports
        self._owners = owners
        self._events = events
        self._now = now
        self._workload_of: dict[str, Workload] = {}
        self._pods_of: dict[Workload, set[str]] = {}
        self._told: dict[tuple[str, str], object] = {}
        self._arrivals: WorkQueue[str] = WorkQueue("pods to workloads")
        self._queue: WorkQueue[Workload] = WorkQueue("model placements")

    async def run(self) -> None:
        """Reports every workload now, on each change and on a period, until cancelled."""
        ends = [self._cluster.on_pod_change(self._pod_changed), self._reports.on_change(self._report_changed)]
        try:
            for pod in self._cluster.placed_pods():
                self._arrivals.add(pod.key)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._arrivals.run(self._assign, workers=_WORKERS))
                group.create_task(self._queue.run(self.reconcile, workers=_WORKERS))
                group.create_task(self._resync())
        finally:
            for end in ends:
                end()

    def _pod_changed(self, key: str) -> None:
        pod = self._cluster.pod(key)
        if pod is not None and pod.shares:
            self._arrivals.add(key)
            return
        self._leave(key)

    def _leave(self, key: str) -> None:
        """Takes a pod off the workload that it counted for, if any."""
        workload = self._workload_of.pop(key, None)
        if workload is not None:
            members = self._pods_of[workload]
            members.discard(key)
            if not members:
                del self._pods_of[workload]
            self._queue.add_after(workload, _SETTLE_S)

    async def _assign(self, key: str) -> None:
        """Finds the workload of a pod, by live reads of its owners where they are not remembered."""
        pod = self._cluster.pod(key)
        if pod is None:
            return
        if pod.owner is None:
            top = OwnerRef("v1", "Pod", pod.name, pod.key)
        else:
            top = await self._owners.top(pod.namespace, pod.owner)
            if self._cluster.pod(key) is None:
                return
        workload = (pod.namespace, top)
        if self._workload_of.get(key, workload) != workload:
            self._leave(key)  # an owner above it could not be read before
        self._workload_of[key] = workload
        self._pods_of.setdefault(workload, set()).add(key)
        self._queue.add_after(workload, _SETTLE_S)

    def _report_changed(self, new: Report | None, _old: Report | None) -> None:
        if new is not None:
            self._queue.add_after((new.namespace, new.workload), _SETTLE_S)

    async def reconcile(self, workload: Workload) -> None:
        """Brings the `ModelPlacement` of a workload in line with its pods. Raises `ApiError`."""
        namespace, top = workload
        report = self._reports.of(namespace, top)
        pods = [pod for key in self._pods_of.get(workload, ()) if (pod := self._cluster.pod(key)) is not None]
        owner = await self._owners.read(namespace, top)
        if owner is None and await self._is_over(namespace, top, pods, report):
            self._forget_told(top, ())
            return
        if report is not None and report.workload.uid != top.uid:
            # What is stored is about an earlier workload of this name, which goes as soon as that is noticed.
            self._queue.add((namespace, report.workload))
            self._queue.add_after(workload, _SETTLE_S)
            return
        refusals = report.refusals if report is not None else {}
        standing = {
            key: refusal for key, refusal in refusals.items() if await self._stands(workload, key, refusal, owner, pods)
        }
        wanted = wanted_pods(owner) if owner is not None else None
        if wanted is None:
            wanted = len(pods) + len(standing)
        old = report.status if report is not None else {}
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status = placement_status(pods, standing, wanted, old, now)
        for key in refusals.keys() - standing.keys():
            status.setdefault("refusals", {})[key] = None
        if _differs(old, status):
            version = report.resource_version if report is not None else None
            await patch_status(self._client, namespace, top, status, version)
        await self._tell(namespace, top, pods, standing, old)

    async def _is_over(self, namespace: str, top: OwnerRef, pods: Collection[PodFacts], report: Report | None) -> bool:
        """Whether nothing is to be said of a workload any more, although its last pods may still be on their way out.

        Deletes the object of one that is gone: Kubernetes' garbage collector may take half a minute. An owner of a kind
        that cannot be read may still be there, and be refused more pods.
        """
        reported = report is not None and report.workload.uid == top.uid
        if not await self._owners.is_gone(namespace, top):
            return not pods and not reported
        if report is not None and reported:
            with contextlib.suppress(NotFound, Conflict):
                path = paths.model_placements(namespace, placement_name(top))
                await self._client.delete(path, {"preconditions": {"uid": report.uid}})
        return True

    async def _stands(
        self,
        workload: Workload,
        key: str,
        refusal: Mapping[str, Any],
        top: Mapping[str, Any] | None,
        pods: Iterable[PodFacts],
    ) -> bool:
        """Whether a refused owner still lacks a pod."""
        namespace, top_owner = workload
        refused = refused_owner(key, refusal)
        if refused is None or refused.uid == top_owner.uid:
            raw = top
        else:
            raw = await self._owners.read(namespace, refused)
            if raw is None:
                return False
        wanted = None if raw is None else wanted_pods(raw)
        if wanted is None:
            return True
        uid = refusal.get("uid")
        return sum(pod.owner is not None and pod.owner.uid == uid and not pod.terminating for pod in pods) < wanted

    async def _tell(
        self,
        namespace: str,
        top: OwnerRef,
        pods: Iterable[PodFacts],
        standing: Mapping[str, Mapping[str, Any]],
        old: Mapping[str, Any],
    ) -> None:
        known = {placement.get("pod") for placement in old.get("placements") or ()}
        if len(known) < 20:
            for pod in sorted(pods, key=lambda pod: pod.name):
                if pod.shares and pod.name not in known:
                    message = f"pod {pod.name} is placed on {card_words(pod)}"
                    await self._events.emit(namespace, top, EventType.NORMAL, "Placed", message)
        for key, refusal in standing.items():
            state = (refusal.get("message"), refusal.get("count"))
            if self._told.get((top.uid, key)) != state:
                self._told[top.uid, key] = state
                await self._events.emit(namespace, top, EventType.WARNING, "NoFit", str(refusal.get("message")))
        self._forget_told(top, standing)

    def _forget_told(self, top: OwnerRef, standing: Collection[str]) -> None:
        """Drops what is remembered of the refusals of a workload that do not stand any more."""
        for told in [told for told in self._told if told[0] == top.uid and told[1] not in standing]:
            del self._told[told]

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(_RESYNC_S)
            for workload in {*self._pods_of, *((report.namespace, report.workload) for report in self._reports.all())}:
                self._queue.add(workload)


def _differs(old: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Whether merging `patch` into `old` would change it."""
    for key, value in patch.items():
        if isinstance(value, dict):
            if _differs(old.get(key) or {}, value):
                return True
        elif old.get(key) != value:
            return True
    return False
