"""The API server as far as two webhooks need it, in their own process: compare-and-swap on `GPUNode`s, and a judge.

The judge looks at every reservation as it is written. It reads the raw objects and shares no code with the product.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import orjson

from shared.kube.client import KubeClient, Listing, Params
from shared.kube.credentials import Connection
from shared.kube.errors import AlreadyExists, Conflict, NotFound, Unavailable
from tests.fakes.api import merged
from tests.fuzz import words
from tests.fuzz.clusters import ClusterJson, shares_of, units_of
from tests.fuzz.dice import Dice
from tests.fuzz.words import Json, fresh

_GPU_NODES = "/apis/placement.kamiwaza.ai/v1alpha1/gpunodes/"
_USUAL_S = 0.001
_SLOW_S = (0.01, 0.5, 4.0, 60.0)
_CLIENT_TIMEOUT_S = 10.0


class BudgetError(AssertionError):
    """A reservation that was written where it does not fit."""


class Api:
    """The objects of `cluster`. `dice` decide how a request goes; `on_written` hears of each `GPUNode` that changes."""

    def __init__(self, cluster: ClusterJson, dice: Dice, on_written: Callable[[Json], None]) -> None:
        self.cluster = cluster
        self.troubled = False
        """Whether requests may go wrong or take long now."""
        self.known_pods: set[str] = set()
        """The pods that every webhook has seen: what they hold is to be counted."""
        self.broken: list[BudgetError] = []
        self.recorded: set[str] = set()
        """Every id that was ever in a ledger."""
        self._dice = dice
        self._on_written = on_written
        self._version = 1
        self._others: dict[str, Json] = {}

    def put_gpu_node(self, raw: Json) -> Json:
        """Stores a `GPUNode` under its next version."""
        self._version += 1
        stored = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(self._version)}}
        self.cluster.gpu_nodes[raw["metadata"]["name"]] = stored
        self._on_written(stored)
        return stored

    async def get(self, path: str) -> Json:
        await self._travel(path)
        return fresh(self._find(path))

    async def create(self, path: str, body: Json) -> Json:
        await self._travel(path)
        name = f"{path}/{body['metadata']['name']}"
        if name in self._others:
            raise AlreadyExists(409, "AlreadyExists", f"{name} exists")
        self._others[name] = body
        return body

    async def merge_patch(self, path: str, patch: Json) -> Json:
        await self._travel(path)
        target = path.removesuffix("/status")
        old = self._find(target)
        new = cast(Json, merged(old, orjson.loads(orjson.dumps(patch))))
        if not target.startswith(_GPU_NODES):
            self._others[target] = new
            return new
        if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", f"{target} has moved on")
        stored = self.put_gpu_node(new)
        self._judge(old, stored)
        if self.troubled and self._dice.chance(0.05):
            raise Unavailable(0, "NoConnection", "the answer was lost")
        return stored

    async def _travel(self, path: str) -> None:
        """The way of a request: others get their turn, and in troubled times it may end here."""
        await asyncio.sleep(_USUAL_S)
        if not self.troubled or not path.startswith(_GPU_NODES):
            return
        if self._dice.chance(0.2):
            slow_s = self._dice.one(_SLOW_S)
            await asyncio.sleep(min(slow_s, _CLIENT_TIMEOUT_S))
            if slow_s > _CLIENT_TIMEOUT_S:
                raise Unavailable(0, "Timeout", "no answer in time")
        if self._dice.chance(0.1):
            raise Unavailable(503, "ServiceUnavailable", "etcd has no leader")

    def _find(self, path: str) -> Json:
        if path.startswith(_GPU_NODES):
            found = self.cluster.gpu_nodes.get(path.removeprefix(_GPU_NODES))
        else:
            found = self._others.get(path)
        found = found or _owner(path)
        if found is None:
            raise NotFound(404, "NotFound", f"{path} not found")
        return found

    async def pods_with_label(self, namespace: str, selector: str) -> list[Json]:
        """The pods of a namespace that carry one label."""
        await self._travel(_GPU_NODES)
        key, _, value = selector.partition("=")
        return [
            pod
            for pod in self.cluster.pods.values()
            if pod["metadata"]["namespace"] == namespace and (pod["metadata"].get("labels") or {}).get(key) == value
        ]

    def _judge(self, old: Json, new: Json) -> None:
        before, after = old["status"].get("reservations") or {}, new["status"].get("reservations") or {}
        for reservation in after.keys() - before.keys():
            self.recorded.add(reservation)
            for slot, gb in shares_of(after[reservation]):
                problem = self._problem(new, slot, gb, reservation)
                if problem is not None:
                    self.broken.append(BudgetError(f"{reservation} on {new['metadata']['name']}: {problem}"))
            for resource in units_of(after[reservation]):
                booked = sum(units_of(text).get(resource, 0) for text in after.values())
                node = self.cluster.nodes.get(new["metadata"]["name"])
                offered = int(node["status"]["allocatable"].get(resource, 0)) if node else 0
                if node and booked > offered:
                    self.broken.append(BudgetError(f"{reservation}: {booked} of {offered} {resource} are promised"))

    def _problem(self, gpu_node: Json, slot: int, gb: int, reservation: str) -> str | None:
        """What is wrong with a new share of a card, or None."""
        spec, status = gpu_node["spec"], gpu_node["status"]
        card = next((card for card in status["cards"] if card["index"] == slot), None)
        if card is None:
            return f"there is no card {slot}"
        wish: Json = next((wish for wish in spec.get("cards") or () if wish["index"] == slot), {})
        if not card["healthy"] or wish.get("cordoned"):
            return f"card {slot} is not to be used"
        entries = {key: dict(shares_of(text)).get(slot, 0) for key, text in status["reservations"].items()}
        name, alone = gpu_node["metadata"]["name"], self._held_without_entry(gpu_node, slot)
        used = sum(entries.values()) + alone
        budget = max(card["budgetGB"], wish.get("vramGB", 0) if not card["memoryMiB"] else 0)
        room = budget - wish.get("headroomGB", 0) - card.get("foreignGB", 0)
        others = [key for key, held in entries.items() if held and key != reservation]
        if card["class"] == "mig" and (others or alone):
            return (
                f"the partition {slot} is given to more than {reservation}: {entries} and {alone} GB without an entry"
            )
        if gb < 1 or used > room:
            return f"{used} GB are promised of the {room} GB of card {slot}: {entries} and {alone} GB without an entry"
        exclusive = spec["mode"] == "exclusive" if "mode" in spec else self.cluster.exclusive
        if exclusive and (others or alone):
            return f"card {slot} of the exclusive node {name} is given to {others} too"
        return None

    def _held_without_entry(self, gpu_node: Json, slot: int) -> int:
        """GB of a card that known pods request and no entry stands for."""
        found = 0
        for uid in self.known_pods:
            pod = self.cluster.pods[uid]
            labels = pod["metadata"].get("labels") or {}
            if labels.get("kamiwaza.ai/reservation") in gpu_node["status"]["reservations"]:
                continue
            if is_on(pod, gpu_node["metadata"]["name"]):
                found += requested_of(pod, slot)
        return found


def _owner(path: str) -> Json | None:
    """An owner of the tables, by its path; None for anything else."""
    _, plural, name = path.rsplit("/", 2)
    kind = next((kind for _, kind in words.OWNER_KINDS if f"{kind.lower()}s" == plural), None)
    if kind is None or name not in words.WANTED:
        return None
    wanted = words.WANTED[name]
    api_version = next(version for version, each in words.OWNER_KINDS if each == kind)
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{kind}-{name}"},
        "spec": {"replicas": wanted, "parallelism": wanted, "podManagementPolicy": "Parallel"},
        "status": {"desiredNumberScheduled": wanted},
    }


def is_on(pod: Json, node: str) -> bool:
    """Whether a stored pod takes something from a node: it is on it, or can go nowhere else."""
    if pod["spec"].get("nodeName"):
        return bool(pod["spec"]["nodeName"] == node)
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {"nodeSelectorTerms": []}
    pin = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = affinity["nodeSelectorTerms"]
    return bool(terms) and all(pin in (term.get("matchFields") or ()) for term in terms)


def requested_of(pod: Json, slot: int) -> int:
    """GB of a card that a pod's containers request together; ordinary init containers never do."""
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    resource = f"kamiwaza.ai/vram-gb-gpu-{slot}"
    return sum(
        int(((container.get("resources") or {}).get("requests") or {}).get(resource, 0)) for container in containers
    )


class InProcessClient(KubeClient):
    """The product's client with `api` at the other end, and nothing between."""

    def __init__(self, api: Api) -> None:
        super().__init__(cast(Connection, None))
        self._api = api

    async def get(self, path: str, params: Params | None = None, *, timeout_s: float | None = None) -> Json:
        return await self._api.get(path)

    async def create(
        self, path: str, body: Json, params: Params | None = None, *, timeout_s: float | None = None
    ) -> Json:
        return await self._api.create(path, body)

    async def merge_patch(
        self, path: str, body: Json, params: Params | None = None, *, timeout_s: float | None = None
    ) -> Json:
        return await self._api.merge_patch(path, body)

    async def list(self, path: str, params: Params | None = None, *, timeout_s: float | None = None) -> Listing[Json]:
        namespace = path.split("/")[-2]
        found = await self._api.pods_with_label(namespace, (params or {})["labelSelector"])
        return Listing(tuple(found), "1")
