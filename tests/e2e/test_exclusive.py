"""Exclusive cards: the first model takes the whole card, and the next finds no room."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hack.devcluster.api import Api
from hack.devcluster.cluster import DevCluster
from hack.devcluster.nodes import GPU_NODES
from hack.devcluster.operator import Operator
from shared.api import names
from tests.e2e.conftest import PATIENT, MakePool, Pool, Stage, namespaces, pools
from tests.e2e.kube import Namespace, booked, deployment, node_of, pod, shares, until, wait_balanced

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def exclusive() -> Iterator[Stage]:
    """A cluster of its own, whose operator is installed without shared cards."""
    if os.environ.get("E2E_KUBECONFIG"):
        pytest.skip("E2E_KUBECONFIG is set: this needs an operator that is installed with other values")
    values = {**PATIENT, "placement": {"vramPluginV2": {"enabled": False}}}
    with DevCluster() as cluster, Operator(cluster, values=values) as operator:
        yield Stage(cluster, operator)


@pytest.fixture
def here(exclusive: Stage) -> Iterator[Pool]:
    with pools(exclusive) as make:
        yield make(16, 24)


@pytest.fixture
def tenant(exclusive: Stage, here: Pool) -> Iterator[Namespace]:
    with namespaces(exclusive.api) as make:
        yield make()


def test_the_first_model_takes_the_card_and_the_next_is_refused(
    exclusive: Stage, here: Pool, tenant: Namespace
) -> None:
    tenant.create(pod("first", {names.VRAM: "6"}, pool=here.name))
    tenant.create(pod("second", {names.VRAM: "6"}, pool=here.name))
    first, second = tenant.running("first")[0], tenant.running("second")[0]
    assert [shares(first), shares(second)] == [{0: 16}, {1: 24}]
    wait_balanced(exclusive.api, here.nodes)
    assert booked(exclusive.api, here.node) == {0: 16, 1: 24}

    tenant.create(deployment("third", {names.VRAM: "6"}, pool=here.name))
    status = tenant.waiting("third", "insufficient_capacity")
    assert "Held on gpu-0" in status["lastErrorMessage"]
    tenant.delete("Pod", "first")
    assert shares(tenant.running("third")[0]) == {0: 16}
    wait_balanced(exclusive.api, here.nodes)


def test_a_model_goes_to_a_card_that_holds_it(exclusive: Stage, here: Pool, tenant: Namespace) -> None:
    tenant.create(pod("large", {names.VRAM: "20"}, pool=here.name))
    assert shares(tenant.running("large")[0]) == {1: 24}
    assert "insufficient_capacity" in tenant.refusal(pod("larger", {names.VRAM: "20"}, pool=here.name)).message
    wait_balanced(exclusive.api, here.nodes)


def test_an_admin_may_share_the_cards_of_one_node(exclusive: Stage, here: Pool, tenant: Namespace) -> None:
    _set_mode(exclusive.api, here.node, "shared")
    asks = pod("probe", {names.VRAM: "6"}, pool=here.name)
    until("the mode is known", lambda: shares(tenant.create(asks, dry_run=True)) == {0: 6})
    for name in ("first", "second"):
        tenant.create(pod(name, {names.VRAM: "6"}, pool=here.name))
        assert shares(tenant.running(name)[0]) == {0: 6}
    wait_balanced(exclusive.api, here.nodes)


def test_an_admin_may_make_the_cards_of_one_node_exclusive(stage: Stage, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16, nodes=2)
    alone, shared = here.nodes
    _set_mode(stage.api, alone, "exclusive")
    asks = pod("probe", {names.VRAM: "6"}, nodeSelector={"kubernetes.io/hostname": alone})
    until("the mode is known", lambda: shares(namespace.create(asks, dry_run=True)) == {0: 16})
    for name in ("first", "second", "third"):
        namespace.create(pod(name, {names.VRAM: "6"}, pool=here.name))
    placed = [
        (node_of(each), shares(each)) for name in ("first", "second", "third") for each in namespace.running(name)
    ]
    assert sorted(placed, key=str) == sorted([(alone, {0: 16}), (shared, {0: 6}), (shared, {0: 6})], key=str)
    assert "insufficient_capacity" in namespace.refusal(pod("fourth", {names.VRAM: "6"}, pool=here.name)).message
    wait_balanced(stage.api, here.nodes)


def test_a_pod_may_ask_for_a_card_of_its_own(stage: Stage, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16, 24)
    namespace.create(pod("shared", {names.VRAM: "6"}, pool=here.name))
    namespace.create(pod("alone", {names.VRAM: "6", names.POLICY: "exclusive"}, pool=here.name))
    assert shares(namespace.running("shared")[0]) == {0: 6}
    assert shares(namespace.running("alone")[0]) == {1: 24}
    error = namespace.refusal(pod("second", {names.VRAM: "6", names.POLICY: "exclusive"}, pool=here.name))
    assert "insufficient_capacity" in error.message
    namespace.create(pod("third", {names.VRAM: "6"}, pool=here.name))
    assert shares(namespace.running("third")[0]) == {0: 6}
    wait_balanced(stage.api, here.nodes)


def _set_mode(api: Api, node: str, mode: str) -> None:
    api.merge(f"{GPU_NODES}/{node}", {"spec": {"mode": mode}})
