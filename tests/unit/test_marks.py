"""Our own marks on a pod: recognised, and taken off as far as the record tells."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from shared.core.cards import Vendor
from shared.core.invalid import InvalidRequest
from tests.builders import PodBuilder, a_pod, expressions, requirement
from tests.unit.asking import with_limits
from tests.unit.core_builders import cards, node
from tests.unit.rewriting import placed, stripped, without_empty
from webhook.marks import (
    booked_shares,
    is_marked,
    per_card_requests,
    refuse_written_shares,
    reservation_of,
    shares_by_container,
)

VRAM = "kamiwaza.ai/vram-gb"
CARD_0, CARD_1 = "kamiwaza.ai/vram-gb-gpu-0", "kamiwaza.ai/vram-gb-gpu-1"
RESERVATION, PLACED = "kamiwaza.ai/reservation", "kamiwaza.ai/placed"
NVIDIA = "NVIDIA_VISIBLE_DEVICES"


def marked(record: dict[str, Any], pod: PodBuilder | None = None) -> dict[str, Any]:
    """A pod that carries a record somebody wrote."""
    pod = pod or a_pod()
    return pod.label(RESERVATION, "abcdefghij").annotated(PLACED, orjson.dumps(record).decode()).raw()


def test_either_mark_makes_a_pod_marked() -> None:
    assert is_marked(a_pod().label(RESERVATION, "x").raw())
    assert is_marked(a_pod().annotated(PLACED, "").raw())
    assert not is_marked(a_pod().label("app", "x").raw())
    assert not is_marked({})


@pytest.mark.parametrize("value", ["abcdefghi", "abcdefghijk", "ABCDEFGHIJ", "abcdefghi1", "abcdefghij\n", ""])
def test_a_label_that_is_no_id_names_no_reservation(value: str) -> None:
    assert reservation_of(a_pod().label(RESERVATION, value).raw()) is None


def test_a_label_that_is_an_id_names_a_reservation() -> None:
    assert reservation_of(a_pod().label(RESERVATION, "abcdefgh27").raw()) == "abcdefgh27"
    assert reservation_of(a_pod().raw()) is None


def test_per_card_requests_are_found_in_every_kind_of_container() -> None:
    pod = a_pod().limited_to({CARD_0: "6", "cpu": "1"}).init("early", {CARD_1: "1"}).sidecar("beside", {CARD_0: "2"})
    assert list(per_card_requests(pod.raw())) == [
        ("early", CARD_1, "1"),
        ("beside", CARD_0, "2"),
        ("main", CARD_0, "6"),
    ]


def test_shares_by_container_keep_containers_apart() -> None:
    pod = a_pod().limited_to({CARD_1: "6", CARD_0: "3"}).sidecar("beside", **with_limits({CARD_1: "2"}))
    assert shares_by_container(pod.raw()) == {"beside": ((1, 2),), "main": ((0, 3), (1, 6))}


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("where", ["limits", "requests"])
def test_a_share_written_by_hand_is_refused(kind: str, where: str) -> None:
    by_hand = {"name": "by-hand", "resources": {where: {CARD_0: "6"}}}
    with pytest.raises(InvalidRequest, match="only the placement itself may write") as refused:
        refuse_written_shares({"spec": {kind: [by_hand]}})
    assert (refused.value.field, refused.value.value) == (f"containers[by-hand].resources[{CARD_0}]", "6")


def test_a_pod_without_a_share_is_not_refused() -> None:
    refuse_written_shares(a_pod().limited_to({VRAM: "6"}).raw())


def test_booked_shares_are_summed_by_card_over_the_limits() -> None:
    pod = a_pod().limited_to({CARD_1: "6", CARD_0: "3"}).sidecar("beside", **with_limits({CARD_1: "2"}))
    assert booked_shares(pod.raw()) == ((0, 3), (1, 8))


@pytest.mark.parametrize("amount", ["6Gi", "-6", "1.5", "", "٦", "1000000", {}])
def test_a_booked_share_that_is_not_whole_gb_is_refused(amount: Any) -> None:
    with pytest.raises(InvalidRequest):
        booked_shares(a_pod().limited_to({CARD_0: amount}).raw())


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod().annotated(VRAM, "6"), id="annotation"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpu": "1"}), id="vendor-count"),
        pytest.param(a_pod().limited_to({VRAM: "6"}).requesting({VRAM: "6"}), id="resource-on-both-sides"),
        pytest.param(a_pod().limited_to({VRAM: "6"}).spec(runtimeClassName="kata"), id="own-runtime-class"),
        pytest.param(
            a_pod().annotated(VRAM, "6").node_affinity(expressions(requirement("gone", "DoesNotExist")), {}),
            id="own-affinity",
        ),
        pytest.param(
            a_pod()
            .limited_to({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5k", "nvidia.com/gpucores": "30"})
            .requesting({"nvidia.com/gpumem": "5000"})
            .annotated("nvidia.com/nouse-gputype", "A100"),
            id="hami-words",
        ),
        pytest.param(
            a_pod().annotated("gpu-fraction", "0.5").annotated("gpu-fraction-num-devices", "2"), id="kai-words"
        ),
        pytest.param(
            a_pod().limited_to({VRAM: "6"}).init("warm-up", **with_limits({"nvidia.com/gpu": "1", VRAM: "9"})),
            id="init-container",
        ),
    ],
)
def test_stripping_a_placed_pod_gives_back_what_the_user_wrote(pod: PodBuilder) -> None:
    assert without_empty(stripped(placed(pod, runtime_class="nvidia").pod)) == without_empty(pod.raw())


def test_a_variable_returns_to_its_place_since_others_may_refer_to_it() -> None:
    env = [{"name": NVIDIA, "value": "all"}, {"name": "SEEN", "value": f"$({NVIDIA})"}]
    pod = a_pod().annotated(VRAM, "6").spec(containers=[{"name": "main", "env": env}])
    assert stripped(placed(pod).pod)["spec"]["containers"][0]["env"] == env


@pytest.mark.parametrize(
    ("variable", "vendor"),
    [
        ("CUDA_VISIBLE_DEVICES", Vendor.NVIDIA),
        ("CUDA_VISIBLE_DEVICES", Vendor.AMD),
        ("HIP_VISIBLE_DEVICES", Vendor.AMD),
        ("GPU_DEVICE_ORDINAL", Vendor.AMD),
    ],
)
def test_a_variable_that_was_removed_returns(variable: str, vendor: Vendor) -> None:
    env = [{"name": variable, "value": "5"}]
    pod = a_pod().annotated(VRAM, "6").spec(containers=[{"name": "main", "env": env}])
    state = node("node-a", cards(16, vendor=vendor))
    assert stripped(placed(pod, state).pod)["spec"]["containers"][0]["env"] == env


def test_without_a_readable_record_shares_and_marks_still_go() -> None:
    pod = placed(a_pod().annotated(VRAM, "6")).pod
    pod["metadata"]["annotations"][PLACED] = "?"
    left = stripped(pod)
    assert list(per_card_requests(left)) == []
    assert not is_marked(left)
    assert left["metadata"]["annotations"] == {VRAM: "6"}


@pytest.mark.parametrize(
    "path",
    [
        "containers/main/image",
        "containers/main/command",
        "containers/main/securityContext/privileged",
        "containers/main/resources/limits/cpu",
        "containers/main/env/PATH",
        "containers/other/env/NVIDIA_VISIBLE_DEVICES",
        "volumes/main/env/NVIDIA_VISIBLE_DEVICES",
        "hostNetwork",
        "",
        "/",
    ],
)
def test_a_forged_record_changes_nothing_that_a_placement_does_not_change(path: str) -> None:
    pod = marked({"node": "node-a", "changed": [{"path": path, "was": "1"}]})
    assert without_empty(stripped(pod)) == without_empty(a_pod().raw())


def test_a_forged_record_brings_in_no_variable_of_its_own() -> None:
    variable = {"name": "LD_PRELOAD", "value": "/tmp/forged.so"}
    pod = marked({"changed": [{"path": "containers/main/env/LD_PRELOAD", "was": variable}]})
    assert without_empty(stripped(pod)) == without_empty(a_pod().raw())


@pytest.mark.parametrize("was", [7, [], {}, {"name": "PATH"}, "all", None], ids=str)
def test_a_forged_value_of_a_variable_is_not_taken(was: Any) -> None:
    pod = marked({"changed": [{"path": f"containers/main/env/{NVIDIA}", "was": was}]})
    assert without_empty(stripped(pod)) == without_empty(a_pod().raw())


def test_a_runtime_class_is_only_ever_taken_away() -> None:
    pod = marked({"changed": [{"path": "runtimeClassName", "was": "privileged"}]})
    assert "runtimeClassName" not in stripped(pod)["spec"]


def test_null_elements_in_an_environment_are_passed_over() -> None:
    pod = a_pod().spec(containers=[{"name": "main", "env": [None, {"name": NVIDIA, "value": "0"}]}])
    left = stripped(marked({"changed": [{"path": f"containers/main/env/{NVIDIA}", "was": None}]}, pod))
    assert left["spec"]["containers"][0]["env"] == [None]
