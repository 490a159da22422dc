"""Each reason for a refusal, with the facts that a person or a program can act on."""

from __future__ import annotations

import re

import pytest

from hack.devcluster.api import ApiError, Json
from hack.devcluster.nodes import AGENT_FIELD_MANAGER, GPU_NODES
from shared.api import names
from shared.core.cards import Vendor
from tests.e2e.conftest import MakeNamespace, MakePool, Stage, admitted, wait_heard
from tests.e2e.kube import Namespace, deployment, gpu_node, pod, until

pytestmark = pytest.mark.e2e


def _text(error: ApiError) -> str:
    """The operator's own words, checked for what every refusal keeps to."""
    assert (error.status, error.reason) == (403, "Forbidden")
    text = error.message.split(" denied the request: ", 1)[1]
    assert len(text.splitlines()[0]) < 240
    assert len(text) < 900
    causes = error.details["causes"]
    assert 1 <= len(causes) <= 16
    assert causes[0]["reason"] == text.partition(":")[0]
    assert "retryAfterSeconds" not in error.details
    return text


def _causes(error: ApiError) -> dict[str, list[Json]]:
    by_reason: dict[str, list[Json]] = {}
    for cause in error.details["causes"]:
        by_reason.setdefault(cause["reason"], []).append(cause)
    return by_reason


def test_insufficient_capacity_names_the_nearest_card_and_who_holds_it(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16, 24)
    namespace.create(pod("large", {names.VRAM: "20"}, pool=here.name))
    namespace.create(pod("small", {names.VRAM: "10"}, pool=here.name))
    namespace.running("small")
    wait_heard(stage)
    error = namespace.refusal(pod("next", {names.VRAM: "8"}, pool=here.name))
    first, held, advice = _text(error).splitlines()
    assert first.startswith(
        f"insufficient_capacity: needs 8 GB on one card; the best card, gpu-0 of {here.node}, "
        "has 6 of 16 GB free and is 2 GB short"
    )
    assert held == f"Held on gpu-0 of {here.node}: 10 GB by small."
    assert advice.startswith("Full now: create the pod again as soon as there is room.")
    cards = {cause["field"]: cause["message"] for cause in _causes(error)["CardTooFull"]}
    assert set(cards) == {f"{here.node}/0", f"{here.node}/1"}
    assert "has 4 of 24 GB free" in cards[f"{here.node}/1"]


def test_larger_than_any_card_says_that_waiting_does_not_help(pool: MakePool, namespace: Namespace) -> None:
    here = pool(16, 24)
    error = namespace.refusal(pod("huge", {names.VRAM: "80"}, pool=here.name))
    text = _text(error)
    assert text.startswith("insufficient_capacity: needs 80 GB on one card; ")
    assert f"gpu-1 of {here.node}, has 24 GB in all and is 56 GB too small" in text
    assert "Larger than any card it may use, so waiting does not help." in text
    assert len(_causes(error)["CardTooSmall"]) == 2


