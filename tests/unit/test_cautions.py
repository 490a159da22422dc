"""What the creator of a placed pod is warned of."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.cards import Vendor
from shared.core.containers import Container, read_containers
from tests.builders import a_pod
from webhook.cautions import cautions, image_caution


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "kai-scheduler"])
def test_another_scheduler_has_to_run_and_obey(scheduler: str) -> None:
    (warning,) = cautions(a_pod().spec(schedulerName=scheduler).raw())
    assert f"schedulerName '{scheduler}' is kept" in warning
    assert "node affinity" in warning


@pytest.mark.parametrize("scheduler", ["default-scheduler", "", None])
def test_kubernetes_own_scheduler_is_nothing_to_warn_of(scheduler: str | None) -> None:
    assert list(cautions(a_pod().spec(schedulerName=scheduler).raw())) == []


def test_privileged_containers_see_every_card() -> None:
    privileged = {"securityContext": {"privileged": True}}
    pod = a_pod().container("debug", **privileged).init("setup", **privileged).container("web", securityContext={})
    setup, debug = cautions(pod.raw())
    assert "container setup: it is privileged" in setup
    assert "container debug: it is privileged" in debug


@pytest.mark.parametrize("context", [None, [], "x", {"privileged": False}, {"privileged": "true"}])
def test_no_other_security_context_is_one(context: Any) -> None:
    assert list(cautions(a_pod().container("web", securityContext=context).raw())) == []


def an_image(reference: str) -> Container:
    (container,) = read_containers(a_pod().spec(containers=[{"name": "server", "image": reference}]).raw())
    return container


@pytest.mark.parametrize(
    ("image", "gets", "says"),
    [
        ("rocm/vllm:rocm6.4.1_vllm_0.10.1", Vendor.NVIDIA, "rocm, which is for AMD cards, but it gets NVIDIA"),
        ("docker.io/vllm/vllm-openai-rocm:v0.11", Vendor.NVIDIA, "rocm, which is for AMD cards, but it gets NVIDIA"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", Vendor.AMD, "cuda, which is for NVIDIA cards, but it gets AMD"),
    ],
)
def test_an_image_for_other_cards_is_told(image: str, gets: Vendor, says: str) -> None:
    warning = image_caution(an_image(image), gets)
    assert warning is not None
    assert warning.startswith(f"container server: its image says {says}")


@pytest.mark.parametrize(
    ("image", "gets"),
    [
        pytest.param("rocm/vllm:rocm6.4.1", Vendor.AMD, id="its-own"),
        pytest.param("vllm/vllm-openai:v0.11", Vendor.AMD, id="says-nothing"),
        pytest.param("example/barracuda:1", Vendor.AMD, id="a-part-of-a-word"),
        pytest.param("example/both:rocm-and-cuda", Vendor.NVIDIA, id="both"),
        pytest.param("rocm.example.com/server:1", Vendor.NVIDIA, id="the-registry"),
        pytest.param("localhost/server@sha256:0", Vendor.NVIDIA, id="a-digest"),
        pytest.param("", Vendor.NVIDIA, id="none"),
    ],
)
def test_no_other_image_is_warned_of(image: str, gets: Vendor) -> None:
    assert image_caution(an_image(image), gets) is None
