"""Near misses of our keys are refused, since ignoring them would ignore the ask; other software's keys are not ours."""

from __future__ import annotations

import pytest

from shared.core.containers import read_containers
from shared.core.invalid import InvalidRequest
from shared.core.misspelt import refuse_misspelt
from tests.builders import PodBuilder, a_pod


def check(pod: PodBuilder) -> None:
    raw = pod.raw()
    metadata = raw["metadata"]
    refuse_misspelt(metadata.get("annotations", {}), metadata.get("labels", {}), read_containers(raw))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("kamiwaza.ai/vram-gbs", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/vram", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/vram_gb", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/VRAM-GB", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/vrma-gb", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/vram-mib", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/vram-gb-gpu-0", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/gpu", "kamiwaza.ai/gpus"),
        ("kamiwaza.ai/gpuss", "kamiwaza.ai/gpus"),
        ("kamiwaza.ai/containers", "kamiwaza.ai/container"),
        ("kamiwaza.ai/accel.version", "kamiwaza.ai/accel-version"),
        ("kamiwaza.ai/accelversion", "kamiwaza.ai/accel-version"),
        ("kamiwaza.ai/vendors", "kamiwaza.ai/vendor"),
        ("kamiwaza.ai/polcy", "kamiwaza.ai/policy"),
    ],
)
def test_a_near_miss_is_refused_with_the_key_that_was_meant(key: str, meant: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(a_pod().annotated(key, "6"))
    assert refused.value.field == f"metadata.annotations[{key}]"
    assert refused.value.value == "6"
    assert refused.value.fix == f"write {meant}"


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        ("kamiwaza.ai/vram-gbs", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/vram-gb-gpu-00", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/vram-gb.main", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/gpu", "kamiwaza.ai/gpus"),
    ],
)
@pytest.mark.parametrize("kind", ["limits", "requests"])
def test_a_near_miss_of_a_resource_is_refused_wherever_it_stands(resource: str, meant: str, kind: str) -> None:
    pod = a_pod().container("second", resources={kind: {resource: "6"}})
    with pytest.raises(InvalidRequest) as refused:
        check(pod)
    assert refused.value.field == f"containers[second].resources.{kind}[{resource}]"
    assert refused.value.fix == f"write {meant}"


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        ("nvidia.com/gpu-mem", "nvidia.com/gpumem"),
        ("nvidia.com/gpumemory", "nvidia.com/gpumem"),
        ("nvidia.com/gpu-memory", "nvidia.com/gpumem"),
        ("nvidia.com/gpu.memory", "nvidia.com/gpumem"),
        ("nvidia.com/GPUMem", "nvidia.com/gpumem"),
        ("nvidia.com/gpumen", "nvidia.com/gpumem"),
        ("nvidia.com/vgpumem", "nvidia.com/gpumem"),
        ("nvidia.com/vgpu-memory", "nvidia.com/gpumem"),
        ("nvidia.com/gpumem-percent", "nvidia.com/gpumem-percentage"),
        ("nvidia.com/gpumempercentage", "nvidia.com/gpumem-percentage"),
        ("nvidia.com/gpu-memory-percentage", "nvidia.com/gpumem-percentage"),
        ("nvidia.com/gpumem-precentage", "nvidia.com/gpumem-percentage"),
        ("nvidia.com/gpucore", "nvidia.com/gpucores"),
        ("nvidia.com/gpu-cores", "nvidia.com/gpucores"),
        ("amd.com/gpu-mem", "amd.com/gpumem"),
        ("amd.com/gpu-memory", "amd.com/gpumem"),
    ],
)
def test_a_near_miss_of_hamis_resources_would_be_a_whole_card_and_is_refused(resource: str, meant: str) -> None:
    pod = a_pod().limited_to({"nvidia.com/gpu": "1", resource: "8192"})
    with pytest.raises(InvalidRequest) as refused:
        check(pod)
    assert refused.value.field == f"containers[main].resources.limits[{resource}]"
    assert (refused.value.value, refused.value.fix) == ("8192", f"write {meant}")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("nvidia.com/use-gpu-type", "nvidia.com/use-gputype"),
        ("nvidia.com/use-gputypes", "nvidia.com/use-gputype"),
        ("nvidia.com/no-use-gputype", "nvidia.com/nouse-gputype"),
        ("nvidia.com/use-gpu-uuid", "nvidia.com/use-gpuuuid"),
        ("nvidia.com/nouse-gpu-uuid", "nvidia.com/nouse-gpuuuid"),
        ("amd.com/use-gpuuuid", "amd.com/use-gpu-uuid"),
        ("gpu-mem", "gpu-memory"),
        ("gpu_memory", "gpu-memory"),
        ("gpu-memory-mib", "gpu-memory"),
        ("gpu-fractions", "gpu-fraction"),
        ("gpufraction", "gpu-fraction"),
        ("gpu-fraction-num-device", "gpu-fraction-num-devices"),
    ],
)
def test_a_near_miss_of_other_systems_annotations_is_refused(key: str, meant: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(a_pod().annotated(key, "0.5"))
    assert refused.value.field == f"metadata.annotations[{key}]"
    assert (refused.value.value, refused.value.fix) == ("0.5", f"write {meant}")


@pytest.mark.parametrize("key", ["nvidia.com/gpumem", "nvidia.com/gpucores", "amd.com/gpumem"])
def test_a_resource_that_stands_in_an_annotation_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(a_pod().annotated(key, "8192"))
    assert refused.value.field == f"metadata.annotations[{key}]"
    assert refused.value.fix == "write it in the limits"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("kamiwaza.ai/vram-gb", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/gpus", "kamiwaza.ai/gpus"),
        ("kamiwaza.ai/policy", "kamiwaza.ai/policy"),
        ("kamiwaza.ai/vram-gb.main", "kamiwaza.ai/vram-gb"),
        ("kamiwaza.ai/vram-gbs", "kamiwaza.ai/vram-gb"),
    ],
)
def test_an_ask_written_as_a_label_is_refused(key: str, meant: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(a_pod().label(key, "6"))
    assert refused.value.field == f"metadata.labels[{key}]"
    assert refused.value.fix == f"write the pod annotation {meant}"


def test_an_amount_for_a_container_that_does_not_exist_is_refused_with_those_that_do() -> None:
    pod = a_pod().init("fetch").container("second").annotated("kamiwaza.ai/vram-gb.web", "6")
    with pytest.raises(InvalidRequest) as refused:
        check(pod)
    assert refused.value.field == "metadata.annotations[kamiwaza.ai/vram-gb.web]"
    assert refused.value.problem == "is for a container that the pod does not have"
    assert refused.value.fix == "its containers are fetch, main, second"


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod().annotated("kamiwaza.ai/vram-gb", "6"), id="our-annotation"),
        pytest.param(a_pod().annotated("kamiwaza.ai/vram-gb.main", "6"), id="our-annotation-for-a-container"),
        pytest.param(a_pod().annotated("kamiwaza.ai/placed", "{}"), id="our-record"),
        pytest.param(a_pod().label("kamiwaza.ai/reservation", "abcdefghij"), id="our-label"),
        pytest.param(a_pod().limited_to({"kamiwaza.ai/vram-gb-gpu-0": "6"}), id="our-per-card-resource"),
        pytest.param(a_pod().annotated("kamiwaza.ai/model-name", "llama"), id="another-key-of-kamiwaza"),
        pytest.param(a_pod().annotated("kamiwaza.ai/owner", "me"), id="a-key-as-short-as-ours"),
        pytest.param(a_pod().annotated("kamiwaza.ai/grafana-dashboard", "7"), id="a-key-that-begins-like-ours"),
        pytest.param(a_pod().label("kamiwaza.ai/gpu", "true"), id="a-label-of-other-software"),
        pytest.param(a_pod().limited_to({"kamiwaza.ai/token": "1"}), id="a-resource-of-other-software"),
        pytest.param(a_pod().annotated("example.com/vram-gbs", "6"), id="a-key-of-another-domain"),
        pytest.param(a_pod().label("vram", "6"), id="a-label-without-a-domain"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1"}), id="hamis-words"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpu.shared": "1", "nvidia.com/mig-1g.5gb": "1"}), id="nvidias"),
        pytest.param(
            a_pod().limited_to({"nvidia.com/hostdev": "1", "nvidia.com/rdma_shared_device_a": "1"}), id="networks"
        ),
        pytest.param(a_pod().limited_to({"nvidia.com/pgpu": "1", "nvidia.com/gpu-10gb": "1"}), id="virtual-machines"),
        pytest.param(
            a_pod().limited_to({"aliyun.com/gpu-mem": "3", "volcano.sh/vgpu-memory": "3"}), id="other-systems"
        ),
        pytest.param(a_pod().limited_to({"amd.com/cpx_nps4": "1"}), id="a-partition-of-amd"),
        pytest.param(
            a_pod().annotated("nvidia.com/driver", "580").annotated("nvidia.com/vgpu-mode", "mig"), id="notes"
        ),
        pytest.param(a_pod().annotated("gpu-memory-limit", "1").annotated("gpu-type", "a10"), id="notes-on-gpus"),
        pytest.param(a_pod().annotated("example.com/gpu-mem", "1"), id="notes-of-another-domain"),
        pytest.param(
            a_pod().annotated("gpu-fraction", "0.5").annotated("gpu-fraction-container-name", "main"), id="kais-words"
        ),
    ],
)
def test_what_is_ours_or_clearly_not_ours_passes(pod: PodBuilder) -> None:
    check(pod)
