"""The keeper of the `ModelPlacement`s: each says what its workload's pods and refusals say, and tells it as events."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controller.control_recorder import ControlRecorder
from controller.events import Events, EventType
from controller.placement_status import MOST_PLACEMENTS
from controller.placements import Placements
from shared.api import names
from shared.core.ledger import Mark
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts, pod_facts
from shared.kube import paths
from shared.kube.errors import Conflict
from shared.kube.gpunodes import gpu_node as read_gpu_node
from shared.kube.model_placements import patch_status, placement_name
from shared.kube.owners import Owners
from tests.builders import PodBuilder, a_pod
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.serving import eventually
from tests.unit.admission import gpu_node, store
from tests.unit.controlling import NOW, Control, a_refusal, adopt, adopted, an_owner, controlling
from tests.unit.core_builders import entry
from tests.unit.fates import a_crash, a_fate
from tests.unit.scraping import moved
from tests.unit.seating import path_of

ID = "aaaaaaaaaa"


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    """The surroundings of placements that are being kept, with one node."""
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        control.start(keeping(control).run())
        yield control


def keeping(control: Control, events: Events | None = None, recorder: ControlRecorder | None = None) -> Placements:
    return Placements(
        control.served.client,
        control.cluster,
        control.fates,
        control.reports,
        control.owners,
        events or Events(control.served.client, lambda: NOW),
        lambda: NOW,
        recorder=recorder,
    )


ASKING = {
    "metadata": {"annotations": {names.VRAM: "6"}},
    "spec": {"containers": [{"name": "server", "image": "server:1"}]},
}
"""A template of pods."""


def a_deployment(control: Control, replicas: int = 1) -> tuple[OwnerRef, OwnerRef]:
    """A Deployment named `chat` and its ReplicaSet."""
    top = an_owner(control.served, "Deployment", "chat", replicas=replicas, template=ASKING)
    return top, an_owner(control.served, "ReplicaSet", "chat-5d4f", top, replicas=replicas)


async def becomes(control: Control, workload: OwnerRef, expected: str) -> dict[str, Any]:
    """The status once it is in a phase."""
    await eventually(lambda: control.status(workload).get("phase") == expected)
    return control.status(workload)


def told(control: Control, reason: str) -> list[tuple[str, str, int]]:
    """Name of the workload, message and count of the events with a reason."""
    return [
        (event["involvedObject"]["name"], event["message"], event["count"])
        for event in control.events()
        if event["reason"] == reason
    ]


async def test_a_placed_pod_shows_on_its_top_owner(control: Control) -> None:
    top, replica_set = a_deployment(control)
    control.see_pod("chat-1", replica_set, phase="Pending")
    status = await becomes(control, top, "Placed")
    assert (status["wanted"], status["placed"], status["where"]) == (1, 1, "t4 gpu-0 6 GB")
    control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    await eventually(lambda: told(control, "Placed") == [("chat", "pod chat-1 is placed on gpu-0 of t4 with 6 GB", 1)])


@pytest.mark.parametrize("orphaned", [True, False], ids=["as-kubernetes-leaves-it", "before-that-is-noticed"])
async def test_pods_of_an_adopted_replica_set_show_on_the_deployment_that_adopted_it(
    control: Control, orphaned: bool
) -> None:
    old, replica_set = a_deployment(control)
    control.see_pod("chat-1", replica_set)
    await becomes(control, old, "Running")
    if orphaned:
        place = place_of(paths.model_placements("models", placement_name(old)))
        control.objects.set_metadata(place, {"ownerReferences": []})
    new = adopted(control.served, replica_set, old)
    control.see_pod("chat-2", replica_set)
    await eventually(lambda: control.status(new).get("placed") == 2)
    owners = (control.placement(new) or {})["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == [new.uid]


async def test_the_object_that_a_workload_left_behind_goes(control: Control) -> None:
    top, replica_set = a_deployment(control)
    control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    await control.served.client.delete(path_of(top))
    control.objects.set_metadata(place_of(path_of(replica_set)), {"ownerReferences": []})
    control.objects.set_metadata(
        place_of(paths.model_placements("models", placement_name(top))), {"ownerReferences": []}
    )
    await eventually(lambda: control.placement(top) is None)


async def test_how_many_pods_an_owner_has_is_not_known_before_all_have_been_looked_up(tmp_path: Path) -> None:
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        top, replica_set = a_deployment(control)
        other = an_owner(control.served, "ReplicaSet", "other")
        pods = [control.see_pod("chat-1", replica_set), control.see_pod("other-1", other)]
        control.served.server.fail(faults.respond(500), path="replicasets/other", times=1)
        placements = keeping(control)
        assert placements.pods_of("models", top) is None
        control.start(placements.run())
        await eventually(lambda: placements.pods_of("models", top) == pods[:1])


async def test_a_bare_pod_is_its_own_workload(control: Control) -> None:
    pod = a_pod("alone").limited_to({names.card_resource(0): "6"}).on("t4").in_phase("Running")
    uid = store(control.objects, paths.pods("models"), pod.raw())["metadata"]["uid"]
    control.cluster.pod_upserted(replace(pod.facts(), key=uid))
    status = await becomes(control, OwnerRef("v1", "Pod", "alone", uid), "Running")
    assert [each["pod"] for each in status["placements"]] == ["alone"]


async def test_pods_that_were_there_before_it_began_are_reported(tmp_path: Path) -> None:
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        top, replica_set = a_deployment(control)
        control.see_pod("chat-1", replica_set)
        control.start(keeping(control).run())
        await becomes(control, top, "Running")


async def test_a_pod_that_goes_is_no_longer_shown(control: Control) -> None:
    top, replica_set = a_deployment(control)
    pod = control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    control.cluster.pod_deleted(pod.key)
    status = await becomes(control, top, "Pending")
    assert (status["wanted"], status["placed"], status["placements"]) == (1, 0, [])
    assert "where" not in status


async def test_a_refusal_shows_waits_and_is_told(control: Control) -> None:
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    status = await becomes(control, top, "Failed")
    assert (status["reason"], status["lastErrorCode"]) == ("insufficient_capacity", "NoFitError")
    assert status["lastErrorMessage"] == "insufficient_capacity: full"
    waiting = {each["type"]: each["status"] for each in status["conditions"]}
    assert waiting == {"Placed": "False", "Running": "False", "Waiting": "True"}
    await eventually(lambda: told(control, "NoFit") == [("chat", "insufficient_capacity: full", 1)])


async def test_a_refusal_that_repeats_raises_the_count_of_its_event(control: Control) -> None:
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    await eventually(lambda: len(told(control, "NoFit")) == 1)
    await control.refuse(top, replica_set, count=2)
    await eventually(lambda: [count for _, _, count in told(control, "NoFit")] == [2])


async def test_what_did_not_change_is_neither_written_nor_told_again(control: Control) -> None:
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    await eventually(lambda: len(told(control, "NoFit")) == 1)
    await control.seen(top)
    placement = control.placement(top)
    other = an_owner(control.served, "StatefulSet", "other", replicas=1)
    reads = len(control.served.server.requests)
    control.see_pod("other-0", other)
    await control.refuse(top, replica_set)
    await becomes(control, other, "Running")
    await eventually(lambda: any("deployments/chat" in each for each in control.served.server.requests[reads:]))
    assert control.placement(top) == placement
    assert [count for _, _, count in told(control, "NoFit")] == [1]


async def test_a_refusal_ends_when_the_pod_is_placed(control: Control) -> None:
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    await becomes(control, top, "Failed")
    control.see_pod("chat-1", replica_set)
    status = await becomes(control, top, "Running")
    assert status["refusals"] == {}
    assert "lastErrorCode" not in status
    assert "lastErrorMessage" not in status


async def test_a_refusal_stands_while_any_wanted_pod_is_missing(control: Control) -> None:
    top, replica_set = a_deployment(control, replicas=2)
    await control.refuse(top, replica_set)
    control.see_pod("chat-1", replica_set)
    await eventually(lambda: control.status(top).get("placed") == 1)
    status = control.status(top)
    assert (status["phase"], status["wanted"]) == ("Failed", 2)
    assert set(status["refusals"]) == {"ReplicaSet.chat-5d4f"}


async def test_a_pod_that_is_going_does_not_end_the_refusal_of_the_next(control: Control) -> None:
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    control.cluster.pod_upserted(replace(control.see_pod("chat-1", replica_set), terminating=True))
    await eventually(lambda: control.status(top).get("where") == "t4 gpu-0 6 GB (1 leaving)")
    assert control.status(top)["placed"] == 0
    assert set(control.status(top)["refusals"]) == {"ReplicaSet.chat-5d4f"}


@pytest.mark.parametrize("end", ["scaled-down", "deleted"])
async def test_a_refusal_ends_with_the_wish(control: Control, end: str) -> None:
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    await becomes(control, top, "Failed")
    await eventually(lambda: len(told(control, "NoFit")) == 1)
    path = "/apis/apps/v1/namespaces/models/replicasets/chat-5d4f"
    if end == "deleted":
        await control.served.client.delete(path)
    else:
        await control.served.client.merge_patch(path, {"spec": {"replicas": 0}})
    # Nothing tells the controller of that by itself, so a period or the next pod brings it up.
    control.see_pod("chat-0", top)
    status = await becomes(control, top, "Running")
    assert status["refusals"] == {}


async def test_a_refusal_that_comes_back_is_told_again(control: Control) -> None:
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    await eventually(lambda: len(told(control, "NoFit")) == 1)
    pod = control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    control.cluster.pod_deleted(pod.key)
    await control.refuse(top, replica_set)
    await eventually(lambda: [count for _, _, count in told(control, "NoFit")] == [2])


async def test_the_object_of_a_workload_that_is_gone_is_deleted(control: Control) -> None:
    top, replica_set = a_deployment(control)
    pod = control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    await control.seen(top)
    for path in ("deployments/chat", "replicasets/chat-5d4f"):
        await control.served.client.delete(f"/apis/apps/v1/namespaces/models/{path}")
    control.cluster.pod_deleted(pod.key)
    await eventually(lambda: control.placement(top) is None)


async def test_pods_that_outlive_their_workload_get_no_object_for_it(control: Control) -> None:
    top, replica_set = a_deployment(control)
    control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    await control.seen(top)
    await control.served.client.delete("/apis/apps/v1/namespaces/models/deployments/chat")
    control.see_pod("chat-1", replica_set, phase="Pending")
    await eventually(lambda: control.placement(top) is None)
    await control.seen(top)
    control.see_pod("chat-1", replica_set)
    await asyncio.sleep(0.5)
    assert control.placement(top) is None
    assert sum(line.startswith("POST") and "modelplacements" in line for line in control.served.server.requests) == 1


async def test_a_workload_that_was_made_anew_gets_an_object_of_its_own(control: Control) -> None:
    old = an_owner(control.served, "StatefulSet", "chat", replicas=1)
    await control.refuse(old, old)
    await becomes(control, old, "Failed")
    await control.served.client.delete("/apis/apps/v1/namespaces/models/statefulsets/chat")
    new = an_owner(control.served, "StatefulSet", "chat", replicas=1)
    control.see_pod("chat-0", new)
    await becomes(control, new, "Running")
    placement = control.placement(new)
    assert placement is not None
    assert placement["metadata"]["ownerReferences"][0]["uid"] == new.uid
    assert "refusals" not in placement["status"]


async def test_an_object_that_its_workload_left_behind_makes_room_for_that_of_the_next(control: Control) -> None:
    """`kubectl delete --cascade=orphan` takes the reference to the owner off."""
    old = an_owner(control.served, "StatefulSet", "chat", replicas=1)
    await control.refuse(old, old)
    await becomes(control, old, "Failed")
    path = paths.model_placements("models", "statefulset-chat")
    await control.served.client.delete("/apis/apps/v1/namespaces/models/statefulsets/chat")
    await control.served.client.merge_patch(path, {"metadata": {"ownerReferences": None}})
    await eventually(lambda: control.placement(old) is None)
    new = an_owner(control.served, "StatefulSet", "chat", replicas=1)
    control.see_pod("chat-0", new)
    await becomes(control, new, "Running")
    placement = control.placement(new)
    assert placement is not None
    assert placement["metadata"]["ownerReferences"][0]["uid"] == new.uid


async def test_an_owner_of_an_unknown_kind_wants_what_was_seen_of_it(control: Control) -> None:
    top = OwnerRef("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "chat", "uid-lws")
    await control.refuse(top, top)
    status = await becomes(control, top, "Failed")
    assert status["wanted"] == 1
    await eventually(lambda: told(control, "NoFit") == [("chat", "insufficient_capacity: full", 1)])


async def test_pods_of_an_owner_of_an_unknown_kind_are_not_shown_for_ever(control: Control) -> None:
    top = OwnerRef("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "chat", "uid-lws")
    pod = control.see_pod("chat-0", top)
    await becomes(control, top, "Running")
    await control.seen(top)
    control.cluster.pod_deleted(pod.key)
    await eventually(lambda: control.placement(top) is None)


async def test_an_owner_of_an_unknown_kind_is_shown_until_its_refusal_and_its_pods_have_gone(control: Control) -> None:
    top = OwnerRef("ray.io/v1", "RayCluster", "chat", "uid-ray")
    head = control.see_pod("chat-head", top)
    await becomes(control, top, "Running")
    await control.refuse(top, top)
    status = await becomes(control, top, "Failed")
    assert (status["placed"], status["wanted"]) == (1, 2)
    worker = control.see_pod("chat-worker", top, created="2026-11-30T09:59:30Z")
    status = await becomes(control, top, "Running")
    assert (status["placed"], status["wanted"], status["refusals"]) == (2, 2, {})
    await control.seen(top)
    for pod in (head, worker):
        control.cluster.pod_deleted(pod.key)
    await eventually(lambda: control.placement(top) is None)


async def test_a_refusal_of_an_owner_of_an_unknown_kind_that_is_not_repeated_leaves_no_object(control: Control) -> None:
    top = OwnerRef("ray.io/v1", "RayCluster", "chat", "uid-ray")
    await control.refuse(top, top, last="2026-11-30T09:50:00Z")
    await eventually(lambda: control.placement(top) is None)


async def test_a_refusal_that_comes_while_its_object_is_deleted_is_kept(control: Control) -> None:
    top = OwnerRef("ray.io/v1", "RayCluster", "chat", "uid-ray")

    async def refuse_again(request: Any, proceed: Any) -> Any:
        await patch_status(control.served.client, "models", top, {"refusals": {"RayCluster.chat": a_refusal(top)}})
        return await proceed(request)

    control.served.server.fail(refuse_again, method="DELETE", path="modelplacements")
    await control.refuse(top, top, last="2026-11-30T09:50:00Z")
    await becomes(control, top, "Failed")


async def test_an_object_that_goes_while_it_is_written_is_nothing_to_report(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    _, replica_set = a_deployment(control)
    control.served.server.fail(
        faults.respond(404, '{"reason":"NotFound"}'), method="PATCH", path="modelplacements", times=2
    )
    control.see_pod("chat-1", replica_set)
    await eventually(lambda: "workload not reported" in caplog.messages)
    assert [record.message for record in caplog.records if record.levelno > logging.INFO] == []


async def test_an_object_that_somebody_deletes_is_written_again(control: Control) -> None:
    top, replica_set = a_deployment(control)
    control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    await control.served.client.delete(paths.model_placements("models", "deployment-chat"))
    await becomes(control, top, "Running")


async def test_a_workload_without_trouble_is_not_looked_at_again_soon(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.placements._TROUBLED_PERIOD_S", 0.1)
    other = an_owner(control.served, "StatefulSet", "other", replicas=1)
    control.see_pod("other-0", other)
    await becomes(control, other, "Running")
    await control.seen(other)
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    await becomes(control, top, "Failed")

    async def looked(times: int) -> None:
        """Waits until the one in trouble was looked at so often from now on."""
        before = len(control.served.server.requests)
        await eventually(
            lambda: sum("deployments/chat" in each for each in control.served.server.requests[before:]) >= times
        )

    await looked(10)  # so long that whatever was still to be done for the other one is done
    before = len(control.served.server.requests)
    await looked(10)
    assert not any("statefulsets/other" in each for each in control.served.server.requests[before:])


async def test_a_workload_that_lacks_a_pod_is_looked_at_again_soon(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.placements._TROUBLED_PERIOD_S", 0.1)
    top, replica_set = a_deployment(control)
    pod = control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    control.cluster.pod_deleted(pod.key)
    await becomes(control, top, "Pending")
    await asyncio.sleep(0.5)  # whatever was still to be done for it
    await control.served.client.merge_patch(
        "/apis/apps/v1/namespaces/models/deployments/chat", {"spec": {"replicas": 0}}
    )
    await becomes(control, top, "Idle")


async def test_what_is_remembered_of_told_refusals_ends_with_the_workload(control: Control) -> None:
    top, replica_set = a_deployment(control)
    placements = keeping(control)
    await control.refuse(top, replica_set)
    await placements.reconcile(("models", top))
    assert set(placements._told) == {top.uid}
    await control.seen(top)
    await control.served.client.delete("/apis/apps/v1/namespaces/models/deployments/chat")
    await placements.reconcile(("models", top))
    assert placements._told == {}


async def test_why_the_last_one_is_missing_is_told_however_many_pods_were_placed_before(control: Control) -> None:
    top = an_owner(control.served, "StatefulSet", "chat", replicas=31)
    for number in range(30):
        control.see_pod(f"chat-{number:02}", top, gb=1)
        if number % 10 == 0:
            await eventually(lambda count=number + 1: control.status(top).get("placed") == count)  # type: ignore[misc]
    await control.refuse(top, top)
    await eventually(lambda: told(control, "NoFit") == [("chat", "insufficient_capacity: full", 1)])


async def test_a_warning_that_was_held_back_is_told_at_the_next_look(control: Control) -> None:
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    now = [NOW]
    events = Events(control.served.client, lambda: now[0])
    for number in range(30):
        await events.emit("models", top, EventType.NORMAL, "Other", f"{number}")
    await eventually(lambda: len(told(control, "NoFit")) == 1)
    other = keeping(control, events)
    await other.reconcile(("models", top))
    assert [count for _, _, count in told(control, "NoFit")] == [1]
    now[0] += timedelta(seconds=30)
    for _ in range(2):
        await other.reconcile(("models", top))
        assert [count for _, _, count in told(control, "NoFit")] == [2]


def preempts(control: Control, mark: Mark = Mark.PREEMPTING, version: str = "2") -> None:
    """What the ledger of t4 says of the pod `urgent`."""
    raw = gpu_node("t4", 16, reservations={ID: replace(entry({0: 12}), mark=mark).encode()})
    metadata = {**raw["metadata"], "uid": "uid-t4", "resourceVersion": version}
    control.cluster.gpu_node_upserted(read_gpu_node({**raw, "metadata": metadata}, exclusive=False))


def urgent(owner: OwnerRef) -> PodBuilder:
    pod = a_pod("urgent").limited_to({names.card_resource(0): "12"}).label(names.RESERVATION, ID)
    return pod.owned_by(owner.kind, owner.name, owner.uid).spec(priority=100).pinned_to("t4")


async def test_a_pod_that_waits_for_others_to_leave_is_told_as_such_and_then_as_placed(control: Control) -> None:
    control.see_pod("low-1", None)
    control.see_pod("low-2", None)
    top = an_owner(control.served, "StatefulSet", "chat", replicas=1)
    preempts(control)
    control.cluster.pod_upserted(urgent(top).facts())
    status = await becomes(control, top, "Pending")
    assert status["where"] == "t4 gpu-0 12 GB (1 waiting for others to leave)"
    message = "pod urgent gets gpu-0 of t4 with 12 GB as soon as 2 pods of lower priority have left"
    await eventually(lambda: told(control, "Preempting") == [("chat", message, 1)])
    assert told(control, "Placed") == []
    await control.seen(top)
    preempts(control, Mark.NONE, "3")
    control.cluster.pod_upserted(urgent(top).on("t4").in_phase("Running").facts())
    await becomes(control, top, "Running")
    await eventually(lambda: told(control, "Placed") == [("chat", "pod urgent is placed on gpu-0 of t4 with 12 GB", 1)])
    assert len(told(control, "Preempting")) == 1


async def test_a_ledger_that_is_seen_after_the_pod_is_heeded(control: Control) -> None:
    top = an_owner(control.served, "StatefulSet", "chat", replicas=1)
    control.cluster.pod_upserted(urgent(top).facts())
    await becomes(control, top, "Placed")
    await control.seen(top)
    preempts(control)
    status = await becomes(control, top, "Pending")
    placed = next(each for each in status["conditions"] if each["type"] == "Placed")
    assert placed["reason"] == "WaitsForOthersToLeave"


async def test_a_pod_that_shuts_down_does_not_count_as_running(control: Control) -> None:
    top, replica_set = a_deployment(control)
    pod = control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    control.cluster.pod_upserted(replace(pod, terminating=True))
    status = await becomes(control, top, "Pending")
    assert {each["type"]: each["status"] for each in status["conditions"]}["Running"] == "False"
    control.cluster.pod_deleted(pod.key)
    await eventually(lambda: [each["uid"] for each in control.status(top).get("history", ())] == [pod.key])


async def test_a_workload_that_is_being_deleted_wants_nothing(control: Control) -> None:
    top, replica_set = a_deployment(control)
    pod = control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    going = {"deletionTimestamp": "2026-11-30T10:00:00Z", "finalizers": ["foregroundDeletion"]}
    place = place_of("/apis/apps/v1/namespaces/models/deployments/chat")
    control.objects.update(place, lambda raw: {**raw, "metadata": {**raw["metadata"], **going}})
    control.cluster.pod_upserted(replace(pod, terminating=True))
    status = await becomes(control, top, "Idle")
    assert (status["wanted"], status["placed"]) == (0, 0)


def crashed(control: Control, pod: PodFacts, phase: str = "Running", **crash: Any) -> None:
    """A container of a pod is seen to have died for lack of a card's memory."""
    fate = a_fate(pod.name, phase, [a_crash(**crash)], owner=pod.owner, created=pod.created)
    control.fates.seen(pod.key, replace(fate, key=pod.key))


