"""Accepts connections: on all addresses of a host, with a bound on those that are in their TLS handshake.

asyncio's own servers begin a handshake with whoever connects, some 50 KiB each, and tell nobody until it is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from shared.obs.logs import get_logger

log = get_logger(__name__)

_BACKLOG: Final = 256
_PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Tls:
    """How a connection becomes one over TLS; times in seconds.

    Of more than `most` handshakes under way the oldest is ended for the newest: one with a client that answers takes
    milliseconds, so it is the last to become the oldest.
    """

    context: ssl.SSLContext
    most: int
    handshake_s: float
    shutdown_s: float


class Acceptor:
    """Has a new protocol of `protocols` connected to each client, over TLS if there is `tls`, until it is closed.

    `ended` counts the handshakes that were ended for newer ones. Raises `OSError` when it cannot listen.
    """

    def __init__(self, host: str, port: int, protocols: Callable[[], asyncio.Protocol], tls: Tls | None) -> None:
        self.ended = 0
        self._protocols = protocols
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._go_on()

    def close(self) -> None:
        """Accepts no more, and ends the handshakes that are under way; connections stay."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for handshake in self._under_way:
            handshake.cancel()

    def _go_on(self) -> None:
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        """Takes one client in: between two of them everything else has its turn."""
        try:
            client, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # No file or no memory is left: the client waits outside, and trying at once would not help.
            log.warning("no connection can be accepted for now", error=error, retry_s=_PAUSE_S)
            self._loop.remove_reader(self._socket)
            self._pause = self._loop.call_later(_PAUSE_S, self._go_on)
            return
        client.setblocking(False)  # noqa: FBT003 - has no name
        handshake = self._loop.create_task(self._connect(client))
        self._under_way[handshake] = None
        handshake.add_done_callback(partial(self._over, client))
        if self._tls is not None and len(self._under_way) > self._tls.most:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            self.ended += 1
            oldest.cancel()

    async def _connect(self, client: socket.socket) -> None:
        over_tls = (
            {}
            if self._tls is None
            else {
                "ssl": self._tls.context,
                "ssl_handshake_timeout": self._tls.handshake_s,
                "ssl_shutdown_timeout": self._tls.shutdown_s,
            }
        )
        # What a client breaks off or does wrong in its handshake is its own affair, and it may do so at any rate.
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(self._protocols, client, **over_tls)  # type: ignore[arg-type]

    def _over(self, client: socket.socket, handshake: asyncio.Task[None]) -> None:
        self._under_way.pop(handshake, None)
        if handshake.cancelled():
            client.close()


def _listen(host: str, port: int) -> socket.socket:
    """A socket on `host`; if that is empty on all addresses of this machine, IPv4 and IPv6."""
    everywhere = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=everywhere)
    listening.setblocking(False)  # noqa: FBT003 - has no name
    return listening
