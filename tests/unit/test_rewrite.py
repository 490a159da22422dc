"""What a placed pod looks like."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from shared.core.cards import Vendor
from shared.core.pods import pinned_node
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.asking import with_limits
from tests.unit.core_builders import cards, node
from tests.unit.rewriting import ID, NODE, injecting, placed
from webhook.patch import PodPatch
from webhook.rewrite import hide_devices, silence_defaults

VRAM = "kamiwaza.ai/vram-gb"
GPUS = "kamiwaza.ai/gpus"
NVIDIA = "NVIDIA_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"


def card(index: int) -> str:
    return f"kamiwaza.ai/vram-gb-gpu-{index}"


def asking(gb: str = "6") -> PodBuilder:
    return a_pod().annotated(VRAM, gb)


def with_env(*env: dict[str, Any]) -> PodBuilder:
    return asking().spec(containers=[{"name": "main", "env": list(env)}])


def record_of(pod: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = orjson.loads(pod["metadata"]["annotations"]["kamiwaza.ai/placed"])
    return record


def test_the_serving_container_requests_its_share_of_its_card() -> None:
    resources = placed(asking()).container()["resources"]
    assert resources == {"limits": {card(0): "6"}, "requests": {card(0): "6"}}


def test_several_cards_are_one_request_each_and_are_all_shown() -> None:
    rewritten = placed(asking("10").annotated(GPUS, "2"))
    assert rewritten.container()["resources"]["limits"] == {card(0): "10", card(1): "10"}
    assert rewritten.env() == {NVIDIA: "GPU-0,GPU-1"}


def test_other_resources_stay_and_the_replaced_one_goes() -> None:
    pod = a_pod().limited_to({"nvidia.com/gpu": "1", "cpu": "2"}).requesting({"nvidia.com/gpu": "1", "cpu": "1"})
    resources = placed(pod).container()["resources"]
    assert resources["limits"] == {"cpu": "2", card(0): "16"}
    assert resources["requests"] == {"cpu": "1", card(0): "16"}


def test_containers_that_ask_for_nothing_are_untouched() -> None:
    helper: dict[str, Any] = {"name": "helper", "image": "example/helper", "env": [{"name": CUDA, "value": "7"}]}
    pod = asking().annotated("kamiwaza.ai/container", "main").container(**helper).init("fetch", {"cpu": "1"})
    rewritten = placed(pod)
    assert rewritten.container("helper") == helper
    assert rewritten.container("fetch") == {"name": "fetch", "resources": {"requests": {"cpu": "1"}}}


def test_containers_are_found_by_name_wherever_other_webhooks_moved_them() -> None:
    pod = asking().annotated("kamiwaza.ai/container", "main").raw()
    pod["spec"]["containers"].insert(0, {"name": "istio-proxy", "image": "example/proxy"})
    rewritten = placed(pod)
    assert "resources" not in rewritten.container("istio-proxy")
    assert rewritten.container("main")["resources"]["limits"] == {card(0): "6"}


def test_an_init_container_has_no_request_and_sees_the_cards_of_the_one_it_prepares_for() -> None:
    pod = asking().init("warm-up", **with_limits({VRAM: "10"}))
    rewritten = placed(pod)
    assert rewritten.container("warm-up")["resources"]["limits"] == {}
    assert rewritten.env("warm-up") == {NVIDIA: "GPU-0"}
    assert rewritten.container()["resources"]["limits"] == {card(0): "10"}


def test_a_sidecar_carries_its_own_request() -> None:
    pod = asking().sidecar("draft", **with_limits({VRAM: "2"}))
    rewritten = placed(pod)
    assert rewritten.container("draft")["resources"]["limits"] == {card(0): "2"}
    assert rewritten.container()["resources"]["limits"] == {card(0): "6"}


def test_the_pod_is_pinned_by_affinity_and_never_bound() -> None:
    pod = placed(asking()).pod
    assert pinned_node(pod["spec"]) == "node-a"
    assert "nodeName" not in pod["spec"]


def test_label_and_record_tell_what_was_decided_and_what_was_changed() -> None:
    pod = placed(a_pod().limited_to({"nvidia.com/gpu": "1"})).pod
    assert pod["metadata"]["labels"] == {"kamiwaza.ai/reservation": ID}
    record = record_of(pod)
    assert record["v"] == 1
    assert record["id"] == ID
    assert record["node"] == "node-a"
    assert record["shares"] == [{"container": "main", "card": 0, "uuid": "GPU-0", "gb": 16}]
    assert record["from"] == "vendor-count"
    assert {"path": "containers/main/resources/limits/nvidia.com~1gpu", "was": "1"} in record["changed"]


@pytest.mark.parametrize(
    "variable",
    [
        pytest.param({"name": NVIDIA, "value": "all"}, id="all"),
        pytest.param({"name": NVIDIA, "value": "0"}, id="a-number"),
        pytest.param({"name": NVIDIA, "value": "none"}, id="none"),
        pytest.param({"name": NVIDIA, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, id="from-elsewhere"),
    ],
)
def test_what_the_user_lets_a_container_see_is_replaced_with_a_warning(variable: dict[str, Any]) -> None:
    rewritten = placed(with_env({"name": "A", "value": "1"}, variable, {"name": "B", "value": "2"}))
    assert rewritten.container()["env"] == [
        {"name": "A", "value": "1"},
        {"name": NVIDIA, "value": "GPU-0"},
        {"name": "B", "value": "2"},
    ]
    (warning,) = rewritten.warnings
    assert NVIDIA in warning
    assert "main" in warning


def test_a_variable_that_says_the_same_already_is_no_reason_to_warn() -> None:
    assert placed(with_env({"name": NVIDIA, "value": "GPU-0"})).warnings == ()


SELECTIONS = [
    pytest.param(CUDA, Vendor.NVIDIA, id="cuda"),
    pytest.param(CUDA, Vendor.AMD, id="cuda-on-amd"),
    pytest.param("HIP_VISIBLE_DEVICES", Vendor.AMD, id="hip"),
    pytest.param("GPU_DEVICE_ORDINAL", Vendor.AMD, id="ordinal"),
]


@pytest.mark.parametrize(("variable", "vendor"), SELECTIONS)
@pytest.mark.parametrize("value", ["0", "GPU-0", " 0 "])
def test_a_selection_inside_the_containers_cards_stays(value: str, variable: str, vendor: Vendor) -> None:
    rewritten = placed(with_env({"name": variable, "value": value}), node("n", cards(16, vendor=vendor)))
    assert rewritten.env()[variable] == value
    assert rewritten.warnings == ()


@pytest.mark.parametrize(("variable", "vendor"), SELECTIONS)
@pytest.mark.parametrize("value", ["1", "0,1", "GPU-1", "-1", "all", "", "0,0"])
def test_a_selection_outside_the_containers_cards_is_removed_with_a_warning(
    value: str, variable: str, vendor: Vendor
) -> None:
    rewritten = placed(with_env({"name": variable, "value": value}), node("n", cards(16, 16, vendor=vendor)))
    assert variable not in rewritten.env()
    (warning,) = rewritten.warnings
    assert warning == f"container main: {variable} was {value!r}, which points outside its 1 card(s); it is removed"


def test_a_selection_of_another_vendors_cards_is_left_to_the_user() -> None:
    variables = ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"]
    rewritten = placed(with_env(*({"name": name, "value": "7"} for name in variables)))
    assert set(variables) <= rewritten.env().keys()
    assert rewritten.warnings == ()


def test_a_sidecar_and_an_init_container_select_among_their_own_cards() -> None:
    env = [{"name": CUDA, "value": "1"}]
    pod = (
        asking()
        .annotated(GPUS, "2")
        .sidecar("draft", **with_limits({VRAM: "2"}), env=env)
        .init("warm-up", **with_limits({VRAM: "2"}), env=env)
    )
    rewritten = placed(pod)
    assert CUDA not in rewritten.env("draft")
    assert rewritten.env("warm-up")[CUDA] == "1"


def test_a_list_of_devices_beside_an_amount_is_no_count() -> None:
    rewritten = placed(with_env({"name": NVIDIA, "value": "0,1"}, {"name": CUDA, "value": "0"}))
    assert rewritten.env() == {NVIDIA: "GPU-0", CUDA: "0"}
    assert rewritten.container()["resources"]["limits"] == {card(0): "6"}
    (warning,) = rewritten.warnings
    assert "was '0,1'" in warning


@pytest.mark.parametrize("kind", ["limits", "requests"])
def test_other_systems_words_go_with_what_they_asked(kind: str) -> None:
    words = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "5k", "nvidia.com/gpucores": "30", "nvidia.com/priority": "1"}
    with_network = node("n", cards(16, 16), a_node("n").offering({"nvidia.com/rdma": "1"}))
    pod = a_pod().limited_to({**words, "nvidia.com/rdma": "1"}).requesting(words)
    resources = placed(pod, with_network).container()["resources"]
    kept = {"nvidia.com/rdma": "1"} if kind == "limits" else {}
    assert resources[kind] == {**kept, card(0): "5", card(1): "5"}


def test_no_earlier_cuda_selection_comes_to_light_when_the_last_is_removed() -> None:
    rewritten = placed(with_env({"name": CUDA, "value": "7"}, {"name": CUDA, "value": "8"}))
    assert CUDA not in rewritten.env()


def test_a_selection_from_elsewhere_cannot_be_judged_and_stays_with_a_warning() -> None:
    variable = {"name": CUDA, "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    rewritten = placed(with_env(variable))
    assert variable in rewritten.container()["env"]
    (warning,) = rewritten.warnings
    assert f"{CUDA} comes from elsewhere and cannot be checked" in warning


def test_where_cdi_shows_amd_cards_every_selection_of_the_user_is_checked() -> None:
    amd = injecting(node("amd", cards(16, vendor=Vendor.AMD)), "cdi")
    inside, outside = ({"name": "ROCR_VISIBLE_DEVICES", "value": value} for value in ("0", "3"))
    assert placed(with_env(inside), amd).env() == {"ROCR_VISIBLE_DEVICES": "0"}
    assert placed(with_env(outside), amd).env() == {}


def test_amd_cards_are_shown_by_the_variable_of_their_vendor() -> None:
    amd = node("amd", cards(16, vendor=Vendor.AMD))
    rewritten = placed(a_pod().limited_to({"amd.com/gpu": "1"}), amd, runtime_class="nvidia")
    assert rewritten.env() == {"ROCR_VISIBLE_DEVICES": "GPU-0"}
    assert rewritten.container()["resources"]["limits"] == {card(0): "16"}
    assert "runtimeClassName" not in rewritten.pod["spec"]


def test_where_cdi_shows_the_cards_nvidias_variable_says_void() -> None:
    rewritten = placed(asking(), injecting(NODE, "cdi"))
    assert rewritten.env() == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert rewritten.container()["resources"]["limits"] == {card(0): "6"}


def test_where_cdi_shows_the_cards_a_users_all_does_not_survive() -> None:
    rewritten = placed(with_env({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}), injecting(NODE, "cdi"))
    assert rewritten.env() == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert "was 'all'" in rewritten.warnings[0]


def test_amd_cards_shown_by_cdi_have_no_variable() -> None:
    amd = injecting(node("amd", cards(16, vendor=Vendor.AMD)), "cdi")
    assert "env" not in placed(a_pod().limited_to({"amd.com/gpu": "1"}), amd).container()


def test_a_runtime_class_is_given_to_pods_without_one() -> None:
    assert placed(asking(), runtime_class="nvidia").pod["spec"]["runtimeClassName"] == "nvidia"
    own = placed(asking().spec(runtimeClassName="kata"), runtime_class="nvidia")
    assert own.pod["spec"]["runtimeClassName"] == "kata"
    assert "runtimeClassName" not in placed(asking()).pod["spec"]


def test_the_share_of_a_whole_card_is_its_budget() -> None:
    big = node("big", cards(80), a_node("big"))
    assert placed(asking("whole"), big).container()["resources"]["limits"] == {card(0): "80"}


def test_a_container_that_asks_for_zero_gpus_sees_none() -> None:
    pod = a_pod().limited_to({"nvidia.com/gpu": "0"})
    patch = PodPatch(pod.raw())
    hide_devices(patch, ["main"])
    assert patch.pod["spec"]["containers"][0]["env"] == [{"name": NVIDIA, "value": "void"}]
    assert patch.pod["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "0"}}


def test_the_last_variable_of_a_name_is_the_one_that_is_set() -> None:
    doubled = [{"name": NVIDIA, "value": "all"}, {"name": NVIDIA, "value": "0"}]
    patch = PodPatch(a_pod().spec(containers=[{"name": "main", "env": doubled}]).raw())
    hide_devices(patch, ["main", "no-such-container"])
    assert patch.pod["spec"]["containers"][0]["env"] == [doubled[0], {"name": NVIDIA, "value": "void"}]


def test_defaults_that_a_limit_range_put_back_are_silenced_where_the_placement_took_them() -> None:
    pod = a_pod().limited_to({"nvidia.com/gpu": "1"}).init("warm-up", **with_limits({"nvidia.com/gpu": "1"}))
    once = placed(pod).pod
    for container in (once["spec"]["containers"][0], once["spec"]["initContainers"][0]):
        for where in ("limits", "requests"):
            container["resources"].setdefault(where, {})["nvidia.com/gpu"] = "1"
    patch = PodPatch(once)
    silence_defaults(patch)
    for container in (patch.pod["spec"]["containers"][0], patch.pod["spec"]["initContainers"][0]):
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "0"
        assert container["resources"]["requests"]["nvidia.com/gpu"] == "0"


def test_an_ask_that_was_added_to_another_container_is_not_taken_for_a_default() -> None:
    once = placed(asking().annotated("kamiwaza.ai/container", "main").container("later")).pod
    once["spec"]["containers"][1]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    patch = PodPatch(once)
    silence_defaults(patch)
    assert patch.ops == []
