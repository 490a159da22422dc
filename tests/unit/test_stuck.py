"""Placed pods that are not bound: explained once, and placed again where that helps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controller.control_recorder import ControlRecorder
from controller.events import Events, EventType
from controller.stuck import Stuck, _Wait
from shared.api import names
from shared.core.ledger import Mark
from shared.core.nodes import node_facts
from shared.core.owners import OwnerRef
from shared.core.pods import pod_facts
from shared.kube import paths
from shared.kube.gpunodes import gpu_node as read_gpu_node
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.serving import eventually
from tests.unit.admission import gpu_node, store
from tests.unit.controlling import NOW, Control, an_owner, controlling, stored
from tests.unit.core_builders import entry
from tests.unit.scraping import value
from tests.unit.seating import path_of

ID = "aaaaaaaaaa"
CARD = names.card_resource(0)
SAID = "0/2 nodes are available: 1 node(s) were unschedulable."
FULL = f"0/2 nodes are available: 1 Insufficient {CARD}, 1 node(s) didn't match Pod's node affinity/selector."
TEMPLATE = {"metadata": {"annotations": {names.VRAM: "6"}}, "spec": {"containers": [{"name": "main"}]}}


@dataclass(slots=True)
class Scene:
    """A node t4 that is cordoned, and an a10 with room."""

    control: Control

    def watch(self, *, after_s: float = 0.02, replace: bool = True, events: Events | None = None) -> ControlRecorder:
        recorder = ControlRecorder()
        self.control.start(self.stuck(after_s=after_s, replace=replace, events=events, recorder=recorder).run())
        return recorder

    def stuck(
        self,
        *,
        after_s: float,
        replace: bool = True,
        events: Events | None = None,
        recorder: ControlRecorder | None = None,
    ) -> Stuck:
        control = self.control
        return Stuck(
            control.served.client,
            control.cluster,
            control.owners,
            events or Events(control.served.client, lambda: NOW),
            after_s=after_s,
            replace=replace,
            recorder=recorder,
        )

    def owner(self, kind: str = "ReplicaSet", above: OwnerRef | None = None, **spec: Any) -> OwnerRef:
        api = "batch/v1" if kind == "Job" else "apps/v1"
        return an_owner(self.control.served, kind, "chat", above, api, template=TEMPLATE, **spec)

    def pod(
        self, name: str, owner: OwnerRef | None = None, said: str = SAID, reservation: str = ID, **spec: Any
    ) -> str:
        """A placed pod is stored and seen; its uid."""
        pod = placed(name, owner, said).label(names.RESERVATION, reservation).spec(**spec)
        raw = store(self.control.objects, paths.pods("models"), pod.raw())
        facts = pod_facts(raw)
        assert facts is not None
        self.control.cluster.pod_upserted(facts)
        return facts.key

    def has(self, name: str) -> bool:
        return stored(self.control.objects, paths.pods("models", name)) is not None

    def told(self) -> list[tuple[str, str, int]]:
        """Kind of the object, what became of its pod, and how often it was said."""
        events = self.control.events()
        assert {(each["type"], each["reason"]) for each in events} <= {("Warning", "Stuck")}
        return sorted(
            (each["involvedObject"]["kind"], each["message"].rsplit("; ", 1)[1], each["count"]) for each in events
        )


def placed(name: str, owner: OwnerRef | None, said: str) -> PodBuilder:
    pod = a_pod(name).limited_to({CARD: "6"}).label(names.RESERVATION, ID).pinned_to("t4")
    if owner is not None:
        pod.owned_by(owner.kind, owner.name, owner.uid, owner.api_version)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    return pod.status(conditions=[condition]) if said else pod


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with controlling(tmp_path) as control:
        control.see_node("t4", 16)
        control.cluster.node_upserted(node_facts(a_node("t4").cordoned().raw()))
        control.see_node("a10", 24)
        yield Scene(control)


async def test_it_is_deleted_and_both_pod_and_workload_are_told_why(scene: Scene) -> None:
    deployment = scene.owner("Deployment")
    scene.pod("chat-0", scene.owner(above=deployment))
    scene.watch()
    await eventually(lambda: not scene.has("chat-0"))
    outcome = "it was deleted, so that ReplicaSet chat creates it anew"
    await eventually(lambda: scene.told() == [("Deployment", outcome, 1), ("Pod", outcome, 1)])
    (message,) = {each["message"] for each in scene.control.events()}
    assert message == (
        f"pod chat-0 is placed on node t4 and not bound to it: 0/2 nodes are available: 1 node(s) were "
        f"unschedulable; {outcome}"
    )


async def test_one_that_appears_later_is_looked_at_too(scene: Scene) -> None:
    scene.watch()
    await asyncio.sleep(0)
    scene.pod("chat-0", scene.owner())
    await eventually(lambda: not scene.has("chat-0"))


async def test_without_a_scheduler_the_node_is_reason_enough(scene: Scene) -> None:
    scene.pod("chat-0", scene.owner(), said="")
    scene.watch()
    await eventually(lambda: not scene.has("chat-0"))
    await eventually(lambda: bool(scene.control.events()))
    assert "not bound to it: node t4 is cordoned; it was deleted" in scene.control.events()[0]["message"]


async def test_what_admission_lets_it_tolerate_the_next_one_tolerates_too(scene: Scene) -> None:
    scene.control.cluster.node_upserted(node_facts(a_node("a10").tainted("nvidia.com/gpu").raw()))
    scene.pod("chat-0", scene.owner(), tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    scene.watch()
    await eventually(lambda: not scene.has("chat-0"))


async def test_what_its_template_selects_no_more_keeps_it_from_no_node(scene: Scene) -> None:
    """A StatefulSet does not replace a pending pod of an earlier template by itself."""
    owner = scene.owner("StatefulSet")
    scene.control.objects.update(
        place_of(paths.status_of(path_of(owner))), lambda old: {**old, "status": {"updateRevision": "chat-2"}}
    )
    scene.pod("chat-0", owner, nodeSelector={"disk": "nowhere"})
    scene.watch()
    await eventually(lambda: not scene.has("chat-0"))


async def test_while_its_owner_may_not_be_read_it_stays_and_is_explained(scene: Scene) -> None:
    scene.pod("chat-0", scene.owner())
    scene.control.served.server.fail(
        faults.respond(403, '{"reason":"Forbidden"}'), method="GET", path="replicasets", times=1000
    )
    scene.watch()
    await eventually(
        lambda: (
            ("Pod", "ReplicaSet chat is not known to create one that could go elsewhere, so it stays", 1)
            in scene.told()
        )
    )
    assert scene.has("chat-0")


async def test_one_of_a_node_that_is_gone_is_placed_again(scene: Scene) -> None:
    scene.control.cluster.node_deleted("t4")
    scene.pod("chat-0", scene.owner(), said="")
    scene.watch()
    await eventually(lambda: not scene.has("chat-0"))
    await eventually(lambda: bool(scene.control.events()))
    assert "node t4 is gone" in scene.control.events()[0]["message"]


async def looked(scene: Scene, times: int = 2) -> None:
    """Waits until the pods were read so often from now on."""
    before = len(scene.control.served.server.requests)

    def reads() -> int:
        seen = scene.control.served.server.requests[before:]
        return sum(each.startswith(f"GET {paths.pods('models')}/") for each in seen)

    await eventually(lambda: reads() >= times)


async def test_what_nobody_would_create_again_is_only_explained_and_that_once(scene: Scene) -> None:
    scene.pod("chat-0")
    scene.watch()
    await looked(scene, 3)
    assert scene.has("chat-0")
    assert scene.told() == [("Pod", "nobody would create it again: delete it and create it anew", 1)]


async def test_what_belongs_to_its_node_stays_there(scene: Scene) -> None:
    scene.pod("chat-0", scene.owner("DaemonSet"))
    scene.watch()
    await looked(scene, 3)
    assert scene.has("chat-0")
    outcome = "DaemonSet chat is not known to create one that could go elsewhere, so it stays"
    assert scene.told() == [("DaemonSet", outcome, 1), ("Pod", outcome, 1)]


async def test_without_another_place_it_stays_and_new_words_are_told(scene: Scene) -> None:
    scene.control.cluster.node_deleted("a10")
    owner = scene.owner()
    scene.pod("chat-0", owner)
    scene.watch()
    await looked(scene, 3)
    assert scene.told() == [(kind, "there is no other place for it now", 1) for kind in ("Pod", "ReplicaSet")]
    scene.pod("chat-0", owner, said="0/1 nodes are available.")
    await eventually(lambda: len(scene.told()) == 4)
    assert scene.has("chat-0")
    scene.control.see_node("a10", 24)
    await eventually(lambda: not scene.has("chat-0"))


async def test_switched_off_it_says_where_there_would_be_room(scene: Scene) -> None:
    scene.pod("chat-0", scene.owner())
    scene.watch(replace=False)
    await looked(scene, 3)
    assert scene.has("chat-0")
    outcome = "there is room on node a10 if it is created anew"
    assert scene.told() == [("Pod", outcome, 1), ("ReplicaSet", outcome, 1)]


@pytest.mark.parametrize("spec", [{"schedulingGates": [{"name": "quota"}]}, {"nodeName": "t4"}], ids=["gated", "bound"])
async def test_one_that_does_not_wait_for_the_scheduler_is_left_alone(scene: Scene, spec: dict[str, Any]) -> None:
    scene.pod("chat-0", scene.owner(), **spec)
    scene.pod("bare")
    scene.watch()
    await looked(scene)
    assert scene.has("chat-0")
    assert {each["involvedObject"]["name"] for each in scene.control.events()} == {"bare"}


async def test_its_time_begins_when_the_last_gate_goes(scene: Scene) -> None:
    owner = scene.owner()
    scene.pod("chat-0", owner, schedulingGates=[{"name": "quota"}])
    scene.watch()
    await asyncio.sleep(0.1)
    assert scene.has("chat-0")
    store(scene.control.objects, paths.pods("models"), placed("chat-0", owner, SAID).raw())
    scene.pod("chat-0", owner)
    await eventually(lambda: not scene.has("chat-0"))


async def test_what_the_watch_does_not_know_yet_is_respected(scene: Scene) -> None:
    """The pod was bound a moment ago."""
    owner = scene.owner()
    scene.pod("chat-0", owner)
    store(scene.control.objects, paths.pods("models"), placed("chat-0", owner, SAID).on("t4").raw())
    scene.watch()
    await looked(scene, 1)
    assert scene.has("chat-0")
    assert scene.told() == []


async def test_a_pod_that_changes_while_it_is_looked_at_is_not_deleted(scene: Scene) -> None:
    owner = scene.owner()
    scene.pod("chat-0", owner)
    scene.control.served.server.fail(faults.respond(409, '{"reason":"Conflict"}'), method="DELETE", path="chat-0")
    scene.watch()
    await eventually(lambda: any(each.startswith("DELETE") for each in scene.control.served.server.requests))
    assert scene.told() == []
    await eventually(lambda: not scene.has("chat-0"))
    await eventually(lambda: [count for *_, count in scene.told()] == [1, 1])


async def test_a_pod_that_is_bound_at_the_last_moment_is_not_deleted(scene: Scene) -> None:
    owner = scene.owner()
    scene.pod("chat-0", owner)

    async def bind_first(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        store(scene.control.objects, paths.pods("models"), placed("chat-0", owner, SAID).on("t4").raw())
        return await proceed(request)

    server = scene.control.served.server
    server.fail(bind_first, method="DELETE", path="chat-0")
    scene.watch()
    await eventually(lambda: any(each.startswith("DELETE") for each in server.requests))
    await looked(scene, 1)
    assert scene.has("chat-0")


async def test_a_pod_that_lost_its_reservations_label_is_explained_and_stays(scene: Scene) -> None:
    """The policy for the controller's account would refuse to have it deleted."""
    raw = placed("chat-0", scene.owner(), SAID).raw()
    del raw["metadata"]["labels"][names.RESERVATION]
    facts = pod_facts(store(scene.control.objects, paths.pods("models"), raw))
    assert facts is not None
    scene.control.cluster.pod_upserted(facts)
    scene.watch()
    await looked(scene, 3)
    assert scene.has("chat-0")
    outcome = "there is room on node a10 if it is created anew"
    assert scene.told() == [("Pod", outcome, 1), ("ReplicaSet", outcome, 1)]


