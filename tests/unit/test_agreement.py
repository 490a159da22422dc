"""A placed pod that was changed afterwards no longer agrees with itself; one that was not always does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from shared.api import names
from shared.core.cards import Vendor
from shared.core.invalid import InvalidRequest
from shared.core.snapshot import NodeState
from tests.builders import PodBuilder, a_pod
from tests.unit.asking import seeing, with_limits
from tests.unit.core_builders import cards, node
from tests.unit.rewriting import NODE, injecting, placed
from webhook.agreement import refuse_disagreement

GPU, GPUMEM = names.NVIDIA_GPU, "nvidia.com/gpumem"
CARD_0 = names.card_resource(0)
CDI = injecting(NODE, "cdi")
AMD = node("node-a", cards(64, 64, vendor=Vendor.AMD))


def asking(gb: str = "6") -> PodBuilder:
    return a_pod().annotated(names.VRAM, gb)


def problem(pod: dict[str, Any], state: NodeState = NODE) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        refuse_disagreement(pod, state.name, state.inventory)
    return refused.value


def main(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = [each for each in pod["spec"]["containers"] if each["name"] == "main"]
    container: dict[str, Any] = found
    return container


@pytest.mark.parametrize("state", [NODE, CDI, AMD], ids=["env", "cdi", "amd"])
@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(asking(), id="annotation"),
        pytest.param(asking("50%"), id="percentage"),
        pytest.param(asking("whole"), id="whole"),
        pytest.param(asking().annotated(names.GPUS, "2"), id="two-cards"),
        pytest.param(asking().annotated(names.POLICY, "exclusive"), id="exclusive"),
        pytest.param(a_pod().limited_to({names.VRAM: "6", names.GPUS: "2"}), id="resources"),
        pytest.param(
            asking("3").annotated(f"{names.VRAM}.more", "2").annotated(names.CONTAINER, "main").container("more"),
            id="two-containers",
        ),
        pytest.param(asking().init("early", **with_limits({names.VRAM: "9"})), id="init-container-that-asks"),
        pytest.param(a_pod().init("early", **with_limits({names.VRAM: "9"})), id="init-container-that-asks-alone"),
        pytest.param(asking().init("early", **seeing("all")), id="init-container-that-sees-devices"),
        pytest.param(asking().init("early", **seeing("none")), id="init-container-that-sees-nothing"),
        pytest.param(asking().sidecar("beside", **with_limits({names.VRAM: "2"})), id="sidecar"),
        pytest.param(asking().sidecar("beside", **with_limits({GPU: "0"})), id="sidecar-without-devices"),
    ],
)
def test_what_a_placement_made_agrees(pod: PodBuilder, state: NodeState) -> None:
    refuse_disagreement(placed(pod, state).pod, state.name, state.inventory)


@pytest.mark.parametrize("state", [NODE, CDI, AMD], ids=["env", "cdi", "amd"])
@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
@pytest.mark.parametrize("devices", ["0,1", "4,5"])
def test_a_number_of_cards_that_a_device_variable_told_is_remembered(
    state: NodeState, variable: str, devices: str
) -> None:
    server = {"image": "ollama/ollama:0.12", "env": [{"name": variable, "value": devices}]}
    pod = placed(asking("3").spec(containers=[{"name": "main", **server}]), state).pod
    assert len([name for name in main(pod)["resources"]["limits"] if names.card_index(name) is not None]) == 2
    refuse_disagreement(pod, state.name, state.inventory)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod().limited_to({GPU: "2"}), id="alone"),
        pytest.param(asking().limited_to({GPU: "2"}), id="beside-an-amount"),
        pytest.param(a_pod().limited_to({GPU: "2", GPUMEM: "5k", "nvidia.com/gpucores": 30}), id="with-hamis-memory"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpumem-percentage": 25}), id="hamis-percentage-alone"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpucores": 25}), id="hamis-cores-alone"),
        pytest.param(a_pod().annotated("gpu-memory", "5000"), id="kais-memory"),
        pytest.param(
            a_pod()
            .container("web")
            .annotated("gpu-fraction", "0.3")
            .annotated("gpu-fraction-num-devices", "2")
            .annotated("gpu-fraction-container-name", "web"),
            id="kais-fraction-for-a-container",
        ),
        pytest.param(
            a_pod().init("early").annotated("gpu-memory", "5000").annotated("gpu-fraction-container-name", "early"),
            id="kais-memory-for-an-init-container",
        ),
    ],
)
def test_a_vendor_count_that_was_taken_off_is_remembered(pod: PodBuilder) -> None:
    refuse_disagreement(placed(pod).pod, NODE.name, NODE.inventory)


@pytest.mark.parametrize(
    "helper",
    [
        pytest.param({}, id="plain"),
        pytest.param(seeing("void"), id="hidden"),
        pytest.param(with_limits({GPU: "0"}), id="zero-gpus"),
    ],
)
def test_a_helper_that_came_later_does_not_make_it_unclear_who_asks(helper: dict[str, Any]) -> None:
    pod = placed(asking()).pod
    pod["spec"]["containers"].insert(0, {"name": "proxy", **helper})
    refuse_disagreement(pod, NODE.name, NODE.inventory)


def test_a_default_that_was_silenced_is_no_ask() -> None:
    pod = placed(asking()).pod
    main(pod)["resources"]["limits"][GPU] = "0"
    refuse_disagreement(pod, NODE.name, NODE.inventory)


def test_a_pod_whose_ask_is_lost_with_its_record_is_judged_by_its_shares_alone() -> None:
    pod = placed(a_pod().limited_to({GPU: "1"})).pod
    del pod["metadata"]["annotations"]
    refuse_disagreement(pod, NODE.name, NODE.inventory)


def all_visible(pod: dict[str, Any]) -> None:
    main(pod)["env"] = seeing("all")["env"]


def another_card_visible(pod: dict[str, Any]) -> None:
    main(pod)["env"] = seeing("GPU-2")["env"]


def set_twice(pod: dict[str, Any]) -> None:
    main(pod)["env"] += seeing("all")["env"]


def from_a_field(pod: dict[str, Any]) -> None:
    source = {"fieldRef": {"fieldPath": "metadata.annotations['devices']"}}
    main(pod)["env"] = [{"name": names.NVIDIA_VISIBLE_DEVICES, "valueFrom": source}]


def variable_removed(pod: dict[str, Any]) -> None:
    del main(pod)["env"]


@pytest.mark.parametrize("state", [NODE, CDI], ids=["env", "cdi"])
@pytest.mark.parametrize("change", [all_visible, another_card_visible, set_twice, from_a_field, variable_removed])
def test_a_container_that_shows_other_cards_than_its_own_is_refused(
    change: Callable[[dict[str, Any]], None], state: NodeState
) -> None:
    pod = placed(asking(), state).pod
    change(pod)
    refused = problem(pod, state)
    assert refused.field == f"containers[main].env[{names.NVIDIA_VISIBLE_DEVICES}]"
    assert "does not show the cards it has" in refused.problem


def test_amd_cards_are_compared_by_the_variable_of_their_runtime() -> None:
    pod = placed(asking(), AMD).pod
    main(pod)["env"] = [{"name": names.ROCR_VISIBLE_DEVICES, "value": "0,1"}]
    assert problem(pod, AMD).field == f"containers[main].env[{names.ROCR_VISIBLE_DEVICES}]"


@pytest.mark.parametrize("value", ["all", "0", "GPU-0"])
@pytest.mark.parametrize("fields", [{}, {"restartPolicy": "Always"}], ids=["app", "sidecar"])
def test_a_late_container_that_shows_cards_is_refused(value: str, fields: dict[str, Any]) -> None:
    pod = placed(asking()).pod
    kind = "initContainers" if fields else "containers"
    pod["spec"].setdefault(kind, []).append({"name": "late", **seeing(value), **fields})
    refused = problem(pod)
    assert (refused.field, refused.value) == (f"containers[late].env[{names.NVIDIA_VISIBLE_DEVICES}]", value)
    assert "nothing is booked on" in refused.problem


def test_an_init_container_may_show_the_cards_of_the_container_it_prepares_and_no_others() -> None:
    pod = placed(asking()).pod
    shown = main(pod)["env"][0]["value"]
    pod["spec"]["initContainers"] = [{"name": "early", **seeing(shown)}]
    refuse_disagreement(pod, NODE.name, NODE.inventory)
    pod["spec"]["initContainers"] = [{"name": "early", **seeing("all")}]
    assert "nothing is booked on" in problem(pod).problem


def annotate(key: str, value: str) -> Callable[[dict[str, Any]], None]:
    def change(pod: dict[str, Any]) -> None:
        pod["metadata"]["annotations"][key] = value

    return change


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param(annotate(names.VRAM, "20"), names.VRAM, id="more-gb"),
        pytest.param(annotate(names.VRAM, "3"), names.VRAM, id="fewer-gb"),
        pytest.param(annotate(names.VRAM, "whole"), names.VRAM, id="a-whole-card"),
        pytest.param(annotate(names.GPUS, "2"), names.VRAM, id="more-cards"),
        pytest.param(annotate(names.POLICY, "exclusive"), names.VRAM, id="exclusive"),
        pytest.param(annotate("gpu-memory", "20000"), "gpu-memory", id="another-amount-in-kais-words"),
        pytest.param(annotate(names.VRAM, "6GB"), names.VRAM, id="a-wrong-amount"),
        pytest.param(annotate(f"{names.VRAM}.web", "2"), f"{names.VRAM}.web", id="for-another-container"),
    ],
)
def test_an_ask_that_was_changed_is_refused(change: Callable[[dict[str, Any]], None], field: str) -> None:
    pod = placed(asking().annotated(names.CONTAINER, "main").container("web")).pod
    change(pod)
    assert problem(pod).field == f"metadata.annotations[{field}]"


def test_an_ask_in_annotations_cannot_grow_beside_a_count_that_was_taken_off() -> None:
    pod = placed(asking().limited_to({GPU: "1"})).pod
    annotate(names.GPUS, "2")(pod)
    assert "two counts" in problem(pod).problem


def test_shares_that_moved_to_another_container_are_refused() -> None:
    pod = placed(asking().annotated(names.CONTAINER, "main").container("web")).pod
    pod["spec"]["containers"][1].update({key: main(pod).pop(key) for key in ("resources", "env")})
    assert "another share than container main has" in problem(pod).problem


def test_a_share_for_a_container_whose_ask_was_taken_away_is_refused() -> None:
    pod = placed(
        asking("3").annotated(f"{names.VRAM}.more", "2").annotated(names.CONTAINER, "main").container("more")
    ).pod
    del pod["metadata"]["annotations"][f"{names.VRAM}.more"]
    refused = problem(pod)
    assert refused.field == f"containers[more].resources.limits[{CARD_0}]"
    assert "does not ask" in refused.problem


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (GPU, "added after"),
        (names.VRAM, "added after"),
        (GPUMEM, "added after"),
        ("nvidia.com/mig-1g.5gb", "added after"),
    ],
)
@pytest.mark.parametrize("late", [True, False], ids=["late-container", "same-container"])
def test_a_resource_that_was_added_later_is_refused(resource: str, words: str, late: bool) -> None:
    pod = placed(asking()).pod
    if late:
        pod["spec"]["containers"].append({"name": "late", **with_limits({resource: "1"})})
    else:
        main(pod)["resources"]["limits"][resource] = "1"
    assert words in problem(pod).problem


def test_a_card_that_the_node_does_not_have_is_refused() -> None:
    pod = placed(asking(), node("node-a", cards(16, 16))).pod
    state = node("node-a", ())
    assert problem(pod, state).field == f"containers[main].resources.limits[{CARD_0}]"


@pytest.mark.parametrize("was", [7, None, [], "x"])
def test_a_record_that_was_edited_never_breaks_the_comparison(was: Any) -> None:
    pod = placed(a_pod().limited_to({GPU: "1"})).pod
    record = orjson.loads(pod["metadata"]["annotations"][names.PLACED])
    record["changed"] = [{"path": f"containers/main/resources/limits/{GPU.replace('/', '~1')}", "was": was}]
    pod["metadata"]["annotations"][names.PLACED] = orjson.dumps(record).decode()
    if isinstance(was, str):
        assert "not a number of cards" in problem(pod).problem
    else:
        refuse_disagreement(pod, NODE.name, NODE.inventory)
