"""Events on workloads: written once, and counted when they repeat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from controller.events import Events, EventType
from shared.core.owners import OwnerRef
from shared.kube import paths
from shared.kube.errors import Unavailable
from tests.fakes import faults
from tests.unit.controlling import NOW, Control, controlling

CHAT = OwnerRef("apps/v1", "Deployment", "chat", "uid-chat")


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    async with controlling(tmp_path) as control:
        yield control


class Clock:
    def __init__(self) -> None:
        self.now = NOW


async def emit(control: Control, message: str = "no room", clock: Clock | None = None, about: OwnerRef = CHAT) -> None:
    clock = clock or Clock()
    events = Events(control.served.client, lambda: clock.now)
    await events.emit("models", about, EventType.WARNING, "NoFit", message)


async def test_an_event_is_about_the_workload_and_says_who_and_why(control: Control) -> None:
    await emit(control)
    (event,) = control.events()
    assert event["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "chat",
        "namespace": "models",
        "uid": "uid-chat",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "NoFit", "no room")
    assert event["source"] == {"component": "placement-operator"}
    assert (event["firstTimestamp"], event["lastTimestamp"], event["count"]) == (
        "2026-11-30T10:00:00Z",
        "2026-11-30T10:00:00Z",
        1,
    )


async def test_an_equal_event_raises_the_count_of_the_first(control: Control) -> None:
    clock = Clock()
    for _ in range(3):
        await emit(control, clock=clock)
        clock.now += timedelta(minutes=1)
    (event,) = control.events()
    assert event["count"] == 3
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-11-30T10:00:00Z", "2026-11-30T10:02:00Z")


async def test_events_that_differ_in_anything_are_their_own(control: Control) -> None:
    await emit(control)
    await emit(control, "less room")
    await emit(control, about=OwnerRef("apps/v1", "Deployment", "chat", "uid-later"))
    assert [event["count"] for event in control.events()] == [1, 1, 1]


async def test_a_long_name_still_makes_a_name_for_the_event(control: Control) -> None:
    await emit(control, about=OwnerRef("apps/v1", "Deployment", "x" * 199 + ".-" + "y" * 50, "uid"))
    (event,) = control.events()
    assert len(event["metadata"]["name"]) <= 253
    assert "x." in event["metadata"]["name"]
    assert ".-" not in event["metadata"]["name"]


async def test_an_event_that_expires_while_it_is_counted_is_written_anew(control: Control) -> None:
    await emit(control)
    control.served.server.fail(faults.respond(409, '{"reason":"AlreadyExists"}'), method="POST")
    name = control.events()[0]["metadata"]["name"]
    await control.served.client.delete(paths.events("models", name))
    await emit(control)
    (event,) = control.events()
    assert event["count"] == 1


async def test_a_server_that_is_away_is_the_callers_to_deal_with(control: Control) -> None:
    control.served.server.fail(faults.respond(503, "?"), method="POST")
    with pytest.raises(Unavailable):
        await emit(control)


async def test_an_object_gets_so_many_events_at_once_and_then_one_in_ten_seconds(control: Control) -> None:
    now = [NOW]
    events = Events(control.served.client, lambda: now[0])

    async def tell(message: str, about: OwnerRef = CHAT) -> bool:
        return await events.emit("models", about, EventType.NORMAL, "Placed", message)

    assert [await tell(f"first {number}") for number in range(30)] == [True] * 25 + [False] * 5
    assert len(control.events()) == 25
    await tell("of another", OwnerRef("apps/v1", "Deployment", "other", "uid-other"))
    now[0] += timedelta(seconds=20)
    for number in range(5):
        await tell(f"later {number}")
    later = [event["message"] for event in control.events() if event["message"].startswith("later")]
    assert sorted(later) == ["later 0", "later 1"]
    assert len(control.events()) == 28


async def test_a_clock_that_is_set_back_takes_no_events_away(control: Control) -> None:
    now = [NOW]
    events = Events(control.served.client, lambda: now[0])
    for hours in range(20):
        now[0] = NOW - timedelta(hours=hours)
        await events.emit("models", CHAT, EventType.NORMAL, "Placed", f"{hours}")
    assert len(control.events()) == 20
