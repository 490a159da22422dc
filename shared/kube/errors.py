"""What can go wrong with a request to the API server, as exceptions a caller can tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

_SHOWN_TEXT = 200


class ApiError(Exception):
    """A request that the API server refused, or that got no usable answer.

    `status` is the HTTP status, 0 when there was no answer. `reason` is Kubernetes' word for it, such as
    `Conflict`, and `body` the `Status` object that came with it.
    """

    def __init__(self, status: int, reason: str, message: str, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.body: Mapping[str, Any] = body or {}


class Forbidden(ApiError):
    """403: the account lacks the right, or admission refused the object."""


class NotFound(ApiError):
    """404: no such object, or no such kind on this cluster."""


class Conflict(ApiError):
    """409: the object has moved on since the `resourceVersion` that the write was based on."""


class AlreadyExists(ApiError):
    """409: an object of this name exists."""


class Gone(ApiError):
    """410: the `resourceVersion` or continue token is older than what the server remembers. List again."""


class Invalid(ApiError):
    """422: the object breaks its schema or a validation rule."""


class Throttled(ApiError):
    """429: come back after `retry_after` seconds."""

    retry_after: float = 1.0


class Unavailable(ApiError):
    """5xx, no connection, no answer in time, or an answer that is not Kubernetes'.

    A write that ends so may or may not have happened. A transport error is chained as the cause.
    """


class AnswerTooLong(Unavailable):
    """An answer that would take more memory than there is for one."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}


def from_response(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error for a response that is not a success. `retry_after` is that header, if it was sent."""
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        decoded = None
    if not isinstance(decoded, dict):
        text = " ".join(body.decode(errors="replace").split())[:_SHOWN_TEXT]
        decoded = {"reason": "NotKubernetes", "message": text or "empty answer"}
    error = from_status({**decoded, "code": status})
    if isinstance(error, Throttled) and retry_after is not None and retry_after.isdecimal():
        error.retry_after = float(retry_after)
    return error


def from_status(status: Mapping[str, Any]) -> ApiError:
    """The error for a Kubernetes `Status` object, such as a watch sends as its last event."""
    code = status.get("code")
    code = code if isinstance(code, int) else 500
    reason = str(status.get("reason") or "Unknown")
    kind = Unavailable if code >= 500 else _BY_STATUS.get(code, ApiError)
    if code == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    error = kind(code, reason, str(status.get("message") or "no message"), status)
    details = status.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    if isinstance(error, Throttled) and isinstance(seconds, int):
        error.retry_after = float(seconds)
    return error
