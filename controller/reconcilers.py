"""What a controller does while it leads, besides the certificates: its reconcilers, wired together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from controller.control_recorder import ControlRecorder
from controller.crash_logs import CrashLogs
from controller.events import Events
from controller.ledger_keeper import LedgerKeeper
from controller.managed_nodes import ManagedNodes
from controller.placements import Placements
from controller.rejected import Rejected
from controller.reports import Reports
from controller.seats import Seats
from controller.stuck import Stuck
from controller.waking import Waker
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.fates import Fates
from shared.kube.ledger import Ledger
from shared.kube.owners import Owners
from shared.obs.recorders import QueueRecorder
from shared.settings import ControllerSettings


class Reconciler(Protocol):
    """Keeps one thing as it should be."""

    async def run(self) -> None:
        """Does so until it is cancelled."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What outlives a term: the API server, what is known of the cluster, and what is counted."""

    client: KubeClient
    cluster: Cluster
    fates: Fates
    reports: Reports
    owners: Owners
    ledger: Ledger
    events: Events
    recorder: ControlRecorder
    queues: QueueRecorder


def reconcilers(settings: ControllerSettings, around: Surroundings) -> Iterator[Reconciler]:
    """Those of one term."""
    client, cluster, owners, events = around.client, around.cluster, around.owners, around.events
    preemption, exclusive = settings.common.preemption, settings.common.exclusive
    placements = Placements(
        client,
        cluster,
        around.fates,
        around.reports,
        owners,
        events,
        utc_now,
        queues=around.queues,
        recorder=around.recorder,
    )
    yield LedgerKeeper(
        client,
        cluster,
        around.ledger,
        Seats(cluster, owners, placements.pods_of, unix_time=_unix_time),
        ttl_s=settings.unconfirmed_ttl_s,
        kept_s=settings.kept_seat_s,
        recorder=around.recorder,
        queues=around.queues,
    )
    yield ManagedNodes(client, cluster, utc_now, exclusive=exclusive, queues=around.queues)
    yield placements
    yield Waker(
        client,
        cluster,
        around.reports,
        owners,
        utc_now,
        settings.wake_kinds,
        around.recorder,
        preemption=preemption,
    )
    yield Stuck(
        client,
        cluster,
        owners,
        events,
        after_s=settings.stuck_after_s,
        replace=settings.replace_stuck,
        recorder=around.recorder,
        queues=around.queues,
    )
    yield Rejected(client, cluster, owners, events, around.recorder, around.queues)
    if settings.read_logs:
        yield CrashLogs(client, around.fates, around.queues)


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.fromtimestamp(time.time(), UTC)


def _unix_time() -> int:
    return int(time.time())
