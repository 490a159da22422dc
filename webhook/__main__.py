"""Wires the webhook: settings, client, live picture, handlers, servers."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

from aiohttp import web

from shared.core.ledger import ID_ALPHABET, ID_LENGTH
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.credentials import NoClusterError
from shared.kube.ledger import Ledger
from shared.kube.owners import Owners
from shared.kube.watches import Watches
from shared.obs.health import serve_health
from shared.obs.logs import get_logger
from shared.obs.process import exit_with, run_process
from shared.settings import SettingsError, WebhookSettings, webhook_settings
from webhook.app import Handlers
from webhook.mutate import Mutator
from webhook.refusals import RefusalReports
from webhook.serving import ServingCertificate
from webhook.take_over import TakeOver
from webhook.validate import Validator

log = get_logger(__name__)

_LINGER_S: Final = 5.0
"""How long to go on serving once unready: until every API server has been told of it."""

Serve: TypeAlias = Callable[[Handlers, ServingCertificate, asyncio.Event], Awaitable[None]]
"""Answers reviews with the handlers, under the certificate, until the event."""


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
        refusals = RefusalReports(client, owners)
        mutator = Mutator(
            cluster,
            ledger,
            TakeOver(client, cluster, owners),
            new_id=_new_id,
            unix_time=_unix_time,
            runtime_class=settings.runtime_class,
        )
        handlers = Handlers(mutator, Validator(cluster, ledger), refusals, cluster)
        certificate = ServingCertificate(client, common.namespace, common.tls_secret)

        def unready() -> Iterator[str]:
            if handlers.closing:
                yield "shutting down"
            if not certificate.loaded.is_set():
                yield "no serving certificate yet"
            yield from watches.behind(time.monotonic())

        async with serve_health(common.health_host, common.health_port, unready):
            background = [group.create_task(work.run()) for work in (watches, certificate, refusals)]
            if await _before(stop, certificate.loaded.wait(), watches.synced()):
                await serve(handlers, certificate, stop)
            for task in background:
                task.cancel()


async def _serve_reviews(
    settings: WebhookSettings, handlers: Handlers, certificate: ServingCertificate, stop: asyncio.Event
) -> None:
    # What the first lists brought in stays. Looked through at each full collection it would hold reviews up, for 0.1 s
    # with 5,000 nodes.
    gc.collect()
    gc.freeze()
    runner = web.AppRunner(handlers.app(), access_log=None, shutdown_timeout=_LINGER_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.listen_host, settings.listen_port, ssl_context=certificate.context).start()
        log.info("serving", port=settings.listen_port)
        await stop.wait()
        handlers.closing = True
        log.info("closing")
        await asyncio.sleep(_LINGER_S)
    finally:
        await runner.cleanup()


async def _before(stop: asyncio.Event, *conditions: Coroutine[Any, Any, object]) -> bool:
    """Waits for all `conditions`; False if `stop` came first."""
    ready = asyncio.gather(*conditions)
    stopped = asyncio.create_task(stop.wait())
    waited: set[asyncio.Future[Any]] = {ready, stopped}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not ready.done():
        ready.cancel()
        return False
    return True


def _unix_time() -> int:
    return int(time.time())


def _new_id() -> str:
    return "".join(secrets.choice(ID_ALPHABET) for _ in range(ID_LENGTH))


if __name__ == "__main__":
    sys.exit(main())