async def test_each_death_for_lack_of_memory_is_counted_once(tmp_path: Path) -> None:
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        top, replica_set = a_deployment(control)
        recorder = ControlRecorder()
        control.start(keeping(control, recorder=recorder).run())
        pod = control.see_pod("chat-1", replica_set)
        crashed(control, pod)
        await eventually(lambda: [count for _, _, count in told(control, "OOM")] == [1])
        await control.seen(top)
        control.see_pod("chat-2", replica_set)
        await eventually(lambda: control.status(top).get("placed") == 2)
        assert moved(recorder, "placement_out_of_memory_total") == {("OOM",): 1}
        crashed(control, pod, at="2026-11-30T09:45:00Z")
        await eventually(lambda: [count for _, _, count in told(control, "OOM")] == [2])
        assert moved(recorder, "placement_out_of_memory_total") == {("OOM",): 2}


async def test_a_container_that_ran_out_of_memory_shows_and_is_told_on_the_top_owner(control: Control) -> None:
    top, replica_set = a_deployment(control)
    pod = control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    crashed(control, pod)
    await eventually(lambda: control.status(top).get("lastErrorCode") == "OOM")
    status = control.status(top)
    assert (status["phase"], status["placements"][0]["running"]) == ("Placed", False)
    assert status["lastErrorMessage"].startswith("container server of pod chat-1 ran out of GPU memory on gpu-0 of t4")
    await eventually(lambda: told(control, "OOM") == [("chat", status["lastErrorMessage"], 1)])
    crashed(control, pod, at="2026-11-30T09:45:00Z")
    await eventually(lambda: [count for _, _, count in told(control, "OOM")] == [2])


