"""`/healthz`, `/readyz` and `/metrics` over plain HTTP, for the kubelet and for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from shared.obs.connections import Connections, Limits
from shared.obs.metrics import READY, AtScrape, Family, family


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be so for a process to be ready; `problem` says why it is not."""

    name: str
    problem: str | None = None


_LIMITS: Final = Limits(most=32)
"""A kubelet and a few scrapers ask, one after the other. Whoever else comes is not to take the files of the others."""
_SHUTDOWN_S: Final = 2.0


@asynccontextmanager
async def serve_health(
    process: str, host: str, port: int, checks: Callable[[], Iterable[Check]], registry: CollectorRegistry
) -> AsyncIterator[None]:
    """Serves all three while the context lasts, and adds to `registry` what the checks say.

    `/healthz` says only that the event loop runs, and never depends on the API server: restarting would not mend that.
    `/readyz` has a line for each check, as the API server's own has, and is 503 while one fails.
    """

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        found = tuple(checks())
        lines = [
            f"[+]{check.name} ok" if check.problem is None else f"[-]{check.name}: {check.problem}" for check in found
        ]
        ready = all(check.problem is None for check in found)
        text = "\n".join([*lines, "ready" if ready else "not ready", ""])
        return web.Response(text=text, status=200 if ready else 503)

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get(hdrs.ACCEPT, ""))
        # Read in one go between other work, so that it is one picture; the text of a large cluster is long, and is
        # made while reviews and leases go on.
        picture = _Picture(registry.collect())
        body = await asyncio.to_thread(encode, picture)
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})

    def readiness() -> Iterator[Family]:
        yield family(READY, (({"process": process, "check": check.name}, check.problem is None) for check in checks()))

    registry.register(AtScrape(readiness))
    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    async with Connections(_LIMITS).serving(app, host, port, shutdown_s=_SHUTDOWN_S):
        yield


class _Picture(Collector):
    """Families that were read already."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Family]:
        return self._families
