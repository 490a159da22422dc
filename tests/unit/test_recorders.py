"""What is counted where work is done: requests, writes to ledgers, queues, the controller's repairs and wakings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from controller.control_recorder import ControlRecorder
from shared.kube import paths
from shared.kube.errors import ApiError, Unavailable
from shared.kube.workqueue import WorkQueue
from shared.obs.recorders import LoopLag, QueueRecorder
from tests.builders import a_node
from tests.fakes import faults
from tests.fakes.serving import Served, eventually, serving
from tests.unit.admission import Webhook, gpu_node
from tests.unit.core_builders import entry
from tests.unit.keepers import a_keeper
from tests.unit.scraping import moved, value
from tests.unit.test_ledger_keeper import ID, OTHER, placed_pod

REQUESTS = "placement_api_requests_total"
WRITES = "placement_ledger_writes_total"


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


async def test_requests_are_counted_by_verb_and_by_how_they_end(served: Served) -> None:
    await served.client.list(paths.nodes())
    await served.client.create(paths.nodes(), {"metadata": {"name": "a"}})
    for status in (404, 409, 503):
        served.server.fail(faults.respond(status, "no"), method="PATCH")
        with pytest.raises(ApiError):
            await served.client.merge_patch(paths.nodes("a"), {})
    served.server.fail(faults.hang(), path="/silent")  # a request that was given up early may never have come
    with pytest.raises(Unavailable):
        await served.client.get(paths.nodes("silent"), timeout_s=0.05)
    served.server.fail(faults.respond(200, "[]"), method="GET")
    with pytest.raises(Unavailable):
        await served.client.get(paths.nodes("a"))
    assert moved(served.client.recorder, REQUESTS) == {
        ("GET", "2xx"): 1,
        ("POST", "2xx"): 1,
        ("PATCH", "404"): 1,
        ("PATCH", "409"): 1,
        ("PATCH", "503"): 1,
        ("GET", "Timeout"): 1,
        ("GET", "NotKubernetes"): 1,
    }
    seconds = moved(served.client.recorder, "placement_api_request_seconds_count")
    assert seconds == {("GET",): 3, ("POST",): 1, ("PATCH",): 3}


async def test_a_watch_counts_when_it_ends_and_has_no_latency(served: Served) -> None:
    served.server.fail(faults.respond(410, "old"), method="GET")
    stream = served.client.stream(paths.nodes(), {"watch": "true"}, read_timeout_s=5)
    with pytest.raises(ApiError):
        async with aclosing(stream) as events:
            await anext(events)
    assert moved(served.client.recorder, REQUESTS) == {("WATCH", "410"): 1}
    assert moved(served.client.recorder, "placement_api_request_seconds_count") == {}


async def test_a_write_to_a_ledger_counts_by_its_result(served: Served, process: Webhook) -> None:
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    await served.client.merge_patch(paths.gpu_nodes("t4"), {"spec": {"mode": "shared"}})
    await process.ledger.reserve("t4", OTHER, entry({0: 6}))
    served.server.fail(faults.respond(500, "broken"), method="PATCH")
    with pytest.raises(ApiError):
        await process.ledger.reserve("t4", "c" * 10, entry({0: 2}))
    await served.client.delete(paths.gpu_nodes("t4"))
    assert await process.ledger.reserve("t4", "d" * 10, entry({0: 2})) is False
    assert moved(process.ledger.recorder, WRITES) == {
        ("written",): 2,
        ("conflict",): 1,
        ("failed",): 1,
        ("missing",): 1,
    }
    assert value(process.ledger.recorder, "placement_ledger_write_seconds_count") == 5


async def test_a_burst_for_one_node_shows_as_entries_in_one_write(process: Webhook) -> None:
    ids = [letter * 10 for letter in "abcde"]
    await asyncio.gather(*(process.ledger.reserve("t4", each, entry({0: 1})) for each in ids))
    recorder = process.ledger.recorder
    assert value(recorder, "placement_ledger_write_entries_sum") == len(ids)
    assert value(recorder, "placement_ledger_write_entries_count") < len(ids)


async def test_a_queue_tells_what_waits_what_came_and_what_failed() -> None:
    recorder = QueueRecorder()
    queue: WorkQueue[str] = WorkQueue("nodes", recorder, first_retry_s=0.001)
    looked_at: list[str] = []
    go_on = asyncio.Event()

    async def work(key: str) -> None:
        looked_at.append(key)
        await go_on.wait()
        if looked_at.count(key) == 1:
            raise Unavailable(503, "Unavailable", "later")

    assert moved(recorder, "placement_queue_depth") == {}
    running = asyncio.create_task(queue.run(work))
    for key in ("a", "b", "b"):
        queue.add(key)
    await eventually(lambda: looked_at == ["a"])
    assert value(recorder, "placement_queue_depth", queue="nodes") == 1
    go_on.set()
    await eventually(lambda: sorted(looked_at) == ["a", "a", "b", "b"])
    await eventually(lambda: moved(recorder, "placement_queue_work_seconds_count") == {("nodes",): 4})
    assert moved(recorder, "placement_queue_retries_total") == {("nodes",): 2}
    assert moved(recorder, "placement_queue_adds_total") == {("nodes",): 4}
    assert moved(recorder, "placement_queue_wait_seconds_count") == {("nodes",): 4}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    queue.add("c")
    assert moved(recorder, "placement_queue_depth") == {}, "a queue that nobody serves any more is not shown"


async def test_two_queues_of_a_process_are_told_apart() -> None:
    recorder = QueueRecorder()
    first: WorkQueue[str] = WorkQueue("first", recorder)
    WorkQueue[str]("second", recorder)
    first.add("a")
    assert moved(recorder, "placement_queue_adds_total") == {("first",): 1}
    assert value(recorder, "placement_queue_adds_total", queue="second") == 0


async def test_a_repair_counts_by_its_cause(served: Served, process: Webhook) -> None:
    recorder = ControlRecorder()
    keeper = a_keeper(served.client, process.cluster, process.ledger, ttl_s=0.0, recorder=recorder)
    repairs = "placement_ledger_repairs_total"

    process.cluster.pod_upserted(placed_pod().facts())
    await keeper.reconcile("t4")
    assert moved(recorder, repairs) == {("pod_differs",): 1}

    process.cluster.pod_deleted(placed_pod().facts().key)
    await keeper.reconcile("t4")
    assert moved(recorder, repairs) == {("pod_differs",): 1, ("pod_gone",): 1}

    await process.ledger.reserve("t4", OTHER, entry({0: 6}))
    await keeper.reconcile("t4")
    assert moved(recorder, repairs) == {("pod_differs",): 1, ("pod_gone",): 1, ("no_pod",): 1}

    path = paths.status_of(paths.gpu_nodes("t4"))
    await served.client.merge_patch(path, {"status": {"reservations": {"e" * 10: "nonsense"}}})
    await process.ledger.refresh("t4")
    await keeper.reconcile("t4")
    assert value(recorder, repairs, cause="unreadable") == 1


async def test_a_node_that_needs_no_repair_counts_nothing(served: Served, process: Webhook) -> None:
    recorder = ControlRecorder()
    keeper = a_keeper(served.client, process.cluster, process.ledger, ttl_s=1000.0, recorder=recorder)
    await process.ledger.reserve("t4", ID, entry({0: 6}))
    await keeper.reconcile("t4")
    assert moved(recorder, "placement_ledger_repairs_total") == {}


async def test_a_loop_that_was_held_up_shows_it() -> None:
    lag = LoopLag()
    running = asyncio.create_task(lag.run())
    await asyncio.sleep(0)
    time.sleep(1.25)  # noqa: ASYNC251 - holding the loop up is what is tried
    await eventually(lambda: value(lag, "placement_event_loop_lag_seconds_count") == 1)
    assert value(lag, "placement_event_loop_lag_seconds_sum") > 0.2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
