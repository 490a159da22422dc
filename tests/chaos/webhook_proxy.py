"""Stands in front of the webhooks as a Service does, spreads connections over them, and lets faults happen to bytes.

TLS passes through: certificates are what the webhooks and the API server have between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from hack.devcluster.forwarder import connect
from hack.devcluster.health import HOST
from tests.chaos.cutting import CutError, cut
from tests.chaos.rules import Rule, Schedule

_CHUNK = 65536

TcpAct: TypeAlias = Callable[[], Awaitable[None]]


class Moment(StrEnum):
    """When a rule is asked."""

    CONNECT = "connect"
    """The API server has connected, and no webhook was told."""
    REQUEST = "request"
    """The API server has sent something."""
    ANSWER = "answer"
    """A webhook has sent something."""


@dataclass(slots=True)
class TcpRule(Rule[TcpAct]):
    """A rule for bytes that pass at this moment of a connection."""

    moment: Moment = Moment.CONNECT


def delay(seconds: float) -> TcpAct:
    """It passes, late."""

    async def act() -> None:
        await asyncio.sleep(seconds)

    return act


def silence() -> TcpAct:
    """It never passes, nor does what follows in this direction; the connection stays open."""

    async def act() -> None:
        await asyncio.Event().wait()

    return act


def reset() -> TcpAct:
    """The connection is cut instead, on both sides."""

    async def act() -> None:
        raise CutError("reset")

    return act


class WebhookProxy:
    """Forwards each connection to the next of the `backends` that accepts it.

    `rules` may be changed at any time, from any thread; the first for the moment that strikes acts.
    """

    def __init__(self, port: int, backends: Sequence[int], schedule: Schedule) -> None:
        self.port = port
        self.rules: list[TcpRule] = []
        self.schedule = schedule
        self._backends = backends
        self._turn = itertools.cycle(range(len(backends)))
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def stop(self) -> None:
        """Ends all connections and listens no more."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        ends = [writer]
        try:
            await self._at(Moment.CONNECT)
            first = next(self._turn)
            upstream = await connect([*self._backends[first:], *self._backends[:first]])
            if upstream is None:
                return
            ends.append(upstream[1])
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, upstream[1], Moment.REQUEST))
                group.create_task(self._pump(upstream[0], writer, Moment.ANSWER))
        except* (CutError, asyncio.CancelledError):
            for end in ends:
                cut(end.transport)
        finally:
            self._connections.discard(task)
            for end in ends:
                end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moment: Moment) -> None:
        """Copies until one side has no more to say, and passes that on."""
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._at(moment)
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def _at(self, moment: Moment) -> None:
        for rule in tuple(self.rules):
            if rule.moment is moment and rule.strikes():
                self.schedule.add("webhooks", rule.name, moment)
                await rule.act()
                return
