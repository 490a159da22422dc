"""Writes to a node's ledger: compare-and-swap on the `GPUNode`, so that no two writers promise the same GB.

Webhooks only add entries, the controller also removes them. Within a process one write per node is under way at a time:
without that, a process's own writes would make each other conflict.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

from shared.core.ledger import Entry, summarise
from shared.core.placement import fits
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster, Located
from shared.kube.errors import Conflict, NotFound
from shared.kube.gpunodes import GpuNode, gpu_node, summary_json

Changes: TypeAlias = Mapping[str, Entry | None]
"""Reservation id to its new entry, or to None where it is dropped."""


class Ledger:
    """The ledgers of all nodes, written through the API server and read from `cluster`."""

    def __init__(self, client: KubeClient, cluster: Cluster, *, exclusive: bool) -> None:
        self._client = client
        self._cluster = cluster
        self._exclusive = exclusive
        self._locks: dict[str, asyncio.Lock] = {}

    async def reserve(
        self, node: str, reservation: str, entry: Entry, is_still_right: Callable[[], bool] = lambda: True
    ) -> bool:
        """Records `entry`, or returns False because others took the room meanwhile: then decide again.

        Whether there is room, and whether the choice `is_still_right` in every other way, is looked at on the newest
        picture before each try, since a conflict means that somebody else has just promised something on that node.
        Raises `ApiError` when nothing is known to be recorded. A caller that is cancelled must assume that the entry
        may have been written; it is then unconfirmed, and the controller drops it.
        """
        async with self._lock(node):
            while True:
                state = self._cluster.node(node)
                known = self._cluster.gpu_node(node)
                if state is None or known is None:
                    return False
                without_us = state.without_pod(self._cluster.hold_key(reservation))
                if not fits(without_us, entry.shares) or not is_still_right():
                    return False
                try:
                    await self._write(known, {reservation: entry})
                except Conflict:
                    await self.refresh(node)
                except NotFound:
                    self._cluster.gpu_node_deleted(node)
                else:
                    return True

    async def amend(self, node: str, change: Callable[[GpuNode], Changes]) -> None:
        """Applies what `change` says of the newest `GPUNode`, and brings its summary up to date. Writes only if needed.

        Entries that cannot be read are dropped. `change` is called again with a newer object after a conflict. Raises
        `ApiError`.
        """
        async with self._lock(node):
            while (known := self._cluster.gpu_node(node)) is not None:
                changes = {**dict.fromkeys(known.broken), **change(known)}
                if not changes and known.summary == summary_json(summarise(known.inventory.cards, known.ledger)):
                    return
                try:
                    await self._write(known, changes)
                except Conflict:
                    await self.refresh(node)
                except NotFound:
                    self._cluster.gpu_node_deleted(node)
                else:
                    return

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
        try:
            raw = await self._client.get(paths.gpu_nodes(node))
        except NotFound:
            self._cluster.gpu_node_deleted(node)
        else:
            self._cluster.gpu_node_upserted(gpu_node(raw, exclusive=self._exclusive))

    async def _write(self, known: GpuNode, changes: Changes) -> None:
        after = {**known.ledger, **{key: entry for key, entry in changes.items() if entry is not None}}
        for key, entry in changes.items():
            if entry is None:
                after.pop(key, None)
        patch = {
            "metadata": {"resourceVersion": known.resource_version},
            "status": {
                "reservations": {key: entry.encode() if entry else None for key, entry in changes.items()},
                "summary": summary_json(summarise(known.inventory.cards, after)),
            },
        }
        raw = await self._client.merge_patch(paths.status_of(paths.gpu_nodes(known.name)), patch)
        self._cluster.gpu_node_upserted(gpu_node(raw, exclusive=self._exclusive))

    def _lock(self, node: str) -> asyncio.Lock:
        return self._locks.setdefault(node, asyncio.Lock())