@pytest.fixture
def over_others(scene: Scene) -> str:
    """The entry of a pod stands above the budget of t4, where another pod holds the memory; the uid of that one."""
    cluster = scene.control.cluster
    cluster.node_upserted(node_facts(a_node("t4").raw()))
    marked = replace(entry({0: 6}), mark=Mark.PREEMPTING).encode()
    raw = gpu_node("t4", 16, reservations={ID: marked})
    metadata = {**raw["metadata"], "uid": "uid-t4", "resourceVersion": "2"}
    cluster.gpu_node_upserted(read_gpu_node({**raw, "metadata": metadata}, exclusive=False))
    victim = pod_facts(a_pod("victim").limited_to({CARD: "12"}).on("t4").raw())
    assert victim is not None
    cluster.pod_upserted(victim)
    return victim.key


async def test_a_pod_whose_victims_have_yet_to_leave_may_wait_longer(
    scene: Scene, over_others: str, forward: Callable[[float], None]
) -> None:
    scene.pod("first", scene.owner())
    scene.pod("second", scene.owner(), reservation="bbbbbbbbbb")
    scene.watch(after_s=600.0)
    await asyncio.sleep(0)
    forward(600.0)
    await eventually(lambda: not scene.has("second"))
    assert scene.has("first")
    forward(1200.0)
    await eventually(lambda: not scene.has("first"))


