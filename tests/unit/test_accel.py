"""Which CUDA or ROCm a pod needs, and which drivers serve it."""

from __future__ import annotations

import pytest

from shared.core.accel import Version, parse_requirement, parse_version
from shared.core.cards import Vendor
from shared.core.invalid import InvalidRequest

FIELD = "metadata.annotations[kamiwaza.ai/accel-version]"


@pytest.mark.parametrize(
    ("text", "served", "met"),
    [
        pytest.param("cuda>=12.4", (12, 4), True, id="the-version-itself"),
        pytest.param("cuda>=12.4", (12, 8), True, id="a-newer-minor"),
        pytest.param("cuda>=12.4", (13, 0), True, id="a-newer-major"),
        pytest.param("cuda>=12.4", (12, 2), False, id="an-older-minor"),
        pytest.param("cuda>=12.10", (12, 9), False, id="numbers-are-not-compared-as-text"),
        pytest.param("cuda>=12.4.1", (12, 4), True, id="what-the-driver-leaves-open-is-not-held-against-it"),
        pytest.param("cuda 12.9", (12, 4), True, id="a-toolkit-runs-on-an-older-minor"),
        pytest.param("cuda 12.9", (11, 8), False, id="a-toolkit-does-not-run-on-an-older-major"),
        pytest.param("cuda 13", (12, 9), False, id="a-bare-major"),
        pytest.param("cuda 12.9", (13, 0), True, id="a-toolkit-runs-on-a-newer-major"),
        pytest.param("rocm>=6.2", (6, 2, 4), True, id="rocm-with-a-patch"),
        pytest.param("rocm 6.4", (6, 2), False, id="rocm-promises-no-older-minor"),
        pytest.param("rocm>=6.2.4", (6, 2, 1), False, id="a-patch-that-the-node-tells-counts"),
    ],
)
def test_a_requirement_is_met_by_drivers_that_run_it(text: str, served: Version, met: bool) -> None:
    assert parse_requirement(text, FIELD).met_by(served) is met


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cuda>=12.4", "CUDA 12.4 or newer"),
        ("cuda >= 12.4", "CUDA 12.4 or newer"),
        ("cuda 12.9", "CUDA 12.9"),
        ("cuda>=12", "CUDA 12.0 or newer"),
        ("rocm>=6.2", "ROCm 6.2 or newer"),
    ],
)
def test_requirements_are_told_in_words(text: str, words: str) -> None:
    assert str(parse_requirement(text, FIELD)) == words


@pytest.mark.parametrize(("text", "vendor"), [("cuda 12", Vendor.NVIDIA), ("rocm 6", Vendor.AMD)])
def test_a_runtime_names_the_maker_of_its_cards(text: str, vendor: Vendor) -> None:
    assert parse_requirement(text, FIELD).vendor is vendor


@pytest.mark.parametrize(
    "text", ["", "12.4", "cuda", "cuda12.4", "cuda=12.4", "cuda>12.4", "cuda>=12.x", "oneapi>=2024.1", "cuda>=1.2.3.4"]
)
def test_a_wrong_requirement_is_refused_with_field_value_and_the_right_form(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_requirement(text, FIELD)
    assert (refused.value.field, refused.value.value) == (FIELD, text)
    assert refused.value.problem == "is not an accelerator version"
    assert '"cuda>=12.4"' in refused.value.fix


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("12.4", (12, 4)),
        ("12", (12, 0)),
        ("580.95.05", (580, 95, 5)),
        ("6.2.4.1", (6, 2, 4, 1)),
        ("", None),
        ("12.", None),
        ("v12", None),
        ("12.4-rc1", None),
    ],
)
def test_versions_are_numbers_with_dots(text: str, version: Version | None) -> None:
    assert parse_version(text) == version
