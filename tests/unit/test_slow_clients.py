"""The webhook as it is served, over TLS, with clients that announce much and send little."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from controller.authority import issue, server_names
from shared.obs.connections import Connections, Limits
from tests.fakes.serving import eventually
from tests.unit.test_app import a_site, asking, review
from tests.unit.test_connections import HOST, hang_up, is_ended
from webhook.app import BODIES_LIMIT, BODY_LIMIT, KEPT_FOR_SMALL, SMALL_BODY, Handlers
from webhook.serving import _load, _new_context, _Pair

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEADER = b"POST /mutate HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n"


@dataclass
class Door:
    """The port of a webhook."""

    handlers: Handlers
    connections: Connections
    port: int
    trusting: ssl.SSLContext
    clients: list[asyncio.StreamWriter] = field(default_factory=list)

    async def client(self, length: int | None, begins: bytes = b"") -> Stream:
        """One that announces a body, of a length or without, and sends the beginning of it."""
        reader, writer = await asyncio.open_connection(HOST, self.port, ssl=self.trusting)
        self.clients.append(writer)
        writer.write(HEADER + (b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length))
        writer.write(b"\r\n\r\n" + (b"%x\r\n%b" % (BODY_LIMIT, begins) if length is None else begins))
        return reader, writer

    async def review(self, body: bytes) -> int:
        """The status of an API server's review."""
        return await status(await self.client(len(body), body))


async def status(client: Stream) -> int:
    return int((await client[0].readuntil(b"\r\n\r\n")).split()[1])


@asynccontextmanager
async def a_door(folder: Path, limits: Limits) -> AsyncIterator[Door]:
    issued = issue(server_names("webhook", "sys", (HOST,)), datetime.now(UTC), timedelta(days=1))
    context = _new_context()
    _load(context, _Pair(issued.certificate, issued.key))
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(a_site(folder))
        connections = Connections(limits)
        app = site.handlers.app()
        port = await stack.enter_async_context(connections.serving(app, HOST, 0, context, shutdown_s=0.01))
        door = Door(site.handlers, connections, port, ssl.create_default_context(cadata=issued.authority.decode()))
        stack.callback(hang_up, door.clients)
        yield door


SMALL = orjson.dumps(review(asking("1")))
LARGE = orjson.dumps(review(asking("1"), oldObject="x" * (7 * 2**20)))


async def test_bodies_that_are_announced_and_do_not_come_take_no_room(tmp_path: Path) -> None:
    async with a_door(tmp_path, Limits()) as door:
        for length in [BODY_LIMIT] * 8 + [None] * 8:
            await door.client(length, b"{")
        await eventually(lambda: door.handlers.bodies.inside == 16)
        for body in (SMALL, LARGE):
            assert await door.review(body) == 200
        assert door.handlers.bodies.inside == 16


async def test_bodies_of_which_the_end_does_not_come_give_their_room_to_reviews(tmp_path: Path) -> None:
    async with a_door(tmp_path, Limits()) as door:
        room = BODIES_LIMIT - KEPT_FOR_SMALL
        slow = [await door.client(BODY_LIMIT, b" " * (room // 3 - 1)) for _ in range(3)]
        await eventually(lambda: door.handlers.bodies.inside == 3 * (room // 3 - 1))
        assert await door.review(SMALL) == 200
        assert await door.review(LARGE) == 200
        assert await status(slow[0]) == 503
        assert await is_ended(slow[0][0])
        assert await door.review(LARGE) == 200
        assert door.handlers.bodies.inside == 2 * (room // 3 - 1), "one was enough"


async def test_many_small_bodies_of_which_the_end_does_not_come_give_their_room_to_reviews(tmp_path: Path) -> None:
    async with a_door(tmp_path, Limits()) as door:
        many = BODIES_LIMIT // SMALL_BODY
        slow = [await door.client(BODY_LIMIT, b" " * SMALL_BODY) for _ in range(many)]
        await eventually(lambda: door.handlers.bodies.inside == BODIES_LIMIT)
        assert await door.review(SMALL) == 200
        assert await status(slow[0]) == 503


async def test_clients_without_a_body_do_not_keep_an_api_server_out(tmp_path: Path) -> None:
    async with a_door(tmp_path, Limits(most=4)) as door:
        slow = [await door.client(length) for length in (2, BODY_LIMIT, None, 2)]
        await eventually(lambda: len(door.connections) == 4)
        for body in (SMALL, LARGE, SMALL):
            assert await door.review(body) == 200
        assert await is_ended(slow[0][0])
        assert door.connections.turned_away == 3


async def test_a_large_body_that_comes_is_not_ended_for_slow_ones(tmp_path: Path) -> None:
    async with a_door(tmp_path, Limits(most=4)) as door:
        slow = [await door.client(BODY_LIMIT, b" " * (BODY_LIMIT - 1)) for _ in range(3)]
        honest = await door.client(len(LARGE), LARGE[: len(LARGE) // 2])
        await eventually(lambda: len(door.connections) == 4)
        slow += [await door.client(BODY_LIMIT, b"{") for _ in range(2)]
        honest[1].write(LARGE[len(LARGE) // 2 :])
        assert await status(honest) == 200
