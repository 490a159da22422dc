"""Writes to a node's ledger: compare-and-swap, and what happens when they meet others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from shared.core.ledger import Entry
from shared.kube import paths
from shared.kube.errors import Conflict, Unavailable
from shared.kube.gpunodes import GpuNode
from tests.builders import a_node
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.serving import Served, eventually, serving
from tests.unit.admission import Webhook, gpu_node, reservations
from tests.unit.core_builders import entry, holder

ONE, TWO, THREE = "aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"
STATUS = place_of(paths.status_of(paths.gpu_nodes("t4")))


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


@pytest.fixture
async def other(served: Served, process: Webhook) -> Webhook:
    """Another process that saw the same."""
    other = Webhook(served)
    await other.see_stored(a_node("t4"))
    return other


def status(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = served.server.objects.get(place_of(paths.gpu_nodes("t4")))["status"]
    return found


def write_status(served: Served, **fields: Any) -> None:
    """A write by somebody else, which no process has seen yet."""
    served.server.objects.update(STATUS, lambda old: {**old, "status": {**old["status"], **fields}})


def patches(served: Served) -> int:
    return sum(each.startswith("PATCH") for each in served.server.requests)


async def test_an_entry_is_recorded_with_the_sums_in_the_same_write(process: Webhook, served: Served) -> None:
    assert await process.ledger.reserve("t4", ONE, entry({0: 6}))
    assert reservations(served.server.objects, "t4") == {ONE: entry({0: 6}).encode()}
    assert status(served)["summary"] == {
        "budgetGB": 16,
        "reservedGB": 6,
        "freeGB": 10,
        "largestFreeGB": 10,
        "cards": "0: 6/16",
    }
    assert patches(served) == 1
    assert process.free_gb("t4") == (10,)


async def test_nothing_is_kept_of_a_node_after_a_write(process: Webhook) -> None:
    assert all(await asyncio.gather(*(process.ledger.reserve("t4", id_, entry({0: 1})) for id_ in (ONE, TWO, THREE))))
    assert not await process.ledger.reserve("no-node", ONE, entry({0: 1}))
    assert len(process.ledger._locks) == len(process.ledger._waiting) == 0


async def test_cards_and_entries_of_others_stay(process: Webhook, served: Served) -> None:
    cards = status(served)["cards"]
    await process.ledger.reserve("t4", ONE, entry({0: 6}))
    await process.ledger.reserve("t4", TWO, entry({0: 6}))
    assert set(reservations(served.server.objects, "t4")) == {ONE, TWO}
    assert status(served)["cards"] == cards


@pytest.mark.parametrize("node", [pytest.param("t4", id="no-room"), pytest.param("elsewhere", id="no-such-node")])
async def test_what_has_no_room_is_not_written(process: Webhook, served: Served, node: str) -> None:
    assert not await process.ledger.reserve(node, ONE, entry({0: 17}))
    assert patches(served) == 0


async def test_ones_own_hold_does_not_stand_in_ones_way(process: Webhook) -> None:
    process.cluster.hold(ONE, holder("promised", {0: 16}, node="t4"))
    assert await process.ledger.reserve("t4", ONE, entry({0: 16}))


async def test_the_hold_of_another_does(process: Webhook) -> None:
    process.cluster.hold(TWO, holder("promised", {0: 16}, node="t4"))
    assert not await process.ledger.reserve("t4", ONE, entry({0: 16}))


async def test_after_a_conflict_it_writes_on_top_of_what_the_other_wrote(
    process: Webhook, other: Webhook, served: Served
) -> None:
    await other.ledger.reserve("t4", TWO, entry({0: 10}))
    assert await process.ledger.reserve("t4", ONE, entry({0: 6}))
    assert set(reservations(served.server.objects, "t4")) == {ONE, TWO}
    assert status(served)["summary"]["reservedGB"] == 16
    assert process.free_gb("t4") == (0,)


async def test_after_a_conflict_that_took_the_room_it_is_not_written(
    process: Webhook, other: Webhook, served: Served
) -> None:
    await other.ledger.reserve("t4", TWO, entry({0: 11}))
    assert not await process.ledger.reserve("t4", ONE, entry({0: 6}))
    assert set(reservations(served.server.objects, "t4")) == {TWO}


async def test_an_entry_that_was_written_though_the_answer_is_a_conflict_is_recorded(
    process: Webhook, served: Served
) -> None:
    """As when an API server tries a write of its own again that has arrived."""

    async def late(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        await proceed(request)
        return web.Response(status=409)

    served.server.fail(late, method="PATCH")
    assert await process.ledger.reserve("t4", ONE, entry({0: 12}))
    assert set(reservations(served.server.objects, "t4")) == {ONE}
    assert patches(served) == 1


async def test_cards_that_are_gone_are_forgotten(process: Webhook, served: Served) -> None:
    await served.client.delete(paths.gpu_nodes("t4"))
    assert not await process.ledger.reserve("t4", ONE, entry({0: 6}))
    assert process.cluster.gpu_node("t4") is None


async def test_cards_that_vanish_between_a_conflict_and_the_read_are_forgotten(
    process: Webhook, served: Served
) -> None:
    served.server.fail(faults.respond(409, '{"reason":"Conflict"}'), method="PATCH")
    await served.client.delete(paths.gpu_nodes("t4"))
    assert not await process.ledger.reserve("t4", ONE, entry({0: 6}))
    assert process.cluster.gpu_node("t4") is None


async def test_an_error_is_the_callers_to_deal_with(process: Webhook, served: Served) -> None:
    served.server.fail(faults.respond(500, "?"), method="PATCH")
    with pytest.raises(Unavailable):
        await process.ledger.reserve("t4", ONE, entry({0: 6}))
    assert await process.ledger.reserve("t4", ONE, entry({0: 6}))


async def test_what_waits_for_one_node_goes_out_in_one_write(process: Webhook, served: Served) -> None:
    ids = [f"aaaaaaaaa{letter}" for letter in "abcdefgh"]
    written = await asyncio.gather(*(process.ledger.reserve("t4", each, entry({0: 2})) for each in ids))
    assert all(written)
    assert set(reservations(served.server.objects, "t4")) == set(ids)
    assert patches(served) == 2, "the first at once, the others while it was under way"


async def test_of_what_waits_only_as_much_is_written_as_there_is_room_for(process: Webhook, served: Served) -> None:
    ids = [f"aaaaaaaaa{letter}" for letter in "abcdefgh"]
    written = await asyncio.gather(*(process.ledger.reserve("t4", each, entry({0: 5})) for each in ids))
    assert written == [True] * 3 + [False] * 5
    assert status(served)["summary"]["reservedGB"] == 15


async def test_a_wish_whose_caller_gave_up_is_not_written(process: Webhook, served: Served) -> None:
    go_on = asyncio.Event()
    served.server.fail(faults.hold(go_on), method="PATCH")
    first = asyncio.create_task(process.ledger.reserve("t4", ONE, entry({0: 2})))
    await eventually(lambda: patches(served) == 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await process.ledger.reserve("t4", TWO, entry({0: 2}))
    go_on.set()
    assert await first
    assert await process.ledger.reserve("t4", "cccccccccc", entry({0: 2}))
    assert set(reservations(served.server.objects, "t4")) == {ONE, "cccccccccc"}


async def test_when_the_one_that_writes_runs_out_of_time_the_others_are_written_all_the_same(
    process: Webhook, served: Served
) -> None:
    go_on = asyncio.Event()
    served.server.fail(faults.hold(go_on), method="PATCH")
    first = asyncio.create_task(process.ledger.reserve("t4", "cccccccccc", entry({0: 1})))
    await eventually(lambda: patches(served) == 1)
    served.server.fail(faults.hang(), method="PATCH")
    gives_up = asyncio.create_task(process.ledger.reserve("t4", ONE, entry({0: 2})))
    stays = asyncio.create_task(process.ledger.reserve("t4", TWO, entry({0: 2})))
    await asyncio.sleep(0)
    go_on.set()
    assert await first
    await eventually(lambda: patches(served) == 2)
    gives_up.cancel()
    assert await stays
    assert TWO in reservations(served.server.objects, "t4")


async def test_a_wish_whose_caller_gave_up_during_a_write_is_not_written_by_the_next(
    process: Webhook, served: Served
) -> None:
    go_on = asyncio.Event()
    served.server.fail(faults.hold(go_on), method="PATCH")
    first = asyncio.create_task(process.ledger.reserve("t4", "dddddddddd", entry({0: 1})))
    await eventually(lambda: patches(served) == 1)
    served.server.fail(faults.hang(), method="PATCH")
    writes = asyncio.create_task(process.ledger.reserve("t4", ONE, entry({0: 2})))
    with_it = asyncio.create_task(process.ledger.reserve("t4", TWO, entry({0: 12})))
    await asyncio.sleep(0)
    go_on.set()
    assert await first
    await eventually(lambda: patches(served) == 2)
    for gives_up in (with_it, writes):
        gives_up.cancel()
        await asyncio.wait({gives_up})
    assert await process.ledger.reserve("t4", THREE, entry({0: 6}))
    assert set(reservations(served.server.objects, "t4")) == {"dddddddddd", THREE}


async def test_a_wish_whose_caller_gave_up_during_a_write_is_not_written_after_a_conflict(
    process: Webhook, served: Served
) -> None:
    go_on, conflict = asyncio.Event(), asyncio.Event()
    served.server.fail(faults.hold(go_on), method="PATCH")
    first = asyncio.create_task(process.ledger.reserve("t4", THREE, entry({0: 1})))
    await eventually(lambda: patches(served) == 1)

    async def refuse(request: web.Request, _proceed: faults.Proceed) -> web.StreamResponse:
        await conflict.wait()
        return await faults.respond(409, "Conflict")(request, _proceed)

    served.server.fail(refuse, method="PATCH")
    stays = asyncio.create_task(process.ledger.reserve("t4", ONE, entry({0: 2})))
    gives_up = asyncio.create_task(process.ledger.reserve("t4", TWO, entry({0: 2})))
    await asyncio.sleep(0)
    go_on.set()
    assert await first
    await eventually(lambda: patches(served) == 2)
    gives_up.cancel()
    await asyncio.wait({gives_up})
    conflict.set()
    assert await stays
    assert set(reservations(served.server.objects, "t4")) == {ONE, THREE}


async def test_an_error_reaches_every_caller_of_the_write(process: Webhook, served: Served) -> None:
    served.server.fail(faults.respond(500, "?"), method="PATCH", times=2)
    writes = (process.ledger.reserve("t4", each, entry({0: 2})) for each in (ONE, TWO, "cccccccccc"))
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
    assert reservations(served.server.objects, "t4") == {}


async def test_processes_that_write_at_once_never_exceed_the_budget(
    process: Webhook, other: Webhook, served: Served
) -> None:
    ids = [f"aaaaaaaaa{letter}" for letter in "abcdefgh"]
    written = await asyncio.gather(
        *([process, other][number % 2].ledger.reserve("t4", each, entry({0: 3})) for number, each in enumerate(ids))
    )
    assert sum(written) == 5
    assert status(served)["summary"]["reservedGB"] == 15


async def test_amending_adds_corrects_and_drops(process: Webhook, served: Served) -> None:
    for each in (ONE, TWO):
        await process.ledger.reserve("t4", each, entry({0: 6}))
    third = "cccccccccc"
    await process.ledger.amend("t4", lambda _: {ONE: None, TWO: entry({0: 4}), third: entry({0: 1})})
    assert reservations(served.server.objects, "t4") == {
        TWO: entry({0: 4}).encode(),
        third: entry({0: 1}).encode(),
    }
    assert status(served)["summary"]["freeGB"] == 11


async def test_amending_writes_nothing_where_nothing_changes(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ONE, entry({0: 6}))
    await process.ledger.amend("t4", lambda _: {})
    assert patches(served) == 1


async def test_amending_mends_wrong_sums(process: Webhook, served: Served) -> None:
    write_status(served, summary={"freeGB": 99})
    await process.ledger.refresh("t4")
    await process.ledger.amend("t4", lambda _: {})
    assert status(served)["summary"]["freeGB"] == 16


async def test_only_amending_drops_entries_that_cannot_be_read(process: Webhook, served: Served) -> None:
    write_status(served, reservations={TWO: "not an entry"})
    await process.ledger.refresh("t4")
    await process.ledger.reserve("t4", ONE, entry({0: 6}))
    assert set(reservations(served.server.objects, "t4")) == {ONE, TWO}
    await process.ledger.amend("t4", lambda _: {})
    assert set(reservations(served.server.objects, "t4")) == {ONE}


async def test_amending_asks_again_with_the_newer_ledger_after_a_conflict(
    process: Webhook, other: Webhook, served: Served
) -> None:
    await other.ledger.reserve("t4", TWO, entry({0: 6}))
    seen: list[Mapping[str, Entry]] = []

    def drop_all(known: GpuNode) -> dict[str, Entry | None]:
        seen.append(known.ledger)
        return {ONE: entry({0: 1}), **dict.fromkeys(known.ledger)}

    await process.ledger.amend("t4", drop_all)
    assert [set(ledger) for ledger in seen] == [set(), {TWO}]
    assert set(reservations(served.server.objects, "t4")) == {ONE}


async def test_amending_a_node_without_cards_does_nothing(process: Webhook, served: Served) -> None:
    await process.ledger.amend("elsewhere", lambda _: {ONE: entry({0: 1})})
    assert patches(served) == 0
    await served.client.delete(paths.gpu_nodes("t4"))
    await process.ledger.amend("t4", lambda _: {ONE: entry({0: 1})})
    assert process.cluster.gpu_node("t4") is None


async def test_an_entry_takes_the_place_of_another_in_one_write(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ONE, entry({0: 12}))
    assert await process.ledger.reserve("t4", TWO, entry({0: 14}), replaces=ONE)
    assert reservations(served.server.objects, "t4") == {TWO: entry({0: 14}).encode()}
    assert status(served)["summary"]["reservedGB"] == 14
    assert patches(served) == 2


async def test_an_entry_that_another_process_has_taken_over_already_gives_no_room(
    process: Webhook, other: Webhook, served: Served
) -> None:
    await process.ledger.reserve("t4", ONE, entry({0: 12}))
    await other.ledger.refresh("t4")
    assert await other.ledger.reserve("t4", THREE, entry({0: 12}), replaces=ONE)
    assert not await process.ledger.reserve("t4", TWO, entry({0: 12}), replaces=ONE)
    assert set(reservations(served.server.objects, "t4")) == {THREE}


async def test_of_two_that_want_one_place_in_the_same_write_one_gets_it(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ONE, entry({0: 4}))
    both = (process.ledger.reserve("t4", each, entry({0: 4}), replaces=ONE) for each in (TWO, THREE))
    assert sorted(await asyncio.gather(*both)) == [False, True]
    assert len(reservations(served.server.objects, "t4")) == 1


async def test_the_room_of_a_replaced_entry_is_for_its_successor_alone(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ONE, entry({0: 12}))
    refused, stranger = await asyncio.gather(
        process.ledger.reserve("t4", TWO, entry({0: 12}), lambda: False, replaces=ONE),
        process.ledger.reserve("t4", THREE, entry({0: 12})),
    )
    assert (refused, stranger) == (False, False)
    assert set(reservations(served.server.objects, "t4")) == {ONE}


async def test_an_entry_whose_pod_has_come_is_not_replaced(process: Webhook) -> None:
    await process.ledger.reserve("t4", ONE, entry({0: 4}))
    process.cluster.pod_upserted(holder("late", {0: 4}, reservation=ONE, node="t4"))
    assert not await process.ledger.reserve("t4", TWO, entry({0: 4}), replaces=ONE)


async def test_an_entry_is_dropped_on_top_of_what_others_wrote(
    process: Webhook, other: Webhook, served: Served
) -> None:
    await process.ledger.reserve("t4", ONE, entry({0: 4}))
    await other.ledger.refresh("t4")
    await other.ledger.reserve("t4", TWO, entry({0: 4}))
    await process.ledger.drop("t4", ONE)
    await process.ledger.drop("t4", ONE)
    await process.ledger.drop("elsewhere", ONE)
    assert set(reservations(served.server.objects, "t4")) == {TWO}


async def test_a_drop_leaves_entries_that_it_cannot_read(process: Webhook, served: Served) -> None:
    """They may be of a newer version; only the controller tidies up."""
    await process.ledger.reserve("t4", ONE, entry({0: 4}))
    write_status(served, reservations={**reservations(served.server.objects, "t4"), TWO: "of a later form"})
    await process.ledger.refresh("t4")
    await process.ledger.drop("t4", ONE)
    assert reservations(served.server.objects, "t4") == {TWO: "of a later form"}


async def test_an_entry_whose_pod_has_come_is_not_dropped(process: Webhook, served: Served) -> None:
    await process.ledger.reserve("t4", ONE, entry({0: 4}))
    process.cluster.pod_upserted(holder("late", {0: 4}, reservation=ONE, node="t4"))
    await process.ledger.drop("t4", ONE)
    assert set(reservations(served.server.objects, "t4")) == {ONE}


async def test_amending_gives_up_where_no_answer_brings_the_picture_up_to_date(
    process: Webhook, served: Served
) -> None:
    served.server.fail(faults.respond(409, '{"reason":"Conflict"}'), method="PATCH", times=1000)
    with pytest.raises(Conflict):
        await process.ledger.amend("t4", lambda _known: {ONE: entry({0: 2})})
    assert patches(served) < 50


@pytest.mark.parametrize("method", ["PATCH", "GET"])
async def test_that_an_object_was_gone_is_no_news_of_its_successor(
    process: Webhook, served: Served, method: str
) -> None:
    """The watch may have told of that before the answer comes."""

    async def late(_request: web.Request, _proceed: faults.Proceed) -> web.StreamResponse:
        known = process.cluster.gpu_node("t4")
        assert known is not None
        process.cluster.gpu_node_upserted(replace(known, uid="uid-successor"))
        return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)

    served.server.fail(late, method=method)
    if method == "GET":
        await process.ledger.refresh("t4")
    else:
        await process.ledger.amend("t4", lambda _known: {ONE: entry({0: 2})})
    assert process.cluster.gpu_node("t4") is not None
