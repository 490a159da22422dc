"""Pods on vendor-managed nodes through both webhooks: what they look like, what is recorded, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.managed_nodes import ManagedNodes
from shared.api import names
from shared.core.ledger import decode
from shared.core.nodes import node_facts
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook, gpu_node, patched, reason, reservation_id, reservations
from tests.unit.test_managed_nodes import NOW
from tests.unit.units import AMD, GPU, SHARED, SLICE, managed_node
from webhook.marks import strip
from webhook.outcome import Admitted, Refused
from webhook.patch import PodPatch
from webhook.placed_record import read_record

EKS = managed_node("eks", {GPU: 1}, memory="23028", count="1", product="NVIDIA-A10G", replicas="1")
FOUR_GPUS = managed_node("eks", {GPU: 4}, memory="23028", count="4", product="NVIDIA-A10G", replicas="1")
FOUR = managed_node("eks", {GPU: 4}, memory="24576", count="1", product="NVIDIA-A10-SHARED", replicas="4")
MIG = managed_node("eks", {SLICE: 2}, {f"{SLICE}.memory": "9728"}, memory="81559", count="1", replicas="0")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as started:
        yield started


async def publish(served: Served, webhook: Webhook, node: NodeBuilder) -> None:
    """The controller publishes the node's cards, and the webhook hears of it."""
    webhook.cluster.node_upserted(node_facts(node.raw()))
    await ManagedNodes(served.client, webhook.cluster, NOW, exclusive=False).reconcile(node.raw()["metadata"]["name"])


async def a_webhook(served: Served, node: NodeBuilder) -> Webhook:
    webhook = Webhook(served)
    await publish(served, webhook, node)
    return webhook


def resources(pod: Mapping[str, Any], container: int = 0, kind: str = "containers") -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"][kind][container].get("resources") or {}
    return found


def asking(**resources: str) -> PodBuilder:
    return a_pod().annotated(names.VRAM, "2").limited_to(resources)


async def test_the_vendors_resource_is_added_where_the_pod_asks_in_our_words(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    pod = await webhook.place(asking())
    assert resources(pod) == {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    assert "env" not in pod["spec"]["containers"][0]
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["eks"]}]}]
    }
    assert pod["metadata"]["labels"] == {names.RESERVATION: reservation_id(0)}
    entry = decode(reservations(served.server.objects, "eks")[reservation_id(0)])
    assert (entry.shares, entry.units) == ((), ((GPU, 1),))
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_the_vendors_resource_stays_where_the_pod_has_it(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    pod = await webhook.place(a_pod().limited_to({GPU: "1"}).requesting({GPU: "1"}))
    assert resources(pod) == {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    assert isinstance(await webhook.validate(pod), Admitted)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod().limited_to({GPU: "1e0"}), id="an-exponent"),
        pytest.param(a_pod().limited_to({GPU: "2000m"}), id="thousandths"),
        pytest.param(a_pod().limited_to({GPU: 2}), id="a-number"),
        pytest.param(
            asking().spec(containers=[{"name": "main", "image": "vllm/vllm-openai", "args": ["-tp", "2"]}]),
            id="arguments-that-tell-the-number",
        ),
        pytest.param(
            asking().spec(containers=[{"name": "main", "image": "vllm/vllm-openai"}, {"name": "helper"}]),
            id="the-server-among-helpers",
        ),
    ],
)
async def test_however_the_number_of_units_is_told_the_second_look_reads_the_same(
    served: Served, pod: PodBuilder
) -> None:
    webhook = await a_webhook(served, FOUR_GPUS)
    assert isinstance(await webhook.validate(await webhook.place(pod)), Admitted)


