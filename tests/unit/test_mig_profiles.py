"""Real memory of MIG partitions by card and profile."""

from __future__ import annotations

import pytest

from shared.core.cards import budget_gb
from shared.core.mig_profiles import partition_mib


@pytest.mark.parametrize(
    ("model", "gb", "profile", "budget"),
    [
        pytest.param("NVIDIA A30", 24, "1g.6gb", 5, id="a30"),
        pytest.param("NVIDIA A30", 24, "4g.24gb", 23, id="a30-whole"),
        pytest.param("NVIDIA A100-SXM4-40GB", 40, "1g.5gb", 4, id="a100-40"),
        pytest.param("NVIDIA A100-SXM4-80GB", 80, "1g.10gb", 9, id="a100-80"),
        pytest.param("NVIDIA A800-SXM4-80GB", 80, "3g.40gb", 39, id="a800"),
        pytest.param("NVIDIA H100 80GB HBM3", 80, "2g.20gb", 19, id="h100"),
        pytest.param("NVIDIA H100 NVL", 94, "3g.47gb", 46, id="h100-nvl"),
        pytest.param("NVIDIA H100 NVL", 93, "1g.12gb", 10, id="h100-nvl-as-the-driver-rounds-it"),
        pytest.param("NVIDIA GH200 480GB", 96, "3g.48gb", 46, id="gh200"),
        pytest.param("NVIDIA H20", 96, "1g.24gb", 23, id="h20"),
        pytest.param("NVIDIA H200", 141, "1g.18gb", 16, id="h200"),
        pytest.param("NVIDIA H200 NVL", 141, "7g.141gb", 140, id="h200-nvl"),
        pytest.param("NVIDIA B200", 180, "2g.45gb", 44, id="b200"),
        pytest.param("NVIDIA RTX PRO 6000 Blackwell Server Edition", 96, "1g.24gb", 23, id="rtx-pro-6000"),
        pytest.param("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 96, "2g.48gb", 47, id="as-a-label-spells-it"),
    ],
)
def test_a_partition_has_less_than_its_name_says(model: str, gb: int, profile: str, budget: int) -> None:
    mib = partition_mib(model, gb * 1024, profile)
    assert mib is not None
    assert budget_gb(mib) == budget


def test_one_name_stands_for_other_sizes_on_other_cards() -> None:
    assert partition_mib("NVIDIA A100-SXM4-40GB", 40960, "1g.10gb") == 9984
    assert partition_mib("NVIDIA A100-SXM4-80GB", 81920, "1g.10gb") == 9728


@pytest.mark.parametrize("profile", ["1g.5gb+me", "1g.5gb-me", "1g.5gb+gfx", "1g.5gb+me.all"])
def test_media_engines_take_no_memory(profile: str) -> None:
    assert partition_mib("NVIDIA A100-SXM4-40GB", 40960, profile) == 4864


@pytest.mark.parametrize(
    ("model", "gb", "profile"),
    [
        pytest.param("NVIDIA A100-SXM4-40GB", 40, "9g.99gb", id="profile"),
        pytest.param("NVIDIA L40S", 48, "1g.5gb", id="card"),
        pytest.param("NVIDIA A100-SXM4-40GB", 0, "1g.5gb", id="size-of-the-card"),
        pytest.param("NVIDIA GB200", 180, "1g.23gb", id="gb200-is-no-b200"),
        pytest.param("NVIDIA H200", 141, "1g.12gb", id="profile-of-another-card"),
    ],
)
def test_what_the_table_does_not_know_is_not_guessed(model: str, gb: int, profile: str) -> None:
    assert partition_mib(model, gb * 1024, profile) is None
