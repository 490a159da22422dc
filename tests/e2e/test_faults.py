"""Processes are killed and the API server is gone: nothing is promised twice, and the work goes on by itself."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from hack.devcluster.api import Api
from hack.devcluster.cluster import DevCluster
from hack.devcluster.nodes import AGENT_FIELD_MANAGER, GPU_NODES
from shared.api import names
from tests.e2e.conftest import MakeNamespace, MakePool
from tests.e2e.creates import Outcome, churn, create, create_at_once
from tests.e2e.kube import Namespace, deployment, gpu_node, pod, until
from tests.e2e.reviews import WebhookPort
from tests.e2e.trouble import CONVERGED_S, OwnStage, own_stage, revive, start_api_server, wait_true_to_pods, watched

pytestmark = pytest.mark.e2e

_OUTAGE_S = 20.0
_UNDER_FIRE_S = 8.0


@pytest.fixture(scope="module")
def stage() -> Iterator[OwnStage]:
    with own_stage() as stage:
        yield stage


@pytest.fixture(autouse=True)
def _all_alive(stage: OwnStage) -> Iterator[None]:
    yield
    revive(*stage.cluster.processes, *stage.operator.processes)


def test_kill_9_at_any_moment_under_load_promises_nothing_twice(
    stage: OwnStage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(26, 26, 26, nodes=3)  # room for 36 pods of 6 GB
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it with a failure
    chance = random.Random(seed)
    with watched(stage.api, here.nodes), churn(namespace, here.name, seed, gb=6) as stream:
        end = time.monotonic() + _UNDER_FIRE_S
        while time.monotonic() < end:
            victim = chance.choice([*stage.operator.webhooks, stage.operator.controller])
            time.sleep(chance.uniform(0.1, 1.0))
            victim.kill()
            time.sleep(chance.uniform(0.0, 0.5))
            victim.start()
        revive(*stage.operator.processes)
        until("models are admitted", lambda: stream.outcomes()[Outcome.ADMITTED])
    outcomes = stream.outcomes()
    print(dict(outcomes))  # noqa: T201 - as above
    wait_true_to_pods(stage.api, here.nodes)


def _freeze(cluster: DevCluster) -> None:
    server = cluster.process("kube-apiserver")
    server.kill(signal.SIGSTOP)
    time.sleep(_OUTAGE_S)
    server.kill(signal.SIGCONT)


def _kill(cluster: DevCluster) -> None:
    cluster.process("kube-apiserver").kill()
    time.sleep(_OUTAGE_S)
    start_api_server(cluster)


@pytest.mark.parametrize("outage", [pytest.param(_freeze, id="frozen"), pytest.param(_kill, id="killed")])
def test_while_the_api_server_is_gone_nothing_is_admitted_unrecorded_and_then_work_goes_on(
    stage: OwnStage, pool: MakePool, namespace: Namespace, outage: Callable[[DevCluster], None]
) -> None:
    full, roomy = pool(12), pool(40)
    nodes = (*full.nodes, *roomy.nodes)
    namespace.create(deployment("holds", {names.VRAM: "12"}, pool=full.name))
    namespace.running("holds")
    namespace.create(deployment("waits", {names.VRAM: "12"}, pool=full.name))
    namespace.waiting("waits", "insufficient_capacity")
    pods = [pod(f"model-{number}", {names.VRAM: "1"}, pool=roomy.name) for number in range(30)]
    with watched(stage.api, nodes):
        with ThreadPoolExecutor(1) as callers:
            creates = callers.submit(create_at_once, namespace, pods)
            time.sleep(0.2)  # so that some are on their way
            outage(stage.cluster)
            creates.result()
        namespace.delete("Deployment", "holds")
        namespace.create(deployment("new", {names.VRAM: "1"}, pool=roomy.name))
        for name in ("new", "waits"):
            until(f"{name} is placed", partial(namespace.pods, name), within_s=CONVERGED_S)
            namespace.running(name)
        wait_true_to_pods(stage.api, nodes)


def test_without_webhooks_only_model_pods_wait(
    stage: OwnStage, pool: MakePool, namespace: Namespace, make_namespace: MakeNamespace
) -> None:
    here, elsewhere = pool(12), make_namespace(None)
    model = pod("model", {names.VRAM: "6"}, pool=here.name)
    for process in stage.operator.webhooks:
        process.kill()
    namespace.create(pod("plain", pool=here.name))
    elsewhere.create(model)
    assert "failed calling webhook" in namespace.refusal(model).message
    namespace.create(deployment("later", {names.VRAM: "6"}, pool=here.name))
    until("the ReplicaSet was refused", lambda: _has_condition(namespace, "later", "ReplicaFailure"))
    revive(*stage.operator.webhooks)
    until("the model is admitted", lambda: create(namespace, model).outcome is Outcome.ADMITTED)
    until("later is placed", partial(namespace.pods, "later"), within_s=CONVERGED_S)
    for name in ("plain", "model", "later"):
        namespace.running(name)
    wait_true_to_pods(stage.api, here.nodes)


def _has_condition(namespace: Namespace, name: str, kind: str) -> bool:
    conditions = namespace.get("Deployment", name)["status"].get("conditions") or ()
    return any((condition["type"], condition["status"]) == (kind, "True") for condition in conditions)


def test_room_promised_to_creates_that_failed_is_given_to_others(
    stage: OwnStage, pool: MakePool, namespace: Namespace, make_namespace: MakeNamespace, webhooks: list[WebhookPort]
) -> None:
    here, strict = pool(12), make_namespace()
    quota = {"spec": {"hard": {f"requests.{names.card_resource(0)}": "0"}}}
    strict.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, **quota})
    until("the quota is in force", lambda: strict.get("ResourceQuota", "none")["status"].get("hard"))
    lost = pod("lost", {names.VRAM: "4"}, pool=here.name)
    assert "exceeded quota" in strict.refusal(lost).message
    for webhook in webhooks:
        assert webhook.mutate(lost, namespace.name).allowed  # nobody creates this pod
    whole = pod("whole", {names.VRAM: "12"}, pool=here.name)

    def refused_by() -> list[str]:
        ask = {webhook.process.name: webhook.mutate(whole, namespace.name, dryRun=True).allowed for webhook in webhooks}
        return [name for name, allowed in ask.items() if not allowed]

    assert len(refused_by()) == len(webhooks), "the room is taken for the time being"
    until("every webhook gives the room away", lambda: not refused_by(), within_s=CONVERGED_S)
    namespace.create(whole)
    namespace.running("whole")
    wait_true_to_pods(stage.api, here.nodes)


def _remove_entries(api: Api, node: str) -> None:
    entries = gpu_node(api, node)["status"]["reservations"]
    _write(api, node, {"reservations": dict.fromkeys(entries)})


def _add_entries(api: Api, node: str) -> None:
    _write(api, node, {"reservations": {"aaaaaaaaaa": "nowhere/00000000;1;0:12", "not an id": "nonsense"}})


def _change_entries(api: Api, node: str) -> None:
    entries = gpu_node(api, node)["status"]["reservations"]
    _write(api, node, {"reservations": dict.fromkeys(entries, "nowhere/00000000;1;1:24")})


def _forget_summary(api: Api, node: str) -> None:
    _write(api, node, {"summary": None})


def _publish_anew(api: Api, node: str) -> None:
    """Deletes the object; the agent publishes the node's cards again."""
    old = gpu_node(api, node)
    path = f"{GPU_NODES}/{node}"
    api.delete(path)
    owners = {"ownerReferences": old["metadata"]["ownerReferences"]}
    kind = {"apiVersion": old["apiVersion"], "kind": old["kind"]}
    api.apply(path, {**kind, "metadata": {"name": node, **owners}}, manager=AGENT_FIELD_MANAGER)
    cards = {"status": {"cards": old["status"]["cards"]}}
    api.apply(f"{path}/status", {**kind, "metadata": {"name": node}, **cards}, manager=AGENT_FIELD_MANAGER)


