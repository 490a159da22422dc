"""Explains placed pods that the kubelet rejected, and clears away the dead ones of owners, which would pile them up.

Nothing has to be released or woken here: a dead pod holds nothing, so its entry goes as soon as it is seen, and an
owner whose next pod is refused then is woken as any other is, at growing intervals.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from typing import Final

from controller.control_recorder import ControlRecorder
from controller.events import Events, EventType
from controller.pace import Pace
from shared.core.owners import OwnerRef
from shared.core.rejected import RejectedPod
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.errors import Conflict, Forbidden, NotFound
from shared.kube.owners import Owners
from shared.kube.recent import remember
from shared.kube.workqueue import WorkQueue
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder

log = get_logger(__name__)

_PERIOD_S: Final = 0.2
"""Between two deletions. A ReplicaSet creates the next pod at once, so this must not be slower than a kubelet's no."""

_EQUAL_S: Final = 300.0
"""How long equal words about one owner are not said again: its pods may be rejected as fast as it creates them."""
_REMEMBERED: Final = 4096
_HELD_BACK_S: Final = 10.0

_AVOIDED: Final = "for five minutes pods go there only where no other node has room"
_OWNED: Final = (
    "its owner creates another if it still wants one; if that goes on, see whether the node's device plugin runs and "
    "whether pods get to the node past the scheduler"
)
_BARE: Final = "it will not start again: delete it and create it anew"


class Rejected:
    """A dead pod of an owner goes once it is explained there. One without an owner stays, since nobody creates another,
    and so does the newest of an owner of a custom kind, which may look at it and create none.
    """

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        owners: Owners,
        events: Events,
        recorder: ControlRecorder | None = None,
        queues: QueueRecorder | None = None,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._owners = owners
        self._events = events
        self._recorder = recorder or ControlRecorder()
        self._told: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._pace = Pace(_PERIOD_S)
        self._queue: WorkQueue[str] = WorkQueue("rejected pods", queues)

    async def run(self) -> None:
        """Looks at every rejected pod now and as they come, until cancelled."""
        unsubscribe = self._cluster.rejected.on_change(self._queue.add)
        try:
            for key in self._cluster.rejected:
                self._queue.add(key)
            await self._queue.run(self.look)
        finally:
            unsubscribe()

    async def look(self, key: str) -> None:
        """Explains the newest dead pod of one owner and deletes the oldest. Raises `ApiError`."""
        pods = sorted(self._cluster.rejected.of(key), key=_age)
        if not pods:
            return
        newest = pods[-1]
        try:
            is_told = await self._tell(key, newest)
            if newest.owner is None:
                return
            if len(pods) > 1 or (is_told and _is_replaced(newest.owner)):
                await self._clear(key, pods[0])
            elif not is_told:
                self._queue.add_after(key, _HELD_BACK_S)
        except (NotFound, Forbidden) as error:
            # Its namespace goes, and takes it along.
            log.info("rejected pod not settled", namespace=newest.namespace, pod=newest.name, error=error)

    async def _tell(self, key: str, pod: RejectedPod) -> bool:
        """Records the event on the pod's workload, unless the same was said of late; whether it stands there. It names
        no pod, so that equal ones are folded.
        """
        advice = _BARE if pod.owner is None else _OWNED
        said = pod.message.rstrip(".") or "no reason given"
        message = f"the kubelet of node {pod.node} rejected a pod ({pod.reason}): {said}; {_AVOIDED}; {advice}"
        now = time.monotonic()
        last, at = self._told.get(key, ("", 0.0))
        if last == message and now < at + _EQUAL_S:
            return True
        about = OwnerRef("v1", "Pod", pod.name, pod.uid)
        if pod.owner is not None:
            about = await self._owners.top(pod.namespace, pod.owner)
        if not await self._events.emit(pod.namespace, about, EventType.WARNING, "Rejected", message):
            return False
        remember(self._told, key, (message, now), _REMEMBERED)
        return True

    async def _clear(self, key: str, oldest: RejectedPod) -> None:
        now = time.monotonic()
        if turn_s := self._pace.wait_s(now):
            self._queue.add_after(key, turn_s)
            return
        self._pace.take(now)
        with contextlib.suppress(NotFound, Conflict):
            path = paths.pods(oldest.namespace, oldest.name)
            await self._client.delete(path, {"preconditions": {"uid": oldest.uid}})
            self._recorder.rejected_deleted.inc()
        log.info("rejected pod deleted", namespace=oldest.namespace, pod=oldest.name, node=oldest.node)
        self._cluster.rejected.deleted(oldest.uid)  # the watch says the same a moment later


def _is_replaced(owner: OwnerRef) -> bool:
    """Whether the owner is of Kubernetes' own kinds, which count pods that are gone as they count dead ones."""
    return (owner.api_version, owner.kind) in paths.OWNER_KINDS


def _age(pod: RejectedPod) -> tuple[str, str]:
    return pod.created, pod.name
