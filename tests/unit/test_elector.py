"""At most one process leads at any moment, and soon another one does when the leader is gone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from shared.kube import paths
from shared.kube.client import Json
from shared.kube.elector import Elector, LeaderStuckError
from shared.kube.errors import Unavailable
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.objects import ObjectStore
from tests.fakes.selectors import Selector
from tests.fakes.serving import Served, eventually, in_time, serving

LEASE = paths.leases("sys", "controller")
LEASE_S = 60
DEADLINE_S = LEASE_S / 2
_ALL = Selector()

Forward = Callable[[float], None]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def other(served: Served, tmp_path: Path) -> AsyncIterator[Served]:
    """A second API server of the same cluster."""
    folder = tmp_path / "other"
    folder.mkdir()
    async with serving(folder, objects=served.server.objects) as both:
        yield both


def elector(served: Served, identity: str, *, lease_s: int = LEASE_S) -> Elector:
    """Its lease is so long that on no machine it runs out before a test moves the clock."""
    return Elector(
        served.client, "sys", "controller", identity, lease_s=lease_s, renew_deadline_s=lease_s / 2, retry_s=0.05
    )


def spec(objects: ObjectStore) -> Json:
    found: Json = objects.get(place_of(LEASE))["spec"]
    return found


async def looked(served: Served) -> None:
    """Waits until a contender of this server has seen the Lease as it is now."""
    before = len(served.server.requests)
    # The second look was begun after now, the third after what came of it.
    await eventually(lambda: sum(each.startswith("GET") for each in served.server.requests[before:]) > 2)


class Stage:
    """Where leaders act; notices when two do at once, or one whose elector says that it is not the leader."""

    def __init__(self) -> None:
        self.acting: list[str] = []
        self.history: list[str] = []

    async def act(self, contender: Elector, identity: str) -> None:
        assert self.acting == []
        assert contender.is_leader
        self.acting.append(identity)
        self.history.append(identity)
        try:
            await asyncio.Event().wait()
        finally:
            self.acting.remove(identity)


@asynccontextmanager
async def competing(served: Served, identity: str, stage: Stage) -> AsyncIterator[asyncio.Task[None]]:
    """A contender that acts on `stage` whenever it leads."""
    contender = elector(served, identity)
    running = asyncio.create_task(contender.run(lambda: stage.act(contender, identity)))
    try:
        yield running
    finally:
        running.cancel()
        [outcome] = await asyncio.gather(running, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError)
        assert not contender.is_leader


async def test_the_first_one_leads_and_the_lease_says_so(served: Served) -> None:
    stage = Stage()
    async with competing(served, "a", stage):
        await eventually(lambda: stage.acting == ["a"])
        first = spec(served.server.objects)
        await eventually(lambda: spec(served.server.objects)["renewTime"] != first["renewTime"])
    assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == ("a", LEASE_S, 0)
    for time in ("renewTime", "acquireTime"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first[time])


async def test_who_is_cancelled_ends_its_work_then_releases_and_the_next_one_leads(served: Served) -> None:
    stage = Stage()
    async with competing(served, "a", stage) as first:
        await eventually(lambda: stage.acting == ["a"])
        async with competing(served, "b", stage):
            await looked(served)
            assert stage.acting == ["a"]
            first.cancel()
            await eventually(lambda: stage.acting == ["b"])
            assert spec(served.server.objects)["leaseTransitions"] == 1
    assert stage.history == ["a", "b"]
    assert spec(served.server.objects)["holderIdentity"] == ""


async def test_the_lease_is_held_until_the_clean_up_of_the_leader_is_over(served: Served) -> None:
    holders: list[str] = []

    async def lead() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            before = spec(served.server.objects)["renewTime"]
            await eventually(lambda: spec(served.server.objects)["renewTime"] != before)
            holders.append(spec(served.server.objects)["holderIdentity"])
            assert contender.is_leader

    contender = elector(served, "a")
    running = asyncio.create_task(contender.run(lead))
    await eventually(lambda: contender.is_leader)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert holders == ["a"]
    assert spec(served.server.objects)["holderIdentity"] == ""


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(faults.hang(), id="server-hangs"),
        pytest.param(faults.respond(403, '{"reason":"Forbidden"}'), id="right-taken-away"),
    ],
)
async def test_a_leader_that_cannot_renew_stops_before_the_next_one_leads(
    served: Served, other: Served, fault: faults.Act, forward: Forward
) -> None:
    stage = Stage()

    async with competing(served, "a", stage):
        await eventually(lambda: stage.acting == ["a"])
        async with competing(other, "b", stage):
            await looked(other)
            served.server.fail(fault, times=1_000_000)
            await in_time(lambda: stage.acting == ["b"], forward, step_s=0.5)
            served.server.faults.clear()
            await looked(served)
            assert stage.acting == ["b"]
    assert stage.history == ["a", "b"]


async def test_a_renewal_whose_answer_was_lost_does_not_cost_the_lead(served: Served) -> None:
    stage = Stage()
    async with competing(served, "a", stage):
        await eventually(lambda: stage.acting == ["a"])
        served.server.fail(faults.lose_answer(), times=2, method="PUT")
        await eventually(lambda: served.server.faults[0].times == 0)
        seen = spec(served.server.objects)["renewTime"]
        await eventually(lambda: spec(served.server.objects)["renewTime"] != seen)
    assert stage.history == ["a"]


async def test_a_leader_whose_lease_was_deleted_makes_a_new_one(served: Served) -> None:
    stage = Stage()
    async with competing(served, "a", stage):
        await eventually(lambda: stage.acting == ["a"])
        served.server.objects.delete(place_of(LEASE), {})
        await eventually(lambda: bool(served.server.objects.select(place_of(paths.leases("sys")), _ALL)))
        assert spec(served.server.objects)["holderIdentity"] == "a"
    assert stage.history == ["a"]


def overwrite(objects: ObjectStore, holder: str, renew_time: str) -> None:
    """Writes another holder into the Lease, creating it if need be."""
    claim = {"holderIdentity": holder, "leaseDurationSeconds": 1, "renewTime": renew_time}
    if objects.select(place_of(paths.leases("sys")), _ALL):
        objects.update(place_of(LEASE), lambda old: {**old, "spec": claim})
    else:
        objects.create(place_of(paths.leases("sys")), {"metadata": {"name": "controller"}, "spec": claim})


async def test_a_leader_that_finds_another_name_in_the_lease_stops_at_once(served: Served) -> None:
    stage = Stage()
    async with competing(served, "a", stage):
        await eventually(lambda: stage.acting == ["a"])
        overwrite(served.server.objects, "somebody", "2026-01-01T00:00:00.000000Z")
        await eventually(lambda: stage.acting == [])
        assert spec(served.server.objects)["holderIdentity"] == "somebody"


async def test_the_clock_of_the_holder_does_not_matter(served: Served, forward: Forward) -> None:
    objects = served.server.objects
    stage = Stage()
    overwrite(objects, "holder", "1970-01-01T00:00:00.000000Z")
    async with competing(served, "a", stage):
        for second in range(16):
            await looked(served)
            forward(10.0)
            overwrite(objects, "holder", f"1970-01-01T00:00:{second:02}.000000Z")
        assert stage.history == []
        overwrite(objects, "holder", "2099-01-01T00:00:00.000000Z")
        await looked(served)
        forward(LEASE_S)
        await eventually(lambda: stage.acting == ["a"])


async def test_when_the_leading_work_crashes_its_error_comes_out_and_the_lease_is_free(served: Served) -> None:
    async def lead() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await elector(served, "a").run(lead)
    assert spec(served.server.objects)["holderIdentity"] == ""


async def test_when_the_leading_work_is_finished_so_is_the_election(served: Served) -> None:
    async def lead() -> None:
        await asyncio.sleep(0)

    contender = elector(served, "a")
    await contender.run(lead)
    assert not contender.is_leader
    assert spec(served.server.objects)["holderIdentity"] == ""


async def test_leading_work_that_ignores_its_end_is_an_error_that_ends_the_process(
    served: Served, forward: Forward
) -> None:
    async def lead() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ignored.append(True)
                if released:
                    raise

    ignored: list[bool] = []
    released: list[bool] = []
    contender = elector(served, "a")
    running = asyncio.create_task(contender.run(lead))
    await eventually(lambda: contender.is_leader)
    served.server.fail(faults.respond(503), times=1_000_000)
    try:
        forward(DEADLINE_S)
        await eventually(lambda: bool(ignored))
        forward(LEASE_S - DEADLINE_S)
        with pytest.raises(LeaderStuckError, match="controller"):
            await running
    finally:
        released.append(True)


@pytest.mark.parametrize(
    ("lease_s", "renew_deadline_s", "retry_s"), [(10, 10.0, 2.0), (15, 10.0, 6.0), (15, 10.0, 0.0)]
)
async def test_times_that_allow_two_leaders_or_no_retry_are_refused(
    served: Served, lease_s: int, renew_deadline_s: float, retry_s: float
) -> None:
    with pytest.raises(ValueError, match="must be shorter"):
        Elector(
            served.client,
            "sys",
            "controller",
            "a",
            lease_s=lease_s,
            renew_deadline_s=renew_deadline_s,
            retry_s=retry_s,
        )


class Clock:
    """Stands in for the module `time` in the elector."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_800_000_000.0 + self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("shared.kube.elector.time", clock)
    return clock


