"""Plays a case: starts the product in its world, takes step after step, and notes what came of each."""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from shared.kube.cluster import Cluster
from shared.kube.watches import Watches
from shared.settings import controller_settings, webhook_settings
from tests.cases.admission import API_SERVER, RESOURCE_QUOTA, Admission, Passage
from tests.cases.authority import Authority
from tests.cases.chart import rendered
from tests.cases.clock import VirtualLoop, rest, run_on_virtual_clock
from tests.cases.harness import Product
from tests.cases.kinds import api_version_of, namespace_of, place_of_object, plural_of
from tests.cases.outcome import Answer, Result, State, state_of
from tests.cases.registered import Review
from tests.cases.scheduler import allowed_nodes
from tests.cases.stages import quota_refusal
from tests.cases.world import World, fill_in, steps_of, with_wishes
from tests.fakes.api import Api, json_patched, merged
from tests.fakes.inprocess import Network, in_process_client
from tests.fakes.objects import Json, RefusalError, timestamp
from tests.fakes.pod_rules import requests_of, with_defaults

REST_S: Final = 1.5
"""What a step gives the reconcilers to come to rest: longer than what they wait for before they act on a change."""
FINAL_S: Final = 60.0
_FIRST_RETRY_S: Final = 0.005
_LONGEST_RETRY_S: Final = 1000.0
_MIRROR: Final = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class Played:
    """The steps of a case and the state at its end."""

    results: tuple[Result, ...]
    final: State


@dataclass(slots=True)
class _Held:
    """A request that later steps come back to, so that it is not stored before the last of them, `until`."""

    passage: Passage
    step: Json
    until: int


