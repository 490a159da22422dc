"""Which earlier attempt of the same owner a new pod replaces: one of which no pod ever came.

After our yes a create may still fail, and its controller tries again. "Same owner" alone proves nothing, since
ReplicaSets and Jobs create pods in parallel and without names. But where the owner would hold more than it wants with
the new attempt, at least one of the earlier ones has failed: the oldest.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.core.ledger import owner_hash
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts, pinned_node
from shared.core.wanted import creates_one_at_a_time, wanted_pods
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster, Located
from shared.kube.errors import ApiError
from shared.kube.owners import Owners
from shared.kube.recent import remember
from shared.kube.reserved_pods import has_pod
from shared.obs.logs import get_logger

log = get_logger(__name__)

_STATEFUL_SET: Final = ("apps/v1", "StatefulSet")
_DAEMON_SET: Final = ("apps/v1", "DaemonSet")
_COUNTED: Final = frozenset(
    {("apps/v1", "ReplicaSet"), ("v1", "ReplicationController"), ("batch/v1", "Job"), _STATEFUL_SET}
)
_FRESH_S: Final = 5.0
_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How many pods an owner wants, how many of them it creates at once at most, and until when to believe that."""

    pods: int
    at_once: int
    until: float


@dataclass(frozen=True, slots=True)
class _Attempts:
    """What an owner holds: pods that exist, promises under way in this process, and entries without a pod."""

    pods: int
    under_way: int
    open: Mapping[str, Located]

    def at_once(self, wanted: _Wanted) -> int:
        """How many creates the owner has under way at one time at most."""
        return min(wanted.at_once, wanted.pods - self.pods)

    def exceed(self, wanted: _Wanted) -> bool:
        """Whether one more attempt would be too many."""
        return self.under_way + len(self.open) + 1 > self.at_once(wanted)


class TakeOver:
    """Finds the entry that a new attempt replaces."""

    def __init__(self, client: KubeClient, cluster: Cluster, owners: Owners) -> None:
        self._client = client
        self._cluster = cluster
        self._owners = owners
        self._wanted_by: OrderedDict[str, _Wanted] = OrderedDict()

    async def find(self, pod: PodFacts, spec: Mapping[str, Any], until: float) -> str | None:
        """The id of the entry that `pod` replaces, if there is one: no other attempt of this process gets the same if
        the pod is held right away.

        Whether other processes were faster shows when the ledger is written. Nothing is read after the loop time
        `until`; without an answer the attempts before it run out by themselves.
        """
        if pod.owner is None or not self._open(pod).open:
            return None
        try:
            async with asyncio.timeout_at(until):
                return await self._replaced(pod, pod.owner, spec)
        except (ApiError, TimeoutError) as error:
            log.info("earlier attempts not looked at", namespace=pod.namespace, owner=pod.owner.name, error=error)
            return None

    def attempts_elsewhere(self, pod: PodFacts) -> frozenset[str]:
        """The ids of what other processes promised the owner, of which no pod is known.

        Whether one more is too many hangs on them as well as on this process's own, which hold their places at once.
        """
        if pod.owner is None:
            return frozenset()
        return frozenset(key for key in self._open(pod).open if not self._cluster.is_held(key))

    async def _replaced(self, pod: PodFacts, owner: OwnerRef, spec: Mapping[str, Any]) -> str | None:
        """The attempt that stands in the way of a new one, and of which the API server knows no pod."""
        stored: set[str] = set()
        while (found := await self._superfluous(pod, owner, spec, stored)) is not None:
            located = self._cluster.locate(found)
            if located is not None and await has_pod(self._client, found, located):
                stored.add(found)  # the watch is behind
            elif found in self._open(pod, stored).open:  # nobody was faster
                return found
        return None

    async def _superfluous(
        self, pod: PodFacts, owner: OwnerRef, spec: Mapping[str, Any], stored: Collection[str]
    ) -> str | None:
        """The next attempt to be looked at; those in `stored` have pods."""
        kind = (owner.api_version, owner.kind)
        attempts = self._open(pod, stored)
        if kind == _DAEMON_SET:
            node = pinned_node(spec)
            return next((key for key, located in attempts.open.items() if located.node == node), None)
        if kind not in _COUNTED:
            return None
        if kind == _STATEFUL_SET:
            same = self._of_same_name(pod, attempts)
            if same is not None:
                return same
        known = self._wanted_by.get(owner.uid)
        if known is None or asyncio.get_running_loop().time() >= known.until or attempts.exceed(known):
            known = await self._ask(pod.namespace, owner)
            attempts = self._open(pod, stored)
        return self._first(attempts) if known is not None and attempts.exceed(known) else None

    def _first(self, attempts: _Attempts) -> str | None:
        """The attempt that was made first, which is one that has failed.

        A controller that creates pods side by side waits for all of them before it creates more, so what has failed is
        older than all that is under way.
        """
        order = {held.reservation: place for place, held in enumerate(self._cluster.held_pods())}

        def age(key: str) -> tuple[int, int, int, str]:
            # Clocks of other machines tell of those only that were there before this process.
            return self._cluster.arrival(key), attempts.open[key].entry.since, order.get(key, -1), key

        return min(attempts.open, key=age, default=None)

    def _open(self, pod: PodFacts, stored: Collection[str] = ()) -> _Attempts:
        """What the owner of `pod` holds by what this process knows, and that those in `stored` have pods."""
        assert pod.owner is not None
        cluster = self._cluster
        pods, unseen = 0, {}
        for reservation, located in cluster.entries_of(pod.namespace, owner_hash(pod.owner.uid)):
            carriers = cluster.carriers(reservation, pod.namespace)
            if carriers or reservation in stored:
                pods += not carriers or any(not carrier.terminating for carrier in carriers)
            elif not cluster.is_replaced(reservation) and not cluster.vacancies.has(reservation, located.entry):
                unseen[reservation] = located
        own = (held for held in cluster.held_pods() if held.owner == pod.owner)
        under_way = sum(cluster.locate(held.reservation or "") is None for held in own)
        return _Attempts(pods, under_way, unseen)

    def _of_same_name(self, pod: PodFacts, attempts: _Attempts) -> str | None:
        """The attempt that this process made for a pod of the same name, of which there can be one only."""
        for held in self._cluster.held_pods():
            is_same = (held.namespace, held.name, held.owner) == (pod.namespace, pod.name, pod.owner)
            if is_same and held.reservation in attempts.open:
                return held.reservation
        return None

    async def _ask(self, namespace: str, owner: OwnerRef) -> _Wanted | None:
        """What an owner wants now. None if it is gone or does not say."""
        raw = await self._owners.read(namespace, owner)
        pods = None if raw is None else wanted_pods(raw)
        if raw is None or pods is None:
            return None
        at_once = 1 if creates_one_at_a_time(raw) else pods
        wanted = _Wanted(pods, at_once, asyncio.get_running_loop().time() + _FRESH_S)
        remember(self._wanted_by, owner.uid, wanted, _REMEMBERED)
        return wanted
