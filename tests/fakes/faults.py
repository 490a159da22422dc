"""What can go wrong between the product and an API server, to be planned for requests to a fake one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

Proceed: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
Act: TypeAlias = Callable[[web.Request, Proceed], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Fault:
    """`act` instead of an answer, for the next `times` requests that fit."""

    act: Act
    times: int = 1
    method: str | None = None
    path: str = ""
    watch: bool | None = None

    def fits(self, request: web.Request) -> bool:
        """Whether `request` is one of those that it is meant for."""
        return (
            self.times > 0
            and self.method in {None, request.method}
            and self.path in request.path
            and self.watch in {None, request.query.get("watch") == "true"}
        )


def respond(status: int, text: str = "", headers: dict[str, str] | None = None) -> Act:
    """An answer of its own."""

    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers=headers)

    return act


def drop() -> Act:
    """The connection ends without an answer, and without the request having been looked at."""

    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        return _cut(request)

    return act


def lose_answer() -> Act:
    """The request is carried out, then the connection ends without an answer."""

    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        await proceed(request)
        return _cut(request)

    return act


def hang() -> Act:
    """Nothing comes, until the client gives up."""

    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("waited for ever")

    return act


def hold(go_on: asyncio.Event) -> Act:
    """The right answer, once `go_on` is set."""

    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        await go_on.wait()
        return await proceed(request)

    return act


def stream(*chunks: bytes, silent: bool = False, cut: bool = False) -> Act:
    """A watch that sends just these bytes; then it ends, falls `silent` but stays open, or is `cut` off."""

    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if silent:
            await asyncio.Event().wait()
        if cut:
            return _cut(request)
        return response

    return act


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
