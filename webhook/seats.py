"""Which kept seat a new pod takes: one of its own workload, whose pod is gone.

Without it a model that restarts would be refused because of its own old entry. The entry of a pod that this process has
seen go counts as well, though the controller has not kept it yet: the next pod may come within milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from shared.core.ledger import Mark, owner_hash
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster, Located
from shared.kube.errors import ApiError
from shared.kube.owners import Owners
from shared.kube.reserved_pods import has_pod
from shared.obs.logs import get_logger

log = get_logger(__name__)

Decide: TypeAlias = Callable[[str], str | None]
"""The node that the new pod would get if the entry of an id were out of its way."""

_PATIENCE_S: Final = 1.0
"""How long the look-up may keep a create waiting; without its answer the pod is placed beside its seat, or refused."""
_MOST_LOOKED_AT: Final = 16


class Seats:
    """Finds the seat for a new pod."""

    def __init__(self, client: KubeClient, cluster: Cluster, owners: Owners) -> None:
        self._client = client
        self._cluster = cluster
        self._owners = owners

    async def find(self, pod: PodFacts, decide: Decide) -> str | None:
        """The id of the entry that `pod` takes over, if there is one: no other pod of this process gets the same if it
        is held right away. Whether other processes were faster shows when the ledger is written.

        The oldest seat that the pod can sit on itself; else the oldest, which its workload needs no more when the pod
        goes elsewhere. Pods of a DaemonSet have a node each, and leave the seats of the others alone.
        """
        if pod.owner is None or next(self._cluster.vacancies.of(pod.namespace), None) is None:
            return None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                own = await self._own(pod.namespace, pod.owner)
        except (ApiError, TimeoutError) as error:
            log.info("kept seats not looked at", namespace=pod.namespace, owner=pod.owner.name, error=error)
            return None
        free = {seat: located for seat in own if (located := self._free(pod.namespace, seat)) is not None}
        return _choose(free, decide, only_there=pod.owner.kind == "DaemonSet")

    async def _own(self, namespace: str, owner: OwnerRef) -> list[str]:
        """The vacant entries of the workload of `owner`."""
        top = await self._owners.top(namespace, owner)
        return [each for each in list(self._cluster.vacancies.of(namespace)) if await self._is_of(each, namespace, top)]

    async def _is_of(self, seat: str, namespace: str, top: OwnerRef) -> bool:
        located = self._cluster.locate(seat)
        if located is None:
            return False
        if located.entry.mark is Mark.KEPT:
            return located.entry.owner_hash == owner_hash(top.uid)
        owner = self._cluster.vacancies.last_owner(seat)
        if owner is None or await self._owners.top(namespace, owner) != top:
            return False
        return not await has_pod(self._client, seat, located)  # what the watch said may be old

    def _free(self, namespace: str, seat: str) -> Located | None:
        """A seat that nobody sits on and nobody is about to take."""
        is_taken = self._cluster.is_replaced(seat) or self._cluster.carriers(seat, namespace)
        return None if is_taken else self._cluster.locate(seat)


def _choose(free: dict[str, Located], decide: Decide, *, only_there: bool) -> str | None:
    """The seat to take, of those that are `free`."""
    oldest_first = sorted(free, key=lambda seat: (free[seat].entry.since, seat))
    for seat in oldest_first[:_MOST_LOOKED_AT]:
        if decide(seat) == free[seat].node:
            return seat
    return None if only_there else next(iter(oldest_first), None)
