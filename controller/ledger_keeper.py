"""Keeps every node's ledger equal to its pods: level-based, per node, whatever events were missed or repeated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeAlias

from controller.control_recorder import ControlRecorder
from controller.ledger_rules import Review, Sightings, review_ledger
from controller.lost_entries import crowded_out
from controller.obstacles import seats_in_the_way
from controller.seats import Seats
from shared.core.ledger import Entry
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster, Located
from shared.kube.errors import ApiError
from shared.kube.gpunodes import GpuNode
from shared.kube.ledger import Changes, Ledger
from shared.kube.reserved_pods import has_pod
from shared.kube.workqueue import WorkQueue
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder

log = get_logger(__name__)

_WORKERS: Final = 8
_RESYNC_S: Final = 60.0

_Judge: TypeAlias = Callable[[str, Located], Awaitable[Entry | None]]
"""Finds out what an entry in doubt is to be, by live reads. Raises `ApiError`."""


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
        """Brings the ledger of one node in line with its pods.

        Raises `ApiError` where something could not be found out or written, after all else is done.
        """
        if self._cluster.gpu_node(node) is None:
            self._seen.pop(node, None)
            return
        review = await self._repair(node, {})
        lost = ((reservation, Located(node, entry)) for reservation, entry in review.lost.items())
        failures = await self._settle(node, self._located(node, review.overdue), self._if_it_has_a_pod)
        failures += await self._settle(node, self._located(node, review.vacant), self._if_its_seat_is_kept)
        failures += await self._settle(node, lost, self._if_its_pod_is_there)
        if review.again_in_s is not None:
            self._queue.add_after(node, review.again_in_s + 0.05)
        if failures:
            raise failures[0]

    def _located(self, node: str, reservations: Iterable[str]) -> Iterator[tuple[str, Located]]:
        """The entries among them that the node still has when their turn comes."""
        for reservation in reservations:
            located = self._cluster.locate(reservation)
            if located is not None and located.node == node:
                yield reservation, located

    async def _settle(self, node: str, doubtful: Iterable[tuple[str, Located]], judge: _Judge) -> list[ApiError]:
        """Finds out what entries that are in doubt are to be, each by itself, and writes it. What prevented it: such
        an entry stays as it is meanwhile, there or not.
        """
        verdicts: dict[str, Entry | None] = {}
        failures: list[ApiError] = []
        for reservation, located in doubtful:
            try:
                verdicts[reservation] = await judge(reservation, located)
            except ApiError as error:
                failures.append(error)
        if verdicts:
            await self._repair(node, verdicts)
        return failures

    async def _if_it_has_a_pod(self, reservation: str, located: Located) -> Entry | None:
        """The watch may be behind, so the API server is asked before an entry is called lost."""
        if await has_pod(self._client, reservation, located):
            self._queue.add_after(located.node, 1.0)
            return located.entry
        log.info("entry without a pod given up", node=located.node, reservation=reservation)
        return None

    async def _if_its_pod_is_there(self, reservation: str, located: Located) -> Entry | None:
        """Until the watch tells that a pod is gone, it counts without an entry."""
        return located.entry if await has_pod(self._client, reservation, located) else None

    async def _if_its_seat_is_kept(self, reservation: str, located: Located) -> Entry | None:
        return await self._seats.entry_after(reservation, located.entry)

    async def _repair(self, node: str, verdicts: Changes) -> Review:
        """Writes what is certain of a ledger, and of what is in doubt the `verdicts`. The review of what was there."""
        repair = _Repair(self._review, verdicts)
        written = await self._ledger.amend(node, repair.changes)
        self._recorder.repaired(written, unseen=frozenset(repair.review.overdue), unreadable=repair.unreadable)
        return repair.review

    def _review(self, gpu_node: GpuNode) -> Review:
        vacancies, state = self._cluster.vacancies, self._cluster.node(gpu_node.name)
        return review_ledger(
            gpu_node.ledger,
            self._cluster.pods_on(gpu_node.name),
            self._seen.setdefault(gpu_node.name, Sightings()),
            time.monotonic(),
            self._ttl_s,
            unix_now=time.time(),
            left=vacancies.left,
            gone=vacancies.gone,
            in_the_way=seats_in_the_way(state, vacancies.left) if state is not None else (),
            crowded_out=crowded_out(state, gpu_node.ledger) if state is not None else (),
            kept_s=self._kept_s,
        )

    async def _resync(self) -> None:
        while True:
            for node in self._cluster.gpu_nodes():
                self._queue.add(node)
            await asyncio.sleep(_RESYNC_S)


class _Repair:
    """One change of a ledger, worked out anew for each version of it that has to be written over."""

    def __init__(self, look: Callable[[GpuNode], Review], verdicts: Changes) -> None:
        self.review = Review({}, (), None)
        self.unreadable: frozenset[str] = frozenset()
        self._look = look
        self._verdicts = verdicts
        self._looks = 0

    def changes(self, gpu_node: GpuNode) -> Changes:
        """What is to be changed. A verdict counts while its entry is still in doubt.

        That a pod without an entry was there counts for the ledger of that moment only: if another was written since,
        the pod may be gone, and its room be the reason for the write.
        """
        self.review = review = self._look(gpu_node)
        self.unreadable = frozenset(gpu_node.broken)
        self._looks += 1
        doubtful = (*review.overdue, *review.vacant, *(review.lost if self._looks == 1 else ()))
        found = {each: self._verdicts[each] for each in doubtful if each in self._verdicts}
        return {
            **review.changes,
            **{each: entry for each, entry in found.items() if entry != gpu_node.ledger.get(each)},
        }
