"""Carries a refusal to where its owner is looked at: the workload's `ModelPlacement`.

It happens after the answer, so no review waits for it. A workload whose creates keep failing is refused many times a
minute; its refusal is written once per owner and reason in ten seconds.

An owner reference may be made up. One whose kind can be read is looked up; of the others each namespace gets a few.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from shared.api.crds.modelplacement import MAX_TOLERATIONS, MAX_TOLERATIONS_LENGTH
from shared.core.explain import explain
from shared.core.owners import OwnerRef, controller_of
from shared.core.preemption import may_preempt
from shared.core.refusal import NoFit, Refusal
from shared.core.times import in_seconds
from shared.core.tolerations import read_tolerations
from shared.kube.client import KubeClient
from shared.kube.errors import Forbidden, Invalid, NotFound
from shared.kube.model_placements import patch_status, placement_name, read_status, refusal_key
from shared.kube.owners import Owners
from shared.kube.paths import InvalidName
from shared.kube.recent import remember
from shared.kube.unwritten import Unwritten
from shared.kube.workqueue import WorkQueue
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder
from webhook.review import Request

log = get_logger(__name__)

_QUIET_S: Final = 10.0
_MOST_PENDING: Final = 2000
_WORKERS: Final = 4
_MOST_COUNTED: Final = 2**31 - 1
"""More would be no integer to the API server one day, and then no refusal could be reported."""
_MOST_UNREADABLE: Final = 100
_UNREADABLE_S: Final = 600.0
"""How long a workload of a kind that cannot be read counts: the controller ends its refusal after the same time."""

_Key: TypeAlias = tuple[str, str, str]
"""Namespace, owner's uid, reason."""


@dataclass(frozen=True, slots=True)
class _Report:
    namespace: str
    owner: OwnerRef
    refusal: Refusal
    priority: int
    preempts: bool
    tolerations: list[dict[str, str]]
    at: datetime


class RefusalReports:
    """Refusals on their way into `ModelPlacement`s."""

    def __init__(self, client: KubeClient, owners: Owners, queues: QueueRecorder | None = None) -> None:
        self._client = client
        self._owners = owners
        self._pending: dict[_Key, _Report] = {}
        self._written_at: OrderedDict[_Key, float] = OrderedDict()
        self._unreadable: dict[str, OrderedDict[str, float]] = {}
        self._unwritten = Unwritten("refusal not reported")
        self._queue: WorkQueue[_Key] = WorkQueue("refusals", queues)

    def report(self, request: Request, refusal: Refusal) -> None:
        """Takes note of a refusal; returns at once. A bare pod has no workload: its creator was told."""
        assert request.pod is not None
        owner = controller_of(request.pod)
        if owner is None:
            return
        key = (request.namespace, owner.uid, str(refusal.reason))
        if key not in self._pending and len(self._pending) >= _MOST_PENDING:
            log.warning("refusal not reported: too many are pending", namespace=request.namespace, owner=owner.name)
            return
        now = datetime.fromtimestamp(time.time(), UTC)
        priority, preempts = _priority(request.pod), _preempts(request.pod)
        # What is no NoFit may be a pod of any shape.
        tolerations = _tolerations(request.pod) if isinstance(refusal, NoFit) else []
        self._pending[key] = _Report(request.namespace, owner, refusal, priority, preempts, tolerations, now)
        quiet_s = self._written_at.get(key, float("-inf")) + _QUIET_S - time.monotonic()
        if quiet_s > 0:
            self._queue.add_after(key, quiet_s)
        else:
            self._queue.add(key)

    async def run(self) -> None:
        """Writes what was reported until cancelled."""
        await self._queue.run(self._write, workers=_WORKERS)

    async def _write(self, key: _Key) -> None:
        report = self._pending.get(key)
        if report is None:
            return
        # Counted from the start of the write: what is reported while it is under way has to wait as well.
        remember(self._written_at, key, time.monotonic(), _MOST_PENDING)
        try:
            await self._record(report)
        except (InvalidName, Forbidden, NotFound, Invalid) as error:
            # A made-up owner, a namespace that is going, or a quota: no repetition mends that. The next refusal tries
            # again.
            self._unwritten.tell(report.namespace, f"{report.owner.kind}/{report.owner.name}", error)
        if self._pending.get(key) is report:
            del self._pending[key]

    async def _record(self, report: _Report) -> None:
        top = await self._owners.living_top(report.namespace, report.owner)
        if top is None or not self._has_room(report.namespace, top):
            log.info("refusal not reported", namespace=report.namespace, owner=report.owner.name)
            return
        key = refusal_key(report.owner)
        status = await read_status(self._client, report.namespace, top)
        old = (status.get("refusals") or {}).get(key) or {}
        await patch_status(self._client, report.namespace, top, {"refusals": {key: _entry(report, old)}})

    def _has_room(self, namespace: str, top: OwnerRef) -> bool:
        """Whether the namespace may have a report about this workload: of kinds that cannot be read only so many."""
        if self._owners.can_read(top):
            return True
        now = time.monotonic()
        self._forget_unreadable(now)
        reported = self._unreadable.setdefault(namespace, OrderedDict())
        name = placement_name(top)
        if name not in reported and len(reported) >= _MOST_UNREADABLE:
            return False
        reported[name] = now
        reported.move_to_end(name)
        return True

    def _forget_unreadable(self, now: float) -> None:
        """Drops what no longer counts, in every namespace: namespaces come and go too."""
        for namespace, reported in tuple(self._unreadable.items()):
            while reported and next(iter(reported.values())) <= now - _UNREADABLE_S:
                reported.popitem(last=False)
            if not reported:
                del self._unreadable[namespace]


def _priority(pod: Mapping[str, Any]) -> int:
    """The pod's priority, 0 where it has none. The pod was refused, perhaps because it is none."""
    spec = pod.get("spec")
    priority = spec.get("priority") if isinstance(spec, Mapping) else None
    return priority if isinstance(priority, int) else 0


def _preempts(pod: Mapping[str, Any]) -> bool:
    """Whether the pod may take the place of others. It was refused, perhaps because it is none."""
    spec = pod.get("spec")
    return not isinstance(spec, Mapping) or may_preempt(spec)


def _tolerations(pod: Mapping[str, Any]) -> list[dict[str, str]]:
    """What a well-formed pod tolerates, as a pod says it; nothing where that is too much to be kept."""
    tolerations = [asdict(each) for each in read_tolerations(pod["spec"].get("tolerations"))]
    told = [{name: text for name, text in each.items() if text} for each in tolerations]
    length = sum(len(text) for each in told for text in each.values())
    return told if len(told) <= MAX_TOLERATIONS and length <= MAX_TOLERATIONS_LENGTH else []


def _entry(report: _Report, old: Mapping[str, Any]) -> dict[str, Any]:
    """The refusal as it stands in the status; `old` is what stood there, whose age a repetition keeps."""
    refusal = report.refusal
    repeated = old.get("uid") == report.owner.uid
    at = in_seconds(report.at)
    return {
        "uid": report.owner.uid,
        "reason": str(refusal.reason),
        "message": explain(refusal),
        "demand": refusal.asked[:256] if isinstance(refusal, NoFit) else "",
        "priority": report.priority,
        "preempts": report.preempts,
        "tolerations": report.tolerations,
        "since": old["since"] if repeated else at,
        "last": at,
        "count": min(old.get("count", 1) + 1, _MOST_COUNTED) if repeated else 1,
        "waitable": isinstance(refusal, NoFit) and refusal.can_wait,
    }
