"""Keeps a `GPUNode` for every node whose cards a vendor's device plugin gives away and no agent of ours publishes.

What it says comes from the node's labels and allocatable amounts. An object that an agent or an admin filled is theirs:
the controller only says there whether another plugin gives the same cards away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from shared.api import names
from shared.core.cards import describe_models
from shared.core.snapshot import NodeState
from shared.core.times import in_seconds
from shared.core.vendor_labels import LabelledCards, names_cards, read_labels
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import FROM_LABELS, VENDOR_PLUGIN_PRESENT, GpuNode, gpu_node
from shared.kube.workqueue import WorkQueue
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder

log = get_logger(__name__)

_WORKERS: Final = 4
_RESYNC_S: Final = 300.0
_FIELD_MANAGER: Final = "placement-controller"
_LONGEST_MODELS: Final = 1024


class ManagedNodes:
    """Writes the `GPUNode`s of nodes without an agent. `now` is the wall clock in UTC, `exclusive` the installation's
    choice.
    """

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        now: Callable[[], datetime],
        *,
        exclusive: bool,
        queues: QueueRecorder | None = None,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._now = now
        self._exclusive = exclusive
        self._unread: dict[str, tuple[str, ...]] = {}
        self._queue: WorkQueue[str] = WorkQueue("managed nodes", queues)

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
        """Brings the `GPUNode` of one node in line with the node. Raises `ApiError`."""
        state, known = self._cluster.node(node), self._cluster.gpu_node(node)
        if state is None:
            self._unread.pop(node, None)
            return
        if known is not None and known.has_other_source:
            await self._tell_of_other_plugin(state, known)
            return
        facts = state.facts
        first = known is None or not known.from_labels
        if first and not names_cards(facts.labels, facts.allocatable):
            return
        read = read_labels(node, facts.labels, facts.allocatable)
        if read.unread and self._unread.get(node) != read.unread:
            log.warning("labels that say nothing usable are passed over", node=node, labels=", ".join(read.unread))
        self._unread[node] = read.unread
        status = _status(read)
        if known is None or first:
            raw = await self._client.apply(paths.gpu_nodes(node), _object(node, _owner(state)), _FIELD_MANAGER)
            known = self._noted(raw)
            if known.has_other_source:
                # It has published since the watch last told us, which the next round takes note of.
                return
        elif known.published == {key: value for key, value in status.items() if value}:
            return
        # Whoever wrote it meanwhile may be an agent, whose cards are not to be overwritten.
        await self._apply_status(node, status, version=known.resource_version)

    async def _tell_of_other_plugin(self, state: NodeState, known: GpuNode) -> None:
        present = bool(state.kinds)
        if known.other_plugin != present or known.stale_units:
            resources = ", ".join(kind.resource for kind in state.kinds)
            condition = {
                "type": VENDOR_PLUGIN_PRESENT,
                "status": "True" if present else "False",
                "reason": "GivesWholeCardsAway" if present else "NoneOrOverruled",
                "message": f"{resources} gives this node's cards away and books them, until spec.mode is set"
                if present
                else "the product's own resources book the cards",
                "lastTransitionTime": in_seconds(self._now()),
            }
            await self._apply_status(state.name, {"conditions": [condition]})

    async def _apply_status(self, node: str, status: Mapping[str, Any], *, version: str | None = None) -> None:
        """Writes our part of a status; `Conflict` if `version` is given and no longer the stored one."""
        body = {**_object(node), "status": dict(status)}
        if version is not None:
            body["metadata"] = {**body["metadata"], "resourceVersion": version}
        self._noted(await self._client.apply(paths.status_of(paths.gpu_nodes(node)), body, _FIELD_MANAGER))

    def _noted(self, raw: Mapping[str, Any]) -> GpuNode:
        """A `GPUNode` as it is stored now, which the cluster's picture has from here on."""
        read = gpu_node(raw, exclusive=self._exclusive)
        self._cluster.gpu_node_upserted(read)
        return read

    async def _resync(self) -> None:
        while True:
            for node in self._cluster.snapshot().nodes:
                self._queue.add(node)
            await asyncio.sleep(_RESYNC_S)


def _status(read: LabelledCards) -> dict[str, Any]:
    """The part of a `GPUNode.status` that the controller owns on a node without an agent."""
    return {
        "source": FROM_LABELS,
        "cards": [
            {
                "index": card.index,
                "uuid": card.uuid[:128],
                "model": card.model,
                "vendor": card.vendor.value,
                "class": card.card_class.value,
                "memoryMiB": card.memory_mib,
                "budgetGB": card.budget_gb,
                "healthy": True,
                "foreignGB": 0,
            }
            for card in read.cards
        ],
        "models": describe_models(card.model for card in read.cards)[:_LONGEST_MODELS],
        "accelVersions": dict(read.accel),
        "units": [
            {
                "resource": kind.resource,
                **({} if kind.gb is None else {"gb": kind.gb}),
                "perCard": kind.per_card,
                "partition": kind.partition,
            }
            for kind in read.kinds
        ],
    }


def _owner(state: NodeState) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "name": state.name, "uid": state.facts.uid}


def _object(node: str, owner: Mapping[str, Any] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": node}
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner)]
    return {"apiVersion": names.API_VERSION, "kind": names.GPU_NODE, "metadata": metadata}
