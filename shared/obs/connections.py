"""The connections of a process's servers: how many there may be, and how long a client may take over each step.

aiohttp bounds the size of headers and ends connections that stay idle, also those on which an answer waits to be read.
Bounded here and in `acceptor.py` is what it leaves open: TLS handshakes, a header that trickles in, and the number of
connections.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from shared.obs.acceptor import Acceptor, Tls

ARRIVED: Final = web.RequestKey("arrived", float)
"""When the first byte of a request arrived, in the loop's time."""

_READ_AHEAD: Final = 64 * 2**10
"""So many bytes of a body may lie in memory twice before somebody reads it, beside what one read of a socket brings."""
_STEPS: Final = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections there may be, and the longest times in seconds.

    An API server opens a connection for each review that it has under way and keeps idle ones for 90 s. It has to be
    the one that ends them, since a review that meets a closing connection fails.
    """

    most: int = 800
    """Of those whose handshake is over."""
    most_handshakes: int = 800
    handshake_s: float = 10.0
    header_s: float = 5.0
    idle_s: float = 120.0
    goodbye_s: float = 2.0
    """How long an answer may wait to be read when its connection is to end."""
    rest_s: float = 2.0
    """How long the rest of a body is read and dropped after an answer that did not need it."""


class Connections:
    """The connections that are open. Beyond `limits.most` one is ended for the newest.

    It is never one on which a whole request waits for its answer. Nor is it the newest, as long as there is another.
    """

    def __init__(self, limits: Limits = Limits()) -> None:
        self.limits = limits
        self._ended = 0
        self._acceptor: Acceptor | None = None
        self._open: dict[web.RequestHandler, _Connection] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def turned_away(self) -> int:
        """How many were ended for newer ones so far, those in their handshake included."""
        return self._ended + (self._acceptor.ended if self._acceptor else 0)

    @asynccontextmanager
    async def serving(
        self, app: web.Application, host: str, port: int, context: ssl.SSLContext | None = None, *, shutdown_s: float
    ) -> AsyncIterator[int]:
        """Serves `app` while the context lasts, over TLS if there is a `context`, and gives the port.

        A client that is gone has its review cancelled, so that nobody's reviews take no room. What was being written
        of it then may have been: it is unconfirmed, as after a time-out.
        """
        app.middlewares.append(self._watch)
        runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=shutdown_s,
            keepalive_timeout=self.limits.idle_s,
            lingering_time=self.limits.rest_s,
            read_bufsize=_READ_AHEAD,
        )
        await runner.setup()
        limits = self.limits
        tls = Tls(context, limits.most_handshakes, limits.handshake_s, limits.goodbye_s) if context else None
        try:
            self._acceptor = Acceptor(host, port, lambda: _Connection(self, cast("web.Server", runner.server)()), tls)
            try:
                yield self._acceptor.port
            finally:
                self._acceptor.close()
        finally:
            await runner.cleanup()
            for connection in self._open.values():
                connection.abort()

    def joined(self, connection: _Connection) -> None:
        """Takes a new connection in; the one that is least missed makes room for it."""
        self._open[connection.handler] = connection
        if len(self._open) > self.limits.most:
            least_missed = self._least_missed(connection)
            self._ended += 1
            self.left(least_missed)
            least_missed.abort()

    def _least_missed(self, newest: _Connection) -> _Connection:
        """The one idle longest: of those never used while these have more than half of all places, else of the rest.

        So neither a flood of new connections nor a crowd of old ones leaves the other kind no place.
        """
        idle = [each for each in self._open.values() if not each.busy and each is not newest]
        never_used = 1 + sum(not each.served for each in idle)
        never_used_first = 2 * never_used > self.limits.most
        return min(idle, key=lambda each: (each.served is never_used_first, each.arrived), default=newest)

    def left(self, connection: _Connection) -> None:
        """Forgets a connection, if it is still known."""
        self._open.pop(connection.handler, None)

    @web.middleware
    async def _watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = self._open.get(request.protocol)
        if connection is None:
            return await handler(request)
        connection.began(request)
        request[ARRIVED] = connection.arrived
        try:
            return await handler(request)
        finally:
            connection.ended()


class _Connection(asyncio.Protocol):
    """Passes everything on to aiohttp's `handler`, and ends the connection when a header takes too long.

    `busy` from when a request is whole until its answer, which has a deadline of its own; `served` once there was one.
    `arrived` is when the first byte of the last request came, or when its answer went, or when the connection was made.
    """

    def __init__(self, all_of_them: Connections, handler: web.RequestHandler) -> None:
        self.handler = handler
        self.busy = False
        self.served = False
        self._loop = asyncio.get_running_loop()
        self.arrived = self._loop.time()
        self._all = all_of_them
        self._transport: asyncio.Transport | None = None
        self._header: asyncio.TimerHandle | None = None
        self._request: web.Request | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.handler.connection_made(transport)
        self._all.joined(self)

    def data_received(self, data: bytes) -> None:
        if self._request is None and self._header is None:
            self.arrived = self._loop.time()
            self._wait_for_header(_STEPS)
        self.handler.data_received(data)

    def eof_received(self) -> Any:
        return self.handler.eof_received()

    def pause_writing(self) -> None:
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        self.handler.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._has_header()
        self._all.left(self)
        self.handler.connection_lost(error)

    def began(self, request: web.Request) -> None:
        """A request has arrived, up to its body."""
        self._has_header()
        self._request = request
        request.content.on_eof(lambda: self._is_whole(request))

    def ended(self) -> None:
        """The request has an answer."""
        self._request = None
        self.busy, self.served = False, True
        self.arrived = self._loop.time()

    def abort(self) -> None:
        """Ends the connection without a word."""
        if self._transport is not None:
            self._transport.abort()

    def _is_whole(self, request: web.Request) -> None:
        # The rest of a body may also come behind an answer that did not need it.
        if self._request is request:
            self.busy = True

    def _wait_for_header(self, steps: int) -> None:
        """In steps, of which a process that stood still counts one only: that was not the client's fault."""
        if steps:
            self._header = self._loop.call_later(self._all.limits.header_s / _STEPS, self._wait_for_header, steps - 1)
        else:
            self.abort()

    def _has_header(self) -> None:
        if self._header is not None:
            self._header.cancel()
            self._header = None