async def test_a_container_without_a_name_is_left_to_the_api_server_to_refuse(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    nameless = a_pod().spec(containers=[{"resources": {"limits": {names.VRAM: "6"}}}])
    assert isinstance(await webhook.mutate(nameless), Admitted)


async def test_our_words_as_resources_are_taken_off_since_no_node_offers_them(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    asks = {names.VRAM: "2", names.GPUS: "1"}
    pod = await webhook.place(a_pod().limited_to(asks).requesting(asks))
    assert resources(pod) == {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_the_next_pod_is_told_that_sharing_is_not_configured(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    webhook.see_pod(await webhook.place(asking()))
    assert reason(await webhook.mutate(asking())) == "sharing_not_configured"


async def test_a_card_chosen_by_the_user_is_left_to_the_plugin_with_a_warning(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    raw = asking().raw()
    raw["spec"]["containers"][0]["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-1"},
        {"name": "KEPT", "value": "1"},
        {"name": "CUDA_VISIBLE_DEVICES", "value": "3"},
        {"name": "ROCR_VISIBLE_DEVICES", "value": "0"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    outcome = await webhook.mutate(raw)
    pod = patched(raw, outcome)
    assert [entry["name"] for entry in pod["spec"]["containers"][0]["env"]] == ["KEPT", "ROCR_VISIBLE_DEVICES"]
    assert isinstance(outcome, Admitted)
    assert [warning.split(" was ")[0] for warning in outcome.warnings] == [
        "container main: NVIDIA_VISIBLE_DEVICES",
        "container main: CUDA_VISIBLE_DEVICES",
    ]


async def test_slices_pass_through_with_a_pin_and_a_record(served: Served) -> None:
    webhook = await a_webhook(served, MIG)
    pod = await webhook.place(a_pod().limited_to({SLICE: "1"}).requesting({SLICE: "1"}))
    assert resources(pod) == {"limits": {SLICE: "1"}, "requests": {SLICE: "1"}}
    assert decode(reservations(served.server.objects, "eks")[reservation_id(0)]).units == ((SLICE, 1),)
    assert read_record(pod).units[0].resource == SLICE
    assert isinstance(await webhook.validate(pod), Admitted)
    await webhook.place(a_pod("second").limited_to({SLICE: "1"}))
    assert reason(await webhook.mutate(a_pod("third").limited_to({SLICE: "1"}))) == "insufficient_capacity"


async def test_an_amount_may_be_served_by_a_slice(served: Served) -> None:
    webhook = await a_webhook(served, MIG)
    pod = await webhook.place(asking())
    assert resources(pod) == {"limits": {SLICE: "1"}, "requests": {SLICE: "1"}}
    assert isinstance(await webhook.validate(pod), Admitted)
    assert await webhook.mutate(pod) == Admitted()


async def test_slices_on_a_node_with_an_agent_are_booked_beside_its_cards(served: Served) -> None:
    webhook = Webhook(served)
    await webhook.see(a_node("own").offering({SLICE: "1"}), gpu_node("own", 80))
    pod = (
        asking()
        .annotated(names.CONTAINER, "main")
        .container("second", resources={"limits": {SLICE: "1"}, "requests": {SLICE: "1"}})
    )
    placed = await webhook.place(pod)
    entry = decode(reservations(served.server.objects, "own")[reservation_id(0)])
    assert (entry.shares, entry.units) == (((0, 2),), ((SLICE, 1),))
    assert isinstance(await webhook.validate(placed), Admitted)
    assert reason(await webhook.mutate(a_pod().limited_to({SLICE: "1"}))) == "insufficient_capacity"


async def test_zero_slices_show_no_device(served: Served) -> None:
    webhook = await a_webhook(served, MIG)
    pod = await webhook.place(a_pod().limited_to({SLICE: "0"}))
    assert pod["spec"]["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


@pytest.mark.parametrize("node", [EKS, FOUR, MIG], ids=["whole", "replicas", "slices"])
async def test_a_sidecar_that_comes_later_changes_nothing(served: Served, node: NodeBuilder) -> None:
    webhook = await a_webhook(served, node)
    pod = await webhook.place(asking())
    pod["spec"]["containers"].insert(0, {"name": "proxy", "resources": {"requests": {"cpu": "1"}}})
    assert await webhook.mutate(pod) == Admitted()
    assert isinstance(await webhook.validate(pod), Admitted)


@pytest.mark.parametrize("node", [EKS, FOUR, MIG], ids=["whole", "replicas", "slices"])
async def test_its_own_output_is_left_as_it_is(served: Served, node: NodeBuilder) -> None:
    webhook = await a_webhook(served, node)
    pod = await webhook.place(asking())
    assert await webhook.mutate(pod) == Admitted()
    webhook.see_pod(pod)
    assert not isinstance(await webhook.mutate(pod), Admitted) or reservation_id(0) not in str(
        await webhook.mutate(pod)
    )


@pytest.mark.parametrize(
    "pod",
    [
        asking(),
        asking(**{GPU: "1"}),
        a_pod().limited_to({names.VRAM: "2", GPU: "1"}),
        a_pod().limited_to({GPU: "1"}).requesting({GPU: "1"}),
    ],
    ids=["annotation", "annotation and count", "resource and count", "count"],
)
async def test_a_copied_manifest_is_stripped_to_what_its_user_wrote(served: Served, pod: PodBuilder) -> None:
    webhook = await a_webhook(served, FOUR)
    placed = await webhook.place(pod)
    patch = PodPatch(placed)
    strip(patch)
    assert [each.get("resources") or {} for each in patch.pod["spec"]["containers"]] == [
        {kind: amounts for kind, amounts in (each.get("resources") or {}).items() if amounts} | _emptied(patch)
        for each in pod.raw()["spec"]["containers"]
    ]
    webhook.see_pod(placed)
    again = await webhook.place(placed)
    assert again["metadata"]["labels"][names.RESERVATION] != reservation_id(0)
    assert resources(again) == resources(placed)


def _emptied(patch: PodPatch) -> dict[str, Any]:
    return {kind: {} for kind, amounts in resources(patch.pod).items() if not amounts}


async def test_a_copy_for_debugging_has_its_unit_where_the_original_had_it(served: Served) -> None:
    """As `kubectl debug --copy-to --keep-annotations` makes it."""
    webhook = await a_webhook(served, FOUR_GPUS)
    pod = await webhook.place(asking())
    webhook.see_pod(pod)
    spec = {**pod["spec"], "containers": [*pod["spec"]["containers"], {"name": "debugger-x7k2p", "image": "busybox"}]}
    metadata = {"name": "pod-debug", "namespace": "models", "annotations": pod["metadata"]["annotations"]}
    copy = await webhook.place({"metadata": metadata, "spec": spec})
    assert [resources(copy, 0), resources(copy, 1)] == [{"limits": {GPU: "1"}, "requests": {GPU: "1"}}, {}]
    assert isinstance(await webhook.validate(copy), Admitted)


async def test_an_init_container_that_asks_has_a_unit_too(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    pod = await webhook.place(asking().annotated(f"{names.VRAM}.warm", "4").init("warm"))
    assert resources(pod, kind="initContainers")["limits"] == {GPU: "1"}
    assert decode(reservations(served.server.objects, "eks")[reservation_id(0)]).units == ((GPU, 1),)
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_a_renamed_resource_stands_in_for_a_gpu_of_some_gb(served: Served) -> None:
    webhook = await a_webhook(served, managed_node("eks", {SHARED: 4}, memory="24576", count="1", replicas="4"))
    pod = await webhook.place(asking(**{GPU: "1"}))
    assert resources(pod)["limits"] == {SHARED: "1"}
    assert isinstance(await webhook.validate(pod), Admitted)
    patch = PodPatch(pod)
    strip(patch)
    assert resources(patch.pod)["limits"] == {GPU: "1"}


async def test_amd_gpus_are_booked_like_the_others(served: Served) -> None:
    webhook = await a_webhook(served, managed_node("eks", {AMD: 8}, {"amd.com/gpu.vram": "192G"}))
    pod = await webhook.place(asking().annotated(names.GPUS, "4"))
    assert resources(pod)["limits"] == {AMD: "4"}
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_of_concurrent_creates_for_the_last_unit_exactly_one_gets_it(served: Served) -> None:
    one, other = await a_webhook(served, EKS), Webhook(served, first_id=500)
    await other.see_stored(EKS)
    outcomes = await asyncio.gather(
        *(webhook.mutate(a_pod(f"pod-{n}").annotated(names.VRAM, "2")) for n in range(4) for webhook in (one, other))
    )
    assert [isinstance(outcome, Admitted) for outcome in outcomes].count(True) == 1
    assert len(reservations(served.server.objects, "eks")) == 1


async def test_replicas_go_to_as_many_pods_as_there_are(served: Served) -> None:
    one, other = await a_webhook(served, FOUR), Webhook(served, first_id=500)
    await other.see_stored(FOUR)
    pods = [a_pod(f"pod-{n}").annotated(names.VRAM, "6") for n in range(4)]
    outcomes = await asyncio.gather(*(webhook.mutate(pod) for pod in pods for webhook in (one, other)))
    assert [isinstance(outcome, Admitted) for outcome in outcomes].count(True) == 4
    assert {reason(outcome) for outcome in outcomes if isinstance(outcome, Refused)} == {"insufficient_capacity"}


async def test_a_dry_run_books_nothing_and_is_checked_against_its_own_record(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    pod = await webhook.place(asking(), dryRun=True)
    assert reservations(served.server.objects, "eks") == {}
    assert isinstance(await webhook.validate(pod, dryRun=True), Admitted)
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "2"}, "requests": {GPU: "2"}}
    refused = await webhook.validate(pod, dryRun=True)
    assert reason(refused) == "invalid_request"
    assert "does not agree with the units" in str(refused)


def a_server(pod: PodBuilder, *args: str) -> dict[str, Any]:
    """The pod with vLLM in its container."""
    raw = pod.raw()
    raw["spec"]["containers"][0] |= {"image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "org/m", *args]}
    return raw


@pytest.mark.parametrize(
    ("pod", "resource"),
    [
        pytest.param(a_pod().annotated(names.VRAM, "6"), GPU, id="amount"),
        pytest.param(a_pod().limited_to({GPU: "1"}), GPU, id="count"),
        pytest.param(a_pod().limited_to({SHARED: "1"}), SHARED, id="renamed"),
    ],
)
@pytest.mark.parametrize("strategy", ["time-slicing", "mps"])
async def test_a_server_on_a_replica_is_told_to_keep_to_it(
    served: Served, pod: PodBuilder, resource: str, strategy: str
) -> None:
    labels = {"nvidia.com/gpu.sharing-strategy": strategy}
    webhook = await a_webhook(
        served, managed_node("eks", {resource: 4}, labels, memory="24576", count="1", replicas="4")
    )
    before = a_server(pod, "--gpu-memory-utilization", "0.9")
    placed = await webhook.place(before)
    told = ["--gpu-memory-utilization", "0.208"]
    assert placed["spec"]["containers"][0]["args"] == [*before["spec"]["containers"][0]["args"], *told]
    assert isinstance(await webhook.validate(placed), Admitted)
    assert await webhook.place(placed) == placed
    patch = PodPatch(placed)
    strip(patch)
    assert patch.pod["spec"]["containers"][0]["args"] == before["spec"]["containers"][0]["args"]


async def test_a_server_on_a_replica_that_cannot_be_told_is_spoken_of(served: Served) -> None:
    outcome = await (await a_webhook(served, FOUR)).mutate(
        asking().raw() | {"spec": {"containers": [{"name": "main", "image": "ollama/ollama:0.11"}]}}
    )
    assert isinstance(outcome, Admitted)
    assert any("OLLAMA_CONTEXT_LENGTH is not set" in warning for warning in outcome.warnings)


@pytest.mark.parametrize("node", [EKS, FOUR, MIG], ids=["whole", "replica", "slice"])
async def test_a_server_that_spreads_over_more_than_it_asks_for_is_spoken_of(served: Served, node: NodeBuilder) -> None:
    pod = a_pod().annotated(names.VRAM, "6").annotated(names.GPUS, "1")
    outcome = await (await a_webhook(served, node)).mutate(a_server(pod, "--tensor-parallel-size", "2"))
    assert isinstance(outcome, Admitted)
    assert any("spread it over 2 card(s), but it gets 1 and may not start" in warning for warning in outcome.warnings)


@pytest.mark.parametrize(("args", "warned"), [((), True), (("--gpu-memory-utilization", "0.2"), False)])
async def test_a_server_on_a_replica_of_unknown_size_is_spoken_of_unless_its_user_sized_it(
    served: Served, args: tuple[str, ...], *, warned: bool
) -> None:
    webhook = await a_webhook(served, managed_node("eks", {GPU: 4}, count="1", replicas="4"))
    outcome = await webhook.mutate(a_server(a_pod().limited_to({GPU: "1"}), *args))
    assert isinstance(outcome, Admitted)
    assert any("of a size that nothing tells" in warning for warning in outcome.warnings) is warned


@pytest.mark.parametrize(("node", "resource"), [(EKS, GPU), (MIG, SLICE)], ids=["whole", "slice"])
async def test_units_apart_from_others_need_no_limit(served: Served, node: NodeBuilder, resource: str) -> None:
    pod = await (await a_webhook(served, node)).place(a_server(a_pod().limited_to({resource: "1"})))
    assert pod["spec"]["containers"][0]["args"] == ["--model", "org/m"]


def more_units(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "2"}, "requests": {GPU: "2"}}


def another_ask(pod: dict[str, Any]) -> None:
    pod["metadata"]["annotations"][names.VRAM] = "23"


def another_count(pod: dict[str, Any]) -> None:
    pod["metadata"]["annotations"][names.GPUS] = "2"


def a_card_shown(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]


def units_elsewhere(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"] = {}
    pod["spec"]["containers"].append({"name": "thief", "resources": {"limits": {GPU: "1"}}})


def no_units(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"] = {}


def no_quantity(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "some"}}


def another_resource(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"].append({"name": "helper", "resources": {"limits": {AMD: "1"}}})


@pytest.mark.parametrize(
    "change",
    [
        more_units,
        another_ask,
        another_count,
        a_card_shown,
        no_units,
        no_quantity,
        another_resource,
    ],
)
async def test_what_was_changed_after_the_placement_is_refused(served: Served, change: Any) -> None:
    webhook = await a_webhook(served, EKS)
    pod = await webhook.place(asking())
    change(pod)
    assert reason(await webhook.validate(pod)) == "invalid_request"


async def test_a_replica_that_has_not_seen_the_node_takes_the_ledgers_word_for_the_units(served: Served) -> None:
    webhook = await a_webhook(served, FOUR_GPUS)
    pod = await webhook.place(asking())
    moved = await webhook.place(a_pod().annotated(f"{names.VRAM}.main", "2"))
    units_elsewhere(moved)
    webhook.cluster.node_deleted("eks")
    assert isinstance(await webhook.validate(pod), Admitted)
    assert reason(await webhook.validate(moved)) == "invalid_request"


async def test_units_that_went_to_another_container_are_refused(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    pod = await webhook.place(a_pod().annotated(f"{names.VRAM}.main", "2"))
    units_elsewhere(pod)
    outcome = await webhook.validate(pod)
    assert reason(outcome) == "invalid_request"
    assert "asks for other units than container main has" in str(outcome)


async def test_a_lost_record_alone_is_no_reason_to_refuse(served: Served) -> None:
    webhook = await a_webhook(served, EKS)
    pod = await webhook.place(asking())
    pod["metadata"]["annotations"][names.PLACED] = "{}"
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_a_pod_of_slices_that_was_not_placed_is_refused(served: Served) -> None:
    webhook = await a_webhook(served, MIG)
    outcome = await webhook.validate(a_pod().limited_to({SLICE: "1"}).requesting({SLICE: "1"}))
    assert reason(outcome) == "invalid_request"
    assert "was not placed" in str(outcome)


async def test_with_another_plugin_on_an_agents_node_units_are_booked(served: Served) -> None:
    webhook = Webhook(served)
    await webhook.see(a_node("own").offering({GPU: "1"}), gpu_node("own", 24))
    pod = await webhook.place(asking())
    assert resources(pod)["limits"] == {GPU: "1"}
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_the_admin_may_say_that_the_cards_are_shared_all_the_same(served: Served) -> None:
    webhook = Webhook(served)
    raw = {**gpu_node("own", 24), "spec": {"mode": "shared"}}
    await webhook.see(a_node("own").offering({GPU: "1"}), raw)
    pod = await webhook.place(asking())
    assert resources(pod)["limits"] == {names.card_resource(0): "2"}


async def test_pods_of_one_owner_that_were_promised_elsewhere_are_counted(served: Served) -> None:
    one, other = await a_webhook(served, FOUR), Webhook(served, first_id=500)
    await other.see_stored(FOUR)
    replica = asking().owned_by("ReplicaSet", "chat", "uid-chat")
    for _ in range(4):
        await one.place(replica)
    await other.see_stored(FOUR)
    state = other.cluster.node("eks")
    assert state is not None
    assert state.free_units(GPU) == 0
    assert reason(await other.mutate(replica)) == "insufficient_capacity"


async def test_what_a_limit_range_adds_to_another_container_is_placed_anew(served: Served) -> None:
    webhook = await a_webhook(served, FOUR)
    pod = await webhook.place(asking())
    pod["spec"]["containers"].append({"name": "helper", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}})
    pod["metadata"]["annotations"][names.CONTAINER] = "main"
    again = await webhook.place(pod)
    assert again["metadata"]["labels"][names.RESERVATION] != reservation_id(0)
    assert isinstance(await webhook.validate(again), Admitted)


async def test_two_containers_each_with_a_unit_are_one_booking(served: Served) -> None:
    webhook = await a_webhook(served, FOUR)
    pod = await webhook.place(
        a_pod().annotated(f"{names.VRAM}.main", "4").annotated(f"{names.VRAM}.second", "6").container("second")
    )
    assert [resources(pod, number)["limits"] for number in (0, 1)] == [{GPU: "1"}, {GPU: "1"}]
    assert decode(reservations(served.server.objects, "eks")[reservation_id(0)]).units == ((GPU, 2),)
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_a_sidecar_keeps_its_unit_while_an_init_container_has_another(served: Served) -> None:
    webhook = await a_webhook(served, FOUR)
    pod = await webhook.place(
        a_pod()
        .annotated(f"{names.VRAM}.main", "4")
        .annotated(f"{names.VRAM}.helper", "2")
        .annotated(f"{names.VRAM}.warm", "3")
        .sidecar("helper")
        .init("warm")
    )
    assert isinstance(await webhook.validate(pod), Admitted)
    assert decode(reservations(served.server.objects, "eks")[reservation_id(0)]).units == ((GPU, 2),)
