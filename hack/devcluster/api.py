"""Raw JSON requests to the API server, several at once, over kept connections."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import ssl
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

Json = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R")

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_CONCURRENCY = 16
_TIMEOUT_S = 30.0


class ApiError(Exception):
    """The API server answered with an error; `status` is the HTTP code, `reason` and `details` Kubernetes' own."""

    def __init__(self, request: str, status: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the HTTP code, the body, and the `Warning` headers as they were sent."""

    status: int
    body: bytes
    warning_headers: tuple[str, ...]


class Api:
    """A client for one API server and one token. Safe in several threads; `close` ends its connections."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        address = urlsplit(url)
        self._host, self._port = str(address.hostname), int(address.port or 443)
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._idle: queue.LifoQueue[http.client.HTTPSConnection] = queue.LifoQueue()

    def get(self, path: str) -> Json:
        """Read an object or a list."""
        return self.request("GET", path)

    def exists(self, path: str) -> bool:
        """Whether there is such an object."""
        try:
            self.get(path)
        except ApiError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def create(self, path: str, body: Json) -> Json:
        """POST an object to a collection (or a subresource)."""
        return self.request("POST", path, body)

    def apply(self, path: str, body: Json, *, manager: str) -> Json:
        """Server-side apply under a field manager, taking fields over from others by force."""
        return self.request("PATCH", f"{path}?fieldManager={manager}&force=true", body, content_type=APPLY)

    def merge(self, path: str, body: Json) -> Json:
        """JSON merge patch."""
        return self.request("PATCH", path, body, content_type=MERGE)

    def delete(self, path: str) -> Json:
        """Delete an object."""
        return self.request("DELETE", path)

    def request(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = "application/json"
    ) -> Json:
        """One request; ApiError for an answer that is not 2xx, OSError when there is no answer."""
        reply = self.send(method, path, body, content_type=content_type)
        if reply.status >= http.HTTPStatus.MULTIPLE_CHOICES:
            raise _error(f"{method} {path}", reply.status, reply.body)
        parsed: Json = json.loads(reply.body)
        return parsed

    def send(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = "application/json"
    ) -> Reply:
        """One request and whatever it is answered with; OSError when there is no answer."""
        headers = {**self._headers, "Content-Type": content_type}
        text = None if body is None else json.dumps(body)
        try:
            return self._exchange(method, path, text, headers)
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: no answer: {error!r}") from error

    def _exchange(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Reply:
        """Send and read. A kept connection that the server has closed meanwhile is replaced by a new one."""
        while True:
            connection, kept = self._connection()
            try:
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                answer = response.read()
            except BaseException as error:
                connection.close()
                if kept and isinstance(error, (ConnectionError, ssl.SSLEOFError)):
                    continue
                raise
            self._idle.put(connection)
            return Reply(response.status, answer, tuple(response.headers.get_all("Warning") or ()))

    def is_ready(self) -> bool:
        """Whether the API server says it is ready. OSError when it does not answer at all."""
        connection = self._new_connection()
        try:
            connection.request("GET", "/readyz", headers=self._headers)
            return connection.getresponse().status == http.HTTPStatus.OK
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def each(self, action: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Do `action` for every item, several at once; results in order. Raises the first exception."""
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            return list(pool.map(action, items))

    def close(self) -> None:
        """End the kept connections. A request after this makes new ones."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def _connection(self) -> tuple[http.client.HTTPSConnection, bool]:
        """A connection, and whether it was used before."""
        try:
            return self._idle.get_nowait(), True
        except queue.Empty:
            return self._new_connection(), False

    def _new_connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, context=self._tls, timeout=_TIMEOUT_S)


def _error(request: str, status: int, text: bytes) -> ApiError:
    try:
        body = json.loads(text)
        reason, message = str(body.get("reason", "")), str(body.get("message", ""))
        return ApiError(request, status, reason, message, body.get("details"))
    except ValueError:
        return ApiError(request, status, "", text.decode(errors="replace")[:500])
