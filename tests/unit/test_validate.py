"""The validating webhook: the final pod has to say what the ledger says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from shared.api import names
from shared.kube import paths
from tests.builders import REQUIRED, PodBuilder, a_node, a_pod
from tests.fakes import faults
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook, gpu_node, keep_seat_of, reason, reservation_id
from webhook.outcome import Admitted, Outcome, Refused, Unrecorded

GPU = "nvidia.com/gpu"
CARD_0 = names.card_resource(0)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def webhook(served: Served) -> Webhook:
    """A webhook that sees a node with two cards of 16 GB."""
    webhook = Webhook(served)
    await webhook.see(a_node("t4"), gpu_node("t4", 16, 16))
    return webhook


def asking() -> PodBuilder:
    return a_pod().annotated(names.VRAM, "6").owned_by("ReplicaSet", "chat-5d4f", "uid-rs")


def problem(outcome: Outcome) -> str:
    """Field and problem of an outcome that refuses as `invalid_request`."""
    assert isinstance(outcome, Refused), outcome
    assert reason(outcome) == "invalid_request"
    return f"{getattr(outcome.refusal, 'field', '')} {getattr(outcome.refusal, 'problem', '')}"


def pin(pod: dict[str, Any], *nodes: str) -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    pod["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(asking(), id="annotation"),
        pytest.param(a_pod().limited_to({GPU: "2"}), id="vendor-count"),
        pytest.param(a_pod().limited_to({names.VRAM: "3"}), id="resource"),
        pytest.param(a_pod(), id="no-ask"),
        pytest.param(a_pod().limited_to({GPU: "0"}), id="zero-gpus"),
    ],
)
async def test_what_the_mutating_webhook_made_is_let_in(webhook: Webhook, pod: PodBuilder) -> None:
    assert isinstance(await webhook.validate(await webhook.place(pod)), Admitted)


async def test_the_outcome_says_where_the_pod_is_placed(webhook: Webhook) -> None:
    outcome = await webhook.validate(await webhook.place(asking()))
    assert outcome == Admitted(reservation=reservation_id(0), node="t4")


async def test_defaults_that_were_silenced_are_let_in(webhook: Webhook) -> None:
    pod = await webhook.place(a_pod().limited_to({GPU: "1"}))
    pod["spec"]["containers"][0]["resources"]["limits"][GPU] = "0"
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_an_id_that_is_not_known_yet_is_looked_up_live(webhook: Webhook, served: Served) -> None:
    other = Webhook(served, first_id=100)
    await other.see_stored(a_node("t4"))
    pod = await webhook.place(asking())
    before = len(served.server.requests)
    assert isinstance(await other.validate(pod), Admitted)
    assert served.server.requests[before:] == [f"GET {paths.gpu_nodes('t4')}"]
    assert isinstance(await other.validate(pod), Admitted)
    assert len(served.server.requests) == before + 1


async def test_a_live_read_that_fails_is_unavailable(webhook: Webhook, served: Served) -> None:
    other = Webhook(served, first_id=100)
    pod = await webhook.place(asking())
    served.server.fail(faults.respond(500, "?"), method="GET")
    outcome = await other.validate(pod)
    assert isinstance(outcome, Unrecorded)
    assert outcome.why == "the API server answered 500 NotKubernetes"
    assert "?" in outcome.detail


def other_owner(pod: dict[str, Any]) -> None:
    pod["metadata"]["ownerReferences"][0]["uid"] = "uid-other"


def other_shares(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"]["limits"][CARD_0] = "7"


def other_card(pod: dict[str, Any]) -> None:
    resources = pod["spec"]["containers"][0]["resources"]["limits"]
    resources[names.card_resource(1)] = resources.pop(CARD_0)


def more_shares_in_another_container(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"].append({"name": "more", "resources": {"limits": {CARD_0: "1"}}})


def made_up_id(pod: dict[str, Any]) -> None:
    pod["metadata"]["labels"][names.RESERVATION] = "zzzzzzzzzz"


def no_id(pod: dict[str, Any]) -> None:
    pod["metadata"]["labels"][names.RESERVATION] = "mine"


def no_label(pod: dict[str, Any]) -> None:
    del pod["metadata"]["labels"]


def no_shares(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"] = {}


def no_affinity(pod: dict[str, Any]) -> None:
    del pod["spec"]["affinity"]


def an_alternative(pod: dict[str, Any]) -> None:
    pin(pod, "t4", "elsewhere")


def another_node(pod: dict[str, Any]) -> None:
    pin(pod, "elsewhere")


def a_later_count(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"].append({"name": "late", "resources": {"limits": {GPU: "1"}}})


def a_later_amount(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"]["limits"][names.VRAM] = "6"


def every_card_visible(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["env"].append({"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"})


def a_larger_ask(pod: dict[str, Any]) -> None:
    pod["metadata"]["annotations"][names.VRAM] = "20"


def broken_share(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"]["limits"][CARD_0] = "6Gi"


def no_spec(pod: dict[str, Any]) -> None:
    del pod["spec"]


def a_spec_that_is_none(pod: dict[str, Any]) -> None:
    pod["spec"] = 7


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_owner, "another workload"),
        (other_shares, "other shares"),
        (other_card, "other shares"),
        (more_shares_in_another_container, "other shares"),
        (made_up_id, "in no ledger"),
        (no_id, "not the id"),
        (no_label, "not the id"),
        (no_shares, "no share of a card"),
        (no_affinity, "not pinned"),
        (an_alternative, "not pinned"),
        (another_node, "on another node"),
        (a_later_count, "added after"),
        (a_later_amount, "added after"),
        (every_card_visible, "does not show the cards"),
        (a_larger_ask, "another share"),
        (broken_share, "not whole GB"),
        (no_spec, "not pinned"),
        (a_spec_that_is_none, "not an object"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_pod_that_says_something_else_than_the_ledger_is_refused(
    webhook: Webhook, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    pod = await webhook.place(asking())
    change(pod)
    assert words in problem(await webhook.validate(pod))


async def test_a_reservation_of_another_namespace_is_refused(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    assert "another workload" in problem(await webhook.validate(pod, namespace="elsewhere"))


async def test_a_copy_in_another_namespace_does_not_make_a_reservation_look_used(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    webhook.see_pod({**pod, "metadata": {**pod["metadata"], "namespace": "elsewhere"}}, uid="uid-copy")
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_a_reservation_whose_pod_exists_is_refused(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    webhook.see_pod(pod)
    assert "pod that exists" in problem(await webhook.validate(pod))


async def test_a_seat_that_is_kept_is_no_reservation_of_a_pod(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    await keep_seat_of(webhook, reservation_id(0))
    assert "kept for the next pod" in problem(await webhook.validate(pod))


@pytest.mark.parametrize("node", ["../secrets", "a/b", "", "x" * 300, "%2e"])
async def test_a_pin_that_is_no_name_is_refused_without_a_request(webhook: Webhook, served: Served, node: str) -> None:
    pod = await webhook.place(asking())
    made_up_id(pod)
    pin(pod, node)
    before = list(served.server.requests)
    assert "in no ledger" in problem(await webhook.validate(pod))
    assert served.server.requests == before


async def test_an_id_on_a_node_that_has_no_cards_is_refused(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    made_up_id(pod)
    pin(pod, "elsewhere")
    assert "in no ledger" in problem(await webhook.validate(pod))


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        pytest.param(
            a_pod().limited_to({CARD_0: "6"}), "only the placement itself may write", id="a-hand-written-share"
        ),
        pytest.param(a_pod().limited_to({GPU: "1"}), "was not placed", id="a-later-count"),
        pytest.param(asking(), "was not placed", id="a-later-annotation"),
        pytest.param(a_pod().annotated(names.VRAM, "16GB"), "16GB", id="a-wrong-amount"),
    ],
)
async def test_a_pod_that_should_have_been_placed_is_refused(webhook: Webhook, pod: PodBuilder, words: str) -> None:
    outcome = await webhook.validate(pod)
    assert words in f"{problem(outcome)} {getattr(getattr(outcome, 'refusal', None), 'value', '')}"


async def test_a_dry_run_needs_no_ledger_but_a_pod_that_agrees_with_its_record(
    webhook: Webhook, served: Served
) -> None:
    pod = await webhook.place(asking(), dryRun=True)
    before = list(served.server.requests)
    assert isinstance(await webhook.validate(pod, dryRun=True), Admitted)
    pin(pod, "elsewhere")
    assert "does not agree" in problem(await webhook.validate(pod, dryRun=True))
    assert served.server.requests == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_shares, "does not agree with the shares"),
        (other_card, "does not agree with the shares"),
        (more_shares_in_another_container, "does not agree with the shares"),
        (a_later_count, "added after"),
        (every_card_visible, "does not show the cards"),
        (a_larger_ask, "another share"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_dry_run_is_refused_what_a_create_is_refused(
    webhook: Webhook, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    pod = await webhook.place(asking(), dryRun=True)
    change(pod)
    assert words in problem(await webhook.validate(pod, dryRun=True))


async def test_the_output_of_a_dry_run_cannot_be_created(webhook: Webhook) -> None:
    pod = await webhook.place(asking(), dryRun=True)
    assert "in no ledger" in problem(await webhook.validate(pod))
