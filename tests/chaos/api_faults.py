"""What a network or an overloaded API server does to requests, besides what `tests.fakes.faults` has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

from aiohttp import web

from tests.chaos.cutting import CutError
from tests.chaos.rules import Rule
from tests.fakes.faults import Act, Proceed, respond, stream

Pipe: TypeAlias = Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]
"""Makes other bytes of those of an answer."""

PIPE: web.RequestKey[Pipe] = web.RequestKey("pipe")
"""The key of a request under which an act leaves the pipe for its answer."""
LOSES_ANSWER = web.RequestKey("loses answer", bool)
"""The key of a request whose answer nobody gets."""

_REASONS = {
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
_PIECES_A_SECOND = 10


@dataclass(slots=True)
class RequestRule(Rule[Act]):
    """A rule for requests with this method, with `path` in the path, watches or not."""

    method: str | None = None
    path: str = ""
    watch: bool | None = None

    def fits(self, request: web.Request) -> bool:
        """Whether `request` is of the kind that the rule is about."""
        return (
            self.method in {None, request.method}
            and self.path in request.path
            and self.watch in {None, is_watch(request)}
        )


def is_watch(request: web.Request) -> bool:
    return request.query.get("watch") == "true"


def delay(seconds: float) -> Act:
    """The right answer, late."""

    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await proceed(request)

    return act


def status(code: int) -> Act:
    """An answer with a Kubernetes Status of this code. The API server never hears of the request."""
    headers = {"Content-Type": "application/json"}
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        headers["Retry-After"] = "1"
    return respond(code, json.dumps(_status(code)), headers)


def expired_watch() -> Act:
    """A watch that begins well and at once sends an ERROR event of code 410."""
    event = {"type": "ERROR", "object": _status(HTTPStatus.GONE)}
    return stream(json.dumps(event).encode() + b"\n")


def lost_answer() -> Act:
    """The request is carried out, then the connection is cut without an answer."""

    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        request[LOSES_ANSWER] = True
        return await proceed(request)

    return act


def truncated(keep: float = 0.5) -> Act:
    """The right answer, of which the first chunk is cut off in the middle, and the connection with it."""

    async def pipe(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            yield chunk[: int(len(chunk) * keep)]
            raise CutError("truncated")

    return _through(pipe)


def slow(bytes_per_s: int, pieces_a_second: float = _PIECES_A_SECOND) -> Act:
    """The right answer, at no more than so many bytes a second."""
    piece = max(1, int(bytes_per_s / pieces_a_second))

    async def pipe(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            for start in range(0, len(chunk), piece):
                yield chunk[start : start + piece]
                await asyncio.sleep(1 / pieces_a_second)

    return _through(pipe)


def _through(pipe: Pipe) -> Act:
    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        request[PIPE] = pipe
        return await proceed(request)

    return act


def _status(code: int) -> dict[str, object]:
    reason = _REASONS[code]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"injected: {reason}",
        "reason": reason,
        "code": code,
    }
