"""What pods ask in MIG slices and shared replicas."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api import names
from shared.core.demand import Demand, read_pod
from shared.core.invalid import InvalidRequest
from tests.builders import PodBuilder, a_pod
from tests.unit.units import GPU, SHARED, SLICE

SEEING_ALL = [{"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"}]


def demand_of(pod: PodBuilder) -> Demand:
    found = read_pod(pod.raw()).demand
    assert found is not None
    return found


@pytest.mark.parametrize("amount", ["2", 2, "2000m", "2e0"])
@pytest.mark.parametrize("resource", [SLICE, SHARED, "nvidia.com/mig-1g.10gb.me"])
def test_any_quantity_that_is_a_whole_number_is_one(resource: str, amount: Any) -> None:
    (unit,) = demand_of(a_pod().limited_to({resource: amount})).units
    assert (unit.container, unit.resource, unit.count, str(unit)) == ("main", resource, 2, f"2 {resource}")


def test_a_pod_says_all_that_it_asks() -> None:
    pod = a_pod().limited_to({SLICE: "1"}).container("other", resources={"limits": {GPU: "2"}})
    assert str(demand_of(pod)) == f"2 whole NVIDIA cards and 1 {SLICE}"
    assert demand_of(pod).cards == 2


def test_zero_slices_ask_for_nothing_and_hide_the_devices() -> None:
    read = read_pod(a_pod().limited_to({SLICE: "0"}).raw())
    assert read.demand is None
    assert read.hidden == ("main",)


def test_a_variable_that_shows_devices_may_stand_beside_slices() -> None:
    pod = a_pod().limited_to({SLICE: "1"}).raw()
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    assert read_pod(pod).demand is not None


@pytest.mark.parametrize(
    ("pod", "field", "told"),
    [
        pytest.param(a_pod().requesting({SLICE: "1"}), "requests", "in requests without limits", id="requests alone"),
        pytest.param(
            a_pod().limited_to({SLICE: "2"}).requesting({SLICE: "1"}), "requests", "differs from its limit", id="differ"
        ),
        pytest.param(a_pod().limited_to({SLICE: "1.5"}), "limits", "is not a number of units", id="a part"),
        pytest.param(a_pod().limited_to({SLICE: "-1"}), "limits", "is not a number of units", id="less than none"),
        pytest.param(a_pod().limited_to({SLICE: "one"}), "limits", "is not a number of units", id="a word"),
        pytest.param(a_pod().limited_to({SLICE: "513"}), "limits", "is not a number of units", id="too many"),
        pytest.param(a_pod().limited_to({"nvidia.com/mig-": "1"}), "limits", "is no MIG profile", id="no profile"),
        pytest.param(
            a_pod().limited_to({SLICE: "1"}).annotated(names.VRAM, "8"), "limits", names.VRAM, id="beside an amount"
        ),
        pytest.param(
            a_pod().limited_to({SLICE: "1", names.VRAM: "8"}), "limits", names.VRAM, id="beside an amount as resource"
        ),
        pytest.param(a_pod().limited_to({SLICE: "1", GPU: "1"}), "limits", GPU, id="beside a whole card"),
        pytest.param(
            a_pod().limited_to({f"nvidia.com/mig-{n}g.10gb": "1" for n in range(9)}), "limits", "kinds", id="many kinds"
        ),
    ],
)
def test_what_is_no_ask_for_units_is_refused(pod: PodBuilder, field: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_pod(pod.raw())
    assert refused.value.field.startswith(f"containers[main].resources.{field}")
    assert told in f"{refused.value.problem}; {refused.value.fix}"


def test_a_container_with_slices_carries_no_gb_of_an_init_container() -> None:
    pod = a_pod().limited_to({SLICE: "2"}).init("fetch", resources={"limits": {names.VRAM: "2"}})
    with pytest.raises(InvalidRequest) as refused:
        read_pod(pod.raw())
    assert refused.value.field == f"containers[fetch].resources.limits[{names.VRAM}]"
    assert "is asked for init container fetch only" in refused.value.problem


def test_an_init_container_does_not_see_cards_beside_slices_without_slices_of_its_own() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_pod(a_pod().limited_to({SLICE: "2"}).init("fetch", env=SEEING_ALL).raw())
    assert refused.value.field == f"containers[fetch].env[{names.NVIDIA_VISIBLE_DEVICES}]"
    assert refused.value.fix == "set it to void to see no card, and do what needs one in container main"
    slices = {"limits": {SLICE: "1"}}
    pod = a_pod().limited_to({SLICE: "2"}).init("fetch", resources=slices, env=SEEING_ALL)
    assert [unit.container for unit in demand_of(pod).units] == ["fetch", "main"]


def test_an_init_container_sees_the_cards_of_the_container_it_prepares_though_another_has_slices() -> None:
    pod = a_pod().limited_to({SLICE: "1"}).container("other", resources={"limits": {GPU: "1"}})
    (ask,) = demand_of(pod.init("fetch", env=SEEING_ALL)).asks
    assert ask.init_containers == ("fetch",)
