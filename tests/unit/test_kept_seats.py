"""The controller keeps the seat of a pod that is gone while its workload lacks one, and not a moment longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.core.ledger import Entry, Mark, owner_hash
from shared.core.owners import OwnerRef
from shared.kube.errors import ApiError, Forbidden, Unavailable
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.unit.controlling import adopted, an_owner, controlling
from tests.unit.seating import IDS, NOW, Scene, change, path_of


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with controlling(tmp_path) as control:
        scene = Scene(control)
        await scene.start()
        yield scene


async def test_a_rollout_keeps_the_seat_for_the_deployment_though_its_replica_set_wants_no_pod(scene: Scene) -> None:
    top = scene.deployment()
    old = scene.pod(0, scene.replica_set(top, replicas=0), top)
    await scene.settle()
    before = scene.entries()[IDS[0]]
    scene.gone(old)
    await scene.settle()
    assert scene.entries() == {
        IDS[0]: Entry("models", owner_hash(top.uid), NOW, before.shares, before.memory_mib, before.units, Mark.KEPT)
    }


async def test_of_a_workload_that_has_all_its_pods_no_seat_is_kept(scene: Scene) -> None:
    top = scene.deployment()
    old = scene.pod(0, scene.replica_set(top), top)
    scene.pod(1, scene.replica_set(top, name="chat-2"), top, node="n2")
    await scene.settle()
    scene.gone(old)
    await scene.settle()
    assert scene.marks() == {IDS[1]: Mark.NONE}


async def test_a_pod_on_its_way_out_is_one_that_the_workload_lacks(scene: Scene) -> None:
    top = scene.deployment(replicas=1)
    owner = scene.replica_set(top, replicas=1)
    pods = [scene.pod(0, owner, top), scene.pod(1, owner, top)]
    await scene.settle()
    scene.cluster.pod_upserted(replace(pods[1], terminating=True))
    scene.gone(pods[0])
    await scene.settle()
    assert scene.marks() == {IDS[0]: Mark.KEPT, IDS[1]: Mark.NONE}


@pytest.mark.parametrize("replicas", [0, 1, 2, 3])
async def test_no_more_seats_are_kept_than_the_workload_lacks_pods(scene: Scene, replicas: int) -> None:
    top = scene.deployment(replicas=3)
    owner = scene.replica_set(top, replicas=3)
    pods = [scene.pod(0, owner, top), scene.pod(1, owner, top), scene.pod(2, owner, top, node="n2")]
    await scene.settle()
    change(scene, top, replicas=replicas)
    scene.gone(*pods)
    await asyncio.gather(scene.keeper.reconcile("n1"), scene.keeper.reconcile("n2"))
    assert list(scene.marks().values()) == [Mark.KEPT] * replicas


async def test_a_workload_that_is_scaled_down_gives_its_newest_seats_back_first(scene: Scene) -> None:
    top = scene.deployment(replicas=2)
    owner = scene.replica_set(top, replicas=2)
    pods = [scene.pod(0, owner, top), scene.pod(1, owner, top)]
    await scene.settle()
    scene.gone(*pods)
    await scene.settle()
    change(scene, top, replicas=1)
    await scene.settle()
    assert scene.marks() == {IDS[0]: Mark.KEPT}
    change(scene, top, replicas=0)
    await scene.settle()
    assert scene.marks() == {}


async def test_a_seat_is_given_back_once_the_workload_has_all_its_pods_again(scene: Scene) -> None:
    top = scene.deployment()
    owner = scene.replica_set(top)
    old = scene.pod(0, owner, top)
    await scene.settle()
    scene.gone(old)
    await scene.settle()
    scene.pod(1, owner, top, node="n2")
    await scene.settle()
    assert scene.marks() == {IDS[1]: Mark.NONE}


async def test_a_deleted_workload_keeps_no_seat(scene: Scene) -> None:
    top = scene.deployment()
    owner = scene.replica_set(top)
    old = scene.pod(0, owner, top)
    await scene.settle()
    await scene.control.owners.top("models", owner)  # as it was known when the pod came
    await scene.control.served.client.delete(path_of(top))
    scene.gone(old)
    await scene.settle()
    assert scene.marks() == {}


async def test_a_workload_that_is_being_deleted_keeps_no_seat(scene: Scene) -> None:
    top = scene.deployment()
    old = scene.pod(0, scene.replica_set(top), top)
    await scene.settle()
    scene.gone(old)
    await scene.settle()
    assert scene.marks() == {IDS[0]: Mark.KEPT}
    scene.control.objects.set_metadata(place_of(path_of(top)), {"deletionTimestamp": "2026-11-30T10:00:00Z"})
    await scene.settle()
    assert scene.marks() == {}


async def test_a_bare_pod_and_one_of_an_unknown_kind_keep_no_seat(scene: Scene) -> None:
    stranger = OwnerRef("example.com/v1", "Widget", "chat", "uid-widget")
    pods = [scene.pod(0, None), scene.pod(1, stranger, stranger)]
    await scene.settle()
    scene.gone(*pods)
    await scene.settle()
    assert scene.marks() == {}


async def test_below_an_owner_that_does_not_say_the_next_one_decides_and_the_seat_is_the_top_ones(
    scene: Scene,
) -> None:
    top = OwnerRef("serving.kserve.io/v1beta1", "InferenceService", "chat", "uid-service")
    service = an_owner(scene.control.served, "Deployment", "chat-predictor", top, replicas=1)
    other = an_owner(scene.control.served, "Deployment", "chat-transformer", top, replicas=1)
    first = scene.pod(0, scene.replica_set(service, replicas=0), top)
    second = scene.pod(1, scene.replica_set(other, name="chat-transformer-1"), top)
    await scene.settle()
    scene.gone(first)
    await scene.settle()
    entries = scene.entries()
    assert (entries[IDS[0]].mark, entries[IDS[0]].owner_hash) == (Mark.KEPT, owner_hash("uid-service"))
    scene.gone(second)
    await scene.settle()
    assert scene.marks() == {IDS[0]: Mark.KEPT, IDS[1]: Mark.KEPT}, "one for each part"
    change(scene, service, replicas=0)
    await scene.settle()
    assert scene.marks() == {IDS[1]: Mark.KEPT}


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        pytest.param({"failed": 1}, True, id="it-tries-again"),
        pytest.param({"failed": 1, "conditions": [{"type": "Failed", "status": "True"}]}, False, id="it-gave-up"),
    ],
)
async def test_the_seat_of_a_failed_pod_of_a_job(scene: Scene, status: dict[str, Any], kept: bool) -> None:
    job = an_owner(scene.control.served, "Job", "train", None, "batch/v1", parallelism=1)
    pod = scene.pod(0, job, job)
    await scene.settle()
    await scene.control.served.client.merge_patch(path_of(job) + "/status", {"status": status})
    scene.gone(pod)
    await scene.settle()
    assert scene.marks() == ({IDS[0]: Mark.KEPT} if kept else {})


async def test_a_pod_that_succeeded_gives_its_share_back_though_its_job_wants_another(scene: Scene) -> None:
    job = an_owner(scene.control.served, "Job", "train", None, "batch/v1", parallelism=1, completions=2)
    pod = scene.pod(0, job, job)
    await scene.settle()
    scene.cluster.pod_deleted(pod.key, leaves_seat=False)
    await scene.settle()
    assert scene.marks() == {}


async def test_the_pod_that_comes_late_has_its_entry_again(scene: Scene) -> None:
    top = scene.deployment()
    owner = scene.replica_set(top)
    pod = scene.pod(0, owner, top)
    await scene.settle()
    before = scene.entries()
    scene.gone(pod)
    await scene.settle()
    scene.cluster.pod_upserted(pod)
    await scene.settle()
    assert scene.entries() == before


async def test_a_new_leader_leaves_a_seat_whose_owner_it_does_not_know_until_it_runs_out(scene: Scene) -> None:
    seat = Entry("models", owner_hash("somebody"), NOW, ((0, 6),), mark=Mark.KEPT)
    assert await scene.ledger.reserve("n1", IDS[0], seat)
    await scene.settle()
    assert scene.entries() == {IDS[0]: seat}
    scene.keeper = scene.new_keeper(kept_s=0.0)
    await scene.settle()
    assert scene.entries() == {}


@pytest.mark.parametrize(("status", "error"), [(503, Unavailable), (403, Forbidden)])
async def test_while_owners_cannot_be_asked_the_entry_stays_as_it_is(
    scene: Scene, status: int, error: type[ApiError]
) -> None:
    top = scene.deployment()
    pod = scene.pod(0, scene.replica_set(top), top)
    await scene.settle()
    before = scene.entries()
    scene.gone(pod)
    scene.control.served.server.fail(faults.respond(status), path="/apis/apps/", times=5)
    with pytest.raises(error):
        await scene.settle()
    assert scene.entries() == before


async def test_the_seat_of_an_adopted_replica_set_is_that_of_the_deployment_which_adopted_it(scene: Scene) -> None:
    old = scene.deployment()
    owner = scene.replica_set(old)
    pods = [scene.pod(0, owner, old), scene.pod(1, owner, old)]
    await scene.settle()
    scene.gone(pods[1])
    change(scene, old, replicas=2)
    await scene.settle()
    new = adopted(scene.control.served, owner, old)
    scene.gone(pods[0])
    await scene.settle()
    hashes = {entry.owner_hash for entry in scene.entries().values()}
    assert (scene.marks(), hashes) == ({IDS[0]: Mark.KEPT, IDS[1]: Mark.KEPT}, {owner_hash(new.uid)})


async def test_while_it_is_not_known_who_has_which_pods_nothing_is_kept_and_nothing_given_back(
    scene: Scene,
) -> None:
    top = scene.deployment()
    pod = scene.pod(0, scene.replica_set(top), top)
    await scene.settle()
    scene.gone(pod)
    scene.pods_are_known = False
    await scene.settle()
    assert scene.marks() == {IDS[0]: Mark.NONE}
    scene.pods_are_known = True
    await scene.settle()
    assert scene.marks() == {IDS[0]: Mark.KEPT}


async def test_an_owner_that_cannot_be_asked_holds_up_no_other_entry_and_its_own_for_the_time_of_a_seat(
    scene: Scene,
) -> None:
    top, well = scene.deployment(), scene.stateful_set()
    pods = [scene.pod(0, scene.replica_set(top), top), scene.pod(1, well, well)]
    await scene.settle()
    assert await scene.ledger.reserve("n1", IDS[2], Entry("models", owner_hash("lost"), NOW, ((0, 8),)))
    scene.keeper = scene.new_keeper(ttl_s=0.0)
    scene.gone(*pods)
    scene.control.served.server.fail(faults.respond(500), path="/deployments", times=2)
    with pytest.raises(ApiError):
        await scene.settle()
    assert scene.marks() == {IDS[0]: Mark.NONE, IDS[1]: Mark.KEPT}
    scene.keeper = scene.new_keeper(kept_s=0.0)
    await scene.settle()
    assert scene.marks() == {}


async def test_a_seat_that_is_taken_while_its_owner_is_asked_is_not_written_again(scene: Scene) -> None:
    top = scene.deployment()
    pod = scene.pod(0, scene.replica_set(top), top)
    await scene.settle()
    scene.gone(pod)

    async def take(request: Any, proceed: Any) -> Any:
        await scene.ledger.drop("n1", IDS[0])
        return await proceed(request)

    scene.control.served.server.fail(take, path="/deployments")
    await scene.settle()
    assert scene.entries() == {}
