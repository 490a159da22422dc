"""Calls a webhook as an API server does: HTTP inside TLS, verified with the configuration's `caBundle`.

Both ends are in this process and joined in memory: nothing waits for a network, so the clock stands still meanwhile.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from aiohttp import web
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError


class UnreachableError(Exception):
    """The call got no usable answer; the text says why, as an API server would."""


class Connections:
    """The connections of an API server, kept and shared by its calls until it hangs up."""

    def __init__(self) -> None:
        self._open: dict[tuple[ssl.SSLContext, str, bytes], _Tls] = {}

    def hang_up(self) -> None:
        """Has every later call begin with a handshake."""
        self._open.clear()

    async def post(
        self, server: web.Server, context: ssl.SSLContext, path: str, body: bytes, *, host: str, ca_bundle: bytes
    ) -> bytes:
        """The body of the answer to a POST of JSON. Raises `UnreachableError`."""
        tls = self._open.get((context, host, ca_bundle))
        if tls is None:
            tls = _Tls(context)
            tls.verify(host, ca_bundle)
            self._open[context, host, ca_bundle] = tls
        return await _exchange(server, tls, path, body, host)


async def _exchange(server: web.Server, tls: _Tls, path: str, body: bytes, host: str) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    protocol = server()
    transport = _Transport()
    protocol.connection_made(transport)
    protocol.data_received(tls.carry(head.encode() + body))
    try:
        await transport.closed.wait()
    finally:
        protocol.connection_lost(None)
    return _body(tls.carry_back(bytes(transport.sent)))


class _Tls:
    """A TLS connection whose two ends hand each other their bytes."""

    def __init__(self, context: ssl.SSLContext) -> None:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Verified below, at the time of the case's clock, which OpenSSL does not know.
        client.check_hostname = False
        client.verify_mode = ssl.CERT_NONE
        self._client = client.wrap_bio(down, up)
        self._server = context.wrap_bio(up, down, server_side=True)
        try:
            while not all([_step(self._client.do_handshake), _step(self._server.do_handshake)]):
                pass
        except ssl.SSLError as error:
            raise UnreachableError(f"TLS handshake failed: {error}") from error

    def verify(self, host: str, ca_bundle: bytes) -> None:
        """Raises `UnreachableError` unless the server's certificate is good for `host`."""
        raw = self._client.getpeercert(binary_form=True)
        assert raw is not None
        try:
            authorities = x509.load_pem_x509_certificates(ca_bundle)
            now = datetime.fromtimestamp(time.time(), UTC)
            policy = PolicyBuilder().store(Store(authorities)).time(now)
            policy.build_server_verifier(x509.DNSName(host)).verify(x509.load_der_x509_certificate(raw), [])
        except (ValueError, VerificationError) as error:
            raise UnreachableError(f"tls: failed to verify certificate: {error}") from error

    def carry(self, data: bytes) -> bytes:
        """What the server reads of what the client writes."""
        return _through(self._client, self._server, data)

    def carry_back(self, data: bytes) -> bytes:
        """What the client reads of what the server writes."""
        return _through(self._server, self._client, data)


class _Transport(asyncio.Transport):
    """Collects what a server writes, until it closes."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.closed = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed.set()

    def abort(self) -> None:
        self.closed.set()

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """There is nothing more to come."""

    def resume_reading(self) -> None:
        """There is nothing more to come."""


class _Socket:
    """What `http.client` reads an answer from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _step(handshake: Callable[[], None]) -> bool:
    try:
        handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _through(source: ssl.SSLObject, sink: ssl.SSLObject, data: bytes) -> bytes:
    arrived = bytearray()
    # Record by record: neither end holds back more than it is given.
    for start in range(0, len(data), 16384):
        source.write(data[start : start + 16384])
        try:
            while piece := sink.read(65536):
                arrived += piece
        except ssl.SSLWantReadError:
            pass
    return bytes(arrived)


def _body(answer: bytes) -> bytes:
    if not answer:
        raise UnreachableError("EOF")
    response = http.client.HTTPResponse(cast("Any", _Socket(answer)))
    response.begin()
    if response.status != 200:
        raise UnreachableError(f"the webhook answered {response.status}")
    return response.read()
