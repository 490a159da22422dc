"""Measured GPUs as the cards that a `GPUNode` lists: one rule for each class of hardware."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.api.crds.gpunode import GPUNodeStatus
from shared.core.cards import Vendor
from shared.core.hardware import (
    MeasuredCard,
    MeasuredPartition,
    publish_cards,
    unified_budget_gb,
    vendor_serves_partitions,
)
from shared.kube.gpunodes import gpu_node

T4 = MeasuredCard(0, "GPU-a", "Tesla T4", Vendor.NVIDIA, memory_mib=15360)
SPARK = MeasuredCard(0, "GPU-a", "NVIDIA GB10", Vendor.NVIDIA, unified=True)
HALO = MeasuredCard(0, "GPU-a", "AMD Radeon 8060S", Vendor.AMD, unified=True, carve_out_mib=512, gtt_mib=31744)
GRACE = MeasuredCard(0, "GPU-a", "NVIDIA GH200 480GB", Vendor.NVIDIA, memory_mib=97871, hbm_mib=98304, onlined=True)
A100 = MeasuredCard(
    0,
    "GPU-a",
    "NVIDIA A100-SXM4-40GB",
    Vendor.NVIDIA,
    memory_mib=40960,
    mig=True,
    partitions=(MeasuredPartition(1, "MIG-1", "1g.5gb"), MeasuredPartition(2, "MIG-2", "3g.20gb")),
)
GB = 1024


def published(*cards: MeasuredCard, system_gb: int = 256, **fields: Any) -> list[dict[str, Any]]:
    listed = publish_cards(cards, system_mib=system_gb * GB, **fields)
    GPUNodeStatus.model_validate({"cards": listed})
    return listed


def sizes(*cards: MeasuredCard, system_gb: int = 256, **fields: Any) -> list[tuple[int, str, int, int]]:
    listed = published(*cards, system_gb=system_gb, **fields)
    return [(card["index"], card["class"], card["memoryMiB"], card["budgetGB"]) for card in listed]


def test_a_card_is_published_with_what_the_driver_leaves_of_it() -> None:
    assert published(T4) == [
        {
            "index": 0,
            "uuid": "GPU-a",
            "model": "Tesla T4",
            "vendor": "nvidia",
            "class": "discrete",
            "memoryMiB": 15360,
            "budgetGB": 15,
            "healthy": True,
        }
    ]


@pytest.mark.parametrize(
    ("system_gb", "gtt_mib", "budget_gb"),
    [
        pytest.param(119, None, 111, id="gb10"),
        pytest.param(15, None, 7, id="jetson"),
        pytest.param(62, 31744, 31, id="strix-halo-by-what-it-may-address"),
        pytest.param(32, 65536, 24, id="more-addressable-than-there-is"),
        pytest.param(8, None, 0, id="nothing-beside-the-reserve"),
        pytest.param(4, None, 0, id="less-than-the-reserve"),
    ],
)
def test_a_pool_is_the_systems_memory_less_eight_gb(system_gb: int, gtt_mib: int | None, budget_gb: int) -> None:
    assert unified_budget_gb(system_gb * GB, gtt_mib) == budget_gb


def test_a_pool_rounds_down() -> None:
    assert unified_budget_gb(125506464 // 1024) == 111


@pytest.mark.parametrize(
    ("card", "system_gb", "size"),
    [
        pytest.param(SPARK, 119, ("unified", 119 * GB, 111), id="a-driver-that-does-not-tell"),
        pytest.param(HALO, 62, ("unified", 31744, 31), id="a-small-carve-out-is-no-size"),
        pytest.param(
            replace(HALO, carve_out_mib=98304, gtt_mib=15 * GB), 31, ("discrete", 98304, 96), id="a-large-carve-out"
        ),
        pytest.param(
            replace(HALO, carve_out_mib=98304, gtt_mib=None, memory_mib=98304),
            119,
            ("discrete", 98304, 96),
            id="a-carve-out-that-is-all-the-driver-tells-of",
        ),
        pytest.param(
            replace(SPARK, memory_mib=100 * GB), 119, ("unified", 100 * GB, 100), id="a-driver-that-tells-of-less"
        ),
        pytest.param(
            replace(HALO, model="AMD Instinct MI300A", carve_out_mib=0, gtt_mib=None),
            128,
            ("unified", 128 * GB, 120),
            id="no-carve-out",
        ),
        pytest.param(GRACE, 560, ("discrete", 97871, 95), id="memory-of-its-own-that-the-kernel-adds"),
        pytest.param(replace(GRACE, memory_mib=None), 560, ("discrete", 98304, 96), id="of-which-the-driver-is-silent"),
        pytest.param(
            replace(GRACE, unified=True, memory_mib=None), 560, ("unified", 98304, 96), id="and-which-it-calls-unified"
        ),
    ],
)
def test_memory_that_cpu_and_gpu_share_is_told_from_memory_of_the_cards_own(
    card: MeasuredCard, system_gb: int, size: tuple[str, int, int]
) -> None:
    assert sizes(card, system_gb=system_gb) == [(0, *size)]


def test_a_card_whose_memory_the_kernel_adds_says_so() -> None:
    (listed,) = published(GRACE)
    assert listed["onlinedAsSystemMemory"] is True


class TestMig:
    def test_partitions_are_cards_of_their_own_and_the_card_is_given_away_by_them_only(self) -> None:
        parent, small, large = published(A100)
        assert (parent["partitioned"], parent["class"], parent["budgetGB"]) == (True, "discrete", 0)
        assert (small["uuid"], small["class"], small["memoryMiB"], small["budgetGB"]) == ("MIG-1", "mig", 4864, 4)
        assert (large["model"], large["budgetGB"]) == ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19)

    def test_the_drivers_own_number_comes_before_the_table(self) -> None:
        card = replace(A100, partitions=(MeasuredPartition(1, "MIG-1", "1g.5gb", memory_mib=5120),))
        assert sizes(card)[1] == (1, "mig", 5120, 5)

    def test_a_profile_that_nobody_knows_is_listed_as_a_partition_of_unknown_size(self) -> None:
        card = replace(A100, partitions=(MeasuredPartition(1, "MIG-1", "9g.99gb"),))
        assert sizes(card)[1] == (1, "mig", 0, 0)
        read = gpu_node(
            {
                "metadata": {"name": "n", "uid": "u", "resourceVersion": "1"},
                "status": {"cards": published(card)},
            },
            exclusive=False,
        )
        assert [one.unsupported for one in read.inventory.cards] == [
            "with MIG partitions",
            "with cards of unknown size",
        ]

    def test_partitions_that_the_vendors_plugin_serves_are_none_of_ours(self) -> None:
        assert [card["index"] for card in published(A100, vendor_serves_partitions=True)] == [0]

    def test_a_broken_card_breaks_its_partitions(self) -> None:
        assert [card["healthy"] for card in published(replace(A100, healthy=False))] == [False, False, False]

    @pytest.mark.parametrize(
        ("allocatable", "serves"),
        [
            pytest.param({"nvidia.com/mig-1g.10gb": 2}, True, id="some"),
            pytest.param({"nvidia.com/gpu": 2, "nvidia.com/mig-1g.24gb": 0}, False, id="zero-is-left-of-old-ones"),
            pytest.param({"cpu": 32000}, False, id="none"),
        ],
    )
    def test_whether_the_vendor_serves_them_is_read_off_the_node(
        self, allocatable: dict[str, int], serves: bool
    ) -> None:
        assert vendor_serves_partitions(allocatable) is serves


def test_partitions_of_amd_cards_are_cards_as_the_driver_enumerates_them() -> None:
    mi300x = [
        MeasuredCard(slot, f"XCP-{slot}", "AMD Instinct MI300X", Vendor.AMD, memory_mib=24 * GB) for slot in range(8)
    ]
    assert sizes(*mi300x) == [(slot, "discrete", 24 * GB, 24) for slot in range(8)]


def test_a_size_that_the_driver_does_not_tell_is_unknown_until_it_is_declared() -> None:
    silent = replace(T4, memory_mib=None)
    assert sizes(silent) == [(0, "discrete", 0, 0)]
    assert sizes(replace(silent, declared_gb=20)) == [(0, "discrete", 0, 20)]


@pytest.mark.parametrize(
    "card", [pytest.param(T4, id="a-card-that-tells"), pytest.param(replace(SPARK, memory_mib=15360), id="a-pool")]
)
def test_what_the_driver_tells_is_not_overruled(card: MeasuredCard) -> None:
    assert sizes(replace(card, declared_gb=99))[0][3] == 15


def test_a_display_adapter_has_nothing_to_give() -> None:
    (listed,) = published(replace(T4, model="ASPEED", compute_capable=False))
    assert (listed["computeCapable"], listed["budgetGB"]) == (False, 0)


class TestVanished:
    def test_a_card_that_is_gone_stays_in_its_slot_as_unhealthy(self) -> None:
        other = replace(T4, slot=1, uuid="GPU-b")
        before = published(T4, other)
        after = published(other, before=before)
        assert [(card["uuid"], card["healthy"]) for card in after] == [("GPU-a", False), ("GPU-b", True)]
        assert published(T4, other, before=after) == before

    def test_a_card_that_took_the_slot_takes_the_place(self) -> None:
        listed = published(replace(T4, uuid="GPU-new"), before=published(T4))
        assert [card["uuid"] for card in listed] == ["GPU-new"]

    @pytest.mark.parametrize(
        ("held", "slots"), [pytest.param((), [0], id="free"), pytest.param((2,), [0, 2], id="while-it-is-held")]
    )
    def test_a_partition_that_is_gone_stays_as_long_as_it_is_held(
        self, held: tuple[int, ...], slots: list[int]
    ) -> None:
        listed = published(replace(A100, partitions=()), before=published(A100), held=held)
        assert [card["index"] for card in listed] == slots
        assert all(not card["healthy"] for card in listed[1:])

    def test_an_empty_inventory_loses_no_card(self) -> None:
        assert [card["healthy"] for card in published(before=published(T4))] == [False]
