"""A `GPUNode` read into cards and ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.core.cards import Card, CardClass, Vendor
from shared.core.ledger import summarise
from shared.core.nodes import NodeFacts
from shared.core.snapshot import NodeState
from shared.kube.gpunodes import gpu_node, summary_json
from tests.unit.core_builders import cards, entry


def _raw(spec: dict[str, Any]) -> dict[str, Any]:
    card = {"index": 0, "uuid": "GPU-1", "vendor": "nvidia", "memoryMiB": 16384, "budgetGB": 16, "healthy": True}
    metadata = {"name": "node", "uid": "1", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": spec, "status": {"cards": [card]}}


@pytest.mark.parametrize(
    ("mode", "installed", "exclusive"),
    [
        pytest.param(None, False, False, id="shared-by-installation"),
        pytest.param(None, True, True, id="exclusive-by-installation"),
        pytest.param("exclusive", False, True, id="exclusive-by-node"),
        pytest.param("shared", True, False, id="shared-by-node"),
    ],
)
def test_the_mode_of_a_node_beats_that_of_the_installation(mode: str | None, installed: bool, exclusive: bool) -> None:
    spec = {} if mode is None else {"mode": mode}
    assert gpu_node(_raw(spec), exclusive=installed).inventory.exclusive is exclusive


def test_the_nodes_that_own_it_are_read_and_no_other_owners() -> None:
    raw = _raw({})
    raw["metadata"]["ownerReferences"] = [{"kind": "Node", "uid": "a"}, {"kind": "Cluster", "uid": "b"}]
    read = gpu_node(raw, exclusive=False)
    assert read.is_of("a")
    assert not read.is_of("b")
    assert gpu_node(_raw({}), exclusive=False).is_of("any")


@pytest.mark.parametrize(
    ("wish", "budget_gb", "healthy"),
    [
        pytest.param({"headroomGB": 6}, 10, True, id="headroom"),
        pytest.param({"headroomGB": 40}, 0, True, id="headroom-beyond-the-card"),
        pytest.param({"cordoned": True}, 16, False, id="cordoned"),
    ],
)
def test_what_the_admin_wishes_of_a_card_counts(wish: dict[str, Any], budget_gb: int, healthy: bool) -> None:
    (card,) = gpu_node(_raw({"cards": [{"index": 0, **wish}]}), exclusive=False).inventory.cards
    assert (card.budget_gb, card.healthy) == (budget_gb, healthy)


@pytest.mark.parametrize(
    ("told", "wish", "budget_gb"),
    [
        pytest.param({"memoryMiB": 0, "budgetGB": 0}, {"vramGB": 20}, 20, id="declared-where-nobody-tells"),
        pytest.param({"memoryMiB": 0, "budgetGB": 0}, {"vramGB": 20, "headroomGB": 4}, 16, id="less-the-headroom"),
        pytest.param({"memoryMiB": 0, "budgetGB": 0}, {}, 0, id="neither"),
        pytest.param({}, {"vramGB": 20}, 16, id="not-over-what-the-driver-tells"),
        pytest.param({"memoryMiB": 500, "budgetGB": 0}, {"vramGB": 20}, 0, id="not-over-a-card-below-one-gb"),
        pytest.param(
            {"memoryMiB": 0, "budgetGB": 0, "class": "unified"}, {"vramGB": 20}, 0, id="not-over-a-small-pool"
        ),
    ],
)
def test_declared_memory_counts_where_the_driver_tells_nothing(
    told: dict[str, Any], wish: dict[str, Any], budget_gb: int
) -> None:
    raw = _raw({"cards": [{"index": 0, **wish}]})
    raw["status"]["cards"][0].update(told)
    (card,) = gpu_node(raw, exclusive=False).inventory.cards
    assert card.budget_gb == budget_gb


def _read(**status: Any) -> Any:
    raw = {"metadata": {"name": "node", "uid": "1", "resourceVersion": "7"}, "status": status}
    return gpu_node(raw, exclusive=False)


def test_an_object_without_a_status_is_a_node_without_cards() -> None:
    read = gpu_node({"metadata": {"name": "node", "uid": "1", "resourceVersion": "7"}}, exclusive=False)
    assert (read.name, read.uid, read.resource_version) == ("node", "1", "7")
    assert read.inventory.cards == ()
    assert read.inventory.injection == "env"
    assert (read.ledger, read.broken, read.summary) == ({}, (), {})


def test_a_card_is_read_with_all_that_is_said_of_it() -> None:
    raw = {
        "index": 1,
        "uuid": "GPU-1",
        "model": "Strix Halo",
        "vendor": "amd",
        "class": "unified",
        "memoryMiB": 98304,
        "budgetGB": 88,
        "healthy": False,
        "foreignGB": 3,
        "partitioned": True,
        "computeCapable": False,
        "onlinedAsSystemMemory": True,
    }
    plain = Card(1, "GPU-1", "Strix Halo", Vendor.AMD, CardClass.UNIFIED, 98304, 88, healthy=False, foreign_gb=3)
    assert _read(cards=[raw]).inventory.cards == (
        replace(plain, partitioned=True, compute_capable=False, onlined=True),
    )


def test_the_cards_that_other_plugins_gave_to_pods_are_read_and_what_is_no_list_is_passed_over() -> None:
    read = _read(podDevices={"uid-b": "0,1", "uid-a": "2", "uid-c": "all", "uid-d": ""})
    assert read.inventory.pod_devices == (("uid-a", (2,)), ("uid-b", (0, 1)), ("uid-d", ()))


def test_what_is_not_said_of_a_card_is_the_ordinary_case() -> None:
    raw = {"index": 0, "uuid": "GPU-0", "vendor": "nvidia", "budgetGB": 16}
    assert _read(cards=[raw]).inventory.cards == (
        Card(0, "GPU-0", "", Vendor.NVIDIA, CardClass.DISCRETE, 16384, 16, healthy=True, foreign_gb=0),
    )


def test_cards_stand_in_the_order_of_their_slots() -> None:
    raw = [{"index": index, "uuid": f"GPU-{index}", "vendor": "nvidia", "budgetGB": 16} for index in (2, 0, 1)]
    assert [card.index for card in _read(cards=raw).inventory.cards] == [0, 1, 2]


def test_versions_and_injection_are_read_and_what_is_no_version_is_left_out() -> None:
    read = _read(accelVersions={"rocm": "6.2", "cuda": "12.4", "level-zero": "new"}, injection="cdi")
    assert read.inventory.accel == (("cuda", (12, 4)), ("rocm", (6, 2)))
    assert read.inventory.injection == "cdi"


def test_entries_that_cannot_be_read_are_told_apart() -> None:
    read = _read(reservations={"aaaaaaaaaa": entry({0: 6}).encode(), "bbbbbbbbbb": "?"})
    assert read.ledger == {"aaaaaaaaaa": entry({0: 6})}
    assert read.broken == ("bbbbbbbbbb",)


def test_the_sums_are_written_in_the_form_they_are_read_in() -> None:
    summary = summary_json(summarise(cards(16, 24), {"aaaaaaaaaa": entry({0: 6})}))
    assert summary == {
        "budgetGB": 40,
        "reservedGB": 6,
        "freeGB": 34,
        "largestFreeGB": 24,
        "cards": "0: 6/16, 1: 0/24",
    }
    assert _read(summary=summary).summary == summary


def _labelled(wishes: list[dict[str, Any]], **unit: Any) -> dict[str, Any]:
    """A node of two cards that a vendor's plugin gives away, as the controller publishes it."""
    raw = _raw({"cards": wishes})
    (card,) = raw["status"]["cards"]
    raw["status"] |= {
        "source": "labels",
        "cards": [card, {**card, "index": 1, "uuid": "GPU-2"}],
        "units": [{"resource": "nvidia.com/gpu", "gb": 16, "perCard": 1, "partition": False, **unit}],
    }
    return raw


