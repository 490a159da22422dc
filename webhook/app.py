"""The HTTP side: two routes, limits, a deadline, and one place where every failure becomes an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from shared.core.refusal import Invalid
from shared.obs.connections import ARRIVED
from shared.obs.logs import Field, get_logger
from webhook.bodies import Bodies, Body, NoRoomError
from webhook.gate import Gate
from webhook.mutate import Mutator
from webhook.outcome import OVERLOADED, Admitted, Cause, Outcome, Refused, Unrecorded
from webhook.refusals import RefusalReports
from webhook.review import BadReviewError, Request, allow, deny, parse_review, unavailable
from webhook.review_recorder import ReviewRecorder
from webhook.validate import Validator

log = get_logger(__name__)

BODY_LIMIT: Final = 8 * 2**20
"""The API server sends bodies of up to 3 MiB for an object, and a review may hold two objects."""

BODIES_LIMIT: Final = 4 * BODY_LIMIT
"""Bytes of bodies at once. A usual review has 10 KiB; JSON that is made for it grows to 25 times its size in memory."""
SMALL_BODY: Final = 64 * 2**10
KEPT_FOR_SMALL: Final = BODY_LIMIT
"""What large bodies leave of that to small ones: a few large ones keep no usual review out, nor 700 of them."""
_BODY_S: Final = 5.0
"""How long a body may take to arrive. An API server has it whole before it connects."""

REVIEWS_LIMIT: Final = 700
"""Reviews of one kind that are under way at once, from all API servers together.

