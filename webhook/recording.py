"""Records a placement that was decided on: holds it in this process and writes it into the ledger of its node.

The new entry may stand in place of another: of an earlier attempt that failed, or of a seat that was kept. On the same
node both go in one write; on another node the old one ends once the new one is written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.constraints import Constraints
from shared.core.demand import Demand
from shared.core.filters import admits_load
from shared.core.ledger import Entry, Mark, owner_hash
from shared.core.peers import Peers
from shared.core.placement import Placed
from shared.core.pods import PodFacts
from shared.core.preemption import Preemption
from shared.core.snapshot import NodeState, Snapshot
from shared.core.system_memory import memory_mib
from shared.kube.cluster import Cluster
from shared.kube.errors import ApiError
from shared.kube.ledger import Ledger
from webhook.promised import on_cards
from webhook.siblings import picture_for


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod that is to be placed under the id `reservation`, and what it asks for."""

    pod: PodFacts
    reservation: str
    spec: Mapping[str, Any]
    demand: Demand
    constraints: Constraints

    def picture(self, cluster: Cluster, *without: str | None) -> Snapshot:
        """The cluster as a decision about the pod should see it, `without` the entries of these ids."""
        return picture_for(cluster, self.pod, self.reservation, [each for each in without if each is not None])


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a pod goes, and who has to leave first if anybody. `state` is the node as it was then."""

    placed: Placed
    state: NodeState
    preemption: Preemption | None = None

    @property
    def victims(self) -> frozenset[str]:
        """The keys of the pods that have to leave."""
        return frozenset() if self.preemption is None else self.preemption.keys

    def entry(self, wish: Wish, since: int) -> Entry:
        """What is to stand in the ledger."""
        owner = wish.pod.owner.uid if wish.pod.owner else ""
        memory = memory_mib(wish.constraints.requests) if self.state.memory is not None else 0
        mark = Mark.NONE if self.preemption is None else Mark.PREEMPTING
        placed = self.placed
        return Entry(wish.pod.namespace, owner_hash(owner), since, placed.booking, memory, placed.units, mark)


class Recording:
    """Records decisions. `unix_time` is the wall clock in whole seconds."""

    def __init__(self, cluster: Cluster, ledger: Ledger, unix_time: Callable[[], int]) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._unix_time = unix_time

    async def record(
        self, wish: Wish, decision: Decision, replaced: str | None, deadline: float, is_owed: Callable[[], bool]
    ) -> bool:
        """Writes the entry, in place of `replaced` if any; False if others took the room meanwhile, or if the owner's
        part of it: `is_owed` says whether that still gets one more.

        Raises `ApiError`, and TimeoutError at the loop time `deadline`.
        """
        node, reservation = decision.placed.node, wish.reservation
        left = None if replaced is None else self._cluster.locate(replaced)
        elsewhere = left.node if left is not None and left.node != node else None
        placed = decision.placed
        self._cluster.hold(reservation, on_cards(wish.pod, node, placed.booking, placed.units), replaced)
        recorded = False
        try:
            async with asyncio.timeout_at(deadline):
                recorded = await self._ledger.reserve(
                    node,
                    reservation,
                    decision.entry(wish, self._unix_time()),
                    lambda: is_owed() and self._is_still_right(wish, decision, replaced),
                    replaces=replaced if elsewhere is None else None,
                    victims=decision.victims,
                )
        finally:
            if not recorded:
                self._cluster.release(reservation)
        if recorded and elsewhere is not None and replaced is not None:
            await self._leave(elsewhere, replaced, deadline)
        return recorded

    async def _leave(self, node: str, replaced: str, deadline: float) -> None:
        """Ends what was replaced on another node; if that fails, it runs out by itself."""
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._ledger.drop(node, replaced)

    def _is_still_right(self, wish: Wish, decision: Decision, replaced: str | None) -> bool:
        """Whether the node still takes the pod, whatever other replicas promised meanwhile.

        What is booked of its cards was worked out from their sizes and the node's mode, so those must be the same.
        """
        name = decision.placed.node
        picture = wish.picture(self._cluster, replaced)
        if decision.victims and name in picture.nodes:
            picture = picture.changed({name: picture.nodes[name].without_pods(decision.victims)})
        state = picture.nodes.get(name)
        return (
            state is not None
            and state.inventory == decision.state.inventory
            and admits_load(state, wish.constraints, Peers.of(picture, wish.constraints))
        )
