"""A model of higher priority takes the place of others, which the scheduler evicts for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pytest

from hack.devcluster.api import Api, ApiError, Json
from hack.devcluster.cluster import DevCluster
from hack.devcluster.operator import Operator
from hack.devcluster.spec import NodeSpec
from shared.api import names
from shared.core.ledger import Mark
from tests.e2e.conftest import (
    PATIENT,
    MakePool,
    Pool,
    Stage,
    admitted,
    namespaces,
    pools,
    seed_managed_nodes,
    wait_heard,
)
from tests.e2e.invariants import findings
from tests.e2e.kube import Namespace, booked, deployment, ledger, phase, pod, reservation, until, wait_balanced
from tests.e2e.reviews import NOWHERE, webhook_ports

pytestmark = pytest.mark.e2e

LOW, MIDDLE, HIGH, POLITE = "e2e-low", "e2e-middle", "e2e-high", "e2e-polite"
_CLASSES: dict[str, Json] = {
    LOW: {"value": 10},
    MIDDLE: {"value": 20},
    HIGH: {"value": 1000},
    POLITE: {"value": 1000, "preemptionPolicy": "Never"},
}
WHOLE = {names.NVIDIA_GPU: "1"}
_HELD_BACK = {"finalizers": ["example.com/still-writing"]}


@pytest.fixture(scope="module")
def preempting() -> Iterator[Stage]:
    """A cluster of its own, whose operator is installed with preemption."""
    if os.environ.get("E2E_KUBECONFIG"):
        pytest.skip("E2E_KUBECONFIG is set: this needs an operator that is installed with other values")
    values = {**PATIENT, "placement": {"preemption": "enabled"}}
    with DevCluster() as cluster, Operator(cluster, webhooks=2, values=values) as operator:
        _create_classes(cluster.api)
        yield Stage(cluster, operator)


@pytest.fixture
def make_pool(preempting: Stage) -> Iterator[MakePool]:
    with pools(preempting) as make:
        yield make


@pytest.fixture
def here(make_pool: MakePool) -> Pool:
    return make_pool(24)


@pytest.fixture
def managed(preempting: Stage) -> Iterator[str]:
    """A node without an agent, whose plugin gives two whole cards away."""
    name = "e2e-managed"
    node = NodeSpec(name=name, labels={"pool": name, f"{names.GFD_PREFIX}memory": "23028"})
    seed_managed_nodes(preempting.api, [node], {names.NVIDIA_GPU: 2})
    probe = pod("probe", limits=WHOLE, pool=name)
    until("the webhooks know it", lambda: admitted(preempting, probe, Namespace(preempting.api, NOWHERE)) == {True})
    yield name
    preempting.api.delete(f"/api/v1/nodes/{name}")


@pytest.fixture
def tenant(preempting: Stage, here: Pool) -> Iterator[Namespace]:
    with namespaces(preempting.api) as make:
        yield make()


def test_the_scheduler_evicts_for_it_and_gives_back_later(preempting: Stage, here: Pool, tenant: Namespace) -> None:
    tenant.create(deployment("chat", {names.VRAM: "8"}, pool=here.name, replicas=3, priorityClassName=LOW))
    tenant.running("chat", 3)
    tenant.create(pod("urgent", {names.VRAM: "12"}, pool=here.name, priorityClassName=HIGH))
    tenant.running("urgent")
    tenant.running("chat", 1)
    wait_balanced(preempting.api, here.nodes)
    assert booked(preempting.api, here.node) == {0: 20}
    until("it is a reservation like any other", lambda: not _marked(preempting.api, here.node))
    # The Deployment wants its pods back; they may not drive out anybody.
    assert "insufficient_capacity" in tenant.waiting("chat", "insufficient_capacity")["lastErrorMessage"]
    assert findings(preempting.api, here.nodes) == []

    tenant.delete("Pod", "urgent")
    tenant.running("chat", 3)
    wait_balanced(preempting.api, here.nodes)


def test_until_the_others_have_left_it_waits_and_nobody_gets_the_room(
    preempting: Stage, here: Pool, tenant: Namespace
) -> None:
    leaving = pod("chat", {names.VRAM: "20"}, pool=here.name, priorityClassName=LOW)
    leaving["metadata"].update(_HELD_BACK)
    tenant.create(leaving)
    tenant.running("chat")
    urgent = tenant.create(pod("urgent", {names.VRAM: "16"}, pool=here.name, priorityClassName=HIGH))
    until("the other is evicted", lambda: "deletionTimestamp" in tenant.get("Pod", "chat")["metadata"])

    assert phase(tenant.get("Pod", "urgent")) == "Pending"
    assert _marked(preempting.api, here.node) == {reservation(urgent): Mark.PREEMPTING}
    assert booked(preempting.api, here.node) == {0: 36}
    assert findings(preempting.api, here.nodes) == []
    for name, priority in (("small", LOW), ("second", HIGH)):
        small = pod(name, {names.VRAM: "9"}, pool=here.name, priorityClassName=priority)
        assert "insufficient_capacity" in tenant.refusal(small).message

    tenant.merge("Pod", "chat", {"metadata": {"finalizers": None}})
    tenant.running("urgent")
    wait_balanced(preempting.api, here.nodes)
    until("it is a reservation like any other", lambda: not _marked(preempting.api, here.node))
    assert booked(preempting.api, here.node) == {0: 16}


def test_it_takes_the_node_where_the_least_important_are(
    preempting: Stage, make_pool: MakePool, tenant: Namespace
) -> None:
    there = make_pool(24, 24, nodes=2)
    for number, priority in enumerate((HIGH, HIGH, LOW, HIGH)):
        tenant.create(pod(f"chat-{number}", {names.VRAM: "24"}, pool=there.name, priorityClassName=priority))
        tenant.running(f"chat-{number}")
    tenant.create(pod("equal", {names.VRAM: "24"}, pool=there.name, priorityClassName=HIGH))
    tenant.running("equal")
    until("the one of lower priority is gone", lambda: tenant.find("Pod", "chat-2") is None)
    for number in (0, 1, 3):
        tenant.running(f"chat-{number}")
    wait_balanced(preempting.api, there.nodes)


def test_those_stay_that_a_disruption_budget_keeps(preempting: Stage, here: Pool, tenant: Namespace) -> None:
    for name, priority in (("kept", LOW), ("dear", MIDDLE)):
        tenant.create(pod(name, {names.VRAM: "12"}, pool=here.name, priorityClassName=priority))
        tenant.running(name)
    selector = {"matchLabels": {"app": "kept"}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
    tenant.create({**budget, "spec": {"selector": selector, "minAvailable": 1}})
    urgent = pod("urgent", {names.VRAM: "12"}, pool=here.name, priorityClassName=HIGH, priority=1000)
    assert preempting.operator is not None
    ports = webhook_ports(preempting.api, preempting.operator)
    until(
        "every webhook knows of the budget",
        lambda: all("for it: dear" in str(port.mutate(urgent, tenant.name, dryRun=True).patch) for port in ports),
    )

    placed = tenant.create(urgent)
    assert "for it: dear" in placed["metadata"]["annotations"][names.WARNINGS]
    tenant.running("urgent")
    assert tenant.find("Pod", "dear") is None
    tenant.running("kept")
    wait_balanced(preempting.api, here.nodes)


def test_it_takes_several_cards_at_once(preempting: Stage, make_pool: MakePool, tenant: Namespace) -> None:
    there = make_pool(24, 24)
    for name in ("one", "two"):
        tenant.create(pod(name, {names.VRAM: "24"}, pool=there.name, priorityClassName=LOW))
        tenant.running(name)
    tenant.create(pod("urgent", {names.VRAM: "20", names.GPUS: "2"}, pool=there.name, priorityClassName=HIGH))
    tenant.running("urgent")
    wait_balanced(preempting.api, there.nodes)
    assert booked(preempting.api, there.node) == {0: 20, 1: 20}


def test_replicas_take_the_place_of_as_many_as_they_need(
    preempting: Stage, make_pool: MakePool, tenant: Namespace
) -> None:
    there = make_pool(24, 24, nodes=2)
    tenant.create(deployment("chat", {names.VRAM: "12"}, pool=there.name, replicas=8, priorityClassName=LOW))
    tenant.running("chat", 8)
    tenant.create(deployment("urgent", {names.VRAM: "24"}, pool=there.name, replicas=3, priorityClassName=HIGH))
    tenant.running("urgent", 3)
    tenant.running("chat", 2)
    wait_balanced(preempting.api, there.nodes)
    assert findings(preempting.api, there.nodes) == []


def test_whole_cards_of_a_vendor_are_freed_as_well(preempting: Stage, managed: str, tenant: Namespace) -> None:
    """Where a vendor's device plugin gives the cards away, the scheduler counts its units."""
    for name in ("one", "two"):
        tenant.create(pod(name, limits=WHOLE, pool=managed, priorityClassName=LOW))
        tenant.running(name)
    tenant.create(pod("urgent", limits=WHOLE, pool=managed, priorityClassName=HIGH))
    tenant.running("urgent")
    until("one of the others is gone", lambda: len(tenant.listed("Pod")) == 2)
    until("the ledger says so", lambda: len(ledger(preempting.api, managed)) == 2)
    until("it is a reservation like any other", lambda: not _marked(preempting.api, managed))


