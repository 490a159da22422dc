"""The mutating webhook on pods that carry its marks: its own output passes, everything else is placed anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.api import names
from shared.core.explain import explain
from shared.core.ledger import UNCONFIRMED_TTL_S
from shared.core.pods import pinned_node
from shared.kube import paths
from tests.builders import HOSTNAME, PodBuilder, a_node, a_pod
from tests.fakes.apiserver import place_of
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook, gpu_node, keep_seat_of, patched, reason, reservation_id, reservations
from webhook.marks import booked_shares, reservation_of
from webhook.outcome import Admitted, Refused

FIRST, SECOND = reservation_id(0), reservation_id(1)
GPU = "nvidia.com/gpu"
CARD_0 = names.card_resource(0)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def webhook(served: Served) -> Webhook:
    """A webhook that sees two nodes, each with a card of 16 GB."""
    webhook = Webhook(served)
    for name in ("t4", "t4-b"):
        await webhook.see(a_node(name), gpu_node(name, 16))
    return webhook


def asking() -> PodBuilder:
    return a_pod().annotated(names.VRAM, "6").owned_by("ReplicaSet", "chat-5d4f", "uid-rs")


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(asking(), id="annotation"),
        pytest.param(a_pod().limited_to({GPU: "1"}), id="vendor-count"),
        pytest.param(a_pod().limited_to({names.VRAM: "6", names.GPUS: "1"}), id="resource"),
        pytest.param(a_pod().limited_to({GPU: "1", "nvidia.com/gpumem": "5k", "nvidia.com/gpucores": 30}), id="hami"),
        pytest.param(a_pod().limited_to({"nvidia.com/gpumem-percentage": 50}), id="hami-percentage"),
        pytest.param(a_pod().annotated("gpu-fraction", "0.5"), id="kai"),
        pytest.param(a_pod().init("fetch", resources={"limits": {GPU: "1"}}), id="init-container-only"),
    ],
)
async def test_the_second_run_on_its_own_output_changes_nothing(webhook: Webhook, pod: PodBuilder) -> None:
    once = await webhook.place(pod)
    assert await webhook.mutate(once) == Admitted()
    assert webhook.cluster.locate(SECOND) is None


async def test_a_seat_that_is_kept_for_the_next_pod_of_an_owner_is_not_the_output_for_one(webhook: Webhook) -> None:
    once = await webhook.place(asking())
    await keep_seat_of(webhook, FIRST)
    again = await webhook.place(once)
    assert reservation_of(again) == SECOND


async def test_a_process_that_did_not_place_the_pod_recognises_it_too(webhook: Webhook, served: Served) -> None:
    once = await webhook.place(asking())
    other = Webhook(served, first_id=100)
    for name in ("t4", "t4-b"):
        await other.see_stored(a_node(name))
    assert await other.mutate(once) == Admitted()


async def test_a_proxy_that_was_put_first_changes_nothing_of_the_placement(webhook: Webhook) -> None:
    pod = await webhook.place(asking().annotated(names.CONTAINER, "main"))
    pod["spec"]["containers"].insert(0, {"name": "istio-proxy", "resources": {"requests": {"cpu": "10m"}}})
    assert await webhook.mutate(pod) == Admitted()


async def test_defaults_that_a_limit_range_puts_back_are_set_to_zero(webhook: Webhook) -> None:
    pod = await webhook.place(a_pod().limited_to({GPU: "1"}).requesting({GPU: "1"}))
    for where in ("limits", "requests"):
        pod["spec"]["containers"][0]["resources"][where][GPU] = "1"
    again = patched(pod, await webhook.mutate(pod))
    assert again["spec"]["containers"][0]["resources"] == {
        "limits": {GPU: "0", CARD_0: "16"},
        "requests": {GPU: "0", CARD_0: "16"},
    }
    assert reservation_of(again) == FIRST
    assert await webhook.mutate(again) == Admitted()


def other_owner(pod: dict[str, Any], _webhook: Webhook) -> None:
    pod["metadata"]["ownerReferences"][0]["uid"] = "uid-other"


def no_owner(pod: dict[str, Any], _webhook: Webhook) -> None:
    del pod["metadata"]["ownerReferences"]


def grown_share(pod: dict[str, Any], _webhook: Webhook) -> None:
    for where in ("limits", "requests"):
        pod["spec"]["containers"][0]["resources"][where][CARD_0] = "9"


def other_pin(pod: dict[str, Any], _webhook: Webhook) -> None:
    (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    term["matchFields"][0]["values"] = ["t4-b"]


def no_pin(pod: dict[str, Any], _webhook: Webhook) -> None:
    del pod["spec"]["affinity"]


def selector_of_another_node(pod: dict[str, Any], _webhook: Webhook) -> None:
    pod["spec"]["nodeSelector"] = {HOSTNAME: "t4-b"}


def too_old(_pod: dict[str, Any], webhook: Webhook) -> None:
    webhook.time += UNCONFIRMED_TTL_S + 1


def stored_already(pod: dict[str, Any], webhook: Webhook) -> None:
    webhook.see_pod(pod)


def unknown_id(pod: dict[str, Any], _webhook: Webhook) -> None:
    pod["metadata"]["labels"][names.RESERVATION] = "zzzzzzzzzz"


def no_id(pod: dict[str, Any], _webhook: Webhook) -> None:
    pod["metadata"]["labels"][names.RESERVATION] = "?"


def no_label(pod: dict[str, Any], _webhook: Webhook) -> None:
    del pod["metadata"]["labels"]


@pytest.mark.parametrize(
    "deviate",
    [
        other_owner,
        no_owner,
        grown_share,
        other_pin,
        selector_of_another_node,
        no_pin,
        too_old,
        stored_already,
        unknown_id,
        no_id,
        no_label,
    ],
    ids=lambda deviate: deviate.__name__,
)
async def test_what_deviates_from_the_ledger_is_placed_anew(
    webhook: Webhook, deviate: Callable[[dict[str, Any], Webhook], None]
) -> None:
    pod = await webhook.place(asking())
    deviate(pod, webhook)
    again = await webhook.place(pod)
    assert reservation_of(again) == SECOND
    assert booked_shares(again) == ((0, 6),)
    located = webhook.cluster.locate(SECOND)
    assert located is not None
    assert pinned_node(again["spec"]) == located.node
    assert [entry["value"] for entry in again["spec"]["containers"][0]["env"]] == [f"GPU-{located.node}-0"]


async def test_a_copy_in_another_namespace_is_placed_anew(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    again = await webhook.place(pod, namespace="elsewhere")
    assert reservation_of(again) == SECOND


async def test_the_oldest_moment_that_still_counts_is_the_end_of_the_ttl(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    webhook.time += UNCONFIRMED_TTL_S
    assert await webhook.mutate(pod) == Admitted()


async def test_a_copied_pod_asks_for_what_the_original_asked(webhook: Webhook, served: Served) -> None:
    original = a_pod().limited_to({GPU: "1"})
    pod = await webhook.place(original)
    webhook.see_pod(pod)
    again = await webhook.place(pod)
    assert again["spec"]["containers"][0]["resources"]["limits"] == {CARD_0: "16"}
    assert set(reservations(served.server.objects, "t4") | reservations(served.server.objects, "t4-b")) == {
        FIRST,
        SECOND,
    }


def debug_copy(pod: dict[str, Any], *keeps: str, adds: bool) -> dict[str, Any]:
    """What `kubectl debug --copy-to` makes of a pod: it `keeps` labels or annotations only if it is told to, and has a
    container more unless one is named whose command it is to replace.
    """
    metadata = {"name": "pod-debug", "namespace": "models", **{kept: pod["metadata"][kept] for kept in keeps}}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    first, *others = spec["containers"]
    if adds:
        spec["containers"] = [first, *others, {"name": "debugger-x7k2p", "image": "busybox", "stdin": True}]
    else:
        spec["containers"] = [{**first, "command": ["sh"], "args": None, "stdin": True}, *others]
    return {"metadata": metadata, "spec": spec}


@pytest.mark.parametrize("adds", [True, False], ids=["with-a-container-more", "with-another-command"])
@pytest.mark.parametrize("keeps", [("annotations",), ("annotations", "labels")], ids=["annotations", "labels-too"])
@pytest.mark.parametrize(
    ("original", "gb"),
    [
        pytest.param(a_pod().annotated(names.VRAM, "6"), 6, id="annotation"),
        pytest.param(a_pod().annotated("gpu-fraction", "0.5"), 8, id="kai"),
        pytest.param(a_pod().limited_to({names.VRAM: "6"}), 6, id="resource"),
        pytest.param(a_pod().init("fetch", resources={"limits": {GPU: "1"}}), 16, id="init-container-only"),
    ],
)
async def test_a_copy_for_debugging_is_placed_anew(
    webhook: Webhook, original: PodBuilder, gb: int, keeps: tuple[str, ...], adds: bool
) -> None:
    pod = await webhook.place(original)
    webhook.see_pod(pod)
    copy = await webhook.place(debug_copy(pod, *keeps, adds=adds))
    assert reservation_of(copy) == SECOND
    assert booked_shares(copy) == ((0, gb),)
    assert names.card_resource(0) in copy["spec"]["containers"][0]["resources"]["limits"]
    assert isinstance(await webhook.validate(copy), Admitted)


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("keeps", [(), ("labels",)], ids=["nothing", "labels"])
async def test_a_copy_for_debugging_without_the_annotations_is_told_to_keep_them(
    webhook: Webhook, keeps: tuple[str, ...], adds: bool
) -> None:
    pod = await webhook.place(a_pod().annotated(names.VRAM, "6"))
    webhook.see_pod(pod)
    outcome = await webhook.mutate(debug_copy(pod, *keeps, adds=adds))
    assert isinstance(outcome, Refused)
    said = explain(outcome.refusal)
    assert "annotations" in said
    assert names.VRAM in said
    assert names.NVIDIA_VISIBLE_DEVICES not in said, "which the user did not write"
    assert len(said.splitlines()[0]) <= 250


async def test_a_copy_whose_ask_cannot_be_told_any_more_is_refused(webhook: Webhook) -> None:
    pod = await webhook.place(a_pod().limited_to({GPU: "1"}))
    pod["metadata"]["annotations"][names.PLACED] = "{}"
    webhook.see_pod(pod)
    outcome = await webhook.mutate(pod)
    assert reason(outcome) == "invalid_request"


async def test_shares_that_somebody_added_to_an_unmarked_pod_are_refused_even_beside_an_ask(webhook: Webhook) -> None:
    outcome = await webhook.mutate(asking().limited_to({CARD_0: "1"}))
    assert reason(outcome) == "invalid_request"


async def test_an_entry_that_was_dropped_in_the_ledger_makes_a_pod_a_copy(webhook: Webhook, served: Served) -> None:
    pod = await webhook.place(asking())
    node = "t4" if FIRST in reservations(served.server.objects, "t4") else "t4-b"
    served.server.objects.update(
        place_of(paths.status_of(paths.gpu_nodes(node))),
        lambda old: {**old, "status": {**old["status"], "reservations": {}}},
    )
    await webhook.ledger.refresh(node)
    assert reservation_of(await webhook.place(pod)) == SECOND


async def test_what_a_later_webhook_asks_beyond_all_that_the_node_has_is_refused(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4000"
    assert "short of cpu" in str(await webhook.mutate(pod))


async def test_own_output_whose_id_a_pod_of_another_namespace_copies_passes(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    webhook.see_pod({**pod, "metadata": {**pod["metadata"], "namespace": "elsewhere"}}, uid="uid-copy")
    assert await webhook.mutate(pod) == Admitted()


async def test_own_output_whose_node_is_cordoned_meanwhile_keeps_its_one_place(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    for state in tuple(webhook.cluster.snapshot().nodes.values()):
        webhook.cluster.node_upserted(replace(state.facts, unschedulable=True))
    assert await webhook.mutate(pod) == Admitted()


async def test_own_output_on_a_node_that_this_replica_does_not_know_passes(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    for name in tuple(webhook.cluster.snapshot().nodes):
        webhook.cluster.node_deleted(name)
    assert await webhook.mutate(pod) == Admitted()


@pytest.mark.parametrize("minutes", [-5, 5], ids=["behind", "ahead"])
async def test_the_clock_of_another_replica_decides_nothing(webhook: Webhook, served: Served, minutes: int) -> None:
    """Its own output comes back to whichever replica the API server asks next."""
    pod = await webhook.place(asking())
    other = Webhook(served, first_id=10)
    other.time += minutes * 60
    for name in ("t4", "t4-b"):
        await other.see_stored(a_node(name))
    assert await other.mutate(pod) == Admitted()
