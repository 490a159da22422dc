"""Whatever stands in a status that the schema accepts, the controller reads it and writes the truth over it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import jsonschema
from hypothesis import example, given, settings

from controller.events import Events
from controller.managed_nodes import ManagedNodes
from controller.placements import Placements
from controller.reports import Reports
from controller.waking import Waker
from shared.api import names
from shared.api.crds.definitions import GPU_NODES, MODEL_PLACEMENTS
from shared.core.ledger import Mark
from shared.core.nodes import node_facts
from shared.core.times import in_seconds
from shared.kube import paths
from shared.kube.cluster import Cluster
from shared.kube.fates import Fates
from shared.kube.gpunodes import gpu_node as read_gpu_node
from shared.kube.ledger import Ledger
from shared.kube.owners import Owners
from tests.builders import a_node, a_pod
from tests.fakes.api import Api, place_of
from tests.fakes.inprocess import Network, in_process_client
from tests.fakes.objects import ObjectStore
from tests.property.accepted import MAX_INT64, accepted
from tests.unit.admission import gpu_node, store
from tests.unit.controlling import NOW
from tests.unit.core_builders import entry
from tests.unit.keepers import a_keeper

ID, OTHER = "aaaaaaaaaa", "bbbbbbbbbb"
CARD: Final = names.card_resource(0)
CREATED: Final = "2026-11-30T09:30:00Z"
LONG_AFTER: Final = NOW + timedelta(days=2)
OF_PLACEMENTS: Final = MODEL_PLACEMENTS.schema()["properties"]["status"]
OF_NODES: Final = GPU_NODES.schema()["properties"]["status"]
OWNERS: Final = ("Deployment.chat", "ReplicaSet.chat-5d4f", "ReplicaSet.gone", "RayCluster.ray", "ReplicaSet.a/../b")
TEXTS: Final = (
    entry({0: 6}).encode(),
    entry({0: 6, 999: 999_999_999}).encode(),
    f"{entry({1: 6}).encode()};kept",
    f"{entry({0: 6}).encode()};preempting",
    "models/00000000;1;nvidia.com/gpu=2",
    "models/00000000;999999999999;1:1",
)


@contextlib.contextmanager
def no_traceback() -> Iterator[None]:
    """Nothing that the product catches for its own protection may be an error of ours either."""
    caught: list[logging.LogRecord] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                caught.append(record)

    handler = Collector()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
    assert [record.exc_info for record in caught] == []


class Workload:
    """A Deployment with one pod, which runs, and its `ModelPlacement`."""

    def __init__(self) -> None:
        self.objects = ObjectStore()
        self.client, _ = in_process_client(Network(Api(self.objects)))
        self.cluster = Cluster()
        self.cluster.node_upserted(node_facts(a_node("t4").raw()))
        top = self._owner("Deployment", "chat", ())
        replica_set = self._owner("ReplicaSet", "chat-5d4f", [{**top, "controller": True}])
        pod = a_pod("chat-1").limited_to({CARD: "6"}).on("t4").in_phase("Running").created(CREATED)
        self.pod = pod.owned_by("ReplicaSet", "chat-5d4f", replica_set["uid"]).facts()
        self.cluster.pod_upserted(self.pod)
        metadata = {"name": "deployment-chat", "namespace": "models", "ownerReferences": [top]}
        self._report = {"metadata": metadata}
        self._replica_set = replica_set["uid"]

    def _owner(self, kind: str, name: str, owners: Any) -> dict[str, str]:
        metadata = {"name": name, "ownerReferences": owners}
        raw = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"replicas": 1}}
        stored = store(self.objects, f"/apis/apps/v1/namespaces/models/{kind.lower()}s", raw)
        return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": stored["metadata"]["uid"]}

    def say(self, status: Mapping[str, Any]) -> None:
        """Somebody writes the status. Uids are told by the pod's name or the owner's."""
        uids = {"chat-1": self.pod.key, "chat-5d4f": self._replica_set}
        named = _replaced(status, uids)
        store(self.objects, paths.model_placements("models"), {**self._report, "status": named})

    @property
    def status(self) -> dict[str, Any]:
        raw = self.objects.get(place_of(paths.model_placements("models", "deployment-chat")))
        found: dict[str, Any] = raw["status"]
        return found

    async def look(self, now: datetime) -> None:
        """A controller that has just begun looks at it once, and at who waits."""
        reports, owners = Reports(self.client), Owners(self.client)
        watching = asyncio.create_task(reports.run())
        await reports.listed()
        events = Events(self.client, lambda: now)
        keeping = Placements(self.client, self.cluster, Fates(), reports, owners, events, lambda: now)
        try:
            for report in list(reports.all()):
                await keeping._assign(self.pod.key)
                await keeping.reconcile((report.namespace, report.workload))
            await Waker(self.client, self.cluster, reports, owners, lambda: now).walk()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def _replaced(value: Any, uids: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: uids.get(part, part) if key == "uid" else _replaced(part, uids) for key, part in value.items()}
    return [_replaced(part, uids) for part in value] if isinstance(value, list) else value


HUGE: Final = {
    "uuid": "GPU-0",
    "model": "",
    "vendor": "nvidia",
    "class": "discrete",
    "memoryMiB": 0,
    "budgetGB": MAX_INT64,
    "healthy": True,
}
PLACEMENT: Final = {"pod": "chat-0", "node": "t4", "cards": []}
TROUBLE: Final = {"pod": "chat-0", "uid": "x", "container": "main", "at": "2026-11-30T09:58:00Z", "message": ""}


@settings(max_examples=60)
@example({"placements": [{**PLACEMENT, "uid": "x"}]})
@example({"outOfMemory": {**TROUBLE, "code": "NoFitError"}})
@example({"outOfMemory": {**TROUBLE, "code": "OOM", "at": "9999-12-31T23:59:59Z"}})
@given(accepted(OF_PLACEMENTS, ("chat-1", "chat-5d4f", "t4", *OWNERS)))
def test_a_model_placement(status: dict[str, Any]) -> None:
    jsonschema.validate(status, OF_PLACEMENTS)
    asyncio.run(_report(status))


async def _report(status: Mapping[str, Any]) -> None:
    workload = Workload()
    workload.say({})
    await workload.look(NOW)
    truth = workload.status
    workload.say(status)
    with no_traceback():
        await workload.look(NOW)
        now = workload.status
        await workload.look(LONG_AFTER)
    assert _plain(now) == _plain(truth) or now.get("refusals") or now.get("outOfMemory")
    assert {key: now[key] for key in ("wanted", "placed", "where", "placements")} == {
        key: truth[key] for key in ("wanted", "placed", "where", "placements")
    }
    later = workload.status
    assert not later.get("refusals")
    if not later.get("outOfMemory"):
        assert _plain(later) == _plain(truth)
    assert all(each["until"] <= in_seconds(NOW + timedelta(hours=1)) for each in now["history"])
    jsonschema.validate(later, OF_PLACEMENTS)


def _plain(status: Mapping[str, Any]) -> dict[str, Any]:
    """What a status says of now."""
    conditions = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    past = {"history", "conditions", "refusals"}
    return {**{key: value for key, value in status.items() if key not in past}, "conditions": conditions}


@settings(max_examples=60)
@example({"cards": [{**HUGE, "index": 0}, {**HUGE, "index": 1}, {**HUGE, "index": 2}]})
@given(accepted(OF_NODES, (ID, OTHER, "a" * 70, "nvidia.com/gpu", "cuda", "12.4", *TEXTS)))
def test_a_gpu_node(status: dict[str, Any]) -> None:
    jsonschema.validate(status, OF_NODES)
    asyncio.run(_publish(status))


async def _publish(status: Mapping[str, Any]) -> None:
    objects = ObjectStore()
    client, _ = in_process_client(Network(Api(objects)))
    cluster = Cluster()
    node = a_node("t4")
    store(objects, paths.nodes(), node.raw())
    cluster.node_upserted(node_facts(node.raw()))
    pod = a_pod("chat-1").limited_to({CARD: "6"}).requesting({CARD: "6"}).label(names.RESERVATION, ID).on("t4")
    store(objects, paths.pods("models"), pod.raw())
    cluster.pod_upserted(pod.facts())
    raw = store(objects, paths.gpu_nodes(), {**gpu_node("t4"), "status": status})
    with no_traceback():
        cluster.gpu_node_upserted(read_gpu_node(raw, exclusive=False))
        keeper = a_keeper(client, cluster, Ledger(client, cluster, exclusive=False), ttl_s=0.0, kept_s=0.0)
        managed = ManagedNodes(client, cluster, lambda: datetime.now(UTC), exclusive=False)
        for _ in range(3):
            await keeper.reconcile("t4")
            await managed.reconcile("t4")
        await keeper.reconcile("t4")
    stored = objects.get(place_of(paths.gpu_nodes("t4")))
    known = read_gpu_node(stored, exclusive=False)
    assert known.broken == ()
    (own,) = known.ledger.items()
    assert own[0] == ID
    assert (own[1].shares, own[1].mark) == (((0, 6),), Mark.NONE)
    assert known.summary["reservedGB"] == 6
    jsonschema.validate(stored["status"], OF_NODES)