@pytest.mark.parametrize(
    "priority", [pytest.param(LOW, id="of-equal-priority"), pytest.param(POLITE, id="that-never-preempts")]
)
def test_a_pod_drives_out_nobody(here: Pool, tenant: Namespace, priority: str) -> None:
    tenant.create(pod("chat", {names.VRAM: "20"}, pool=here.name, priorityClassName=LOW))
    tenant.running("chat")
    polite = pod("polite", {names.VRAM: "16"}, pool=here.name, priorityClassName=priority)
    message = tenant.refusal(polite).message
    assert "insufficient_capacity" in message
    assert "lower priority" not in message


def test_a_dry_run_evicts_nobody(preempting: Stage, here: Pool, tenant: Namespace) -> None:
    tenant.create(pod("chat", {names.VRAM: "20"}, pool=here.name, priorityClassName=LOW))
    tenant.running("chat")
    tenant.create(pod("urgent", {names.VRAM: "16"}, pool=here.name, priorityClassName=HIGH), dry_run=True)
    assert booked(preempting.api, here.node) == {0: 20}
    wait_balanced(preempting.api, here.nodes)


def test_where_it_is_switched_off_the_refusal_names_those_of_lower_priority(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    there = pool(24)
    _create_classes(stage.api)
    try:
        namespace.create(pod("chat", {names.VRAM: "20"}, pool=there.name, priorityClassName=LOW))
        namespace.running("chat")
        wait_heard(stage)
        error = namespace.refusal(pod("urgent", {names.VRAM: "16"}, pool=there.name, priorityClassName=HIGH))
        assert f"Pods of lower priority hold enough: chat (20 GB of gpu-0 of {there.node})" in error.message
        assert "placement.preemption" in error.message
        assert booked(stage.api, there.node) == {0: 20}
    finally:
        for name in _CLASSES:
            stage.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


def _create_classes(api: Api) -> None:
    for name, fields in _CLASSES.items():
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, **fields}
        api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
        until(f"the API server knows {name}", partial(_is_known, api, name))


def _is_known(api: Api, priority_class: str) -> bool:
    """Whether pods may be of a class: a new one is refused for a moment."""
    try:
        Namespace(api, "default").create(pod("probe", priorityClassName=priority_class), dry_run=True)
    except ApiError:
        return False
    return True


def _marked(api: Api, node: str) -> dict[str, Mark]:
    return {key: entry.mark for key, entry in ledger(api, node).items() if entry.mark is not Mark.NONE}
