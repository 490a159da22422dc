"""A pod that may take the place of others of lower priority: what the webhooks record, answer and accept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from shared.api import names
from shared.core.explain import explain
from shared.core.ledger import Mark, decode
from shared.core.refusal import NoFit
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook, gpu_node, reason, reservation_id, reservations
from webhook.marks import booked_shares, reservation_of
from webhook.outcome import Admitted, Refused

OFFERED = {names.card_resource(0): "24", names.card_resource(1): "24"}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
def start(served: Served) -> Callable[..., Webhook]:
    def start(preemption: bool = True, first_id: int = 0) -> Webhook:
        return Webhook(served, preemption=preemption, first_id=first_id)

    return start


@pytest.fixture
async def webhook(start: Callable[..., Webhook]) -> Webhook:
    """A webhook that sees one node with a card of 24 GB, and lets pods preempt."""
    webhook = start()
    await webhook.see(a_node("t4").offering(OFFERED), gpu_node("t4", 24))
    return webhook


def running(name: str, gb: int = 20, priority: int = 0, card: int = 0) -> PodBuilder:
    return a_pod(name).limited_to({names.card_resource(card): str(gb)}).spec(priority=priority).on("t4")


def see(webhook: Webhook, *pods: PodBuilder) -> None:
    for pod in pods:
        raw = pod.raw()
        webhook.see_pod(raw, raw["metadata"]["uid"])


def urgent(gb: str = "16", priority: int = 100) -> PodBuilder:
    return a_pod("urgent").annotated(names.VRAM, gb).spec(priority=priority)


def marks(served: Served) -> dict[str, Mark]:
    return {key: decode(text).mark for key, text in reservations(served.server.objects, "t4").items()}


async def test_it_is_recorded_as_preempting_and_its_creator_is_told_who_has_to_leave(
    webhook: Webhook, served: Served
) -> None:
    see(webhook, running("chat"))
    outcome = await webhook.mutate(urgent())
    assert isinstance(outcome, Admitted)
    assert outcome.node == "t4"
    (warning,) = outcome.warnings
    assert warning == "the scheduler will evict pods of lower priority for it: chat (20 GB of gpu-0 of t4)"
    assert marks(served) == {outcome.reservation: Mark.PREEMPTING}
    assert webhook.free_gb("t4") == (0,)


async def test_a_pod_that_has_room_is_recorded_as_any_other(webhook: Webhook, served: Served) -> None:
    see(webhook, running("chat", 4))
    outcome = await webhook.mutate(urgent())
    assert isinstance(outcome, Admitted)
    assert outcome.warnings == ()
    assert marks(served) == {outcome.reservation: Mark.NONE}


async def test_its_second_review_changes_nothing_and_the_final_pod_is_accepted(webhook: Webhook) -> None:
    see(webhook, running("chat"))
    placed = await webhook.place(urgent())
    assert booked_shares(placed) == ((0, 16),)
    again = await webhook.mutate(placed)
    assert isinstance(again, Admitted)
    assert again.ops == ()
    assert isinstance(await webhook.validate(placed), Admitted)


async def test_a_dry_run_tells_the_same_and_writes_nothing(webhook: Webhook, served: Served) -> None:
    see(webhook, running("chat"))
    outcome = await webhook.mutate(urgent(), dryRun=True)
    assert isinstance(outcome, Admitted)
    assert "chat" in outcome.warnings[0]
    assert marks(served) == {}
    assert webhook.free_gb("t4") == (4,)


async def test_where_it_is_switched_off_the_refusal_names_who_holds_enough(
    start: Callable[..., Webhook], served: Served
) -> None:
    webhook = start(preemption=False)
    await webhook.see(a_node("t4").offering(OFFERED), gpu_node("t4", 24))
    see(webhook, running("chat"))
    outcome = await webhook.mutate(urgent())
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.refusal, NoFit)
    assert (
        "\nPods of lower priority hold enough: chat (20 GB of gpu-0 of t4). With the chart value "
        "placement.preemption=enabled it takes their place.\n"
    ) in explain(outcome.refusal)
    assert marks(served) == {}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(urgent(priority=0), id="of-equal-priority"),
        pytest.param(urgent().spec(preemptionPolicy="Never"), id="that-never-preempts"),
        pytest.param(urgent("25"), id="too-large-for-any-card"),
    ],
)
async def test_a_pod_is_refused_and_nobody_is_named(webhook: Webhook, pod: PodBuilder) -> None:
    see(webhook, running("chat"))
    outcome = await webhook.mutate(pod)
    assert isinstance(outcome, Refused)
    assert "lower priority" not in explain(outcome.refusal)


@pytest.mark.parametrize(
    ("field", "pod"),
    [
        ("spec.priority", urgent().spec(priority="high")),
        ("spec.preemptionPolicy", urgent().spec(preemptionPolicy=1)),
    ],
)
async def test_a_priority_that_is_none_is_refused(webhook: Webhook, field: str, pod: PodBuilder) -> None:
    outcome = await webhook.mutate(pod)
    assert reason(outcome) == "invalid_request"
    assert isinstance(outcome, Refused)
    assert field in explain(outcome.refusal)


async def test_nobody_gets_the_room_that_it_waits_for(webhook: Webhook) -> None:
    see(webhook, running("chat"))
    await webhook.place(urgent())
    webhook.cluster.pod_deleted("uid-models-chat")
    assert webhook.free_gb("t4") == (8,)
    assert reason(await webhook.mutate(urgent("9", priority=50))) == "insufficient_capacity"


async def test_two_at_once_never_count_on_the_same_victim(webhook: Webhook, served: Served) -> None:
    see(webhook, running("chat"))
    both = await asyncio.gather(webhook.mutate(urgent("14")), webhook.mutate(urgent("14")))
    assert {type(outcome) for outcome in both} == {Admitted, Refused}
    assert list(marks(served).values()) == [Mark.PREEMPTING]


async def test_nor_do_two_replicas(webhook: Webhook, start: Callable[..., Webhook], served: Served) -> None:
    other = start(first_id=100)
    await other.see_stored(a_node("t4").offering(OFFERED))
    for each in (webhook, other):
        see(each, running("chat"))
    both = await asyncio.gather(webhook.mutate(urgent("14")), other.mutate(urgent("14")))
    assert {type(outcome) for outcome in both} == {Admitted, Refused}
    assert list(marks(served).values()) == [Mark.PREEMPTING]


async def test_two_that_fit_together_once_others_have_left_are_both_placed(webhook: Webhook, served: Served) -> None:
    see(webhook, running("chat"))
    first = await webhook.place(urgent("14"))
    see(webhook, a_pod("urgent").label(names.RESERVATION, str(reservation_of(first))).spec(**first["spec"]))
    second = await webhook.mutate(urgent("10"))
    assert isinstance(second, Admitted)
    assert "chat" in second.warnings[0]
    assert marks(served) == dict.fromkeys([reservation_id(0), reservation_id(1)], Mark.PREEMPTING)


async def test_others_are_placed_on_other_cards_of_its_node_at_the_same_moment(
    start: Callable[..., Webhook], served: Served
) -> None:
    webhook = start()
    await webhook.see(a_node("t4").offering(OFFERED), gpu_node("t4", 24, 24))
    see(webhook, running("chat"), running("mine", 14, 100, card=1))
    both = await asyncio.gather(webhook.mutate(urgent("16")), webhook.mutate(a_pod().annotated(names.VRAM, "8")))
    assert all(isinstance(outcome, Admitted) for outcome in both), both
    assert sorted(marks(served).values()) == [Mark.NONE, Mark.PREEMPTING]


async def test_a_victim_that_has_left_meanwhile_is_no_reason_to_decide_again(webhook: Webhook, served: Served) -> None:
    see(webhook, running("chat"))
    decided = asyncio.ensure_future(webhook.mutate(urgent()))
    await asyncio.sleep(0)
    webhook.cluster.pod_deleted("uid-models-chat")
    assert isinstance(await decided, Admitted)
    assert len(marks(served)) == 1
