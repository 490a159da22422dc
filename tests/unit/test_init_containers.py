"""Init containers use the cards of the container that serves."""

from __future__ import annotations

import pytest

from shared.core.amounts import WHOLE
from tests.builders import PodBuilder, a_pod
from tests.unit.asking import ask_of, demand_of, refusal_of, seeing, with_limits
from tests.unit.model_servers import VLLM_IMAGE

VRAM = "kamiwaza.ai/vram-gb"
GPUS = "kamiwaza.ai/gpus"
NVIDIA = "nvidia.com/gpu"
DEVICES = "NVIDIA_VISIBLE_DEVICES"


def test_what_init_containers_need_moves_to_the_container_that_serves() -> None:
    pod = (
        a_pod()
        .annotated(f"{VRAM}.convert", "20")
        .annotated(f"{VRAM}.warm", "50%")
        .annotated(f"{VRAM}.main", "8")
        .init("convert")
        .init("warm")
        .init("fetch")
    )
    ask = ask_of(pod)
    assert (ask.container, str(ask.amount)) == ("main", "8 GB")
    assert [str(amount) for amount in ask.init] == ["20 GB", "50 % of the memory"]
    assert ask.init_containers == ("convert", "warm")


def test_the_vendor_resource_of_an_init_container_means_the_same_cards() -> None:
    pod = a_pod().limited_to({NVIDIA: 2}).init("check", **with_limits({NVIDIA: 1}))
    ask = ask_of(pod)
    assert (ask.count, ask.init, ask.init_containers) == (2, (WHOLE,), ("check",))


def test_init_containers_use_the_cards_of_the_container_with_the_most() -> None:
    pod = (
        a_pod()
        .annotated(f"{VRAM}.convert", "20")
        .limited_to({VRAM: "2"})
        .container("server", **with_limits({VRAM: "8", GPUS: "2"}))
        .init("convert")
    )
    assert [(ask.container, len(ask.init)) for ask in demand_of(pod).asks] == [("main", 0), ("server", 1)]


def test_one_that_would_see_every_card_is_given_those_of_the_pod() -> None:
    pod = a_pod().annotated(VRAM, "6").init("fetch").init("probe", **seeing("all"))
    ask = ask_of(pod)
    assert (ask.init, ask.init_containers) == ((), ("probe",))


def test_one_that_would_see_every_card_of_a_pod_that_asks_for_nothing_is_refused() -> None:
    assert refusal_of(a_pod().init("probe", **seeing("all"))).field == f"containers[probe].env[{DEVICES}]"


@pytest.mark.parametrize(
    ("pod", "carrier", "amounts", "count"),
    [
        pytest.param(a_pod().annotated(f"{VRAM}.convert", "20"), "main", ["20 GB"], 1, id="annotation"),
        pytest.param(
            a_pod().init("check", **with_limits({"nvidia.com/gpumem": 8192})),
            "main",
            ["8 GB"],
            1,
            id="hami-words-of-an-init-container",
        ),
        pytest.param(
            a_pod().init("one", **with_limits({NVIDIA: 1})).init("two", **with_limits({NVIDIA: 2})),
            "main",
            ["all memory", "all memory"],
            2,
            id="the-most-cards-of-several",
        ),
        pytest.param(
            a_pod().annotated("gpu-fraction", "0.5").annotated("gpu-fraction-container-name", "convert"),
            "main",
            ["50 % of the memory"],
            1,
            id="kai-names-an-init-container",
        ),
        pytest.param(
            a_pod().container("web").annotated("kamiwaza.ai/container", "web").annotated(f"{VRAM}.convert", "20"),
            "web",
            ["20 GB"],
            1,
            id="for-the-container-that-is-named",
        ),
    ],
)
def test_what_only_init_containers_ask_is_carried_by_the_container_that_serves(
    pod: PodBuilder, carrier: str, amounts: list[str], count: int
) -> None:
    ask = ask_of(pod.init("convert").sidecar("mesh"))
    assert (ask.container, ask.count, [str(amount) for amount in ask.init]) == (carrier, count, amounts)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod().container("web"), id="two-containers"),
        pytest.param(a_pod().limited_to({NVIDIA: 0}), id="the-only-one-wants-no-gpu"),
    ],
)
def test_where_it_is_unclear_who_carries_it_an_init_container_alone_cannot_ask(pod: PodBuilder) -> None:
    refused = refusal_of(pod.annotated(f"{VRAM}.convert", "20").init("convert"))
    assert (refused.field, refused.value) == (f"metadata.annotations[{VRAM}.convert]", "20 GB")
    assert refused.problem == "is asked for init container convert only"


def test_an_init_container_cannot_use_more_cards_than_the_pod_has() -> None:
    refused = refusal_of(a_pod().limited_to({NVIDIA: 1}).init("shard", **with_limits({NVIDIA: 2})))
    assert refused.problem == "is more cards than container main has, which init container shard uses"
    assert refused.fix == "ask for at most 1"


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({VRAM: "4", "kamiwaza.ai/gpus": "2"}, "resources.limits[kamiwaza.ai/gpus]"),
        ({"nvidia.com/gpumem": "4096", NVIDIA: "2"}, f"resources.limits[{NVIDIA}]"),
        ({NVIDIA: "2"}, f"resources.limits[{NVIDIA}]"),
    ],
)
def test_the_number_that_is_too_large_is_shown_where_it_stands(asked: dict[str, str], field: str) -> None:
    refused = refusal_of(a_pod().annotated(f"{VRAM}.main", "6").init("shard", **with_limits(asked)))
    assert (refused.field, refused.value) == (f"containers[shard].{field}", "2")


def test_arguments_of_an_init_container_that_ask_for_too_many_cards_are_named() -> None:
    shard = {"image": VLLM_IMAGE, "args": ["-tp", "2"], **with_limits({VRAM: "4"})}
    refused = refusal_of(a_pod().annotated(f"{VRAM}.main", "6").init("shard", **shard))
    assert (refused.field, refused.value) == ("containers[shard].args", "2")


def test_a_sidecar_keeps_its_own_share() -> None:
    pod = a_pod().annotated(f"{VRAM}.main", "8").annotated(f"{VRAM}.embed", "2").sidecar("embed")
    assert [(ask.container, ask.init) for ask in demand_of(pod).asks] == [("embed", ()), ("main", ())]


def test_an_app_container_carries_the_peak_before_a_sidecar_does() -> None:
    pod = a_pod().annotated(f"{VRAM}.main", "8").annotated(f"{VRAM}.proxy", "4").annotated(f"{VRAM}.convert", "12")
    demand = demand_of(pod.sidecar("proxy").init("convert"))
    assert {ask.container: [str(amount) for amount in ask.init] for ask in demand.asks} == {
        "main": ["12 GB"],
        "proxy": [],
    }
