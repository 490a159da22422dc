"""Pods end in every way that Kubernetes knows, while models come and go and watches tell of it late."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from hack.devcluster.api import ApiError, Json
from shared.api import names
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.e2e.conftest import Pool
from tests.e2e.creates import create
from tests.e2e.kube import Namespace, deployment, node_of, pod, template, until, workload

_ASKS = {names.VRAM: "3", names.POLICY: "spread"}
_BEHAVIOUR, _COMPLETE = "dev.placement/behaviour", "dev.placement/complete-after"
_NODES = "/api/v1/nodes"
_LONGEST_PAUSE_S = 0.6
_LEAVES_AT_ONCE = [
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    for state in ("not-ready", "unreachable")
]


@dataclass(slots=True)
class _Ends:
    """The ways in which pods end. Those of owners are made again."""

    scene: Scene
    here: Pool
    namespace: Namespace
    chance: Random
    number: int = 0
    missing: set[str] = field(default_factory=set)
    """What could not be done yet: the pod was gone already each time."""

    def begin(self) -> None:
        """Owners whose pods will end."""
        here = self.here.name
        for manifest in (
            deployment("chat", _ASKS, pool=here, replicas=6),
            workload("StatefulSet", "embed", template("embed", _ASKS, here), replicas=3),
            deployment("far", {**_ASKS, _BEHAVIOUR: "linger"}, pool=here, replicas=3, tolerations=_LEAVES_AT_ONCE),
        ):
            self.namespace.create(manifest)
            self.scene.created["by owners"] += manifest["spec"]["replicas"]
        for name, count in (("chat", 6), ("embed", 3), ("far", 3)):
            self.namespace.running(name, count)

    def each(self) -> None:
        """All of them once, in any order."""
        acts: list[Callable[[], None]] = [
            self.finished,
            self.failed,
            self.evicted,
            self.evicted_by_its_kubelet,
            self.rejected,
            self.force_deleted,
            self.replaced,
            self.crashes,
            self.orphaned,
            self.namespace_deleted,
            self.unreachable,
        ]
        first = self.number == 0
        for act in self.chance.sample(acts, len(acts)):
            self.number += 1
            name = act.__name__.replace("_", " ")
            self.scene.tell(name)
            try:
                act()
            except ApiError:  # the pod went just before
                self.missing |= {name} if first else set()
            else:
                self.missing.discard(name)
            time.sleep(self.chance.uniform(0.0, _LONGEST_PAUSE_S))

    def finished(self) -> None:
        self._bare(_COMPLETE, "200ms")

    def failed(self) -> None:
        self._bare(_BEHAVIOUR, "fail")

    def _bare(self, annotation: str, value: str) -> None:
        manifest = pod(f"bare-{self.number}", {**_ASKS, annotation: value}, pool=self.here.name)
        self.scene.count([create(self.namespace, manifest)])

    def evicted(self) -> None:
        name = self._one("chat")
        metadata = {"name": name, "namespace": self.namespace.name}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        self.scene.api.create(f"{self.namespace.path('Pod', name)}/eviction", body)

    def evicted_by_its_kubelet(self) -> None:
        self._status(
            "chat", {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
        )

    def rejected(self) -> None:
        said = f"Allocate failed due to requested number of devices unavailable for {names.card_resource(0)}"
        self._status("chat", {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": said})

    def force_deleted(self) -> None:
        self._force(self._one("chat"))

    def replaced(self) -> None:
        """A pod of the same name comes."""
        self._force(self._one("embed"))

    def crashes(self) -> None:
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
        container = {"name": "server", "image": "any", "imageID": "", "ready": False, "restartCount": 1, "state": state}
        self._status("embed", {"containerStatuses": [container]})

    def orphaned(self) -> None:
        """A ReplicaSet goes and leaves its pods behind."""
        name = f"loose-{self.number}"
        pods = template(name, _ASKS, self.here.name)
        self.namespace.create(workload("ReplicaSet", name, pods, replicas=2))
        until("its pods are there", lambda: len(self.namespace.pods(name)) == 2)
        options = {"kind": "DeleteOptions", "propagationPolicy": "Orphan"}
        self.scene.api.request("DELETE", self.namespace.path("ReplicaSet", name), options)

    def namespace_deleted(self) -> None:
        going = self.scene.make_namespace()
        going.create(deployment("chat", _ASKS, pool=self.here.name, replicas=2))
        until("its pods are there", lambda: len(going.pods("chat")) == 2)
        self.scene.api.delete(f"/api/v1/namespaces/{going.name}")

    def unreachable(self) -> None:
        """A node says nothing more: its pods are deleted, and stay until it is back or somebody gives them up."""
        left = self.here.nodes[1:]
        node = self.chance.choice([at for each in self.namespace.pods("far") if (at := node_of(each)) in left])
        self._ready(node, "False")
        until("a pod is on its way out for good", self._leaving)
        time.sleep(self.chance.uniform(0.0, 2.0))
        for each in self._leaving():
            self._force(each)
        self._ready(node, "True")

    def _leaving(self) -> list[str]:
        far = self.namespace.listed("Pod", app="far")
        return [each["metadata"]["name"] for each in far if "deletionTimestamp" in each["metadata"]]

    def _ready(self, node: str, status: str) -> None:
        conditions = [{"type": "Ready", "status": status, "reason": "Chaos"}]
        path = f"{_NODES}/{node}/status"
        content_type = "application/strategic-merge-patch+json"
        self.scene.api.request("PATCH", path, {"status": {"conditions": conditions}}, content_type=content_type)

    def _one(self, app: str) -> str:
        return str(self.chance.choice(self.namespace.pods(app))["metadata"]["name"])

    def _status(self, app: str, status: Json) -> None:
        self.scene.api.merge(self.namespace.path("Pod", self._one(app)) + "/status", {"status": status})

    def _force(self, name: str) -> None:
        self.scene.api.delete(self.namespace.path("Pod", name) + "?gracePeriodSeconds=0")


def _pod_ends(scene: Scene) -> None:
    here, namespace = scene.pool(24, 24, nodes=4), scene.make_namespace()
    ends = _Ends(scene, here, namespace, scene.chance("ends"))
    ends.begin()
    chance = scene.chance("watches")
    with scene.load(callers=2):
        scene.tell("node object deleted", here.nodes[0])
        scene.api.delete(f"{_NODES}/{here.nodes[0]}")  # for good: its pods are collected a minute later
        for _ in scene.lasting(lambda: not ends.missing):
            deaf = chance.choice(list(scene.operator.proxies.values()))
            deaf.hold_watches()
            ends.each()
            deaf.release()
    assert not ends.missing, f"never done: {', '.join(sorted(ends.missing))}"


POD_ENDS = Scenario("pod-ends", _pod_ends, 25.0, least_admitted=20)
