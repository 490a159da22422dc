"""A placed pod that another webhook has changed: it keeps its place where that still takes it, and no other way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import pytest

from shared.api import names
from shared.core.constraints import read_constraints
from shared.core.demand import is_booked
from shared.core.explain import explain
from shared.core.ledger import Mark, decode
from shared.core.pods import pinned_node
from shared.core.refusal import NoFit
from tests.builders import HOSTNAME, PodBuilder, a_node, a_pod, expressions, labels, requirement, term
from tests.fakes.serving import Served, serving
from tests.storage_builders import a_claim, a_volume, fill
from tests.unit.admission import Webhook, gpu_node, reason, reservation_id, reservations
from tests.unit.rewriting import stripped
from webhook.marks import reservation_of, shares_by_container
from webhook.outcome import Admitted, Outcome, Refused
from webhook.second_look import digest_of

Change: TypeAlias = Callable[[dict[str, Any]], None]

FIRST = reservation_id(0)
NODES = ("n1", "n2")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def two(served: Served) -> tuple[Webhook, Webhook]:
    """Two processes that see two nodes of one card each. On n1 runs a pod that is in the way of later changes."""
    one, other = Webhook(served), Webhook(served, first_id=100)
    for name in NODES:
        await one.see(a_node(name), gpu_node(name, 16))
        await other.see_stored(a_node(name))
    for process in (one, other):
        see(process, a_pod("x").labelled(app="x").requesting(cpu="40").host_port(8000).on("n1"))
        see(process, a_pod("chat-0").labelled(app="chat").on("n1"))
        fill(
            process.cluster.storage, a_volume("pv", claim="models/weights", node="n2"), a_claim("weights", volume="pv")
        )
    return one, other


@pytest.fixture
def webhook(two: tuple[Webhook, Webhook]) -> Webhook:
    return two[0]


@pytest.fixture
async def spark(served: Served) -> tuple[Webhook, Webhook]:
    """Two processes that see a node with a pool of 111 GB and 119 GB of memory."""
    one, other = Webhook(served), Webhook(served, first_id=100)
    node = gpu_node("spark", 111)
    node["status"]["cards"][0]["class"] = "unified"
    await one.see(a_node("spark").offering(memory="119Gi"), node)
    await other.see_stored(a_node("spark").offering(memory="119Gi"))
    return one, other


def see(webhook: Webhook, pod: PodBuilder) -> None:
    raw = pod.raw()
    webhook.see_pod(raw, raw["metadata"]["uid"])


def asking(gb: str = "6") -> PodBuilder:
    pod = a_pod("chat-1").annotated(names.VRAM, gb).labelled(app="chat")
    return pod.owned_by("ReplicaSet", "chat-5d4f", "uid-rs")


def sidecar(**requests: str) -> Change:
    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["containers"].append({"name": "proxy", "resources": {"requests": requests}})

    return change


def as_of(builder: PodBuilder, *parts: str) -> Change:
    """Gives a pod what `builder` has in these parts of its spec."""

    def change(pod: dict[str, Any]) -> None:
        for part in parts:
            wanted = builder.raw()["spec"][part]
            pod["spec"][part] = {**pod["spec"].get(part, {}), **wanted} if isinstance(wanted, dict) else wanted

    return change


def host_port(pod: dict[str, Any]) -> None:
    ports = [{"containerPort": 8000, "hostPort": 8000}]
    pod["spec"]["containers"].append({"name": "proxy", "ports": ports})


def nothing(_pod: dict[str, Any]) -> None:
    pass


X, CHAT = (term(HOSTNAME, labels(app=app)) for app in ("x", "chat"))
AWAY_FROM_N1 = [
    pytest.param(sidecar(cpu="30"), "short of cpu", id="cpu"),
    pytest.param(as_of(a_pod().away_from(X), "affinity"), "pod anti-affinity", id="anti-affinity"),
    pytest.param(
        as_of(a_pod().spread_over(HOSTNAME, labels(app="chat")), "topologySpreadConstraints"),
        "topology spread",
        id="spread",
    ),
    pytest.param(as_of(a_pod().claiming("weights"), "volumes"), "where its volume cannot go", id="volume"),
    pytest.param(host_port, "host port", id="host-port"),
]


def text(outcome: Outcome) -> str:
    """What a refusal for want of a place says."""
    assert isinstance(outcome, Refused), outcome
    assert isinstance(outcome.refusal, NoFit), outcome
    return explain(outcome.refusal)


def entries(served: Served) -> dict[str, str]:
    return {key: name for name in NODES for key in reservations(served.server.objects, name)}


@pytest.mark.parametrize(("change", "_why"), AWAY_FROM_N1)
@pytest.mark.parametrize("reviewed_by", [0, 1], ids=["same", "other"])
async def test_a_pod_that_its_node_takes_no_more_goes_to_another_and_leaves_nothing_behind(
    two: tuple[Webhook, Webhook], served: Served, change: Change, _why: str, reviewed_by: int
) -> None:
    pod = await two[0].place(asking())
    assert pinned_node(pod["spec"]) == "n1"
    change(pod)
    again = await two[reviewed_by].place(pod)
    assert pinned_node(again["spec"]) == "n2"
    assert entries(served) == {reservation_of(again): "n2"}
    assert [await process.mutate(again) for process in two] == [Admitted(), Admitted()]
    assert isinstance(await two[1 - reviewed_by].validate(again), Admitted)


@pytest.mark.parametrize(("change", "why"), AWAY_FROM_N1)
@pytest.mark.parametrize("validated_by", [0, 1], ids=["same", "other"])
async def test_a_pod_that_was_changed_last_of_all_is_refused_and_told_why(
    two: tuple[Webhook, Webhook], change: Change, why: str, validated_by: int
) -> None:
    pod = await two[0].place(asking())
    change(pod)
    outcome = await two[validated_by].validate(pod)
    assert reason(outcome) == "insufficient_capacity"
    assert why in text(outcome)


@pytest.mark.parametrize("change", [nothing, sidecar(cpu="10"), as_of(a_pod().tolerating("any"), "tolerations")])
async def test_a_pod_that_its_node_still_takes_keeps_its_place_without_a_request(
    two: tuple[Webhook, Webhook], served: Served, change: Change
) -> None:
    pod = await two[0].place(asking())
    change(pod)
    await two[1].mutate(pod)  # It has looked the entry up now.
    before = len(served.server.requests)
    assert [await process.mutate(pod) for process in two] == [Admitted(), Admitted()]
    assert [type(await process.validate(pod)) for process in two] == [Admitted, Admitted]
    assert len(served.server.requests) == before


async def test_what_happens_around_a_pod_that_nobody_changed_takes_nothing_from_it(
    two: tuple[Webhook, Webhook],
) -> None:
    pod = await two[0].place(asking().requesting(cpu="10").away_from(term(HOSTNAME, labels(app="y"))))
    for process in two:
        see(process, a_pod("y").labelled(app="y").requesting(cpu="20").on("n1"))
    assert [await process.mutate(pod) for process in two] == [Admitted(), Admitted()]
    assert [type(await process.validate(pod)) for process in two] == [Admitted, Admitted]


async def test_a_cordon_takes_nothing_from_a_pod_that_was_changed(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    sidecar(cpu="10")(pod)
    for state in tuple(webhook.cluster.snapshot().nodes.values()):
        webhook.cluster.node_upserted(replace(state.facts, unschedulable=True))
    assert await webhook.mutate(pod) == Admitted()
    assert isinstance(await webhook.validate(pod), Admitted)


async def test_neither_its_entry_nor_its_hold_counts_against_a_pod(webhook: Webhook, served: Served) -> None:
    # Twice what it asks is more than the node has.
    pod = await webhook.place(asking("12").requesting(cpu="20"))
    assert pinned_node(pod["spec"]) == "n1"
    pod["spec"]["nodeSelector"] = {HOSTNAME: "n1"}
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "23"
    assert await webhook.mutate(pod) == Admitted()
    assert entries(served) == {FIRST: "n1"}


async def test_others_see_at_once_what_was_added_to_a_pod_that_keeps_its_place(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    sidecar(cpu="20")(pod)
    pod["metadata"]["labels"]["quiet"] = "please"
    assert await webhook.mutate(pod) == Admitted()
    loud = a_pod("loud").annotated(names.VRAM, "1").away_from(term(HOSTNAME, labels(quiet="please")))
    assert pinned_node((await webhook.place(loud))["spec"]) == "n2"
    large = a_pod("large").annotated(names.VRAM, "1").requesting(cpu="10").selecting(**{HOSTNAME: "n1"})
    assert "short of cpu" in text(await webhook.mutate(large))


async def test_a_record_without_the_digest_is_that_of_a_pod_that_may_have_changed(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    record = orjson.loads(pod["metadata"]["annotations"][names.PLACED])
    del record["demands"]
    pod["metadata"]["annotations"][names.PLACED] = orjson.dumps(record).decode()
    assert await webhook.mutate(pod) == Admitted()
    see(webhook, a_pod("y").requesting(cpu="24").on("n1"))
    sidecar(cpu="1")(pod)
    assert pinned_node((await webhook.place(pod))["spec"]) == "n2"


async def test_terms_that_the_user_wrote_make_no_change(webhook: Webhook) -> None:
    terms = [expressions(requirement(HOSTNAME, "In", *NODES)), expressions(requirement(HOSTNAME, "In", "n3"))]
    pod = await webhook.place(asking().node_affinity(*terms))
    see(webhook, a_pod("y").requesting(cpu="24").on("n1"))
    assert await webhook.mutate(pod) == Admitted()


async def test_a_helper_that_came_later_is_not_taken_for_the_one_that_asks(webhook: Webhook) -> None:
    pod = await webhook.place(asking())
    sidecar(cpu="30")(pod)
    again = await webhook.place(pod)
    assert shares_by_container(again) == {"main": ((0, 6),)}
    pod["spec"]["containers"][-1]["resources"] = {"limits": {names.VRAM: "2"}}
    both = await webhook.place({**pod, "metadata": {**pod["metadata"], "annotations": told_for("main")}})
    assert shares_by_container(both) == {"main": ((0, 6),), "proxy": ((0, 2),)}


def told_for(container: str) -> dict[str, str]:
    return {names.VRAM_OF_CONTAINER_PREFIX + container: "6"}


def test_the_digest_tells_demands_apart_whatever_order_they_are_written_in() -> None:
    pod = a_pod().labelled(a="1", b="2").requesting(cpu="1", memory="1Gi").host_port(80).host_port(81)
    same = a_pod().labelled(b="2", a="1").requesting(memory="1Gi", cpu="1").host_port(81).host_port(80)
    changes = [
        a_pod().labelled(a="1"),
        a_pod().requesting(cpu="2"),
        a_pod().requesting(cpu="9999999Ei"),
        a_pod().host_port(80),
        a_pod().selecting(zone="a"),
        a_pod().node_affinity(expressions(requirement("zone", "In", "a"))),
        a_pod().near(X),
        a_pod().away_from(X),
        a_pod().spread_over(HOSTNAME, labels(app="x")),
        a_pod().tolerating("gpu"),
        a_pod().claiming("weights"),
    ]
    digests = [digest_of(read_constraints(each.raw())) for each in (a_pod(), pod, same, *changes)]
    assert digests[1] == digests[2]
    assert len(set(digests)) == len(digests) - 1


# Pools of memory.


@pytest.mark.parametrize("reviewed_by", [0, 1], ids=["same", "other"])
async def test_memory_beyond_what_a_pool_has_left_is_refused(spark: tuple[Webhook, Webhook], reviewed_by: int) -> None:
    pod = await spark[0].place(asking("60"))
    sidecar(memory="60Gi")(pod)
    for outcome in (await spark[reviewed_by].mutate(pod), await spark[reviewed_by].validate(pod)):
        assert reason(outcome) == "insufficient_system_memory"
        assert "60 GB" in text(outcome)


@pytest.mark.parametrize("reviewed_by", [0, 1], ids=["same", "other"])
async def test_memory_that_a_pool_has_left_goes_into_the_ledger(
    spark: tuple[Webhook, Webhook], served: Served, reviewed_by: int
) -> None:
    pod = await spark[0].place(asking("60"))
    sidecar(memory="40Gi")(pod)
    again = await spark[reviewed_by].place(pod)
    ledger = reservations(served.server.objects, "spark")
    assert {key: (decode(told).shares, decode(told).memory_mib) for key, told in ledger.items()} == {
        reservation_of(again): (((0, 60),), 40 * 1024)
    }
    for process in spark:
        assert await process.mutate(again) == Admitted()
        assert isinstance(await process.validate(again), Admitted)
        neighbour = a_pod("neighbour").annotated(names.VRAM, "20")
        assert reason(await process.mutate(neighbour, dryRun=True)) == "insufficient_system_memory"


async def test_one_write_records_what_was_added(spark: tuple[Webhook, Webhook], served: Served) -> None:
    pod = await spark[0].place(asking("60"))
    sidecar(memory="40Gi")(pod)
    before = len(served.server.requests)
    await spark[0].mutate(pod)
    assert [request.split()[0] for request in served.server.requests[before:]] == ["PATCH"]


async def test_a_digest_that_somebody_put_right_does_not_hide_memory(spark: tuple[Webhook, Webhook]) -> None:
    pod = await spark[0].place(asking("60"))
    sidecar(memory="60Gi")(pod)
    digest = digest_of(read_constraints(stripped(pod), without=is_booked))
    record = orjson.loads(pod["metadata"]["annotations"][names.PLACED])
    assert record["demands"] != digest
    pod["metadata"]["annotations"][names.PLACED] = orjson.dumps({**record, "demands": digest}).decode()
    assert reason(await spark[0].validate(pod)) == "insufficient_system_memory"


# What the API server itself does to a pod after the placement.


def merged_label_keys(pod: dict[str, Any]) -> None:
    """As it merges `matchLabelKeys` into the selector before it stores a pod."""
    (term,) = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": "pod-template-hash", "operator": "In", "values": ["5d4f"]}
    term["labelSelector"]["matchExpressions"] = [expression]


def tolerated_cards(pod: dict[str, Any]) -> None:
    """As the admission plugin ExtendedResourceToleration does, which runs again once a webhook has changed a pod."""
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    pod["spec"]["tolerations"] = [{"key": resource, "operator": "Exists"} for resource in limits]


@pytest.mark.parametrize("change", [merged_label_keys, tolerated_cards])
@pytest.mark.parametrize("reviewed_by", [0, 1], ids=["same", "other"])
async def test_what_the_api_server_adds_is_no_reason_to_look_at_a_place_again(
    two: tuple[Webhook, Webhook], change: Change, reviewed_by: int
) -> None:
    term = {
        "topologyKey": HOSTNAME,
        "labelSelector": {"matchLabels": {"app": "other"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"app": "chat", "pod-template-hash": "5d4f"}
    pod = await two[0].place(asking().requesting(cpu="10").labelled(**labels).spec(affinity=affinity))
    change(pod)
    for process in two:
        see(process, a_pod("busy").requesting(cpu="20").on("n1"))  # placed anew, the pod would find no room here
    assert await two[reviewed_by].mutate(pod) == Admitted()
    assert isinstance(await two[reviewed_by].validate(pod), Admitted)


# Pods that take the place of others.


async def test_those_who_are_about_to_leave_are_not_in_the_way(served: Served) -> None:
    webhook = Webhook(served, preemption=True)
    await webhook.see(a_node("t4").offering({names.card_resource(0): "24"}), gpu_node("t4", 24))
    for name, cpu in (("low", "30"), ("batch", "30")):
        low = a_pod(name).limited_to({names.card_resource(0): "12"}).requesting(cpu=cpu).on("t4")
        see(webhook, low.spec(priority=0))
    pod = await webhook.place(asking("10").spec(priority=100))
    (told,) = reservations(served.server.objects, "t4").values()
    assert decode(told).mark is Mark.PREEMPTING
    assert await webhook.mutate(pod) == Admitted()
    sidecar(cpu="34")(pod)
    assert await webhook.mutate(pod) == Admitted()
    assert isinstance(await webhook.validate(pod), Admitted)
    pod["spec"]["containers"][-1]["resources"]["requests"]["cpu"] = "65"
    assert "short of cpu" in text(await webhook.mutate(pod))
    assert "short of cpu" in text(await webhook.validate(pod))