@dataclass(slots=True)
class _Player:
    case: Json
    world: World
    network: Network
    product: Product
    admission: Admission
    observed: Cluster
    answers: dict[int, list[Answer]] = field(default_factory=dict)
    held: dict[int, _Held] = field(default_factory=dict)
    unscheduled: set[str] = field(default_factory=set)
    retries: list[asyncio.Task[None]] = field(default_factory=list)
    requests: int = 0

    async def take(self, number: int, step: Json) -> Result:
        """Takes one step and lets everything come to rest."""
        await asyncio.sleep(float(step.get("afterSeconds") or 0))
        await self.settle(0.0)
        before = self.state()
        found = ACTIONS[step["action"]](self, number, step)
        answers = (await found) or []
        self.answers[number] = answers
        await self.settle(REST_S)
        slow = any(each["action"] == "slow-api-server" for each in steps_of(self.case["when"]))
        return Result(step, before, self.state(), answers, virtual=slow)

    async def settle(self, seconds: float) -> None:
        """Delivers all events, binds what can be bound, and lets `seconds` pass."""
        await rest()
        self.bind_pods()
        await rest()
        if seconds:
            await asyncio.sleep(seconds)
            await rest()
            self.bind_pods()
            await rest()
        self.product.check()

    def state(self) -> State:
        """The cluster as it is now."""
        return state_of(self.world, self.observed, sum(map(_writes_event, self.network.requests)))

    def bind_pods(self) -> None:
        """Binds every pod that has no gates and a node to go to, and sets it Running."""
        nodes = self.world.nodes()
        for pod in self.world.pods():
            uid, spec = pod["metadata"]["uid"], pod["spec"]
            if pod["status"].get("phase", "Pending") != "Pending" or spec.get("schedulingGates"):
                continue
            if uid in self.unscheduled and not spec.get("nodeName"):
                continue
            allowed = allowed_nodes(pod, nodes, self.world.volumes_of(pod))
            if not allowed:
                continue
            bound = pod if spec.get("nodeName") else self.world.change(pod, _to_node(allowed[0]))
            self.world.change_status(bound, _running(bound))

    async def create(self, number: int, step: Json) -> list[Answer]:
        answer = await self._create(number, step, _replica(step, 0))
        return [answer]

    async def create_many(self, number: int, step: Json) -> list[Answer]:
        answers = []
        for count in range(int(step["count"])):
            answers.append(await self._create(number, step, _replica(step, count)))
            await self.settle(0.0)
        return answers

    async def create_concurrent(self, number: int, step: Json) -> list[Answer]:
        creates = [self._create(number, step, _replica(step, count)) for count in range(int(step["count"]))]
        return list(await asyncio.gather(*creates))

    async def apply_again(self, number: int, step: Json) -> list[Answer]:
        return [await self._update(step, lambda old: old, "")]

    async def update(self, number: int, step: Json) -> list[Answer]:
        def change(old: Json) -> Json:
            if "mergePatch" in step:
                changed: Json = merged(old, step["mergePatch"])
                return changed
            return json_patched(old, step["jsonPatch"])

        return [await self._update(step, change, step.get("subresource") or "")]

    async def remove_gate(self, number: int, step: Json) -> list[Answer]:
        def change(old: Json) -> Json:
            opened: Json = merged(old, {"spec": {"schedulingGates": None}})
            return opened

        return [await self._update(step, change, "")]

    async def delete(self, number: int, step: Json) -> None:
        stored = self._existing(step)
        grace = step.get("gracePeriodSeconds")
        if stored["kind"] != "Pod" or grace == 0:
            self.world.remove(stored)
            return
        times = {"deletionTimestamp": timestamp(time.time() + (grace or 0)), "deletionGracePeriodSeconds": grace or 30}
        self.world.store.set_metadata(place_of_object(stored), times)
        if grace:
            asyncio.get_running_loop().call_later(grace, self._remove_same, stored)

    async def finish_delete(self, number: int, step: Json) -> None:
        self._remove(step)

    async def force_delete(self, number: int, step: Json) -> None:
        self._remove(step)

    async def delete_unobserved(self, number: int, step: Json) -> None:
        self.world.store.vanish(place_of_object(self._existing(step)))

    async def resync(self, number: int, step: Json) -> None:
        self.world.store.end_watches()

    async def late_event(self, number: int, step: Json) -> None:
        named = step["object"]
        stored = self.world.find(named)
        uid = named.get("uid") or (stored["metadata"]["uid"] if stored is not None else "")
        raw = self.world.store.last_seen(uid)
        if raw is None:
            raise ValueError(f"late-event: there never was a pod of uid {uid!r}")
        told = copy.deepcopy(raw)
        if step.get("metadataStripped"):
            told["metadata"].pop("labels", None)
            told["metadata"].pop("annotations", None)
        self.world.store.tell(place_of_object({**named, "name": ""}), step["event"], told)

    async def status_change(self, number: int, step: Json) -> None:
        self.world.change_status(self._existing(step), step["status"])

    async def bind(self, number: int, step: Json) -> None:
        self.world.change(self._existing(step), _to_node(step["node"]))

    async def device_report(self, number: int, step: Json) -> None:
        agent = self.world.agents.get(step["node"])
        if agent is not None:
            agent.report_devices(self._existing(step)["metadata"]["uid"], step["uuids"])
            self.world.look(step["node"])

    async def label_namespace(self, number: int, step: Json) -> None:
        self.world.opt_in(step["object"]["name"], opted_in=step["optedIn"])

    async def wait(self, number: int, step: Json) -> None:
        await asyncio.sleep(float(step["seconds"]))

    async def reinvoke(self, number: int, step: Json) -> list[Answer]:
        return [await self._resume(number, step, again=False)]

    async def other_webhook(self, number: int, step: Json) -> list[Answer]:
        return [await self._resume(number, step, again=True)]

    async def validate(self, number: int, step: Json) -> list[Answer]:
        held = self._held(step)
        before, timer = copy.deepcopy(held.passage.object), _Timer.start()
        held.passage.ops = []
        held.passage.warnings = []
        if held.until == number:
            await self._store(held.passage, held.step)
        else:
            await self.admission.validate(held.passage)
        return [timer.answer(held.passage, before)]

    async def failover(self, number: int, step: Json) -> None:
        await self.product.fail_over(step["to"])

    async def restart_controller(self, number: int, step: Json) -> None:
        await self.product.kill_controllers()
        await self.product.start()

    async def restart_webhook(self, number: int, step: Json) -> None:
        await self.product.kill_webhooks()
        await self.product.start()

    async def stop_webhook(self, number: int, step: Json) -> None:
        await self.product.stop_webhooks()

    async def rotate_certificate(self, number: int, step: Json) -> None:
        secret = _serving_secret(self.world)
        authority = Authority(f"authority {number}") if step["newCa"] else self._authority()
        data = authority.serving_pair(_serving_host(self.world))
        gone = dict.fromkeys((secret.get("data") or {}).keys() - data.keys())
        self.world.change(secret, lambda old: merged(old, {"data": {**gone, **data}}))

    async def set_clock(self, number: int, step: Json) -> None:
        await self.product.kill()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.jump(float(step["advanceSeconds"]))
        await self.product.start()

    async def slow_api_server(self, number: int, step: Json) -> None:
        self.network.delay_s = float(step["delaySeconds"])

    async def node_change(self, number: int, step: Json) -> None:
        self.world.look(step["node"], step["gpus"])

    async def node_delete(self, number: int, step: Json) -> None:
        self.world.remove({"kind": "Node", "name": step["node"]})

    async def node_join(self, number: int, step: Json) -> None:
        self.world.join(step["node"], step["gpus"])

    async def node_status_reset(self, number: int, step: Json) -> None:
        amounts = {name: str(amount) for name, amount in step["extendedResources"].items()}
        status = {"capacity": amounts, "allocatable": amounts}
        self.world.change_status({"kind": "Node", "name": step["node"]}, status)

    async def node_status_sync(self, number: int, step: Json) -> None:
        def change(old: Json) -> Json:
            return {**old, "status": {**old["status"], "allocatable": dict(old["status"]["capacity"])}}

        self.world.change({"kind": "Node", "name": step["node"]}, change, "status")

    async def driver_upgrade(self, number: int, step: Json) -> None:
        resources = set(step["evicts"].get("resources") or ())
        labels = step["evicts"].get("labels") or ()
        for pod in self.world.pods():
            if pod["spec"].get("nodeName") == step["node"] and (
                resources & requests_of(pod).keys() or _carries_one(labels, pod["metadata"].get("labels") or {})
            ):
                self.world.remove(pod)

    async def _create(self, number: int, step: Json, replica: str | None) -> Answer:
        answer = await self._create_once(number, step, replica)
        if step.get("retriedByController") and not answer.allowed:
            self.retries.append(asyncio.create_task(self._retry(number, step, replica)))
        return answer

    async def _create_once(self, number: int, step: Json, replica: str | None) -> Answer:
        timer = _Timer.start()
        passage = self._passage(step, replica)
        before = _as_sent(passage)
        await self.admission.mutate(passage)
        until = self._last_mention(number)
        if until is not None:
            self.held[number] = _Held(passage, step, until)
        else:
            await self._store(passage, step)
        return timer.answer(passage, before)

    async def _retry(self, number: int, step: Json, replica: str | None) -> None:
        """Repeats a refused create as the owner's controller does, until it is let in or the owner is gone."""
        pause_s, known = _FIRST_RETRY_S, self._owner_version(step)
        while known is not None:
            await self._until_owner_changes(step, known, pause_s)
            pause_s, known = min(2 * pause_s, _LONGEST_RETRY_S), self._owner_version(step)
            if known is not None and (await self._create_once(number, step, replica)).allowed:
                return

    async def _until_owner_changes(self, step: Json, known: str, at_most_s: float) -> None:
        try:
            async with asyncio.timeout(at_most_s):
                while self._owner_version(step) == known:
                    await self.world.store.wait_beyond(self.world.store.version)
        except TimeoutError:
            pass

    def _owner_version(self, step: Json) -> str | None:
        metadata = step["object"]["metadata"]
        for reference in metadata.get("ownerReferences") or ():
            owner = self.world.find({**reference, "namespace": metadata.get("namespace")})
            return str(owner["metadata"]["resourceVersion"]) if owner is not None else None
        return ""

    def _passage(self, step: Json, replica: str | None) -> Passage:
        """The request that a create sends."""
        if "objectFromStep" in step:
            raw = copy.deepcopy(self.answers[step["objectFromStep"]][0].after)
            for key in ("uid", "creationTimestamp"):
                raw["metadata"].pop(key, None)
            if raw["metadata"].get("generateName"):
                raw["metadata"].pop("name", None)
        else:
            raw = copy.deepcopy(step["object"])
        raw = fill_in(with_wishes(raw, step), self.world.find)
        raw.setdefault("apiVersion", api_version_of(raw["kind"]))
        namespace = namespace_of(raw)
        if namespace:
            raw["metadata"]["namespace"] = namespace
        if step.get("bookingCopiedFrom"):
            raw = merged(raw, {"metadata": self._written_on(step["bookingCopiedFrom"])})
        user, groups = _sender(raw)
        review = Review(
            uid=self._request_uid(),
            operation="CREATE",
            api_version=raw["apiVersion"],
            kind=raw["kind"],
            plural=plural_of(raw["kind"]),
            namespace=namespace,
            name=raw["metadata"].get("name") or "",
            object=raw,
            dry_run=bool(step.get("dryRun")),
            user=user,
            groups=groups,
        )
        return Passage(review, raw, replica)

    async def _store(self, passage: Passage, step: Json) -> None:
        """The stages after mutation, and the object is stored if all let it pass."""
        if passage.refused:
            return
        review, sent = passage.review, passage.review.object
        metadata = passage.object["metadata"]
        if not metadata.get("name"):
            metadata["name"] = f"{metadata.get('generateName', '')}{self.world.new_suffix()}"
        uid = step.get("resultUid") or self.world.new_uid()
        metadata["uid"] = uid
        passage.review = replace(review, name=metadata["name"])
        if not await self._validated(passage) or step.get("laterAdmission"):
            return
        if self.world.find(passage.object) is not None:
            text = f'{review.plural} "{metadata["name"]}" already exists'
            passage.refuse(API_SERVER, text, {"code": 409, "reason": "AlreadyExists", "message": text})
            return
        quota = self.world.cluster.get("resourceQuota")
        if quota and review.kind == "Pod" and review.namespace in self.world.cluster["optedInNamespaces"]:
            here = [pod for pod in self.world.pods() if pod["metadata"]["namespace"] == review.namespace]
            exceeded = quota_refusal(quota, here, passage.object)
            if exceeded is not None:
                passage.refuse(RESOURCE_QUOTA, exceeded)
                return
        if review.dry_run:
            return
        pending = {"status": {"phase": "Pending"}} if review.kind == "Pod" else {}
        if step.get("schedule") is False:
            self.unscheduled.add(uid)
        self.world.originals[uid] = sent
        self.world.put({**passage.object, **pending}, uid)

    async def _validated(self, passage: Passage) -> bool:
        await self.admission.validate(passage)
        return not passage.refused

    async def _update(self, step: Json, change: Callable[[Json], Json], subresource: str) -> Answer:
        timer, stored = _Timer.start(), self._existing(step)
        try:
            wanted = change(copy.deepcopy(stored))
        except RefusalError as refusal:
            raise ValueError(f"the patch does not fit the stored object: {refusal}") from refusal
        user, groups = _sender(stored)
        review = Review(
            uid=self._request_uid(),
            operation="UPDATE",
            api_version=stored["apiVersion"],
            kind=stored["kind"],
            plural=plural_of(stored["kind"]),
            namespace=stored["metadata"].get("namespace") or "",
            name=stored["metadata"]["name"],
            object=wanted,
            old=stored,
            subresource=subresource,
            user=user,
            groups=groups,
        )
        passage = Passage(review, wanted, _replica(step, 0))
        before = _as_sent(passage)
        await self.admission.mutate(passage)
        if not passage.refused:
            await self.admission.validate(passage)
        if not passage.refused:
            self.world.change(stored, lambda old: passage.object, subresource)
        return timer.answer(passage, before)

    async def _resume(self, number: int, step: Json, *, again: bool) -> Answer:
        """Goes on with the request of an earlier step: our mutating webhooks are asked once more."""
        held = self._held(step)
        timer, passage = _Timer.start(), held.passage
        passage.ops, passage.warnings = [], []
        if step.get("jsonPatch"):
            passage.object = json_patched(passage.object, step["jsonPatch"])
        before = _as_sent(passage)
        if not passage.refused:
            await self.admission.mutate(passage, again=again)
        if held.until == number:
            await self._store(passage, held.step)
        return timer.answer(passage, before)

    def _held(self, step: Json) -> _Held:
        held = self.held.get(step["of"])
        if held is None:
            raise ValueError(f"{step['action']}: step {step['of']} is no create that came before")
        return held

    def _last_mention(self, number: int) -> int | None:
        """The last step that comes back to step `number` before its object is stored."""
        steps = steps_of(self.case["when"])
        return max((later for later, step in enumerate(steps, 1) if step.get("of") == number), default=None)

    def _written_on(self, named: Json) -> Json:
        """What the product wrote into the metadata of a pod."""
        stored = self._existing({"object": named})
        sent = self.world.originals[stored["metadata"]["uid"]]["metadata"]
        return {
            kind: {
                key: value
                for key, value in (stored["metadata"].get(kind) or {}).items()
                if (sent.get(kind) or {}).get(key) != value
            }
            for kind in ("labels", "annotations")
        }

    def _existing(self, step: Json) -> Json:
        named = step["object"]
        stored = self.world.find(named)
        if stored is None or named.get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
            text = f"{named['kind']} {(named.get('metadata') or named).get('name')} does not exist at this step"
            raise ValueError(text)
        return stored

    def _remove(self, step: Json) -> None:
        named = step["object"]
        stored = self.world.find(named)
        if stored is not None and named.get("uid", stored["metadata"]["uid"]) == stored["metadata"]["uid"]:
            self.world.remove(stored)

    def _remove_same(self, removed: Json) -> None:
        stored = self.world.find(removed)
        if stored is not None and stored["metadata"]["uid"] == removed["metadata"]["uid"]:
            self.world.remove(stored)

    def _request_uid(self) -> str:
        self.requests += 1
        return f"request-{self.requests}"

    def _authority(self) -> Authority:
        assert self.world.authority is not None
        return self.world.authority


