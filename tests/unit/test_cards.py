"""Card arithmetic and words."""

from __future__ import annotations

import pytest

from shared.core.cards import Vendor, budget_gb, describe_models, gb_for_mib


@pytest.mark.parametrize(
    ("mib", "budget", "request_gb"),
    [
        pytest.param(16384, 16, 16, id="whole GB"),
        pytest.param(15360, 15, 15, id="what a Tesla T4 reports"),
        pytest.param(24564, 23, 24, id="capacity rounds down and a request rounds up"),
        pytest.param(1, 0, 1, id="a MiB is no capacity but takes a GB"),
        pytest.param(0, 0, 0, id="nothing"),
    ],
)
def test_capacity_rounds_down_and_requests_round_up(mib: int, budget: int, request_gb: int) -> None:
    assert budget_gb(mib) == budget
    assert gb_for_mib(mib) == request_gb


@pytest.mark.parametrize(
    ("models", "text"),
    [
        pytest.param([], "", id="no card"),
        pytest.param(["Tesla T4"], "Tesla T4", id="one"),
        pytest.param(["NVIDIA L4", "NVIDIA L4"], "2 x NVIDIA L4", id="equal ones are counted"),
        pytest.param(["RTX 3070", "RTX 3090", "RTX 3070"], "2 x RTX 3070, RTX 3090", id="in the order of the slots"),
    ],
)
def test_models_of_a_node_read_as_one_line(models: list[str], text: str) -> None:
    assert describe_models(models) == text


def test_vendors_are_written_as_they_write_themselves() -> None:
    assert [vendor.label for vendor in Vendor] == ["NVIDIA", "AMD", "Intel"]