async def test_a_pod_that_the_scheduler_overlooks_is_created_anew_once_its_place_is_free(
    scene: Scene, over_others: str
) -> None:
    scene.control.cluster.node_deleted("a10")
    scene.pod("chat-0", scene.owner(), said=FULL)
    scene.watch()
    await eventually(lambda: scene.told() != [])
    assert {outcome for _, outcome, _ in scene.told()} == {"there is no other place for it now"}
    assert scene.has("chat-0")
    scene.control.cluster.pod_deleted(over_others)
    await eventually(lambda: not scene.has("chat-0"))
    await eventually(lambda: "but those that it preempted have left since; it was deleted" in said(scene))


async def test_of_several_that_are_overlooked_each_is_created_anew(scene: Scene, over_others: str) -> None:
    scene.control.cluster.node_deleted("a10")
    scene.control.cluster.pod_deleted(over_others)
    owner = scene.owner(replicas=2)
    scene.watch(after_s=0.1)
    scene.pod("chat-0", owner, said=FULL)
    await eventually(lambda: not scene.has("chat-0"))
    scene.pod("chat-1", owner, said=FULL)
    await eventually(lambda: not scene.has("chat-1"))


async def test_an_overlooked_pod_stays_where_replacing_is_switched_off(scene: Scene, over_others: str) -> None:
    scene.control.cluster.node_deleted("a10")
    scene.control.cluster.pod_deleted(over_others)
    scene.pod("chat-0", scene.owner(), said=FULL)
    scene.watch(replace=False)
    await eventually(lambda: scene.told() != [])
    assert {outcome for _, outcome, _ in scene.told()} == {"there is room on node t4 if it is created anew"}
    await looked(scene)
    assert scene.has("chat-0")