def _write(api: Api, node: str, status: dict[str, object]) -> None:
    api.merge(f"{GPU_NODES}/{node}/status", {"status": status})


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_remove_entries, id="entries-removed"),
        pytest.param(_add_entries, id="entries-made-up"),
        pytest.param(_change_entries, id="entries-changed"),
        pytest.param(_forget_summary, id="summary-removed"),
        pytest.param(_publish_anew, id="object-deleted-and-published-anew"),
    ],
)
def test_a_ledger_spoilt_by_hand_comes_to_agree_with_the_pods_again(
    stage: OwnStage, pool: MakePool, namespace: Namespace, spoil: Callable[[Api, str], None]
) -> None:
    here = pool(24, 24)
    namespace.create(deployment("chat", {names.VRAM: "7"}, pool=here.name, replicas=5))
    namespace.running("chat", 5)
    wait_true_to_pods(stage.api, here.nodes)
    spoil(stage.api, here.node)
    wait_true_to_pods(stage.api, here.nodes)
    sixth = pod("sixth", {names.VRAM: "7"}, pool=here.name)
    until("every webhook has heard of it", lambda: create(namespace, sixth).outcome is Outcome.ADMITTED)
    assert "insufficient_capacity" in namespace.refusal(pod("seventh", {names.VRAM: "7"}, pool=here.name)).message
    namespace.running("sixth")
    wait_true_to_pods(stage.api, here.nodes)
