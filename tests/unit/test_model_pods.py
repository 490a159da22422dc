"""Which pods are looked at: those that say a word about GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.model_pods import names_a_gpu
from tests.builders import PodBuilder, a_pod

DEVICES = "NVIDIA_VISIBLE_DEVICES"


def with_env(*env: dict[str, Any]) -> PodBuilder:
    return a_pod().spec(containers=[{"name": "main", "env": list(env)}])


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod().annotated("kamiwaza.ai/vram-gb", "6"), id="our-annotation"),
        pytest.param(a_pod().annotated("kamiwaza.ai/vram-gbs", "6"), id="a-misspelling-of-it"),
        pytest.param(a_pod().label("kamiwaza.ai/vram-gb", "6"), id="our-key-as-a-label"),
        pytest.param(a_pod().annotated("nvidia.com/use-gputype", "A100"), id="hami-annotation"),
        pytest.param(a_pod().annotated("gpu-fraction", "0.5"), id="kai-annotation"),
        pytest.param(a_pod().limited_to({"kamiwaza.ai/gpus": "2"}), id="our-resource"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpu": "1"}), id="vendor-count"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpu": "0"}), id="vendor-count-of-zero"),
        pytest.param(a_pod().requesting({"amd.com/gpu": "1"}), id="in-requests-only"),
        pytest.param(a_pod().limited_to({"gpu.intel.com/i915": "1"}), id="intel"),
        pytest.param(a_pod().limited_to({"nvidia.com/mig-1g.5gb": "1"}), id="mig"),
        pytest.param(a_pod().init("fetch", {"nvidia.com/gpu": "1"}), id="an-init-container"),
        pytest.param(a_pod().sidecar("helper", {"nvidia.com/gpu": "1"}), id="a-sidecar"),
        pytest.param(a_pod().container("second", resources={"limits": {"amd.com/gpu": 1}}), id="second-container"),
        pytest.param(with_env({"name": DEVICES, "value": "all"}), id="sees-all-devices"),
        pytest.param(with_env({"name": DEVICES, "valueFrom": {"fieldRef": {}}}), id="sees-devices-named-elsewhere"),
    ],
)
def test_a_pod_that_says_a_word_about_gpus_is_looked_at(pod: PodBuilder) -> None:
    assert names_a_gpu(pod.raw())


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(), id="nothing"),
        pytest.param(a_pod().limited_to(cpu="1", memory="1Gi"), id="cpu-and-memory"),
        pytest.param(a_pod().limited_to({"example.com/fpga": "1"}), id="another-extended-resource"),
        pytest.param(a_pod().annotated("example.com/kamiwaza.ai/vram-gb", "6"), id="our-key-inside-another"),
        pytest.param(a_pod().label("gpu-fraction", "0.5"), id="kai-word-as-a-label"),
        pytest.param(a_pod().label("nvidia.com/gpu", "1"), id="vendor-word-as-a-label"),
        pytest.param(with_env({"name": DEVICES, "value": "void"}), id="sees-no-device"),
        pytest.param(with_env({"name": DEVICES}), id="an-empty-variable"),
        pytest.param(with_env({"name": "CUDA_VISIBLE_DEVICES", "value": "0"}), id="another-variable"),
    ],
)
def test_a_pod_without_a_word_about_gpus_passes(pod: PodBuilder) -> None:
    assert not names_a_gpu(pod.raw())


def test_an_object_without_any_field_passes() -> None:
    assert not names_a_gpu({})
