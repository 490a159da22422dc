"""A cluster in memory in which a process of the product dies at a crash point, and is started again as a kubelet does.

Both programs run as their `__main__` wires them, in one event loop with a clock that jumps. A process that dies stops
where it is: none of its code goes on, no clean-up runs, and the API server hears nothing of it any more. Whoever called
it learns that the connection broke.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from math import inf
from typing import Any, Final, cast

import orjson
from aiohttp import web

from controller.__main__ import run_controller
from shared.api import names
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.obs.connections import Connections, _Connection
from shared.settings import controller_settings, webhook_settings
from tests.builders import PodBuilder, a_node
from tests.chaos.crash_points import CrashAt, Side
from tests.e2e.invariants import Finding, compare, over_budget
from tests.fakes.api import Api, ApiRequest, json_patched, merged, place_of
from tests.fakes.inprocess import InProcessSession, Network, in_process_client
from tests.fakes.objects import Json, ObjectStore, Place
from tests.fakes.pod_rules import with_defaults
from tests.fuzz.api import is_on, requested_of
from tests.fuzz.clusters import shares_of
from tests.fuzz.reviews import a_review
from tests.fuzz.world import Post
from tests.unit.admission import gpu_node, store
from webhook.__main__ import run_webhook
from webhook.app import Handlers
from webhook.serving import ServingCertificate

NAMESPACE: Final = "models"
CONVERGED_S: Final = 60.0
"""In this time after a crash everything is as if there had been none."""

_SYSTEM: Final = "placement-system"
_TRAVEL_S: Final = 0.002
_RESTART_S: Final = 1.0
_MOST_TRIES: Final = 60
_LOOK_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 10.0
_ENVIRONMENT: Final = {
    "PLACEMENT_NAMESPACE": _SYSTEM,
    "PLACEMENT_HEALTH_HOST": "127.0.0.1",
    "PLACEMENT_PREEMPTION": "enabled",
    "PLACEMENT_READ_LOGS": "true",
    "PLACEMENT_STUCK_AFTER_SECONDS": "10",
}
_OVER: Final = frozenset({"Succeeded", "Failed"})
_CONFIGURATIONS: Final = {
    "mutatingwebhookconfigurations": "zz-placement-operator",
    "validatingwebhookconfigurations": "placement-operator",
}

Disturbance = Callable[[ApiRequest], None]
"""Sees a request as it arrives, and may change what is stored before it is carried out, or raise `RefusalError`."""


class Answer(StrEnum):
    """What came of a create."""

    PLACED = "placed"
    REFUSED = "refused"
    FAILED = "failed"
    """Nobody answered, nothing could be recorded, or somebody else refused it: to be tried again."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Which process dies, and where."""

    process: str
    at: CrashAt


@dataclass(frozen=True, slots=True)
class _Server:
    """What serves reviews in a webhook, but for the socket."""

    handlers: Handlers
    connections: Connections

    async def answer(self, path: str, post: Post, *, connected: bool = True) -> web.StreamResponse:
        """The answer to a request on a connection of its own, which is not known any more unless it is `connected`."""
        connection = _Connection(self.connections, cast(web.RequestHandler, object()))
        if connected:
            self.connections.joined(connection)
        route = self.handlers.mutate if path == "/mutate" else self.handlers.validate
        try:
            request = _OnConnection(post.body, post.query, protocol=connection.handler)
            return await self.connections._watch(cast(web.Request, request), route)
        finally:
            self.connections.left(connection)


@dataclass(frozen=True, slots=True)
class _OnConnection(Post):
    """An HTTP request with the connection that it came on."""

    protocol: object = None

    def __setitem__(self, _key: object, _value: object) -> None:
        """What the connection knows of it is dropped."""


