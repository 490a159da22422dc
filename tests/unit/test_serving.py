"""The serving certificate: taken from its Secret and exchanged while requests go on."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from controller.authority import Issued, issue, server_names
from shared.kube import paths
from tests.fakes.serving import Served, eventually, serving
from tests.unit.admission import store
from webhook.serving import ServingCertificate

HOST = "webhook.sys.svc"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


def pair() -> Issued:
    return issue(server_names("webhook", "sys", ()), datetime.now(UTC), timedelta(days=1))


def put(served: Served, certificate: bytes, key: bytes) -> None:
    data = {"tls.crt": base64.b64encode(certificate).decode(), "tls.key": base64.b64encode(key).decode()}
    store(served.server.objects, paths.secrets("sys"), {"metadata": {"name": "tls"}, "data": data})


@asynccontextmanager
async def following(served: Served) -> AsyncIterator[ServingCertificate]:
    certificate = ServingCertificate(served.client, "sys", "tls")
    running = asyncio.create_task(certificate.run())
    try:
        yield certificate
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def listening(certificate: ServingCertificate) -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=certificate.context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def connect(port: int, authority: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    trusting = ssl.create_default_context(cadata=authority.decode())
    return await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=HOST)


def serial(writer: asyncio.StreamWriter) -> int:
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(der).serial_number


def serial_of(issued: Issued) -> int:
    return x509.load_pem_x509_certificate(issued.certificate).serial_number


async def test_it_says_when_the_pair_in_use_expires_and_when_it_has(served: Served) -> None:
    async with following(served) as certificate:
        assert (certificate.expiry, certificate.problem()) == (None, "there is none yet")
        valid = pair()
        put(served, valid.certificate, valid.key)
        await eventually(certificate.loaded.is_set)
        assert certificate.expiry == x509.load_pem_x509_certificate(valid.certificate).not_valid_after_utc
        assert certificate.problem() is None
        over = issue(server_names("webhook", "sys", ()), datetime.now(UTC) - timedelta(days=2), timedelta(days=1))
        put(served, over.certificate, over.key)
        await eventually(lambda: certificate.problem() is not None)
        assert (certificate.problem() or "").startswith("expired at ")


async def test_it_serves_once_the_controller_has_made_the_pair(served: Served) -> None:
    new = pair()
    async with following(served) as certificate:
        await eventually(lambda: len(served.server.requests) >= 2)
        assert not certificate.loaded.is_set()
        put(served, new.certificate, new.key)
        await certificate.loaded.wait()
        async with listening(certificate) as port:
            _, writer = await connect(port, new.authority)
            assert serial(writer) == serial_of(new)
            writer.close()


async def test_a_new_pair_is_served_to_new_connections_and_old_ones_go_on(served: Served) -> None:
    old, new = pair(), pair()
    put(served, old.certificate, old.key)
    async with following(served) as certificate:
        await certificate.loaded.wait()
        async with listening(certificate) as port:
            reader, writer = await connect(port, old.authority)
            put(served, new.certificate, new.key)
            await until_served(port, old, new)
            writer.write(b"still here\n")
            assert await reader.readline() == b"still here\n"
            writer.close()


async def until_served(port: int, old: Issued, new: Issued) -> None:
    """Connects until the new pair is served; what is served until then is the old one."""
    async with asyncio.timeout(120):
        while True:
            _, writer = await connect(port, old.authority + new.authority)
            seen = serial(writer)
            writer.close()
            if seen == serial_of(new):
                return
            assert seen == serial_of(old)


@pytest.mark.parametrize("spoil", ["mismatched", "no-pem", "missing", "deleted"])
async def test_a_pair_that_cannot_be_served_leaves_the_last_one_in_use(served: Served, spoil: str) -> None:
    good, other = pair(), pair()
    put(served, good.certificate, good.key)
    async with following(served) as certificate:
        await certificate.loaded.wait()
        before = certificate.reflector._version
        match spoil:
            case "mismatched":
                put(served, other.certificate, good.key)
            case "no-pem":
                put(served, b"?", b"?")
            case "missing":
                store(served.server.objects, paths.secrets("sys"), {"metadata": {"name": "tls"}, "data": {}})
            case _:
                await served.client.delete(paths.secrets("sys", "tls"))
        await eventually(lambda: certificate.reflector._version != before)
        async with listening(certificate) as port:
            _, writer = await connect(port, good.authority)
            assert serial(writer) == serial_of(good)
            writer.close()
            put(served, other.certificate, other.key)
            await until_served(port, good, other)
