"""The API server as plain JSON over HTTP: a method per verb, a deadline on every call, distinct errors."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Generic, TypeAlias, TypeVar
from urllib.parse import urlencode

import aiohttp
import orjson
from yarl import URL

from shared.api import names
from shared.kube.credentials import Connection, open_connection
from shared.kube.errors import AnswerTooLong, ApiError, Gone, Unavailable, from_response
from shared.kube.lines import LineCutter, json_object
from shared.obs.recorders import RequestRecorder

Json: TypeAlias = dict[str, Any]
Params: TypeAlias = Mapping[str, str]
T = TypeVar("T")

_PAGE: Final = 500
_SMALL_PAGE: Final = 20
_LONGEST_ANSWER: Final = 64 * 2**20
"""Bytes. An object has 3 MiB at most, so a small page always fits, and a page of usual objects has a tenth of this."""
_BREATHER: Final = 100
"""Items converted before other tasks get a turn: reviews are answered while a large collection arrives."""
_UNAUTHORIZED: Final = 401

_ROUNDS_TO_CLOSE: Final = 5
"""Turns of the event loop in which sockets that were just aborted are closed; aiohttp does not wait for them."""

_JSON: Final = "application/json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_APPLY_PATCH: Final = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A whole collection as it was at `resource_version`."""

    items: tuple[T, ...]
    resource_version: str


