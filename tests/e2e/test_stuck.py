"""Pods that would never run are explained, placed again or cleared away; and a custom kind of owner is woken."""

from __future__ import annotations

import http
import itertools
import os
from collections.abc import Iterator

import pytest

from hack.devcluster.api import Api, ApiError, Json
from hack.devcluster.cluster import DevCluster
from hack.devcluster.operator import Operator
from shared.api import names
from tests.e2e.conftest import PATIENT, MakePool, Pool, Stage
from tests.e2e.creates import Outcome, create
from tests.e2e.kube import Namespace, deployment, find, node_of, phase, pod, shares, template, until, wait_balanced

pytestmark = pytest.mark.e2e

_GROUP = "example.org"
_GATE = {"name": "example.org/later"}
_CONTROLLER = "system:serviceaccount:placement-system:placement-operator-controller"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A cluster of its own, whose operator soon calls a pod stuck and may wake a custom kind."""
    if os.environ.get("E2E_KUBECONFIG"):
        pytest.skip("E2E_KUBECONFIG is set: this needs an operator that is installed with other values")
    kind = {"apiVersion": f"{_GROUP}/v1", "kind": "ModelGroup", "plural": "modelgroups", "wake": True}
    values = {**PATIENT, "placement": {"stuckAfterSeconds": 2}, "ownerKinds": [kind]}
    with DevCluster() as cluster, Operator(cluster, values=values) as operator:
        yield Stage(cluster, operator)


def _elsewhere(namespace: Namespace, app: str, old: Json) -> Json:
    """Waits until the only pod of `app` is on another node than `old`, and returns it."""

    def moved() -> list[Json]:
        pods = namespace.pods(app)
        return pods if len(pods) == 1 and node_of(pods[0]) not in {"", node_of(old)} else []

    return until(f"{app} is placed elsewhere", moved)[0]


def _told(namespace: Namespace, kind: str, name: str, reason: str) -> str:
    """Waits for an event about an object and returns its last message."""

    def read() -> list[str]:
        return [event["message"] for event in namespace.events(kind, name, reason)]

    return until(f"{kind} {name} is told {reason}", read)[-1]


def test_a_pod_whose_node_is_cordoned_before_it_is_bound_is_placed_elsewhere(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    """No scheduler says a word about it, since none of that name exists."""
    here = pool(16, nodes=2)
    namespace.create(deployment("chat", {names.VRAM: "6"}, pool=here.name, schedulerName="nobody"))
    (old,) = until("it is placed", lambda: namespace.pods("chat"))
    stage.api.merge(f"/api/v1/nodes/{node_of(old)}", {"spec": {"unschedulable": True}})
    new = _elsewhere(namespace, "chat", old)
    assert shares(new) == {0: 6}
    name = old["metadata"]["name"]
    message = _told(namespace, "Pod", name, "Stuck")
    assert message.startswith(f"pod {name} is placed on node {node_of(old)} and not bound to it: ")
    assert f"node {node_of(old)} is cordoned; it was deleted, so that ReplicaSet chat-" in message
    assert _told(namespace, "Deployment", "chat", "Stuck") == message
    wait_balanced(stage.api, here.nodes)


def test_a_pod_whose_node_is_tainted_while_it_is_gated_is_placed_elsewhere_once_its_gate_goes(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16, nodes=2)
    namespace.create(deployment("chat", {names.VRAM: "6"}, pool=here.name, schedulingGates=[_GATE]))
    (old,) = until("it is placed", lambda: namespace.pods("chat"))
    taint = {"key": "reserved", "value": "yes", "effect": "NoSchedule"}
    stage.api.merge(f"/api/v1/nodes/{node_of(old)}", {"spec": {"taints": [taint]}})
    _wait_closed(namespace, node_of(old))
    namespace.merge("Pod", old["metadata"]["name"], {"spec": {"schedulingGates": None}})
    new = _elsewhere(namespace, "chat", old)
    message = _told(namespace, "Pod", old["metadata"]["name"], "Stuck")
    # The scheduler's words; the node's own where the scheduler has said nothing yet.
    assert "nodes are available: " in message or "has a taint that the pod does not tolerate" in message
    namespace.merge("Pod", new["metadata"]["name"], {"spec": {"schedulingGates": None}})
    assert node_of(namespace.running("chat")[0]) == node_of(new)
    wait_balanced(stage.api, here.nodes)


def test_a_bare_pod_without_a_way_out_is_explained_and_stays(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(pod("chat", {names.VRAM: "6"}, pool=here.name, schedulingGates=[_GATE]))
    stage.api.merge(f"/api/v1/nodes/{here.node}", {"spec": {"unschedulable": True}})
    _wait_closed(namespace, here.node)
    namespace.merge("Pod", "chat", {"spec": {"schedulingGates": None}})
    assert "delete it and create it anew" in _told(namespace, "Pod", "chat", "Stuck")
    assert phase(namespace.get("Pod", "chat")) == "Pending"
    wait_balanced(stage.api, here.nodes)


def test_pods_that_the_kubelet_rejects_are_followed_by_placed_ones_and_do_not_pile_up(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(deployment("chat", {names.VRAM: "10"}, pool=here.name))
    dead = []
    for _ in range(3):
        (running,) = until("one runs", lambda: [each for each in namespace.pods("chat") if phase(each) == "Running"])
        dead.append(_reject(namespace, running))
    until(
        "none of them is left beside the one that runs",
        lambda: (
            [(each["metadata"]["name"] in dead, phase(each)) for each in namespace.pods("chat")] == [(False, "Running")]
        ),
    )
    message = _told(namespace, "Deployment", "chat", "Rejected")
    assert message.startswith(f"the kubelet of node {here.node} rejected a pod (UnexpectedAdmissionError): ")
    wait_balanced(stage.api, here.nodes)


def _wait_closed(namespace: Namespace, node: str) -> None:
    """Waits until the scheduler has heard that a node takes no more pods."""
    numbers = itertools.count()

    def refuses_a_pod() -> bool:
        name = f"probe-{next(numbers)}"
        namespace.create(pod(name, nodeSelector={"kubernetes.io/hostname": node}))
        decided = until("the scheduler has decided", lambda: _scheduled(namespace.get("Pod", name)))
        namespace.delete("Pod", name)
        return decided == "False"

    until("the scheduler knows that the node is closed", refuses_a_pod)


def _scheduled(stored: Json) -> str:
    """The status of a pod's condition `PodScheduled`; empty as long as there is none."""
    conditions = stored["status"].get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == "PodScheduled"), "")


