"""Wires the webhook: settings, client, live picture, handlers, servers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

from shared.core.ledger import ID_ALPHABET, ID_LENGTH
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.credentials import NoClusterError
from shared.kube.ledger import Ledger
from shared.kube.owners import Owners
from shared.kube.watch_health import watch_checks, watch_families
from shared.kube.watches import Watches
from shared.obs import metrics
from shared.obs.connections import Connections
from shared.obs.garbage import keep_what_is_there
from shared.obs.health import Check, serve_health
from shared.obs.logs import get_logger
from shared.obs.metrics import AtScrape, Family, family
from shared.obs.process import exit_with, run_process
from shared.obs.recorders import LoopLag, QueueRecorder
from shared.settings import SettingsError, WebhookSettings, webhook_settings
from webhook.app import Handlers
from webhook.mutate import Mutator
from webhook.refusals import RefusalReports
from webhook.serving import ServingCertificate
from webhook.take_over import TakeOver
from webhook.take_seat import TakeSeat
from webhook.validate import Validator

log = get_logger(__name__)

_LINGER_S: Final = 5.0
"""How long to go on serving once unready: until every API server has been told of it."""

Serve: TypeAlias = Callable[[Handlers, Connections, ServingCertificate, asyncio.Event], Awaitable[None]]
"""Answers reviews with the handlers, on the connections, under the certificate, until the event."""


def main() -> int:
    """The console script."""
    try:
        settings = webhook_settings(os.environ)
        return run_process(settings.common.log_level, lambda stop: _serve(settings, stop))
    except (SettingsError, NoClusterError) as error:
        return exit_with(error)


async def _serve(settings: WebhookSettings, stop: asyncio.Event) -> None:
    async with await KubeClient.connect(settings.common.kubeconfig) as client:
        await run_webhook(settings, client, partial(_serve_reviews, settings), stop)


async def run_webhook(settings: WebhookSettings, client: KubeClient, serve: Serve, stop: asyncio.Event) -> None:
    """One webhook against the API server of `client`: `serve` is called when it can answer. Ends after `stop`."""
    common = settings.common
    async with asyncio.TaskGroup() as group:
        cluster = Cluster()
        watches = Watches(client, cluster, exclusive=common.exclusive)
        ledger = Ledger(client, cluster, exclusive=common.exclusive)
        owners = Owners(client, common.owner_kinds)
        queues = QueueRecorder()
        refusals = RefusalReports(client, owners, queues)
        mutator = Mutator(
            cluster,
            ledger,
            TakeOver(client, cluster, owners),
            TakeSeat(client, cluster, owners),
            new_id=_new_id,
            unix_time=_unix_time,
            runtime_class=settings.runtime_class,
            preemption=common.preemption,
        )
        handlers = Handlers(mutator, Validator(cluster, ledger), refusals)
        connections = Connections()
        certificate = ServingCertificate(client, common.namespace, common.tls_secret)

        lag = LoopLag()
        followed = (*watches.reflectors, certificate.reflector)

        def checks() -> Iterator[Check]:
            yield Check("serving", "shutting down" if handlers.closing else None)
            yield Check("certificate", certificate.problem())
            yield from watch_checks(watches.reflectors, time.monotonic())

        def at_scrape() -> Iterator[Family]:
            yield from watch_families(followed, time.monotonic())
            yield family(metrics.CONNECTIONS, [({}, len(connections))])
            yield family(metrics.CONNECTIONS_TURNED_AWAY, [({}, connections.turned_away)])
            if certificate.expiry is not None:
                yield family(metrics.CERTIFICATE_EXPIRY, [({}, certificate.expiry.timestamp())])

        registry = metrics.new_registry("webhook")
        for part in (handlers.recorder, ledger.recorder, client.recorder, queues, lag, AtScrape(at_scrape)):
            registry.register(part)
        async with serve_health("webhook", common.health_host, common.health_port, checks, registry):
            background = [group.create_task(work.run()) for work in (watches, certificate, refusals, lag)]
            if await _before(stop, certificate.loaded.wait(), watches.synced()):
                await serve(handlers, connections, certificate, stop)
            for task in background:
                task.cancel()


async def _serve_reviews(
    settings: WebhookSettings,
    handlers: Handlers,
    connections: Connections,
    certificate: ServingCertificate,
    stop: asyncio.Event,
) -> None:
    keep_what_is_there()
    listen = handlers.app(), settings.listen_host, settings.listen_port, certificate.context
    async with connections.serving(*listen, shutdown_s=_LINGER_S):
        log.info("serving", port=settings.listen_port)
        await stop.wait()
        handlers.closing = True
        log.info("closing")
        await asyncio.sleep(_LINGER_S)


async def _before(stop: asyncio.Event, *conditions: Coroutine[Any, Any, object]) -> bool:
    """Waits for all `conditions`; False if `stop` came first."""
    ready = asyncio.gather(*conditions)
    stopped = asyncio.create_task(stop.wait())
    waited: set[asyncio.Future[Any]] = {ready, stopped}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not ready.done():
        ready.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ready
        return False
    return True


def _unix_time() -> int:
    return int(time.time())


def _new_id() -> str:
    return "".join(secrets.choice(ID_ALPHABET) for _ in range(ID_LENGTH))


if __name__ == "__main__":
    sys.exit(main())