@dataclass(eq=False, slots=True)
class Process:
    """One running program. `crash` is where it dies, if it does; `reached` counts the points that it came to."""

    name: str
    crash: CrashAt | None = None
    crashed: bool = False
    reached: Counter[tuple[str, Side]] = field(default_factory=Counter)
    dead: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    server: asyncio.Future[_Server] = field(default_factory=asyncio.Future)
    _session: InProcessSession | None = None
    _task: asyncio.Task[None] | None = None
    _still: list[asyncio.Future[None]] = field(default_factory=list)
    _buried: bool = False

    def start(self, network: Network, work: Callable[[KubeClient], Awaitable[None]]) -> None:
        """Runs `work` with a connection of its own."""
        client, self._session = in_process_client(network)

        async def run() -> None:
            async with client:
                await work(client)
            if self.stop.is_set():
                self.dead.set()

        self._task = self.spawn(run())

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """A task that is part of this process."""
        context = copy_context()
        context.run(_RUNNING.set, self)
        return asyncio.create_task(work, context=context)

    async def reaches(self, point: str, side: Side) -> None:
        """Counts, and does not return where the process dies or is dead."""
        if self._buried:
            return
        self.reached[point, side] += 1
        if self.crash is not None and (point, side, self.reached[point, side]) == (
            self.crash.point, self.crash.side, self.crash.count,
        ):  # fmt: skip
            self.crashed = True
            self._die()
        if self.dead.is_set():
            self._still.append(asyncio.get_running_loop().create_future())
            await self._still[-1]

    def _die(self) -> None:
        assert self._session is not None
        self._session.cut()
        self.dead.set()

    def check(self) -> None:
        """Raises what the program ended with, if it ended by itself."""
        assert self._task is not None
        if self._task.done() and not self.dead.is_set():
            self._task.result()
            raise RuntimeError(f"{self.name} ended by itself")

    async def bury(self) -> None:
        """Takes the process out of memory; nothing of it reaches the API server."""
        assert self._task is not None
        self._die()
        self._buried = True
        for still in self._still:
            still.cancel()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


_RUNNING: ContextVar[Process | None] = ContextVar("running", default=None)


async def reached(point: str, side: Side) -> None:
    """The listener for `crash_points.instrument`: hands on to the process whose task comes to a point."""
    process = _RUNNING.get()
    if process is not None:
        await process.reaches(point, side)