@pytest.mark.parametrize(
    ("wishes", "unit", "gb"),
    [
        pytest.param([], {}, 16, id="as-labelled"),
        pytest.param([{"index": 1, "headroomGB": 6}], {}, 10, id="any-card-may-be-given-so-the-smaller-counts"),
        pytest.param([{"index": 0, "headroomGB": 8}], {"gb": 4, "perCard": 4}, 2, id="headroom-is-shared-by-replicas"),
        pytest.param([{"index": 0, "headroomGB": 8}], {"resource": "nvidia.com/mig-1g.5gb", "gb": 4}, 4, id="slices"),
    ],
)
def test_what_the_admin_wishes_of_cards_counts_for_their_units(
    wishes: list[dict[str, Any]], unit: dict[str, Any], gb: int
) -> None:
    (kind,) = gpu_node(_labelled(wishes, **unit), exclusive=False).inventory.kinds
    assert kind.gb == gb


def test_a_declared_size_is_the_size_of_units_that_no_label_tells() -> None:
    raw = _labelled([{"index": index, "vramGB": 24} for index in (0, 1)])
    raw["status"]["cards"] = [{**card, "memoryMiB": 0, "budgetGB": 0} for card in raw["status"]["cards"]]
    del raw["status"]["units"][0]["gb"]
    (kind,) = gpu_node(raw, exclusive=False).inventory.kinds
    assert kind.gb == 24


@pytest.mark.parametrize(("cordoned", "free"), [([0], 2), ([0, 1], 0)])
def test_units_are_kept_back_once_every_card_is_cordoned(cordoned: list[int], free: int) -> None:
    wishes = [{"index": index, "cordoned": True} for index in cordoned]
    facts = NodeFacts("node", allocatable={"nvidia.com/gpu": 2})
    state = NodeState.of(facts, gpu_node(_labelled(wishes), exclusive=False).inventory)
    assert state.free_units("nvidia.com/gpu") == free
