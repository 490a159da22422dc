"""Whether the seat of a pod that is gone is kept: while the workload still wants more pods than it has and has seats.

A restarting model would lose its memory to whoever waits, if the seat were free between its old pod and its new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
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

PodsOf: TypeAlias = Callable[[str, OwnerRef], Iterable[PodFacts] | None]
"""The pods of a top owner in a namespace; None while that is not known of all pods."""


class Seats:
    """Decides about vacant entries. `unix_time` is the wall clock in whole seconds."""

    def __init__(self, cluster: Cluster, owners: Owners, pods_of: PodsOf, *, unix_time: Callable[[], int]) -> None:
        self._cluster = cluster
        self._owners = owners
        self._pods_of = pods_of
        self._unix_time = unix_time
        self._unwritten: dict[str, OwnerRef] = {}
        """By id, by whose word a seat is kept of which the ledger does not say so yet."""

    async def entry_after(self, reservation: str, entry: Entry) -> Entry | None:
        """What the entry of a pod that is gone is to be now: a kept seat, or None where it is dropped.

        Owners are asked live. A seat of which nobody knows whose pod it was, since another leader kept it, is left to
        run out. While the pods of owners are not known, the entry stays as it is. Raises `ApiError`.
        """
        owner = self._cluster.vacancies.last_owner(reservation)
        if owner is None:
            return entry if entry.mark is Mark.KEPT else None
        chain = await self._owners.chain(entry.namespace, owner)
        decider, wanted = await self._wanted(entry.namespace, chain)
        if (now := await self._owners.chain(entry.namespace, owner)) != chain:
            chain = now  # An owner above was gone, and another may have adopted what it left.
            decider, wanted = await self._wanted(entry.namespace, chain)
        top = chain[-1]
        others = await self._not_below(decider, entry.namespace, top)
        # From here on nothing is awaited: of two seats that are decided on at once each counts the other.
        known = self._pods_of(entry.namespace, top)
        if known is None:
            return entry
        pods = sum(pod.owner not in others and not pod.terminating for pod in known)
        self._unwritten = {each: of for each, of in self._unwritten.items() if self._is_unwritten(each)}
        seats = [
            *self._kept(entry.namespace, top, others),
            *(each for each, of in self._unwritten.items() if of == decider),
        ]
        rank = seats.index(reservation) if reservation in seats else len(seats)
        self._unwritten.pop(reservation, None)
        if rank >= wanted - pods:
            return None
        if entry.mark is Mark.KEPT:
            return replace(entry, owner_hash=owner_hash(top.uid))
        self._unwritten[reservation] = decider
        log.info("seat kept", namespace=entry.namespace, kind=decider.kind, owner=decider.name, reservation=reservation)
        return replace(entry, owner_hash=owner_hash(top.uid), since=self._unix_time(), mark=Mark.KEPT)

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

    async def _not_below(self, decider: OwnerRef, namespace: str, top: OwnerRef) -> set[OwnerRef]:
        """The owners of the top owner's pods and seats on which `decider` has no say: another part of the workload."""
        owners = {pod.owner for pod in self._pods_of(namespace, top) or ()}
        owners |= {self._cluster.vacancies.last_owner(seat) for seat in self._kept(namespace, top, set())}
        known = [owner for owner in owners if owner is not None]
        return {owner for owner in known if decider not in await self._owners.chain(namespace, owner)}

    def _kept(self, namespace: str, top: OwnerRef, others: Collection[OwnerRef]) -> list[str]:
        """The top owner's kept seats without those that `others` left, the oldest first."""
        kept = dict(self._cluster.seats_of(namespace, owner_hash(top.uid)))
        left_by = self._cluster.vacancies.last_owner
        return sorted(
            (each for each in kept if left_by(each) not in others), key=lambda each: (kept[each].entry.since, each)
        )

    def _is_unwritten(self, reservation: str) -> bool:
        located = self._cluster.locate(reservation)
        return (
            located is not None and located.entry.mark is not Mark.KEPT and reservation in self._cluster.vacancies.left
        )
