"""Wires the controller: settings, client, live picture, elector, reconcilers."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from controller.certificates import Certificates
from controller.events import Events
from controller.ledger_keeper import LedgerKeeper
from controller.managed_nodes import ManagedNodes
from controller.placements import Placements
from controller.reports import Reports
from controller.seats import Seats
from controller.waking import Waker
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.credentials import NoClusterError
from shared.kube.elector import Elector
from shared.kube.ledger import Ledger
from shared.kube.owners import Owners
from shared.kube.watches import Watches
from shared.obs.health import serve_health
from shared.obs.process import exit_with, run_process
from shared.settings import ControllerSettings, SettingsError, controller_settings


def main() -> int:
    """The console script."""
    try:
        settings = controller_settings(os.environ)
        return run_process(settings.common.log_level, lambda stop: _control(settings, stop))
    except (SettingsError, NoClusterError) as error:
        return exit_with(error)


async def _control(settings: ControllerSettings, stop: asyncio.Event) -> None:
    async with await KubeClient.connect(settings.common.kubeconfig) as client:
        await run_controller(settings, client, stop)


async def run_controller(settings: ControllerSettings, client: KubeClient, stop: asyncio.Event) -> None:
    """One controller against the API server of `client`, until `stop`."""
    common = settings.common
    certificates = Certificates(client, settings, now=_now)
    async with asyncio.TaskGroup() as group:
        cluster = Cluster()
        watches = Watches(client, cluster, exclusive=common.exclusive)
        reports = Reports(client)
        owners = Owners(client, common.owner_kinds)
        ledger = Ledger(client, cluster, exclusive=common.exclusive)
        elector = Elector(client, common.namespace, settings.lease, settings.identity)

        async def lead() -> None:
            """One term as the leader.

            Certificates come first: without them no webhook is called, and they need no list.
            """
            async with asyncio.TaskGroup() as term:
                term.create_task(certificates.run())
                await watches.synced()
                await reports.listed()
                placements = Placements(client, cluster, reports, owners, Events(client, _now), _now)
                seats = Seats(cluster, owners, placements.pods_of, unix_time=_unix_time)
                ttl_s, kept_s = settings.unconfirmed_ttl_s, settings.kept_seat_s
                term.create_task(LedgerKeeper(client, cluster, ledger, seats, ttl_s=ttl_s, kept_s=kept_s).run())
                term.create_task(ManagedNodes(client, cluster, _now, exclusive=common.exclusive).run())
                term.create_task(placements.run())
                term.create_task(Waker(client, cluster, reports, owners, _now).run())

        def unready() -> Iterator[str]:
            yield from watches.behind(time.monotonic())

        async with serve_health(common.health_host, common.health_port, unready):
            background = [group.create_task(work) for work in (watches.run(), reports.run(), elector.run(lead))]
            await stop.wait()
            for task in background:
                task.cancel()


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def _unix_time() -> int:
    return int(time.time())


if __name__ == "__main__":
    sys.exit(main())