@pytest.mark.parametrize("is_cordoned", [True, False])
async def test_a_pod_is_not_overlooked_where_there_is_another_reason_or_it_would_not_be_placed(
    scene: Scene, over_others: str, is_cordoned: bool
) -> None:
    scene.control.cluster.node_deleted("a10")
    scene.control.cluster.pod_deleted(over_others)
    if is_cordoned:
        scene.control.cluster.node_upserted(node_facts(a_node("t4").cordoned().raw()))
    scene.pod("chat-0", scene.owner(), said=FULL if is_cordoned else "0/2 nodes are available: 1 Insufficient cpu.")
    scene.watch()
    await eventually(lambda: scene.told() != [])
    assert {outcome for _, outcome, _ in scene.told()} == {"there is no other place for it now"}
    await looked(scene)
    assert scene.has("chat-0")


def said(scene: Scene) -> str:
    return " ".join(each["message"] for each in scene.control.events())


async def test_of_many_each_has_its_turn(scene: Scene) -> None:
    owner = scene.owner(replicas=3)
    for number in range(3):
        scene.pod(f"chat-{number}", owner)
    recorder = scene.watch()
    left = []

    def one_by_one() -> bool:
        left.append(sum(scene.has(f"chat-{number}") for number in range(3)))
        return left[-1] == 0

    await eventually(one_by_one)
    assert set(left) >= {2, 1, 0}
    await eventually(lambda: value(recorder, "placement_stuck_pods_deleted_total") == 3)


