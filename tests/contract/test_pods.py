"""The rules for pods that the fake API server's side plays, held to what the real server says of the same pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from shared.kube import paths
from shared.kube.client import Json, KubeClient
from shared.kube.errors import ApiError, Forbidden, Invalid, NotFound
from tests.cases.stages import pod_security_refusal, quota_refusal
from tests.contract.widgets import fresh_name
from tests.fakes.api import merged
from tests.fakes.pod_rules import problems_of_new, problems_of_update, with_defaults

NIC = "example.com/nic"
CANARY = "example.com/canary"
"""Of which no quota of the tests lets anybody have one."""
SECURE = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
GATE: Json = {"schedulingGates": [{"name": "example.com/gate"}]}

Namespace: TypeAlias = str


def a_pod(limits: Json | None = None, requests: Json | None = None, **spec: Any) -> Json:
    """A pod with these resources on its only container. `spec` is merged in, `container` into the container."""
    amounts = {"limits": limits, "requests": requests}
    resources = {key: value for key, value in amounts.items() if value is not None}
    container = {"name": "server", "image": "i", "resources": resources, **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": fresh_name()},
        "spec": {"containers": [container], **spec},
    }


def terms(*expressions: Json) -> Json:
    """A spec's affinity: one required term of these expressions, or none."""
    required = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
DISK = {"key": "disk", "operator": "Exists"}


@pytest.fixture
async def real(request: pytest.FixtureRequest) -> Any:
    """A client of the real server, or None where the model is asked."""
    if request.param == "model":
        yield None
        return
    async with await KubeClient.connect(request.getfixturevalue("real_kubeconfig")) as client:
        await _until(lambda: client.get("/api/v1/namespaces/default/serviceaccounts/default"))
        yield client


both = pytest.mark.parametrize("real", ["model", pytest.param("real", marks=pytest.mark.e2e)], indirect=True)


@both
@pytest.mark.parametrize(
    ("pod", "stored"),
    [
        pytest.param(a_pod(), True, id="no resources"),
        pytest.param(a_pod({NIC: "2"}), True, id="requests come from limits"),
        pytest.param(a_pod({NIC: "2"}, {NIC: "2"}), True, id="equal"),
        pytest.param(a_pod({NIC: "2"}, {NIC: "2000m"}), True, id="equal in another form"),
        pytest.param(a_pod({NIC: "2"}, {NIC: "1"}), False, id="requests differ from limits"),
        pytest.param(a_pod(None, {NIC: "1"}), False, id="requests without limits"),
        pytest.param(a_pod({NIC: "1.5"}), False, id="part of a device"),
        pytest.param(a_pod({NIC: "1e0"}), True, id="an exponent"),
        pytest.param(a_pod({NIC: 1}), True, id="a number"),
        pytest.param(a_pod({NIC: "-1"}), False, id="less than none"),
        pytest.param(a_pod({NIC: "one"}), False, id="no quantity"),
        pytest.param(a_pod({"cpu": "1"}, {"cpu": "500m"}), True, id="less cpu than the limit"),
        pytest.param(a_pod({"cpu": "1"}, {"cpu": "2"}), False, id="more cpu than the limit"),
        pytest.param(a_pod({"gpu": "1"}), False, id="a name without a domain"),
        pytest.param(a_pod({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "2Mi"}), False, id="huge pages are not shared"),
        pytest.param(a_pod(containers=[]), False, id="no container"),
        pytest.param(a_pod(initContainers=[{"name": "server", "image": "i"}]), False, id="one name twice"),
        pytest.param(
            a_pod(initContainers=[{"name": "init", "image": "i", "resources": {"limits": {NIC: "0.5"}}}]),
            False,
            id="init containers as well",
        ),
    ],
)
async def test_a_new_pod(real: KubeClient | None, pod: Json, stored: bool) -> None:
    if real is None:
        assert (not problems_of_new(with_defaults(pod))) is stored
        return
    refused: ApiError | None = None
    try:
        await real.create(paths.pods("default"), pod, {"dryRun": "All"})
    except ApiError as error:
        refused = error
    assert (refused is None) is stored, refused
    assert refused is None or refused.status in {400, 422}


@both
async def test_requests_are_filled_in_from_limits(real: KubeClient | None) -> None:
    pod = a_pod({NIC: "2", "cpu": "1", "memory": "1Gi"}, {"cpu": "500m"})
    read = with_defaults(pod) if real is None else await real.create(paths.pods("default"), pod, {"dryRun": "All"})
    assert read["spec"]["containers"][0]["resources"] == {
        "limits": {NIC: "2", "cpu": "1", "memory": "1Gi"},
        "requests": {NIC: "2", "cpu": "500m", "memory": "1Gi"},
    }


