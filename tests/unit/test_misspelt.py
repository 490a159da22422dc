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
    ],
)
def test_what_is_ours_or_clearly_not_ours_passes(pod: PodBuilder) -> None:
    check(pod)
