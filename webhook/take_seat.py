"""Which kept seat a new pod takes: one of its own workload, whose pod is gone.

Without it a model that restarts would be refused because of its own old entry. The entry of a pod that this process has
seen go counts as well, though the controller has not kept it yet: the next pod may come within milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from shared.core.ledger import Entry, Mark, Shares, owner_hash
from shared.core.owners import OwnerRef
from shared.core.placement import Placed
from shared.core.pods import PodFacts
from shared.core.units import Units
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster, Located
from shared.kube.errors import ApiError
from shared.kube.owners import Owners
from shared.kube.reserved_pods import has_pod
from shared.obs.logs import get_logger

log = get_logger(__name__)

Decide: TypeAlias = Callable[[Collection[str]], Placed | None]
"""The place that the new pod would get if the entries of these ids were out of its way."""

_MOST_TRIED: Final = 4
"""Each is a search of the cluster. The likely ones come first."""


class TakeSeat:
    """Finds the seat for a new pod."""

    def __init__(self, client: KubeClient, cluster: Cluster, owners: Owners) -> None:
        self._client = client
        self._cluster = cluster
        self._owners = owners

    async def find(self, pod: PodFacts, decide: Decide, until: float) -> str | None:
        """The id of the entry that `pod` takes over, if there is one: no other pod of this process gets the same if it
        is held right away. Whether other processes were faster shows when the ledger is written.

        Nothing is read after the loop time `until`; without an answer the pod is placed beside its seat, or refused.
        """
        if pod.owner is None or next(self._cluster.vacancies.of(pod.namespace), None) is None:
            return None
        try:
            async with asyncio.timeout_at(until):
                own = await self._own(pod.namespace, pod.owner)
        except (ApiError, TimeoutError) as error:
            log.info("kept seats not looked at", namespace=pod.namespace, owner=pod.owner.name, error=error)
            return None
        free = {seat: located for seat in own if (located := self._free(pod.namespace, seat)) is not None}
        return _choose(free, decide, only_there=pod.owner.kind == "DaemonSet") if free else None

    async def _own(self, namespace: str, owner: OwnerRef) -> list[str]:
        """The vacant entries of the workload of `owner`."""
        top = await self._owners.living_top(namespace, owner)
        vacant = () if top is None else tuple(self._cluster.vacancies.of(namespace))
        return [seat for seat in vacant if top is not None and await self._is_of(seat, namespace, top)]

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


def _choose(free: Mapping[str, Located], decide: Decide, *, only_there: bool) -> str | None:
    """The seat to take, of those that are `free`: one of the same size on which the pod would sit, the oldest first.

    A seat of another size may be that of another part of the workload, so it is taken only by a pod that would have no
    place without it. A pod that goes elsewhere gives up one of its own size, which its workload needs no more, but not
    if its owner has pods `only_there`: those of a DaemonSet have a node each.
    """
    place = decide(free.keys())
    if place is None:
        return None
    likely_first = sorted(free, key=lambda seat: (free[seat].node != place.node, free[seat].entry.since, seat))
    size = _size(place.booking, place.units)
    same = [seat for seat in likely_first if _size_of(free[seat].entry) == size]
    others = [seat for seat in likely_first if seat not in same]

    def seat_to_sit_on(seats: list[str]) -> str | None:
        for seat in seats[:_MOST_TRIED]:
            found = decide({seat})
            if found is not None and found.node == free[seat].node:
                return seat
        return None

    taken = seat_to_sit_on(same)
    if taken is None and others and decide(()) is None:
        taken = seat_to_sit_on(others)
    if taken is None and same and not only_there:
        taken = min(same, key=lambda seat: (free[seat].entry.since, seat))
    return taken


_Size: TypeAlias = tuple[tuple[int, ...], Units]


def _size_of(entry: Entry) -> _Size:
    return _size(entry.shares, entry.units)


def _size(shares: Shares, units: Units) -> _Size:
    """GB of as many cards, whichever they are, and units."""
    return tuple(sorted(gb for _, gb in shares)), units
