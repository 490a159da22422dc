"""Keeps every node's ledger equal to its pods: level-based, per node, whatever events were missed or repeated."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from controller.control_recorder import ControlRecorder
from controller.ledger_rules import Sightings, review_ledger
from controller.seats import Seats
from shared.core.ledger import Entry
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster, Located
from shared.kube.gpunodes import GpuNode
from shared.kube.ledger import Changes, Ledger
from shared.kube.reserved_pods import has_pod
from shared.kube.workqueue import WorkQueue
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder

log = get_logger(__name__)

_WORKERS: Final = 8
_RESYNC_S: Final = 60.0


class LedgerKeeper:
    """Adds, corrects and drops entries.

    `ttl_s` is how long an entry may wait for its pod, `kept_s` how long a seat is kept for the next pod of its owner.
    """

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        ledger: Ledger,
        seats: Seats,
        *,
        ttl_s: float,
        kept_s: float,
        recorder: ControlRecorder | None = None,
        queues: QueueRecorder | None = None,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._ledger = ledger
        self._seats = seats
        self._ttl_s = ttl_s
        self._kept_s = kept_s
        self._recorder = recorder or ControlRecorder()
        self._seen: dict[str, Sightings] = {}
        self._queue: WorkQueue[str] = WorkQueue("ledger", queues, first_retry_s=0.05, longest_retry_s=10.0)

    async def run(self) -> None:
        """Reconciles every node now, on each change and on a period, until cancelled."""
        unsubscribe = self._cluster.on_node_change(self._queue.add)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._queue.run(self.reconcile, workers=_WORKERS))
                group.create_task(self._resync())
        finally:
            unsubscribe()

    async def reconcile(self, node: str) -> None:
        """Brings the ledger of one node in line with its pods. Raises `ApiError`."""
        if self._cluster.gpu_node(node) is None:
            self._seen.pop(node, None)
            return
        seen = self._seen.setdefault(node, Sightings())
        gone: set[str] = set()
        unreadable: frozenset[str] = frozenset()
        overdue: dict[str, Located] = {}
        seats: dict[str, Entry | None] = {}
        vacant: dict[str, Entry] = {}

        def changes(gpu_node: GpuNode) -> Changes:
            nonlocal overdue, vacant, unreadable
            unreadable = frozenset(gpu_node.broken)
            known = gpu_node.ledger
            review = review_ledger(
                known,
                self._cluster.pods_on(node),
                seen,
                time.monotonic(),
                self._ttl_s,
                left=self._cluster.vacancies.left,
                gone=self._cluster.vacancies.gone,
                kept_s=self._kept_s,
            )
            overdue = {reservation: Located(node, known[reservation]) for reservation in review.overdue}
            vacant = {reservation: known[reservation] for reservation in review.vacant}
            if review.again_in_s is not None:
                self._queue.add_after(node, review.again_in_s + 0.05)
            lost = {reservation: None for reservation in review.overdue if reservation in gone}
            left = {reservation: entry for reservation, entry in seats.items() if reservation in vacant}
            kept = {reservation: entry for reservation, entry in left.items() if entry != vacant[reservation]}
            return {**review.changes, **lost, **kept}

        async def amend() -> None:
            written = await self._ledger.amend(node, changes)
            self._recorder.repaired(written, unseen=gone, unreadable=unreadable)

        await amend()
        if vacant:
            seats.update({each: await self._seats.entry_after(each, entry) for each, entry in vacant.items()})
            await amend()
        if overdue:
            # The watch may be behind, so the API server is asked before anything is called lost.
            gone.update([each for each, located in overdue.items() if not await has_pod(self._client, each, located)])
            if gone:
                log.info("entries without a pod dropped", node=node, entries=len(gone))
                written = await self._ledger.amend(node, changes)
                self._recorder.repaired(written, unseen=gone, unreadable=unreadable)
            if len(gone) < len(overdue):
                self._queue.add_after(node, 1.0)

    async def _resync(self) -> None:
        while True:
            for node in self._cluster.gpu_nodes():
                self._queue.add(node)
            await asyncio.sleep(_RESYNC_S)
