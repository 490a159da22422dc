"""The controller's `GPUNode`s of nodes without an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controller.managed_nodes import ManagedNodes
from shared.core.nodes import node_facts
from shared.kube import paths
from shared.kube.errors import Conflict
from shared.kube.gpunodes import gpu_node as read_gpu_node
from tests.builders import NodeBuilder, a_node
from tests.fakes.serving import eventually
from tests.unit.admission import gpu_node, store
from tests.unit.controlling import Control, controlling, stored
from tests.unit.units import GPU, SLICE, managed_node


def NOW() -> datetime:  # noqa: N802 - stands for a moment
    return datetime(2026, 11, 30, 10, tzinfo=UTC)


EKS = managed_node("eks", {GPU: 4}, memory="24576", count="2", product="NVIDIA-A10-SHARED", replicas="2").label(
    "nvidia.com/cuda.runtime-version.full", "12.4"
)


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    async with controlling(tmp_path) as made:
        yield made


def keeper(control: Control) -> ManagedNodes:
    return ManagedNodes(control.served.client, control.cluster, NOW, exclusive=False)


def see(control: Control, node: NodeBuilder) -> None:
    control.cluster.node_upserted(node_facts(node.raw()))


def published(control: Control, node: str) -> dict[str, Any]:
    raw = stored(control.objects, paths.gpu_nodes(node)) or {}
    status: dict[str, Any] = raw.get("status") or {}
    return status


async def give(control: Control, node: NodeBuilder, raw: dict[str, Any]) -> None:
    """A node whose `GPUNode` exists already."""
    store(control.objects, paths.gpu_nodes(), raw)
    see(control, node)
    made = stored(control.objects, paths.gpu_nodes(raw["metadata"]["name"]))
    assert made is not None
    control.cluster.gpu_node_upserted(read_gpu_node(made, exclusive=False))


async def test_a_node_with_a_vendors_gpus_gets_one_that_belongs_to_it(control: Control) -> None:
    see(control, EKS)
    await keeper(control).reconcile("eks")
    raw = stored(control.objects, paths.gpu_nodes("eks"))
    assert raw is not None
    assert raw["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "eks", "uid": "uid-eks"}]
    status = raw["status"]
    assert status["source"] == "labels"
    assert [(card["index"], card["budgetGB"], card["model"]) for card in status["cards"]] == [
        (0, 24, "NVIDIA A10"),
        (1, 24, "NVIDIA A10"),
    ]
    assert status["models"] == "2 x NVIDIA A10"
    assert status["accelVersions"] == {"cuda": "12.4"}
    assert status["units"] == [{"resource": GPU, "gb": 12, "perCard": 2, "partition": False}]
    state = control.cluster.node("eks")
    assert state is not None
    assert [(kind.resource, kind.gb, kind.per_card) for kind in state.kinds] == [(GPU, 12, 2)]


async def test_nothing_is_written_while_nothing_changes(control: Control) -> None:
    see(control, EKS)
    managed = keeper(control)
    await managed.reconcile("eks")
    writes = [line for line in control.served.server.requests if line.startswith("PATCH")]
    await managed.reconcile("eks")
    assert [line for line in control.served.server.requests if line.startswith("PATCH")] == writes


async def test_labels_and_amounts_that_change_are_followed(control: Control) -> None:
    see(control, EKS)
    managed = keeper(control)
    await managed.reconcile("eks")
    see(control, managed_node("eks", {SLICE: 3}, {"nvidia.com/gpu.count": "many"}))
    await managed.reconcile("eks")
    assert published(control, "eks")["cards"] == []
    assert published(control, "eks")["units"] == [
        {"resource": SLICE, "gb": 9, "perCard": 1, "partition": True},
    ]
    see(control, a_node("eks"))
    await managed.reconcile("eks")
    assert published(control, "eks")["units"] == []


async def test_a_node_without_gpus_gets_none(control: Control) -> None:
    see(control, a_node("cpu"))
    managed = keeper(control)
    await managed.reconcile("cpu")
    await managed.reconcile("unknown")
    assert stored(control.objects, paths.gpu_nodes("cpu")) is None


async def test_wishes_of_an_admin_are_kept_and_completed(control: Control) -> None:
    await give(control, EKS, {**gpu_node("eks"), "spec": {"cards": []}, "status": {}})
    await keeper(control).reconcile("eks")
    assert published(control, "eks")["source"] == "labels"
    await give(control, a_node("bare"), {**gpu_node("bare"), "status": {}})
    await keeper(control).reconcile("bare")
    assert published(control, "bare") == {}


@pytest.mark.parametrize("status", [{}, {"source": "agent"}], ids=["written by anybody", "written by the agent"])
async def test_what_an_agent_published_is_never_overwritten(control: Control, status: dict[str, Any]) -> None:
    await give(control, EKS, gpu_node("eks", 24, 24, **status))
    await keeper(control).reconcile("eks")
    assert len(published(control, "eks")["cards"]) == 2
    assert published(control, "eks").get("source") == status.get("source")
    assert "units" not in published(control, "eks")


async def test_an_agent_that_was_faster_than_the_watch_is_not_overwritten(control: Control) -> None:
    see(control, EKS)
    store(control.objects, paths.gpu_nodes(), gpu_node("eks", 24, 24, source="agent"))
    managed = keeper(control)
    await managed.reconcile("eks")
    assert (published(control, "eks")["source"], len(published(control, "eks")["cards"])) == ("agent", 2)
    await managed.reconcile("eks")
    assert [each["type"] for each in published(control, "eks")["conditions"]] == ["VendorPluginPresent"]


async def test_an_agent_that_takes_a_node_over_is_not_overwritten(control: Control) -> None:
    see(control, EKS)
    managed = keeper(control)
    await managed.reconcile("eks")
    agent = {**gpu_node("eks"), "status": gpu_node("eks", 24, source="agent")["status"]}
    await control.served.client.apply(paths.status_of(paths.gpu_nodes("eks")), agent, "placement-agent")
    see(control, managed_node("eks", {GPU: 2}, memory="24576", count="2"))
    with pytest.raises(Conflict):
        await managed.reconcile("eks")
    assert published(control, "eks")["source"] == "agent"


async def test_another_plugin_on_an_agents_node_is_told_until_the_mode_is_set(control: Control) -> None:
    await give(control, EKS, gpu_node("eks", 24, 24, source="agent"))
    managed = keeper(control)
    await managed.reconcile("eks")
    (condition,) = published(control, "eks")["conditions"]
    assert (condition["type"], condition["status"]) == ("VendorPluginPresent", "True")
    assert "nvidia.com/gpu gives this node's cards away" in condition["message"]
    before = len(control.served.server.requests)
    await managed.reconcile("eks")
    assert len(control.served.server.requests) == before
    raw = stored(control.objects, paths.gpu_nodes("eks"))
    assert raw is not None
    await control.served.client.merge_patch(paths.gpu_nodes("eks"), {"spec": {"mode": "shared"}})
    raw = stored(control.objects, paths.gpu_nodes("eks"))
    assert raw is not None
    control.cluster.gpu_node_upserted(read_gpu_node(raw, exclusive=False))
    await managed.reconcile("eks")
    assert [each["status"] for each in published(control, "eks")["conditions"]] == ["False"]


async def test_an_agent_that_comes_later_gets_the_fields_that_the_controller_held(control: Control) -> None:
    units = [{"resource": GPU, "perCard": 1, "partition": False}]
    await give(control, a_node("eks"), gpu_node("eks", 24, source="agent", units=units))
    before = len(control.served.server.requests)
    await keeper(control).reconcile("eks")
    assert len(control.served.server.requests) > before
    state = control.cluster.node("eks")
    assert state is not None
    assert state.kinds == ()


async def test_it_follows_nodes_as_they_come(control: Control) -> None:
    control.start(keeper(control).run())
    see(control, EKS)
    await eventually(lambda: bool(published(control, "eks").get("units")))


async def test_a_node_that_was_there_before_is_looked_at(control: Control) -> None:
    see(control, EKS)
    control.start(keeper(control).run())
    await eventually(lambda: bool(published(control, "eks").get("units")))
