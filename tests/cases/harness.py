"""The product's own programs, wired as their `__main__` wires them, over the fake API server and the case's clock.

A replica is a webhook and a controller. Killing one cuts its connections first, so nothing is tidied up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from controller.__main__ import run_controller
from shared.kube.client import KubeClient
from shared.obs.connections import Connections
from shared.settings import CommonSettings, controller_settings, webhook_settings
from tests.cases.chart import Chart
from tests.fakes.inprocess import InProcessSession, Network, in_process_client
from webhook.__main__ import run_webhook
from webhook.app import Handlers
from webhook.serving import ServingCertificate

_READY_S: Final = 30.0


@dataclass(slots=True)
class Process:
    """A running program."""

    task: asyncio.Task[None]
    session: InProcessSession

    async def kill(self) -> None:
        """Ends it without letting it say goodbye to the API server."""
        self.session.cut()
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


class Webhook:
    """One replica of the webhook. `server` and `certificate` are there once it serves."""

    def __init__(self, chart: Chart, network: Network, name: str) -> None:
        self.serving = asyncio.Event()
        self.server: web.Server | None = None
        self.certificate: ServingCertificate | None = None
        settings = webhook_settings(chart.workload("webhook").environment(f"webhook-{name}"))
        settings = replace(settings, common=_on_loopback(settings.common))

        async def run(client: KubeClient) -> None:
            await run_webhook(settings, client, self._serve, asyncio.Event())

        self.process = _start(network, run)

    async def _serve(
        self, handlers: Handlers, _connections: Connections, certificate: ServingCertificate, stop: asyncio.Event
    ) -> None:
        runner = web.AppRunner(handlers.app(), access_log=None)
        await runner.setup()
        self.server, self.certificate = runner.server, certificate
        self.serving.set()
        await stop.wait()


def start_controller(chart: Chart, network: Network, name: str) -> Process:
    """A controller. One that is started again under its name goes on with its lease, as a restarted container does."""
    settings = controller_settings(chart.workload("controller").environment(f"controller-{name}"))
    settings = replace(settings, common=_on_loopback(settings.common))

    async def run(client: KubeClient) -> None:
        await run_controller(settings, client, asyncio.Event())

    return _start(network, run)


class Product:
    """All replicas of both programs."""

    def __init__(self, chart: Chart, network: Network, replicas: Sequence[str]) -> None:
        self._chart = chart
        self._network = network
        self._live = list(replicas)
        self._webhooks_stopped = False
        self._webhooks: dict[str, Webhook] = {}
        self._controllers: dict[str, Process] = {}

    async def start(self) -> None:
        """Starts what is not running and waits until every webhook serves, or has had its time to begin."""
        for name in self._live:
            if name not in self._controllers:
                self._controllers[name] = start_controller(self._chart, self._network, name)
            if name not in self._webhooks and not self._webhooks_stopped:
                self._webhooks[name] = Webhook(self._chart, self._network, name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_S):
                for webhook in self._webhooks.values():
                    await webhook.serving.wait()

    def webhook(self, name: str | None = None) -> Webhook | None:
        """The replica of this name, or the first that lives; None if it does not live."""
        if name is not None:
            return self._webhooks.get(name)
        return next(iter(self._webhooks.values()), None)

    async def kill_webhooks(self) -> None:
        """Kills every webhook."""
        for webhook in self._webhooks.values():
            await webhook.process.kill()
        self._webhooks.clear()

    async def stop_webhooks(self) -> None:
        """Kills every webhook for good."""
        self._webhooks_stopped = True
        await self.kill_webhooks()

    async def kill_controllers(self) -> None:
        """Kills every controller."""
        for process in self._controllers.values():
            await process.kill()
        self._controllers.clear()

    async def fail_over(self, to: str) -> None:
        """Every replica but `to` dies and does not come back."""
        for name in [name for name in self._live if name != to]:
            self._live.remove(name)
            if name in self._webhooks:
                await self._webhooks.pop(name).process.kill()
            if name in self._controllers:
                await self._controllers.pop(name).kill()

    async def kill(self) -> None:
        """Kills everything."""
        await self.kill_webhooks()
        await self.kill_controllers()

    def check(self) -> None:
        """Raises what a program ended with, if one ended by itself."""
        processes = [*self._controllers.values(), *(webhook.process for webhook in self._webhooks.values())]
        for process in processes:
            if process.task.done():
                process.task.result()
                raise RuntimeError("a program of the product ended by itself")


def _start(network: Network, run: Callable[[KubeClient], Awaitable[None]]) -> Process:
    client, session = in_process_client(network)

    async def work() -> None:
        async with client:
            await run(client)

    return Process(asyncio.create_task(work()), session)


def _on_loopback(common: CommonSettings) -> CommonSettings:
    return replace(common, health_host="127.0.0.1", health_port=0)