async def test_a_pod_without_a_place_is_told_before_one_that_ran_out_of_memory(control: Control) -> None:
    top, replica_set = a_deployment(control, replicas=2)
    crashed(control, control.see_pod("chat-1", replica_set))
    await eventually(lambda: control.status(top).get("lastErrorCode") == "OOM")
    await control.refuse(top, replica_set)
    await becomes(control, top, "Failed")
    assert control.status(top)["lastErrorCode"] == "NoFitError"
    assert control.status(top)["outOfMemory"]["pod"] == "chat-1"


async def test_lack_of_memory_is_forgotten_once_the_container_has_served_for_long(control: Control) -> None:
    top, replica_set = a_deployment(control)
    pod = control.see_pod("chat-1", replica_set)
    crashed(control, pod)
    await eventually(lambda: control.status(top).get("lastErrorCode") == "OOM")
    crashed(control, pod, running_since="2026-11-30T09:45:00Z", ready=True)
    await eventually(lambda: "lastErrorCode" not in control.status(top))
    assert "outOfMemory" not in control.status(top)
    assert control.status(top)["phase"] == "Running"


async def test_the_pod_of_a_job_that_failed_for_lack_of_memory_is_reported_though_it_holds_nothing(
    control: Control,
) -> None:
    job = an_owner(control.served, "Job", "train", api="batch/v1", parallelism=1)
    pod = control.see_pod("train-x", job)
    crashed(control, pod, phase="Failed")
    control.cluster.pod_deleted(pod.key)
    await eventually(lambda: control.status(job).get("lastErrorCode") == "OOM")
    assert [(each["pod"], each["ended"]) for each in control.status(job)["history"]] == [("train-x", "OOM")]
    assert control.status(job)["placed"] == 0


