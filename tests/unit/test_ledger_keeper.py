"""The keeper of the ledgers: equal to the pods, and never quicker than the API server's own word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controller.ledger_keeper import LedgerKeeper
from shared.api import names
from shared.kube import paths
from shared.kube.errors import Unavailable
from shared.kube.watches import Watches
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.serving import Served, eventually, serving
from tests.unit.admission import Webhook, gpu_node, patched, reservations, store
from tests.unit.core_builders import entry
from tests.unit.keepers import a_keeper

ID, OTHER = "aaaaaaaaaa", "bbbbbbbbbb"
LONG_S = 1000.0


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def process(served: Served) -> Webhook:
    """A process that sees a node with a card of 16 GB."""
    process = Webhook(served)
    await process.see(a_node("t4"), gpu_node("t4", 16))
    return process


def keeper(served: Served, process: Webhook, ttl_s: float = LONG_S, kept_s: float = LONG_S) -> LedgerKeeper:
    return a_keeper(served.client, process.cluster, process.ledger, ttl_s=ttl_s, kept_s=kept_s)


def placed_pod(reservation: str = ID, gb: str = "6") -> PodBuilder:
    resource = {names.card_resource(0): gb}
    return a_pod().limited_to(resource).requesting(resource).label(names.RESERVATION, reservation).on("t4")


def ledger(served: Served) -> set[str]:
    return set(reservations(served.server.objects, "t4"))


def lists(served: Served) -> int:
    return sum(each.startswith(f"GET {paths.pods('models')}?") for each in served.server.requests)


async def test_a_pod_without_an_entry_gets_it_back(process: Webhook, served: Served) -> None:
    process.cluster.pod_upserted(placed_pod().facts())
    await keeper(served, process).reconcile("t4")
    assert ledger(served) == {ID}
    assert process.free_gb("t4") == (10,)


@pytest.mark.parametrize("is_there", [True, False])
async def test_where_others_have_the_room_only_a_pod_that_is_there_gets_its_entry_back(
    process: Webhook, served: Served, is_there: bool
) -> None:
    await process.ledger.reserve("t4", OTHER, entry({0: 12}))
    process.cluster.pod_upserted(placed_pod().facts())
    if is_there:
        store(served.server.objects, paths.pods("models"), placed_pod().raw())
    await keeper(served, process).reconcile("t4")
    assert lists(served) == 1
    assert ledger(served) == ({ID, OTHER} if is_there else {OTHER})


async def test_that_it_was_there_does_not_count_for_a_ledger_that_another_has_written_since(
    process: Webhook, served: Served
) -> None:
    await process.ledger.reserve("t4", OTHER, entry({0: 12}))
    process.cluster.pod_upserted(placed_pod().facts())
    stored = store(served.server.objects, paths.pods("models"), placed_pod().raw())
    webhook = Webhook(served, first_id=7)
    await webhook.see_stored(a_node("t4"))

    async def leave(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        await served.client.delete(paths.pods("models", stored["metadata"]["name"]))
        await webhook.ledger.reserve("t4", "cccccccccc", entry({0: 4}))
        return await proceed(request)

    served.server.fail(leave, times=1, method="PATCH")
    await keeper(served, process).reconcile("t4")
    assert ledger(served) == {OTHER, "cccccccccc"}


async def test_an_entry_whose_pod_is_gone_is_dropped_without_asking(process: Webhook, served: Served) -> None:
    watching = keeper(served, process)
    process.cluster.pod_upserted(placed_pod().facts())
    await watching.reconcile("t4")
    process.cluster.pod_deleted(placed_pod().facts().key)
    await watching.reconcile("t4")
    assert ledger(served) == set()
    assert lists(served) == 0


async def test_the_entry_of_a_pod_that_came_and_went_between_two_looks_is_dropped_at_once(
    process: Webhook, served: Served
) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    process.cluster.pod_upserted(placed_pod().facts())
    process.cluster.pod_deleted(placed_pod().facts().key)
    await keeper(served, process).reconcile("t4")
    assert ledger(served) == set()
    assert lists(served) == 0


async def test_a_young_entry_is_left_alone(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    await keeper(served, process).reconcile("t4")
    assert ledger(served) == {ID}


async def test_an_overdue_entry_is_dropped_once_the_server_knows_no_pod(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    await keeper(served, process, ttl_s=0).reconcile("t4")
    assert lists(served) == 1
    assert ledger(served) == set()


async def test_an_overdue_entry_whose_pod_the_watch_has_missed_stays(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    await process.ledger.reserve("t4", OTHER, entry({0: 6}))
    store(served.server.objects, paths.pods("models"), placed_pod().raw())
    await keeper(served, process, ttl_s=0).reconcile("t4")
    assert ledger(served) == {ID}


async def test_the_entry_of_a_pod_of_which_the_watch_never_tells_goes_soon_after_it(
    process: Webhook, served: Served
) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    store(served.server.objects, paths.pods("models"), placed_pod().raw())
    keeping = asyncio.create_task(keeper(served, process, ttl_s=0).run())
    await eventually(lambda: lists(served) == 1)
    await served.client.delete(paths.pods("models", "pod"))
    await eventually(lambda: ledger(served) == set(), within_s=20.0)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_does_not_keep_an_overdue_entry(process: Webhook, served: Served, phase: str) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    store(served.server.objects, paths.pods("models"), placed_pod().in_phase(phase).raw())
    await keeper(served, process, ttl_s=0).reconcile("t4")
    assert ledger(served) == set()


@pytest.mark.parametrize(
    ("namespace", "copy"),
    [
        pytest.param("backup", placed_pod(), id="in-another-namespace"),
        pytest.param("models", placed_pod().on("other"), id="on-another-node"),
        pytest.param("models", a_pod().label(names.RESERVATION, ID).on("t4"), id="without-a-share"),
        pytest.param("models", a_pod().label(names.RESERVATION, ID), id="on-no-node"),
    ],
)
async def test_a_copy_that_takes_nothing_by_a_reservation_does_not_keep_it(
    process: Webhook, served: Served, namespace: str, copy: PodBuilder
) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    store(served.server.objects, paths.pods(namespace), copy.raw())
    await keeper(served, process, ttl_s=0).reconcile("t4")
    assert ledger(served) == set()


async def test_a_pod_that_is_pinned_and_not_bound_yet_keeps_an_overdue_entry(process: Webhook, served: Served) -> None:
    asking = a_pod().annotated(names.VRAM, "6")
    placed = patched(asking, await process.mutate(asking))
    store(served.server.objects, paths.pods("models"), placed)
    controller = Webhook(served)  # another process: it holds nothing, and its watch is late
    await controller.see_stored(a_node("t4"))
    await keeper(served, controller, ttl_s=0).reconcile("t4")
    assert ledger(served) == {placed["metadata"]["labels"][names.RESERVATION]}
    assert lists(served) == 1


async def test_a_pod_that_cannot_be_read_keeps_an_overdue_entry(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    store(served.server.objects, paths.pods("models"), placed_pod(gb="six").raw())
    await keeper(served, process, ttl_s=0).reconcile("t4")
    assert ledger(served) == {ID}


async def test_an_overdue_entry_stays_while_the_server_cannot_be_asked(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    served.server.fail(faults.respond(503, "?"), method="GET")
    with pytest.raises(Unavailable):
        await keeper(served, process, ttl_s=0).reconcile("t4")
    assert ledger(served) == {ID}


async def test_an_entry_that_cannot_be_looked_up_does_not_keep_another(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}, namespace="broken"))
    await process.ledger.reserve("t4", OTHER, entry({0: 6}))
    served.server.fail(faults.respond(503, "?"), method="GET", path="/namespaces/broken")
    with pytest.raises(Unavailable):
        await keeper(served, process, ttl_s=0).reconcile("t4")
    assert ledger(served) == {ID}


async def test_a_pod_that_arrives_while_the_server_is_asked_keeps_its_entry(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))

    async def arrive(request: Any, proceed: Any) -> Any:
        answer = await proceed(request)
        process.cluster.pod_upserted(placed_pod().facts())
        return answer

    served.server.fail(arrive, method="GET")
    await keeper(served, process, ttl_s=0).reconcile("t4")
    assert ledger(served) == {ID}


async def test_a_ledger_that_is_true_is_not_written(process: Webhook, served: Served) -> None:
    process.cluster.pod_upserted(placed_pod().facts())
    watching = keeper(served, process)
    await watching.reconcile("t4")
    before = len(served.server.requests)
    await watching.reconcile("t4")
    assert len(served.server.requests) == before


async def test_a_node_without_cards_has_no_ledger(process: Webhook, served: Served) -> None:
    before = len(served.server.requests)
    await keeper(served, process).reconcile("elsewhere")
    assert len(served.server.requests) == before


async def test_of_a_gpu_node_that_is_gone_nothing_is_remembered(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    watching = keeper(served, process)
    await watching.reconcile("t4")
    process.cluster.gpu_node_deleted("t4")
    await watching.reconcile("t4")
    assert watching._seen == {}


@pytest.mark.parametrize("label", [None, "", "kept-by-hand", "AAAAAAAAAA"])
async def test_a_pod_whose_id_was_taken_off_is_still_counted_in_the_columns(
    process: Webhook, served: Served, label: str | None
) -> None:
    process.cluster.pod_upserted(placed_pod().facts())
    keeping = keeper(served, process)
    await keeping.reconcile("t4")
    process.cluster.pod_upserted(replace(placed_pod().facts(), reservation=label))
    await keeping.reconcile("t4")
    summary = served.server.objects.get(place_of(paths.gpu_nodes("t4")))["status"]["summary"]
    assert ledger(served) == set(), "nobody could know whose it is"
    assert (summary["reservedGB"], summary["freeGB"], summary["cards"]) == (6, 10, "0: 6/16")
    process.cluster.pod_deleted(placed_pod().facts().key)
    await keeping.reconcile("t4")
    summary = served.server.objects.get(place_of(paths.gpu_nodes("t4")))["status"]["summary"]
    assert (summary["reservedGB"], summary["freeGB"]) == (0, 16)


@pytest.mark.parametrize("key", ["a" * 70, "Ünïcode key", "a,b in (c)", "by-hand"])
async def test_what_stands_under_no_id_is_dropped_at_once(process: Webhook, served: Served, key: str) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    both = {ID: entry({0: 6}).encode(), key: entry({0: 4}).encode()}
    await served.client.merge_patch(paths.status_of(paths.gpu_nodes("t4")), {"status": {"reservations": both}})
    await process.ledger.refresh("t4")
    await keeper(served, process).reconcile("t4")
    assert ledger(served) == {ID}
    assert process.free_gb("t4") == (10,)


async def test_running_it_follows_pods_as_they_come_and_go(process: Webhook, served: Served) -> None:
    broken = {"reservations": {"zzzzzzzzzz": "not an entry"}}
    served.server.objects.update(
        place_of(paths.status_of(paths.gpu_nodes("t4"))), lambda old: {**old, "status": {**old["status"], **broken}}
    )
    store(served.server.objects, paths.nodes(), a_node("t4").raw())
    watches = Watches(served.client, process.cluster, exclusive=False)
    watching = asyncio.create_task(watches.run())
    await watches.synced()
    keeping = asyncio.create_task(keeper(served, process).run())
    await eventually(lambda: ledger(served) == set())
    store(served.server.objects, paths.pods("models"), placed_pod().raw())
    await eventually(lambda: ledger(served) == {ID})
    await served.client.delete(paths.pods("models", "pod"))
    await eventually(lambda: ledger(served) == set())
    for task in (keeping, watching):
        task.cancel()
    await asyncio.gather(keeping, watching, return_exceptions=True)
    process.cluster.pod_upserted(placed_pod().facts())
    await asyncio.sleep(0)
    assert ledger(served) == set()
