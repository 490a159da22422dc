"""The `ModelPlacement`s as the controller sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.reports import Report
from shared.core.owners import OwnerRef
from shared.kube import paths
from shared.kube.model_placements import patch_status
from tests.fakes.apiserver import place_of
from tests.fakes.serving import eventually
from tests.unit.controlling import Control, a_refusal, controlling

CHAT = OwnerRef("apps/v1", "Deployment", "chat", "uid-chat")
REPLICA_SET = OwnerRef("apps/v1", "ReplicaSet", "chat-5d4f", "uid-rs")


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    async with controlling(tmp_path) as control:
        yield control


async def test_a_report_is_found_by_its_workload(control: Control) -> None:
    assert control.reports.of("models", CHAT) is None
    await control.refuse(CHAT, REPLICA_SET)
    report = control.reports.of("models", CHAT)
    assert report is not None
    assert report.workload == CHAT
    assert report.refusals == {"ReplicaSet.chat-5d4f": a_refusal(REPLICA_SET)}
    assert list(control.reports.all()) == [report]
    assert control.reports.of("elsewhere", CHAT) is None


async def test_a_report_without_a_status_holds_no_refusals(control: Control) -> None:
    await patch_status(control.served.client, "models", CHAT, {})
    await control.seen(CHAT)
    report = control.reports.of("models", CHAT)
    assert report is not None
    assert report.refusals == {}


async def test_listeners_hear_what_is_and_what_was_until_they_leave(control: Control) -> None:
    heard: list[tuple[Report | None, Report | None]] = []
    leave = control.reports.on_change(lambda new, old: heard.append((new, old)))
    await control.refuse(CHAT, REPLICA_SET)
    await control.served.client.delete(paths.model_placements("models", "deployment-chat"))
    await control.seen(CHAT)
    assert heard[0][1] is None
    assert heard[-1][0] is None
    assert heard[-1][1] == heard[-2][0]
    leave()
    told = len(heard)
    await control.refuse(CHAT, REPLICA_SET)
    assert len(heard) == told


async def test_an_object_that_nobody_owns_is_about_no_workload_and_found_by_the_next_of_its_name(
    control: Control,
) -> None:
    place = place_of(paths.model_placements("models"))
    control.objects.create(place, {"metadata": {"name": "deployment-chat", "namespace": "models"}})
    await eventually(lambda: bool(list(control.reports.all())))
    report = control.reports.of("models", CHAT)
    assert report is not None
    assert report.workload.uid == ""
    assert control.reports.of("models", report.workload) == report
