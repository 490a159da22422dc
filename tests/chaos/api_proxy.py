"""Stands between one process and the API server, ends TLS on both sides, and lets faults happen in between."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from hack.devcluster.health import HOST
from tests.chaos.api_faults import LOSES_ANSWER, PIPE, RequestRule, is_watch
from tests.chaos.cutting import CutError, cut
from tests.chaos.rules import Schedule

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "host"})
_LARGEST = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate that is shown to clients, and the authority that servers are trusted by."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(slots=True)
class _Hold:
    """Nothing passes until it is released; what was held is then cut, or comes late."""

    watches_only: bool
    answers_only: bool
    cuts: bool
    released: asyncio.Event = field(default_factory=asyncio.Event)


class ApiProxy:
    """Forwards every request to `server`, unless one of `rules` strikes or everything is held.

    `rules` may be changed at any time, from any thread; the first that fits and strikes acts.
    """

    def __init__(self, name: str, server: str, tls: Tls, schedule: Schedule) -> None:
        self.name = name
        self.rules: list[RequestRule] = []
        self.listeners: list[Callable[[str, str], None]] = []
        """Who is told method and path of each request that is forwarded. May be changed as `rules` may."""
        self.schedule = schedule
        self.port = 0
        self._server = server
        self._tls = tls
        self._hold: _Hold | None = None
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    async def start(self) -> None:
        """Listens on a free port, which is `port` from then on."""
        self._loop = asyncio.get_running_loop()
        upstream = ssl.create_default_context(cafile=str(self._tls.authority))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=upstream, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
        )
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._tls.certificate, self._tls.key)
        await web.TCPSite(self._runner, HOST, 0, ssl_context=context).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Ends all connections and listens no more."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def partition(self, *, answers_only: bool = False) -> None:
        """Nothing passes any more, and nobody is told. With `answers_only` requests are carried out all the same.

        Connections on which something was said meanwhile are cut when it is over.
        """
        self._begin(_Hold(watches_only=False, answers_only=answers_only, cuts=True))
        self.schedule.add(self.name, "partition", "answers only" if answers_only else "")

    def hold_watches(self) -> None:
        """Watches stay open and silent; what they had to say comes late, all at once."""
        self._begin(_Hold(watches_only=True, answers_only=True, cuts=False))
        self.schedule.add(self.name, "held watches")

    def release(self) -> None:
        """Ends what `partition` or `hold_watches` began. Nothing happens if nothing is held."""
        hold, self._hold = self._hold, None
        if hold is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(hold.released.set)

    def _begin(self, hold: _Hold) -> None:
        self.release()
        self._hold = hold

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            for rule in tuple(self.rules):
                if rule.fits(request) and rule.strikes():
                    self.schedule.add(self.name, rule.name, f"{request.method} {request.path_qs}")
                    return await rule.act(request, self._forward)
            return await self._forward(request)
        except (CutError, aiohttp.ClientError, OSError):
            # Whatever is wrong behind us, in front of us it is a connection that is lost.
            cut(request.transport)
            return web.Response()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        for listener in tuple(self.listeners):
            listener(request.method, request.path)
        body = await request.read()
        if not (self._hold is not None and self._hold.answers_only):
            await self._passed(request)
        assert self._session is not None
        async with self._session.request(
            request.method,
            URL(self._server + request.raw_path, encoded=True),
            data=body or None,
            headers=_end_to_end(request.headers),
            allow_redirects=False,
        ) as upstream:
            if LOSES_ANSWER in request:
                await upstream.read()
                raise CutError("answer lost")
            response = web.StreamResponse(status=upstream.status, headers=_end_to_end(upstream.headers))
            await self._passed(request)
            await response.prepare(request)
            chunks = self._chunks(request, upstream)
            async for chunk in request.get(PIPE, _unchanged)(chunks):
                await response.write(chunk)
            await response.write_eof()
            return response

    async def _chunks(self, request: web.Request, upstream: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        async for chunk in upstream.content.iter_any():
            await self._passed(request)
            yield chunk

    async def _passed(self, request: web.Request) -> None:
        """Waits while requests like this one are held."""
        while (hold := self._hold) is not None and (is_watch(request) or not hold.watches_only):
            await hold.released.wait()
            if hold.cuts:
                raise CutError("held")


def _unchanged(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    return chunks


def _end_to_end(headers: aiohttp.typedefs.LooseHeaders) -> list[tuple[str, str]]:
    assert hasattr(headers, "items")
    return [(name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP]