async def test_how_placements_ended_is_remembered_over_a_change_of_controllers(tmp_path: Path) -> None:
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        first = control.start(keeping(control).run())
        top, replica_set = a_deployment(control)
        pods = [control.see_pod(f"chat-{number}", replica_set) for number in range(3)]
        await eventually(lambda: control.status(top).get("placed") == 3)
        control.cluster.pod_deleted(pods[0].key)
        await eventually(lambda: control.status(top).get("placed") == 2)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        control.cluster.pod_deleted(pods[1].key)
        control.start(keeping(control).run())
        await eventually(lambda: control.status(top).get("placed") == 1)
        history = control.status(top)["history"]
        assert sorted((each["pod"], each["ended"]) for each in history) == [
            ("chat-0", "Deleted"),
            ("chat-1", "Deleted"),
        ]
        assert history[0]["since"] == "2026-11-30T09:30:00Z"


@pytest.mark.parametrize("sees_it_run", [True, False], ids=["seen-running", "found-finished"])
async def test_a_bare_pod_that_finishes_before_its_first_report_is_reported_whoever_leads(
    tmp_path: Path, *, sees_it_run: bool
) -> None:
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        pod = a_pod("alone").limited_to({names.card_resource(0): "6"}).on("t4").in_phase("Running")
        uid = store(control.objects, paths.pods("models"), pod.raw())["metadata"]["uid"]
        if sees_it_run:
            control.start(keeping(control).run())
            control.cluster.pod_upserted(replace(pod.facts(), key=uid))
        finished = {"status": {"phase": "Succeeded"}}
        control.objects.update(
            place_of(paths.status_of(paths.pods("models", "alone"))), lambda raw: {**raw, **finished}
        )
        control.fates.seen(uid, replace(a_fate("alone", "Succeeded"), key=uid))
        control.cluster.pod_deleted(uid)
        if not sees_it_run:
            control.start(keeping(control).run())
        status = await becomes(control, OwnerRef("v1", "Pod", "alone", uid), "Idle")
        assert [(each["pod"], each["ended"]) for each in status["history"]] == [("alone", "Finished")]


