"""What the fake API server answers, whatever the requests travel on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from tests.fakes.objects import Change, Json, ObjectStore, Place, RefusalError, copied
from tests.fakes.selectors import Selector

_SHORTEST_WAIT_S = 0.001
"""Timers may fire a moment early; a clock that moves only while nothing is due would never pass what is left then."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `path` is without the query."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    body: Any = None

    @property
    def watches(self) -> bool:
        """Whether the answer is a stream of changes."""
        return self.method == "GET" and self.query.get("watch") == "true"


class Api:
    """Carries out requests on `objects`."""

    def __init__(self, objects: ObjectStore, *, bookmark_s: float = 0.2) -> None:
        self.objects = objects
        self._bookmark_s = bookmark_s
        self._lists: dict[str, list[Json]] = {}

    def expire_continue_tokens(self) -> None:
        """Makes the next page of every list under way end with 410."""
        self._lists.clear()

    def answer(self, request: ApiRequest) -> tuple[int, Json]:
        """The status and body for any request but a watch. Raises `RefusalError`."""
        place = place_of(request.path)
        if request.method == "GET" and not place.name:
            return 200, self._list(request.query, place)
        dry_run = request.query.get("dryRun") == "All"
        body = request.body if request.body is not None else {}
        match request.method:
            case "GET":
                return 200, self.objects.get(place)
            case "POST":
                return 201, self.objects.create(place, body, dry_run=dry_run)
            case "PUT":
                return 200, self.objects.update(place, lambda old: body, dry_run=dry_run)
            case "DELETE":
                self.objects.delete(place, body.get("preconditions") or {}, dry_run=dry_run)
                return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            case "PATCH":
                return self._patch(place, request.content_type, body, dry_run=dry_run)
        raise RefusalError(405, "MethodNotAllowed", f"{request.method} is not supported")

    async def watch(self, request: ApiRequest) -> AsyncIterator[Json]:
        """The events of a watch until its time is over."""
        place, selector = place_of(request.path), _selector(request.query)
        loop = asyncio.get_running_loop()
        end = loop.time() + float(request.query.get("timeoutSeconds", "300"))
        version = int(request.query["resourceVersion"])
        bookmarks, is_quiet = request.query.get("allowWatchBookmarks") == "true", False
        try:
            while True:
                newest = self.objects.version
                for change in self.objects.changes_after(version, place):
                    event = _event(change, selector)
                    if event is not None:
                        yield event
                version = newest
                if is_quiet and bookmarks:
                    yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}
                left_s = end - loop.time()
                if left_s < _SHORTEST_WAIT_S:
                    return
                try:
                    async with asyncio.timeout(min(self._bookmark_s, left_s)):
                        await self.objects.wait_beyond(version, place)
                    is_quiet = False
                except TimeoutError:
                    is_quiet = True
        except RefusalError as refusal:
            yield {"type": "ERROR", "object": refusal.status}

    def _patch(self, place: Place, content_type: str, body: Any, *, dry_run: bool) -> tuple[int, Json]:
        change: Callable[[Json], Json]
        match content_type:
            case "application/merge-patch+json":
                change = lambda old: merged(old, body)  # noqa: E731
            case "application/apply-patch+yaml":
                try:
                    self.objects.get(place)
                except RefusalError:
                    return 201, self.objects.create(place, body, dry_run=dry_run)
                change = lambda old: merged(old, body)  # noqa: E731
            case _:
                raise RefusalError(415, "UnsupportedMediaType", f"the body of the request was in {content_type}")
        return 200, self.objects.update(place, change, dry_run=dry_run)

    def _list(self, query: Mapping[str, str], place: Place) -> Json:
        token = query.get("continue", "")
        if token:
            version, _, _ = token.partition(".")
            if token not in self._lists:
                raise RefusalError(410, "Expired", "The provided continue parameter is too old")
            items = self._lists.pop(token)
        else:
            version, items = str(self.objects.version), self.objects.select(place, _selector(query))
        limit = int(query.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": version}
        if items[limit:]:
            metadata["continue"] = f"{version}.{len(items)}"
            self._lists[metadata["continue"]] = items[limit:]
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[:limit]}


def place_of(path: str) -> Place:
    """What a URL path of the Kubernetes API points at; 404 if it has not that form."""
    parts = path.strip("/").split("/")
    prefix_length = 2 if parts[0] == "api" else 3
    prefix, rest = "/".join(parts[:prefix_length]), parts[prefix_length:]
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3 or parts[0] not in {"api", "apis"}:
        raise RefusalError(404, "NotFound", "the server could not find the requested resource")
    return Place(prefix, rest[0], namespace, *rest[1:])


def merged(old: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def json_patched(old: Json, operations: Any) -> Json:
    """JSON Patch (RFC 6902); 422 where it cannot be applied."""
    try:
        patched: Json = jsonpatch.apply_patch(old, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise RefusalError(
            422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
        ) from error
    return patched


def _selector(query: Mapping[str, str]) -> Selector:
    return Selector(query.get("labelSelector", ""), query.get("fieldSelector", ""))


def _event(change: Change, selector: Selector) -> Json | None:
    """What a watch tells of a change; None if it is about objects that the watch does not select."""
    if change.event is not None:
        return {"type": change.event, "object": change.after}
    was, is_now = selector.matches(change.before), selector.matches(change.after)
    if is_now and change.after is not None:
        return {"type": "MODIFIED" if was else "ADDED", "object": change.after}
    if was and change.before is not None:
        gone = copied(change.before)
        gone["metadata"]["resourceVersion"] = str(change.version)
        return {"type": "DELETED", "object": gone}
    return None
