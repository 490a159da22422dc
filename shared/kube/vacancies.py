"""Ledger entries whose pods are gone: kept seats, and those of which this process has seen the pod go.

A pod's owner may create another at once, before the controller has marked the entry as kept. Whoever saw the pod go
knows whose entry that is all the same.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from shared.core.ledger import Entry, Mark
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts


class Vacancies:
    """The vacant entries of the cluster."""

    def __init__(self) -> None:
        self._kept: dict[str, set[tuple[str, str]]] = {}
        """By namespace the ids of kept seats, each with its node: labels may be copied, and so may an id."""
        self._left: dict[str, PodFacts] = {}
        self._gone: set[str] = set()

    def of(self, namespace: str) -> Iterator[str]:
        """The ids of a namespace's vacant entries."""
        left = (reservation for reservation, pod in self._left.items() if pod.namespace == namespace)
        yield from sorted({reservation for reservation, _ in self._kept.get(namespace, ())}.union(left))

    def has(self, reservation: str, entry: Entry) -> bool:
        """Whether an entry is vacant."""
        return entry.mark is Mark.KEPT or reservation in self._left

    @property
    def left(self) -> Container[str]:
        """The ids of all entries of which this process has seen an owner's pod go."""
        return self._left.keys()

    @property
    def gone(self) -> Container[str]:
        """The ids of all entries of which this process has seen a pod go after which none comes."""
        return self._gone

    def last_owner(self, reservation: str) -> OwnerRef | None:
        """Who owned the pod of a vacant entry; None where this process did not see it go."""
        pod = self._left.get(reservation)
        return None if pod is None else pod.owner

    def pod_left(self, reservation: str, pod: PodFacts, *, leaves_seat: bool) -> None:
        """The last pod of an entry is gone. Without an owner nobody will create another."""
        if leaves_seat and pod.owner is not None:
            self._left[reservation] = pod
        else:
            self._gone.add(reservation)

    def pod_came(self, reservation: str) -> None:
        """There is a pod of an entry, after all or again."""
        self._left.pop(reservation, None)
        self._gone.discard(reservation)

    def entries_changed(self, node: str, old: Mapping[str, Entry], new: Mapping[str, Entry]) -> None:
        """Takes in that a node's ledger is another now."""
        for reservation, entry in old.items():
            if entry.mark is Mark.KEPT:
                self._kept[entry.namespace].discard((reservation, node))
                if not self._kept[entry.namespace]:
                    del self._kept[entry.namespace]
            if reservation not in new:
                self._left.pop(reservation, None)
                self._gone.discard(reservation)
        for reservation, entry in new.items():
            if entry.mark is Mark.KEPT:
                self._kept.setdefault(entry.namespace, set()).add((reservation, node))
