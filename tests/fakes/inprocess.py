"""A connection to the fake API server that needs no socket: requests are function calls, so no time passes in them.

`KubeClient` does everything else as it does over HTTP. `tests/contract` holds it to the same behaviour.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, cast

import aiohttp
import orjson
from yarl import URL

from shared.kube.client import KubeClient
from shared.kube.credentials import Connection
from tests.fakes.api import Api, ApiRequest, place_of
from tests.fakes.objects import RefusalError


@dataclass(slots=True)
class Network:
    """What lies between one or more clients and the API server. `delay_s` is how long every call takes."""

    api: Api
    delay_s: float = 0.0
    requests: list[ApiRequest] = field(default_factory=list)


class InProcessSession:
    """What `KubeClient` uses of an `aiohttp.ClientSession`. Once `cut`, nothing comes through any more."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._is_cut = False

    def cut(self) -> None:
        """Ends the connection for good, as when the process is killed."""
        self._is_cut = True

    async def close(self) -> None:
        """Ends the connection."""
        self.cut()

    async def request(
        self,
        method: str,
        url: URL,
        *,
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the name that aiohttp gives it
        allow_redirects: bool,
    ) -> InProcessResponse:
        """The answer to one request, half of the delay before it is carried out and half after."""
        body = None if data is None else orjson.loads(data)
        request = ApiRequest(method, url.path, url.query, headers.get("Content-Type", ""), body)
        await self._travel()
        self._network.requests.append(request)
        if request.watches:
            await self._travel()
            return InProcessResponse(url, 200, lines=self._lines(request))
        status, answer = self._answered(request)
        await self._travel()
        return InProcessResponse(url, status, orjson.dumps(answer))

    def _answered(self, request: ApiRequest) -> tuple[int, Any]:
        try:
            return self._network.api.answer(request)
        except RefusalError as refusal:
            return refusal.code, refusal.status

    async def _travel(self) -> None:
        await asyncio.sleep(self._network.delay_s / 2)
        if self._is_cut:
            raise aiohttp.ClientConnectionError("the connection is cut")

    async def _lines(self, request: ApiRequest) -> AsyncIterator[bytes]:
        place_of(request.path)
        async for event in self._network.api.watch(request):
            if self._is_cut:
                raise aiohttp.ClientConnectionError("the connection is cut")
            yield orjson.dumps(event) + b"\n"


class InProcessResponse:
    """What `KubeClient` uses of an `aiohttp.ClientResponse`."""

    connection = None

    def __init__(self, url: URL, status: int, body: bytes = b"", lines: AsyncIterator[bytes] | None = None) -> None:
        self.url = url
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._body = body
        self._lines = lines

    async def __aenter__(self) -> InProcessResponse:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        aclose = getattr(self._lines, "aclose", None)
        if aclose is not None:
            await aclose()

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return self.status < 400

    @property
    def content(self) -> InProcessResponse:
        """The body as a stream: this object itself."""
        return self

    def iter_any(self) -> AsyncIterator[bytes]:
        """The pieces of the body as they come."""
        return self._lines if self._lines is not None else self._whole()

    async def _whole(self) -> AsyncIterator[bytes]:
        yield self._body


def in_process_client(network: Network, timeout_s: float = 10.0) -> tuple[KubeClient, InProcessSession]:
    """A client of the API server behind `network`, and the session that can be cut."""
    session = InProcessSession(network)

    async def no_credentials() -> str | None:
        return None

    connection = Connection("http://api", cast("aiohttp.ClientSession", session), {}, no_credentials, None)
    return KubeClient(connection, timeout_s), session
