"""Waking: those who would fit now, the most important and oldest first, and nobody twice in a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from controller.control_recorder import ControlRecorder
from controller.waking import Waker
from shared.api import names
from shared.core.ledger import Entry, Mark, owner_hash
from shared.core.nodes import node_facts
from shared.core.owners import OwnerRef
from shared.kube import paths
from shared.kube.owners import Owners
from tests.builders import a_node, a_pod
from tests.fakes import faults
from tests.fakes.serving import eventually
from tests.storage_builders import a_claim, a_class, a_volume, fill
from tests.unit.controlling import NOW, Control, an_owner, controlling, stored
from tests.unit.scraping import value

PLURALS = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "ReplicationController": "v1",
}
RAY: Final = {("ray.io/v1", "RayCluster"): "rayclusters"}


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    """A node with one card of 16 GB."""
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        yield control


def waker(
    control: Control,
    recorder: ControlRecorder | None = None,
    *,
    preemption: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Waker:
    client = control.served.client
    return Waker(
        client,
        control.cluster,
        control.reports,
        control.owners,
        lambda: NOW,
        recorder=recorder,
        preemption=preemption,
        clock=clock,
    )


def ray_waker(control: Control) -> Waker:
    """One that may touch RayClusters."""
    client = control.served.client
    return Waker(client, control.cluster, control.reports, Owners(client, RAY), lambda: NOW, RAY)


def template(gb: str | None = "6", **spec: Any) -> dict[str, Any]:
    annotations = {} if gb is None else {names.VRAM: gb}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main"}], **spec}}


async def waiting(
    control: Control, name: str, gb: str | None = "6", kind: str = "StatefulSet", replicas: int = 1, **refusal: Any
) -> OwnerRef:
    """A workload of which a pod was refused."""
    owner = an_owner(control.served, kind, name, None, PLURALS[kind], replicas=replicas, template=template(gb))
    await control.refuse(owner, owner, **refusal)
    return owner


def woken(control: Control, *owners: OwnerRef) -> list[str]:
    """The names of the owners that were touched."""
    found = []
    for owner in owners:
        kinds = {**RAY, **paths.OWNER_KINDS}
        raw = stored(control.objects, paths.object_path(owner.api_version, owner.kind, "models", owner.name, kinds))
        if raw is not None and names.WOKEN in (raw["metadata"].get("annotations") or {}):
            found.append(owner.name)
    return found


def wakings(control: Control) -> list[str]:
    """What was touched, in order and with repetitions."""
    return [
        each.split("/")[-1]
        for each in control.served.server.requests
        if each.startswith("PATCH") and "modelplacements" not in each
    ]


@pytest.mark.parametrize("kind", sorted(PLURALS))
async def test_an_owner_whose_pod_would_fit_is_touched(control: Control, kind: str) -> None:
    owner = await waiting(control, "chat", kind=kind)
    if kind == "DaemonSet":
        path = "/apis/apps/v1/namespaces/models/daemonsets/chat/status"
        await control.served.client.merge_patch(path, {"status": {"desiredNumberScheduled": 1}})
    await waker(control).walk()
    assert woken(control, owner) == ["chat"]
    raw = stored(control.objects, paths.object_path(PLURALS[kind], kind, "models", "chat"))
    assert raw is not None
    assert raw["metadata"]["annotations"][names.WOKEN] == "2026-11-30T10:00:00.000+00:00"
    assert raw["spec"]["template"] == template()


@pytest.mark.parametrize(
    ("kinds", "touched"),
    [
        pytest.param([("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet")], "ReplicaSet", id="deployment"),
        pytest.param([("batch/v1", "CronJob"), ("batch/v1", "Job")], "Job", id="cron-job"),
        pytest.param(
            [("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ("apps/v1", "StatefulSet")],
            "StatefulSet",
            id="leader-worker-set",
        ),
        pytest.param(
            [("ray.io/v1", "RayService"), ("ray.io/v1", "RayCluster")], None, id="ray-cluster-that-may-not-be-touched"
        ),
    ],
)
async def test_of_a_chain_of_owners_the_one_that_creates_the_pods_is_touched(
    control: Control, kinds: list[tuple[str, str]], touched: str | None
) -> None:
    (top_api, top_kind), (api, kind) = kinds
    top = an_owner(control.served, top_kind, "chat", None, top_api, template=template())
    owner = an_owner(control.served, kind, "chat-1", top, api, replicas=1, template=template())
    await control.refuse(top, owner)
    await waker(control).walk()
    assert wakings(control) == ([] if touched is None else ["chat-1"])
    assert woken(control, owner) == ([] if touched is None else ["chat-1"])


async def test_what_admission_lets_its_pods_tolerate_keeps_none_from_waking(control: Control) -> None:
    """As `ExtendedResourceToleration` does: the template tolerates nothing, its pods do."""
    control.cluster.node_upserted(node_facts(a_node("t4").tainted("nvidia.com/gpu").raw()))
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    owner = await waiting(control, "chat", tolerations=tolerations)
    other = await waiting(control, "bare")
    await waker(control).walk()
    assert woken(control, owner, other) == ["chat"]


def ray_cluster(control: Control, name: str, *gbs: str) -> OwnerRef:
    """A head that asks for nothing, and groups of workers with `gbs` GB."""
    groups = [{"replicas": 1, "template": template(gb)} for gb in gbs]
    spec = {"headGroupSpec": {"template": template(None)}, "workerGroupSpecs": groups}
    return an_owner(control.served, "RayCluster", name, None, "ray.io/v1", **spec)


async def test_a_custom_kind_is_touched_where_the_chart_says_so_and_one_of_its_pods_would_fit(control: Control) -> None:
    large, small = ray_cluster(control, "large", "20", "30"), ray_cluster(control, "small", "20", "6")
    for owner in (large, small):
        await control.refuse(owner, owner)
    waking = ray_waker(control)
    await waking.walk()
    await waking.walk()
    assert wakings(control) == ["small"]
    assert woken(control, large, small) == ["small"]


async def test_the_room_for_a_custom_kind_is_not_promised_to_the_next(control: Control) -> None:
    first, second = ray_cluster(control, "first", "10"), ray_cluster(control, "second", "10")
    await control.refuse(first, first, priority=1)
    await control.refuse(second, second)
    await ray_waker(control).walk()
    assert wakings(control) == ["first"]


async def test_so_many_are_touched_in_a_walk_and_the_rest_in_the_next(control: Control) -> None:
    control.see_node("large", 640)
    for number in range(60):
        await waiting(control, f"chat-{number:02}", "2", priority=-number)
    waking = waker(control)
    await waking.walk()
    assert wakings(control) == [f"chat-{number:02}" for number in range(50)]
    assert waking._due.is_set(), "the next walk does not wait for a change"
    control.start(waking.run())
    await eventually(lambda: {f"chat-{number}" for number in range(50, 60)} <= set(wakings(control)))


async def test_the_next_walk_begins_a_second_later_however_much_changes(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.waking._MOST_WOKEN", 1)
    owners = [await waiting(control, f"chat-{number}", "2") for number in range(3)]
    control.start(waker(control).run())
    times: list[float] = []
    while len(times) < len(owners):
        await eventually(lambda: len(woken(control, *owners)) > len(times))
        times.append(time.monotonic())
        control.see_node(f"n{len(times)}", 16)
    assert min(later - earlier for earlier, later in pairwise(times)) > 0.8


async def test_only_those_who_would_fit_are_touched(control: Control) -> None:
    large, small = await waiting(control, "large", "20"), await waiting(control, "small", "6")
    await waker(control).walk()
    assert woken(control, large, small) == ["small"]


async def test_the_room_that_one_will_take_is_not_promised_to_the_next(control: Control) -> None:
    first = await waiting(control, "first", "10", since="2026-11-30T09:00:00Z")
    second = await waiting(control, "second", "10", since="2026-11-30T09:00:01Z")
    third = await waiting(control, "third", "6", since="2026-11-30T09:00:02Z")
    await waker(control).walk()
    assert woken(control, first, second, third) == ["first", "third"]


@pytest.mark.parametrize(
    ("ranks", "order"),
    [
        pytest.param({"a": (0, "09:00:02"), "b": (0, "09:00:01")}, ["b"], id="the-older-first"),
        pytest.param({"a": (0, "09:00:01"), "b": (10, "09:00:02")}, ["b"], id="the-higher-priority-first"),
        pytest.param({"a": (-5, "09:00:01"), "b": (-10, "09:00:00")}, ["a"], id="negative-priorities-too"),
    ],
)
async def test_where_there_is_room_for_one_the_first_in_rank_gets_it(
    control: Control, ranks: dict[str, tuple[int, str]], order: list[str]
) -> None:
    owners = [
        await waiting(control, name, "10", priority=priority, since=f"2026-11-30T{since}Z")
        for name, (priority, since) in ranks.items()
    ]
    await waker(control).walk()
    assert woken(control, *owners) == order


async def test_room_where_a_daemon_set_has_its_pod_is_for_others(control: Control) -> None:
    """It wants one pod on each node, and on the other there is no room."""
    control.see_node("full", 16)
    control.see_pod("other", None, gb=16, node="full")
    everywhere = await waiting(control, "everywhere", "4", kind="DaemonSet", priority=10)
    path = "/apis/apps/v1/namespaces/models/daemonsets/everywhere/status"
    await control.served.client.merge_patch(path, {"status": {"desiredNumberScheduled": 2}})
    control.see_pod("everywhere-1", everywhere, gb=4)
    later = await waiting(control, "later", "12")
    await waker(control).walk()
    assert woken(control, everywhere, later) == ["later"]


async def test_they_are_touched_in_their_rank(control: Control) -> None:
    for name, priority in (("low", 0), ("high", 10), ("middle", 5)):
        await waiting(control, name, "2", priority=priority)
    await waker(control).walk()
    assert wakings(control) == ["high", "middle", "low"]


async def test_a_malformed_ask_is_never_woken(control: Control) -> None:
    owner = await waiting(control, "chat", reason="invalid_request", waitable=False)
    await waker(control).walk()
    assert woken(control, owner) == []


@pytest.mark.parametrize("gb", ["16GB", None], ids=["a-wrong-ask", "no-ask"])
async def test_a_template_that_cannot_be_placed_is_not_woken(control: Control, gb: str | None) -> None:
    owner = await waiting(control, "chat", gb)
    await waker(control).walk()
    assert woken(control, owner) == []


async def test_an_owner_that_wants_no_more_pods_is_not_woken(control: Control) -> None:
    none = await waiting(control, "none", replicas=0)
    enough = await waiting(control, "enough", replicas=1)
    control.see_pod("enough-0", enough, gb=2)
    await waker(control).walk()
    assert woken(control, none, enough) == []


async def test_a_pod_that_is_going_leaves_its_place_to_be_filled(control: Control) -> None:
    owner = await waiting(control, "chat", "2", replicas=1)
    pod = control.see_pod("chat-0", owner, gb=2)
    control.cluster.pod_upserted(replace(pod, terminating=True))
    await waker(control).walk()
    assert woken(control, owner) == ["chat"]


async def test_every_pod_that_an_owner_lacks_counts_as_placed_before_the_next_owner(control: Control) -> None:
    many = await waiting(control, "many", "8", "ReplicaSet", replicas=2, priority=1)
    other = await waiting(control, "other", "2")
    await waker(control).walk()
    assert woken(control, many, other) == ["many"]


async def test_an_owner_that_gets_only_some_of_its_pods_is_woken_too(control: Control) -> None:
    owner = await waiting(control, "chat", "10", replicas=3)
    await waker(control).walk()
    assert woken(control, owner) == ["chat"]


async def test_an_owner_that_is_gone_is_passed_over(control: Control) -> None:
    gone = OwnerRef("apps/v1", "StatefulSet", "gone", "uid-gone")
    await control.refuse(gone, gone)
    unknown = OwnerRef("example.org/v1", "Model", "chat", "uid-model")
    await control.refuse(unknown, unknown)
    other = await waiting(control, "other")
    await waker(control).walk()
    assert wakings(control) == ["other"]
    assert woken(control, other) == ["other"]


async def test_an_owner_that_may_not_be_touched_does_not_keep_others_from_it(control: Control) -> None:
    first = await waiting(control, "first", "2", priority=1)
    second = await waiting(control, "second", "2")
    control.served.server.fail(faults.respond(403, '{"reason":"Forbidden"}'), method="PATCH", path="first")
    await waker(control).walk()
    assert woken(control, first, second) == ["second"]


async def test_an_error_of_the_server_does_not_end_the_walk(control: Control) -> None:
    first = await waiting(control, "first", "2", priority=1)
    second = await waiting(control, "second", "2")
    control.served.server.fail(faults.respond(503, "?"), method="GET", path="first")
    await waker(control).walk()
    assert woken(control, first, second) == ["second"]


async def test_an_owner_that_cannot_be_read_is_logged_and_does_not_keep_others_waiting(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    first = await waiting(control, "first", "2", priority=1)
    path = f"/apis/{first.api_version}/namespaces/models/statefulsets/first"
    await control.served.client.merge_patch(path, {"spec": {"replicas": "many"}})
    second = await waiting(control, "second", "2")
    await waker(control).walk()
    assert woken(control, first, second) == ["second"]
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [ValueError]


async def test_an_owner_that_was_woken_in_vain_is_left_alone_for_longer_and_longer(control: Control) -> None:
    await waiting(control, "chat")
    time_s = 0.0
    waking = waker(control, clock=lambda: time_s)
    for pause_s, expected in ((0.0, 1), (1.9, 1), (0.2, 2), (3.9, 2), (0.2, 3)):
        time_s += pause_s
        await waking.walk()
        assert len(wakings(control)) == expected


async def test_an_owner_that_got_a_pod_since_is_woken_at_once_and_its_pause_is_short_again(control: Control) -> None:
    owner = await waiting(control, "chat", "2", replicas=8)
    time_s = 0.0
    waking = waker(control, clock=lambda: time_s)
    for pods in range(3):
        await waking.walk()
        await waking.walk()
        assert len(wakings(control)) == pods + 1
        control.see_pod(f"chat-{pods}", owner, gb=2)
    await waking.walk()
    time_s += 2.1
    await waking.walk()
    assert len(wakings(control)) == 5


async def test_one_who_waits_anew_is_woken_at_once(control: Control) -> None:
    owner = await waiting(control, "chat")
    waking = waker(control)
    await waking.walk()
    await control.served.client.merge_patch(
        "/apis/placement.kamiwaza.ai/v1alpha1/namespaces/models/modelplacements/statefulset-chat/status",
        {"status": {"refusals": None}},
    )
    await control.seen(owner)
    await waking.walk()
    await control.refuse(owner, owner)
    await waking.walk()
    assert wakings(control) == ["chat", "chat"]


async def test_a_kept_seat_is_room_for_its_own_workload_only(control: Control) -> None:
    urgent = await waiting(control, "urgent", gb="16", priority=9)
    top = an_owner(control.served, "Deployment", "chat", None, replicas=1)
    owner = an_owner(control.served, "ReplicaSet", "chat-2", top, replicas=1, template=template("16"))
    await control.refuse(top, owner)
    seat = Entry("models", owner_hash(top.uid), 1, ((0, 16),), mark=Mark.KEPT)
    gpu = control.cluster.gpu_node("t4")
    assert gpu is not None
    control.cluster.gpu_node_upserted(replace(gpu, resource_version="2", ledger={"aaaaaaaaaa": seat}))
    await waker(control).walk()
    assert woken(control, urgent, owner) == ["chat-2"]


async def test_one_that_has_a_kept_seat_keeps_no_other_room_from_those_after_it(control: Control) -> None:
    control.see_node("a10", 8)
    top = an_owner(control.served, "Deployment", "chat", None, replicas=1)
    owner = an_owner(control.served, "ReplicaSet", "chat-2", top, replicas=1, template=template("6"))
    await control.refuse(top, owner, priority=9)
    seat = Entry("models", owner_hash(top.uid), 1, ((0, 6),), mark=Mark.KEPT)
    gpu = control.cluster.gpu_node("a10")
    assert gpu is not None
    control.cluster.gpu_node_upserted(replace(gpu, resource_version="2", ledger={"aaaaaaaaaa": seat}))
    other = await waiting(control, "other", gb="12")
    await waker(control).walk()
    assert woken(control, owner, other) == ["chat-2", "other"]


async def test_an_owner_of_which_the_server_failed_is_looked_at_again_soon(control: Control) -> None:
    owner = await waiting(control, "chat")
    control.served.server.fail(faults.respond(503, "?"), method="PATCH", path="chat", times=2)
    control.start(waker(control).run())
    await eventually(lambda: woken(control, owner) == ["chat"], within_s=30.0)


async def test_running_it_wakes_after_a_change_that_makes_room(control: Control) -> None:
    holder = control.see_pod("holder", None, gb=16)
    owner = await waiting(control, "chat")
    control.start(waker(control).run())
    await asyncio.sleep(0)
    control.cluster.pod_deleted(holder.key)
    await eventually(lambda: woken(control, owner) == ["chat"])


async def test_who_could_have_been_woken_before_this_leader_began_is_woken_at_once(control: Control) -> None:
    """The last one may have died between what made the room and its walk: of that nothing tells any more."""
    owner = await waiting(control, "chat")
    control.start(waker(control).run())
    await eventually(lambda: woken(control, owner) == ["chat"], within_s=30.0)


async def test_a_place_of_which_one_makes_nothing_is_for_the_next_though_nothing_else_changes(
    control: Control,
) -> None:
    first = await waiting(control, "first", "12", since="2026-11-30T08:00:00Z")
    other = await waiting(control, "other", "12")
    control.start(waker(control).run())
    await eventually(lambda: woken(control, first, other) == ["first", "other"], within_s=30.0)


@pytest.mark.parametrize(
    "pauses_s", [(0.01, 0.05), (60.0, 0.01), (0.05, 60.0)], ids=["a-longer-one-later", "a-shorter-one", "a-longer-one"]
)
async def test_a_walk_is_due_when_the_earliest_pause_ends_also_after_one_that_has(
    control: Control, pauses_s: tuple[float, float]
) -> None:
    first_s, second_s = pauses_s
    waking = waker(control)
    waking._walk_again_in(first_s)
    if first_s < second_s < 1.0:
        await eventually(waking._due.is_set)
        waking._due.clear()
    waking._walk_again_in(second_s)
    await eventually(waking._due.is_set, within_s=30.0)


async def test_a_walk_that_has_read_as_many_owners_as_it_may_goes_on_in_the_next(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.waiting._MOST_READ", 1)
    for number in range(2):
        await waiting(control, f"too-large-{number}", "20", since=f"2026-11-30T08:00:0{number}Z")
    last = await waiting(control, "last", "6")
    control.start(waker(control).run())
    await eventually(lambda: woken(control, last) == ["last"], within_s=30.0)


async def test_a_refusal_that_is_reported_after_the_room_came_free_is_looked_at(control: Control) -> None:
    control.start(waker(control).run())
    await asyncio.sleep(1.2)
    owner = await waiting(control, "chat")
    await eventually(lambda: woken(control, owner) == ["chat"], within_s=30.0)


async def test_a_volume_that_appears_wakes_who_waits_for_it(control: Control) -> None:
    claimed = {"volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]}
    owner = an_owner(control.served, "ReplicaSet", "chat", None, replicas=1, template=template("6", **claimed))
    fill(control.cluster.storage, a_class("local"), a_claim("cache", of_class="local"))
    await control.refuse(owner, owner)
    running = asyncio.create_task(waker(control).run())
    try:
        await asyncio.sleep(1.2)
        assert woken(control, owner) == []
        fill(control.cluster.storage, a_volume(storageClassName="local"))
        await eventually(lambda: woken(control, owner) == ["chat"])
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("steps", range(5))
async def test_it_ends_when_it_is_told_to_at_the_moment_of_a_change(control: Control, steps: int) -> None:
    running = asyncio.create_task(waker(control).run())
    await asyncio.sleep(0.01)
    control.see_node("a10", 24)
    for _ in range(steps):
        await asyncio.sleep(0)
    running.cancel()
    await eventually(running.done)
    assert running.cancelled()


async def test_an_owner_that_is_woken_is_counted_and_one_that_stays_is_not(control: Control) -> None:
    await waiting(control, "small")
    await waiting(control, "large", gb="20")
    recorder = ControlRecorder()
    await waker(control, recorder).walk()
    assert value(recorder, "placement_owners_woken_total") == 1


class TestPreemption:
    @pytest.fixture
    async def full(self, tmp_path: Path) -> AsyncIterator[Control]:
        """A node with one card of 16 GB, on which a pod of priority 0 runs."""
        async with controlling(tmp_path) as control:
            control.see_node("t4", 16)
            control.cluster.node_upserted(node_facts(a_node("t4").offering({names.card_resource(0): "16"}).raw()))
            chat = a_pod("other").limited_to({names.card_resource(0): "16"}).on("t4").facts()
            control.cluster.pod_upserted(chat)
            yield control

    async def test_an_owner_whose_pod_may_take_the_place_of_another_is_touched(self, full: Control) -> None:
        urgent = await waiting(full, "urgent", priority=100)
        await waker(full).walk()
        assert woken(full, urgent) == []
        await waker(full, preemption=True).walk()
        assert woken(full, urgent) == ["urgent"]

    async def test_one_that_may_not_is_left_alone(self, full: Control) -> None:
        equal, large = await waiting(full, "equal"), await waiting(full, "large", "17", priority=100)
        await waker(full, preemption=True).walk()
        assert woken(full, equal, large) == []

    async def test_one_whose_policy_is_never_to_take_a_place_is_left_alone(self, full: Control) -> None:
        polite = await waiting(full, "polite", priority=100, preempts=False)
        await waker(full, preemption=True).walk()
        assert woken(full, polite) == []

    async def test_nobody_is_woken_for_what_a_preempting_pod_waits_for(self, full: Control) -> None:
        urgent = a_pod("urgent").limited_to({names.card_resource(0): "16"}).spec(priority=100).pinned_to("t4").facts()
        full.cluster.pod_upserted(urgent)
        full.cluster.pod_deleted("uid-models-other")
        chat = await waiting(full, "chat", priority=50)
        await waker(full, preemption=True).walk()
        assert woken(full, chat) == []