def test_a_refusal_that_waiting_cannot_help_is_marked_so(pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    namespace.create(deployment("huge", {names.VRAM: "80"}, pool=here.name))
    status = namespace.waiting("huge", "insufficient_capacity")
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    assert (conditions["Waiting"]["status"], conditions["Waiting"]["reason"]) == ("False", "NothingToWaitFor")


def test_insufficient_gpu_count_names_the_best_node(pool: MakePool, namespace: Namespace) -> None:
    here = pool(16, 16, nodes=2)
    error = namespace.refusal(pod("four", {names.VRAM: "10", names.GPUS: "4"}, pool=here.name))
    text = _text(error)
    assert text.startswith(
        "insufficient_gpu_count: needs 10 GB on each of 4 cards; "
        f"the best node, {here.nodes[0]}, has room on 2 of its 2 cards"
    )
    assert "No node it may use has that many such cards, so waiting does not help." in text


def test_insufficient_gpu_count_that_waiting_can_help(stage: Stage, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16, 16)
    namespace.create(pod("holder", {names.VRAM: "10"}, pool=here.name))
    namespace.running("holder")
    wait_heard(stage)
    error = namespace.refusal(pod("pair", {names.VRAM: "10", names.GPUS: "2"}, pool=here.name))
    text = _text(error)
    assert f"the best node, {here.node}, has room on 1 of its 2 cards" in text
    assert f"Held on gpu-0 of {here.node}: 10 GB by holder." in text
    assert "Full now" in text


def test_vendor_mismatch_says_which_vendors_there_are(pool: MakePool, namespace: Namespace) -> None:
    here = pool(48, vendor=Vendor.AMD)
    error = namespace.refusal(pod("chat", {names.VRAM: "8", names.VENDOR: "nvidia"}, pool=here.name))
    text = _text(error)
    assert text.startswith("vendor_mismatch: needs 8 GB on one NVIDIA card; the only node it may use has AMD cards")
    assert names.VENDOR in text
    whole = namespace.refusal(pod("whole", limits={names.NVIDIA_GPU: "1"}, pool=here.name))
    assert _text(whole).startswith("vendor_mismatch: needs a whole NVIDIA card; ")


def test_accel_version_unmet_says_which_version_there_is(pool: MakePool, namespace: Namespace) -> None:
    here = pool(24, cuda="12.4")
    asks = {names.VRAM: "8", names.ACCEL_VERSION: "cuda>=13.0"}
    error = namespace.refusal(pod("chat", asks, pool=here.name))
    text = _text(error)
    assert text.startswith("accel_version_unmet: needs 8 GB on one NVIDIA card with CUDA 13.0 or newer; ")
    assert "the only node it may use has CUDA 12.4 at most" in text
    assert namespace.create(pod("old", {**asks, names.ACCEL_VERSION: "cuda>=12.4"}, pool=here.name), dry_run=True)
    toolkit = {**asks, names.ACCEL_VERSION: "cuda 12.9"}
    assert namespace.create(pod("toolkit", toolkit, pool=here.name), dry_run=True)


def test_the_order_of_reasons(pool: MakePool, namespace: Namespace) -> None:
    here = pool(48, vendor=Vendor.AMD)
    asks = {names.VRAM: "80", names.GPUS: "8", names.ACCEL_VERSION: "cuda>=13.0"}
    assert _text(namespace.refusal(pod("chat", asks, pool=here.name))).startswith("vendor_mismatch")
    wrong = {**asks, names.POLICY: "random"}
    assert _text(namespace.refusal(pod("chat", wrong, pool=here.name))).startswith("invalid_request")
    rocm = {**asks, names.ACCEL_VERSION: "rocm>=9.0"}
    assert _text(namespace.refusal(pod("chat", rocm, pool=here.name))).startswith("accel_version_unmet")
    met = {**asks, names.ACCEL_VERSION: "rocm>=6.0"}
    assert _text(namespace.refusal(pod("chat", met, pool=here.name))).startswith("insufficient_gpu_count")


def test_holders_in_other_namespaces_are_not_named(stage: Stage, pool: MakePool, make_namespace: MakeNamespace) -> None:
    here = pool(48)
    mine, theirs = make_namespace(), make_namespace()
    for number in range(3):
        theirs.create(pod(f"secret-{number}", {names.VRAM: "9"}, pool=here.name))
    mine.create(pod("own", {names.VRAM: "12"}, pool=here.name))
    mine.running("own")
    for number in range(3):
        theirs.running(f"secret-{number}")
    wait_heard(stage)
    error = mine.refusal(pod("next", {names.VRAM: "20"}, pool=here.name))
    text = _text(error)
    assert f"Held on gpu-0 of {here.node}: 12 GB by own, 27 GB by 3 pods in other namespaces." in text
    said = f"{error.message} {error.details}"
    assert "secret" not in said
    assert theirs.name not in said


def test_every_kind_of_exclusion_is_counted(stage: Stage, pool: MakePool, namespace: Namespace) -> None:
    here = pool(24, cuda="12.8")
    same = {"pool": here.name}
    cordoned = pool(24, nodes=2, labels=same)
    for node in cordoned.nodes:
        stage.api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    pool(24, labels=same, taints=[{"key": "reserved", "value": "yes", "effect": "NoSchedule"}])
    pool(48, nodes=3, labels=same, vendor=Vendor.AMD)
    pool(24, labels=same, cuda="12.4")
    pool(24, labels=same, cuda="12.8", cpu="1")
    asks = pod("chat", {names.VRAM: "20", names.ACCEL_VERSION: "cuda>=12.8"}, pool=here.name)
    asks["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    namespace.create(pod("holder", {names.VRAM: "10"}, nodeSelector={"kubernetes.io/hostname": here.node}))
    until("the webhooks see all of it", lambda: admitted(stage, asks, namespace) == {False})
    error = namespace.refusal(asks)
    text = _text(error)
    assert text.startswith("insufficient_capacity: needs 20 GB on one NVIDIA card with CUDA 12.8 or newer; ")
    assert f"gpu-0 of {here.node}, has 14 of 24 GB free and is 6 GB short" in text
    counted = {cause["message"] for cause in _causes(error)["NodesExcluded"]}
    expected = {"2 cordoned", "1 untolerated taint", "3 AMD", "1 without CUDA 12.8 or newer", "1 short of cpu"}
    assert expected <= counted
    assert [words for words in expected if words not in text] == []
    excluded = re.search(r"; ([0-9]+) nodes are excluded: ", text.splitlines()[0])
    assert excluded is not None
    assert int(excluded[1]) >= 8


def test_a_broken_card_is_told_from_a_full_one(stage: Stage, pool: MakePool, namespace: Namespace) -> None:
    here = pool(24)
    cards = [{**card, "healthy": False} for card in gpu_node(stage.api, here.node)["status"]["cards"]]
    body = {"apiVersion": names.API_VERSION, "kind": names.GPU_NODE, "metadata": {"name": here.node}}
    stage.api.apply(
        f"{GPU_NODES}/{here.node}/status", {**body, "status": {"cards": cards}}, manager=AGENT_FIELD_MANAGER
    )
    asks = pod("chat", {names.VRAM: "10"}, pool=here.name)
    until("the webhooks see it", lambda: admitted(stage, asks, namespace) == {False})
    error = namespace.refusal(asks)
    assert f"gpu-0 of {here.node}, is unhealthy" in _text(error)
    (cause,) = [cause for cause in error.details["causes"] if cause.get("field") == f"{here.node}/0"]
    assert "unhealthy" in cause["message"]


def test_a_pool_without_cards_says_so(stage: Stage, pool: MakePool, namespace: Namespace) -> None:
    here = pool(labels={"tier": "cpu"})
    error = namespace.refusal(pod("chat", {names.VRAM: "10"}, pool=here.name))
    text = _text(error)
    assert text.startswith("insufficient_capacity: needs 10 GB on one card; no node")


def test_equal_refusals_are_equal_texts(pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    texts = {_text(namespace.refusal(pod(f"chat-{n}", {names.VRAM: "20"}, pool=here.name))) for n in range(5)}
    assert len(texts) == 1