ACTIONS: Final[dict[str, Callable[[_Player, int, Json], Awaitable[list[Answer] | None]]]] = {
    "create": _Player.create,
    "create-many": _Player.create_many,
    "create-concurrent": _Player.create_concurrent,
    "apply-again": _Player.apply_again,
    "update": _Player.update,
    "delete": _Player.delete,
    "finish-delete": _Player.finish_delete,
    "force-delete": _Player.force_delete,
    "delete-unobserved": _Player.delete_unobserved,
    "resync": _Player.resync,
    "late-event": _Player.late_event,
    "status-change": _Player.status_change,
    "bind": _Player.bind,
    "remove-gate": _Player.remove_gate,
    "device-report": _Player.device_report,
    "label-namespace": _Player.label_namespace,
    "wait": _Player.wait,
    "reinvoke": _Player.reinvoke,
    "other-webhook": _Player.other_webhook,
    "validate": _Player.validate,
    "failover": _Player.failover,
    "restart-controller": _Player.restart_controller,
    "restart-webhook": _Player.restart_webhook,
    "stop-webhook": _Player.stop_webhook,
    "rotate-certificate": _Player.rotate_certificate,
    "set-clock": _Player.set_clock,
    "slow-api-server": _Player.slow_api_server,
    "node-change": _Player.node_change,
    "node-delete": _Player.node_delete,
    "node-join": _Player.node_join,
    "node-status-reset": _Player.node_status_reset,
    "node-status-sync": _Player.node_status_sync,
    "driver-upgrade": _Player.driver_upgrade,
}