async def test_a_replacement_that_is_stuck_again_has_to_wait(scene: Scene, forward: Callable[[float], None]) -> None:
    owner = scene.owner()
    scene.pod("chat-0", owner)
    scene.watch(after_s=600.0)
    await asyncio.sleep(0)
    forward(600.0)
    await eventually(lambda: len(scene.told()) == 2)
    assert not scene.has("chat-0")
    key = scene.pod("chat-1", owner)
    forward(600.0)
    await eventually(lambda: len(scene.told()) == 4)
    assert scene.has("chat-1")
    assert scene.told()[-1] == ("ReplicaSet", "there is room on node a10 if it is created anew", 1)
    scene.control.cluster.pod_deleted(key)


async def test_what_changes_on_a_pod_that_waits_does_not_make_its_wait_begin_anew(scene: Scene) -> None:
    stuck = scene.stuck(after_s=1000.0)
    key = scene.pod("chat-0", scene.owner())
    stuck._pod_changed(key)
    began = stuck._waits[key].since
    await asyncio.sleep(0.01)
    stuck._pod_changed(key)
    assert stuck._waits[key].since == began


async def test_a_workload_that_had_too_many_events_is_told_later_though_its_pod_was_told(scene: Scene) -> None:
    owner = scene.owner()
    now = [NOW]
    events = Events(scene.control.served.client, lambda: now[0])
    while await events.emit("models", owner, EventType.WARNING, "Stuck", "pod other; something else"):
        pass
    scene.pod("chat-0", owner)
    scene.watch(replace=False, events=events)
    outcome = "there is room on node a10 if it is created anew"
    await eventually(lambda: "Pod" in {kind for kind, said, _ in scene.told() if said == outcome})
    await looked(scene)
    now[0] += timedelta(seconds=10)
    await eventually(lambda: ("ReplicaSet", outcome, 1) in scene.told(), within_s=30.0)


@pytest.mark.parametrize("how", ["another-takes-it", "its-entry-is-as-any-other"])
async def test_how_long_its_place_is_free_counts_anew_when_it_was_not_in_between(
    scene: Scene, over_others: str, how: str
) -> None:
    cluster = scene.control.cluster
    victim, marked = cluster.pod(over_others), cluster.gpu_node("t4")
    assert victim is not None
    assert marked is not None
    pod = cluster.pod(scene.pod("chat-0", scene.owner(), said=FULL))
    assert pod is not None
    stuck, wait = scene.stuck(after_s=600.0), _Wait(0.0)
    cluster.pod_deleted(over_others)
    assert stuck._left_s(pod, wait, 10.0) == 20.0
    assert stuck._left_s(pod, wait, 25.0) == 5.0
    if how == "another-takes-it":
        cluster.pod_upserted(victim)
    else:
        plain = {key: replace(each, mark=Mark.NONE) for key, each in marked.ledger.items()}
        cluster.gpu_node_upserted(replace(marked, resource_version="3", ledger=plain))
    stuck._left_s(pod, wait, 26.0)
    assert wait.free_since is None
    cluster.pod_deleted(over_others)
    cluster.gpu_node_upserted(replace(marked, resource_version="4"))
    assert stuck._left_s(pod, wait, 30.0) == 20.0


async def test_one_whose_turn_has_not_come_is_looked_at_again_when_it_has(
    scene: Scene, forward: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not half a minute later, as one of which nothing is to be done: here that would be an hour."""
    monkeypatch.setattr("controller.stuck._LOOK_AGAIN_S", 3600.0)
    owner = scene.owner(replicas=2)
    for number in range(2):
        scene.pod(f"chat-{number}", owner)
    scene.watch(after_s=7200.0)
    await asyncio.sleep(0)
    forward(7200.0)
    await eventually(lambda: scene.has("chat-0") != scene.has("chat-1"))
    await eventually(lambda: not (scene.has("chat-0") or scene.has("chat-1")), within_s=30.0)
