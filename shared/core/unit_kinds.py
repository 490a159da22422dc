"""The kinds of vendor resource through which Kubernetes itself counts a node's GPUs: what one piece of each is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnitKind:
    """One extended resource of a vendor on one node, such as `nvidia.com/gpu`.

    A unit is one piece of it: a whole GPU, or one of the `per_card` replicas that a card is shared into by time-slicing
    or MPS, or a hardware `partition`. `gb` is the memory of one unit in whole GB, None where nothing tells it.
    """

    resource: str
    gb: int | None = None
    per_card: int = 1
    partition: bool = False

    @property
    def whole(self) -> bool:
        """Whether a unit is a card of its own, so that N units are N cards."""
        return self.per_card == 1 and not self.partition
