"""An attempt of which no pod came is replaced by its owner's next one, and nobody else's is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from shared.api import names
from shared.core.ledger import decode
from shared.core.pods import pinned_node
from shared.kube import paths
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook, gpu_node, reason, reservation_id, reservations, store
from webhook.outcome import Admitted

NODES = ("n1", "n2")
Owner = tuple[str, str, str, str]
"""API version, kind, name and uid."""


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def one(served: Served) -> Webhook:
    """A process that sees two nodes of one card each."""
    process = Webhook(served)
    for name in NODES:
        await process.see(a_node(name), gpu_node(name, 40))
    return process


@pytest.fixture
async def other(served: Served, one: Webhook) -> Webhook:
    """Another process that saw the same."""
    process = Webhook(served, first_id=100)
    for name in NODES:
        await process.see_stored(a_node(name))
    return process


def owner(served: Served, kind: str = "ReplicaSet", api_version: str = "apps/v1", **fields: Any) -> Owner:
    """Stores an owner, or changes it."""
    path = paths.object_path(api_version, kind, "models", "chat").rpartition("/")[0]
    raw = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "chat"}, **fields}
    return api_version, kind, "chat", store(served.server.objects, path, raw)["metadata"]["uid"]


def replica_set(served: Served, replicas: int) -> Owner:
    return owner(served, spec={"replicas": replicas})


def pod_of(of: Owner, gb: int = 6, name: str | None = None) -> PodBuilder:
    api_version, kind, owner_name, uid = of
    pod = a_pod(name or "").annotated(names.VRAM, str(gb))
    return pod.owned_by(kind, owner_name, uid, api_version)


def held(served: Served) -> dict[str, str]:
    """Every entry, and the node it is on."""
    return {key: node for node in NODES for key in reservations(served.server.objects, node)}


def is_owner_read(line: str) -> bool:
    return line.startswith("GET") and line.endswith("/chat")


async def arrive(process: Webhook, served: Served, pod: Mapping[str, Any], name: str) -> None:
    """The pod is stored and the process hears of it."""
    raw = {**pod, "metadata": {**pod["metadata"], "name": name}}
    store(served.server.objects, paths.pods("models"), raw)
    process.see_pod(raw, uid=f"uid-{name}")


async def test_a_replica_set_of_one_that_fails_on_and_on_holds_one_entry(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    for _ in range(14):
        one.time += 1
        await one.place(pod_of(only))
        assert len(held(served)) == 1
    assert set(held(served)) == {reservation_id(13)}
    assert sorted(one.free_gb(node)[0] for node in NODES) == [34, 40], "the holds of failed attempts are gone as well"


async def test_two_processes_take_over_from_each_other(one: Webhook, other: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    await one.place(pod_of(only))
    await other.ledger.refresh("n1")
    await other.place(pod_of(only))
    assert set(held(served)) == {reservation_id(100)}
    await one.ledger.refresh("n1")
    assert one.free_gb("n1") == (34,), "the hold of the first process ends with its entry"


async def test_the_new_attempt_may_use_the_room_of_the_old(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    for node in NODES:
        one.see_pod(a_pod(f"full-{node}").limited_to({names.card_resource(0): "20"}).on(node).raw(), uid=f"uid-{node}")
    await one.place(pod_of(only, 20))
    await one.place(a_pod("bare").annotated(names.VRAM, "20"))
    assert reason(await one.mutate(a_pod("late").annotated(names.VRAM, "20"))) == "insufficient_capacity"
    await one.place(pod_of(only, 20))
    assert len(held(served)) == 2


async def test_parallel_attempts_within_what_is_wanted_take_nothing_over(one: Webhook, served: Served) -> None:
    three = replica_set(served, 3)
    await asyncio.gather(*(one.place(pod_of(three)) for _ in range(3)))
    assert len(held(served)) == 3


async def test_pods_that_exist_count_towards_what_is_wanted(one: Webhook, served: Served) -> None:
    two = replica_set(served, 2)
    await arrive(one, served, await one.place(pod_of(two)), "first")
    await one.place(pod_of(two))
    await one.place(pod_of(two))
    assert set(held(served)) == {reservation_id(0), reservation_id(2)}


async def test_a_terminating_pod_does_not_count_and_keeps_its_entry(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    placed = await one.place(pod_of(only))
    ending = {
        **placed,
        "metadata": {**placed["metadata"], "name": "first", "deletionTimestamp": "2026-01-01T00:00:00Z"},
    }
    one.see_pod(ending)
    await one.place(pod_of(only))
    assert set(held(served)) == {reservation_id(0), reservation_id(1)}


async def test_the_oldest_of_several_is_taken_over(one: Webhook, served: Served) -> None:
    two = replica_set(served, 2)
    for _ in range(3):
        one.time += 1
        await one.place(pod_of(two))
    assert set(held(served)) == {reservation_id(1), reservation_id(2)}


async def test_what_an_owner_wanted_a_while_ago_is_not_believed_for_ever(
    one: Webhook, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.take_over._FRESH_S", 0.0)
    scaled = replica_set(served, 3)
    for _ in range(2):
        await one.place(pod_of(scaled))
    replica_set(served, 1)
    one.time += 1
    await one.place(pod_of(scaled))
    assert len(held(served)) == 2, "one more than it wants now takes the place of another"


async def test_a_pod_that_the_watch_has_not_shown_yet_keeps_its_entry(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    stored = await one.place(pod_of(only, name="first"))
    store(served.server.objects, paths.pods("models"), stored)
    await one.place(pod_of(only))
    assert set(held(served)) == {reservation_id(0), reservation_id(1)}


async def test_a_finished_pod_of_that_id_does_not_keep_it(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    stored = await one.place(pod_of(only, name="first"))
    store(served.server.objects, paths.pods("models"), {**stored, "status": {"phase": "Failed"}})
    await one.place(pod_of(only))
    assert set(held(served)) == {reservation_id(1)}


@pytest.mark.parametrize(
    ("kind", "api_version", "fields", "most"),
    [
        pytest.param("ReplicaSet", "apps/v1", {"spec": {"replicas": 2}}, 2, id="replica-set"),
        pytest.param("ReplicationController", "v1", {"spec": {"replicas": 2}}, 2, id="replication-controller"),
        pytest.param("Job", "batch/v1", {"spec": {"parallelism": 3}}, 3, id="job"),
        pytest.param(
            "Job",
            "batch/v1",
            {"spec": {"parallelism": 3, "completions": 5}, "status": {"succeeded": 4}},
            1,
            id="job-at-its-end",
        ),
        pytest.param("StatefulSet", "apps/v1", {"spec": {"replicas": 3}}, 1, id="one-after-the-other"),
        pytest.param(
            "StatefulSet",
            "apps/v1",
            {"spec": {"replicas": 3, "podManagementPolicy": "Parallel"}},
            3,
            id="stateful-set-in-parallel",
        ),
        pytest.param("ReplicaSet", "apps/v1", {"spec": {"replicas": 0}}, 1, id="scaled-down-meanwhile"),
        pytest.param("CronJob", "batch/v1", {}, 5, id="a-kind-that-does-not-say"),
        pytest.param("StatefulSet", "example.com/v1", None, 5, id="a-kind-of-somebody-else"),
    ],
)
async def test_how_many_attempts_an_owner_may_have(
    one: Webhook, served: Served, kind: str, api_version: str, fields: dict[str, Any] | None, most: int
) -> None:
    of = (api_version, kind, "chat", "uid") if fields is None else owner(served, kind, api_version, **fields)
    for number in range(5):
        await one.place(pod_of(of, name=f"chat-{number}"))
    assert len(held(served)) == most


async def test_a_stateful_pod_replaces_the_attempt_of_its_own_name(one: Webhook, served: Served) -> None:
    of = owner(served, "StatefulSet", spec={"replicas": 3, "podManagementPolicy": "Parallel"})
    for name in ("chat-0", "chat-1", "chat-0"):
        await one.place(pod_of(of, name=name))
    assert set(held(served)) == {reservation_id(1), reservation_id(2)}


async def test_a_daemon_pod_replaces_the_attempt_on_its_own_node(one: Webhook, served: Served) -> None:
    of = owner(served, "DaemonSet", status={"desiredNumberScheduled": 2})
    for node in ("n1", "n2", "n1"):
        fixed = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        await one.place(pod_of(of).node_affinity(fixed))
    assert held(served) == {reservation_id(1): "n2", reservation_id(2): "n1"}


async def test_bare_pods_take_nothing_over(one: Webhook, served: Served) -> None:
    for _ in range(3):
        await one.place(a_pod("same").annotated(names.VRAM, "6"))
    assert len(held(served)) == 3


async def test_another_owner_takes_nothing_over(one: Webhook, served: Served) -> None:
    await one.place(pod_of(replica_set(served, 1)))
    await one.place(pod_of(("apps/v1", "ReplicaSet", "chat", "uid-of-an-earlier-one")))
    assert len(held(served)) == 2


async def test_a_dry_run_takes_nothing_over_and_asks_nobody(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    await one.place(pod_of(only))
    asked = len(served.server.requests)
    assert isinstance(await one.mutate(pod_of(only), dryRun=True), Admitted)
    assert len(served.server.requests) == asked
    assert set(held(served)) == {reservation_id(0)}


async def test_the_owner_is_asked_only_when_there_is_something_to_take_over(one: Webhook, served: Served) -> None:
    many = replica_set(served, 9)
    for _ in range(5):
        await one.place(pod_of(many))
    assert sum(map(is_owner_read, served.server.requests)) == 1, "not for the first, and once for a burst"


async def test_an_owner_that_was_scaled_up_is_asked_again(one: Webhook, served: Served) -> None:
    replica_set(served, 1)
    only = replica_set(served, 1)
    await one.place(pod_of(only))
    await one.place(pod_of(only))
    larger = replica_set(served, 3)
    for _ in range(2):
        await one.place(pod_of(larger))
    assert len(held(served)) == 3


async def test_where_the_owner_cannot_be_asked_the_pod_is_placed_all_the_same(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    await one.place(pod_of(only))
    served.server.fail(faults.respond(500), path="/replicasets")
    await one.place(pod_of(only))
    assert len(held(served)) == 2


async def test_an_attempt_that_fits_elsewhere_only_leaves_its_old_node(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    await one.place(pod_of(only))
    await one.place(pod_of(only).selecting(**{"kubernetes.io/hostname": "n2"}))
    assert held(served) == {reservation_id(1): "n2"}
    assert one.free_gb("n1") == (40,)


async def test_an_old_entry_that_cannot_be_ended_runs_out_by_itself(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    await one.place(pod_of(only))
    served.server.fail(faults.respond(500), method="PATCH", path="/n1/")
    await one.place(pod_of(only).selecting(**{"kubernetes.io/hostname": "n2"}))
    assert held(served) == {reservation_id(0): "n1", reservation_id(1): "n2"}


async def test_the_pod_of_an_entry_that_was_taken_over_is_refused(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    late = await one.place(pod_of(only))
    await one.place(pod_of(only))
    assert reason(await one.validate(late)) == "invalid_request"


async def test_an_entry_goes_to_one_of_two_attempts_of_different_processes(
    one: Webhook, other: Webhook, served: Served
) -> None:
    two = replica_set(served, 2)
    await one.place(pod_of(two))
    await one.place(pod_of(two))
    await other.ledger.refresh("n1")
    placed = await asyncio.gather(one.place(pod_of(two)), other.place(pod_of(two)))
    ids = {pod["metadata"]["labels"][names.RESERVATION] for pod in placed}
    assert len(ids) == 2
    assert ids <= set(held(served))
    assert {pinned_node(pod["spec"]) for pod in placed} == {"n1"}
    taken = sum(gb for text in reservations(served.server.objects, "n1").values() for _, gb in decode(text).shares)
    assert taken == 6 * len(held(served))


async def test_what_is_stored_meanwhile_is_not_replaced(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    first = await one.place(pod_of(only, name="first"))

    async def store_it(_request: Any, serve: Any) -> Any:
        one.see_pod(first)
        return await serve(_request)

    served.server.fail(store_it, path="/pods")
    await one.place(pod_of(only))
    assert set(held(served)) == {reservation_id(0), reservation_id(1)}
    assert served.server.objects.get(place_of(paths.gpu_nodes("n1")))["status"]["summary"]["reservedGB"] == 12


async def test_side_by_side_the_first_attempt_of_another_process_is_the_one_that_failed(
    one: Webhook, other: Webhook, served: Served
) -> None:
    two = replica_set(served, 2)
    for _ in range(2):
        await other.place(pod_of(two))
        await one.ledger.refresh("n1")
    await one.place(pod_of(two))
    assert set(held(served)) == {reservation_id(101), reservation_id(0)}


async def test_tries_that_go_from_process_to_process_hold_no_more_than_is_wanted(
    one: Webhook, other: Webhook, served: Served
) -> None:
    three = replica_set(served, 3)
    for number in range(100):
        process = (one, other)[number % 2]
        await process.ledger.refresh("n1")
        await process.place(pod_of(three))
        assert len(held(served)) <= 3


async def test_side_by_side_the_first_attempt_of_ones_own_is_the_one_that_failed(one: Webhook, served: Served) -> None:
    two = replica_set(served, 2)
    await one.place(pod_of(two))  # fails
    await one.place(pod_of(two))
    await one.place(pod_of(two))
    assert set(held(served)) == {reservation_id(1), reservation_id(2)}


async def test_an_owner_that_is_gone_has_nothing_taken_over(one: Webhook, served: Served) -> None:
    only = replica_set(served, 1)
    await one.place(pod_of(only))
    await served.client.delete(paths.object_path("apps/v1", "ReplicaSet", "models", "chat"))
    await one.place(pod_of(only))
    assert len(held(served)) == 2


async def test_a_create_under_way_is_counted_and_not_replaced(one: Webhook, served: Served) -> None:
    two = replica_set(served, 2)
    await one.place(pod_of(two))
    await asyncio.gather(one.place(pod_of(two)), one.place(pod_of(two)))
    assert set(held(served)) == {reservation_id(1), reservation_id(2)}, "the failed attempt goes to one of the two"


async def test_the_number_of_owners_that_are_remembered_is_bounded(
    one: Webhook, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.take_over._REMEMBERED", 0)
    only = replica_set(served, 1)
    for _ in range(3):
        await one.place(pod_of(only))
    assert len(held(served)) == 1
