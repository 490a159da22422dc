"""An API server in memory for tests: any kind of object, real HTTP, and faults on request.

It knows no schema, admission, finalizers, graceful deletion or field ownership. `tests/contract` holds it to
what the real server does.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import jsonpatch
from aiohttp import web

from tests.fakes.faults import Act, Fault
from tests.fakes.objects import Json, ObjectStore, Place, RefusalError
from tests.fakes.selectors import Selector


class FakeApiServer:
    """Serves `objects` on a free port of the loopback interface; `stop` and `start` keep port and objects.

    Two servers may share their objects, as those of a highly available cluster do.
    """

    def __init__(self, objects: ObjectStore | None = None, *, bookmark_s: float = 0.2) -> None:
        self.objects = objects or ObjectStore()
        self.token = "secret"
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self._bookmark_s = bookmark_s
        self._lists: dict[str, list[Json]] = {}
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def __aenter__(self) -> FakeApiServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens, on the same port as before if there was one."""
        app = web.Application(client_max_size=8 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Ends all connections and listens no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def kubeconfig(self, folder: Path) -> str:
        """The path of a kubeconfig file for this server, with the token in a file of its own beside it."""
        (folder / "token").write_text(self.token)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{self._port}"}}],
            "users": [{"name": "fake", "user": {"tokenFile": str(folder / "token")}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return str(path)

    def fail(
        self,
        act: Act,
        *,
        times: int = 1,
        method: str | None = None,
        path: str = "",
        watch: bool | None = None,
    ) -> None:
        """Plans `act` for the next `times` requests of this method, with `path` in the path, watch or not."""
        self.faults.append(Fault(act, times, method, path, watch))

    def expire_continue_tokens(self) -> None:
        """Makes the next page of every list under way end with 410."""
        self._lists.clear()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        for fault in self.faults:
            if fault.fits(request):
                fault.times -= 1
                return await fault.act(request, self._serve)
        return await self._serve(request)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            self._authenticate(request)
            place = place_of(request.path)
            selector = Selector(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
            if request.method == "GET" and request.query.get("watch") == "true":
                return await self._watch(request, place, selector)
            if request.method == "GET" and not place.name:
                return _answer(200, self._list(request, place, selector))
            return await self._single(request, place)
        except RefusalError as refusal:
            return _answer(refusal.code, refusal.status)

    def _authenticate(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise RefusalError(401, "Unauthorized", "Unauthorized")

    async def _single(self, request: web.Request, place: Place) -> web.Response:
        dry_run = request.query.get("dryRun") == "All"
        body = await request.json() if request.can_read_body else {}
        match request.method:
            case "GET":
                return _answer(200, self.objects.get(place))
            case "POST":
                return _answer(201, self.objects.create(place, body, dry_run=dry_run))
            case "PUT":
                return _answer(200, self.objects.update(place, lambda old: body, dry_run=dry_run))
            case "DELETE":
                self.objects.delete(place, body.get("preconditions") or {}, dry_run=dry_run)
                return _answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
            case "PATCH":
                return self._patch(place, request.content_type, body, dry_run=dry_run)
        raise RefusalError(405, "MethodNotAllowed", f"{request.method} is not supported")

    def _patch(self, place: Place, content_type: str, body: Any, *, dry_run: bool) -> web.Response:
        change: Callable[[Json], Json]
        match content_type:
            case "application/merge-patch+json":
                change = lambda old: merged(old, body)  # noqa: E731
            case "application/json-patch+json":
                change = lambda old: _json_patched(old, body)  # noqa: E731
            case "application/apply-patch+yaml":
                try:
                    self.objects.get(place)
                except RefusalError:
                    return _answer(201, self.objects.create(place, body, dry_run=dry_run))
                change = lambda old: merged(old, body)  # noqa: E731
            case _:
                raise RefusalError(415, "UnsupportedMediaType", f"the body of the request was in {content_type}")
        return _answer(200, self.objects.update(place, change, dry_run=dry_run))

    def _list(self, request: web.Request, place: Place, selector: Selector) -> Json:
        token = request.query.get("continue", "")
        if token:
            version, _, _ = token.partition(".")
            if token not in self._lists:
                raise RefusalError(410, "Expired", "The provided continue parameter is too old")
            items = self._lists.pop(token)
        else:
            version, items = str(self.objects.version), self.objects.select(place, selector)
        limit = int(request.query.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": version}
        if items[limit:]:
            metadata["continue"] = f"{version}.{len(items)}"
            self._lists[metadata["continue"]] = items[limit:]
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[:limit]}

    async def _watch(self, request: web.Request, place: Place, selector: Selector) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        version = int(request.query["resourceVersion"])
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", "300"))):
                while True:
                    version = await self._send_changes(response, place, selector, version)
                    try:
                        async with asyncio.timeout(self._bookmark_s):
                            await self.objects.wait_beyond(version)
                    except TimeoutError:
                        bookmark = {"metadata": {"resourceVersion": str(version)}}
                        if request.query.get("allowWatchBookmarks") == "true":
                            await _send(response, "BOOKMARK", bookmark)
        except TimeoutError:
            pass
        except RefusalError as refusal:
            await _send(response, "ERROR", refusal.status)
        return response

    async def _send_changes(self, response: web.StreamResponse, place: Place, selector: Selector, version: int) -> int:
        newest = self.objects.version
        for change in list(self.objects.changes_after(version, place)):
            was, is_now = selector.matches(change.before), selector.matches(change.after)
            if is_now and change.after is not None:
                await _send(response, "MODIFIED" if was else "ADDED", change.after)
            elif was and change.before is not None:
                gone = copy.deepcopy(change.before)
                gone["metadata"]["resourceVersion"] = str(change.version)
                await _send(response, "DELETED", gone)
        return newest


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


def _json_patched(old: Json, operations: Any) -> Json:
    try:
        patched: Json = jsonpatch.apply_patch(old, operations)
    except jsonpatch.JsonPatchException as error:
        raise RefusalError(
            422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
        ) from error
    return patched


def _answer(status: int, body: Json) -> web.Response:
    return web.json_response(body, status=status)


async def _send(response: web.StreamResponse, kind: str, raw: Json) -> None:
    await response.write(json.dumps({"type": kind, "object": raw}).encode() + b"\n")
