"""Whether the seat of a pod that is gone is kept: while the workload still wants more pods than it has and has seats.

A restarting model would lose its memory to whoever waits, if the seat were free between its old pod and its new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from shared.core.ledger import Entry, Mark, owner_hash
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from shared.core.wanted import wanted_pods
from shared.kube.cluster import Cluster
from shared.kube.owners import Owners
from shared.obs.logs import get_logger

log = get_logger(__name__)

PodsOf: TypeAlias = Callable[[str, OwnerRef], Iterable[PodFacts]]
"""The pods of a top owner in a namespace."""


class Seats:
    """Decides about vacant entries. `unix_time` is the wall clock in whole seconds."""

    def __init__(self, cluster: Cluster, owners: Owners, pods_of: PodsOf, *, unix_time: Callable[[], int]) -> None:
        self._cluster = cluster
        self._owners = owners
        self._pods_of = pods_of
        self._unix_time = unix_time
        self._kept_for: dict[str, OwnerRef] = {}
        """By id, the owner whose word on how many pods there should be decided that the seat is kept."""

    async def entry_after(self, reservation: str, entry: Entry) -> Entry | None:
        """What the entry of a pod that is gone is to be now: a kept seat, or None where it is dropped.

        Owners are asked live. A seat of which nobody knows whose pod it was, since another leader kept it, is left to
        run out. Raises `ApiError`.
        """
        owner = self._cluster.vacancies.last_owner(reservation)
        if owner is None:
            return entry if entry.mark is Mark.KEPT else None
        chain = await self._owners.chain(entry.namespace, owner)
        decider, wanted = await self._wanted(entry.namespace, chain)
        below = await self._owned(entry.namespace, chain[-1], decider)
        # From here on nothing is awaited: of two seats that are decided on at once each counts the other.
        self._kept_for = {each: kept_for for each, kept_for in self._kept_for.items() if self._cluster.locate(each)}
        pods = sum(pod.owner in below and not pod.terminating for pod in self._pods_of(entry.namespace, chain[-1]))
        seats = list(self._seats(entry.namespace, chain[-1], decider))
        rank = seats.index(reservation) if reservation in seats else len(seats)
        if rank >= wanted - pods:
            self._kept_for.pop(reservation, None)
            return None
        self._kept_for[reservation] = decider
        if entry.mark is Mark.KEPT:
            return entry
        log.info("seat kept", namespace=entry.namespace, kind=decider.kind, owner=decider.name, reservation=reservation)
        return replace(entry, owner_hash=owner_hash(chain[-1].uid), since=self._unix_time(), mark=Mark.KEPT)

    async def _wanted(self, namespace: str, chain: tuple[OwnerRef, ...]) -> tuple[OwnerRef, int]:
        """The topmost owner that says how many pods it wants, and how many: none once any above it is going."""
        for owner in reversed(chain):
            raw = await self._owners.read(namespace, owner)
            if raw is None and await self._owners.is_gone(namespace, owner):
                return owner, 0
            if raw is not None and raw["metadata"].get("deletionTimestamp"):
                return owner, 0
            wanted = None if raw is None else wanted_pods(raw)
            if wanted is not None:
                return owner, wanted
        return chain[0], 0

    async def _owned(self, namespace: str, top: OwnerRef, decider: OwnerRef) -> set[OwnerRef]:
        """The direct owners of the top owner's pods that `decider` is among or above."""
        direct = {pod.owner for pod in self._pods_of(namespace, top) if pod.owner is not None}
        return {owner for owner in direct if decider in await self._owners.chain(namespace, owner)}

    def _seats(self, namespace: str, top: OwnerRef, decider: OwnerRef) -> Iterator[str]:
        """The seats that count towards what `decider` wants, the oldest first; those not written yet come last."""
        vacant = set(self._cluster.vacancies.of(namespace))
        kept = dict(self._cluster.seats_of(namespace, owner_hash(top.uid)))
        for reservation in sorted(kept, key=lambda each: (kept[each].entry.since, each)):
            if self._kept_for.get(reservation, decider) == decider:
                yield reservation
        for reservation, owner in self._kept_for.items():
            if owner == decider and reservation in vacant and reservation not in kept:
                yield reservation
