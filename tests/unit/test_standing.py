"""Which refusals still stand: those of owners that still lack a pod."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.standing import still_refused
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from shared.kube.errors import Forbidden
from tests.fakes import faults
from tests.unit.controlling import NOW, Control, a_refusal, an_owner, controlling

RAY = OwnerRef("ray.io/v1", "RayCluster", "chat", "uid-ray")
LAST = "2026-11-30T09:55:00Z"
SOON_AFTER = "2026-11-30T09:55:01Z"


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    async with controlling(tmp_path) as control:
        yield control


async def stands(control: Control, top: OwnerRef, refused: OwnerRef, *pods: PodFacts, **fields: Any) -> bool:
    refusal = a_refusal(refused, **{"last": LAST, **fields})
    raw = await control.owners.read("models", top)
    key = f"{refused.kind}.{refused.name}"
    return await still_refused(control.owners, "models", top, raw, key, refusal, pods, NOW)


@pytest.mark.parametrize(
    ("created", "expected"),
    [
        pytest.param(None, True, id="no-pod"),
        pytest.param("2026-11-30T09:00:00Z", True, id="an-older-pod-beside-which-another-is-lacking"),
        pytest.param(LAST, True, id="a-pod-of-the-same-second-of-which-nobody-knows-the-order"),
        pytest.param(SOON_AFTER, False, id="a-pod-that-came-after-it"),
    ],
)
async def test_of_an_owner_that_cannot_be_read_a_later_pod_ends_it(
    control: Control, created: str | None, expected: bool
) -> None:
    pods = [] if created is None else [control.see_pod("chat-0", RAY, created=created)]
    assert await stands(control, RAY, RAY, *pods) is expected


async def test_a_later_pod_that_is_going_or_of_another_owner_ends_nothing(control: Control) -> None:
    going = replace(control.see_pod("chat-0", RAY, created=SOON_AFTER), terminating=True)
    other = control.see_pod("chat-1", replace(RAY, uid="uid-other"), created=SOON_AFTER)
    assert await stands(control, RAY, RAY, going, other)


@pytest.mark.parametrize(
    ("ago_s", "expected"), [(0, True), (599, True), (600, False), (86_400, False), (-60, True), (-86_400, False)]
)
async def test_of_an_owner_that_cannot_be_read_it_ends_when_it_is_not_repeated(
    control: Control, ago_s: int, expected: bool
) -> None:
    last = (NOW - timedelta(seconds=ago_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert await stands(control, RAY, RAY, last=last) is expected


async def test_of_an_owner_that_is_read_it_stands_however_old_until_no_pod_is_lacking(control: Control) -> None:
    top = an_owner(control.served, "StatefulSet", "chat", replicas=2)
    first, second = control.see_pod("chat-0", top), control.see_pod("chat-1", top)
    assert await stands(control, top, top, first, last="2026-11-01T00:00:00Z")
    assert not await stands(control, top, top, first, second)


@pytest.mark.parametrize(
    ("says", "ago_s", "expected"),
    [
        pytest.param(2, 60, False, id="it-has-all"),
        pytest.param(2, 10, False, id="it-has-all-for-ten-seconds"),
        pytest.param(2, 9, True, id="what-it-says-may-be-older-than-the-refusal"),
        pytest.param(1, 60, True, id="it-lacks-one"),
        pytest.param(2, -86_400, False, id="a-time-to-come-that-somebody-wrote"),
    ],
)
async def test_a_pod_that_nobody_placed_is_a_pod_that_its_owner_has(
    control: Control, says: int, ago_s: int, expected: bool
) -> None:
    top = an_owner(control.served, "StatefulSet", "chat", replicas=2)
    await control.says(top, replicas=says)
    placed = control.see_pod("chat-0", top)
    last = (NOW - timedelta(seconds=ago_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert await stands(control, top, top, placed, last=last) is expected


async def test_an_owner_below_the_top_is_judged_by_itself(control: Control) -> None:
    top = an_owner(control.served, "Deployment", "chat", replicas=3)
    old = an_owner(control.served, "ReplicaSet", "chat-old", top, replicas=0)
    new = an_owner(control.served, "ReplicaSet", "chat-new", top, replicas=1)
    assert not await stands(control, top, old)
    assert await stands(control, top, new)
    assert not await stands(control, top, replace(new, uid="uid-gone"))


async def test_while_an_owner_below_the_top_may_not_be_read_its_refusal_is_not_judged(control: Control) -> None:
    top = an_owner(control.served, "Deployment", "chat", replicas=1)
    owner = an_owner(control.served, "ReplicaSet", "chat-1", top, replicas=0)
    raw = await control.owners.read("models", top)
    control.served.server.fail(faults.respond(403, '{"reason":"Forbidden"}'), path="replicasets", times=1)
    refusal = a_refusal(owner, last=LAST)
    with pytest.raises(Forbidden):
        await still_refused(control.owners, "models", top, raw, "ReplicaSet.chat-1", refusal, (), NOW)


async def test_an_owner_of_an_unknown_kind_is_not_judged_by_the_wishes_of_the_top(control: Control) -> None:
    top = an_owner(control.served, "StatefulSet", "chat", replicas=0)
    assert await stands(control, top, RAY)


async def test_a_refusal_of_a_later_object_of_the_same_name_does_not_stand_with_the_earlier(control: Control) -> None:
    assert not await stands(control, RAY, replace(RAY, uid="uid-later"))


async def test_a_refusal_without_a_time_has_ended(control: Control) -> None:
    assert not await stands(control, RAY, RAY, last=None)
