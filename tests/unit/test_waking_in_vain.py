"""Waking those who wait behind an owner whose pods something else keeps from being created, and the cost of walks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from controller.waking import Waker
from shared.core.ledger import Entry, Mark, owner_hash
from shared.core.owners import OwnerRef
from tests.fakes import faults
from tests.fakes.serving import eventually
from tests.unit.controlling import Control, an_owner, controlling
from tests.unit.test_waking import template, waiting, waker, wakings, woken

OLDER: Final[dict[str, Any]] = {"since": "2026-11-30T08:00:00Z"}


@dataclass(slots=True)
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    """A node with one card of 16 GB."""
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        yield control


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def walks(one: Waker, clock: Clock, seconds: int) -> None:
    """A walk a second."""
    for _ in range(seconds):
        await one.walk()
        clock.now += 1.0


async def refuse_again(control: Control, owner: OwnerRef) -> None:
    await control.refuse(owner, owner, last="2026-11-30T10:00:05Z", **OLDER)


async def test_one_that_gets_no_pod_keeps_the_room_for_one_try_and_no_longer(control: Control, clock: Clock) -> None:
    over_quota = await waiting(control, "over-quota", "12", **OLDER)
    other = await waiting(control, "other", "12")
    one = waker(control, clock=clock)
    await walks(one, clock, 2)
    assert woken(control, over_quota, other) == ["over-quota"], "it has 2 s to try"
    await walks(one, clock, 1)
    assert woken(control, over_quota, other) == ["over-quota", "other"]


async def test_one_that_may_not_be_touched_keeps_the_room_no_longer_either(control: Control, clock: Clock) -> None:
    first = await waiting(control, "first", "12", **OLDER)
    other = await waiting(control, "other", "12")
    control.served.server.fail(faults.respond(422, '{"reason":"Invalid"}'), method="PATCH", path="first", times=9)
    await walks(waker(control, clock=clock), clock, 3)
    assert woken(control, first, other) == ["other"]


@pytest.mark.parametrize("status", [429, 500])
async def test_one_that_could_not_be_told_for_a_moment_has_its_turn_all_the_same(
    control: Control, clock: Clock, status: int
) -> None:
    first = await waiting(control, "first", "12", **OLDER)
    other = await waiting(control, "other", "12")
    control.served.server.fail(faults.respond(status, "?"), method="PATCH", path="first", times=3)
    one = waker(control, clock=clock)
    await walks(one, clock, 3)
    assert woken(control, first, other) == []
    await walks(one, clock, 2)
    assert woken(control, first, other) == ["first"]
    await walks(one, clock, 1)
    assert woken(control, first, other) == ["first", "other"]


async def test_one_that_may_not_be_read_is_tried_again_after_pauses_that_grow(control: Control, clock: Clock) -> None:
    owner = await waiting(control, "chat")
    forbidden = faults.respond(403, '{"reason":"Forbidden"}')
    control.served.server.fail(forbidden, method="GET", path="statefulsets/chat", times=1000)
    one = waker(control, clock=clock)
    await walks(one, clock, 200)
    tries = sum(
        each.startswith("GET") and each.endswith("statefulsets/chat") for each in control.served.server.requests
    )
    assert tries in {6, 7, 8}, "after pauses of 2, 4, 8, 16, 32 and 60 s"
    assert woken(control, owner) == []
    control.served.server.faults.clear()
    await walks(one, clock, 61)
    assert woken(control, owner) == ["chat"]


async def test_one_that_may_not_be_read_for_a_moment_is_woken_soon(control: Control, clock: Clock) -> None:
    owner = await waiting(control, "chat")
    control.served.server.fail(
        faults.respond(403, '{"reason":"Forbidden"}'), method="GET", path="statefulsets/chat", times=1
    )
    await walks(waker(control, clock=clock), clock, 3)
    assert woken(control, owner) == ["chat"]


async def test_one_that_can_never_be_told_gives_way(control: Control, clock: Clock) -> None:
    first = await waiting(control, "first", "12", **OLDER)
    other = await waiting(control, "other", "12")
    control.served.server.fail(faults.respond(500, "?"), method="PATCH", path="first", times=100)
    await walks(waker(control, clock=clock), clock, 14)
    assert woken(control, first, other) == ["other"]


async def test_one_that_was_woken_in_vain_gives_way_in_every_later_walk(control: Control, clock: Clock) -> None:
    over_quota = await waiting(control, "over-quota", "12", **OLDER)
    one = waker(control, clock=clock)
    await walks(one, clock, 200)
    tries = len(wakings(control))
    assert tries in {6, 7, 8}, "after pauses of 2, 4, 8, 16, 32 and 60 s"
    clock.now += 60.0
    other = await waiting(control, "other", "12")
    await one.walk()
    assert woken(control, over_quota, other) == ["over-quota", "other"]
    assert len(wakings(control)) == tries + 1, "for the other there was room, and then for it there was none"


async def test_of_several_that_were_woken_in_vain_none_takes_the_room_from_another(
    control: Control, clock: Clock
) -> None:
    await waiting(control, "over-quota", "12", **OLDER)
    await waiting(control, "other", "12")
    one = waker(control, clock=clock)
    for _ in range(3):
        await one.walk()
        clock.now += 3.0
    assert wakings(control) == ["over-quota", "other", "over-quota", "other"]


async def test_one_for_whom_others_were_faster_is_first_again_when_there_is_room(
    control: Control, clock: Clock
) -> None:
    first = await waiting(control, "first", "12", **OLDER)
    one = waker(control, clock=clock)
    await walks(one, clock, 20)
    tries = len(wakings(control))
    faster = control.see_pod("faster", None, gb=12)
    await refuse_again(control, first)
    await one.walk()
    await waiting(control, "other", "12")
    control.cluster.pod_deleted(faster.key)
    await one.walk()
    assert wakings(control)[tries:] == ["first"]


async def test_a_seat_that_is_kept_for_its_workload_ends_the_pause(control: Control, clock: Clock) -> None:
    top = an_owner(control.served, "Deployment", "chat", None, replicas=1)
    owner = an_owner(control.served, "ReplicaSet", "chat-2", top, replicas=1, template=template("16"))
    await control.refuse(top, owner)
    one = waker(control, clock=clock)
    await walks(one, clock, 63)
    tries = len(wakings(control))
    seat = Entry("models", owner_hash(top.uid), 1, ((0, 16),), mark=Mark.KEPT)
    gpu = control.cluster.gpu_node("t4")
    assert gpu is not None
    control.cluster.gpu_node_upserted(replace(gpu, resource_version="2", ledger={"aaaaaaaaaa": seat}))
    await one.walk()
    assert len(wakings(control)) == tries + 1


async def test_a_daemon_set_wants_no_second_pod_where_it_has_one(control: Control, clock: Clock) -> None:
    control.see_node("full", 8)
    daemons = await waiting(control, "daemons", "6", "DaemonSet", **OLDER)
    path = "/apis/apps/v1/namespaces/models/daemonsets/daemons/status"
    await control.served.client.merge_patch(path, {"status": {"desiredNumberScheduled": 2}})
    control.see_pod("daemons-t4", daemons, 6, "t4")
    holder = control.see_pod("holder", None, 8, "full")
    other = await waiting(control, "other", "10")
    one = waker(control, clock=clock)
    await one.walk()
    assert woken(control, daemons, other) == ["other"]
    control.cluster.pod_deleted(holder.key)
    await one.walk()
    assert woken(control, daemons, other) == ["daemons", "other"]


class TestCreatedPastTheWebhook:
    """While its namespace was not opted in, an owner that was refused got pods without a place."""

    @pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
    async def test_one_that_has_its_pods_is_not_woken(self, control: Control, clock: Clock, kind: str) -> None:
        owner = await waiting(control, "chat", "12", kind, **OLDER)
        control.see_unplaced("chat-0", owner)
        other = await waiting(control, "other", "12")
        await waker(control, clock=clock).walk()
        assert wakings(control) == ["other"], "it needs no room either"
        assert woken(control, owner, other) == ["other"]

    async def test_one_whose_pods_are_on_no_node_says_so_itself(self, control: Control, clock: Clock) -> None:
        owner = await waiting(control, "chat", kind="ReplicaSet")
        await control.says(owner, replicas=1)
        one = waker(control, clock=clock)
        await walks(one, clock, 100)
        assert woken(control, owner) == []
        await control.says(owner, replicas=0)
        await walks(one, clock, 1)
        assert woken(control, owner) == ["chat"]

    async def test_what_it_says_may_be_of_a_moment_ago_so_it_is_looked_at_again(self, control: Control) -> None:
        owner = await waiting(control, "chat", kind="ReplicaSet")
        await control.says(owner, replicas=1)
        control.start(waker(control).run())
        await eventually(lambda: bool(reads(control, "replicasets")))
        await control.says(owner, replicas=0)
        await eventually(lambda: woken(control, owner) == ["chat"])

    async def test_a_daemon_set_wants_no_pod_where_it_has_one_without_a_place(
        self, control: Control, clock: Clock
    ) -> None:
        control.see_node("full", 8)
        control.see_pod("holder", None, 8, "full")
        daemons = await waiting(control, "daemons", "6", "DaemonSet")
        await control.says(daemons, desiredNumberScheduled=2, currentNumberScheduled=1)
        control.see_unplaced("daemons-t4", daemons)
        await waker(control, clock=clock).walk()
        assert woken(control, daemons) == []


def reads(control: Control, kinds: str = "statefulsets") -> int:
    return sum(each.startswith("GET") and kinds in each for each in control.served.server.requests)


class TestRequests:
    async def test_a_walk_where_nobody_fits_reads_nobody_whom_it_knows(self, control: Control, clock: Clock) -> None:
        control.see_pod("holder", None, 16)
        for number in range(20):
            await waiting(control, f"chat-{number}")
        one = waker(control, clock=clock)
        await walks(one, clock, 3)
        assert reads(control) == 20

    async def test_who_is_refused_anew_is_read_anew(self, control: Control, clock: Clock) -> None:
        owner = await waiting(control, "chat", "20")
        one = waker(control, clock=clock)
        await walks(one, clock, 2)
        path = "/apis/apps/v1/namespaces/models/statefulsets/chat"
        await control.served.client.merge_patch(path, {"spec": {"template": template("6")}})
        await walks(one, clock, 2)
        assert woken(control, owner) == []
        await refuse_again(control, owner)
        await one.walk()
        assert woken(control, owner) == ["chat"]

    async def test_after_minutes_it_is_read_all_the_same_a_few_in_each_walk(
        self, control: Control, clock: Clock
    ) -> None:
        control.see_pod("holder", None, 16)
        for number in range(15):
            await waiting(control, f"chat-{number}")
        one = waker(control, clock=clock)
        await one.walk()
        clock.now += 301.0
        for expected in (25, 30, 30):
            await walks(one, clock, 1)
            assert reads(control) == expected

    async def test_nobody_is_touched_by_what_was_known_of_it(self, control: Control, clock: Clock) -> None:
        holder = control.see_pod("holder", None, 16)
        owner = await waiting(control, "chat")
        one = waker(control, clock=clock)
        await walks(one, clock, 1)
        path = "/apis/apps/v1/namespaces/models/statefulsets/chat"
        await control.served.client.merge_patch(path, {"spec": {"replicas": 0}})
        control.cluster.pod_deleted(holder.key)
        await one.walk()
        assert woken(control, owner) == []

    async def test_so_many_are_read_in_a_walk_and_the_rest_in_the_next(
        self, control: Control, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("controller.waiting._MOST_READ", 3)
        for number in range(5):
            await waiting(control, f"chat-{number}", "20", priority=-number)
        last = await waiting(control, "last", "6", priority=-9)
        one = waker(control, clock=clock)
        await one.walk()
        assert (reads(control), woken(control, last)) == (3, [])
        await one.walk()
        assert (reads(control), woken(control, last)) == (6, ["last"])
