"""Other systems' words for a share of a card are refused by name: read past, they would mean a whole card."""

from __future__ import annotations

import pytest

from shared.core.containers import read_containers
from shared.core.foreign_words import refuse_foreign_words
from shared.core.invalid import InvalidRequest
from tests.builders import a_pod


@pytest.mark.parametrize("kind", ["limits", "requests"])
@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "nvidia.com/priority",
        "amd.com/gpumem",
        "gpu.intel.com/i915",
    ],
)
def test_a_resource_of_another_system_is_refused_with_what_to_write(resource: str, kind: str) -> None:
    pod = a_pod().container("second", resources={kind: {resource: "3000"}})
    with pytest.raises(InvalidRequest) as refused:
        refuse_foreign_words({}, read_containers(pod.raw()))
    assert refused.value.field == f"containers[second].resources.{kind}[{resource}]"
    assert refused.value.value == "3000"
    assert refused.value.problem == "is not read by this version"
    assert "kamiwaza.ai/vram-gb" in refused.value.fix


@pytest.mark.parametrize(
    "key",
    [
        "nvidia.com/use-gputype",
        "nvidia.com/nouse-gputype",
        "nvidia.com/use-gpuuuid",
        "nvidia.com/nouse-gpuuuid",
        "gpu-memory",
        "gpu-fraction",
        "gpu-fraction-num-devices",
    ],
)
def test_an_annotation_of_another_system_is_refused_with_what_to_write(key: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        refuse_foreign_words({key: "0.5"}, ())
    assert (refused.value.field, refused.value.value) == (f"metadata.annotations[{key}]", "0.5")
    assert "kamiwaza.ai/vram-gb" in refused.value.fix


def test_vendor_counts_and_devices_that_are_no_gpus_are_not_refused() -> None:
    pod = a_pod().limited_to({"nvidia.com/gpu": "1", "nvidia.com/rdma": "1", "amd.com/gpu": "1"})
    refuse_foreign_words({"nvidia.com/driver": "580"}, read_containers(pod.raw()))
