"""Errors of the API server come out as exceptions that a caller can tell apart."""

from __future__ import annotations

import orjson
import pytest

from shared.kube import errors


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        pytest.param(403, "Forbidden", errors.Forbidden, id="no-right"),
        pytest.param(404, "NotFound", errors.NotFound, id="no-such-object"),
        pytest.param(409, "Conflict", errors.Conflict, id="stale-resource-version"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="name-taken"),
        pytest.param(410, "Expired", errors.Gone, id="history-forgotten"),
        pytest.param(410, "Gone", errors.Gone, id="history-forgotten-old-word"),
        pytest.param(422, "Invalid", errors.Invalid, id="schema-broken"),
        pytest.param(429, "TooManyRequests", errors.Throttled, id="throttled"),
        pytest.param(500, "InternalError", errors.Unavailable, id="server-error"),
        pytest.param(504, "Timeout", errors.Unavailable, id="server-timeout"),
    ],
)
def test_each_refusal_has_its_exception(status: int, reason: str, expected: type[errors.ApiError]) -> None:
    body = orjson.dumps({"kind": "Status", "reason": reason, "message": "because", "code": status})
    error = errors.from_response(status, body)
    assert type(error) is expected
    assert (error.status, error.reason, error.message) == (status, reason, "because")
    assert str(error) == f"{status} {reason}: because"
    assert error.body["kind"] == "Status"


@pytest.mark.parametrize("status", [400, 401, 405, 415])
def test_a_refusal_without_an_exception_of_its_own_is_a_plain_api_error(status: int) -> None:
    assert type(errors.from_response(status, b"{}")) is errors.ApiError


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>\n <h1>502 Bad Gateway</h1></html>", id="html-of-a-proxy"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe\x00", id="not-even-text"),
        pytest.param(b"[1]", id="json-but-no-status"),
        pytest.param(b'{"code": "502", "message": {"a": 1}, "details": 7}', id="json-of-somebody-else"),
    ],
)
def test_a_bad_gateway_is_unavailable_whatever_its_body_holds(body: bytes) -> None:
    error = errors.from_response(502, body)
    assert isinstance(error, errors.Unavailable)
    assert error.status == 502
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        pytest.param("7", None, 7.0, id="header"),
        pytest.param(None, {"retryAfterSeconds": 3}, 3.0, id="details"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", {"retryAfterSeconds": 3}, 3.0, id="date-is-not-understood"),
        pytest.param(None, None, 1.0, id="nothing-said"),
    ],
)
def test_throttling_says_when_to_come_back(header: str | None, details: dict[str, int] | None, expected: float) -> None:
    error = errors.from_response(429, orjson.dumps({"reason": "TooManyRequests", "details": details}), header)
    assert isinstance(error, errors.Throttled)
    assert error.retry_after == expected
