"""Wires the controller: settings, client, live picture, elector, reconcilers."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator

from controller.certificates import Certificates
from controller.control_recorder import ControlRecorder
from controller.events import Events
from controller.picture_metrics import CardMetrics, waiting_families
from controller.reconcilers import Surroundings, reconcilers, utc_now
from controller.reports import Reports
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.credentials import NoClusterError
from shared.kube.elector import Elector
from shared.kube.fates import Fates
from shared.kube.ledger import Ledger
from shared.kube.owners import Owners
from shared.kube.watch_health import watch_checks, watch_families
from shared.kube.watches import Watches
from shared.obs import metrics
from shared.obs.garbage import keep_what_is_there
from shared.obs.health import Check, serve_health
from shared.obs.metrics import AtScrape, Family, family
from shared.obs.process import exit_with, run_process
from shared.obs.recorders import LoopLag, QueueRecorder
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
    queues, recorder, lag = QueueRecorder(), ControlRecorder(), LoopLag()
    certificates = Certificates(client, settings, now=utc_now, queues=queues)
    async with asyncio.TaskGroup() as group:
        cluster = Cluster()
        fates = Fates()
        watches = Watches(client, cluster, exclusive=common.exclusive, fates=fates)
        reports = Reports(client)
        owners = Owners(client, common.owner_kinds)
        ledger = Ledger(client, cluster, exclusive=common.exclusive)
        events = Events(client, utc_now)
        around = Surroundings(client, cluster, fates, reports, owners, ledger, events, recorder, queues)
        elector = Elector(client, common.namespace, settings.lease, settings.identity)

        kept = False

        async def lead() -> None:
            """One term as the leader.

            Certificates come first: without them no webhook is called, and they need no list.
            """
            nonlocal kept
            recorder.terms.inc()
            async with asyncio.TaskGroup() as term:
                term.create_task(certificates.run())
                await watches.synced()
                await reports.listed()
                if not kept:  # once: what there is of a term would be kept beyond its end, too
                    keep_what_is_there()
                    kept = True
                for reconciler in reconcilers(settings, around):
                    term.create_task(reconciler.run())

        followed = (*watches.reflectors, reports.reflector)

        def checks() -> Iterator[Check]:
            yield from watch_checks(followed, time.monotonic())

        card_metrics = CardMetrics(cluster)

        def at_scrape() -> Iterator[Family]:
            yield from watch_families(followed, time.monotonic())
            yield family(metrics.LEADER, [({}, elector.is_leader)])
            if not elector.is_leader:
                return
            yield from card_metrics.families()
            yield from waiting_families(reports.all())
            if certificates.expiry is not None:
                yield family(metrics.CERTIFICATE_EXPIRY, [({}, certificates.expiry.timestamp())])

        registry = metrics.new_registry("controller")
        for part in (ledger.recorder, client.recorder, queues, recorder, lag, AtScrape(at_scrape)):
            registry.register(part)
        async with serve_health("controller", common.health_host, common.health_port, checks, registry):
            background = [
                group.create_task(work) for work in (watches.run(), reports.run(), lag.run(), elector.run(lead))
            ]
            await stop.wait()
            for task in background:
                task.cancel()


if __name__ == "__main__":
    sys.exit(main())
