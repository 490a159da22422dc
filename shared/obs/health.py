"""`/healthz` and `/readyz` over plain HTTP, for the kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

_IDLE_S: Final = 120.0
"""When a connection on which nothing is asked ends; left to itself aiohttp would keep it for an hour."""


@asynccontextmanager
async def serve_health(host: str, port: int, unready: Callable[[], Iterable[str]]) -> AsyncIterator[None]:
    """Serves both while the context lasts.

    `/healthz` says only that the process runs, and never depends on the API server: restarting would not mend that.
    `/readyz` answers 503 with a line for each reason that `unready` gives.
    """

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        reasons = list(unready())
        return web.Response(text="".join(f"{reason}\n" for reason in reasons or ["ok"]), status=503 if reasons else 200)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=_IDLE_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
