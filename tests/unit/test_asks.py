"""What each container asks: which words are read, what contradicts what, and whom an ask is for."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.amounts import WHOLE, Amount
from shared.core.found import Source
from tests.builders import PodBuilder, a_pod
from tests.unit.asking import ask_of, demand_of, refusal_of, with_limits

VRAM = "kamiwaza.ai/vram-gb"
GPUS = "kamiwaza.ai/gpus"
CONTAINER = "kamiwaza.ai/container"
NVIDIA = "nvidia.com/gpu"
AMD = "amd.com/gpu"
SIX = Amount(gb=6)


@pytest.mark.parametrize(
    ("pod", "amount", "count", "source"),
    [
        pytest.param(a_pod().annotated(VRAM, "6"), SIX, 1, Source.ANNOTATION, id="annotation"),
        pytest.param(a_pod().annotated(VRAM, "whole"), WHOLE, 1, Source.ANNOTATION, id="whole-card"),
        pytest.param(a_pod().annotated(f"{VRAM}.main", "6"), SIX, 1, Source.ANNOTATION, id="for-a-container"),
        pytest.param(a_pod().limited_to({VRAM: 6}), SIX, 1, Source.RESOURCE, id="resource"),
        pytest.param(a_pod().annotated(VRAM, "6").annotated(GPUS, "2"), SIX, 2, Source.ANNOTATION, id="on-two-cards"),
        pytest.param(a_pod().limited_to({VRAM: "6", GPUS: "2"}), SIX, 2, Source.RESOURCE, id="two-in-resources"),
        pytest.param(
            a_pod().annotated(VRAM, "6").limited_to({GPUS: "2000m"}),
            SIX,
            2,
            Source.ANNOTATION,
            id="a-whole-number-however-spelled",
        ),
        pytest.param(a_pod().limited_to({NVIDIA: 2}), WHOLE, 2, Source.VENDOR_COUNT, id="vendor-count-alone"),
        pytest.param(a_pod().limited_to({NVIDIA: "1.0"}), WHOLE, 1, Source.VENDOR_COUNT, id="one-as-1.0"),
        pytest.param(
            a_pod().annotated(VRAM, "6").limited_to({NVIDIA: "2"}),
            SIX,
            2,
            Source.ANNOTATION,
            id="a-vendor-count-beside-an-amount-is-the-count",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").limited_to({VRAM: "6144Mi", GPUS: "2", NVIDIA: "2"}),
            SIX,
            2,
            Source.ANNOTATION,
            id="the-same-said-twice",
        ),
        pytest.param(
            a_pod().limited_to({NVIDIA: "1"}).requesting({NVIDIA: "1000m"}),
            WHOLE,
            1,
            Source.VENDOR_COUNT,
            id="request-and-limit-spelled-differently",
        ),
        pytest.param(
            a_pod().limited_to({VRAM: "6144Mi"}).requesting({VRAM: "6Gi"}),
            SIX,
            1,
            Source.RESOURCE,
            id="amount-and-request-spelled-differently",
        ),
        pytest.param(
            a_pod().limited_to({NVIDIA: "2", AMD: "0"}), WHOLE, 2, Source.VENDOR_COUNT, id="zero-of-another-vendor"
        ),
    ],
)
def test_an_ask_is_read_from_annotations_resources_and_vendor_counts(
    pod: PodBuilder, amount: Amount, count: int, source: Source
) -> None:
    ask = ask_of(pod)
    assert (ask.container, ask.amount, ask.count, ask.source) == ("main", amount, count, source)


@pytest.mark.parametrize("count", ["1.5", "0", "-1", "two", "", "65", "1500m", " 2"])
@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (lambda count: a_pod().annotated(VRAM, "6").annotated(GPUS, count), f"metadata.annotations[{GPUS}]"),
        (
            lambda count: a_pod().annotated(VRAM, "6").limited_to({GPUS: count}),
            f"containers[main].resources.limits[{GPUS}]",
        ),
    ],
    ids=["annotation", "resource"],
)
def test_a_wrong_count_is_refused_with_field_value_and_range(count: str, pod: Any, field: str) -> None:
    refused = refusal_of(pod(count))
    assert (refused.field, refused.value) == (field, count)
    assert refused.problem == "is not a number of cards"
    assert refused.fix == "write a whole number from 1 to 64"


@pytest.mark.parametrize("count", ["1.5", "-1", "two", "65"])
@pytest.mark.parametrize("resource", [NVIDIA, AMD])
def test_a_wrong_vendor_count_is_refused_and_zero_is_not_wrong(count: str, resource: str) -> None:
    refused = refusal_of(a_pod().limited_to({resource: count}))
    assert (refused.field, refused.value) == (f"containers[main].resources.limits[{resource}]", count)
    assert refused.fix == "write a whole number from 0 to 64"


@pytest.mark.parametrize("value", ["16GB", "-1", "0", "1e3", "", " 6", "150%", "auto"])
def test_a_wrong_amount_is_refused_and_never_read_as_none(value: str) -> None:
    refused = refusal_of(a_pod().annotated(VRAM, value))
    assert (refused.field, refused.value) == (f"metadata.annotations[{VRAM}]", value)


def test_a_count_without_an_amount_is_refused() -> None:
    refused = refusal_of(a_pod().annotated(GPUS, "2"))
    assert (refused.field, refused.value) == (f"metadata.annotations[{GPUS}]", "2")
    assert refused.problem == "says how many cards but not how much memory of each"
    assert f"add the annotation {VRAM}" in refused.fix


@pytest.mark.parametrize(
    ("pod", "field", "value", "problem"),
    [
        pytest.param(
            a_pod().annotated(VRAM, "6").limited_to({VRAM: "8"}),
            f"containers[main].resources.limits[{VRAM}]",
            "8",
            f"contradicts metadata.annotations[{VRAM}], which is '6': two amounts for one container",
            id="annotation-and-resource",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").annotated(f"{VRAM}.main", "8"),
            f"metadata.annotations[{VRAM}]",
            "6",
            f"contradicts metadata.annotations[{VRAM}.main], which is '8': two amounts for one container",
            id="pod-and-container",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").annotated(GPUS, "2").limited_to({NVIDIA: "1"}),
            f"containers[main].resources.limits[{NVIDIA}]",
            "1",
            f"contradicts metadata.annotations[{GPUS}], which is 2: two counts for one container",
            id="two-counts",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").annotated(GPUS, "2").limited_to({NVIDIA: "0"}),
            f"containers[main].resources.limits[{NVIDIA}]",
            "0",
            f"contradicts metadata.annotations[{GPUS}], which is 2: two counts for one container",
            id="two-cards-and-none",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").limited_to({NVIDIA: "0"}),
            f"containers[main].resources.limits[{NVIDIA}]",
            "0",
            f"asks for no card beside metadata.annotations[{VRAM}], which asks for 6 GB",
            id="an-amount-on-no-card",
        ),
    ],
)
def test_contradictions_are_refused_naming_both_sides(pod: PodBuilder, field: str, value: str, problem: str) -> None:
    refused = refusal_of(pod)
    assert (refused.field, refused.value, refused.problem) == (field, value, problem)


@pytest.mark.parametrize("resource", [VRAM, GPUS, NVIDIA, AMD])
def test_an_ask_in_requests_only_is_refused_as_the_api_server_would(resource: str) -> None:
    refused = refusal_of(a_pod().requesting({resource: "1"}))
    assert (refused.field, refused.value) == (f"containers[main].resources.requests[{resource}]", "1")
    assert refused.problem == "stands in requests without limits"
    assert refused.fix == f"write {resource} in resources.limits; the request follows by itself"


@pytest.mark.parametrize(
    ("request_", "limit"), [("1", "2"), ("x", "2"), ("1", "x")], ids=["other-number", "no-number", "no-limit"]
)
@pytest.mark.parametrize("resource", [VRAM, NVIDIA])
def test_a_request_that_differs_from_its_limit_is_refused(resource: str, request_: str, limit: str) -> None:
    refused = refusal_of(a_pod().requesting({resource: request_}).limited_to({resource: limit}))
    assert (refused.field, refused.value) == (f"containers[main].resources.requests[{resource}]", request_)
    assert refused.problem == f"differs from its limit, which is {limit!r}"


def test_a_wrong_value_in_requests_and_limits_alike_is_refused_for_what_it_is() -> None:
    refused = refusal_of(a_pod().requesting({NVIDIA: "one"}).limited_to({NVIDIA: "one"}))
    assert refused.problem == "is not a number of cards"


@pytest.mark.parametrize(
    ("pod", "container"),
    [
        pytest.param(a_pod().annotated(VRAM, "6"), "main", id="the-only-one"),
        pytest.param(
            a_pod().annotated(VRAM, "6").container("server").annotated(CONTAINER, "server"),
            "server",
            id="the-one-that-is-named",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").container("server", **with_limits({NVIDIA: 1})),
            "server",
            id="the-one-with-the-vendor-resource",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").limited_to({NVIDIA: 0}).container("server", **with_limits({NVIDIA: 1})),
            "server",
            id="a-vendor-count-of-zero-is-no-claim",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").annotated(CONTAINER, "main").container("other", **with_limits({"cpu": 1})),
            "main",
            id="the-first-one-when-named",
        ),
        pytest.param(a_pod().annotated(VRAM, "6").init("fetch"), "main", id="init-containers-do-not-serve"),
        pytest.param(
            a_pod().annotated(VRAM, "6").sidecar("istio-proxy"), "main", id="an-injected-sidecar-is-not-meant"
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").sidecar("engine", **with_limits({NVIDIA: 1})),
            "engine",
            id="a-sidecar-with-the-vendor-resource",
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").sidecar("engine").annotated(CONTAINER, "engine"),
            "engine",
            id="a-sidecar-that-is-named",
        ),
    ],
)
def test_a_pod_level_ask_goes_to_the_container_that_is_meant(pod: PodBuilder, container: str) -> None:
    ask = ask_of(pod)
    assert (ask.container, ask.amount) == (container, SIX)


@pytest.mark.parametrize(
    ("pod", "candidates"),
    [
        pytest.param(a_pod().annotated(VRAM, "6").container("web"), "main, web", id="two-containers"),
        pytest.param(
            a_pod()
            .annotated(VRAM, "6")
            .container("web")
            .limited_to({NVIDIA: 1})
            .container("server", **with_limits({NVIDIA: 1})),
            "main, server",
            id="two-with-the-vendor-resource",
        ),
    ],
)
def test_an_ask_that_may_be_meant_for_several_is_refused(pod: PodBuilder, candidates: str) -> None:
    refused = refusal_of(pod)
    assert (refused.field, refused.value) == (f"metadata.annotations[{VRAM}]", "6")
    assert refused.problem == f"may be meant for any of several containers ({candidates})"
    assert refused.fix == f"add the annotation {CONTAINER}, or write {VRAM}.<container>"


@pytest.mark.parametrize("named", ["web", "fetch", ""])
def test_a_container_that_does_not_serve_cannot_be_named(named: str) -> None:
    refused = refusal_of(a_pod().init("fetch").container("two").annotated(VRAM, "6").annotated(CONTAINER, named))
    assert (refused.field, refused.value) == (f"metadata.annotations[{CONTAINER}]", named)
    assert refused.fix == "write one of: main, two"


def test_containers_may_ask_each_for_themselves() -> None:
    pod = (
        a_pod()
        .annotated(f"{VRAM}.main", "6")
        .container("embed", **with_limits({VRAM: "2"}))
        .container("vision", **with_limits({NVIDIA: "1"}))
        .container("web")
    )
    assert [(ask.container, str(ask.amount), ask.source) for ask in demand_of(pod).asks] == [
        ("main", "6 GB", Source.ANNOTATION),
        ("embed", "2 GB", Source.RESOURCE),
        ("vision", "all memory", Source.VENDOR_COUNT),
    ]


def test_the_field_of_an_ask_is_where_it_was_read() -> None:
    assert ask_of(a_pod().annotated(VRAM, "6")).field == f"metadata.annotations[{VRAM}]"
    assert ask_of(a_pod().limited_to({NVIDIA: 1})).field == f"containers[main].resources.limits[{NVIDIA}]"


def test_as_many_containers_may_ask_as_can_be_worked_out() -> None:
    def asking(number: int) -> PodBuilder:
        pod = a_pod().annotated("kamiwaza.ai/vram-gb.main", "6")
        for each in range(1, number):
            pod = pod.container(f"c{each}").annotated(f"kamiwaza.ai/vram-gb.c{each}", "6")
        return pod

    assert len(demand_of(asking(16)).asks) == 16
    refused = refusal_of(asking(17))
    assert refused.field == "metadata.annotations[kamiwaza.ai/vram-gb.c16]"
    assert refused.fix == "spread the containers over several pods"
