"""The mutating webhook: what it decides, what it records, and what it does when it cannot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from shared.api import names
from shared.core.ledger import decode, owner_hash
from shared.core.pod_warnings import read_warnings
from shared.core.pods import pinned_node
from shared.core.rejected import rejected_pod
from shared.kube import paths
from tests.builders import PodBuilder, a_node, a_pod, expressions, requirement
from tests.fakes import faults
from tests.fakes.serving import Served, eventually, serving
from tests.unit.admission import NOW, Webhook, gpu_node, patched, reason, reservation_id, reservations
from webhook.marks import booked_shares, reservation_of
from webhook.outcome import Admitted, Refused, Unrecorded

FIRST = reservation_id(0)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def webhook(served: Served) -> Webhook:
    """A webhook that sees one node with a 16 GB card."""
    webhook = Webhook(served)
    await webhook.see(a_node("t4"), gpu_node("t4", 16))
    return webhook


def asking(gb: str = "6", name: str = "pod") -> PodBuilder:
    return a_pod(name).annotated(names.VRAM, gb)


def of_replica_set(pod: PodBuilder, uid: str = "uid-rs") -> PodBuilder:
    return pod.owned_by("ReplicaSet", "chat-5d4f", uid)


def writes(served: Served) -> list[str]:
    return [each for each in served.server.requests if not each.startswith("GET")]


async def test_a_pod_that_asks_for_nothing_passes_as_it_is(webhook: Webhook, served: Served) -> None:
    assert await webhook.mutate(a_pod().limited_to(cpu="1")) == Admitted()
    assert writes(served) == []


async def test_what_is_passed_over_left_alone_or_replaced_is_said_in_warnings(webhook: Webhook) -> None:
    env = [{"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"}, {"name": names.NVIDIA_REQUIRE_CUDA, "value": "new"}]
    pod = asking().spec(containers=[{"name": "main", "env": env}], schedulerName="hami-scheduler")
    outcome = await webhook.mutate(pod)
    assert isinstance(outcome, Admitted)
    about = (names.NVIDIA_REQUIRE_CUDA, "schedulerName", names.NVIDIA_VISIBLE_DEVICES)
    assert [word in warning for word, warning in zip(about, outcome.warnings, strict=True)] == [True] * 3


async def test_warnings_stay_on_the_pod_since_a_controller_drops_its_answers(webhook: Webhook) -> None:
    privileged = asking().spec(containers=[{"name": "main", "securityContext": {"privileged": True}}])
    outcome = await webhook.mutate(privileged)
    assert isinstance(outcome, Admitted)
    placed = patched(privileged, outcome)
    assert read_warnings(placed["metadata"]["annotations"]) == outcome.warnings != ()


@pytest.mark.parametrize("marked", [True, False], ids=["with-the-other-marks", "alone"])
async def test_the_warnings_of_a_copied_manifest_are_not_those_of_the_copy(webhook: Webhook, marked: bool) -> None:
    copy = asking().annotated(names.WARNINGS, "of another")
    placed = await webhook.place(copy.annotated(names.PLACED, "{}") if marked else copy)
    assert names.WARNINGS not in placed["metadata"]["annotations"]


async def test_a_placed_pod_is_in_the_ledger_before_the_answer(webhook: Webhook, served: Served) -> None:
    pod = await webhook.place(of_replica_set(asking()))
    assert booked_shares(pod) == ((0, 6),)
    entry = decode(reservations(served.server.objects, "t4")[FIRST])
    assert entry.namespace == "models"
    assert entry.owner_hash == owner_hash("uid-rs")
    assert entry.since == NOW
    assert entry.shares == ((0, 6),)
    assert webhook.free_gb("t4") == (10,)


async def test_the_node_whose_kubelet_rejected_a_pod_is_not_the_next_ones_first_choice(webhook: Webhook) -> None:
    await webhook.see(a_node("a10"), gpu_node("a10", 24))
    assert pinned_node((await webhook.place(asking()))["spec"]) == "t4"
    dead = a_pod("dead").limited_to({names.card_resource(0): "6"}).label(names.RESERVATION, FIRST).on("t4")
    said = f"Pod was rejected: Allocate failed for {names.card_resource(0)}."
    dead.in_phase("Failed").status(reason="UnexpectedAdmissionError", message=said)
    rejected = rejected_pod(dead.raw())
    assert rejected is not None
    webhook.cluster.rejected.upserted(replace(rejected, rejected=int(time.time())))
    assert pinned_node((await webhook.place(asking()))["spec"]) == "a10"


async def test_a_pod_without_a_place_is_refused_and_nothing_is_held(webhook: Webhook, served: Served) -> None:
    outcome = await webhook.mutate(asking("20"))
    assert reason(outcome) == "insufficient_capacity"
    assert writes(served) == []
    assert webhook.free_gb("t4") == (16,)


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        pytest.param(asking("16GB"), "metadata.annotations[kamiwaza.ai/vram-gb]", id="wrong-amount"),
        pytest.param(
            a_pod().limited_to({"kamiwaza.ai/vram-gb-gpu-0": "6"}),
            "containers[main].resources[kamiwaza.ai/vram-gb-gpu-0]",
            id="hand-written-share",
        ),
        pytest.param(asking().spec(nodeSelector={"a": 7}), "spec.nodeSelector[a]", id="no-pod"),
        pytest.param(
            a_pod().label(names.RESERVATION, FIRST), f"metadata.labels[{names.RESERVATION}]", id="marks-without-an-ask"
        ),
    ],
)
async def test_a_malformed_or_forged_ask_is_refused_by_name(webhook: Webhook, pod: PodBuilder, field: str) -> None:
    outcome = await webhook.mutate(pod)
    assert reason(outcome) == "invalid_request"
    assert isinstance(outcome, Refused)
    assert getattr(outcome.refusal, "field", None) == field


async def test_a_container_that_asks_for_zero_gpus_sees_none_and_books_nothing(
    webhook: Webhook, served: Served
) -> None:
    pod = await webhook.place(a_pod().limited_to({"nvidia.com/gpu": "0"}))
    assert pod["spec"]["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert reservation_of(pod) is None
    assert writes(served) == []


async def test_a_dry_run_decides_and_writes_nothing(webhook: Webhook, served: Served) -> None:
    pod = await webhook.place(asking(), dryRun=True)
    assert booked_shares(pod) == ((0, 6),)
    assert reason(await webhook.mutate(asking("20"), dryRun=True)) == "insufficient_capacity"
    assert writes(served) == []
    assert webhook.free_gb("t4") == (16,)


async def test_the_namespace_is_that_of_the_request_where_the_pod_leaves_it_out(
    webhook: Webhook, served: Served
) -> None:
    raw = asking().raw()
    del raw["metadata"]["namespace"]
    await webhook.place(raw, namespace="elsewhere")
    assert decode(reservations(served.server.objects, "t4")[FIRST]).namespace == "elsewhere"


async def test_what_a_promised_pod_takes_besides_cards_counts_before_it_exists(webhook: Webhook) -> None:
    big = {"cpu": "40"}
    await webhook.place(asking().requesting(big))
    assert reason(await webhook.mutate(asking().requesting(big))) == "insufficient_capacity"


async def test_promised_pods_keep_apart_as_their_anti_affinity_says(served: Served) -> None:
    webhook = Webhook(served)
    for name in ("node-a", "node-b"):
        await webhook.see(a_node(name), gpu_node(name, 80))
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "chat"}}}
    pods = [asking(name=name).labelled(app="chat").away_from(apart) for name in ("one", "two", "three")]
    outcomes = [await webhook.mutate(pod) for pod in pods]
    assert [len(reservations(served.server.objects, name)) for name in ("node-a", "node-b")] == [1, 1]
    assert reason(outcomes[2]) == "insufficient_capacity"


async def test_concurrent_reviews_never_promise_the_same_room(webhook: Webhook, served: Served) -> None:
    pods = [asking("6", f"pod-{number}") for number in range(5)]
    outcomes = await asyncio.gather(*(webhook.mutate(pod) for pod in pods))
    assert sum(isinstance(outcome, Admitted) for outcome in outcomes) == 2
    assert {reason(outcome) for outcome in outcomes if isinstance(outcome, Refused)} == {"insufficient_capacity"}
    assert len(reservations(served.server.objects, "t4")) == 2


async def test_two_processes_never_promise_the_same_room(webhook: Webhook, served: Served) -> None:
    other = Webhook(served, first_id=100)
    await other.see_stored(a_node("t4"))
    outcomes = await asyncio.gather(
        *(process.mutate(asking("6", f"pod-{number}")) for number in range(3) for process in (webhook, other))
    )
    assert sum(isinstance(outcome, Admitted) for outcome in outcomes) == 2
    entries = reservations(served.server.objects, "t4")
    assert sum(gb for text in entries.values() for _, gb in decode(text).shares) == 12


async def test_a_conflict_makes_it_decide_again_elsewhere(webhook: Webhook, served: Served) -> None:
    await webhook.see(a_node("t4-b"), gpu_node("t4-b", 24))
    other = Webhook(served, first_id=100)
    await other.see_stored(a_node("t4"))
    await other.place(asking("12"))
    pod = await webhook.place(asking("6"))
    assert decode(reservations(served.server.objects, "t4-b")[FIRST]).shares == ((0, 6),)
    assert set(reservations(served.server.objects, "t4")) == {reservation_id(100)}
    assert reservation_of(pod) == FIRST
    assert (webhook.free_gb("t4"), webhook.free_gb("t4-b")) == ((4,), (18,))


async def test_a_conflict_that_leaves_room_is_written_again_to_the_same_node(webhook: Webhook, served: Served) -> None:
    other = Webhook(served, first_id=100)
    await other.see_stored(a_node("t4"))
    await other.place(asking("4"))
    await webhook.place(asking("6"))
    assert len(reservations(served.server.objects, "t4")) == 2
    assert webhook.free_gb("t4") == (6,)


async def test_conflicts_until_the_deadline_are_unavailable_and_hold_nothing(
    webhook: Webhook, served: Served, forward: Callable[[float], None]
) -> None:
    conflict = '{"kind":"Status","reason":"Conflict","message":"the object has been modified"}'
    served.server.fail(faults.respond(409, conflict), times=10_000, method="PATCH")
    asked = asyncio.create_task(webhook.mutate(asking(), patience_s=60.0))
    await eventually(lambda: sum(each.startswith("PATCH") for each in served.server.requests) > 1)
    forward(60.0)
    assert isinstance(await asked, Unrecorded)
    assert webhook.free_gb("t4") == (16,)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(faults.respond(500, "?"), id="an-internal-error"),
        pytest.param(faults.respond(403, '{"reason":"Forbidden"}'), id="a-missing-right"),
        pytest.param(faults.respond(429, '{"reason":"TooManyRequests"}'), id="too-many-requests"),
        pytest.param(faults.drop(), id="a-lost-connection"),
        pytest.param(faults.hang(), id="silence"),
    ],
)
async def test_what_cannot_be_recorded_is_unavailable_and_holds_nothing(
    webhook: Webhook, served: Served, fault: faults.Act
) -> None:
    served.server.fail(fault, method="PATCH")
    assert isinstance(await webhook.mutate(asking(), patience_s=0.3), Unrecorded)
    assert webhook.free_gb("t4") == (16,)
    assert reservations(served.server.objects, "t4") == {}


async def test_the_answer_does_not_wait_for_another_review_of_the_node_beyond_its_own_deadline(
    webhook: Webhook, served: Served, forward: Callable[[float], None]
) -> None:
    served.server.fail(faults.hang(), method="PATCH")
    slow = asyncio.create_task(webhook.mutate(asking(), patience_s=60.0))
    await asyncio.sleep(0)
    assert isinstance(await webhook.mutate(asking(), patience_s=0.1), Unrecorded)
    assert not slow.done()
    forward(60.0)
    assert isinstance(await slow, Unrecorded)
    assert webhook.free_gb("t4") == (16,)


async def test_a_write_whose_answer_was_lost_still_counts(webhook: Webhook, served: Served) -> None:
    served.server.fail(faults.lose_answer(), method="PATCH")
    assert isinstance(await webhook.mutate(asking("10")), Unrecorded)
    await webhook.ledger.refresh("t4")
    assert webhook.free_gb("t4") == (6,)


async def test_a_node_that_turned_exclusive_under_way_gives_the_whole_card(webhook: Webhook, served: Served) -> None:
    await served.client.merge_patch(paths.gpu_nodes("t4"), {"spec": {"mode": "exclusive"}})
    pod = await webhook.place(asking("6"))
    assert booked_shares(pod) == ((0, 16),)
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_a_card_that_was_replaced_under_way_is_shown_as_it_is_now(webhook: Webhook, served: Served) -> None:
    cards = gpu_node("t4", 24)["status"]["cards"]
    await served.client.merge_patch(
        paths.status_of(paths.gpu_nodes("t4")), {"status": {"cards": [{**cards[0], "uuid": "GPU-new"}]}}
    )
    pod = await webhook.place(asking("50%"))
    assert booked_shares(pod) == ((0, 12),)
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-new"} in pod["spec"]["containers"][0]["env"]


async def test_a_node_whose_cpu_others_took_under_way_is_left_alone(webhook: Webhook, served: Served) -> None:
    await webhook.see(a_node("t4-b"), gpu_node("t4-b", 24))

    async def take(_request: web.Request, _proceed: faults.Proceed) -> web.StreamResponse:
        webhook.cluster.pod_upserted(a_pod("other").requesting({"cpu": "40"}).on("t4").facts())
        return web.Response(status=409)

    served.server.fail(take, method="PATCH")
    pod = await webhook.place(asking().requesting({"cpu": "40"}))
    assert pinned_node(pod["spec"]) == "t4-b"


async def test_cards_that_go_away_under_way_are_not_written_to(webhook: Webhook, served: Served) -> None:
    await served.client.delete(paths.gpu_nodes("t4"))
    assert reason(await webhook.mutate(asking())) == "insufficient_capacity"
    assert webhook.cluster.pods_on("t4") == {}


async def test_a_node_selector_is_obeyed(webhook: Webhook) -> None:
    await webhook.see(a_node("a10").labelled(zone="west"), gpu_node("a10", 24))
    pod = await webhook.place(asking().node_affinity(expressions(requirement("zone", "In", "west")), {}))
    located = webhook.cluster.locate(str(reservation_of(pod)))
    assert located is not None
    assert located.node == "a10"
