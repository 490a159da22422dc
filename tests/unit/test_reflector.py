"""A reflector's store becomes what the server has, whatever happens on the way, and consumers hear of each change."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from shared.kube import paths
from shared.kube.client import Json
from shared.kube.reflector import Pace, Reflector
from tests.fakes import faults
from tests.fakes.api import merged, place_of
from tests.fakes.objects import ObjectStore
from tests.fakes.selectors import Selector
from tests.fakes.serving import Served, eventually, in_time, serving

FAST = Pace(watch_s=60, grace_s=0.1, relist_s=600, first_retry_s=0.005, longest_retry_s=0.02)
NEVER_AGAIN = Pace(watch_s=60, relist_s=600, first_retry_s=600, longest_retry_s=600)
"""A retry under this pace comes after the test: what has been asked by then was asked without waiting."""


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


_ALL = Selector()


class Told:
    """Writes down what a reflector tells."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.syncs = 0

    def upserted(self, key: str, new: str, old: str | None) -> None:
        self.calls.append(f"{key}: {old} -> {new}")

    def deleted(self, key: str, old: str) -> None:
        self.calls.append(f"{key}: {old} -> gone")

    def synced(self) -> None:
        self.syncs += 1


def size(raw: Json) -> str:
    """The projection in these tests: one label."""
    return str(raw["metadata"]["labels"]["size"])


def put(objects: ObjectStore, name: str, **labels: str) -> None:
    """Creates a pod, or changes its labels."""
    place = place_of(paths.pods("team", name))
    pod = {"metadata": {"name": name, "labels": labels}}
    if any(raw["metadata"]["name"] == name for raw in objects.select(place, _ALL)):
        objects.update(place, lambda old: merged(old, pod))
    else:
        objects.create(place, pod)


def remove(objects: ObjectStore, name: str) -> None:
    objects.delete(place_of(paths.pods("team", name)), {})


def lists(served: Served) -> int:
    return sum("watch=true" not in line for line in served.server.requests)


def watches(served: Served) -> int:
    return sum("watch=true" in line for line in served.server.requests)


@asynccontextmanager
async def reflecting(
    served: Served,
    handler: Told,
    *,
    project: Callable[[Json], str] = size,
    pace: Pace = FAST,
    label_selector: str = "",
    optional: bool = False,
) -> AsyncIterator[Reflector[str]]:
    """A reflector of all pods that runs while the block does."""
    reflector = Reflector(
        served.client, paths.pods(), project, handler, label_selector=label_selector, optional=optional, pace=pace
    )
    running = asyncio.create_task(reflector.run())
    try:
        yield reflector
    finally:
        assert not running.done()
        running.cancel()
        await asyncio.wait({running})


@pytest.mark.parametrize("event", ["ADDED", "MODIFIED", "DELETED"])
async def test_late_word_of_an_earlier_object_changes_nothing(served: Served, event: str) -> None:
    objects = served.server.objects
    put(objects, "a", size="1")
    earlier = objects.get(place_of(paths.pods("team", "a")))
    told = Told()
    async with reflecting(served, told) as reflector:
        await reflector.synced.wait()
        await eventually(lambda: watches(served) == 1)
        remove(objects, "a")
        put(objects, "a", size="2")
        objects.tell(place_of(paths.pods("team")), event, earlier)
        put(objects, "b", size="1")
        await eventually(lambda: "team/b" in reflector.store)
        assert reflector.store == {"team/a": "2", "team/b": "1"}
    assert told.calls == [
        "team/a: None -> 1",
        "team/a: 1 -> gone",
        "team/a: None -> 2",
        "team/b: None -> 1",
    ]


async def test_the_end_of_an_object_is_not_that_of_its_successor(served: Served) -> None:
    objects = served.server.objects
    put(objects, "a", size="1")
    earlier = objects.get(place_of(paths.pods("team", "a")))
    remove(objects, "a")
    put(objects, "a", size="2")
    async with reflecting(served, Told()) as reflector:
        await reflector.synced.wait()
        await eventually(lambda: watches(served) == 1)
        newest = {**earlier["metadata"], "resourceVersion": str(objects.version + 1)}
        objects.tell(place_of(paths.pods("team")), "DELETED", {**earlier, "metadata": newest})
        put(objects, "b", size="1")
        await eventually(lambda: "team/b" in reflector.store)
        assert reflector.store == {"team/a": "2", "team/b": "1"}


