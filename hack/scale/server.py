"""An API server of made-up objects, for a bench: lists in pages, watches, and writes with `resourceVersion`s.

Run as `python -m hack.scale.server PORT NODES PODS`. Objects are kept as the bytes that it sends, so that what is
measured is the client. It knows no schema, no deletion, and no selectors but for one name or one label.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections import deque
from collections.abc import Iterator
from typing import Final

import orjson
import uvloop
from aiohttp import web

from hack.scale.objects import Json, everything

HOST: Final = "127.0.0.1"
_BOOKMARK_S: Final = 20.0
_BOOKMARK: Final = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}\n'
_BODY_LIMIT: Final = 4 * 2**20
_HISTORY: Final = 50_000


class Collections:
    """All objects by collection and key, and those who watch them."""

    def __init__(self, objects: Iterator[tuple[str, Json]]) -> None:
        self.version = 1000
        self.writes: dict[str, int] = {}
        self.watchers: dict[str, set[asyncio.Event]] = {}
        self._history: dict[str, deque[tuple[int, bytes]]] = {}
        self._stored: dict[str, dict[tuple[str, str], bytes]] = {}
        for path, raw in objects:
            self.create(path, raw)
        self.writes.clear()
        self._history.clear()

    def list(self, path: str, query: dict[str, str]) -> bytes:
        """One page. The token of the next is the number of its first object."""
        collection, namespace, _, _ = parse(path)
        stored = self._stored.get(collection, {})
        name = query.get("fieldSelector", "").removeprefix("metadata.name=")
        label = query.get("labelSelector", "").encode().replace(b"=", b'":"')
        items = [
            raw
            for key, raw in stored.items()
            if (not namespace or key[0] == namespace) and name in {"", key[1]} and label in raw
        ]
        first = int(query.get("continue") or 0)
        end = first + int(query.get("limit") or len(items) or 1)
        token = b',"continue":"%d"' % end if end < len(items) else b""
        head = b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d"%s},"items":[' % (
            self.version,
            token,
        )
        return head + b",".join(items[first:end]) + b"]}"

    def get(self, path: str) -> bytes | None:
        """The object at `path`."""
        collection, namespace, name, _ = parse(path)
        return self._stored.get(collection, {}).get((namespace, name))

    def create(self, path: str, raw: Json) -> bytes | None:
        """The new object as stored; None if there is one of its name."""
        collection, namespace, _, _ = parse(path)
        name = raw["metadata"]["name"]
        if (namespace, name) in self._stored.get(collection, {}):
            return None
        metadata = {"uid": f"uid-{namespace}-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **raw["metadata"]}
        if namespace:
            metadata["namespace"] = namespace
        return self._put(collection, namespace, name, {**raw, "metadata": metadata}, b"ADDED")

    def merge(self, path: str, patch: Json, *, replaces: bool = False) -> bytes | None:
        """The object after a merge patch, or after a PUT if it `replaces`; None on a conflict."""
        collection, namespace, name, _ = parse(path)
        old = orjson.loads(self._stored[collection][namespace, name])
        wanted = (patch.get("metadata") or {}).get("resourceVersion")
        if wanted not in {None, old["metadata"]["resourceVersion"]}:
            return None
        new = patch if replaces else merged(old, patch)
        return self._put(collection, namespace, name, new, b"MODIFIED")

    def _put(self, collection: str, namespace: str, name: str, raw: Json, event: bytes) -> bytes:
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        body = orjson.dumps(raw)
        self._stored.setdefault(collection, {})[namespace, name] = body
        self.writes[collection] = self.writes.get(collection, 0) + 1
        history = self._history.setdefault(collection, deque(maxlen=_HISTORY))
        history.append((self.version, b'{"type":"%s","object":%s}\n' % (event, body)))
        for changed in self.watchers.get(collection, ()):
            changed.set()
        return body

    def after(self, collection: str, version: int) -> bytes:
        """The lines that a watch sends from `version` on."""
        newest = itertools.takewhile(lambda entry: entry[0] > version, reversed(self._history.get(collection, ())))
        return b"".join(reversed([line for _, line in newest]))


def parse(path: str) -> tuple[str, str, str, str]:
    """Collection over all namespaces, namespace, name and subresource of a URL path."""
    parts = path.strip("/").split("/")
    length = 2 if parts[0] == "api" else 3
    prefix, rest = parts[:length], parts[length:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    collection, name, subresource, *_ = [*rest, "", ""]
    return "/" + "/".join([*prefix, collection]), namespace, name, subresource


def merged(old: Json, patch: Json) -> Json:
    """JSON merge patch (RFC 7386)."""
    result = dict(old)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result[key] if isinstance(result.get(key), dict) else {}, value)
        else:
            result[key] = value
    return result


def application(collections: Collections) -> web.Application:
    """The HTTP side."""

    async def handle(request: web.Request) -> web.StreamResponse:
        path, query = request.path, dict(request.query)
        if path == "/writes":
            return _json(orjson.dumps(collections.writes))
        name = parse(path)[2]
        if query.get("watch") == "true":
            return await watch(request, path, float(query.get("timeoutSeconds", "60")))
        if request.method == "GET" and not name:
            return _json(collections.list(path, query))
        if request.method == "POST":
            created = collections.create(path, orjson.loads(await request.read()))
            return _failure(409, "AlreadyExists") if created is None else _json(created, 201)
        found = collections.get(path)
        if found is None:
            return _failure(404, "NotFound")
        if request.method == "GET":
            return _json(found)
        changed = collections.merge(path, orjson.loads(await request.read()), replaces=request.method == "PUT")
        return _failure(409, "Conflict") if changed is None else _json(changed)

    async def watch(request: web.Request, path: str, lasts_s: float) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        collection, version = parse(path)[0], int(request.query["resourceVersion"])
        changed = asyncio.Event()
        watchers = collections.watchers.setdefault(collection, set())
        watchers.add(changed)
        loop = asyncio.get_running_loop()
        end = loop.time() + lasts_s
        try:
            await response.prepare(request)
            while (left_s := end - loop.time()) > 0:
                changed.clear()
                lines, version = collections.after(collection, version), collections.version
                await response.write(lines or _BOOKMARK % version)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left_s, _BOOKMARK_S)):
                        await changed.wait()
        finally:
            watchers.discard(changed)
        return response

    app = web.Application(client_max_size=_BODY_LIMIT)
    app.router.add_route("*", "/{path:.*}", handle)
    return app


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _failure(code: int, reason: str) -> web.Response:
    return _json(orjson.dumps({"kind": "Status", "status": "Failure", "code": code, "reason": reason}), code)


async def serve(port: int, nodes: int, pods: int) -> None:
    """Serves until cancelled."""
    runner = web.AppRunner(
        application(Collections(everything(nodes, pods))), access_log=None, handler_cancellation=True
    )
    await runner.setup()
    await web.TCPSite(runner, HOST, port, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(*itertools.islice(map(int, sys.argv[1:]), 3)))
