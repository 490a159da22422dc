"""Refusals on their way into the `ModelPlacement` of the workload."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.core.invalid import InvalidRequest
from shared.core.owners import OwnerRef
from shared.core.refusal import Invalid, NoFit, Reason
from shared.kube import paths
from shared.kube.model_placements import patch_status
from shared.kube.owners import Owners
from tests.builders import PodBuilder, a_pod
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.objects import RefusalError
from tests.fakes.selectors import Selector
from tests.fakes.serving import Served, eventually, serving
from tests.unit.admission import request
from tests.unit.controlling import a_refusal, an_owner
from webhook import refusals as refusals_module
from webhook.refusals import RefusalReports

FULL = NoFit(Reason.INSUFFICIENT_CAPACITY, "6 GB on one card", 1, can_wait=True)
WRONG = Invalid.of(InvalidRequest("metadata.annotations[a]", "16GB", "is no amount", "write 16"))


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def reports(served: Served) -> AsyncIterator[RefusalReports]:
    """Reports that are being written."""
    reports = RefusalReports(served.client, Owners(served.client))
    writing = asyncio.create_task(reports.run())
    yield reports
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


def of(owner: OwnerRef, name: str = "pod", **spec: Any) -> PodBuilder:
    return a_pod(name).owned_by(owner.kind, owner.name, owner.uid).spec(**spec)


def ray(name: str, uid: str) -> OwnerRef:
    """An owner of a kind that cannot be read."""
    return OwnerRef("ray.io/v1", "RayCluster", name, uid)


def by(owner: OwnerRef) -> dict[str, Any]:
    """A pod of an owner of any API group."""
    pod = of(owner).raw()
    pod["metadata"]["ownerReferences"][0]["apiVersion"] = owner.api_version
    return pod


def refusals(served: Served, name: str = "deployment-chat") -> dict[str, Any]:
    try:
        raw = served.server.objects.get(place_of(paths.model_placements("models", name)))
    except RefusalError:
        return {}
    found: dict[str, Any] = (raw.get("status") or {}).get("refusals") or {}
    return found


def writes(served: Served) -> int:
    return sum(each.startswith("PATCH") for each in served.server.requests)


async def test_a_refusal_stands_in_the_status_of_the_top_owner(reports: RefusalReports, served: Served) -> None:
    owner = an_owner(served, "ReplicaSet", "chat-5d4f", an_owner(served, "Deployment", "chat"))
    reports.report(request(of(owner, priority=1000)), FULL)
    await eventually(lambda: bool(refusals(served)))
    refusal = refusals(served)["ReplicaSet.chat-5d4f"]
    assert refusal["since"].endswith("Z")
    assert refusal.pop("since") == refusal.pop("last")
    assert refusal.pop("message").startswith("insufficient_capacity: ")
    assert refusal == {
        "uid": owner.uid,
        "reason": "insufficient_capacity",
        "demand": "6 GB on one card",
        "priority": 1000,
        "preempts": True,
        "tolerations": [],
        "count": 1,
        "waitable": True,
    }


async def test_it_says_of_a_pod_that_never_preempts_that_it_does_not(reports: RefusalReports, served: Served) -> None:
    owner = an_owner(served, "StatefulSet", "chat")
    reports.report(request(of(owner, priority=1000, preemptionPolicy="Never")), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-chat")))
    assert refusals(served, "statefulset-chat")["StatefulSet.chat"]["preempts"] is False


@pytest.mark.parametrize(
    ("tolerations", "told"),
    [
        pytest.param(
            [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "team", "value": "a", "effect": "NoSchedule"}],
            [
                {"key": "nvidia.com/gpu", "operator": "Exists"},
                {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
            ],
            id="as-the-pod-has-it",
        ),
        pytest.param([{"key": "a", "operator": "Exists"}] * 17, [], id="too-many-to-be-kept"),
        pytest.param([{"key": "a" * 1020, "operator": "Exists"}], [], id="too-long-to-be-kept"),
    ],
)
async def test_it_says_what_the_pod_tolerated(
    reports: RefusalReports, served: Served, tolerations: list[dict[str, str]], told: list[dict[str, str]]
) -> None:
    owner = an_owner(served, "StatefulSet", "chat")
    reports.report(request(of(owner, tolerations=tolerations)), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-chat")))
    assert refusals(served, "statefulset-chat")["StatefulSet.chat"]["tolerations"] == told


async def test_a_malformed_ask_is_nothing_that_waiting_can_help(reports: RefusalReports, served: Served) -> None:
    owner = an_owner(served, "StatefulSet", "chat")
    reports.report(request(of(owner, tolerations=7)), WRONG)
    await eventually(lambda: bool(refusals(served, "statefulset-chat")))
    refusal = refusals(served, "statefulset-chat")["StatefulSet.chat"]
    assert (refusal["reason"], refusal["waitable"], refusal["demand"]) == ("invalid_request", False, "")


async def test_a_bare_pod_is_reported_to_nobody(reports: RefusalReports, served: Served) -> None:
    owner = an_owner(served, "StatefulSet", "chat")
    reports.report(request(a_pod()), FULL)
    reports.report(request(of(owner)), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-chat")))
    assert len([each for each in served.server.requests if each.startswith("POST")]) == 1


async def test_many_refusals_of_one_owner_are_one_write(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals_module, "_QUIET_S", 600.0)
    reports = RefusalReports(served.client, Owners(served.client))
    owner, other = an_owner(served, "StatefulSet", "chat"), an_owner(served, "StatefulSet", "other")
    for number in range(20):
        reports.report(request(of(owner, f"pod-{number}")), FULL)
    writing = asyncio.create_task(reports.run())
    await eventually(lambda: bool(refusals(served, "statefulset-chat")))
    first = refusals(served, "statefulset-chat")
    # Within the quiet time the next ones wait, while another owner's are written.
    reports.report(request(of(owner)), FULL)
    reports.report(request(of(other)), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-other")))
    assert refusals(served, "statefulset-chat") == first
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


async def test_a_refusal_while_the_one_before_is_being_written_waits_as_well(
    reports: RefusalReports, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals_module, "_QUIET_S", 600.0)
    owner, other = an_owner(served, "StatefulSet", "chat"), an_owner(served, "StatefulSet", "other")
    go_on = asyncio.Event()
    served.server.fail(faults.hold(go_on), method="PATCH")
    reports.report(request(of(owner)), FULL)
    await eventually(lambda: writes(served) == 1)
    reports.report(request(of(owner)), FULL)
    go_on.set()
    await eventually(lambda: bool(refusals(served, "statefulset-chat")))
    reports.report(request(of(other)), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-other")))
    assert refusals(served, "statefulset-chat")["StatefulSet.chat"]["count"] == 1


async def test_a_refusal_while_the_one_before_is_being_written_is_written_in_its_turn(
    reports: RefusalReports, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals_module, "_QUIET_S", 0.2)
    owner = an_owner(served, "StatefulSet", "chat")
    go_on = asyncio.Event()
    served.server.fail(faults.hold(go_on), method="PATCH")
    reports.report(request(of(owner)), FULL)
    await eventually(lambda: writes(served) == 1)
    reports.report(request(of(owner, priority=7)), FULL)
    go_on.set()
    await eventually(
        lambda: refusals(served, "statefulset-chat").get("StatefulSet.chat", {}).get("priority") == 7, within_s=20.0
    )


async def test_a_repetition_keeps_its_age_and_is_counted(served: Served) -> None:
    def counted() -> int:
        return int(refusals(served, "statefulset-chat").get("StatefulSet.chat", {}).get("count", 0))

    owner = an_owner(served, "StatefulSet", "chat")
    for number in (1, 2):
        reports = RefusalReports(served.client, Owners(served.client))
        reports.report(request(of(owner)), FULL)
        writing = asyncio.create_task(reports.run())
        await eventually(lambda: counted() == number)  # noqa: B023
        since = refusals(served, "statefulset-chat")["StatefulSet.chat"]["since"]
        served.server.objects.update(
            place_of(paths.status_of(paths.model_placements("models", "statefulset-chat"))),
            lambda old: _aged(old, "2020-01-01T10:00:00Z"),
        )
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    refusal = refusals(served, "statefulset-chat")["StatefulSet.chat"]
    assert refusal["count"] == 2
    assert refusal["last"] > since
    assert since == "2020-01-01T10:00:00Z"


async def test_a_count_that_the_schema_takes_stays_one(reports: RefusalReports, served: Served) -> None:
    owner = an_owner(served, "StatefulSet", "chat")
    edited = a_refusal(owner, count=2**63 - 1)
    await patch_status(served.client, "models", owner, {"refusals": {"StatefulSet.chat": edited}})
    reports.report(request(of(owner)), FULL)
    await eventually(lambda: refusals(served, "statefulset-chat")["StatefulSet.chat"]["count"] == 2**31 - 1)


async def test_another_owner_of_the_same_name_begins_anew(reports: RefusalReports, served: Served) -> None:
    for uid in ("uid-1", "uid-2"):
        reports.report(request(by(ray("chat", uid))), FULL)
        await eventually(
            lambda: refusals(served, "raycluster-chat").get("RayCluster.chat", {}).get("uid") == uid  # noqa: B023
        )
    assert refusals(served, "raycluster-chat")["RayCluster.chat"]["count"] == 1


async def test_an_owner_that_is_not_there_is_not_reported(reports: RefusalReports, served: Served) -> None:
    other = an_owner(served, "StatefulSet", "other")
    reports.report(request(of(OwnerRef("apps/v1", "StatefulSet", "chat", "uid-made-up"))), FULL)
    reports.report(request(of(OwnerRef("apps/v1", "StatefulSet", "other", "uid-made-up"))), FULL)
    reports.report(request(of(other)), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-other")))
    assert refusals(served, "statefulset-chat") == {}
    assert refusals(served, "statefulset-other")["StatefulSet.other"]["uid"] == other.uid
    assert sum(each.startswith("POST") for each in served.server.requests) == 1


async def test_owners_that_cannot_be_read_are_reported_up_to_a_hundred_in_a_namespace(
    reports: RefusalReports, served: Served
) -> None:
    for number in range(103):
        reports.report(request(by(ray(f"made-up-{number}", "uid"))), FULL)
        reports.report(request(by(ray(f"made-up-{number}", f"uid-{number}"))), FULL)
    reports.report(request(of(an_owner(served, "StatefulSet", "chat"))), FULL)
    reports.report(request(by(ray("made-up-0", "uid-again"))), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-chat")))
    await eventually(lambda: refusals(served, "raycluster-made-up-0")["RayCluster.made-up-0"]["uid"] == "uid-again")
    assert len(served.server.objects.select(place_of(paths.model_placements("models")), Selector())) == 101


async def test_what_no_longer_counts_is_forgotten_in_every_namespace(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = RefusalReports(served.client, Owners(served.client))
    assert all(reports._has_room(f"preview-{number}", ray("r", "uid-r")) for number in range(3))
    assert len(reports._unreadable) == 3
    monkeypatch.setattr(refusals_module, "_UNREADABLE_S", 0.0)
    assert reports._has_room("models", ray("r", "uid-r"))
    assert list(reports._unreadable) == ["models"]


async def test_what_the_server_could_not_take_is_written_when_it_is_back(
    reports: RefusalReports, served: Served
) -> None:
    owner = an_owner(served, "StatefulSet", "chat")
    served.server.fail(faults.respond(503, "?"), times=3)
    reports.report(request(of(owner)), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-chat")))


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(faults.respond(403, '{"reason":"Forbidden"}'), id="a-namespace-that-is-going"),
        pytest.param(faults.respond(404, '{"reason":"NotFound"}'), id="a-namespace-that-is-gone"),
        pytest.param(faults.respond(422, '{"reason":"Invalid"}'), id="a-name-that-cannot-be"),
    ],
)
async def test_what_the_server_will_never_take_is_not_tried_for_ever(
    reports: RefusalReports, served: Served, fault: faults.Act
) -> None:
    owner, other = an_owner(served, "StatefulSet", "chat"), an_owner(served, "StatefulSet", "other")
    served.server.fail(fault, method="POST", times=1)
    reports.report(request(of(owner)), FULL)
    await eventually(lambda: any(each.startswith("POST") for each in served.server.requests))
    reports.report(request(of(other)), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-other")))
    await asyncio.sleep(0.25)  # longer than the first retry would wait
    assert refusals(served, "statefulset-chat") == {}
    assert sum(each.startswith("POST") for each in served.server.requests) == 2


@pytest.mark.parametrize("name", ["a/b", "%2e", "x" * 300])
async def test_an_owner_whose_name_is_made_up_does_not_hold_up_others(
    reports: RefusalReports, served: Served, name: str
) -> None:
    other = an_owner(served, "StatefulSet", "other")
    reports.report(request(of(OwnerRef("apps/v1", "StatefulSet", name, "uid"))), FULL)
    reports.report(request(of(other)), FULL)
    await eventually(lambda: bool(refusals(served, "statefulset-other")))


@pytest.mark.parametrize("spec", [None, [1], "x", {"priority": "high"}, {"priority": None}], ids=str)
async def test_a_pod_that_was_refused_for_being_none_has_no_priority(
    reports: RefusalReports, served: Served, spec: Any
) -> None:
    owner = an_owner(served, "StatefulSet", "chat")
    reports.report(request({**of(owner).raw(), "spec": spec}), WRONG)
    await eventually(lambda: bool(refusals(served, "statefulset-chat")))
    assert refusals(served, "statefulset-chat")["StatefulSet.chat"]["priority"] == 0


async def test_a_flood_of_refusals_that_cannot_be_written_is_bounded(served: Served) -> None:
    reports = RefusalReports(served.client, Owners(served.client))
    for number in range(2500):
        reports.report(request(of(OwnerRef("apps/v1", "StatefulSet", "chat", f"uid-{number}"))), FULL)
    assert len(reports._pending) == 2000


def _aged(raw: dict[str, Any], since: str) -> dict[str, Any]:
    entry = raw["status"]["refusals"]["StatefulSet.chat"]
    return {**raw, "status": {"refusals": {"StatefulSet.chat": {**entry, "since": since}}}}


async def test_a_quota_that_keeps_it_from_being_written_is_a_warning(
    reports: RefusalReports, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    owner = an_owner(served, "StatefulSet", "chat")
    count = "count/modelplacements.placement.kamiwaza.ai"
    message = f"exceeded quota: few, requested: {count}=1, used: {count}=3, limited: {count}=3"
    body = json.dumps({"reason": "Forbidden", "message": message})
    served.server.fail(faults.respond(403, body), method="POST", path="modelplacements")
    reports.report(request(of(owner)), FULL)
    await eventually(lambda: any(record.levelname == "WARNING" for record in caplog.records))
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    fields = warning.__dict__["fields"]
    assert (warning.getMessage(), fields["workload"]) == ("refusal not reported", "StatefulSet/chat")
    assert (fields["field"], fields["value"]) == (f"ResourceQuota few: spec.hard[{count}]", "3")