class KubeClient:
    """Requests to one API server. Paths come from `shared.kube.paths`; objects are JSON as it sends them.

    Every call ends within `timeout_s` seconds (the client's default unless given) and raises `ApiError`s.
    Nothing is retried, since the caller knows whether a repetition is safe, but for one thing that aiohttp does: when
    a kept-alive connection turns out to be closed, GET, PUT and DELETE are sent again. A write that is based on a
    `resourceVersion` can so conflict with itself. Use it as an async context manager. `recorder` counts the requests.
    """

    def __init__(self, connection: Connection, timeout_s: float = 10.0) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._longest_answer = _LONGEST_ANSWER
        self.recorder = RequestRecorder()

    @classmethod
    async def connect(cls, kubeconfig: str | None, timeout_s: float = 10.0) -> KubeClient:
        """A client as the kubeconfig file says, or with None as the pod's service account.

        Raises `NoClusterError`.
        """
        return cls(await open_connection(kubeconfig), timeout_s)

    async def __aenter__(self) -> KubeClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        await self._connection.session.close()
        for _ in range(_ROUNDS_TO_CLOSE):
            await asyncio.sleep(0)

    async def get(self, path: str, params: Params | None = None, *, timeout_s: float | None = None) -> Json:
        """The object at `path`."""
        return await self._call(json_object, "GET", path, params, timeout_s=timeout_s)

    async def text(self, path: str, params: Params | None = None, *, timeout_s: float | None = None) -> str:
        """What is at `path` as text, such as a log."""
        return await self._call(
            lambda answer: answer.decode(errors="replace"), "GET", path, params, timeout_s=timeout_s
        )

    async def create(
        self, path: str, body: Json, params: Params | None = None, *, timeout_s: float | None = None
    ) -> Json:
        """Adds an object to the collection at `path` and returns it as stored."""
        return await self._call(json_object, "POST", path, params, body, timeout_s=timeout_s)

    async def replace(
        self, path: str, body: Json, params: Params | None = None, *, timeout_s: float | None = None
    ) -> Json:
        """Writes the whole object. With `metadata.resourceVersion` in it a stale write raises `Conflict`."""
        return await self._call(json_object, "PUT", path, params, body, timeout_s=timeout_s)

    async def merge_patch(
        self, path: str, body: Json, params: Params | None = None, *, timeout_s: float | None = None
    ) -> Json:
        """Merges `body` into the object; None removes a key, lists are replaced whole.

        With `metadata.resourceVersion` in it a stale write raises `Conflict`, else the last writer wins.
        """
        return await self._call(json_object, "PATCH", path, params, body, _MERGE_PATCH, timeout_s=timeout_s)

    async def apply(
        self, path: str, body: Json, field_manager: str, *, force: bool = True, timeout_s: float | None = None
    ) -> Json:
        """Server-side apply: takes charge of the fields in `body`, creates the object if it is missing.

        `force` takes fields from other managers; without it their fields raise `Conflict`.
        """
        params = {"fieldManager": field_manager, "force": "true" if force else "false"}
        return await self._call(json_object, "PATCH", path, params, body, _APPLY_PATCH, timeout_s=timeout_s)

    async def delete(
        self,
        path: str,
        body: Json | None = None,
        params: Params | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Json:
        """Deletes the object. `body` is a `DeleteOptions`, such as preconditions on the uid."""
        return await self._call(json_object, "DELETE", path, params, body, timeout_s=timeout_s)

    async def list(self, path: str, params: Params | None = None, *, timeout_s: float | None = None) -> Listing[Json]:
        """The collection at `path`, whole. `params` may hold selectors. `timeout_s` is for each page."""
        return await self.list_as(lambda raw: raw, path, params, timeout_s=timeout_s)

    async def list_as(
        self,
        convert: Callable[[Json], T],
        path: str,
        params: Params | None = None,
        *,
        page: int = _PAGE,
        timeout_s: float | None = None,
    ) -> Listing[T]:
        """As `list`, with each item converted as its page arrives: one page of JSON is held at a time."""
        try:
            return await self._list_pages(convert, path, {**(params or {}), "limit": str(page)}, timeout_s)
        except AnswerTooLong:
            if page <= _SMALL_PAGE:
                raise
            return await self.list_as(convert, path, params, page=_SMALL_PAGE, timeout_s=timeout_s)
        except Gone:
            # The continue token outlived the server's history. A list in one piece cannot expire on the way.
            return await self._list_pages(convert, path, params or {}, timeout_s)

    async def stream(
        self,
        path: str,
        params: Params | None = None,
        *,
        read_timeout_s: float,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Json, None]:
        """The JSON lines of a watch as they arrive, until the server ends it.

        `timeout_s` is for the server to begin, `read_timeout_s` for the longest silence after that, so that a
        connection whose other end is gone is noticed. A line that is not JSON or was cut off raises
        `Unavailable`. Wrap it in `contextlib.aclosing` to give the connection back when leaving early.
        """
        with self._counted("WATCH"), _as_api_errors("GET", path):
            async with self._deadline(timeout_s):
                response = await self._send("GET", path, params, None, _JSON, read_timeout_s)
            async with response:
                await self._raise_for_status(response)
                cutter = LineCutter()
                try:
                    async for chunk in response.content.iter_any():
                        for line in cutter.feed(chunk):
                            yield json_object(line)
                    cutter.finish()
                finally:
                    _abort_unfinished(response)

    async def _list_pages(
        self, convert: Callable[[Json], T], path: str, params: Params, timeout_s: float | None
    ) -> Listing[T]:
        items: list[T] = []
        version, token = "", ""
        longest = None if "limit" in params else sys.maxsize
        while True:
            query = {**params, "continue": token} if token else params
            answer = await self._call(json_object, "GET", path, query, timeout_s=timeout_s, longest=longest)
            metadata = answer.get("metadata") or {}
            version = version or str(metadata.get("resourceVersion") or "")
            if "items" not in answer or not version:
                # Not taken for an empty collection: to a consumer that would mean that everything is gone.
                raise Unavailable(0, "NotKubernetes", f"GET {path}: the answer is no list")
            for raw in answer["items"] or ():
                items.append(convert(raw))
                if len(items) % _BREATHER == 0:
                    await asyncio.sleep(0)
            token = str(metadata.get("continue") or "")
            if not token:
                return Listing(tuple(items), version)

    async def _call(
        self,
        read: Callable[[bytes], T],
        method: str,
        path: str,
        params: Params | None,
        body: object = None,
        content_type: str = _JSON,
        *,
        timeout_s: float | None,
        longest: int | None = None,
    ) -> T:
        """One request, whose answer is what `read` makes of it."""
        with self._counted(method), _as_api_errors(method, path):
            async with (
                self._deadline(timeout_s),
                await self._send(method, path, params, body, content_type, None) as response,
            ):
                await self._raise_for_status(response)
                whole = await _whole(response, longest or self._longest_answer)
            return read(whole)

    @contextmanager
    def _counted(self, verb: str) -> Iterator[None]:
        """Tells the recorder how a request ended, and when."""
        sent_at = time.monotonic()
        code = "Cancelled"
        try:
            yield
            code = "2xx"
        except ApiError as error:
            code = str(error.status) if error.status else error.reason
            raise
        finally:
            self.recorder.ended(verb, code, time.monotonic() - sent_at)

    def _deadline(self, timeout_s: float | None) -> asyncio.Timeout:
        return asyncio.timeout(self._timeout_s if timeout_s is None else timeout_s)

    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: object,
        content_type: str,
        read_timeout_s: float | None,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": _JSON, "User-Agent": names.PRODUCT, **await self._connection.headers()}
        if body is not None:
            headers["Content-Type"] = content_type
        query = f"?{urlencode(params)}" if params else ""
        return await self._connection.session.request(
            method,
            # Quoted already, names by `paths` and parameters above: yarl is not to touch it again.
            URL(self._connection.server + path + query, encoded=True),
            data=None if body is None else orjson.dumps(body),
            headers=headers,
            timeout=aiohttp.ClientTimeout(sock_read=read_timeout_s),
            allow_redirects=False,
            **self._connection.options,
        )

    async def _raise_for_status(self, response: aiohttp.ClientResponse) -> None:
        if response.ok and response.status < 300:
            return
        if response.status == _UNAUTHORIZED:
            self._connection.refused()
        async with self._deadline(None):
            body = await _whole(response, self._longest_answer)
        raise from_response(response.status, body, response.headers.get("Retry-After"))


async def _whole(response: aiohttp.ClientResponse, longest: int) -> bytes:
    """The body. Raises `AnswerTooLong` before it takes more memory than that many bytes."""
    pieces: list[bytes] = []
    length = 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        length += len(piece)
        if length > longest:
            _abort_unfinished(response)
            raise AnswerTooLong(0, "AnswerTooLong", f"{response.url.path}: no end within {longest} bytes")
    return b"".join(pieces)


def _abort_unfinished(response: aiohttp.ClientResponse) -> None:
    """Cuts the connection of a stream that is left early: a polite end of TLS waits for a server that keeps talking."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


@contextmanager
def _as_api_errors(method: str, path: str) -> Iterator[None]:
    """Turns everything that can go wrong on the way to an answer into `Unavailable`."""
    try:
        yield
    except TimeoutError as error:
        raise Unavailable(0, "Timeout", f"{method} {path}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unavailable(0, "NoConnection", f"{method} {path}: {str(error) or type(error).__name__}") from error
