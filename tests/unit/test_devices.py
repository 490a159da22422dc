"""The variables by which containers see cards and pick among them."""

from __future__ import annotations

import pytest

from shared.core.cards import Vendor
from tests.unit.core_builders import card
from webhook.devices import selecting_variables, selects_within

TWO = (card(3, 16, uuid="GPU-aaaa1111"), card(5, 16, uuid="GPU-aaaa2222"))
ONE_OF_TEN = (card(1, 16, uuid="GPU-1"), card(10, 16, uuid="GPU-10"))


@pytest.mark.parametrize(
    "value",
    ["0", "1", "0,1", "1,0", " 0 , 1 ", "GPU-aaaa1111", "GPU-aaaa1", "0,GPU-aaaa2222", "GPU-aaaa2222,GPU-aaaa1"],
)
def test_numbers_from_zero_and_uuids_of_the_containers_cards_are_within(value: str) -> None:
    assert selects_within(value, TWO)


@pytest.mark.parametrize(
    "value",
    ["2", "3", "5", "0,2", "-1", "all", "none", "", "0,", "0,0", "0,GPU-aaaa1111", "GPU-", "GPU-aaaa", "GPU-bbbb", "00",
     "MIG-1", "$(DEVICE)"],
)  # fmt: skip
def test_anything_else_is_outside(value: str) -> None:
    assert not selects_within(value, TWO)


def test_a_whole_uuid_is_not_the_start_of_another() -> None:
    assert selects_within("GPU-1", ONE_OF_TEN)
    assert selects_within("GPU-1,GPU-10", ONE_OF_TEN)


@pytest.mark.parametrize(
    ("vendor", "injection", "variables"),
    [
        (Vendor.NVIDIA, "env", ("CUDA_VISIBLE_DEVICES",)),
        (Vendor.NVIDIA, "cdi", ("CUDA_VISIBLE_DEVICES",)),
        (Vendor.AMD, "env", ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")),
        (
            Vendor.AMD,
            "cdi",
            ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
        ),
        (Vendor.INTEL, "env", ()),
    ],
)
def test_the_variables_are_those_of_the_vendor_without_the_one_that_is_set(
    vendor: Vendor, injection: str, variables: tuple[str, ...]
) -> None:
    assert selecting_variables((card(0, 16, vendor),), injection) == variables
