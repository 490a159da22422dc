"""What a case's `parsed` is compared with: the engine by whatever name, and the cards that the pod comes to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.parsing import engine_key, parsed
from tests.unit.casing import a_pod

EIGHT_BY_ITS_ARGUMENTS = {"image": "vllm/vllm-openai:v0.11", "args": ["--model", "m", "-tp", "4", "-pp", "2"]}


def server(**fields: Any) -> dict[str, Any]:
    return {"container": {**EIGHT_BY_ITS_ARGUMENTS, **fields}}


@pytest.mark.parametrize(
    ("fields", "cards"),
    [
        pytest.param(server(), 8, id="nothing asked, so the arguments say it"),
        pytest.param(server(resources={"limits": {"nvidia.com/gpu": 4}}), 4, id="a vendor count says it"),
        pytest.param(
            {**server(), "metadata": {"annotations": {"kamiwaza.ai/vram-gb": "6", "kamiwaza.ai/gpus": "2"}}},
            2,
            id="a budget's count says it",
        ),
        pytest.param(
            {**server(), "metadata": {"annotations": {"kamiwaza.ai/vram-gb": "6"}}},
            8,
            id="a budget without a count leaves it to the arguments",
        ),
        pytest.param(
            server(resources={"limits": {"nvidia.com/gpu": "some"}}), 8, id="what is refused counts for nothing"
        ),
    ],
)
def test_a_count_that_the_pod_states_beats_that_of_the_arguments(fields: dict[str, Any], cards: int) -> None:
    found = parsed(a_pod(**fields), None)
    assert (found["engine"], found["tensorParallel"], found["gpusOnThisPod"]) == ("vllm", 4, cards)


def test_a_container_without_a_known_engine_has_its_count_alone() -> None:
    asking = {"resources": {"limits": {"nvidia.com/gpu": 4}}}
    assert parsed(a_pod(container=asking), "server") == {"gpusOnThisPod": 4}
    assert parsed(a_pod(), None) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [("llama.cpp", "llama-cpp"), ("TensorRT-LLM", "trtllm"), ("tei", "text-embeddings-inference"), ("vllm", "vLLM")],
)
def test_an_engine_may_be_spelled_in_several_ways(one: str, other: str) -> None:
    assert engine_key(one) == engine_key(other)


def test_engines_are_told_apart() -> None:
    assert engine_key("tgi") != engine_key("tei")