async def test_list_and_watch_tell_every_change_in_order(served: Served) -> None:
    put(served.server.objects, "a", size="1")
    told = Told()
    async with reflecting(served, told) as reflector:
        await reflector.synced.wait()
        assert reflector.store == {"team/a": "1"}
        await eventually(lambda: watches(served) == 1)
        put(served.server.objects, "b", size="1")
        put(served.server.objects, "a", size="2")
        remove(served.server.objects, "b")
        await eventually(lambda: len(told.calls) == 4)
    assert told.calls == ["team/a: None -> 1", "team/b: None -> 1", "team/a: 1 -> 2", "team/b: 1 -> gone"]
    assert told.syncs == 1


async def test_a_change_outside_the_projection_is_not_told(served: Served) -> None:
    told = Told()
    async with reflecting(served, told):
        put(served.server.objects, "a", size="1")
        put(served.server.objects, "a", size="1", other="x")
        put(served.server.objects, "b", size="1")
        await eventually(lambda: "team/b: None -> 1" in told.calls)
    assert told.calls == ["team/a: None -> 1", "team/b: None -> 1"]


def error_event(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "because"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


@pytest.mark.parametrize(
    ("fault", "relisted"),
    [
        pytest.param(faults.drop(), False, id="connection-refused"),
        pytest.param(faults.stream(), False, id="end-at-once"),
        pytest.param(faults.stream(cut=True), False, id="cut-off-at-once"),
        pytest.param(faults.stream(b'{"type":"ADDED","obj'), False, id="end-in-the-middle-of-an-event"),
        pytest.param(faults.stream(b'{"type":"ADDED","obj', cut=True), False, id="cut-off-in-an-event"),
        pytest.param(faults.stream(b"<html>\n"), False, id="garbage-line"),
        pytest.param(faults.stream(b'{"type":"ADDED"}\n'), False, id="event-without-object"),
        pytest.param(faults.stream(b'{"type":"ADDED","object":{}}\n'), False, id="object-without-version"),
        pytest.param(faults.stream(b'{"type":"?","object":{"metadata":{"resourceVersion":"9"}}}\n'), False, id="type"),
        pytest.param(faults.respond(502, "Bad Gateway"), False, id="text-502"),
        pytest.param(faults.respond(200, "Welcome"), False, id="text-200"),
        pytest.param(faults.respond(429, "", {"Retry-After": "0"}), False, id="throttled"),
        pytest.param(faults.stream(error_event(500, "InternalError")), False, id="error-event"),
        pytest.param(faults.stream(b'{"type":"ADDED","object":{"metadata":[1]}}\n'), True, id="object-of-nobody"),
        pytest.param(faults.respond(410, '{"reason":"Expired"}'), True, id="version-too-old-by-status"),
        pytest.param(faults.stream(error_event(410, "Expired")), True, id="version-too-old-by-event"),
        pytest.param(faults.respond(400, '{"reason":"BadRequest"}'), True, id="version-not-understood"),
        pytest.param(faults.respond(504, '{"reason":"Timeout"}'), True, id="version-not-reached-yet"),
        pytest.param(faults.respond(403, '{"reason":"Forbidden"}'), True, id="right-taken-away"),
    ],
)
async def test_no_change_is_lost_when_a_watch_goes_wrong(served: Served, fault: faults.Act, relisted: bool) -> None:
    objects = served.server.objects
    put(objects, "changed", size="1")
    put(objects, "removed", size="1")

    async def meanwhile(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        put(objects, "added", size="1")
        put(objects, "changed", size="2")
        remove(objects, "removed")
        return await fault(request, proceed)

    served.server.fail(fault, watch=True)
    served.server.fail(meanwhile, watch=True)
    told = Told()
    async with reflecting(served, told) as reflector:
        await eventually(lambda: len(told.calls) == 5)
        assert reflector.store == {"team/added": "1", "team/changed": "2"}
    assert sorted(told.calls[2:]) == ["team/added: None -> 1", "team/changed: 1 -> 2", "team/removed: 1 -> gone"]
    assert (lists(served) > 1) == relisted


async def test_a_half_open_connection_is_noticed_and_replaced(served: Served, forward: Callable[[float], None]) -> None:
    served.server.fail(faults.stream(silent=True), watch=True)
    told = Told()
    async with reflecting(served, told):
        await eventually(lambda: watches(served) == 1)
        put(served.server.objects, "a", size="1")
        await in_time(lambda: told.calls == ["team/a: None -> 1"], forward)
    assert watches(served) > 1


async def test_after_a_compaction_the_difference_is_found_by_a_list(served: Served) -> None:
    objects = served.server.objects
    put(objects, "kept", size="1")
    put(objects, "removed", size="1")

    async def compact(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        remove(objects, "removed")
        put(objects, "added", size="1")
        objects.forget_history()
        return await proceed(request)

    served.server.fail(compact, watch=True)
    told = Told()
    async with reflecting(served, told):
        await eventually(lambda: told.syncs == 2)
    assert told.calls[2:] == ["team/added: None -> 1", "team/removed: 1 -> gone"]


async def test_after_a_restore_from_a_backup_every_object_is_told_anew(
    served: Served, forward: Callable[[float], None]
) -> None:
    """What is known of one that the backup has is newer than what there is: its version says so."""
    objects = served.server.objects
    put(objects, "kept", size="1")
    backup = objects.backup()
    put(objects, "kept", size="2")
    put(objects, "lost", size="1")
    told = Told()
    async with reflecting(served, told):
        await eventually(lambda: told.syncs == 1)
        told.calls.clear()
        objects.restore(backup)
        served.server.fail(faults.respond(504), watch=True)
        await in_time(lambda: told.syncs == 2, forward)
    assert told.calls == ["team/kept: 2 -> gone", "team/kept: None -> 1", "team/lost: 1 -> gone"]


async def test_a_watch_that_brought_us_forward_and_a_position_grown_too_old_cost_no_wait(served: Served) -> None:
    async def end_after_one_event(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        put(served.server.objects, "a", size="1")
        (pod,) = served.server.objects.select(place_of(paths.pods()), _ALL)
        return await faults.stream(json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n")(request, proceed)

    served.server.fail(end_after_one_event, watch=True)
    served.server.fail(faults.respond(410, '{"reason":"Expired"}'), watch=True)
    told = Told()
    async with reflecting(served, told, pace=NEVER_AGAIN):
        await eventually(lambda: watches(served) == 3)
    assert lists(served) == 2
    assert told.calls == ["team/a: None -> 1"]


async def test_a_server_that_is_away_for_a_while_is_caught_up_with(served: Served) -> None:
    told = Told()
    async with reflecting(served, told) as reflector:
        await reflector.synced.wait()
        await served.server.stop()
        put(served.server.objects, "a", size="1")
        await asyncio.sleep(0.1)
        assert told.calls == []
        await served.server.start()
        await eventually(lambda: told.calls == ["team/a: None -> 1"])


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(faults.respond(503, "starting"), id="server-starting"),
        pytest.param(faults.respond(404, "404 page not found"), id="kind-not-installed-yet"),
        pytest.param(faults.respond(200, "{}"), id="no-list"),
        pytest.param(faults.respond(200, '{"metadata":{"resourceVersion":"1"},"items":[1]}'), id="list-of-numbers"),
        pytest.param(faults.respond(200, '{"metadata":"x","items":{}}'), id="list-of-nothing-known"),
    ],
)
async def test_lists_that_fail_are_repeated_until_one_works(served: Served, fault: faults.Act) -> None:
    put(served.server.objects, "a", size="1")
    served.server.fail(fault, times=4)
    told = Told()
    async with reflecting(served, told) as reflector:
        await reflector.synced.wait()
    assert lists(served) == 5
    assert told.calls == ["team/a: None -> 1"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(faults.stream(), id="watches-that-end-at-once"),
        pytest.param(faults.respond(502, "Bad Gateway"), id="text-502"),
        pytest.param(faults.stream(error_event(410, "Expired")), id="every-version-too-old"),
        pytest.param(faults.stream(b"<html>\n" * 100), id="garbage"),
    ],
)
async def test_a_server_in_trouble_is_not_asked_in_a_tight_loop(served: Served, fault: faults.Act) -> None:
    served.server.fail(fault, times=1000, watch=True)
    async with reflecting(served, Told(), pace=NEVER_AGAIN):
        await eventually(lambda: watches(served) == 1)
        await asyncio.sleep(0.1)
    assert (lists(served), watches(served)) == (1, 1)


async def test_a_throttled_list_waits_as_long_as_the_server_asks(served: Served) -> None:
    served.server.fail(faults.respond(429, "", {"Retry-After": "600"}))
    async with reflecting(served, Told()):
        await eventually(lambda: lists(served) == 1)
        await asyncio.sleep(0.1)
    assert lists(served) == 1


async def test_a_full_list_now_and_then_repairs_what_a_watch_missed(served: Served) -> None:
    async def miss(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        put(served.server.objects, "a", size="1")
        bookmark = {"metadata": {"resourceVersion": str(served.server.objects.version)}}
        line = json.dumps({"type": "BOOKMARK", "object": bookmark}).encode() + b"\n"
        return await faults.stream(line)(request, proceed)

    served.server.fail(miss, watch=True)
    told = Told()
    async with reflecting(served, told, pace=Pace(watch_s=1, relist_s=0, first_retry_s=0.005)):
        await eventually(lambda: told.calls == ["team/a: None -> 1"])


async def test_a_bookmark_moves_the_place_where_the_next_watch_begins(served: Served) -> None:
    served.server.fail(
        faults.stream(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"4711"}}}\n'), watch=True
    )
    async with reflecting(served, Told()):
        await eventually(lambda: watches(served) > 1)
    _, second, *_ = (line for line in served.server.requests if "watch=true" in line)
    assert "resourceVersion=4711" in second


async def test_an_object_that_cannot_be_understood_is_left_as_it_was(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    put(served.server.objects, "bad", other="x")
    put(served.server.objects, "good", size="1")
    put(served.server.objects, "spoilt", size="1")
    told = Told()
    async with reflecting(served, told) as reflector:
        await reflector.synced.wait()
        await eventually(lambda: watches(served) == 1)
        place = place_of(paths.pods("team", "spoilt"))
        served.server.objects.update(place, lambda old: merged(old, {"metadata": {"labels": {"size": None}}}))
        put(served.server.objects, "good", size="2")
        await eventually(lambda: len(told.calls) == 3)
        assert reflector.store == {"team/good": "2", "team/spoilt": "1"}
        remove(served.server.objects, "spoilt")
        await eventually(lambda: "team/spoilt: 1 -> gone" in told.calls)
    assert {record.getMessage() for record in caplog.records} >= {"object not understood"}


async def test_a_consumer_that_stumbles_over_one_object_hears_of_the_next(served: Served) -> None:
    class Stumbling(Told):
        def upserted(self, key: str, new: str, old: str | None) -> None:
            if key == "team/a":
                raise ZeroDivisionError
            super().upserted(key, new, old)

    put(served.server.objects, "a", size="1")
    put(served.server.objects, "b", size="1")
    told = Stumbling()
    async with reflecting(served, told) as reflector:
        await reflector.synced.wait()
    assert told.calls == ["team/b: None -> 1"]


async def test_an_object_replaced_under_its_name_is_told_as_gone_and_new(served: Served) -> None:
    objects = served.server.objects
    put(objects, "a", size="1")

    async def replace_and_compact(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        remove(objects, "a")
        put(objects, "a", size="1")
        objects.forget_history()
        return await proceed(request)

    served.server.fail(replace_and_compact, watch=True)
    told = Told()
    async with reflecting(served, told):
        await eventually(lambda: told.syncs == 2)
    assert told.calls == ["team/a: None -> 1", "team/a: 1 -> gone", "team/a: None -> 1"]


async def test_an_object_that_leaves_the_selection_is_told_as_gone(served: Served) -> None:
    put(served.server.objects, "a", size="1", app="llm")
    put(served.server.objects, "b", size="1")
    told = Told()
    async with reflecting(served, told, label_selector="app=llm"):
        await eventually(lambda: watches(served) == 1)
        put(served.server.objects, "a", app="other")
        await eventually(lambda: len(told.calls) == 2)
    assert told.calls == ["team/a: None -> 1", "team/a: 1 -> gone"]


async def test_the_age_says_how_long_the_server_has_been_silent(served: Served) -> None:
    reflector = Reflector(served.client, paths.pods(), size, Told(), pace=FAST)
    assert reflector.age_s(0.0) == float("inf")
    served.server.fail(faults.respond(503), times=3)
    running = asyncio.create_task(reflector.run())
    await eventually(lambda: lists(served) == 2)
    assert reflector.age_s(0.0) == float("inf")
    await reflector.synced.wait()
    first = reflector.last_contact
    assert first is not None
    assert reflector.age_s(first + 7.0) == 7.0
    await eventually(lambda: (reflector.last_contact or 0.0) > first)
    running.cancel()
    await asyncio.wait({running})


async def test_an_optional_collection_that_may_not_be_seen_counts_as_empty_until_it_may(served: Served) -> None:
    put(served.server.objects, "one", size="s")
    served.server.fail(faults.respond(403))
    quick = replace(FAST, watch_s=0.05)
    async with reflecting(served, Told(), pace=quick, optional=True) as reflector:
        await reflector.synced.wait()
        assert not reflector.store
        assert reflector.age_s(time.monotonic()) < 60
        await eventually(lambda: "team/one" in reflector.store)


async def test_any_other_collection_is_waited_for(served: Served) -> None:
    served.server.fail(faults.respond(403), times=1000)
    async with reflecting(served, Told()) as reflector:
        await eventually(lambda: lists(served) > 3)
        assert not reflector.synced.is_set()
