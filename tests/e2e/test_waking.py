"""A workload that was refused is placed by itself as soon as something makes room for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from hack.devcluster.api import Api, Json
from hack.devcluster.cluster import DevCluster
from hack.devcluster.nodes import AGENT_FIELD_MANAGER, GPU_NODES
from hack.devcluster.operator import Operator
from shared.api import names
from tests.e2e.conftest import AnyCluster, MakeNamespace, MakePool, Pool, Stage, admitted, namespaces
from tests.e2e.kube import (
    IMAGE,
    Namespace,
    deployment,
    gpu_node,
    node_of,
    phase,
    pod,
    shares,
    template,
    until,
    wait_balanced,
    workload,
)

pytestmark = pytest.mark.e2e

_PROMISE_S = 15.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A workload that has no place in `pool`, and the change that gives it one."""

    pool: Pool
    change: Callable[[], object]
    asks: dict[str, str] = field(default_factory=lambda: {names.VRAM: "10"})
    kind: str = "Deployment"
    spec: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Set:
    """What scenes are built from."""

    stage: Stage
    pool: MakePool
    tenant: Namespace

    @property
    def api(self) -> Api:
        return self.stage.api

    def node(self, name: str, patch: Json, subresource: str = "") -> None:
        self.api.merge(f"/api/v1/nodes/{name}{subresource}", patch)

    def wishes(self, name: str, wishes: Json) -> None:
        """What an admin writes about the cards of a node."""
        self.api.merge(f"{GPU_NODES}/{name}", {"spec": wishes})

    def agent(self, name: str, **changes: Any) -> None:
        """What the agent of a node says, changed: fields of its first card, or of the status."""
        status = gpu_node(self.api, name)["status"]
        cards = [{**card, **changes.get("card", {})} for card in status["cards"]]
        said = {key: status[key] for key in ("accelVersions", "injection")} | changes.get("status", {})
        body = {"apiVersion": names.API_VERSION, "kind": names.GPU_NODE, "metadata": {"name": name}}
        full = {**body, "status": {**said, "cards": cards}}
        self.api.apply(f"{GPU_NODES}/{name}/status", full, manager=AGENT_FIELD_MANAGER)

    def holder(self, name: str, here: Pool, asks: dict[str, str] | None = None, **spec: Any) -> Callable[[], object]:
        """A pod that is in the way; returns what takes it away."""
        self.tenant.create(pod(name, {names.VRAM: "10"} if asks is None else asks, pool=here.name, **spec))
        self.tenant.running(name)
        return lambda: self.tenant.delete("Pod", name)


def _memory_freed(on: Set, kind: str) -> Scene:
    here = on.pool(16)
    return Scene(here, on.holder(f"holder-{kind.lower()}", here), kind=kind)


def _node_uncordoned(on: Set) -> Scene:
    here = on.pool(16)
    on.node(here.node, {"spec": {"unschedulable": True}})
    return Scene(here, lambda: on.node(here.node, {"spec": {"unschedulable": None}}))


def _taint_removed(on: Set) -> Scene:
    here = on.pool(16, taints=[{"key": "reserved", "value": "yes", "effect": "NoSchedule"}])
    return Scene(here, lambda: on.node(here.node, {"spec": {"taints": None}}))


def _node_labelled(on: Set) -> Scene:
    here = on.pool(16)
    selector = {"pool": here.name, "disk": "fast"}
    change = {"metadata": {"labels": {"disk": "fast"}}}
    return Scene(here, lambda: on.node(here.node, change), spec={"nodeSelector": selector})


def _node_added(on: Set) -> Scene:
    here = on.pool(8)
    return Scene(here, lambda: on.pool(16, labels={"pool": here.name}))


def _node_ready(on: Set) -> Scene:
    here = on.pool(16)

    def set_ready(status: str) -> None:
        conditions = [{"type": "Ready", "status": status, "reason": "Test", "message": ""}]
        path = f"/api/v1/nodes/{here.node}/status"
        content_type = "application/strategic-merge-patch+json"
        on.api.request("PATCH", path, {"status": {"conditions": conditions}}, content_type=content_type)

    set_ready("False")
    return Scene(here, lambda: set_ready("True"))


