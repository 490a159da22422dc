"""Cards whose memory is the node's memory: a share of one takes from what the pods of the node may request as well.

A pool (class `unified`) has no memory of its own, so GB booked on it and memory requested by pods add up. The memory of
an onlined card (Grace Hopper) is counted by the kernel as the node's; it is kept for the card, booked or not, since the
node's `allocatable` tells more memory than there is beside it
(https://github.com/kubernetes/enhancements/issues/5726).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from shared.api import names
from shared.core.cards import MIB_PER_GB, Card, gb_for_mib
from shared.core.ledger import Entry, Shares
from shared.core.pods import Amounts, PodFacts

BYTES_PER_MIB = 2**20
BYTES_PER_GB = MIB_PER_GB * BYTES_PER_MIB


@dataclass(frozen=True, slots=True)
class SystemMemory:
    """The memory of a node that has such cards, in bytes.

    Of the `allocatable` bytes, `requested` by pods, those that are promised included, `booked` as GB of pools, and
    `kept` for onlined cards. `pools` and `onlined` are the slots of the cards.
    """

    allocatable: int
    requested: int
    booked: int
    kept: int
    pools: frozenset[int]
    onlined: frozenset[int]

    @classmethod
    def of(
        cls,
        cards: Iterable[Card],
        allocatable: Amounts,
        requested: Amounts,
        ledger: Mapping[str, Entry],
        pods: Mapping[str, PodFacts],
        used_gb: Mapping[int, int],
    ) -> SystemMemory | None:
        """The memory behind `cards`, or None if none of them is backed by the node's."""
        onlined = [card for card in cards if card.onlined]
        pools = [card for card in cards if card.is_pool and not card.onlined]
        if not pools and not onlined:
            return None
        seen = {(pod.reservation, pod.namespace) for pod in pods.values()}
        unseen_mib = sum(
            entry.memory_mib for reservation, entry in ledger.items() if (reservation, entry.namespace) not in seen
        )
        return cls(
            allocatable=allocatable.get(names.MEMORY, 0),
            requested=requested.get(names.MEMORY, 0) + unseen_mib * BYTES_PER_MIB,
            booked=sum(min(card.budget_gb, used_gb.get(card.index, 0)) for card in pools) * BYTES_PER_GB,
            kept=sum(card.memory_mib for card in onlined) * BYTES_PER_MIB,
            pools=frozenset(card.index for card in pools),
            onlined=frozenset(card.index for card in onlined),
        )

    @property
    def emptied(self) -> SystemMemory:
        """The memory as it would be if nothing ran on the node."""
        return replace(self, requested=0, booked=0)

    def left_gb(self, own: int = 0) -> int:
        """Whole GB that pools may still give a pod that requests `own` bytes itself; below zero if even those are not
        there.
        """
        return (self.allocatable - self.requested - self.booked - self.kept - own) // BYTES_PER_GB

    def room_gb(self, card: Card, free_gb: int, own: int = 0) -> int:
        """What of the `free_gb` of a card the memory behind it allows."""
        if card.index in self.pools:
            return max(0, min(free_gb, self.left_gb(own)))
        return 0 if card.index in self.onlined and self.left_gb(own) < 0 else free_gb

    def suffices(self, booking: Shares, own: int) -> bool:
        """Whether there is memory for GB by slot and `own` bytes that their pods request."""
        concerned = self.pools | self.onlined
        if not any(index in concerned for index, _ in booking):
            return True
        return sum(gb for index, gb in booking if index in self.pools) <= self.left_gb(own)


def memory_mib(requests: Amounts) -> int:
    """MiB of memory among `requests`, rounded up."""
    return -(-requests.get(names.MEMORY, 0) // BYTES_PER_MIB)


def gb_for_bytes(amount: int) -> int:
    """Whole GB that `amount` bytes take, rounded up."""
    return gb_for_mib(-(-amount // BYTES_PER_MIB))