def play(case: Json, chart: str) -> Played:
    """Plays a case with the product installed as the rendered `chart` says."""
    random.seed(0)
    return run_on_virtual_clock(_play(case, chart))


async def _play(case: Json, chart: str) -> Played:
    world = World(case, rendered(chart))
    steps = steps_of(case["when"])
    if any(step["action"] == "rotate-certificate" and not step["newCa"] for step in steps):
        world.add_serving_secret(_serving_secret_name(world), Authority("authority 0"), _serving_host(world))
    api = Api(world.store, bookmark_s=FINAL_S)
    network = Network(api)
    product = Product(world.chart, network, _replicas(steps))
    secured = frozenset(world.cluster["optedInNamespaces"]) if world.cluster.get("podSecurity") else frozenset()
    client, _ = in_process_client(Network(api))
    observed = Cluster()
    exclusive = webhook_settings(world.chart.workload("webhook").environment("observer")).common.exclusive
    watching = asyncio.create_task(Watches(client, observed, exclusive=exclusive).run())
    player = _Player(case, world, network, product, Admission(world.store, product, secured), observed)
    try:
        await product.start()
        await player.settle(REST_S)
        results = [await player.take(number, step) for number, step in enumerate(steps, 1)]
        await asyncio.sleep(FINAL_S - REST_S)
        await player.settle(0.0)
        return Played(tuple(results), player.state())
    finally:
        for task in (*player.retries, watching):
            task.cancel()
        await asyncio.gather(*player.retries, watching, return_exceptions=True)
        await product.kill()