async def test_a_controller_that_has_just_begun_does_not_take_pods_for_gone_that_it_has_not_assigned_yet(
    tmp_path: Path,
) -> None:
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        top, replica_set = a_deployment(control)
        first = control.start(keeping(control).run())
        control.see_pod("chat-1", replica_set)
        await becomes(control, top, "Running")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await control.seen(top)
        before = control.placement(top)
        await keeping(control).reconcile(("models", top))
        assert control.placement(top) == before


async def test_a_controller_that_has_just_begun_counts_also_the_pods_for_which_the_status_has_no_room(
    tmp_path: Path,
) -> None:
    async with controlling(tmp_path) as control:
        control.see_node("t4", 240)
        many = MOST_PLACEMENTS + 5
        top, replica_set = a_deployment(control, many)
        first = control.start(keeping(control).run())
        for number in range(many):
            control.see_pod(f"chat-{number}", replica_set)
        await becomes(control, top, "Running")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await control.seen(top)
        before = control.objects.version
        control.see_pod("chat-one-more", replica_set)
        control.start(keeping(replace(control, owners=Owners(control.served.client))).run())
        await eventually(lambda: control.status(top)["placed"] == many + 1)
        written = control.objects.changes_after(before, place_of(paths.model_placements()))
        assert [change.after["status"]["placed"] for change in written if change.after] == [many + 1]


async def test_a_second_controller_counts_an_event_of_the_first_on(tmp_path: Path) -> None:
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        top, replica_set = a_deployment(control)
        first = control.start(keeping(control).run())
        await control.refuse(top, replica_set)
        await eventually(lambda: [count for _, _, count in told(control, "NoFit")] == [1])
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        control.start(keeping(control).run())
        await eventually(lambda: [count for _, _, count in told(control, "NoFit")] == [2])


