"""Partitions and replicas of cards are refused by name: read past, they would mean nothing, or a whole card."""

from __future__ import annotations

import pytest

from shared.core.containers import read_containers
from shared.core.foreign_words import refuse_foreign_words
from shared.core.invalid import InvalidRequest
from tests.builders import a_pod


@pytest.mark.parametrize("kind", ["limits", "requests"])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-2g.20gb"])
def test_a_partition_or_a_replica_is_refused_with_what_to_write(resource: str, kind: str) -> None:
    pod = a_pod().container("second", resources={kind: {resource: "1"}})
    with pytest.raises(InvalidRequest) as refused:
        refuse_foreign_words(read_containers(pod.raw()))
    assert refused.value.field == f"containers[second].resources.{kind}[{resource}]"
    assert refused.value.value == "1"
    assert refused.value.problem == "is not read by this version"
    assert "kamiwaza.ai/vram-gb" in refused.value.fix


def test_vendor_counts_and_devices_that_are_no_gpus_are_not_refused() -> None:
    pod = a_pod().limited_to({"nvidia.com/gpu": "1", "nvidia.com/rdma": "1", "amd.com/gpu": "1"})
    refuse_foreign_words(read_containers(pod.raw()))