@both
@pytest.mark.parametrize(
    ("pod", "change", "subresource", "stored"),
    [
        pytest.param(a_pod(), {"metadata": {"labels": {"a": "b"}}}, "", True, id="labels"),
        pytest.param(a_pod(), {"spec": {"hostname": "h"}}, "", False, id="what is fixed"),
        pytest.param(a_pod(), {"spec": {"activeDeadlineSeconds": 60}}, "", True, id="a deadline"),
        pytest.param(a_pod(), {"spec": {"affinity": terms(ZONE)}}, "", False, id="affinity"),
        pytest.param(a_pod(**GATE), {"spec": {"affinity": terms(ZONE)}}, "", True, id="affinity of a gated pod"),
        pytest.param(
            a_pod(**GATE, affinity=terms(ZONE)), {"spec": {"affinity": terms(ZONE, DISK)}}, "", True, id="narrower"
        ),
        pytest.param(a_pod(**GATE, affinity=terms(ZONE)), {"spec": {"affinity": terms(DISK)}}, "", False, id="wider"),
        pytest.param(a_pod(**GATE), {"spec": {"nodeSelector": {"a": "b"}}}, "", True, id="selector of a gated pod"),
        pytest.param(a_pod(**GATE), {"spec": {"schedulingGates": None}}, "", True, id="gates go"),
        pytest.param(a_pod(), {"spec": GATE}, "", False, id="gates come"),
    ],
)
async def test_an_update(real: KubeClient | None, pod: Json, change: Json, subresource: str, stored: bool) -> None:
    if real is None:
        old = with_defaults(pod)
        assert (not problems_of_update(old, merged(old, change), subresource)) is stored
        return
    named = {**pod, "metadata": {**pod["metadata"], "name": fresh_name()}}
    created = await real.create(paths.pods("default"), named)
    path = paths.pods("default", created["metadata"]["name"])
    refused: Invalid | None = None
    try:
        await real.merge_patch(path, change)
    except Invalid as error:
        refused = error
    await real.delete(path, {"gracePeriodSeconds": 0})
    assert (refused is None) is stored, refused


async def _in_namespace(client: KubeClient, labels: Json, hard: Json | None = None) -> Namespace:
    name = fresh_name()
    await client.create(paths.namespaces(), {"metadata": {"name": name, "labels": labels}})
    if hard is not None:
        quota = {"metadata": {"name": "case"}, "spec": {"hard": {**hard, f"requests.{CANARY}": "0"}}}
        await client.create(f"/api/v1/namespaces/{name}/resourcequotas", quota)
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    await _until(lambda: client.get(account))
    if hard is not None:

        async def refused() -> Json:
            """Its status is written a moment before the admission goes by it."""
            try:
                await client.create(paths.pods(name), a_pod({CANARY: "1"}), {"dryRun": "All"})
            except Forbidden as error:
                if "quota: case" in str(error):
                    return {}
            raise NotFound(404, "NotFound", "not in force yet")

        await _until(refused)
    return name


async def _until(found: Callable[[], Awaitable[Json]]) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                await found()
            except NotFound:
                await asyncio.sleep(0.05)
            else:
                return


@both
@pytest.mark.parametrize(
    ("hard", "pods", "allowed"),
    [
        pytest.param({f"requests.{NIC}": "3"}, [a_pod({NIC: "2"}), a_pod({NIC: "2"})], [True, False], id="too many"),
        pytest.param({f"requests.{NIC}": "4"}, [a_pod({NIC: "2"}), a_pod({NIC: "2"})], [True, True], id="just enough"),
        pytest.param({"pods": "1"}, [a_pod(), a_pod()], [True, False], id="pods"),
        pytest.param({"requests.cpu": "2"}, [a_pod(), a_pod({"cpu": "1"})], [False, True], id="cpu has to be said"),
        pytest.param({f"requests.{NIC}": "0"}, [a_pod()], [True], id="nothing of what is capped"),
    ],
)
async def test_a_quota(real: KubeClient | None, hard: Json, pods: list[Json], allowed: list[bool]) -> None:
    answers: list[bool] = []
    if real is None:
        stored: list[Json] = []
        for pod in map(with_defaults, pods):
            answers.append(quota_refusal(hard, stored, pod) is None)
            stored += [pod] if answers[-1] else []
    else:
        namespace = await _in_namespace(real, {}, hard)
        for pod in pods:
            try:
                await real.create(paths.pods(namespace), pod)
                answers.append(True)
            except Forbidden:
                answers.append(False)
    assert answers == allowed


@both
@pytest.mark.parametrize(
    ("pod", "allowed"),
    [
        pytest.param(a_pod(), False, id="says nothing"),
        pytest.param(a_pod(container={"securityContext": SECURE}), True, id="restricted"),
        pytest.param(
            a_pod(container={"securityContext": {**SECURE, "allowPrivilegeEscalation": None, "privileged": True}}),
            False,
            id="privileged",
        ),
        pytest.param(a_pod(container={"securityContext": {**SECURE, "runAsUser": 0}}), False, id="root"),
        pytest.param(a_pod(container={"securityContext": SECURE}, hostNetwork=True), False, id="host network"),
        pytest.param(
            a_pod(
                container={"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}},
                securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            ),
            True,
            id="said for the whole pod",
        ),
        pytest.param(
            a_pod(container={"securityContext": SECURE}, volumes=[{"name": "h", "hostPath": {"path": "/"}}]),
            False,
            id="host path",
        ),
        pytest.param(
            a_pod(container={"securityContext": SECURE, "ports": [{"containerPort": 1, "hostPort": 1}]}),
            False,
            id="host port",
        ),
        pytest.param(
            a_pod(container={"securityContext": SECURE}, volumes=[{"name": "e", "emptyDir": {}}]), True, id="empty dir"
        ),
    ],
)
async def test_pod_security(real: KubeClient | None, pod: Json, allowed: bool) -> None:
    if real is None:
        assert (pod_security_refusal(pod) is None) is allowed
        return
    namespace = await _in_namespace(real, {"pod-security.kubernetes.io/enforce": "restricted"})
    try:
        await real.create(paths.pods(namespace), pod, {"dryRun": "All"})
    except Forbidden:
        assert not allowed
    else:
        assert allowed
