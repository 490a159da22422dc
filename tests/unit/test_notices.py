"""What the creator of a placed pod is told: quotas that no longer count it, claims whose volumes may be anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.api import names
from shared.kube.quotas import Quotas, limited_resources
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes.serving import Served, serving
from tests.storage_builders import a_claim, a_class, a_volume, fill
from tests.unit.admission import Webhook, gpu_node
from webhook.outcome import Admitted


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Webhook]:
    async with serving(tmp_path) as served:
        yield await _process(served)


async def _process(served: Served) -> Webhook:
    process = Webhook(served)
    await process.see(a_node("t4"), gpu_node("t4", 16))
    return process


async def warnings(process: Webhook, pod: PodBuilder) -> tuple[str, ...]:
    outcome = await process.mutate(pod)
    assert isinstance(outcome, Admitted), outcome
    return outcome.warnings


ASKS_A_CARD = a_pod().limited_to({names.NVIDIA_GPU: "1"})
ASKS_MEMORY = a_pod().annotated(names.VRAM, "6")


@pytest.mark.parametrize(
    ("pod", "hard", "namespace", "told"),
    [
        pytest.param(ASKS_A_CARD, {"requests.nvidia.com/gpu": "4"}, "models", True, id="on-what-was-replaced"),
        pytest.param(ASKS_MEMORY, {"requests.nvidia.com/gpu": "4"}, "models", False, id="nothing-was-replaced"),
        pytest.param(ASKS_A_CARD, {"requests.amd.com/gpu": "4"}, "models", False, id="on-something-else"),
        pytest.param(ASKS_A_CARD, {"nvidia.com/gpu": "4"}, "models", False, id="one-that-kubernetes-ignores"),
        pytest.param(ASKS_A_CARD, {"requests.nvidia.com/gpu": "4"}, "other", False, id="in-another-namespace"),
    ],
)
async def test_a_quota_that_no_longer_counts_the_pod_is_named(
    process: Webhook, pod: PodBuilder, hard: dict[str, str], namespace: str, told: bool
) -> None:
    process.cluster.quotas.upserted(f"{namespace}/team", limited_resources({"spec": {"hard": hard}}))
    expected = (
        "ResourceQuota team does not count this pod: it limits requests.nvidia.com/gpu, which the placement replaced "
        "with kamiwaza.ai/vram-gb-gpu-<slot>"
    )
    assert await warnings(process, pod) == ((expected,) if told else ())


def test_every_quota_that_limits_a_resource_is_found_until_it_is_deleted() -> None:
    quotas = Quotas()
    for name in ("b", "a"):
        quotas.upserted(f"models/{name}", frozenset({names.NVIDIA_GPU, names.AMD_GPU}))
    both = {names.NVIDIA_GPU, names.AMD_GPU}
    assert list(quotas.limiting("models", both)) == [
        ("a", names.AMD_GPU),
        ("a", names.NVIDIA_GPU),
        ("b", names.AMD_GPU),
        ("b", names.NVIDIA_GPU),
    ]
    quotas.deleted("models/a")
    assert list(quotas.limiting("models", {names.AMD_GPU})) == [("b", names.AMD_GPU)]
    quotas.deleted("models/b")
    quotas.deleted("models/b")
    assert list(quotas.limiting("models", both)) == []


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        pytest.param([], True, id="a-claim-that-does-not-exist"),
        pytest.param([a_claim("cache", of_class="now"), a_class("now", waits=False)], True, id="bound-in-its-own-time"),
        pytest.param([a_claim("cache", volume="disk"), a_volume(claim="models/cache")], False, id="bound"),
        pytest.param([a_claim("cache", of_class="x"), a_class("x", provisioner="x")], False, id="bound-for-the-pod"),
    ],
)
async def test_a_claim_whose_volume_may_turn_up_anywhere_is_named(
    process: Webhook, objects: list[dict[str, Any]], told: bool
) -> None:
    fill(process.cluster.storage, *objects)
    expected = (
        "claim cache: it is not known yet which nodes its volume will reach; if t4 is not among them, "
        "the pod stays pending"
    )
    assert await warnings(process, a_pod().annotated(names.VRAM, "6").claiming("cache")) == (
        (expected,) if told else ()
    )


async def test_two_pods_of_one_claim_for_one_pod_are_not_both_placed(process: Webhook) -> None:
    fill(process.cluster.storage, a_volume(claim="models/cache"), a_claim(volume="disk", modes=("ReadWriteOncePod",)))
    await process.place(a_pod("first").annotated(names.VRAM, "6").claiming("cache"))
    outcome = await process.mutate(a_pod("second").annotated(names.VRAM, "6").claiming("cache"))
    assert not isinstance(outcome, Admitted)