@dataclass(slots=True)
class _Timer:
    """How long a request takes, by both clocks."""

    started: float
    started_virtual: float

    @classmethod
    def start(cls) -> _Timer:
        """One that runs from now on."""
        return cls(time.perf_counter(), time.monotonic())

    def answer(self, passage: Passage, before: Json) -> Answer:
        """The answer that has just come."""
        return Answer.of(passage, before, time.perf_counter() - self.started, time.monotonic() - self.started_virtual)


def _replicas(steps: Sequence[Json]) -> list[str]:
    """Every replica that a case names; one where it names none."""
    found: dict[str, None] = {}
    for step in steps:
        served_by = step.get("servedBy") or ()
        for name in [served_by] if isinstance(served_by, str) else served_by:
            found[name] = None
    for step in steps:
        if step["action"] == "failover":
            found[step["to"]] = None
    return list(found) or ["a"]


def _replica(step: Json, number: int) -> str | None:
    served_by = step.get("servedBy")
    if not served_by:
        return None
    return str(served_by) if isinstance(served_by, str) else str(served_by[number % len(served_by)])


def _as_sent(passage: Passage) -> Json:
    """The object as the webhooks see it first."""
    return with_defaults(passage.object) if passage.review.kind == "Pod" else copy.deepcopy(passage.object)


