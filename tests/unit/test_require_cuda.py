"""`NVIDIA_REQUIRE_CUDA` in a container that uses cards is a requirement, exact to the minor version."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.accel import parse_version
from shared.core.cards import Vendor
from shared.core.demand import Demand, ReadPod, read_pod
from shared.core.require_cuda import NotUnderstood, parse_required_cuda
from tests.builders import PodBuilder, a_pod

VRAM = "kamiwaza.ai/vram-gb"
IMAGE = (
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471 brand=nvidia,driver>=535,"
    "driver<536"
)


@pytest.mark.parametrize(
    ("text", "met", "unmet"),
    [
        ("cuda>=12.4", ["12.4", "12.9", "13.0"], ["12.3", "11.8"]),
        ("cuda>=12", ["12.0", "12.4"], ["11.8"]),
        ("cuda>=12.4.1", ["12.4"], ["12.3"]),
        ("cuda>12.4", ["12.5", "13.0"], ["12.4"]),
        ("cuda<13", ["12.9"], ["13.0", "13.1"]),
        ("cuda<=12.4", ["12.4", "11.0"], ["12.5"]),
        ("cuda=12.4", ["12.4"], ["12.3", "12.5"]),
        ("cuda==12.4", ["12.4"], ["12.5"]),
        ("cuda!=12.4", ["12.3", "12.5"], ["12.4"]),
        ("cuda>=12.4,cuda<13", ["12.4", "12.9"], ["12.3", "13.0"]),
        ("cuda>=13.0 cuda=12.4", ["12.4", "13.0"], ["12.5"]),
        (IMAGE, ["12.4", "12.5"], ["12.2"]),
        ("cuda>=12.4,driver>=550", ["12.4"], ["12.3"]),
        ("  cuda>=12.4  ", ["12.4"], ["12.3"]),
    ],
)
def test_blanks_part_alternatives_and_commas_join_conditions(text: str, met: list[str], unmet: list[str]) -> None:
    required = parse_required_cuda(text)
    served = {version: required.met_by(parse_version(version) or ()) for version in (*met, *unmet)}
    assert served == {**dict.fromkeys(met, True), **dict.fromkeys(unmet, False)}


@pytest.mark.parametrize(
    "text", ["12.4", "cuda", "cuda>=", "cuda>=new", "cuda>=12.4;", "cuda >= 12.4", "driver>=550", "cuda~12", "c" * 5000]
)
def test_what_says_nothing_of_cuda_is_not_understood(text: str) -> None:
    with pytest.raises(NotUnderstood):
        parse_required_cuda(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cuda>=12.4", "CUDA 12.4 or newer"),
        (IMAGE, "CUDA 12.4 or newer"),
        ("cuda>=12.4,cuda<13", "CUDA 12.4 or newer and CUDA < 13.0"),
        ("cuda>=13.0 cuda=12.4", "CUDA 13.0 or newer or CUDA = 12.4"),
    ],
)
def test_it_is_told_in_words(text: str, words: str) -> None:
    assert str(parse_required_cuda(text)) == words


def with_env(**env: str) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value} for name, value in env.items()]}


def requiring(text: str, **more: str) -> PodBuilder:
    env = with_env(NVIDIA_REQUIRE_CUDA=text, **more)["env"]
    return a_pod().annotated(VRAM, "6").spec(containers=[{"name": "main", "env": env}])


def read(pod: PodBuilder) -> ReadPod:
    return read_pod(pod.raw())


def demand(pod: PodBuilder) -> Demand:
    found = read(pod).demand
    assert found is not None
    return found


def test_a_container_that_asks_requires_it_of_its_node_and_of_its_vendor() -> None:
    found = demand(requiring("cuda>=12.4"))
    assert found.vendor is Vendor.NVIDIA
    assert found.accel is not None
    assert (found.accel.runtime, found.accel.vendor, found.accel.label) == ("cuda", Vendor.NVIDIA, "CUDA")
    assert str(found.accel) == "CUDA 12.4 or newer"


def test_it_holds_together_with_the_annotation() -> None:
    accel = demand(requiring("cuda>=12.4").annotated("kamiwaza.ai/accel-version", "cuda 13.0")).accel
    assert accel is not None
    assert [accel.met_by(version) for version in ((12, 3), (12, 9), (13, 0))] == [False, False, True]
    assert (accel.runtime, accel.vendor, accel.label) == ("cuda", Vendor.NVIDIA, "CUDA")
    assert str(accel) == "CUDA 13.0 and CUDA 12.4 or newer"


def test_those_of_all_containers_that_use_cards_hold_together_and_no_others_do() -> None:
    pod = (
        requiring("cuda>=12.4")
        .annotated(f"{VRAM}.draft", "2")
        .annotated("kamiwaza.ai/container", "main")
        .sidecar("draft", **with_env(NVIDIA_REQUIRE_CUDA="cuda>=12.6"))
        .init("warm", **with_env(NVIDIA_REQUIRE_CUDA="cuda<13", NVIDIA_VISIBLE_DEVICES="all"))
        .container("web", **with_env(NVIDIA_REQUIRE_CUDA="cuda>=99.0"))
        .init("fetch", **with_env(NVIDIA_REQUIRE_CUDA="cuda>=99.0"))
    )
    accel = demand(pod).accel
    assert accel is not None
    assert [accel.met_by(version) for version in ((12, 4), (12, 6), (13, 0))] == [False, True, False]


def test_the_same_in_two_containers_is_said_once() -> None:
    pod = requiring("cuda>=12.4").annotated("kamiwaza.ai/container", "main").annotated(f"{VRAM}.b", "2")
    assert str(demand(pod.container("b", **with_env(NVIDIA_REQUIRE_CUDA="cuda>=12.4"))).accel) == "CUDA 12.4 or newer"


@pytest.mark.parametrize("value", ["1", "true", "True", "T"])
def test_it_can_be_switched_off(value: str) -> None:
    assert demand(requiring("cuda>=99.0", NVIDIA_DISABLE_REQUIRE=value)).accel is None


@pytest.mark.parametrize("value", ["0", "false", "yes", ""])
def test_anything_but_true_leaves_it_on(value: str) -> None:
    assert demand(requiring("cuda>=12.4", NVIDIA_DISABLE_REQUIRE=value)).accel is not None


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_text_requires_nothing(text: str) -> None:
    found = read(requiring(text))
    assert found.demand is not None
    assert (found.demand.accel, found.warnings) == (None, ())


def test_what_is_not_understood_is_passed_over_with_a_warning() -> None:
    found = read(requiring("cuda 12"))
    assert found.demand is not None
    assert found.demand.accel is None
    (warning,) = found.warnings
    assert warning == "container main: NVIDIA_REQUIRE_CUDA is 'cuda', which is not understood and passed over"


def test_a_value_from_elsewhere_is_passed_over_with_a_warning() -> None:
    env = [{"name": "NVIDIA_REQUIRE_CUDA", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]
    found = read(a_pod().annotated(VRAM, "6").spec(containers=[{"name": "main", "env": env}]))
    assert found.demand is not None
    assert found.demand.accel is None
    assert "a value from elsewhere" in found.warnings[0]


@pytest.mark.parametrize(("key", "value"), [("kamiwaza.ai/vendor", "amd"), ("kamiwaza.ai/accel-version", "rocm>=6.2")])
def test_it_means_nothing_to_a_pod_for_amd_cards(key: str, value: str) -> None:
    found = read(requiring("cuda>=12.4").annotated(key, value))
    assert found.demand is not None
    assert found.demand.vendor is Vendor.AMD
    assert found.demand.accel is None or found.demand.accel.runtime == "rocm"
    assert "passed over" in found.warnings[0]


def test_a_pod_that_asks_for_nothing_requires_nothing() -> None:
    assert read(a_pod().container("web", **with_env(NVIDIA_REQUIRE_CUDA="nonsense"))).warnings == ()
