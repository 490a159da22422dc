"""What each action does: the steps of a case, taken one by one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from shared.kube.cluster import Cluster
from shared.settings import controller_settings
from tests.cases.authority import Authority
from tests.cases.clock import VirtualLoop, rest
from tests.cases.creates import Requests, replica_of
from tests.cases.harness import Product
from tests.cases.kinds import place_of_object
from tests.cases.outcome import Answer, Result, State, state_of
from tests.cases.owners import steps_of
from tests.cases.scheduler import allowed_nodes
from tests.cases.world import AbsentError, World
from tests.fakes.api import json_patched, merged
from tests.fakes.inprocess import Network
from tests.fakes.objects import Json, copied, timestamp
from tests.fakes.pod_rules import requests_of

REST_S: Final = 1.5
"""What a step gives the reconcilers to come to rest: longer than what they wait for before they act on a change."""


@dataclass(slots=True)
class Player:
    """Takes steps."""

    case: Json
    world: World
    network: Network
    product: Product
    requests: Requests
    observed: Cluster

    async def take(self, number: int, step: Json) -> Result:
        """Takes one step and lets everything come to rest."""
        self.requests.admission.hang_up()
        await asyncio.sleep(float(step.get("afterSeconds") or 0))
        await self.settle(0.0)
        before = self.state()
        answers: list[Answer] = []
        missing: tuple[str, str] | None = None
        try:
            answers = (await ACTIONS[step["action"]](self, number, step)) or []
        except AbsentError as error:
            missing = error.kind, error.name
        await self.settle(REST_S)
        slow = any(each["action"] == "slow-api-server" for each in steps_of(self.case["when"]))
        return Result(step, before, self.state(), answers, virtual=slow, missing=missing)

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
            pending = pod["status"].get("phase", "Pending") == "Pending" and not spec.get("schedulingGates")
            if not pending or uid not in self.requests.scheduled:
                continue
            allowed = allowed_nodes(pod, nodes, self.world.volumes_of(pod))
            if not allowed:
                continue
            bound = pod if spec.get("nodeName") else self.world.change(pod, _to_node(allowed[0]))
            self.world.change_status(bound, _running(bound))

    async def create(self, number: int, step: Json) -> list[Answer]:
        answer = await self.requests.create(number, step, replica_of(step, 0))
        return [answer]

    async def create_many(self, number: int, step: Json) -> list[Answer]:
        answers = []
        for count in range(int(step["count"])):
            answers.append(await self.requests.create(number, step, replica_of(step, count)))
            await self.settle(0.0)
        return answers

    async def create_concurrent(self, number: int, step: Json) -> list[Answer]:
        creates = [self.requests.create(number, step, replica_of(step, count)) for count in range(int(step["count"]))]
        return list(await asyncio.gather(*creates))

    async def apply_again(self, number: int, step: Json) -> list[Answer]:
        return [await self.requests.update(step, lambda old: old, "")]

    async def update(self, number: int, step: Json) -> list[Answer]:
        def change(old: Json) -> Json:
            if "mergePatch" in step:
                changed: Json = merged(old, step["mergePatch"])
                return changed
            return json_patched(old, step["jsonPatch"])

        return [await self.requests.update(step, change, step.get("subresource") or "")]

    async def remove_gate(self, number: int, step: Json) -> list[Answer]:
        def change(old: Json) -> Json:
            opened: Json = merged(old, {"spec": {"schedulingGates": None}})
            return opened

        self.requests.scheduled.add(self.world.existing(step["object"])["metadata"]["uid"])
        return [await self.requests.update(step, change, "")]

    async def delete(self, number: int, step: Json) -> None:
        stored = self.world.existing(step["object"])
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
        self.world.store.vanish(place_of_object(self.world.existing(step["object"])))

    async def resync(self, number: int, step: Json) -> None:
        self.world.store.end_watches()

    async def late_event(self, number: int, step: Json) -> None:
        named = step["object"]
        stored = self.world.find(named)
        uid = named.get("uid") or (stored["metadata"]["uid"] if stored is not None else "")
        raw = self.world.store.last_seen(uid)
        if raw is None:
            raise ValueError(f"late-event: there never was a pod of uid {uid!r}")
        told = copied(raw)
        if step.get("metadataStripped"):
            told["metadata"].pop("labels", None)
            told["metadata"].pop("annotations", None)
        self.world.store.tell(place_of_object({**named, "name": ""}), step["event"], told)

    async def status_change(self, number: int, step: Json) -> None:
        self.world.change_status(self.world.existing(step["object"]), step["status"])

    async def bind(self, number: int, step: Json) -> None:
        bound = self.world.change(self.world.existing(step["object"]), _to_node(step["node"]))
        self.requests.scheduled.add(bound["metadata"]["uid"])

    async def device_report(self, number: int, step: Json) -> None:
        agent = self.world.agents.get(step["node"])
        if agent is not None:
            agent.report_devices(self.world.existing(step["object"])["metadata"]["uid"], step["uuids"])
            self.world.look(step["node"])

    async def label_namespace(self, number: int, step: Json) -> None:
        self.world.opt_in(step["object"]["name"], opted_in=step["optedIn"])

    async def wait(self, number: int, step: Json) -> None:
        await asyncio.sleep(float(step["seconds"]))

    async def reinvoke(self, number: int, step: Json) -> list[Answer]:
        return [await self.requests.resume(number, step, again=False)]

    async def other_webhook(self, number: int, step: Json) -> list[Answer]:
        return [await self.requests.resume(number, step, again=True)]

    async def validate(self, number: int, step: Json) -> list[Answer]:
        return [await self.requests.validate(number, step)]

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
        data = authority.serving_pair(serving_host(self.world))
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

    def _remove(self, step: Json) -> None:
        named = step["object"]
        stored = self.world.find(named)
        if stored is not None and named.get("uid", stored["metadata"]["uid"]) == stored["metadata"]["uid"]:
            self.world.remove(stored)

    def _remove_same(self, removed: Json) -> None:
        stored = self.world.find(removed)
        if stored is not None and stored["metadata"]["uid"] == removed["metadata"]["uid"]:
            self.world.remove(stored)

    def _authority(self) -> Authority:
        assert self.world.authority is not None
        return self.world.authority


ACTIONS: Final[dict[str, Callable[[Player, int, Json], Awaitable[list[Answer] | None]]]] = {
    "create": Player.create,
    "create-many": Player.create_many,
    "create-concurrent": Player.create_concurrent,
    "apply-again": Player.apply_again,
    "update": Player.update,
    "delete": Player.delete,
    "finish-delete": Player.finish_delete,
    "force-delete": Player.force_delete,
    "delete-unobserved": Player.delete_unobserved,
    "resync": Player.resync,
    "late-event": Player.late_event,
    "status-change": Player.status_change,
    "bind": Player.bind,
    "remove-gate": Player.remove_gate,
    "device-report": Player.device_report,
    "label-namespace": Player.label_namespace,
    "wait": Player.wait,
    "reinvoke": Player.reinvoke,
    "other-webhook": Player.other_webhook,
    "validate": Player.validate,
    "failover": Player.failover,
    "restart-controller": Player.restart_controller,
    "restart-webhook": Player.restart_webhook,
    "stop-webhook": Player.stop_webhook,
    "rotate-certificate": Player.rotate_certificate,
    "set-clock": Player.set_clock,
    "slow-api-server": Player.slow_api_server,
    "node-change": Player.node_change,
    "node-delete": Player.node_delete,
    "node-join": Player.node_join,
    "node-status-reset": Player.node_status_reset,
    "node-status-sync": Player.node_status_sync,
    "driver-upgrade": Player.driver_upgrade,
}


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


def serving_secret_name(world: World) -> Json:
    """The Secret that the controller keeps the serving pair in."""
    common = controller_settings(world.chart.workload("controller").environment("rotation")).common
    return {"apiVersion": "v1", "kind": "Secret", "namespace": common.namespace, "name": common.tls_secret}


def _serving_secret(world: World) -> Json:
    secret = world.find(serving_secret_name(world))
    if secret is None:
        raise ValueError("there is no serving certificate to exchange at this step")
    return secret


def serving_host(world: World) -> str:
    """The name that the webhooks are called by."""
    settings = controller_settings(world.chart.workload("controller").environment("rotation"))
    return f"{settings.service}.{settings.common.namespace}.svc"