def _reject(namespace: Namespace, running: Json) -> str:
    """Does to a pod what a kubelet does that has fewer devices than the scheduler counts; its name."""
    name = str(running["metadata"]["name"])
    card = names.card_resource(0)
    said = f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {card}."
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": said}
    namespace.api.merge(namespace.path("Pod", name) + "/status", {"status": status})
    return name


@pytest.fixture(scope="module")
def model_groups(stage: Stage) -> str:
    """A small custom kind with a template of pods; the path of its objects under a namespace."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    spec = {
        "group": _GROUP,
        "scope": "Namespaced",
        "names": {"plural": "modelgroups", "singular": "modelgroup", "kind": "ModelGroup"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    metadata = {"name": f"modelgroups.{_GROUP}"}
    stage.api.create(
        path,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": spec,
        },
    )
    until("it is served", lambda: _is_served(stage.api, f"/apis/{_GROUP}/v1/modelgroups"))
    return f"/apis/{_GROUP}/v1/namespaces"


def _is_served(api: Api, path: str) -> bool:
    """Whether a new kind can be listed: at first it is not there, and then its storage may not be ready."""
    try:
        return find(api, path) is not None
    except ApiError as error:
        if error.status == http.HTTPStatus.TOO_MANY_REQUESTS:
            return False
        raise


def test_a_custom_kind_is_woken_when_there_is_room_and_nothing_else_of_it_may_be_changed(
    stage: Stage, pool: MakePool, namespace: Namespace, model_groups: str
) -> None:
    """The test does what the kind's controller would do."""
    here: Pool = pool(16)
    namespace.create(pod("holder", {names.VRAM: "10"}, pool=here.name))
    namespace.running("holder")
    path = f"{model_groups}/{namespace.name}/modelgroups"
    body = {"groups": [{"name": "workers", "template": template("chat", {names.VRAM: "10"}, here.name)}]}
    group = stage.api.create(
        path, {"apiVersion": f"{_GROUP}/v1", "kind": "ModelGroup", "metadata": {"name": "chat"}, "spec": body}
    )
    manifest = pod("chat-0", {names.VRAM: "10"}, pool=here.name)
    reference = {"apiVersion": f"{_GROUP}/v1", "kind": "ModelGroup", "name": "chat", "controller": True}
    manifest["metadata"]["ownerReferences"] = [{**reference, "uid": group["metadata"]["uid"]}]
    assert "insufficient_capacity" in str(namespace.refusal(manifest))
    namespace.waiting("chat", "insufficient_capacity", kind="ModelGroup")
    assert _woken(stage.api, path) is None

    namespace.delete("Pod", "holder")
    until("it is woken", lambda: _woken(stage.api, path))
    assert stage.api.get(f"{path}/chat")["spec"] == body
    # The controller may know sooner than the webhook that the holder is gone.
    until("there is room", lambda: create(namespace, manifest).outcome is Outcome.ADMITTED)
    assert shares(namespace.running("chat-0")[0]) == {0: 10}

    changes = {"spec": '{"spec": {"groups": []}}', "label": '{"metadata": {"labels": {"a": "b"}}}'}
    for what, change in changes.items():
        arguments = ("patch", "modelgroup", "chat", "-n", namespace.name, "--type=merge", "-p", change)
        answer = stage.cluster.kubectl(*arguments, f"--as={_CONTROLLER}", check=False)
        assert "nothing but the annotation kamiwaza.ai/woken" in answer.stderr, what


def test_the_controller_may_delete_no_pod_that_was_not_placed(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(pod("placed", {names.VRAM: "2"}, pool=here.name))
    namespace.create(pod("other", pool=here.name))
    for name, allowed in (("other", False), ("placed", True)):
        arguments = ("delete", "pod", name, "-n", namespace.name, "--wait=false", f"--as={_CONTROLLER}")
        answer = stage.cluster.kubectl(*arguments, check=False)
        assert ("delete no pod without the label kamiwaza.ai/reservation" in answer.stderr) is not allowed


def _woken(api: Api, path: str) -> str | None:
    woken: str | None = api.get(f"{path}/chat")["metadata"].get("annotations", {}).get(names.WOKEN)
    return woken
