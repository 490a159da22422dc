"""An API server in memory for tests: any kind of object, real HTTP, and faults on request.

It knows no schema, admission, finalizers, graceful deletion or field ownership. `tests/contract` holds it to
what the real server does.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from aiohttp import web

from tests.fakes.api import Api, ApiRequest, place_of
from tests.fakes.faults import Act, Fault
from tests.fakes.objects import Json, ObjectStore, RefusalError

__all__ = ["FakeApiServer", "place_of"]


class FakeApiServer:
    """Serves `objects` on a free port of the loopback interface; `stop` and `start` keep port and objects.

    Two servers may share their objects, as those of a highly available cluster do.
    """

    def __init__(self, objects: ObjectStore | None = None, *, bookmark_s: float = 0.2) -> None:
        self.objects = objects or ObjectStore()
        self.token = "secret"
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self._api = Api(self.objects, bookmark_s=bookmark_s)
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def __aenter__(self) -> FakeApiServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """Where it listens once it was started."""
        return f"http://127.0.0.1:{self._port}"

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
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
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
        self._api.expire_continue_tokens()

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
            wish = ApiRequest(
                request.method,
                request.path,
                request.query,
                request.content_type,
                await request.json() if request.can_read_body else None,
            )
            if wish.watches:
                return await self._watch(request, wish)
            return _answer(*self._api.answer(wish))
        except RefusalError as refusal:
            return _answer(refusal.code, refusal.status)

    def _authenticate(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise RefusalError(401, "Unauthorized", "Unauthorized")

    async def _watch(self, request: web.Request, wish: ApiRequest) -> web.StreamResponse:
        place_of(wish.path)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        async for event in self._api.watch(wish):
            await response.write(json.dumps(event).encode() + b"\n")
        return response


def _answer(status: int, body: Json) -> web.Response:
    return web.json_response(body, status=status)