A roll-out of hundreds of pods is no overload. Together they take the event loop about 2 s with 5,000 nodes (2.8 ms of
CPU time each, measured by `make bench-scale`), of the 2.4 s that a review has: the last of more would be too late.
"""

_DEFAULT_TIMEOUT_S: Final = 10.0
_LONGEST_TIMEOUT_S: Final = 30.0
_PART_OF_TIMEOUT: Final = 0.8
"""An answer that comes when the API server has stopped waiting is worse than one that says no."""

_LONGEST_NAME: Final = 253

_Decide = Callable[[Request, float], Awaitable[Outcome]]


class Handlers:
    """Turns HTTP requests into reviews and their outcomes into answers. `closing` asks clients to connect anew.

    What `bodies`, `placing` and `checking` have no room for is told at once to come again.
    """

    def __init__(self, mutator: Mutator, validator: Validator, refusals: RefusalReports) -> None:
        self._mutator = mutator
        self._validator = validator
        self._refusals = refusals
        self.recorder = ReviewRecorder()
        self.closing = False
        self.bodies = Bodies(BODIES_LIMIT, small=SMALL_BODY, kept=KEPT_FOR_SMALL)
        self.placing = Gate(REVIEWS_LIMIT)
        self.checking = Gate(REVIEWS_LIMIT)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/mutate", self.mutate)
        app.router.add_post("/validate", self.validate)
        return app

    async def mutate(self, http: web.Request) -> web.Response:
        """POST /mutate."""
        return await self._answer(http, ReviewRecorder.MUTATE, self._mutator.review, self.placing)

    async def validate(self, http: web.Request) -> web.Response:
        """POST /validate."""

        async def decide(request: Request, _deadline: float) -> Outcome:
            return await self._validator.review(request)

        return await self._answer(http, ReviewRecorder.VALIDATE, decide, self.checking)

    async def _answer(self, http: web.Request, webhook: str, decide: _Decide, gate: Gate) -> web.Response:
        with self.recorder.under_way(webhook):
            response = await self._answer_review(http, webhook, decide, gate)
        if response.status >= 400:
            self.recorder.no_review(response.status)
        return response

    async def _answer_review(self, http: web.Request, webhook: str, decide: _Decide, gate: Gate) -> web.Response:
        # Its client has waited since then at least; under load that is long before the request comes here.
        arrived = http.get(ARRIVED, asyncio.get_running_loop().time())
        deadline = arrived + _PART_OF_TIMEOUT * _timeout_s(http)
        if http.content_type != "application/json":
            return self._respond(_bad(415, f"content type {http.content_type!r}: send application/json"))
        if "Content-Encoding" in http.headers:
            return self._respond(_bad(415, "the body is compressed: send it as it is"))
        if (http.content_length or 0) > BODY_LIMIT:
            return self._respond(_too_large())
        # Its room is taken until the answer: so long its pod is in memory.
        with self.bodies.body(http.content.set_exception) as body:
            try:
                request = parse_review(await _read(http, body, deadline))
            except web.HTTPRequestEntityTooLarge:
                return self._respond(_too_large())
            except NoRoomError:
                return self._respond(_bad(503, "too many bytes of requests at once; send it again"))
            except TimeoutError:
                return self._respond(_bad(408, "the body did not arrive in time"))
            except BadReviewError as error:
                return self._respond(_bad(400, str(error)))
            answer = await self._review(request, webhook, decide, gate, deadline)
        return self._respond(web.Response(body=answer, content_type="application/json"))

    async def _review(self, request: Request, webhook: str, decide: _Decide, gate: Gate, deadline: float) -> bytes:
        # Whether the namespace opted in the API server has decided. What the watch shows of its labels may be older.
        if not request.creates_a_pod:
            self.recorder.decided(webhook, Admitted())
            return allow(request.uid)
        with gate.room() as has_room:
            outcome = await _decided(request, decide, deadline) if has_room else OVERLOADED
        self.recorder.decided(webhook, outcome)
        _log_decision(request, outcome)
        match outcome:
            case Admitted(ops, warnings):
                return allow(request.uid, patch=ops, warnings=warnings)
            case Refused(refusal):
                if not request.dry_run:
                    self._refusals.report(request, refusal)
                return deny(request.uid, refusal)
            case unrecorded:
                return unavailable(request.uid, unrecorded.why, tried=unrecorded.tried)

    def _respond(self, response: web.Response) -> web.Response:
        if self.closing:
            response.force_close()
        return response


async def _read(http: web.Request, body: Body, deadline: float) -> bytearray:
    """The bytes of a body. Raises TimeoutError where its sender takes too long over it."""
    read, content = bytearray(), http.content
    async with asyncio.timeout_at(min(deadline, asyncio.get_running_loop().time() + _BODY_S)):
        while chunk := await content.readany():
            if len(read) + len(chunk) > BODY_LIMIT:
                raise web.HTTPRequestEntityTooLarge(BODY_LIMIT)
            body.grow(len(chunk))
            read += chunk
    body.arrived()
    return read


async def _decided(request: Request, decide: _Decide, deadline: float) -> Outcome:
    try:
        async with asyncio.timeout_at(deadline):
            return await decide(request, deadline)
    except TimeoutError:
        return Unrecorded("no time was left", cause=Cause.DEADLINE)


def _log_decision(request: Request, outcome: Outcome) -> None:
    """One line for a pod that is placed, refused or could not be recorded; none for one that asks for nothing."""
    about: dict[str, Field] = {
        "uid": request.uid,
        "namespace": request.namespace,
        "pod": _pod_name(request),
        "dry_run": bool(request.dry_run),
    }
    match outcome:
        case Admitted(reservation=str(reservation), node=node):
            log.info("pod placed", **about, reservation=reservation, node=node)
        case Admitted():
            pass
        case Refused(Invalid(field=field) as refusal):
            log.info("pod refused", **about, reason=str(refusal.reason), field=field)
        case Refused(refusal):
            log.info("pod refused", **about, reason=str(refusal.reason))
        case Unrecorded(why, detail):
            log.warning("placement unavailable", **about, why=why, detail=detail)


def _pod_name(request: Request) -> str:
    """The pod's name, or the beginning of it that the API server completes. Any JSON may stand in for the pod."""
    metadata = (request.pod or {}).get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name") or metadata.get("generateName")
    return name[:_LONGEST_NAME] if isinstance(name, str) else ""


def _timeout_s(http: web.Request) -> float:
    """The `timeout` that the API server puts into the URL, such as `3s`."""
    text = http.query.get("timeout", "").removesuffix("s")
    try:
        seconds = float(text)
    except ValueError:
        return _DEFAULT_TIMEOUT_S
    return min(seconds, _LONGEST_TIMEOUT_S) if seconds > 0 else _DEFAULT_TIMEOUT_S


def _too_large() -> web.Response:
    return _bad(413, f"the body is larger than {BODY_LIMIT} bytes")


def _bad(status: int, why: str) -> web.Response:
    """The answer to what is no review. Its connection ends: there may be a rest of a body on it that nobody reads."""
    log.warning("request refused", status=status, why=why)
    response = web.json_response({"error": why}, status=status)
    response.force_close()
    return response
