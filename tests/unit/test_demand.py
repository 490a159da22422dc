"""What a pod asks of the cards: how its words are read, attributed and refused."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.amounts import WHOLE, Amount
from shared.core.asks import Ask, Source
from shared.core.cards import Vendor
from shared.core.demand import Demand, Policy, read_pod
from shared.core.invalid import InvalidRequest
from tests.builders import PodBuilder, a_pod

VRAM = "kamiwaza.ai/vram-gb"
GPUS = "kamiwaza.ai/gpus"
CONTAINER = "kamiwaza.ai/container"
NVIDIA = "nvidia.com/gpu"
AMD = "amd.com/gpu"
DEVICES = "NVIDIA_VISIBLE_DEVICES"
SIX = Amount(gb=6)


def demand_of(pod: PodBuilder) -> Demand:
    demand = read_pod(pod.raw()).demand
    assert demand is not None
    return demand


def ask_of(pod: PodBuilder) -> Ask:
    (ask,) = demand_of(pod).asks
    return ask


def refusal_of(pod: PodBuilder) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        read_pod(pod.raw())
    return refused.value


def with_limits(resources: dict[str, Any]) -> dict[str, Any]:
    return {"resources": {"limits": resources}}


def seeing(value: str) -> dict[str, Any]:
    return {"env": [{"name": DEVICES, "value": value}]}


class TestAsk:
    @pytest.mark.parametrize(
        ("pod", "amount", "count", "source"),
        [
            pytest.param(a_pod().annotated(VRAM, "6"), SIX, 1, Source.ANNOTATION, id="annotation"),
            pytest.param(a_pod().annotated(VRAM, "whole"), WHOLE, 1, Source.ANNOTATION, id="whole-card"),
            pytest.param(a_pod().annotated(f"{VRAM}.main", "6"), SIX, 1, Source.ANNOTATION, id="for-a-container"),
            pytest.param(a_pod().limited_to({VRAM: 6}), SIX, 1, Source.RESOURCE, id="resource"),
            pytest.param(
                a_pod().annotated(VRAM, "6").annotated(GPUS, "2"), SIX, 2, Source.ANNOTATION, id="on-two-cards"
            ),
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
    def test_it_is_read_from_annotations_resources_and_vendor_counts(
        self, pod: PodBuilder, amount: Amount, count: int, source: Source
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
    def test_a_wrong_count_is_refused_with_field_value_and_range(self, count: str, pod: Any, field: str) -> None:
        refused = refusal_of(pod(count))
        assert (refused.field, refused.value) == (field, count)
        assert refused.problem == "is not a number of cards"
        assert refused.fix == "write a whole number from 1 to 64"

    @pytest.mark.parametrize("count", ["1.5", "-1", "two", "65"])
    @pytest.mark.parametrize("resource", [NVIDIA, AMD])
    def test_a_wrong_vendor_count_is_refused_and_zero_is_not_wrong(self, count: str, resource: str) -> None:
        refused = refusal_of(a_pod().limited_to({resource: count}))
        assert (refused.field, refused.value) == (f"containers[main].resources.limits[{resource}]", count)
        assert refused.fix == "write a whole number from 0 to 64"

    @pytest.mark.parametrize("value", ["16GB", "-1", "0", "1e3", "", " 6", "150%", "auto"])
    def test_a_wrong_amount_is_refused_and_never_read_as_none(self, value: str) -> None:
        refused = refusal_of(a_pod().annotated(VRAM, value))
        assert (refused.field, refused.value) == (f"metadata.annotations[{VRAM}]", value)

    def test_a_count_without_an_amount_is_refused(self) -> None:
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
    def test_contradictions_are_refused_naming_both_sides(
        self, pod: PodBuilder, field: str, value: str, problem: str
    ) -> None:
        refused = refusal_of(pod)
        assert (refused.field, refused.value, refused.problem) == (field, value, problem)

    @pytest.mark.parametrize("resource", [VRAM, GPUS, NVIDIA, AMD])
    def test_an_ask_in_requests_only_is_refused_as_the_api_server_would(self, resource: str) -> None:
        refused = refusal_of(a_pod().requesting({resource: "1"}))
        assert (refused.field, refused.value) == (f"containers[main].resources.requests[{resource}]", "1")
        assert refused.problem == "stands in requests without limits"
        assert refused.fix == f"write {resource} in resources.limits; the request follows by itself"

    @pytest.mark.parametrize(
        ("request_", "limit"), [("1", "2"), ("x", "2"), ("1", "x")], ids=["other-number", "no-number", "no-limit"]
    )
    @pytest.mark.parametrize("resource", [VRAM, NVIDIA])
    def test_a_request_that_differs_from_its_limit_is_refused(self, resource: str, request_: str, limit: str) -> None:
        refused = refusal_of(a_pod().requesting({resource: request_}).limited_to({resource: limit}))
        assert (refused.field, refused.value) == (f"containers[main].resources.requests[{resource}]", request_)
        assert refused.problem == f"differs from its limit, which is {limit!r}"

    def test_a_wrong_value_in_requests_and_limits_alike_is_refused_for_what_it_is(self) -> None:
        refused = refusal_of(a_pod().requesting({NVIDIA: "one"}).limited_to({NVIDIA: "one"}))
        assert refused.problem == "is not a number of cards"


class TestAttribution:
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
    def test_a_pod_level_ask_goes_to_the_container_that_is_meant(self, pod: PodBuilder, container: str) -> None:
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
    def test_an_ask_that_may_be_meant_for_several_is_refused(self, pod: PodBuilder, candidates: str) -> None:
        refused = refusal_of(pod)
        assert (refused.field, refused.value) == (f"metadata.annotations[{VRAM}]", "6")
        assert refused.problem == f"may be meant for any of several containers ({candidates})"
        assert refused.fix == f"add the annotation {CONTAINER}, or write {VRAM}.<container>"

    @pytest.mark.parametrize("named", ["web", "fetch", ""])
    def test_a_container_that_does_not_serve_cannot_be_named(self, named: str) -> None:
        refused = refusal_of(a_pod().init("fetch").container("two").annotated(VRAM, "6").annotated(CONTAINER, named))
        assert (refused.field, refused.value) == (f"metadata.annotations[{CONTAINER}]", named)
        assert refused.fix == "write one of: main, two"

    def test_containers_may_ask_each_for_themselves(self) -> None:
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

    def test_the_field_of_an_ask_is_where_it_was_read(self) -> None:
        assert ask_of(a_pod().annotated(VRAM, "6")).field == f"metadata.annotations[{VRAM}]"
        assert ask_of(a_pod().limited_to({NVIDIA: 1})).field == f"containers[main].resources.limits[{NVIDIA}]"


class TestVendor:
    @pytest.mark.parametrize(
        ("pod", "vendor"),
        [
            pytest.param(a_pod().annotated(VRAM, "6"), None, id="nothing-said"),
            pytest.param(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/vendor", "amd"), Vendor.AMD, id="said"),
            pytest.param(
                a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/vendor", "intel"), Vendor.INTEL, id="intel"
            ),
            pytest.param(a_pod().limited_to({NVIDIA: 1}), Vendor.NVIDIA, id="by-its-resource"),
            pytest.param(a_pod().limited_to({AMD: 1, NVIDIA: 0}), Vendor.AMD, id="a-zero-says-nothing"),
            pytest.param(
                a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/accel-version", "cuda>=12.4"),
                Vendor.NVIDIA,
                id="cuda-is-nvidia",
            ),
            pytest.param(
                a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/accel-version", "rocm 6"),
                Vendor.AMD,
                id="rocm-is-amd",
            ),
        ],
    )
    def test_it_is_what_the_words_of_the_pod_mean(self, pod: PodBuilder, vendor: Vendor | None) -> None:
        assert demand_of(pod).vendor is vendor

    @pytest.mark.parametrize(
        ("pod", "field", "value", "problem"),
        [
            pytest.param(
                a_pod().limited_to({NVIDIA: 1}).annotated("kamiwaza.ai/vendor", "amd"),
                f"containers[main].resources.limits[{NVIDIA}]",
                "1",
                "means NVIDIA cards, while metadata.annotations[kamiwaza.ai/vendor], which is 'amd', means AMD cards",
                id="annotation-and-resource",
            ),
            pytest.param(
                a_pod().limited_to({NVIDIA: 1}).annotated("kamiwaza.ai/accel-version", "rocm>=6.2"),
                f"containers[main].resources.limits[{NVIDIA}]",
                "1",
                "means NVIDIA cards, while metadata.annotations[kamiwaza.ai/accel-version], which is 'rocm>=6.2', "
                "means AMD cards",
                id="runtime-and-resource",
            ),
            pytest.param(
                a_pod().limited_to({NVIDIA: 1, AMD: 1}),
                f"containers[main].resources.limits[{AMD}]",
                "1",
                f"means AMD cards, while containers[main].resources.limits[{NVIDIA}], which is '1', means NVIDIA cards",
                id="two-resources-of-one-container",
            ),
            pytest.param(
                a_pod().limited_to({NVIDIA: 1}).container("second", **with_limits({AMD: 1})),
                f"containers[second].resources.limits[{AMD}]",
                "1",
                f"means AMD cards, while containers[main].resources.limits[{NVIDIA}], which is '1', means NVIDIA cards",
                id="two-containers",
            ),
        ],
    )
    def test_two_vendors_in_one_pod_are_refused(self, pod: PodBuilder, field: str, value: str, problem: str) -> None:
        refused = refusal_of(pod)
        assert (refused.field, refused.value, refused.problem) == (field, value, problem)

    @pytest.mark.parametrize("value", ["NVIDIA", "apple", ""])
    def test_an_unknown_vendor_is_refused_with_those_we_know(self, value: str) -> None:
        refused = refusal_of(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/vendor", value))
        assert (refused.field, refused.value) == ("metadata.annotations[kamiwaza.ai/vendor]", value)
        assert refused.fix == "write one of: nvidia, amd, intel"


class TestDetails:
    def test_the_accelerator_version_is_read(self) -> None:
        pod = a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/accel-version", "cuda>=12.4")
        assert str(demand_of(pod).accel) == "CUDA 12.4 or newer"

    def test_a_wrong_accelerator_version_is_refused_by_its_field(self) -> None:
        refused = refusal_of(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/accel-version", "12.4"))
        assert (refused.field, refused.value) == ("metadata.annotations[kamiwaza.ai/accel-version]", "12.4")

    @pytest.mark.parametrize("policy", list(Policy))
    def test_the_policy_is_read(self, policy: Policy) -> None:
        assert demand_of(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/policy", policy)).policy is policy

    def test_packing_is_the_policy_where_none_is_named(self) -> None:
        assert demand_of(a_pod().annotated(VRAM, "6")).policy is Policy.BINPACK

    def test_an_unknown_policy_is_refused_with_those_we_know(self) -> None:
        refused = refusal_of(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/policy", "pack"))
        assert (refused.field, refused.value) == ("metadata.annotations[kamiwaza.ai/policy]", "pack")
        assert refused.fix == "write one of: binpack, spread, exclusive"

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("kamiwaza.ai/vendor", "nvidia"),
            ("kamiwaza.ai/accel-version", "cuda 12"),
            ("kamiwaza.ai/policy", "spread"),
            ("kamiwaza.ai/container", "main"),
        ],
    )
    def test_details_of_an_ask_that_is_not_made_are_refused(self, key: str, value: str) -> None:
        refused = refusal_of(a_pod().annotated(key, value))
        assert (refused.field, refused.value) == (f"metadata.annotations[{key}]", value)
        assert refused.problem == "says more about an ask that the pod does not make"


class TestDevices:
    def test_a_pod_that_asks_for_nothing_has_no_demand(self) -> None:
        read = read_pod(a_pod().container("web").raw())
        assert (read.demand, read.hidden) == (None, ())
        assert [container.name for container in read.containers] == ["main", "web"]

    @pytest.mark.parametrize("resource", [NVIDIA, AMD])
    def test_a_container_that_asks_for_zero_gpus_is_to_see_none(self, resource: str) -> None:
        pod = a_pod().limited_to({resource: "0"}).requesting({resource: "0"}).container("web")
        read = read_pod(pod.raw())
        assert (read.demand, read.hidden) == (None, ("main",))

    def test_zero_gpus_hide_what_the_variable_shows(self) -> None:
        pod = a_pod().container("notebook", **with_limits({NVIDIA: 0}), **seeing("all"))
        assert read_pod(pod.raw()).hidden == ("notebook",)

    def test_zero_gpus_of_one_container_do_not_touch_the_ask_of_another(self) -> None:
        pod = a_pod().limited_to({NVIDIA: 0}).container("server", **with_limits({NVIDIA: 1}))
        read = read_pod(pod.raw())
        assert read.demand is not None
        assert [ask.container for ask in read.demand.asks] == ["server"]
        assert read.hidden == ("main",)

    @pytest.mark.parametrize("value", ["all", "0", "0,1", "GPU-8f6c", "MIG-1"])
    def test_seeing_devices_without_an_ask_is_refused(self, value: str) -> None:
        refused = refusal_of(a_pod().container("sneak", **seeing(value)))
        assert (refused.field, refused.value) == (f"containers[sneak].env[{DEVICES}]", value)
        assert refused.problem == "shows cards of which nothing is booked"
        assert refused.fix == f"ask for memory with the annotation {VRAM} and remove the variable"

    def test_devices_named_in_a_config_map_are_refused_as_well(self) -> None:
        env = [{"name": DEVICES, "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
        refused = refusal_of(a_pod().container("sneak", env=env))
        assert (refused.field, refused.value) == (f"containers[sneak].env[{DEVICES}]", "(from elsewhere)")

    def test_the_ask_of_one_container_does_not_cover_another(self) -> None:
        refused = refusal_of(a_pod().limited_to({NVIDIA: 1}).container("sneak", **seeing("all")))
        assert refused.field == f"containers[sneak].env[{DEVICES}]"

    @pytest.mark.parametrize("value", ["void", "none", ""])
    def test_seeing_no_device_is_fine(self, value: str) -> None:
        assert read_pod(a_pod().container("web", **seeing(value)).raw()).demand is None

    def test_a_container_that_asks_may_name_devices(self) -> None:
        pod = a_pod().annotated(VRAM, "6").annotated(CONTAINER, "server").container("server", **seeing("all"))
        assert ask_of(pod).container == "server"


class TestInitContainers:
    def test_what_they_need_moves_to_the_container_that_serves(self) -> None:
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

    def test_their_vendor_resource_means_the_same_cards(self) -> None:
        pod = a_pod().limited_to({NVIDIA: 2}).init("check", **with_limits({NVIDIA: 1}))
        ask = ask_of(pod)
        assert (ask.count, ask.init, ask.init_containers) == (2, (WHOLE,), ("check",))

    def test_they_use_the_cards_of_the_container_with_the_most(self) -> None:
        pod = (
            a_pod()
            .annotated(f"{VRAM}.convert", "20")
            .limited_to({VRAM: "2"})
            .container("server", **with_limits({VRAM: "8", GPUS: "2"}))
            .init("convert")
        )
        assert [(ask.container, len(ask.init)) for ask in demand_of(pod).asks] == [("main", 0), ("server", 1)]

    def test_one_that_would_see_every_card_is_given_those_of_the_pod(self) -> None:
        pod = a_pod().annotated(VRAM, "6").init("fetch").init("probe", **seeing("all"))
        ask = ask_of(pod)
        assert (ask.init, ask.init_containers) == ((), ("probe",))

    def test_one_that_would_see_every_card_of_a_pod_that_asks_for_nothing_is_refused(self) -> None:
        assert refusal_of(a_pod().init("probe", **seeing("all"))).field == f"containers[probe].env[{DEVICES}]"

    def test_an_init_container_alone_cannot_ask(self) -> None:
        refused = refusal_of(a_pod().annotated(f"{VRAM}.convert", "20").init("convert"))
        assert (refused.field, refused.value) == (f"metadata.annotations[{VRAM}.convert]", "20 GB")
        assert refused.problem == "is asked for init container convert only"

    def test_an_init_container_cannot_use_more_cards_than_the_pod_has(self) -> None:
        refused = refusal_of(a_pod().limited_to({NVIDIA: 1}).init("shard", **with_limits({NVIDIA: 2})))
        assert refused.problem == "is more cards than container main has, which init container shard uses"
        assert refused.fix == "ask for at most 1"

    def test_a_sidecar_keeps_its_own_share(self) -> None:
        pod = a_pod().annotated(f"{VRAM}.main", "8").annotated(f"{VRAM}.embed", "2").sidecar("embed")
        assert [(ask.container, ask.init) for ask in demand_of(pod).asks] == [("embed", ()), ("main", ())]


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (a_pod().annotated(VRAM, "6"), "6 GB on one card"),
        (a_pod().annotated(VRAM, "6").limited_to({NVIDIA: 2}), "6 GB on each of 2 NVIDIA cards"),
        (a_pod().annotated(VRAM, "50%"), "50 % of the memory on one card"),
        (a_pod().limited_to({NVIDIA: 1}), "a whole NVIDIA card"),
        (a_pod().limited_to({AMD: 4}), "4 whole AMD cards"),
        (
            a_pod().annotated(f"{VRAM}.main", "6").container("vision", **with_limits({NVIDIA: 1})),
            "6 GB on one NVIDIA card and a whole NVIDIA card",
        ),
        (
            a_pod().annotated(f"{VRAM}.main", "6").annotated(f"{VRAM}.fetch", "8").init("fetch"),
            "6 GB on one card (before it starts: 8 GB)",
        ),
        (
            a_pod().limited_to({NVIDIA: 2}).annotated(f"{VRAM}.fetch", "8").init("fetch"),
            "2 whole NVIDIA cards (before it starts: 8 GB)",
        ),
    ],
)
def test_a_demand_is_told_in_words(pod: PodBuilder, words: str) -> None:
    assert str(demand_of(pod)) == words


def test_misspelt_and_foreign_words_are_refused_before_anything_is_read() -> None:
    assert refusal_of(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/vram-gbs", "6")).fix == f"write {VRAM}"
    assert "not read by this version" in refusal_of(a_pod().limited_to({"nvidia.com/gpumem": 1, NVIDIA: 1})).problem


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ([], "metadata"),
        ({"annotations": "x"}, "metadata.annotations"),
        ({"labels": ["x"]}, "metadata.labels"),
        ({"annotations": {VRAM: {"gb": 6}}}, f"metadata.annotations[{VRAM}]"),
        ({"annotations": {VRAM: [6]}}, f"metadata.annotations[{VRAM}]"),
    ],
)
def test_metadata_of_another_shape_is_refused_by_its_field(metadata: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_pod({"metadata": metadata, "spec": {}})
    assert refused.value.field == field


@pytest.mark.parametrize("value", [6, 6.0, "6"], ids=["number", "decimal", "text"])
def test_a_number_that_stands_unquoted_is_read_like_its_text(value: Any) -> None:
    pod = {"metadata": {"annotations": {VRAM: value}}, "spec": {"containers": [{"name": "main"}]}}
    read = read_pod(pod)
    assert read.demand is not None
    assert read.demand.asks[0].amount == SIX