async def test_a_pod_that_comes_again_under_its_name_is_told_of_again(control: Control) -> None:
    top = an_owner(control.served, "StatefulSet", "chat", replicas=1)
    pod = control.see_pod("chat-0", top)
    await becomes(control, top, "Running")
    await control.seen(top)
    control.cluster.pod_deleted(pod.key)
    control.cluster.pod_upserted(replace(pod, key="uid-later"))
    await eventually(lambda: [count for _, _, count in told(control, "Placed")] == [2])
    await eventually(lambda: [each["uid"] for each in control.status(top)["history"]] == [pod.key])


async def test_two_owners_of_one_workload_are_judged_each_by_its_own_pods(control: Control) -> None:
    top = an_owner(control.served, "Deployment", "chat", replicas=1)
    old = an_owner(control.served, "ReplicaSet", "chat-old", top, replicas=1)
    new = an_owner(control.served, "ReplicaSet", "chat-new", top, replicas=1)
    control.see_pod("chat-old-1", old)
    await control.refuse(top, new)
    status = await becomes(control, top, "Failed")
    assert set(status["refusals"]) == {"ReplicaSet.chat-new"}
    assert status["placed"] == 1


async def test_a_write_that_meets_another_is_made_again(control: Control) -> None:
    top, replica_set = a_deployment(control)
    control.served.server.fail(faults.respond(409, '{"reason":"Conflict"}'), method="PATCH", path="modelplacements")
    control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")


async def test_many_placements_do_not_make_many_events_again(control: Control) -> None:
    top = an_owner(control.served, "StatefulSet", "chat", replicas=21)
    for number in range(21):
        control.see_pod(f"chat-{number:02}", top, gb=1)
    await eventually(lambda: control.status(top).get("placed") == 21)
    await eventually(lambda: bool(told(control, "Placed")))
    before = told(control, "Placed")
    await control.seen(top)
    control.see_pod("chat-00", top, gb=1, phase="Pending")
    await becomes(control, top, "Placed")
    assert told(control, "Placed") == before
    assert len(before) < 21  # those of one round are told together


async def test_a_pod_whose_owner_could_not_be_read_at_first_counts_for_one_workload_only(control: Control) -> None:
    top, replica_set = a_deployment(control)
    control.served.server.fail(faults.respond(403, '{"reason":"Forbidden"}'), method="GET", path="replicasets", times=2)
    control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    assert control.placement(replica_set) is None


async def test_what_was_left_behind_is_told_of_the_one_that_adopts_it_later(control: Control) -> None:
    old, replica_set = a_deployment(control)
    control.see_pod("chat-1", replica_set)
    await becomes(control, old, "Running")
    control.objects.set_metadata(place_of(path_of(replica_set)), {"ownerReferences": []})
    control.objects.delete(place_of(path_of(old)), {})
    control.see_pod("chat-1", replica_set, phase="Pending")
    await becomes(control, replica_set, "Placed")
    new = an_owner(control.served, "Deployment", "chat", replicas=1)
    adopt(control.served, path_of(replica_set), new)
    control.see_pod("chat-1", replica_set)
    await becomes(control, new, "Running")
    await eventually(lambda: control.placement(replica_set) is None)


async def test_a_refusal_from_before_the_adoption_does_not_keep_the_report_of_what_was_adopted(
    control: Control,
) -> None:
    bare = an_owner(control.served, "ReplicaSet", "chat-5d4f", replicas=2)
    control.see_pod("chat-1", bare)
    await control.refuse(bare, bare)
    await becomes(control, bare, "Failed")
    new = an_owner(control.served, "Deployment", "chat", replicas=2)
    adopt(control.served, path_of(bare), new)
    for name in ("chat-1", "chat-2"):
        control.see_pod(name, bare)
    await becomes(control, new, "Running")
    await eventually(lambda: control.placement(bare) is None)


async def test_while_an_owner_may_not_be_read_its_pods_are_reported_and_its_refusals_stay(control: Control) -> None:
    top, replica_set = a_deployment(control, replicas=2)
    control.see_pod("chat-1", replica_set)
    await control.refuse(top, replica_set)
    await becomes(control, top, "Failed")
    control.served.server.fail(faults.respond(403, '{"reason":"Forbidden"}'), method="GET", path="deployments", times=9)
    control.see_pod("chat-2", replica_set)
    await eventually(lambda: control.status(top)["placed"] == 2)
    assert control.status(top)["phase"] == "Failed"
    assert set(control.status(top)["refusals"]) == {"ReplicaSet.chat-5d4f"}


async def test_of_two_workloads_of_one_name_the_report_is_that_of_the_first_as_long_as_it_is_there(
    control: Control,
) -> None:
    first = OwnerRef("batch.volcano.sh/v1alpha1", "Job", "train", "uid-volcano")
    pod = control.see_pod("train-a", first)
    before = await becomes(control, first, "Running")
    second = an_owner(control.served, "Job", "train", None, "batch/v1", parallelism=1, completions=1)
    other = keeping(control)
    with pytest.raises(Conflict):  # after which the queue waits longer each time
        await other.reconcile(("models", second))
    assert control.status(first) == before
    control.cluster.pod_deleted(pod.key)
    await eventually(lambda: control.placement(first) is None)
    await eventually(lambda: control.reports.of("models", second) is None)
    await other.reconcile(("models", second))
    assert control.status(second)["phase"] == "Pending"