async def test_a_leader_counts_from_before_its_renewal_was_sent_and_ends_at_its_deadline(
    served: Served, clock: Clock
) -> None:
    leader = elector(served, "a", lease_s=12)

    async def slow(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        clock.now += 2.0
        return await proceed(request)

    served.server.fail(slow, method="POST")
    assert await leader._claim()
    clock.now += 3.5
    assert leader.is_leader
    assert leader._patience_s() == pytest.approx(0.5), "a request does not outlast the lead"
    clock.now += 0.5
    assert not leader.is_leader, "6 s after it sent its claim, of a lease of 12 s"


async def test_a_contender_waits_for_as_long_as_the_lease_of_the_other_lasts(served: Served, clock: Clock) -> None:
    assert await elector(served, "a", lease_s=30)._claim()
    contender = elector(served, "b", lease_s=12)
    assert not await contender._claim()
    clock.now += 29.0
    assert not await contender._claim()
    clock.now += 1.5
    assert await contender._claim()


async def test_what_met_a_conflict_is_not_sent_once_more(served: Served) -> None:
    """The Lease that it holds in memory is no longer the stored one, whatever came of reading that."""
    leader = elector(served, "a")
    assert await leader._claim()
    served.server.objects.update(
        place_of(LEASE), lambda old: {**old, "metadata": {**old["metadata"], "labels": {"touched": "yes"}}}
    )
    served.server.fail(faults.respond(503), method="GET")
    with pytest.raises(Unavailable):
        await leader._extend()
    before = len(served.server.requests)
    assert await leader._extend()
    assert [each.split()[0] for each in served.server.requests[before:]] == ["GET", "PUT"]
