"""Explains placed pods that the scheduler does not bind, and has those placed again that would fit elsewhere.

What pins a pod to its node cannot be changed once it exists, so a node that was cordoned, tainted, filled or lost
between answer and binding keeps it waiting for ever. A pod for which others had to leave may be overlooked: the
scheduler has been seen to miss that they left, and looks again by itself after five minutes only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.control_recorder import ControlRecorder
from controller.events import Events, EventType
from controller.pace import Pace, Rounds
from controller.room import Needs
from controller.stuck_rules import (
    better_node,
    is_of_present_template,
    made_again,
    says_it_lacks,
    waits_for_node,
    why_unbound,
)
from shared.core.ledger import Mark
from shared.core.owners import OwnerRef
from shared.core.placement import has_room
from shared.core.pods import PodFacts
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.errors import Conflict, Forbidden, NotFound
from shared.kube.owners import Owners
from shared.kube.workqueue import WorkQueue
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder

log = get_logger(__name__)

_LOOK_AGAIN_S: Final = 30.0
_PERIOD_S: Final = 1.0
"""One pod in this time is replaced at most, so that each is placed on what the one before has left."""
_LONGEST_PAUSE_S: Final = 900.0
_PREEMPTING: Final = 3
"""How many times as long a pod may wait whose victims have yet to leave."""
_OVERLOOKED_S: Final = 20.0
"""So long the scheduler may take for a pod once its victims have left: it backs off for ten seconds at most."""
_FREE_PERIOD_S: Final = 5.0
"""How often it is looked whether they have left: of that the pod itself tells nothing."""


@dataclass(slots=True)
class _Wait:
    """How long one pod has waited, on this process's clock, for how long its place has been free of those that had to
    leave, and what was told of it last.
    """

    since: float
    free_since: float | None = None
    told: str = ""


class Stuck:
    """Looks at placed pods that are not bound `after_s` seconds after this process saw them without a gate.

    With `replace` one that would fit elsewhere is deleted, if its owner makes another.
    """

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        owners: Owners,
        events: Events,
        *,
        after_s: float,
        replace: bool,
        recorder: ControlRecorder | None = None,
        queues: QueueRecorder | None = None,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._owners = owners
        self._events = events
        self._after_s = after_s
        self._replace = replace
        self._recorder = recorder or ControlRecorder()
        self._overlooked_s = min(after_s, _OVERLOOKED_S)
        self._period_s = min(after_s, _FREE_PERIOD_S)
        self._waits: dict[str, _Wait] = {}
        self._pace = Pace(_PERIOD_S)
        self._overlooked_rounds = Rounds(self._overlooked_s, max(2 * after_s, _LONGEST_PAUSE_S))
        self._rounds = Rounds(2 * after_s, max(2 * after_s, _LONGEST_PAUSE_S))
        self._queue: WorkQueue[str] = WorkQueue("stuck pods", queues)

    async def run(self) -> None:
        """Watches over every pod until cancelled."""
        unsubscribe = self._cluster.on_pod_change(self._pod_changed)
        try:
            for pod in list(self._cluster.placed_pods()):
                self._pod_changed(pod.key)
            await self._queue.run(self.look)
        finally:
            unsubscribe()

    def _pod_changed(self, key: str) -> None:
        pod = self._cluster.pod(key)
        if pod is None or not waits_for_node(pod):
            self._waits.pop(key, None)
        elif key not in self._waits:
            self._waits[key] = _Wait(time.monotonic())
            self._queue.add_after(key, self._period_s)

    async def look(self, key: str) -> None:
        """Explains one pod if it is stuck, and replaces it where that helps. Raises `ApiError`."""
        pod, wait = self._cluster.pod(key), self._waits.get(key)
        if pod is None or wait is None:
            return
        left_s = self._left_s(pod, wait, time.monotonic())
        if left_s > 0:
            self._queue.add_after(key, left_s)
            return
        raw = await self._read(pod)
        if raw is None:
            return  # the watch will tell
        self._queue.add_after(key, min(self._after_s, _LOOK_AGAIN_S))
        state = self._cluster.node(pod.node)
        words = why_unbound(raw, pod.node, state.facts if state is not None else None)
        if words is None:
            return
        is_overlooked = wait.free_since is not None and says_it_lacks(words, pod)
        if is_overlooked:
            words = f"{words.rstrip('.')}, but those that it preempted have left since"
        elif (left_s := wait.since + self._after_s - time.monotonic()) > 0:
            self._queue.add_after(key, left_s)
            return
        try:
            await self._settle(pod, wait, raw, words, is_overlooked=is_overlooked)
        except (NotFound, Forbidden, Conflict) as error:
            # It changed or went at this moment, or its namespace goes.
            log.info("stuck pod not settled", namespace=pod.namespace, pod=pod.name, error=error)

    def _left_s(self, pod: PodFacts, wait: _Wait, now: float) -> float:
        """When to look at a pod again; nothing once it has waited for too long."""
        located, state = self._cluster.locate(pod.reservation or ""), self._cluster.node(pod.node)
        if located is None or located.entry.mark is not Mark.PREEMPTING:
            wait.free_since = None
            return wait.since + self._after_s - now
        if state is None or not has_room(state, pod):
            wait.free_since = None
            return min(wait.since + self._after_s * _PREEMPTING - now, self._period_s)
        if wait.free_since is None:
            wait.free_since = now
        return wait.free_since + self._overlooked_s - now

    async def _read(self, pod: PodFacts) -> dict[str, Any] | None:
        """The pod as it is stored, or None if it is no longer the one that waits."""
        try:
            raw = await self._client.get(paths.pods(pod.namespace, pod.name))
        except NotFound:
            return None
        metadata, spec = raw["metadata"], raw["spec"]
        waits = not (spec.get("nodeName") or spec.get("schedulingGates") or metadata.get("deletionTimestamp"))
        return raw if waits and metadata["uid"] == pod.key else None

    async def _settle(
        self, pod: PodFacts, wait: _Wait, raw: Mapping[str, Any], words: str, *, is_overlooked: bool
    ) -> None:
        try:
            owner = None if pod.owner is None else await self._owners.read(pod.namespace, pod.owner)
        except Forbidden:
            owner = None
        again = None if owner is None else made_again(owner, raw)
        needs = None if again is None else Needs.of(again)
        if needs is not None and owner is not None and is_of_present_template(owner, raw):
            needs = needs.admitted_like(raw)
        if pod.owner is None:
            await self._tell(pod, wait, words, "nobody would create it again: delete it and create it anew")
            return
        if needs is None:
            who = f"{pod.owner.kind} {pod.owner.name}"
            await self._tell(pod, wait, words, f"{who} is not known to create one that could go elsewhere, so it stays")
            return
        node = better_node(self._cluster.snapshot(), pod, needs, is_overlooked=is_overlooked)
        if node is None:
            await self._tell(pod, wait, words, "there is no other place for it now")
            return
        now = time.monotonic()
        rounds = self._overlooked_rounds if is_overlooked else self._rounds
        pause_s = rounds.wait_s(pod.owner.uid, wait.since, now)
        # The account's policy lets it delete no pod that lost the label of its reservation.
        if not self._replace or pause_s or pod.reservation is None:
            await self._tell(pod, wait, words, f"there is room on node {node} if it is created anew")
            return
        if turn_s := self._pace.wait_s(now):
            self._queue.add_after(pod.key, turn_s)
            return
        self._pace.take(now)
        preconditions = {"uid": pod.key, "resourceVersion": raw["metadata"]["resourceVersion"]}
        await self._client.delete(paths.pods(pod.namespace, pod.name), {"preconditions": preconditions})
        rounds.replaced(pod.owner.uid, wait.since, now)
        log.info("stuck pod deleted", namespace=pod.namespace, pod=pod.name, node=pod.node, room_on=node)
        self._recorder.stuck_deleted.inc()
        await self._tell(pod, wait, words, f"it was deleted, so that {pod.owner.kind} {pod.owner.name} creates it anew")

    async def _tell(self, pod: PodFacts, wait: _Wait, words: str, outcome: str) -> None:
        """Records the event on the pod and its workload, unless that was the last one."""
        message = f"pod {pod.name} is placed on node {pod.node} and not bound to it: {words.rstrip('.')}; {outcome}"
        if wait.told == message:
            return
        about = [OwnerRef("v1", "Pod", pod.name, pod.key)]
        if pod.owner is not None:
            about.append(await self._owners.top(pod.namespace, pod.owner))
        told = [await self._events.emit(pod.namespace, each, EventType.WARNING, "Stuck", message) for each in about]
        if all(told):
            wait.told = message