async def test_what_was_told_of_a_bare_pod_goes_once_an_owner_has_adopted_it(control: Control) -> None:
    pod = a_pod("steady-0").limited_to({names.card_resource(0): "6"}).on("t4").in_phase("Running")
    path = paths.pods("models", "steady-0")
    uid = store(control.objects, paths.pods("models"), pod.raw())["metadata"]["uid"]
    bare = OwnerRef("v1", "Pod", "steady-0", uid)

    def see() -> None:
        facts = pod_facts(control.objects.get(place_of(path)))
        assert facts is not None
        control.cluster.pod_upserted(facts)

    see()
    await becomes(control, bare, "Running")
    owner = an_owner(control.served, "StatefulSet", "steady", None, replicas=1)
    adopt(control.served, path, owner)
    see()
    await becomes(control, owner, "Running")
    await eventually(lambda: control.placement(bare) is None)


async def test_a_pod_that_goes_while_its_owners_are_looked_up_counts_for_none(control: Control) -> None:
    top, replica_set = a_deployment(control)

    async def go(request: Any, proceed: Any) -> Any:
        control.cluster.pod_deleted(pod.key)
        return await proceed(request)

    control.served.server.fail(go, method="GET", path="replicasets")
    pod = control.see_pod("chat-1", replica_set)
    other = an_owner(control.served, "StatefulSet", "other", replicas=1)
    await eventually(lambda: control.cluster.pod(pod.key) is None)
    control.see_pod("other-0", other)
    await becomes(control, other, "Running")
    assert control.placement(top) is None


async def test_what_the_pods_of_a_template_were_warned_of_is_one_event(control: Control) -> None:
    top, replica_set = a_deployment(control, replicas=2)
    for name in ("chat-1", "chat-2"):
        control.see_pod(name, replica_set, warnings=("container main: beware",))
    await eventually(lambda: bool(told(control, "PlacementWarning")))
    await eventually(lambda: control.status(top).get("placed") == 2)
    (event,) = [each for each in control.events() if each["reason"] == "PlacementWarning"]
    assert (event["type"], event["message"]) == ("Warning", "container main: beware")


async def test_what_could_not_be_told_when_it_was_shown_is_told_later(control: Control) -> None:
    top, replica_set = a_deployment(control)
    control.served.server.fail(faults.respond(503), method="POST", path="events", times=3)
    control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    await eventually(lambda: told(control, "Placed") == [("chat", "pod chat-1 is placed on gpu-0 of t4 with 6 GB", 1)])


