"""What a pod asks as a whole: vendor, version, policy, and which containers must see no device."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.amounts import Amount
from shared.core.cards import Vendor
from shared.core.demand import Policy, read_pod
from shared.core.invalid import InvalidRequest
from tests.builders import PodBuilder, a_pod
from tests.unit.asking import ask_of, demand_of, refusal_of, seeing, with_limits

VRAM = "kamiwaza.ai/vram-gb"
CONTAINER = "kamiwaza.ai/container"
NVIDIA = "nvidia.com/gpu"
AMD = "amd.com/gpu"
DEVICES = "NVIDIA_VISIBLE_DEVICES"
SIX = Amount(gb=6)


@pytest.mark.parametrize(
    ("pod", "vendor"),
    [
        pytest.param(a_pod().annotated(VRAM, "6"), None, id="nothing-said"),
        pytest.param(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/vendor", "amd"), Vendor.AMD, id="said"),
        pytest.param(a_pod().limited_to({NVIDIA: 1}), Vendor.NVIDIA, id="by-its-resource"),
        pytest.param(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/vendor", "intel"), Vendor.INTEL, id="intel"),
        pytest.param(a_pod().limited_to({"gpu.intel.com/i915": 1}), Vendor.INTEL, id="by-intels-older-resource"),
        pytest.param(a_pod().limited_to({"gpu.intel.com/xe": "1"}), Vendor.INTEL, id="by-intels-newer-resource"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpumem": 8192}), Vendor.NVIDIA, id="hami-memory"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpumem-percentage": 5}), Vendor.NVIDIA, id="hami-percentage"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpucores": 30}), Vendor.NVIDIA, id="hami-cores"),
        pytest.param(a_pod().limited_to({"amd.com/gpumem": 8192}), Vendor.AMD, id="hami-memory-of-amd"),
        pytest.param(a_pod().annotated("gpu-memory", "8192"), Vendor.NVIDIA, id="kai-memory"),
        pytest.param(a_pod().annotated("gpu-fraction", "0.5"), Vendor.NVIDIA, id="kai-fraction"),
        pytest.param(
            a_pod().annotated(VRAM, "6").annotated("nvidia.com/use-gputype", "A10"), Vendor.NVIDIA, id="by-a-type"
        ),
        pytest.param(
            a_pod().annotated(VRAM, "6").annotated("amd.com/nouse-gpu-uuid", "x"), Vendor.AMD, id="by-a-uuid-of-amd"
        ),
        pytest.param(
            a_pod().limited_to({AMD: 1}).annotated("nvidia.com/use-gputype", "A10"),
            Vendor.AMD,
            id="a-type-of-another-vendor-says-nothing-beside-a-count",
        ),
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
def test_the_vendor_is_what_the_words_of_the_pod_mean(pod: PodBuilder, vendor: Vendor | None) -> None:
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
            a_pod().limited_to({NVIDIA: 1, "amd.com/gpumem": 8192}),
            "containers[main].resources.limits[amd.com/gpumem]",
            "8192",
            f"means AMD cards, while containers[main].resources.limits[{NVIDIA}], which is '1', means NVIDIA cards",
            id="count-and-memory",
        ),
        pytest.param(
            a_pod().annotated("gpu-fraction", "0.5").annotated("kamiwaza.ai/vendor", "amd"),
            "metadata.annotations[gpu-fraction]",
            "0.5",
            "means NVIDIA cards, while metadata.annotations[kamiwaza.ai/vendor], which is 'amd', means AMD cards",
            id="a-fraction-of-an-amd-card",
        ),
        pytest.param(
            a_pod()
            .annotated(VRAM, "6")
            .annotated("nvidia.com/use-gputype", "A10")
            .annotated("amd.com/use-gputype", "MI300X"),
            "metadata.annotations[amd.com/use-gputype]",
            "MI300X",
            "means AMD cards, while metadata.annotations[nvidia.com/use-gputype], which is 'A10', means NVIDIA cards",
            id="types-of-two-vendors",
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
def test_two_vendors_in_one_pod_are_refused(pod: PodBuilder, field: str, value: str, problem: str) -> None:
    refused = refusal_of(pod)
    assert (refused.field, refused.value, refused.problem) == (field, value, problem)


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("NVIDIA", "write nvidia"),
        (" Amd", "write amd"),
        ("apple", "write nvidia or amd"),
        ("Intel", "write nvidia or amd"),
        ("", "write nvidia or amd"),
    ],
)
def test_an_unknown_vendor_is_refused_with_the_one_that_is_meant_or_those_that_are_placed(value: str, fix: str) -> None:
    refused = refusal_of(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/vendor", value))
    assert (refused.field, refused.value) == ("metadata.annotations[kamiwaza.ai/vendor]", value)
    assert refused.fix == fix


def test_the_accelerator_version_is_read() -> None:
    pod = a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/accel-version", "cuda>=12.4")
    assert str(demand_of(pod).accel) == "CUDA 12.4 or newer"


def test_a_wrong_accelerator_version_is_refused_by_its_field() -> None:
    refused = refusal_of(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/accel-version", "12.4"))
    assert (refused.field, refused.value) == ("metadata.annotations[kamiwaza.ai/accel-version]", "12.4")


@pytest.mark.parametrize("policy", list(Policy))
def test_the_policy_is_read(policy: Policy) -> None:
    assert demand_of(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/policy", policy)).policy is policy


def test_packing_is_the_policy_where_none_is_named() -> None:
    assert demand_of(a_pod().annotated(VRAM, "6")).policy is Policy.BINPACK


def test_an_unknown_policy_is_refused_with_those_we_know() -> None:
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
def test_details_of_an_ask_that_is_not_made_are_refused(key: str, value: str) -> None:
    refused = refusal_of(a_pod().annotated(key, value))
    assert (refused.field, refused.value) == (f"metadata.annotations[{key}]", value)
    assert refused.problem == "says more about an ask that the pod does not make"


def test_a_pod_that_asks_for_nothing_has_no_demand() -> None:
    read = read_pod(a_pod().container("web").raw())
    assert (read.demand, read.hidden) == (None, ())
    assert [container.name for container in read.containers] == ["main", "web"]


@pytest.mark.parametrize("resource", [NVIDIA, AMD])
def test_a_container_that_asks_for_zero_gpus_is_to_see_none(resource: str) -> None:
    pod = a_pod().limited_to({resource: "0"}).requesting({resource: "0"}).container("web")
    read = read_pod(pod.raw())
    assert (read.demand, read.hidden) == (None, ("main",))


def test_zero_gpus_hide_what_the_variable_shows() -> None:
    pod = a_pod().container("notebook", **with_limits({NVIDIA: 0}), **seeing("all"))
    assert read_pod(pod.raw()).hidden == ("notebook",)


def test_zero_gpus_of_one_container_do_not_touch_the_ask_of_another() -> None:
    pod = a_pod().limited_to({NVIDIA: 0}).container("server", **with_limits({NVIDIA: 1}))
    read = read_pod(pod.raw())
    assert read.demand is not None
    assert [ask.container for ask in read.demand.asks] == ["server"]
    assert read.hidden == ("main",)


@pytest.mark.parametrize("value", ["all", "0", "0,1", "GPU-8f6c", "MIG-1"])
def test_seeing_devices_without_an_ask_is_refused(value: str) -> None:
    refused = refusal_of(a_pod().container("sneak", **seeing(value)))
    assert (refused.field, refused.value) == (f"containers[sneak].env[{DEVICES}]", value)
    assert refused.problem == "would show cards that nothing is booked on"
    assert refused.fix == (
        f"ask for its memory with the annotation {VRAM}.sneak and remove the variable, or set it to void to see no card"
    )


def test_the_only_container_that_sees_devices_without_an_ask_is_told_the_amount_of_the_pod() -> None:
    pod = a_pod()
    raw = pod.raw()
    raw["spec"]["containers"][0].update(seeing("all"))
    with pytest.raises(InvalidRequest) as refused:
        read_pod(raw)
    assert refused.value.fix == f"ask for memory with the annotation {VRAM} and remove the variable"


@pytest.mark.parametrize("cured", ["own-amount", "void"])
def test_a_monitor_beside_a_served_container_is_placed_once_it_does_as_it_was_told(cured: str) -> None:
    pod = a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/container", "main")
    assert f"{VRAM}.monitor" in refusal_of(pod.container("monitor", **seeing("all"))).fix
    pod = a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/container", "main")
    if cured == "void":
        pod.container("monitor", **seeing("void"))
    else:
        pod.annotated(f"{VRAM}.monitor", "1").container("monitor")
    assert [ask.container for ask in demand_of(pod).asks] == (["main"] if cured == "void" else ["main", "monitor"])


def test_devices_named_in_a_config_map_are_refused_as_well() -> None:
    env = [{"name": DEVICES, "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
    refused = refusal_of(a_pod().container("sneak", env=env))
    assert (refused.field, refused.value) == (f"containers[sneak].env[{DEVICES}]", "(from elsewhere)")


def test_the_ask_of_one_container_does_not_cover_another() -> None:
    refused = refusal_of(a_pod().limited_to({NVIDIA: 1}).container("sneak", **seeing("all")))
    assert refused.field == f"containers[sneak].env[{DEVICES}]"


@pytest.mark.parametrize("value", ["void", "none", ""])
def test_seeing_no_device_is_fine(value: str) -> None:
    assert read_pod(a_pod().container("web", **seeing(value)).raw()).demand is None


def test_a_container_that_asks_may_name_devices() -> None:
    pod = a_pod().annotated(VRAM, "6").annotated(CONTAINER, "server").container("server", **seeing("all"))
    assert ask_of(pod).container == "server"


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


def test_misspelt_and_contradictory_words_are_refused() -> None:
    assert refusal_of(a_pod().annotated(VRAM, "6").annotated("kamiwaza.ai/vram-gbs", "6")).fix == f"write {VRAM}"
    assert "keep one of the two" in refusal_of(a_pod().limited_to({"nvidia.com/gpu.shared": 1, NVIDIA: 1})).fix


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