class _JudgedStore(ObjectStore):
    """Adds up after each write of a `GPUNode` what is promised of its cards. Reads raw JSON only."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: list[str] = []

    def _write(self, key: tuple[str, str, str, str], before: Json | None, after: Json | None) -> Json:
        written = super()._write(key, before, after)
        if written.get("kind") == names.GPU_NODE and after is not None:
            self.broken += self._overbooked(written)
        return written

    def _overbooked(self, raw: Json) -> Iterator[str]:
        status, node = raw.get("status") or {}, raw["metadata"]["name"]
        entries = {key: text for key, text in (status.get("reservations") or {}).items() if text.count(";") >= 2}
        live = (pod for pod in self.everything(place_of(paths.pods())) if pod["status"]["phase"] not in _OVER)
        pods = [pod for pod in live if is_on(pod, node)]
        alone = [pod for pod in pods if _reservation(pod) not in entries]
        bound = {_reservation(pod) for pod in pods if pod["spec"].get("nodeName")}
        # One for which others have to leave first may stand above the budget until its pod is bound.
        counted = [text for key, text in entries.items() if not text.endswith(";preempting") or key in bound]
        for card in status.get("cards") or ():
            slot = card["index"]
            used = sum(gb for text in counted for each, gb in shares_of(text) if each == slot)
            used += sum(requested_of(pod, slot) for pod in alone)
            if used > card["budgetGB"]:
                yield f"{used} GB of the {card['budgetGB']} GB of card {slot} of {node} are promised: {entries}"
        allocatable = {
            each["metadata"]["name"]: each["status"].get("allocatable") or {}
            for each in self.everything(place_of(paths.nodes()))
        }
        yield from map(str, over_budget(raw, allocatable.get(node)))


class _Door(Api):
    """The API server as one process sees it."""

    def __init__(self, objects: ObjectStore, logs: Mapping[str, str]) -> None:
        super().__init__(objects, bookmark_s=CONVERGED_S)
        self._logs = logs
        self.disturbances: list[Disturbance] = []
        self.watches = asyncio.Event()
        self.watches.set()

    async def watch(self, request: ApiRequest) -> AsyncIterator[Json]:
        async for event in super().watch(request):
            await self.watches.wait()
            yield event

    def answer(self, request: ApiRequest) -> tuple[int, Any]:
        for disturb in tuple(self.disturbances):
            disturb(request)
        place = place_of(request.path)
        if place.subresource == "log":
            return 200, self._logs[_named(self.objects.get(place))]
        return super().answer(request)


class Stage:
    """The cluster, its clients, and the product: webhooks `webhook-a` and `webhook-b`, and `controller-a`.

    `crash` happens after `arm`, which says where the part of a scene begins that matters.
    """

    def __init__(self, crash: Crash | None = None) -> None:
        self._crash = crash
        self._armed = False
        self.objects = _JudgedStore()
        self.logs: dict[str, str] = {}
        """What containers have written, by the names of their pods."""
        self.reached: dict[str, Counter[tuple[str, Side]]] = {}
        self.crashed = False
        self._doors: dict[str, _Door] = {}
        self._networks: dict[str, Network] = {}
        self._processes: dict[str, Process] = {}
        self._background: list[asyncio.Task[None]] = []
        for name in (NAMESPACE, _SYSTEM):
            labels = {names.NAMESPACE_LABEL: names.MODE_ENABLED} if name == NAMESPACE else {}
            self.put("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        for plural, name in _CONFIGURATIONS.items():
            webhook = {"name": f"{name}.kamiwaza.ai", "clientConfig": {}}
            raw = {"metadata": {"name": name}, "webhooks": [webhook]}
            self.put(f"/apis/admissionregistration.k8s.io/v1/{plural}", raw)

    # What there is.

    def put(self, collection: str, raw: Json) -> Json:
        """Stores an object in the collection at a path."""
        return store(self.objects, collection, raw)

    def get(self, path: str) -> Json | None:
        """The object at a path, or None."""
        place = place_of(path)
        found = [each for each in self.objects.everything(_collection(place)) if _named(each) == place.name]
        return found[0] if found else None

    def all(self, path: str) -> list[Json]:
        """Every object of the collection at a path."""
        return self.objects.everything(place_of(path))

    def abandon(self, path: str) -> None:
        """Removes the object at a path; what it owns stays, as until a garbage collector comes."""
        self.objects.delete(place_of(path), {})

    def change(self, path: str, patch: Json) -> None:
        """Merges a patch into the object at a path."""
        self.objects.update(place_of(path), lambda old: merged(old, patch))

    def delete(self, path: str) -> None:
        """Removes the object at a path, and what it owns."""
        place = place_of(path)
        uid = self.objects.get(place)["metadata"]["uid"]
        self.objects.delete(place, {})
        for raw in self.objects.owned_by(uid):
            plural = "modelplacements" if raw["kind"] == names.MODEL_PLACEMENT else f"{raw['kind'].lower()}s"
            version = "api/v1" if raw["kind"] == "Pod" else f"apis/{raw['apiVersion']}"
            self.delete(f"/{version}/namespaces/{NAMESPACE}/{plural}/{_named(raw)}")

    def node(self, name: str, *gbs: int) -> None:
        """A node with an agent, and cards of `gbs` GB."""
        raw = a_node(name).raw()
        amounts = {names.card_resource(index): str(gb) for index, gb in enumerate(gbs)}
        for kind in ("capacity", "allocatable"):
            raw["status"][kind] = {**raw["status"][kind], **amounts}
        self.put(paths.nodes(), raw)
        self.put(paths.gpu_nodes(), gpu_node(name, *gbs))

    def owner(self, kind: str, name: str, above: Json | None = None, api: str = "apps/v1", **spec: Any) -> Json:
        """Stores an object that owns pods; returns the reference to it."""
        metadata: Json = {"name": name, **({"ownerReferences": [above]} if above else {})}
        raw = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}
        stored = self.put(f"/apis/{api}/namespaces/{NAMESPACE}/{kind.lower()}s", raw)
        return {"apiVersion": api, "kind": kind, "name": name, "uid": stored["metadata"]["uid"], "controller": True}

    def pod(self, name: str) -> Json | None:
        """A stored pod."""
        return self.get(paths.pods(NAMESPACE) + f"/{name}")

    def report(self, name: str, **status: Any) -> None:
        """The kubelet or the scheduler tells of a pod."""
        self.change(paths.pods(NAMESPACE) + f"/{name}/status", {"status": status})

    def bind(self, name: str) -> None:
        """The scheduler binds a pod to the node that it is pinned to, and it runs there."""
        path = f"{paths.pods(NAMESPACE)}/{name}"
        raw = self.objects.get(place_of(path))
        node = next(each for each in map(_named, self.all(paths.nodes())) if is_on(raw, each))
        self.change(path, {"spec": {"nodeName": node}})
        self.report(name, phase="Running")

    def reservations(self, node: str) -> dict[str, str]:
        """The ledger of a node."""
        raw = self.get(paths.gpu_nodes(node)) or {}
        return dict((raw.get("status") or {}).get("reservations") or {})

    # The product.

    async def start(self) -> None:
        """Starts everything and waits until both webhooks serve."""
        for name in ("controller-a", "webhook-a", "webhook-b"):
            self.start_process(name)
        for name in ("webhook-a", "webhook-b"):
            await self.until(partial(self._serves, name))
        await asyncio.sleep(_RESTART_S)

    def arm(self) -> None:
        """From here on the crash may come, and it counts which points are reached."""
        self._armed = True
        for process in self._processes.values():
            self._arm(process)

    def disturb(self, process: str, disturbance: Disturbance) -> None:
        """Has all requests of a process, also of its successor, seen by `disturbance` as they arrive."""
        self._door(process).disturbances.append(disturbance)

    def stop(self, process: str) -> None:
        """Asks a program to end, as a SIGTERM does; it is started again."""
        self._processes[process].stop.set()

    def lag(self, process: str, *, behind: bool = True) -> None:
        """Has the watches of a process tell nothing, until it is no longer `behind`."""
        watches = self._door(process).watches
        watches.clear() if behind else watches.set()

    def expire_continue_tokens(self, process: str) -> None:
        """Ends the lists that a process has under way."""
        self._door(process).expire_continue_tokens()

    def slow(self, process: str, travel_s: float = _TRAVEL_S) -> None:
        """How long the requests of a process take from now on."""
        self._network(process).delay_s = travel_s

    def start_process(self, name: str) -> None:
        """Starts a program, and starts it again a moment after it dies."""
        self._background.append(asyncio.create_task(self._kubelet(name)))

    async def _kubelet(self, name: str) -> None:
        network = self._network(name)
        while True:
            process = self._processes[name] = Process(name)
            if self._armed:
                self._arm(process)
            process.start(network, self._program(process))
            await process.dead.wait()
            await process.bury()
            if process.crashed:
                self.crashed, self._crash = True, None
            await asyncio.sleep(_RESTART_S)

    def _arm(self, process: Process) -> None:
        process.reached = self.reached.setdefault(process.name, Counter())
        if self._crash is not None and self._crash.process == process.name:
            process.crash = self._crash.at

    def _program(self, process: Process) -> Callable[[KubeClient], Awaitable[None]]:
        if process.name.startswith("controller"):
            control = controller_settings({**_ENVIRONMENT, "PLACEMENT_IDENTITY": process.name})
            control = replace(control, common=replace(control.common, health_port=0))
            return lambda client: run_controller(control, client, process.stop)
        settings = webhook_settings(_ENVIRONMENT)
        settings = replace(settings, common=replace(settings.common, health_port=0))

        async def serve(
            handlers: Handlers, connections: Connections, _certificate: ServingCertificate, stop: asyncio.Event
        ) -> None:
            process.server.set_result(_Server(handlers, connections))
            await stop.wait()

        return lambda client: run_webhook(settings, client, serve, process.stop)

    def _door(self, process: str) -> _Door:
        return self._doors.setdefault(process, _Door(self.objects, self.logs))

    def _network(self, process: str) -> Network:
        return self._networks.setdefault(process, Network(self._door(process), _TRAVEL_S))

    # Its clients.

    async def create(
        self,
        pod: PodBuilder,
        name: str,
        *,
        via: str = "webhook-a",
        validated_via: str | None = None,
        reviewed_again: bool = False,
        refused_later: bool = False,
        unheard: bool = False,
        dry_run: bool = False,
        bound: bool = True,
    ) -> Answer:
        """Sends a pod through admission once, stores it under `name` and runs it on its node.

        `via` is the webhook that is called, or the other one while that is down; `validated_via` is called for the
        second review and for the final one. `refused_later` means that somebody else refuses it after our webhooks,
        `unheard` that the connection of its first review ended before that began.
        One that is not `bound` waits for `bind`.
        """
        raw = with_defaults(pod.raw())
        try:
            for reviewer in [via, validated_via or via][: 1 + reviewed_again]:
                response = await self._call("/mutate", raw, reviewer, dry_run=dry_run, connected=not unheard)
                if unheard:
                    return Answer.FAILED
                if not response["allowed"]:
                    return _refusal(response)
                raw = with_defaults(json_patched(raw, orjson.loads(base64.b64decode(response.get("patch") or "W10="))))
            raw["metadata"]["name"] = name
            response = await self._call("/validate", raw, validated_via or via, dry_run=dry_run)
        except ConnectionError:
            return Answer.FAILED
        if not response["allowed"]:
            # An entry that is gone may have run out meanwhile: a new create gets a new one.
            return Answer.FAILED
        if refused_later:
            return Answer.FAILED
        if not dry_run:
            self.put(paths.pods(NAMESPACE), {**raw, "status": {"phase": "Pending"}})
            if bound:
                self.bind(name)
        return Answer.PLACED

    async def decided(self, pod: PodBuilder, name: str, **how: Any) -> Answer:
        """Creates a pod as a person does: again, until it is placed or refused."""
        answer = await self.create(pod, name, **how)
        for _ in range(_MOST_TRIES):
            if answer is not Answer.FAILED:
                break
            await asyncio.sleep(_RESTART_S)
            answer = await self.create(pod, name, **how)
        return answer

    def keep(self, pod: PodBuilder, name: str, **how: Any) -> None:
        """Has a pod created as its owner's controller does: with longer and longer pauses, until there is one.

        What an attempt wrote that died is in the way of the next one of a bare pod until it has run out.
        """

        async def control() -> None:
            pause_s = _TRAVEL_S
            while self.pod(name) is None and await self.create(pod, name, **how) is not Answer.PLACED:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

        self._background.append(asyncio.create_task(control()))

    async def until(self, true: Callable[[], object]) -> None:
        """Waits for something that must become true."""
        for _ in range(600):
            if true():
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the scene waited in vain")

    def _serves(self, name: str) -> bool:
        process = self._processes.get(name)
        return process is not None and process.server.done() and not process.dead.is_set()

    async def _call(self, path: str, pod: Json, via: str, *, dry_run: bool, connected: bool = True) -> Json:
        """The response of a webhook. Raises `ConnectionError`."""
        order = sorted((name for name in self._processes if name.startswith("webhook")), key=lambda name: name != via)
        serving = next(filter(self._serves, order), None)
        if serving is None:
            raise ConnectionError("no webhook serves")
        process = self._processes[serving]
        server = process.server.result()
        post = Post(orjson.dumps(a_review(pod, "request", NAMESPACE, dryRun=dry_run)), {"timeout": "10s"})
        answered = process.spawn(server.answer(path, post, connected=connected))
        died = asyncio.create_task(process.dead.wait())
        try:
            await asyncio.wait({answered, died}, return_when=asyncio.FIRST_COMPLETED)
            if process.dead.is_set():
                raise ConnectionError(f"{process.name} died")
            response: Json = orjson.loads(answered.result().body)["response"]
            return response
        finally:
            died.cancel()
            self._background.append(answered)

    # What came of it.

    def wrong(self) -> list[str]:
        """What does not hold: over-commit at any moment, and differences between pods and ledgers now."""
        pods, nodes = self.objects.everything(place_of(paths.pods())), self.objects.everything(place_of(paths.nodes()))
        gpu_nodes = self.objects.everything(place_of(paths.gpu_nodes()))
        findings: list[Finding] = compare(pods, gpu_nodes, pods, nodes, now=inf)
        return [*self.objects.broken, *map(str, findings)]

    def picture(self) -> Json:
        """What has to be the same at the end, whether a process died or not."""
        pods = self.objects.everything(place_of(paths.pods()))
        placements = self.objects.everything(place_of(paths.model_placements()))
        return {
            "pods": {_named(pod): (pod["status"]["phase"], _gb(pod)) for pod in pods},
            "placements": {_named(raw): _told(raw.get("status") or {}) for raw in placements},
        }

    async def end(self, expected: Json | None = None) -> None:
        """Lets everything come to rest: until the crash has come and gone and the picture is as `expected`.

        The crash may come in as much time as there is without one, and then has its own time to be forgotten.
        """
        longest_s = CONVERGED_S if expected is None else 2 * CONVERGED_S
        for _ in range(round(longest_s / _LOOK_S)):
            await asyncio.sleep(_LOOK_S)
            if expected is not None and self.crashed and not self.wrong() and self.picture() == expected:
                break
        for process in self._processes.values():
            process.check()

    async def close(self) -> None:
        """Ends everything."""
        for task in self._background:
            task.cancel()
        for process in self._processes.values():
            await process.bury()
        await asyncio.gather(*self._background, return_exceptions=True)


def _named(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"]["name"])


def _reservation(pod: Json) -> str | None:
    """The id that a pod carries."""
    return (pod["metadata"].get("labels") or {}).get(names.RESERVATION)


def _collection(place: Place) -> Place:
    return Place(place.prefix, place.plural, place.namespace)


def _refusal(response: Json) -> Answer:
    return Answer.REFUSED if response["status"]["code"] == 403 else Answer.FAILED


def _gb(pod: Json) -> int:
    return sum(requested_of(pod, slot) for slot in range(8))


def _told(status: Json) -> Json:
    refusals = {key: refusal["reason"] for key, refusal in (status.get("refusals") or {}).items()}
    return {"phase": status.get("phase"), "refusals": refusals, "error": status.get("lastErrorCode")}


Scene = Callable[[Stage], Awaitable[None]]
"""What happens on a stage."""
