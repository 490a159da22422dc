"""Nodes without an agent: a vendor's device plugin gives the cards away, and Kubernetes counts them."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Protocol

import pytest

from hack.devcluster.api import ApiError, Json
from hack.devcluster.spec import NodeSpec
from shared.api import names
from tests.e2e.conftest import MakeNamespace, Stage, admitted, seed_managed_nodes
from tests.e2e.creates import Outcome, create_all
from tests.e2e.kube import Namespace, deployment, find, ledger, node_of, pod, until
from tests.e2e.kube import gpu_node as gpu_node_of
from tests.e2e.reviews import NOWHERE
from tests.e2e.trouble import wait_true_to_pods

pytestmark = pytest.mark.e2e

GPU = names.NVIDIA_GPU
SLICE = names.NVIDIA_MIG_PREFIX + "1g.10gb"


class MakeNode(Protocol):
    """Creates a node that advertises vendor resources, with labels of GPU Feature Discovery (`memory="23028"`)."""

    def __call__(self, offered: Mapping[str, int], labels: Mapping[str, str] | None = None, **gfd: str) -> str: ...


@pytest.fixture
def managed(stage: Stage) -> Iterator[MakeNode]:
    made: list[str] = []

    def make(offered: Mapping[str, int], labels: Mapping[str, str] | None = None, **gfd: str) -> str:
        name = f"managed-{secrets.token_hex(3)}"
        told = {f"{names.GFD_PREFIX}{key}": value for key, value in gfd.items()}
        made.append(name)
        node = NodeSpec(name=name, labels={"pool": name, **told, **(labels or {})})
        seed_managed_nodes(stage.api, [node], offered)
        until(f"the controller publishes {name}", lambda: _units(stage, name))
        probe = pod("probe", limits={next(key for key, amount in offered.items() if amount): "1"}, pool=name)
        tenant = Namespace(stage.api, NOWHERE)
        until(f"the webhooks know {name}", lambda: admitted(stage, probe, tenant) == {True})
        return name

    yield make
    for name in made:
        with contextlib.suppress(ApiError):
            stage.api.delete(f"/api/v1/nodes/{name}")


@pytest.fixture
def tenant(managed: MakeNode, make_namespace: MakeNamespace) -> Namespace:
    """After the nodes, so that pods are gone before them."""
    return make_namespace()


def _units(stage: Stage, node: str) -> list[Json]:
    found = find(stage.api, f"/apis/{names.API_VERSION}/gpunodes/{node}") or {}
    units: list[Json] = (found.get("status") or {}).get("units") or []
    return units


def _limits(raw: Json) -> dict[str, str]:
    limits: dict[str, str] = raw["spec"]["containers"][0]["resources"]["limits"]
    return limits


def _booked(stage: Stage, node: str) -> list[dict[str, int]]:
    return [dict(entry.units) for entry in ledger(stage.api, node).values()]


def test_the_first_small_model_takes_the_gpu_and_the_next_is_told_of_sharing(
    stage: Stage, managed: MakeNode, tenant: Namespace
) -> None:
    node = managed({GPU: 1}, memory="23028", count="1", product="NVIDIA-A10G", replicas="1")
    tenant.create(pod("embed", {names.VRAM: "2"}, pool=node))
    (first,) = tenant.running("embed")
    assert (_limits(first), node_of(first)) == ({GPU: "1"}, node)
    assert _booked(stage, node) == [{GPU: 1}]
    tenant.create(deployment("ocr", {names.VRAM: "2"}, pool=node))
    status = tenant.waiting("ocr", "sharing_not_configured")
    assert "time-slicing or MPS" in status["lastErrorMessage"]
    summary = until("the summary is written", lambda: gpu_node_of(stage.api, node)["status"].get("summary"))
    assert (summary["reservedGB"], summary["freeGB"], summary["cards"]) == (22, 0, "0: 22/22")
    tenant.delete("Pod", "embed")
    assert _limits(tenant.running("ocr")[0]) == {GPU: "1"}
    until("only the new one is booked", lambda: _booked(stage, node) == [{GPU: 1}])


def test_the_last_gpu_goes_to_exactly_one_of_many_creates(stage: Stage, managed: MakeNode, tenant: Namespace) -> None:
    node = managed({GPU: 2}, memory="23028", count="2", product="NVIDIA-A10G", replicas="1")
    pods = [pod(f"rush-{number}", {names.VRAM: "4"}, pool=node) for number in range(8)]
    created = create_all(tenant, pods, partial(wait_true_to_pods, stage.api, [node]))
    outcomes = [one.outcome for one in created]
    assert outcomes.count(Outcome.ADMITTED) == 2
    assert outcomes.count(Outcome.REFUSED) == 6
    until("both are booked", lambda: _booked(stage, node) == [{GPU: 1}, {GPU: 1}])


def test_replicas_share_a_card_and_are_not_cards(stage: Stage, managed: MakeNode, tenant: Namespace) -> None:
    node = managed({GPU: 4}, memory="24576", count="1", product="NVIDIA-A10-SHARED", replicas="4")
    tenant.create(pod("six", {names.VRAM: "6"}, pool=node))
    tenant.create(pod("plain", limits={GPU: "1"}, pool=node))
    tenant.running("six")
    tenant.running("plain")
    assert "insufficient_capacity" in tenant.refusal(pod("seven", {names.VRAM: "7"}, pool=node)).message
    two = pod("two", {names.VRAM: "2", names.GPUS: "2"}, pool=node)
    assert "insufficient_gpu_count" in tenant.refusal(two).message
    assert sorted(gpu_node_of(stage.api, node)["status"]["summary"]["cards"].split(", ")) == ["0: 12/24"]


def test_slices_pass_through_and_are_counted(stage: Stage, managed: MakeNode, tenant: Namespace) -> None:
    node = managed({SLICE: 1, GPU: 0}, {f"{SLICE}.memory": "9728"}, memory="81559", count="1", replicas="0")
    tenant.create(pod("ollama", limits={SLICE: "1"}, pool=node))
    (placed,) = tenant.running("ollama")
    assert (_limits(placed), node_of(placed)) == ({SLICE: "1"}, node)
    assert _booked(stage, node) == [{SLICE: 1}]
    error = tenant.refusal(pod("next", limits={SLICE: "1"}, pool=node))
    assert "insufficient_capacity" in error.message
    assert SLICE in error.message


def test_a_count_needs_no_size_and_an_amount_names_the_missing_label(
    stage: Stage, managed: MakeNode, tenant: Namespace
) -> None:
    node = managed({GPU: 2}, product="NVIDIA-L4")
    error = tenant.refusal(pod("amount", {names.VRAM: "4"}, pool=node))
    assert "insufficient_capacity" in error.message
    assert "no label nvidia.com/gpu.memory" in error.message
    tenant.create(pod("whole", limits={GPU: "2"}, pool=node))
    assert _limits(tenant.running("whole")[0]) == {GPU: "2"}


def test_the_ledger_is_rebuilt_from_pods(stage: Stage, managed: MakeNode, tenant: Namespace) -> None:
    node = managed({GPU: 1}, memory="23028", count="1", replicas="1")
    tenant.create(pod("embed", {names.VRAM: "2"}, pool=node))
    tenant.running("embed")
    path = f"/apis/{names.API_VERSION}/gpunodes/{node}/status"
    stage.api.merge(path, {"status": {"reservations": None}})
    until("the entry is back", lambda: _booked(stage, node) == [{GPU: 1}])
    tenant.delete("Pod", "embed")
    until("the entry is gone", lambda: _booked(stage, node) == [])
