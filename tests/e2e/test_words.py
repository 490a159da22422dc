"""Pods written for other systems, and a model server with its arguments, are bound by Kubernetes' own scheduler."""

from __future__ import annotations

import pytest

from hack.devcluster.api import Api
from shared.api import names
from tests.e2e.conftest import MakePool, Stage, admitted
from tests.e2e.kube import IMAGE, Namespace, booked, node_of, pod, shares, until, wait_balanced

pytestmark = pytest.mark.e2e


def test_pods_of_other_systems_and_a_model_server_share_a_node(
    stage: Stage, api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(24, 24)
    hami = {names.NVIDIA_GPU: "2", names.NVIDIA_GPUMEM: "6000", names.NVIDIA_GPUCORES: "30"}
    server = {
        "name": "server",
        "image": IMAGE,
        "args": ["--model", "org/chat", "--tensor-parallel-size", "2", "--gpu-memory-utilization", "0.9"],
    }
    namespace.create(pod("hami", pool=here.name, limits=hami))
    (first,) = namespace.running("hami")
    namespace.create(pod("kai", {names.KAI_FRACTION: "0.5"}, pool=here.name))
    (second,) = namespace.running("kai")
    namespace.create(pod("vllm", {names.VRAM: "5"}, pool=here.name, containers=[server]))
    (third,) = namespace.running("vllm")

    assert [node_of(each) for each in (first, second, third)] == [here.node] * 3
    assert shares(first) == {0: 6, 1: 6}
    assert sorted(shares(second).values()) == [12]
    assert shares(third) == {0: 5, 1: 5}, "the arguments say on how many cards it runs"
    assert not {names.NVIDIA_GPU, names.NVIDIA_GPUMEM} & first["spec"]["containers"][0]["resources"]["limits"].keys()
    wait_balanced(api, here.nodes)
    assert sum(booked(api, here.node).values()) == 6 + 6 + 12 + 5 + 5

    whole = pod("whole", pool=here.name, limits={names.NVIDIA_GPU: "1"})
    assert "insufficient_capacity" in namespace.refusal(whole).message
    for name in ("hami", "kai", "vllm"):
        namespace.delete("Pod", name)
    until("their cards are free", lambda: not booked(api, here.node))
    until("the webhooks know", lambda: admitted(stage, whole, namespace) == {True})
    namespace.create(whole)
    assert list(shares(namespace.running("whole")[0]).values()) == [24]


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "kai-scheduler"])
def test_a_scheduler_that_is_not_there_binds_nothing_and_the_pod_keeps_its_place(
    api: Api, pool: MakePool, namespace: Namespace, scheduler: str
) -> None:
    here = pool(24)
    namespace.create(pod("model", {names.VRAM: "6"}, pool=here.name, schedulerName=scheduler))
    wait_balanced(api, here.nodes)
    stored = namespace.get("Pod", "model")
    assert "nodeName" not in stored["spec"]
    assert (node_of(stored), shares(stored), booked(api, here.node)) == (here.node, {0: 6}, {0: 6})
