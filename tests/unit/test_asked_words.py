"""A refusal names the words that its pod used: whoever follows it is not refused for contradicting himself."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.asked_words import named, word_of
from shared.core.explain import explain
from shared.core.refusal import NoFit
from shared.core.snapshot import NodeState
from tests.builders import PodBuilder, a_pod
from tests.unit.core_builders import cards, node
from tests.unit.model_servers import VLLM_IMAGE
from tests.unit.refusal_scenes import refusal_of
from tests.unit.units import GPU, SHARED, managed

VRAM, GPUS = "kamiwaza.ai/vram-gb", "kamiwaza.ai/gpus"
TWO = node("two", cards(24, 24), accel={"cuda": (12, 2)})
REPLICAS = managed("eks", {GPU: 4}, memory="24576", count="1", replicas="4")
RENAMED = managed("eks", {SHARED: 4}, memory="24576", count="1", replicas="4")


def server(**fields: Any) -> PodBuilder:
    return a_pod().spec(containers=[{"name": "server", "image": VLLM_IMAGE, **fields}])


def advice(pod: PodBuilder, state: NodeState = TWO) -> str:
    refusal = refusal_of(pod, [state])
    assert isinstance(refusal, NoFit), refusal
    return explain(refusal).rpartition("\n")[2]


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        pytest.param(a_pod().annotated(VRAM, "30"), f"ask for less ({VRAM})", id="annotation"),
        pytest.param(a_pod().annotated(f"{VRAM}.main", "30"), f"ask for less ({VRAM}.main)", id="one-container"),
        pytest.param(a_pod().limited_to({VRAM: "30"}), f"ask for less ({VRAM})", id="resource"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpumem": "30720"}), "ask for less (nvidia.com/gpumem)", id="hami"),
        pytest.param(
            a_pod().limited_to({"nvidia.com/gpumem": "40960"}),
            "ask for less (nvidia.com/gpumem), split it over several cards (nvidia.com/gpu)",
            id="hami-over-two",
        ),
        pytest.param(a_pod().annotated("gpu-memory", "30720"), "ask for less (gpu-memory)", id="kai"),
        pytest.param(
            a_pod().annotated("gpu-memory", "40960"),
            "ask for less (gpu-memory), split it over several cards (gpu-fraction-num-devices)",
            id="kai-over-two",
        ),
        pytest.param(
            a_pod().limited_to({"nvidia.com/gpumem": "30720"}).annotated(VRAM, "30"),
            f"ask for less ({VRAM} and nvidia.com/gpumem)",
            id="said-twice",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "2").spec(initContainers=[{"name": "i", "resources": {"limits": {VRAM: "30"}}}]),
            f"ask for less ({VRAM})",
            id="init-container",
        ),
        pytest.param(
            a_pod()
            .annotated("gpu-memory", "2048")
            .spec(initContainers=[{"name": "i", "resources": {"limits": {"nvidia.com/gpumem": "30720"}}}]),
            "ask for less (nvidia.com/gpumem)",
            id="what-takes-most",
        ),
        pytest.param(a_pod().limited_to({GPU: "3"}), f"fewer cards ({GPU}), for less on each ({VRAM})", id="count"),
        pytest.param(
            a_pod().limited_to({GPU: "3", "nvidia.com/gpumem": "2048"}),
            f"fewer cards ({GPU}), for less on each (nvidia.com/gpumem)",
            id="hami-count",
        ),
        pytest.param(
            a_pod().annotated("gpu-fraction", "0.5").annotated("gpu-fraction-num-devices", "3"),
            "fewer cards (gpu-fraction-num-devices), for less on each (gpu-fraction)",
            id="kai-count",
        ),
        pytest.param(
            a_pod().limited_to({VRAM: "6", GPUS: "3"}), f"fewer cards ({GPUS}), for less on each ({VRAM})", id="ours"
        ),
        pytest.param(
            server(args=["-tp", "4"]).annotated(VRAM, "6"),
            f"fewer cards (the arguments of server say 4), for less on each ({VRAM})",
            id="arguments",
        ),
        pytest.param(
            server(args=["-tp", "4"]).annotated(VRAM, "6").annotated(GPUS, "3"), f"fewer cards ({GPUS})", id="beaten"
        ),
        pytest.param(server().annotated(VRAM, "40"), f"several cards ({GPUS})", id="no-arguments"),
        pytest.param(
            a_pod().container("other").annotated(f"{VRAM}.main", "20").annotated(f"{VRAM}.other", "26"),
            f"ask for less ({VRAM}.other)",
            id="the-hardest-of-several",
        ),
        pytest.param(
            a_pod()
            .container("b")
            .container("c")
            .annotated(f"{VRAM}.main", "20")
            .annotated(f"{VRAM}.b", "20")
            .annotated(f"{VRAM}.c", "20"),
            f"ask for less ({VRAM}.main, {VRAM}.b and 1 more), move a container",
            id="all-together",
        ),
        pytest.param(a_pod().limited_to({"amd.com/gpu": "1"}), "ask for those (amd.com/gpu)", id="vendor-of-a-count"),
        pytest.param(
            a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/vendor", "amd"),
            "ask for those (kamiwaza.ai/vendor)",
            id="vendor",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/accel-version", "cuda>=12.6"),
            "say so (kamiwaza.ai/accel-version)",
            id="version",
        ),
        pytest.param(
            server(env=[{"name": "NVIDIA_REQUIRE_CUDA", "value": "cuda>=12.6"}]).annotated(VRAM, "6"),
            "say so (NVIDIA_REQUIRE_CUDA)",
            id="version-of-an-image",
        ),
        pytest.param(
            server(env=[{"name": "NVIDIA_REQUIRE_CUDA", "value": "cuda>=12.6"}])
            .annotated(VRAM, "6")
            .annotated("kamiwaza.ai/accel-version", "cuda 12.6"),
            "say so (kamiwaza.ai/accel-version and NVIDIA_REQUIRE_CUDA)",
            id="both-versions",
        ),
        pytest.param(
            a_pod()
            .limited_to({"nvidia.com/gpumem": "2048"})
            .annotated("nvidia.com/use-gputype", "H100")
            .annotated("nvidia.com/nouse-gpuuuid", "GPU-9"),
            "other cards (nvidia.com/use-gputype and nvidia.com/nouse-gpuuuid)",
            id="choice",
        ),
    ],
)
def test_advice_names_the_words_of_the_pod(pod: PodBuilder, told: str) -> None:
    assert told.lower() in advice(pod).lower()


@pytest.mark.parametrize(
    ("pod", "state", "told"),
    [
        pytest.param(a_pod().limited_to({GPU: "2"}), REPLICAS, f"({GPU}), or add a node that gives whole", id="count"),
        pytest.param(a_pod().annotated(VRAM, "2").annotated(GPUS, "2"), REPLICAS, f"Ask for one card ({GPUS})", id="n"),
        pytest.param(a_pod().annotated(VRAM, "whole"), REPLICAS, f"Ask for the GB of one of them ({VRAM})", id="whole"),
        pytest.param(
            a_pod().limited_to({SHARED: "2"}), RENAMED, f"Ask for one of them to a container ({SHARED})", id="replicas"
        ),
        pytest.param(a_pod().limited_to({"nvidia.com/gpumem": "9216"}), REPLICAS, "less (nvidia.com/gpumem)", id="gb"),
    ],
)
def test_advice_about_units_names_them_too(pod: PodBuilder, state: NodeState, told: str) -> None:
    assert told in advice(pod, state)


def test_words_are_the_keys_of_fields_in_one_short_line() -> None:
    assert word_of(f"metadata.annotations[{VRAM}]") == VRAM
    assert word_of("containers[a[b].resources.limits[nvidia.com/gpu]") == "nvidia.com/gpu"
    assert named(["a", "b", "a"]) == "a and b"
    assert named(["a", "b", "c", "d"]) == "a, b and 2 more"
    assert named(["a\nb"]) == "a b"
    assert len(named([f"{VRAM}.{'x' * 5000}"])) < 100
