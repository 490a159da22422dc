"""A cluster with two webhooks in one process, and the life around them: pods come and go, nodes and cards change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, cast

from aiohttp import web

from shared.core.nodes import node_facts
from shared.core.pods import pod_facts
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import gpu_node
from shared.kube.ledger import Ledger
from shared.kube.owners import Owners
from tests.fuzz import words
from tests.fuzz.api import Api, InProcessClient, is_on
from tests.fuzz.clusters import STORAGE, ClusterJson, a_node, advertise, cordon
from tests.fuzz.dice import Dice
from tests.fuzz.words import Json
from tests.scheduler_model import merge_label_keys
from tests.storage_builders import fill
from webhook.app import Handlers
from webhook.mutate import Mutator
from webhook.refusals import RefusalReports
from webhook.take_over import TakeOver
from webhook.take_seat import TakeSeat
from webhook.validate import Validator

MutatorClass: TypeAlias = Callable[..., Mutator]

_UNCONFIRMED_S = 25
_CARD_CHANGES: tuple[Json, ...] = ({"healthy": True}, {"healthy": False}, {"foreignGB": 0}, {"foreignGB": 3})
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Post:
    """An HTTP request as far as the handlers look at it."""

    body: bytes
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content_length(self) -> int:
        return len(self.body)

    def get(self, _key: object, default: object) -> object:
        """What its connection knows of it: nothing."""
        return default

    @property
    def content(self) -> Content:
        return Content(self.body)


@dataclass(slots=True)
class Content:
    """A body that has arrived."""

    rest: bytes

    async def readany(self) -> bytes:
        read, self.rest = self.rest, b""
        return read

    def on_eof(self, then: Callable[[], None]) -> None:
        then()

    def set_exception(self, error: Exception) -> None:
        raise AssertionError("a body that is here is not given up") from error


class Replica:
    """One webhook process: its picture of the cluster, and its handlers."""

    def __init__(self, world: World, make_mutator: MutatorClass) -> None:
        client = InProcessClient(world.api)
        self.cluster = Cluster(lambda: world.cluster.now)
        fill(self.cluster.storage, *STORAGE)
        owners = Owners(client)
        ledger = Ledger(client, self.cluster, exclusive=world.cluster.exclusive)
        mutator = make_mutator(
            self.cluster,
            ledger,
            TakeOver(client, self.cluster, owners),
            TakeSeat(client, self.cluster, owners),
            new_id=world.new_id,
            unix_time=lambda: world.cluster.now,
            runtime_class=world.cluster.runtime_class,
        )
        self.refusals = RefusalReports(client, owners)
        self.handlers = Handlers(mutator, Validator(self.cluster, ledger), self.refusals)
        self.late: list[Callable[[Cluster], None]] = []
        """What its watches have not told it yet."""

    async def post(self, path: str, post: Post) -> tuple[int, bytes]:
        """The answer of a route."""
        handler = self.handlers.mutate if path == "/mutate" else self.handlers.validate
        response = await handler(cast(web.Request, post))
        body = response.body
        assert isinstance(body, bytes)
        return response.status, body

    def catch_up(self) -> None:
        """The watches deliver."""
        for change in self.late:
            change(self.cluster)
        self.late.clear()


class World:
    """Everything that a cluster is made of. `dice` decide what happens; `make_mutator` is the product's, or a wrong
    one.
    """

    def __init__(self, dice: Dice, cluster: ClusterJson, make_mutator: MutatorClass = Mutator) -> None:
        self._dice = dice
        self._ids = itertools.count()
        self._uids = itertools.count()
        self.cluster = cluster
        self.replicas: list[Replica] = []
        self.api = Api(cluster, dice, self._gpu_node_written)
        self.replicas = [Replica(self, make_mutator) for _ in range(2)]
        for name, labels in cluster.namespaces.items():
            self._tell(partial(Cluster.namespace_upserted, name=name, labels=labels))
        for node in cluster.nodes.values():
            self._node_written(node)
        for raw in list(cluster.gpu_nodes.values()):
            self.api.put_gpu_node(raw)
        for pod in cluster.pods.values():
            self._pod_written(pod)
        self.settle()

    def new_id(self) -> str:
        """A reservation id, never twice the same."""
        number, letters = next(self._ids), ""
        for _ in range(10):
            number, letter = divmod(number, 26)
            letters += _LETTERS[letter]
        return letters

    @property
    def is_settled(self) -> bool:
        """Whether every webhook knows all that happened."""
        return not any(replica.late for replica in self.replicas)

    def settle(self) -> None:
        """Every watch delivers everything."""
        for replica in self.replicas:
            replica.catch_up()
        self.api.known_pods = set(self.cluster.pods)

    def reservation(self, node: str, reservation: str) -> str | None:
        """An entry of a node's ledger as the API server holds it."""
        raw = self.cluster.gpu_nodes.get(node)
        return None if raw is None else raw["status"]["reservations"].get(reservation)

    def create(self, pod: Json, namespace: str) -> Json:
        """Stores a pod, as the API server does once it is admitted, and has the scheduler look at it."""
        number = next(self._uids)
        metadata = {"name": f"{pod['metadata'].get('generateName', 'pod-')}{number}", **pod["metadata"]}
        metadata |= {"uid": f"uid-new-{number}", "namespace": namespace}
        metadata["creationTimestamp"] = f"2027-01-15T10:{number // 60 % 60:02}:{number % 60:02}Z"
        stored = {**pod, "metadata": metadata, "status": {"phase": "Pending"}}
        affinity = stored["spec"].get("affinity") or {}
        for kind in ("podAffinity", "podAntiAffinity"):
            for term in (affinity.get(kind) or {}).get(words.REQUIRED) or ():
                merge_label_keys(term, metadata.get("labels") or {})
        node = next((name for name in self.cluster.nodes if is_on(stored, name)), None)
        if node is not None and self._dice.chance(0.7) and not stored["spec"].get("schedulingGates"):
            stored["spec"] = {**stored["spec"], "nodeName": node}
            stored["status"] = {"phase": "Running"}
        self.cluster.pods[metadata["uid"]] = stored
        self._pod_written(stored)
        return stored

    def live(self) -> None:
        """Some time goes by: pods end, the controller clears up, nodes and cards change, watches deliver."""
        self.cluster.now += self._dice.one((0, 1, 1, 5, 30))
        for uid in [uid for uid in self.cluster.pods if self._dice.chance(0.2)]:
            self._end_pod(uid)
        self._clear_up()
        if self._dice.chance(0.15):
            self._change_a_node()
        if self._dice.chance(0.8):
            self.settle()
        elif self._dice.chance(0.5):
            self._dice.one(self.replicas).catch_up()

    def _end_pod(self, uid: str) -> None:
        pod = self.cluster.pods[uid]
        if self._dice.chance(0.2) and "deletionTimestamp" not in pod["metadata"]:
            pod = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2027-01-15T11:00:00Z"}}
            self.cluster.pods[uid] = pod
            self._pod_written(pod)
            return
        del self.cluster.pods[uid]
        self.api.known_pods.discard(uid)
        self._tell(lambda picture: picture.pod_deleted(uid))

    def _clear_up(self) -> None:
        """What the controller does: entries whose pod is gone go, and those whose pod never came run out."""
        carried = {(pod["metadata"].get("labels") or {}).get("kamiwaza.ai/reservation") for pod in self._pods()}
        for raw in list(self.cluster.gpu_nodes.values()):
            kept = {
                key: text
                for key, text in raw["status"]["reservations"].items()
                if key in carried or int(text.split(";")[1]) + _UNCONFIRMED_S > self.cluster.now
            }
            if kept != raw["status"]["reservations"]:
                self.api.put_gpu_node({**raw, "status": {**raw["status"], "reservations": kept}})

    def _change_a_node(self) -> None:
        dice, nodes = self._dice, self.cluster.nodes
        name = f"n{dice.number(0, len(nodes))}"
        if name not in nodes:
            nodes[name] = a_node(dice, name)
            if (self.cluster.gpu_nodes.get(name) or {"status": {}})["status"].get("source"):
                return
            advertise(nodes[name], self.cluster.gpu_nodes.get(name))
            self._node_written(nodes[name])
            return
        what = dice.one(("cordon", "uncordon", "ready", "card", "wish", "gone"))
        node = {**nodes[name], "spec": dict(nodes[name]["spec"])}
        raw = self.cluster.gpu_nodes.get(name)
        match what:
            case "cordon":
                cordon(node)
            case "uncordon":
                node["spec"] = {}
            case "ready":
                status = dice.one(("True", "True", "False"))
                node["status"] = {**node["status"], "conditions": [{"type": "Ready", "status": status}]}
            case "card" if raw is not None and "source" not in raw["status"]:
                cards = [dict(card) for card in raw["status"]["cards"]]
                dice.one(cards).update(dice.one(_CARD_CHANGES))
                self.api.put_gpu_node({**raw, "status": {**raw["status"], "cards": cards}})
            case "wish" if raw is not None and "source" not in raw["status"]:
                spec = dice.one(({}, {"mode": "exclusive"}, {"cards": [{"index": 0, "headroomGB": 1}]}))
                self.api.put_gpu_node({**raw, "spec": spec})
            case "gone" if dice.chance(0.3):
                del nodes[name]
                self._tell(lambda picture: picture.node_deleted(name))
                return
        advertise(node, raw)
        nodes[name] = node
        self._node_written(node)

    def _pods(self) -> list[Json]:
        return list(self.cluster.pods.values())

    def _tell(self, change: Callable[[Cluster], Any]) -> None:
        for replica in self.replicas:
            replica.late.append(change)

    def _gpu_node_written(self, raw: Json) -> None:
        facts = gpu_node(raw, exclusive=self.cluster.exclusive)
        self._tell(lambda picture: picture.gpu_node_upserted(facts))

    def _node_written(self, raw: Json) -> None:
        facts = node_facts(raw)
        self._tell(lambda picture: picture.node_upserted(facts))

    def _pod_written(self, raw: Json) -> None:
        facts = pod_facts(raw)
        if facts is not None:
            self._tell(lambda picture: picture.pod_upserted(facts))
