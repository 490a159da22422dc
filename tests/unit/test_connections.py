"""A server over TLS under clients that are slow, silent or many."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from controller.authority import Issued, issue, server_names
from shared.obs import acceptor as acceptor_module
from shared.obs.connections import ARRIVED, Connections, Limits
from tests.fakes.serving import eventually, in_time
from webhook.serving import _load, _new_context, _Pair

HOST = "127.0.0.1"
REQUEST = b"POST /mutate HTTP/1.1\r\nHost: webhook\r\nContent-Length: 2\r\n\r\n{}"
HALF_A_HEADER = REQUEST[:40]
ONLY_A_HEADER = REQUEST.replace(b"/mutate", b"/read").removesuffix(b"{}")
LONG_ANSWER = 32 * 2**20


@pytest.fixture(scope="module")
def issued() -> Issued:
    return issue(server_names("webhook", "sys", (HOST,)), datetime.now(UTC), timedelta(days=1))


@dataclass
class Site:
    """A server that answers at once, or with the body, or when `go_on` is set, or at length."""

    connections: Connections
    trusting: ssl.SSLContext
    port: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    cancelled: int = 0
    long_answers: int = 0
    arrivals: list[float] = field(default_factory=list)
    clients: list[asyncio.StreamWriter] = field(default_factory=list)

    async def mutate(self, request: web.Request) -> web.Response:
        self.arrivals.append(request[ARRIVED])
        return web.Response(body=await request.read())

    async def wait(self, _request: web.Request) -> web.Response:
        return await self.waits(self.go_on.wait())

    async def read(self, request: web.Request) -> web.Response:
        return await self.waits(request.read())

    async def waits(self, until: Awaitable[object]) -> web.Response:
        self.waiting += 1
        try:
            await until
        except (asyncio.CancelledError, ConnectionError):
            self.cancelled += 1
            raise
        return web.Response(text="done")

    async def long(self, _request: web.Request) -> web.Response:
        self.long_answers += 1
        return web.Response(body=b"x" * LONG_ANSWER)

    async def connect(self, *, tls: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HOST, self.port, ssl=self.trusting if tls else None)
        self.clients.append(writer)
        return reader, writer

    async def answers(self) -> bool:
        """Whether a request on a new connection is answered."""
        return await is_answered(*await self.connect())


async def is_answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes = REQUEST) -> bool:
    writer.write(request)
    answer = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
    return answer.startswith(b"HTTP/1.1 200")


async def is_ended(reader: asyncio.StreamReader) -> bool:
    """Waits until the server has ended a connection; the time is for a test that fails."""
    async with asyncio.timeout(120):
        try:
            while await reader.read(2**20):
                pass
        except (ConnectionError, ssl.SSLError):
            pass
    return True


Start = Callable[..., Awaitable[Site]]
Forward = Callable[[float], None]


@pytest.fixture
async def start(issued: Issued) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(**limits: float) -> Site:
            site = Site(Connections(Limits(**limits)), ssl.create_default_context(cadata=issued.authority.decode()))  # type: ignore[arg-type]
            site.port = await stack.enter_async_context(served(site, issued))
            stack.callback(hang_up, site.clients)
            return site

        yield begin


def hang_up(clients: list[asyncio.StreamWriter]) -> None:
    for writer in clients:
        writer.transport.abort()


@asynccontextmanager
async def served(site: Site, issued: Issued) -> AsyncIterator[int]:
    context = _new_context()
    _load(context, _Pair(issued.certificate, issued.key))
    app = web.Application()
    app.router.add_post("/mutate", site.mutate)
    app.router.add_post("/wait", site.wait)
    app.router.add_post("/read", site.read)
    app.router.add_post("/long", site.long)
    async with site.connections.serving(app, HOST, 0, context, shutdown_s=0.01) as port:
        yield port


async def test_slow_and_silent_connections_keep_no_request_from_being_answered(start: Start) -> None:
    site = await start(handshake_s=60.0, header_s=60.0)
    slow = [await site.connect() for _ in range(150)]
    for _, writer in slow[:100]:
        writer.write(HALF_A_HEADER)
    for _ in range(150):
        await site.connect(tls=False)
    assert await site.answers()
    assert len(site.connections) >= 150
    hang_up(site.clients)
    await eventually(lambda: len(site.connections) == 0)


async def test_a_request_counts_from_its_first_byte_each_time(start: Start) -> None:
    site = await start()
    reader, writer = await site.connect()
    loop = asyncio.get_running_loop()
    for _ in range(2):
        before = loop.time()
        writer.write(HALF_A_HEADER)
        await eventually(lambda: any(each._header for each in site.connections._open.values()))
        between = loop.time()
        await asyncio.sleep(0.02)
        assert await is_answered(reader, writer, REQUEST[len(HALF_A_HEADER) :])
        assert before <= site.arrivals[-1] <= between
        await asyncio.sleep(0.02)


async def test_a_request_that_came_during_another_counts_from_its_end(start: Start) -> None:
    site = await start()
    reader, writer = await site.connect()
    writer.write(REQUEST.replace(b"/mutate", b"/wait"))
    await eventually(lambda: site.waiting == 1)
    writer.write(REQUEST)
    await asyncio.sleep(0.02)
    ended = asyncio.get_running_loop().time()
    site.go_on.set()
    assert await is_answered(reader, writer, b"")
    assert await is_answered(reader, writer, b"")
    assert site.arrivals[-1] >= ended


async def test_a_header_that_does_not_end_ends_the_connection(start: Start) -> None:
    site = await start(header_s=0.05)
    reader, writer = await site.connect()
    writer.write(HALF_A_HEADER)
    assert await is_ended(reader)


async def test_a_process_that_stood_still_does_not_blame_its_clients(start: Start) -> None:
    site = await start(header_s=0.2)
    reader, writer = await site.connect()
    writer.write(HALF_A_HEADER)
    await eventually(lambda: any(each._header for each in site.connections._open.values()))
    time.sleep(0.3)  # noqa: ASYNC251 - everything stands still
    assert await is_answered(reader, writer, REQUEST[len(HALF_A_HEADER) :])


async def test_a_header_that_does_not_end_is_noticed_after_many_good_ones(start: Start) -> None:
    site = await start(header_s=0.05)
    reader, writer = await site.connect()
    for _ in range(3):
        assert await is_answered(reader, writer)
    writer.write(HALF_A_HEADER)
    assert await is_ended(reader)


async def test_a_handshake_that_does_not_end_ends_the_connection(start: Start) -> None:
    site = await start(handshake_s=0.05)
    reader, _ = await site.connect(tls=False)
    assert await is_ended(reader)


async def test_more_handshakes_than_there_may_be_keep_nobody_out(start: Start) -> None:
    site = await start(most_handshakes=4, handshake_s=60.0)
    silent = [await site.connect(tls=False) for _ in range(10)]
    for reader, _ in silent[:6]:
        assert await is_ended(reader)
    assert await site.answers()
    assert site.connections.turned_away == 7
    assert not silent[-1][0].at_eof()


async def test_what_is_no_handshake_ends_and_leaves_nothing(start: Start) -> None:
    site = await start(handshake_s=60.0)
    for _ in range(3):
        reader, writer = await site.connect(tls=False)
        writer.write(REQUEST)
        assert await is_ended(reader)
    assert await site.answers()
    acceptor = site.connections._acceptor
    assert acceptor is not None
    await eventually(lambda: not acceptor._under_way)


async def test_a_handshake_that_is_under_way_when_the_server_ends_does_not_hold_it_up(issued: Issued) -> None:
    site = Site(Connections(Limits(handshake_s=60.0)), ssl.create_default_context())
    async with served(site, issued) as site.port:
        reader, writer = await site.connect(tls=False)
        acceptor = site.connections._acceptor
        await eventually(lambda: acceptor is not None and len(acceptor._under_way) == 1)
    assert await is_ended(reader)
    writer.transport.abort()


async def test_it_waits_while_no_file_is_left_and_then_goes_on(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    accept, failed = socket.socket.accept, 0

    def without_files(listening: socket.socket) -> tuple[socket.socket, object]:
        nonlocal failed
        if failed < 3:
            failed += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listening)

    monkeypatch.setattr(acceptor_module, "_PAUSE_S", 0.01)
    monkeypatch.setattr(socket.socket, "accept", without_files)
    site = await start()
    assert await site.answers()
    assert failed == 3


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_no_host_is_every_address_of_either_family(address: str) -> None:
    async with Connections().serving(web.Application(), "", 0, shutdown_s=0.01) as port:
        reader, writer = await asyncio.open_connection(address, port)
        writer.write(REQUEST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        writer.transport.abort()


async def test_an_answer_that_nobody_reads_ends_the_connection(start: Start, forward: Forward) -> None:
    site = await start(idle_s=60.0, goodbye_s=60.0)
    _reader, writer = await site.connect()
    writer.write(REQUEST.replace(b"/mutate", b"/long"))
    await eventually(lambda: site.long_answers == 1)
    assert len(site.connections) == 1
    await in_time(lambda: len(site.connections) == 0, forward)


async def test_a_long_answer_that_is_read_arrives_whole(start: Start) -> None:
    site = await start()
    reader, writer = await site.connect()
    assert await is_answered(reader, writer, REQUEST.replace(b"/mutate", b"/long"))


async def test_an_idle_connection_ends(start: Start, forward: Forward) -> None:
    site = await start(idle_s=60.0)
    reader, writer = await site.connect()
    assert await is_answered(reader, writer)
    await in_time(lambda: len(site.connections) == 0, forward)
    assert await is_ended(reader)


async def test_the_connection_that_is_least_missed_makes_room_for_a_new_one(start: Start) -> None:
    site = await start(most=3)
    served_before = await site.connect()
    assert await is_answered(*served_before)
    never_used, used_later = await site.connect(), await site.connect()
    await eventually(lambda: len(site.connections) == 3)
    newest = await site.connect()
    assert await is_ended(never_used[0])
    for each in (served_before, used_later, newest):
        assert await is_answered(*each)
    assert site.connections.turned_away == 1


async def test_clients_that_send_a_header_only_keep_nobody_out(start: Start) -> None:
    site = await start(most=4)
    slow = [await site.connect() for _ in range(4)]
    for _, writer in slow:
        writer.write(ONLY_A_HEADER)
    await eventually(lambda: site.waiting == 4)
    for _ in range(3):
        assert await site.answers()
    await eventually(lambda: site.cancelled == 3)
    assert site.connections.turned_away == 3


async def test_connections_that_were_used_once_keep_nobody_out(start: Start) -> None:
    site = await start(most=4)
    used = [await site.connect() for _ in range(4)]
    for each in used:
        assert await is_answered(*each)
    assert await site.answers()
    assert await is_ended(used[0][0])


async def test_a_flood_of_new_connections_ends_none_that_is_in_use(start: Start) -> None:
    site = await start(most=4)
    used = [await site.connect() for _ in range(2)]
    for each in used:
        assert await is_answered(*each)
    flood = [await site.connect() for _ in range(8)]
    for reader, _ in flood[:6]:
        assert await is_ended(reader)
    for each in used:
        assert await is_answered(*each)


async def test_a_body_on_its_way_is_not_ended_by_a_few_newcomers_nor_by_a_crowd_that_is_idle(start: Start) -> None:
    site = await start(most=4)
    idle = [await site.connect() for _ in range(3)]
    for each in idle:
        assert await is_answered(*each)
    reader, writer = await site.connect()
    writer.write(REQUEST[:-1])
    await eventually(lambda: len(site.arrivals) == 4)
    await site.connect()
    assert await is_ended(idle[0][0])
    assert await is_answered(reader, writer, REQUEST[-1:])


async def test_a_body_on_its_way_on_an_old_connection_is_not_ended_as_the_one_idle_longest(start: Start) -> None:
    site = await start(most=3)
    old, younger, youngest = [await site.connect() for _ in range(3)]
    for each in (old, younger, youngest):
        assert await is_answered(*each)
    old[1].write(REQUEST[:-1])
    await eventually(lambda: len(site.arrivals) == 4)
    await site.connect()
    assert await is_ended(younger[0])
    assert await is_answered(*old, REQUEST[-1:])


async def test_a_body_that_comes_behind_its_answer_keeps_no_connection(start: Start) -> None:
    site = await start(most=1)
    reader, writer = await site.connect()
    writer.write(ONLY_A_HEADER.replace(b"/read", b"/nowhere"))
    await reader.readuntil(b"\r\n\r\n404: Not Found")
    writer.write(b"{}" + HALF_A_HEADER)
    await eventually(lambda: any(each._header for each in site.connections._open.values()))
    assert await site.answers()


async def test_a_body_may_take_longer_than_a_header(start: Start) -> None:
    site = await start(header_s=0.05)
    reader, writer = await site.connect()
    writer.write(ONLY_A_HEADER)
    await eventually(lambda: site.waiting == 1)
    writer.write(b"{")
    await asyncio.sleep(0.2)
    assert await is_answered(reader, writer, b"}")


async def test_reviews_under_way_are_not_ended_by_new_connections(start: Start) -> None:
    site = await start(most=2)
    under_way = [await site.connect() for _ in range(2)]
    requests = [asyncio.create_task(is_answered(*each, REQUEST.replace(b"/mutate", b"/wait"))) for each in under_way]
    await eventually(lambda: site.waiting == 2)
    newest, _ = await site.connect()
    assert await is_ended(newest)
    site.go_on.set()
    assert all(await asyncio.gather(*requests))


async def test_a_review_whose_client_is_gone_is_cancelled(start: Start) -> None:
    site = await start()
    _, writer = await site.connect()
    writer.write(REQUEST.replace(b"/mutate", b"/wait"))
    await eventually(lambda: site.waiting == 1)
    writer.transport.abort()
    await eventually(lambda: site.cancelled == 1)
    assert await site.answers()


async def test_tls_1_1_is_not_spoken(start: Start) -> None:
    site = await start()
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        site.trusting.minimum_version = site.trusting.maximum_version = ssl.TLSVersion.TLSv1_1
    site.trusting.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        await site.connect()