@pytest.mark.parametrize("fault", [faults.lose_answer(), faults.respond(503)], ids=["shown", "not-shown"])
async def test_what_may_be_shown_though_there_was_no_answer_is_told_once(control: Control, fault: faults.Act) -> None:
    async def there_is_none(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        return await proceed(request)

    top, replica_set = a_deployment(control)
    control.served.server.fail(there_is_none, method="PATCH", path="modelplacements")
    control.served.server.fail(fault, method="PATCH", path="modelplacements")
    control.see_pod("chat-1", replica_set)
    await becomes(control, top, "Running")
    once = [("chat", "pod chat-1 is placed on gpu-0 of t4 with 6 GB", 1)]
    await eventually(lambda: told(control, "Placed") == once, within_s=30.0)
    await asyncio.sleep(0.3)
    assert told(control, "Placed") == once


async def test_a_refusal_that_a_webhook_reports_between_look_and_write_is_not_erased(control: Control) -> None:
    """The first is over, its pod has come. Meanwhile the workload was scaled up, and its second pod is refused."""
    top, replica_set = a_deployment(control)
    await control.refuse(top, replica_set)
    await becomes(control, top, "Failed")
    await eventually(lambda: len(told(control, "NoFit")) == 1)
    await control.seen(top)

    async def refuse_the_next(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        for owner in (top, replica_set):
            control.objects.update(
                place_of(path_of(owner)), lambda raw: {**raw, "spec": {**raw["spec"], "replicas": 2}}
            )
        report = paths.status_of(paths.model_placements("models", placement_name(top)))
        refusals = {"ReplicaSet.chat-5d4f": a_refusal(replica_set, count=2)}
        control.objects.update(place_of(report), lambda raw: {**raw, "status": {**raw["status"], "refusals": refusals}})
        return await proceed(request)

    control.served.server.fail(refuse_the_next, method="PATCH", path="modelplacements")
    control.see_pod("chat-1", replica_set)
    await eventually(lambda: control.status(top).get("placed") == 1)
    status = control.status(top)
    assert (status["phase"], status["wanted"]) == ("Failed", 2)
    assert status["refusals"]["ReplicaSet.chat-5d4f"]["count"] == 2


async def test_at_rest_nothing_is_sent_to_be_written(tmp_path: Path) -> None:
    """A write that changes nothing makes no new version, and is a request all the same."""
    async with controlling(tmp_path) as control:
        top, replica_set = a_deployment(control)
        await control.refuse(top, replica_set)
        placements = keeping(control)
        await placements.reconcile(("models", top))
        await control.seen(top)
        before = len(control.served.server.requests)
        for _ in range(3):
            await placements.reconcile(("models", top))
        sent = control.served.server.requests[before:]
        assert sum("deployments/chat" in each for each in sent) >= 3
        assert [each for each in sent if not each.startswith("GET")] == []


class TestDeletedReports:
    """The objects are the list of who waits: one that is deleted does not take a living workload off it."""

    async def refused(self, control: Control, **fields: Any) -> tuple[OwnerRef, OwnerRef]:
        """A Deployment of which a pod was refused, and that is told; and its ReplicaSet."""
        top, replica_set = a_deployment(control)
        await control.refuse(top, replica_set, **fields)
        await becomes(control, top, "Failed")
        await eventually(lambda: len(told(control, "NoFit")) == 1)
        await control.seen(top)
        return top, replica_set

    async def delete_report(self, control: Control, workload: OwnerRef) -> str:
        """Deletes it as a person does; its uid."""
        uid = str((control.placement(workload) or {})["metadata"]["uid"])
        await control.served.client.delete(paths.model_placements("models", placement_name(workload)))
        return uid

    async def test_what_was_refused_waits_on_as_long_as_before(self, control: Control) -> None:
        top, replica_set = await self.refused(control, count=7)
        before = control.status(top)
        for _ in range(2):
            uid = await self.delete_report(control, top)
            await becomes(control, top, "Failed")
            assert (control.placement(top) or {})["metadata"]["uid"] != uid
            await control.seen(top)
        assert (
            control.status(top)["refusals"]
            == {"ReplicaSet.chat-5d4f": a_refusal(replica_set, count=7)}
            == before["refusals"]
        )
        waits = {each["type"]: each["status"] for each in control.status(top)["conditions"]}
        assert waits["Waiting"] == "True"
        assert told(control, "NoFit") == [("chat", "insufficient_capacity: full", 1)]

    async def test_that_of_a_workload_that_may_not_be_read_stays_deleted(self, control: Control) -> None:
        """It may be gone: then the garbage collector would delete it as often as it was made."""
        top, _ = await self.refused(control)
        forbidden = faults.respond(403, '{"reason":"Forbidden"}')
        control.served.server.fail(forbidden, method="GET", path="deployments", times=1000)
        before = len(control.served.server.requests)
        await self.delete_report(control, top)
        await eventually(lambda: any("GET" in each for each in control.served.server.requests[before:]))
        later = an_owner(control.served, "StatefulSet", "later", template=ASKING)
        await control.refuse(later, later)
        await becomes(control, later, "Failed")
        assert control.placement(top) is None

    async def test_one_that_is_refused_anew_has_waited_since_the_first(self, control: Control) -> None:
        top, replica_set = await self.refused(control)
        await self.delete_report(control, top)
        newer = {"last": "2026-11-30T10:00:00Z", "message": "newer"}
        await control.refuse(top, replica_set, since="2026-11-30T10:00:00Z", **newer)
        refusals = {"ReplicaSet.chat-5d4f": a_refusal(replica_set, **newer)}
        await eventually(lambda: control.status(top).get("refusals") == refusals)
        await becomes(control, top, "Failed")

    async def test_one_that_was_placed_meanwhile_waits_no_longer(self, control: Control) -> None:
        top, replica_set = await self.refused(control)
        control.see_pod("chat-1", replica_set)
        await self.delete_report(control, top)
        status = await becomes(control, top, "Running")
        assert not status.get("refusals")

    @pytest.mark.parametrize("end", ["deleted", "being-deleted"])
    async def test_a_workload_that_goes_takes_it_along(self, control: Control, end: str) -> None:
        top, _ = await self.refused(control)
        if end == "deleted":
            await control.served.client.delete(path_of(top))
        else:
            control.objects.set_metadata(place_of(path_of(top)), {"deletionTimestamp": "2026-11-30T10:00:00Z"})
        await self.delete_report(control, top)
        other = an_owner(control.served, "StatefulSet", "other", replicas=1)
        control.see_pod("other-0", other)
        await becomes(control, other, "Running")
        await asyncio.sleep(0.5)
        assert not control.status(top).get("refusals")

    async def test_of_a_workload_that_cannot_be_read_it_is_not_written_again(self, control: Control) -> None:
        """It may be gone, and the object would be collected again and again."""
        ray = OwnerRef("ray.io/v1", "RayCluster", "chat", "uid-ray")
        await control.refuse(ray, ray)
        await becomes(control, ray, "Failed")
        await self.delete_report(control, ray)
        await asyncio.sleep(0.5)
        assert control.placement(ray) is None

    async def test_what_cannot_be_written_now_is_written_later(
        self, control: Control, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("controller.placements._TROUBLED_PERIOD_S", 0.2)
        top, _ = await self.refused(control)
        count = "count/modelplacements.placement.kamiwaza.ai"
        message = f"exceeded quota: few, requested: {count}=1, used: {count}=3, limited: {count}=3"
        body = json.dumps({"reason": "Forbidden", "message": message})
        control.served.server.fail(faults.respond(403, body), method="POST", path="modelplacements", times=3)
        await self.delete_report(control, top)
        await becomes(control, top, "Failed")
        (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
        fields = warning.__dict__["fields"]
        assert (warning.getMessage(), fields["workload"]) == ("workload not reported", "Deployment/chat")
        assert (fields["field"], fields["value"]) == (f"ResourceQuota few: spec.hard[{count}]", "3")


class TestCreatedPastTheWebhook:
    """While the namespace was not opted in."""

    async def test_a_refusal_ends_with_the_pod_and_it_is_told_that_it_has_no_place(
        self, control: Control, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("controller.placements._TROUBLED_PERIOD_S", 0.2)
        monkeypatch.setattr("controller.unplaced._LAG_S", 0.3)
        top, replica_set = a_deployment(control)
        await control.refuse(top, replica_set)
        await becomes(control, top, "Failed")
        for owner in (top, replica_set):
            await control.says(owner, replicas=1, updatedReplicas=1)
        status = await becomes(control, top, "Pending")
        assert status["refusals"] == {}
        await eventually(lambda: control.status(top).get("where") == "(1 without a place)")
        conditions = {each["type"]: each for each in control.status(top)["conditions"]}
        assert conditions["Placed"]["reason"] == "CreatedWithoutAPlace"
        assert conditions["Waiting"]["status"] == "False"

    async def test_a_dead_pod_that_still_is_there_was_placed(
        self, control: Control, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Some kinds say that they have it."""
        monkeypatch.setattr("controller.placements._TROUBLED_PERIOD_S", 0.1)
        monkeypatch.setattr("controller.unplaced._LAG_S", 0.0)
        top = an_owner(control.served, "StatefulSet", "chat", replicas=2, template=ASKING)
        pod = control.see_pod("chat-0", top)
        control.see_pod("chat-1", top)
        await becomes(control, top, "Running")
        await control.says(top, replicas=2, updatedReplicas=2)
        control.fates.seen(pod.key, replace(a_fate("chat-0", "Failed", owner=top), key=pod.key))
        control.cluster.pod_deleted(pod.key)
        await becomes(control, top, "Pending")
        await asyncio.sleep(0.5)
        assert control.status(top)["where"] == "t4 gpu-0 6 GB"
