"""What an ask takes from the model server in a container: the number of cards, and whom it is meant for."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.amounts import Amount
from shared.core.demand import read_pod
from tests.builders import PodBuilder, a_pod
from tests.unit.asking import ask_of, demand_of, refusal_of, with_limits
from tests.unit.model_servers import VLLM_IMAGE

VRAM = "kamiwaza.ai/vram-gb"
GPUS = "kamiwaza.ai/gpus"
CONTAINER = "kamiwaza.ai/container"
NVIDIA = "nvidia.com/gpu"
SIX = Amount(gb=6)
OVER_FOUR: dict[str, Any] = {"args": ["--tensor-parallel-size", "2", "--pipeline-parallel-size=2"]}
HELPER = {"name": "helper", "image": "example/helper"}


def server(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": VLLM_IMAGE, **fields}


def pod_of(*containers: dict[str, Any]) -> PodBuilder:
    return a_pod().spec(containers=list(containers))


@pytest.mark.parametrize(
    ("pod", "count"),
    [
        pytest.param(pod_of(server(**OVER_FOUR)).annotated(VRAM, "6"), 4, id="annotation"),
        pytest.param(pod_of(server(**OVER_FOUR, **with_limits({VRAM: "6"}))), 4, id="resource"),
        pytest.param(pod_of(server()).annotated(VRAM, "6"), 1, id="no-arguments"),
        pytest.param(pod_of(server(**OVER_FOUR)).annotated(VRAM, "6").annotated(GPUS, "2"), 2, id="annotated-count"),
        pytest.param(
            pod_of(server(**OVER_FOUR, **with_limits({NVIDIA: "3"}))).annotated(VRAM, "6"), 3, id="vendor-count"
        ),
        pytest.param(
            pod_of(server(**OVER_FOUR, **with_limits({GPUS: "3"}))).annotated(VRAM, "6"), 3, id="count-in-resources"
        ),
        pytest.param(pod_of(server(**OVER_FOUR)).annotated(f"{VRAM}.main", "6"), 1, id="for-one-container-by-name"),
        pytest.param(
            pod_of(server(**OVER_FOUR, **with_limits({"nvidia.com/gpumem": "6144"}))), 1, id="other-systems-amount"
        ),
        pytest.param(pod_of(server(**OVER_FOUR)).annotated("gpu-memory", "6144"), 1, id="kai"),
        pytest.param(
            pod_of(server(args=["-tp", "2"], env=[{"name": "LWS_GROUP_SIZE", "value": "2"}])).annotated(VRAM, "6"),
            1,
            id="a-group-of-two-pods",
        ),
        pytest.param(pod_of(server(args=["-tp", "65"])).annotated(VRAM, "6"), 1, id="more-than-a-node-can-have"),
        pytest.param(pod_of(server(args=["-tp", "64"])).annotated(VRAM, "6"), 64, id="as-many-as-a-node-can-have"),
        pytest.param(pod_of(server(args=["-tp", "many"])).annotated(VRAM, "6"), 1, id="a-number-that-is-none"),
    ],
)
def test_arguments_give_the_number_of_cards_where_nothing_else_does(pod: PodBuilder, count: int) -> None:
    ask = ask_of(pod)
    assert (ask.container, ask.amount, ask.count) == ("main", SIX, count)


def test_arguments_alone_ask_for_nothing() -> None:
    """An amount has to be said: without one the pod passes as it is."""
    assert read_pod(pod_of(server(**OVER_FOUR)).raw()).demand is None


def test_a_vendor_count_alone_is_not_changed_by_arguments() -> None:
    assert ask_of(pod_of(server(**OVER_FOUR, **with_limits({NVIDIA: "1"})))).count == 1


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(pod_of(HELPER, server("llm"), {**HELPER, "name": "logs"}), id="among-helpers"),
        pytest.param(pod_of(server("llm"), HELPER), id="first"),
        pytest.param(pod_of(server("llm"), HELPER).init("fetch", image=VLLM_IMAGE), id="not-an-init-container"),
        pytest.param(pod_of(server("llm"), HELPER).sidecar("draft", image=VLLM_IMAGE), id="before-a-sidecar"),
    ],
)
@pytest.mark.parametrize(("key", "six"), [(VRAM, "6"), ("gpu-memory", "6144")])
def test_an_ask_of_the_pod_is_for_the_container_with_a_server(pod: PodBuilder, key: str, six: str) -> None:
    ask = ask_of(pod.annotated(key, six))
    assert (ask.container, ask.amount) == ("llm", SIX)


def test_a_gpu_that_is_named_tells_more_than_a_server() -> None:
    pod = pod_of(server("llm"), {**HELPER, **with_limits({NVIDIA: "1"})})
    assert ask_of(pod.annotated(VRAM, "6")).container == "helper"


def test_the_server_of_the_container_that_is_named_gives_the_number() -> None:
    pod = pod_of(server("llm", **OVER_FOUR), server("draft", args=["-tp", "2"])).annotated(VRAM, "6")
    assert ask_of(pod.annotated(CONTAINER, "draft")).count == 2


def test_two_servers_leave_it_open_whom_an_ask_is_for() -> None:
    error = refusal_of(pod_of(server("llm"), server("draft"), HELPER).annotated(VRAM, "6"))
    assert "may be meant for any of several containers (llm, draft)" in error.problem
    assert CONTAINER in error.fix


def test_two_servers_with_an_amount_each_are_two_asks() -> None:
    pod = pod_of(server("llm", **OVER_FOUR), server("draft", **OVER_FOUR))
    demand = demand_of(pod.annotated(f"{VRAM}.llm", "6").annotated(f"{VRAM}.draft", "2"))
    assert [(ask.container, ask.amount.gb, ask.count) for ask in demand.asks] == [("llm", 6, 1), ("draft", 2, 1)]
