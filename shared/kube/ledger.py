"""Writes to a node's ledger: compare-and-swap on the `GPUNode`, so that no two writers promise the same GB.

Webhooks add entries, each in place of an earlier attempt if there is one; the controller removes them. Within a process
one write per node is under way at a time: without that, a process's own writes would make each other conflict.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from shared.core.ledger import Entry, summarise
from shared.core.nameless import nameless
from shared.core.placement import fits
from shared.core.snapshot import NodeState
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster, Located
from shared.kube.errors import ApiError, Conflict, NotFound
from shared.kube.gpunodes import GpuNode, gpu_node, summary_json
from shared.obs.recorders import LedgerRecorder

Changes: TypeAlias = Mapping[str, Entry | None]
"""Reservation id to its new entry, or to None where it is dropped."""

_MOST_CONFLICTS: Final = 20
"""One after the other. So many others are not as fast: the picture cannot be brought up to date, and waiting helps."""


@dataclass(slots=True, eq=False)
class _Wish:
    """An entry that waits to be written, in place of the one that it `replaces` if any.

    `victims` are the pods, by key, that have to leave before there is room for it.
    `outcome` says whether it was, or what went wrong; None while it is open.
    """

    reservation: str
    entry: Entry
    is_still_right: Callable[[], bool]
    replaces: str | None = None
    victims: frozenset[str] = frozenset()
    outcome: bool | ApiError | None = None


class Ledger:
    """The ledgers of all nodes, written through the API server and read from `cluster`. `recorder` counts writes."""

    def __init__(self, client: KubeClient, cluster: Cluster, *, exclusive: bool) -> None:
        self._client = client
        self._cluster = cluster
        self._exclusive = exclusive
        self.recorder = LedgerRecorder()
        # A lock lasts as long as somebody has it or waits for it: nodes come and go for as long as the process lives.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._waiting: dict[str, list[_Wish]] = {}

    async def reserve(
        self,
        node: str,
        reservation: str,
        entry: Entry,
        is_still_right: Callable[[], bool] = lambda: True,
        *,
        replaces: str | None = None,
        victims: frozenset[str] = frozenset(),
    ) -> bool:
        """Records `entry`, or returns False because others took the room meanwhile: then decide again.

        Whether there is room, and whether the choice `is_still_right` in every other way, is looked at on the newest
        picture before each try, since a conflict means that somebody else has just promised something on that node.
        Entries that wait for the same node go out in one write, and so does the end of an entry on this node that one
        of them `replaces`; where that is gone already, or has a pod after all, the new one has no right to its room.
        For an entry that is preempting there has to be room once its `victims`, by the keys of their pods, have left.
        Raises `ApiError` when nothing is known to be recorded. A caller that is cancelled must assume that the entry
        may have been written; it is then unconfirmed, and the controller drops it.
        """
        wish = _Wish(reservation, entry, is_still_right, replaces, victims)
        self._waiting.setdefault(node, []).append(wish)
        try:
            async with self._lock(node):
                if wish.outcome is None:
                    await self._write_waiting(node)
        finally:
            self._forget(node, wish)
            if wish.outcome is None:
                wish.outcome = False  # Its caller gave up: a write that is under way may have it, no other shall.
        if isinstance(wish.outcome, ApiError):
            raise wish.outcome
        return bool(wish.outcome)

    async def amend(self, node: str, change: Callable[[GpuNode], Changes]) -> Changes:
        """Applies what `change` says of the newest `GPUNode`, and brings its summary up to date. Writes only if needed.

        Returns the changes that were written. Entries that cannot be read are dropped. `change` is called again with a
        newer object after a conflict. Raises `ApiError`, a `Conflict` where one follows the other.
        """
        return await self._change(node, lambda known: {**dict.fromkeys(known.broken), **change(known)})

    async def drop(self, node: str, reservation: str) -> None:
        """Ends an entry that another one on another node has replaced. Raises `ApiError`."""

        def without(known: GpuNode) -> Changes:
            entry = known.ledger.get(reservation)
            has_no_pod = entry is not None and not self._cluster.carriers(reservation, entry.namespace)
            return {reservation: None} if has_no_pod else {}

        await self._change(node, without)

    async def _change(self, node: str, change: Callable[[GpuNode], Changes]) -> Changes:
        conflicts = 0
        async with self._lock(node):
            while (known := self._cluster.gpu_node(node)) is not None:
                changes = change(known)
                if not changes and known.summary == self._summary(known, known.ledger):
                    break
                try:
                    await self._write(known, changes)
                except Conflict:
                    conflicts += 1
                    if conflicts > _MOST_CONFLICTS:
                        raise
                    await self.refresh(node)
                except NotFound:
                    self._forget_object(known)
                else:
                    return changes
        return {}

    async def locate(self, reservation: str, node: str) -> Located | None:
        """The entry of an id: from memory, or from one live read of the node it should be on. Raises `ApiError`."""
        located = self._cluster.locate(reservation)
        if located is None:
            with contextlib.suppress(paths.InvalidName):
                await self.refresh(node)
            located = self._cluster.locate(reservation)
        return located

    async def refresh(self, node: str) -> None:
        """Reads a node's `GPUNode` now instead of waiting for the watch. Raises `ApiError`."""
        known = self._cluster.gpu_node(node)
        try:
            raw = await self._client.get(paths.gpu_nodes(node))
        except NotFound:
            if known is not None:
                self._forget_object(known)
        else:
            self._cluster.gpu_node_upserted(gpu_node(raw, exclusive=self._exclusive))

    async def _write_waiting(self, node: str) -> None:
        """Writes every wish that waits for `node` in one patch: a burst costs a few writes instead of one each."""
        batch = self._waiting.pop(node, [])
        try:
            while batch := self._still_open(node, batch):
                known = self._cluster.gpu_node(node)
                assert known is not None, "wishes for an unknown node are not open"
                try:
                    replaced: Changes = {wish.replaces: None for wish in batch if wish.replaces is not None}
                    await self._write(known, {**replaced, **{wish.reservation: wish.entry for wish in batch}})
                except Conflict:
                    await self.refresh(node)
                except NotFound:
                    self._forget_object(known)
                else:
                    for wish in batch:
                        wish.outcome = True
        except ApiError as error:
            for wish in batch:
                wish.outcome = error
        except asyncio.CancelledError:
            # The one that was writing ran out of time; the others are for the next to write.
            self._waiting.setdefault(node, []).extend(wish for wish in batch if wish.outcome is None)
            raise

    def _still_open(self, node: str, batch: Sequence[_Wish]) -> list[_Wish]:
        """Settles the wishes for which nothing is left to write, recorded or without room, and returns the others."""
        state, known = self._cluster.node(node), self._cluster.gpu_node(node)
        if state is None or known is None:
            for wish in batch:
                wish.outcome = False
            return []
        for wish in batch:
            state = state.without_pod(self._cluster.hold_key(wish.reservation))
        still_open: list[_Wish] = []
        for wish in batch:
            entry, vacated = wish.entry, self._vacated(state, wish)
            if wish.outcome is not None:
                continue
            if known.ledger.get(wish.reservation) == entry:
                wish.outcome = True
            elif (
                vacated is None
                or not fits(vacated.without_pods(wish.victims), entry.shares, entry.memory_mib, entry.units)
                or not wish.is_still_right()
            ):
                wish.outcome = False
            else:
                state = vacated.with_entry(wish.reservation, entry)
                still_open.append(wish)
        return still_open

    def _vacated(self, state: NodeState, wish: _Wish) -> NodeState | None:
        """The node without what a wish replaces, or None if that is not there to be replaced any more."""
        if wish.replaces is None:
            return state
        replaced = state.ledger.get(wish.replaces)
        if replaced is None or self._cluster.carriers(wish.replaces, replaced.namespace):
            return None
        return state.without_pod(self._cluster.hold_key(wish.replaces)).without_entry(wish.replaces)

    def _forget_object(self, known: GpuNode) -> None:
        """Drops an object that a request did not find, but not its successor, of which a watch has told meanwhile."""
        now = self._cluster.gpu_node(known.name)
        if now is not None and now.uid == known.uid:
            self._cluster.gpu_node_deleted(known.name)

    def _forget(self, node: str, wish: _Wish) -> None:
        """Takes a wish off the waiting ones, if it is still among them because its caller gave up."""
        waiting = self._waiting.get(node, [])
        if wish in waiting:
            waiting.remove(wish)
        if not waiting:
            self._waiting.pop(node, None)

    async def _write(self, known: GpuNode, changes: Changes) -> None:
        after = {**known.ledger, **{key: entry for key, entry in changes.items() if entry is not None}}
        for key, entry in changes.items():
            if entry is None:
                after.pop(key, None)
        patch = {
            "metadata": {"resourceVersion": known.resource_version},
            "status": {
                "reservations": {key: entry.encode() if entry else None for key, entry in changes.items()},
                "summary": self._summary(known, after),
            },
        }
        with self._counted(len(changes)):
            raw = await self._client.merge_patch(paths.status_of(paths.gpu_nodes(known.name)), patch)
        self._cluster.gpu_node_upserted(gpu_node(raw, exclusive=self._exclusive))

    @contextlib.contextmanager
    def _counted(self, entries: int) -> Iterator[None]:
        """Tells the recorder how a write of so many entries ended, and when."""
        sent_at = time.monotonic()
        result = LedgerRecorder.FAILED
        try:
            yield
            result = LedgerRecorder.WRITTEN
        except Conflict:
            result = LedgerRecorder.CONFLICT
            raise
        except NotFound:
            result = LedgerRecorder.MISSING
            raise
        finally:
            self.recorder.wrote(result, entries, time.monotonic() - sent_at)

    def _lock(self, node: str) -> asyncio.Lock:
        return self._locks.setdefault(node, asyncio.Lock())

    def _summary(self, known: GpuNode, entries: Mapping[str, Entry]) -> dict[str, Any]:
        state = self._cluster.node(known.name)
        if state is None:
            return summary_json(summarise(known.inventory.cards, entries))
        return summary_json(summarise(known.inventory.cards, {**entries, **nameless(state.pods)}, state.kinds))