def _node_grown(on: Set) -> Scene:
    here = on.pool(16, cpu="1")
    grown = {"status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}}
    return Scene(here, lambda: on.node(here.node, grown, "/status"), spec=_with_cpu("2"))


def _cpu_freed(on: Set) -> Scene:
    here = on.pool(16, cpu="4")
    return Scene(here, on.holder("cpu-holder", here, {}, **_with_cpu("3")), spec=_with_cpu("2"))


def _peer_gone(on: Set) -> Scene:
    here = on.pool(16)
    term = {"labelSelector": {"matchLabels": {"app": "peer"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return Scene(here, on.holder("peer", here, {}), spec={"affinity": apart})


def _card_healthy(on: Set) -> Scene:
    here = on.pool(16)
    on.agent(here.node, card={"healthy": False})
    return Scene(here, lambda: on.agent(here.node, card={"healthy": True}))


def _foreign_use_ended(on: Set) -> Scene:
    here = on.pool(16)
    on.agent(here.node, card={"foreignGB": 12})
    return Scene(here, lambda: on.agent(here.node, card={"foreignGB": 0}))


def _driver_updated(on: Set) -> Scene:
    here = on.pool(16, cuda="12.4")
    asks = {names.VRAM: "10", names.ACCEL_VERSION: "cuda>=13.0"}
    return Scene(here, lambda: on.agent(here.node, status={"accelVersions": {"cuda": "13.0"}}), asks)


def _card_uncordoned(on: Set) -> Scene:
    here = on.pool(16)
    on.wishes(here.node, {"cards": [{"index": 0, "cordoned": True}]})
    return Scene(here, lambda: on.wishes(here.node, {"cards": [{"index": 0, "cordoned": False}]}))


def _headroom_lowered(on: Set) -> Scene:
    here = on.pool(16)
    on.wishes(here.node, {"cards": [{"index": 0, "headroomGB": 8}]})
    return Scene(here, lambda: on.wishes(here.node, {"cards": [{"index": 0, "headroomGB": 2}]}))


_SCENES: dict[str, Callable[[Set], Scene]] = {
    "memory-freed": lambda on: _memory_freed(on, "Deployment"),
    "memory-freed-for-a-stateful-set": lambda on: _memory_freed(on, "StatefulSet"),
    "memory-freed-for-a-daemon-set": lambda on: _memory_freed(on, "DaemonSet"),
    "memory-freed-for-a-job": lambda on: _memory_freed(on, "Job"),
    "memory-freed-for-a-controller": lambda on: _memory_freed(on, "ReplicationController"),
    "node-uncordoned": _node_uncordoned,
    "taint-removed": _taint_removed,
    "node-labelled": _node_labelled,
    "node-added": _node_added,
    "node-ready-again": _node_ready,
    "node-grown": _node_grown,
    "cpu-freed-by-an-ordinary-pod": _cpu_freed,
    "anti-affine-peer-gone": _peer_gone,
    "card-healthy-again": _card_healthy,
    "foreign-use-ended": _foreign_use_ended,
    "driver-updated": _driver_updated,
    "card-uncordoned": _card_uncordoned,
    "headroom-lowered": _headroom_lowered,
}


@pytest.fixture(scope="module")
def tenant(api: Api, module_pool: MakePool) -> Iterator[Namespace]:
    with namespaces(api) as make:
        yield make()


@pytest.fixture(scope="module")
def scenes(stage: Stage, module_pool: MakePool, tenant: Namespace) -> dict[str, Scene]:
    """Every scene, with its workload created."""
    on = Set(stage, module_pool, tenant)

    def build(name: str) -> Scene:
        scene = _SCENES[name](on)
        manifest = _workload(name, scene)
        pods = manifest["spec"]["template"]
        until(f"{name}: the webhooks see why", partial(_is_refused, stage, pods, tenant))
        tenant.create(manifest)
        return scene

    return dict(zip(_SCENES, stage.api.each(build, _SCENES), strict=True))


@pytest.mark.parametrize("name", _SCENES)
def test_it_is_placed_by_itself(api: Api, tenant: Namespace, scenes: dict[str, Scene], name: str) -> None:
    scene = scenes[name]
    until(f"{name} is refused", lambda: tenant.placement(scene.kind, name).get("phase") == "Failed")
    assert not tenant.pods(name)
    scene.change()
    (placed,) = until(f"{name} runs", lambda: _running(tenant, name), within_s=_PROMISE_S)
    assert shares(placed) == {0: 10}
    wait_balanced(api, {node_of(placed), *scene.pool.nodes})
    until("no refusal is left", lambda: not tenant.placement(scene.kind, name).get("refusals"))


def test_the_higher_priority_is_woken_first_and_then_the_older(
    api: Api, cluster: AnyCluster, operator: Operator, pool: MakePool, make_namespace: MakeNamespace
) -> None:
    """The controllers that create pods stand still, so that who is woken can be told from who tried on its own."""
    assert isinstance(cluster, DevCluster)
    here, tenant = pool(16), make_namespace()
    urgent = f"urgent-{tenant.name}"
    scheduling = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.create(scheduling, {"kind": "PriorityClass", "metadata": {"name": urgent}, "value": 1000})
    first, second = (pod(name, {names.VRAM: "8"}, pool=here.name) for name in ("first", "second"))
    for holder in (first, second):
        tenant.create(holder)
    tenant.running("first")

    controllers = cluster.process("kube-controller-manager")
    try:
        classes = {"older": None, "younger": None, "urgent": urgent}
        for name, priority in classes.items():
            tenant.create(deployment(name, {names.VRAM: "8"}, pool=here.name, priorityClassName=priority))
            tenant.waiting(name, "insufficient_capacity")
            _next_second(tenant, name)
        controllers.stop()
        tenant.delete("Pod", "first")
        order: list[str] = []

        def all_are_woken() -> bool:
            """The place passes on, as the one who was woken for it makes nothing of it."""
            woken = _woken(tenant)
            order.extend(sorted(woken.keys() - set(order), key=woken.__getitem__))
            return len(order) == len(classes)

        until("all are woken", all_are_woken)
        assert order == ["urgent", "older", "younger"]
        tenant.delete("Pod", "second")
    finally:
        controllers.restart()
        api.delete(f"{scheduling}/{urgent}")
    until("two are placed", lambda: sum(len(tenant.pods(name)) for name in classes) == 2)
    wait_balanced(api, here.nodes)


def test_a_workload_that_still_does_not_fit_is_left_alone(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    for name in ("first", "second"):
        namespace.create(pod(name, {names.VRAM: "4"}, pool=here.name))
    namespace.create(deployment("small", {names.VRAM: "10"}, pool=here.name))
    namespace.create(deployment("large", {names.VRAM: "16"}, pool=here.name))
    for name in ("small", "large"):
        namespace.waiting(name, "insufficient_capacity")
    namespace.delete("Pod", "first")
    namespace.running("small")
    (large,) = namespace.listed("ReplicaSet", app="large")
    assert names.WOKEN not in large["metadata"].get("annotations", {})


def test_one_whose_report_was_deleted_waits_on(
    cluster: AnyCluster, operator: Operator, pool: MakePool, namespace: Namespace
) -> None:
    """The controllers that create pods stand still: nobody tries on its own."""
    assert isinstance(cluster, DevCluster)
    here = pool(16)
    namespace.create(pod("holder", {names.VRAM: "10"}, pool=here.name))
    namespace.running("holder")
    namespace.create(deployment("late", {names.VRAM: "10"}, pool=here.name))
    refusals = namespace.waiting("late", "insufficient_capacity")["refusals"]
    controllers = cluster.process("kube-controller-manager")
    try:
        controllers.stop()
        namespace.delete(names.MODEL_PLACEMENT, "deployment-late")
        namespace.waiting("late", "insufficient_capacity")
        # A webhook's own report may come first, as of a refusal that is the first one. Then that is put right.
        until(
            "it has waited as long as before",
            lambda: _since(namespace.placement("Deployment", "late").get("refusals") or {}) == _since(refusals),
        )
        assert not _woken(namespace)
        namespace.delete("Pod", "holder")
        until("it is woken", lambda: _woken(namespace))
    finally:
        controllers.restart()
    namespace.running("late")


def test_one_that_was_created_past_the_webhook_waits_no_longer(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    namespace.create(pod("holder", {names.VRAM: "10"}, pool=here.name))
    namespace.running("holder")
    namespace.create(deployment("late", {names.VRAM: "10"}, pool=here.name))
    namespace.waiting("late", "insufficient_capacity")
    path = f"/api/v1/namespaces/{namespace.name}"
    api.merge(path, {"metadata": {"labels": {names.NAMESPACE_LABEL: None}}})
    namespace.running("late")
    api.merge(path, {"metadata": {"labels": {names.NAMESPACE_LABEL: names.MODE_ENABLED}}})

    def is_told() -> bool:
        status = namespace.placement("Deployment", "late")
        return (status.get("phase"), status.get("where")) == ("Pending", "(1 without a place)")

    until("it is told", is_told, within_s=75.0)  # it is looked at every 30 s
    assert not namespace.placement("Deployment", "late").get("refusals")
    before = _woken(namespace)
    namespace.delete("Pod", "holder")
    wait_balanced(api, here.nodes)
    assert _woken(namespace) == before
    (late,) = namespace.pods("late")
    namespace.delete("Pod", late["metadata"]["name"])
    (placed,) = until("it is placed", lambda: [each for each in _running(namespace, "late") if shares(each)])
    assert shares(placed) == {0: 10}
    until("that is told", lambda: namespace.placement("Deployment", "late").get("phase") == "Running")


def _since(refusals: Json) -> dict[str, str]:
    return {key: each["since"] for key, each in refusals.items()}


def _is_refused(stage: Stage, pods: Json, tenant: Namespace) -> bool:
    return admitted(stage, {"kind": "Pod", **pods}, tenant) == {False}


def _workload(name: str, scene: Scene) -> Json:
    if scene.kind == "Job":
        asks = {**scene.asks, "dev.placement/complete-after": "1h"}
        pods = template(name, asks, scene.pool.name, restartPolicy="Never", **scene.spec)
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": pods}}
    pods = template(name, scene.asks, scene.pool.name, **scene.spec)
    if scene.kind == "ReplicationController":
        spec = {"selector": {"app": name}, "template": pods}
        return {"apiVersion": "v1", "kind": scene.kind, "metadata": {"name": name}, "spec": spec}
    return workload(scene.kind, name, pods)


def _with_cpu(amount: str) -> Json:
    return {"containers": [{"name": "server", "image": IMAGE, "resources": {"requests": {"cpu": amount}}}]}


def _running(tenant: Namespace, app: str) -> list[Json]:
    return [pod for pod in tenant.pods(app) if phase(pod) == "Running"]


def _woken(tenant: Namespace) -> dict[str, str]:
    """When each app was woken last."""
    sets = [replica_set["metadata"] for replica_set in tenant.listed("ReplicaSet")]
    woken = ((each["labels"]["app"], each.get("annotations", {}).get(names.WOKEN)) for each in sets)
    return {app: when for app, when in woken if when is not None}


def _next_second(tenant: Namespace, name: str) -> None:
    """Refusals are as old as a whole second tells: lets one pass."""
    (refusal,) = tenant.placement("Deployment", name)["refusals"].values()
    since = refusal["since"]

    def now() -> str:
        lease = tenant.create(pod("clock"), dry_run=True)
        return str(lease["metadata"]["creationTimestamp"])

    until("the next second begins", lambda: now() > since)