def _sender(raw: Json) -> tuple[str, tuple[str, ...]]:
    """Who sends an object: a node its mirror pods, a controller what it owns, else a person."""
    metadata = raw["metadata"]
    node = raw.get("spec", {}).get("nodeName")
    if node and _MIRROR in (metadata.get("annotations") or {}):
        return f"system:node:{node}", ("system:nodes", "system:authenticated")
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            name = f"system:serviceaccount:kube-system:{reference['kind'].lower()}-controller"
            return name, ("system:serviceaccounts", "system:authenticated")
    return "user", ("system:authenticated",)


def _to_node(name: str) -> Callable[[Json], Json]:
    def change(old: Json) -> Json:
        return {**old, "spec": {**old["spec"], "nodeName": name}}

    return change


def _running(pod: Json) -> Json:
    containers = [
        {"name": each["name"], "ready": True, "restartCount": 0, "state": {"running": {}}}
        for each in pod["spec"]["containers"]
    ]
    return {
        "phase": "Running",
        "startTime": timestamp(time.time()),
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": containers,
    }


def _carries_one(wanted: Any, labels: Json) -> bool:
    """Whether a pod carries one of the labels, given as keys, as `key=value` or as a mapping."""
    pairs = wanted.items() if isinstance(wanted, dict) else [str(each).partition("=")[::2] for each in wanted]
    return any(key in labels and value in {"", None, labels[key]} for key, value in pairs)


def _writes_event(request: Any) -> bool:
    """Whether a request of the product writes an event: a repetition begins with an attempt to create it, too."""
    return bool(request.method == "POST" and request.path.endswith("/events"))


def _serving_secret_name(world: World) -> Json:
    common = controller_settings(world.chart.workload("controller").environment("rotation")).common
    return {"apiVersion": "v1", "kind": "Secret", "namespace": common.namespace, "name": common.tls_secret}


def _serving_secret(world: World) -> Json:
    secret = world.find(_serving_secret_name(world))
    if secret is None:
        raise ValueError("there is no serving certificate to exchange at this step")
    return secret


def _serving_host(world: World) -> str:
    settings = controller_settings(world.chart.workload("controller").environment("rotation"))
    return f"{settings.service}.{settings.common.namespace}.svc"
