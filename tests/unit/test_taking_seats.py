"""A new pod takes the seat of its own workload's pod that is gone, and nobody else gets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shared.api import names
from shared.core.explain import explain
from shared.core.ledger import Entry, Mark, owner_hash
from shared.core.owners import OwnerRef
from shared.kube import paths
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes import faults
from tests.fakes.serving import Served, serving
from tests.unit.admission import NOW, Webhook, gpu_node, reason, reservation_id, reservations, store
from tests.unit.controlling import adopted, an_owner
from webhook.outcome import Admitted, Refused

NODES = ("n1", "n2")
SEATS = ("zzzzzzzzza", "zzzzzzzzzb", "zzzzzzzzzc")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def one(served: Served) -> Webhook:
    """A process that sees a node with a card of 16 GB and another with one of 6 GB that is full."""
    process = Webhook(served)
    await process.see(a_node("n1"), gpu_node("n1", 16))
    await process.see(a_node("n2"), gpu_node("n2", 6))
    process.see_pod(a_pod("full").limited_to({names.card_resource(0): "6"}).on("n2").raw(), uid="uid-full")
    return process


@pytest.fixture
async def other(served: Served, one: Webhook) -> Webhook:
    """Another process that saw the same nodes."""
    process = Webhook(served, first_id=100)
    for name in NODES:
        await process.see_stored(a_node(name))
    process.see_pod(a_pod("full").limited_to({names.card_resource(0): "6"}).on("n2").raw(), uid="uid-full")
    return process


@dataclass(frozen=True, slots=True)
class Rollout:
    """A Deployment with the ReplicaSets of two revisions."""

    top: OwnerRef
    old: OwnerRef
    new: OwnerRef


@pytest.fixture
async def rollout(served: Served) -> Rollout:
    top = an_owner(served, "Deployment", "chat", None, replicas=1)
    old = an_owner(served, "ReplicaSet", "chat-1", top, replicas=0)
    return Rollout(top, old, an_owner(served, "ReplicaSet", "chat-2", top, replicas=1))


def pod_of(owner: OwnerRef, gb: int = 10) -> PodBuilder:
    return a_pod("").annotated(names.VRAM, str(gb)).owned_by(owner.kind, owner.name, owner.uid, owner.api_version)


def waiter(gb: int = 10) -> PodBuilder:
    return a_pod("waiter").annotated(names.VRAM, str(gb))


def held(served: Served) -> dict[str, str]:
    """Every entry, and the node it is on."""
    return {key: node for node in NODES for key in reservations(served.server.objects, node)}


async def keep(process: Webhook, top: OwnerRef, *, seat: str = SEATS[0], gb: int = 10, node: str = "n1") -> None:
    """The controller keeps a seat."""
    entry = Entry("models", owner_hash(top.uid), NOW, ((0, gb),), mark=Mark.KEPT)
    assert await process.ledger.reserve(node, seat, entry)


async def leave(process: Webhook, served: Served, owner: OwnerRef, gb: int = 10) -> str:
    """A pod of `owner` is placed, runs, is deleted, and the process hears of it; the id of its entry."""
    placed = await process.place(pod_of(owner, gb))
    raw = {**placed, "metadata": {**placed["metadata"], "name": "old", "namespace": "models"}}
    process.see_pod(raw, uid="uid-old")
    process.cluster.pod_deleted("uid-old")
    return str(placed["metadata"]["labels"][names.RESERVATION])


def asked(served: Served, since: int) -> list[str]:
    """What was read of the API server since it had `since` requests."""
    return [each for each in served.server.requests[since:] if each.startswith("GET")]


async def test_the_next_pod_of_the_workload_gets_the_kept_seat_and_a_waiter_does_not(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top)
    assert reason(await one.mutate(waiter())) == "insufficient_capacity"
    await one.place(pod_of(rollout.new))
    assert held(served) == {reservation_id(1): "n1"}
    assert one.free_gb("n1") == (6,)


async def test_the_seat_of_a_pod_that_was_seen_to_go_needs_no_keeping_first(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    old = await leave(one, served, rollout.old)
    assert reason(await one.mutate(waiter())) == "insufficient_capacity"
    placed = await one.place(pod_of(rollout.new))
    assert held(served) == {placed["metadata"]["labels"][names.RESERVATION]: "n1"}
    assert old not in held(served)


async def test_whoever_did_not_see_the_pod_go_waits_until_the_seat_is_kept(
    one: Webhook, other: Webhook, served: Served, rollout: Rollout
) -> None:
    await leave(one, served, rollout.old)
    await other.ledger.refresh("n1")
    assert reason(await other.mutate(pod_of(rollout.new))) == "insufficient_capacity"


async def test_a_pod_that_exists_after_all_keeps_its_entry(one: Webhook, served: Served, rollout: Rollout) -> None:
    placed = await one.place(pod_of(rollout.old))
    raw = {**placed, "metadata": {**placed["metadata"], "name": "old", "namespace": "models"}}
    store(served.server.objects, paths.pods("models"), raw)
    one.see_pod(raw, uid="uid-old")
    one.cluster.pod_deleted("uid-old")
    assert reason(await one.mutate(pod_of(rollout.new))) == "insufficient_capacity"
    assert held(served) == {placed["metadata"]["labels"][names.RESERVATION]: "n1"}


async def test_another_workload_takes_no_seat(one: Webhook, served: Served, rollout: Rollout) -> None:
    await keep(one, rollout.top)
    stranger = an_owner(served, "ReplicaSet", "other-1", None, replicas=1)
    assert reason(await one.mutate(pod_of(stranger))) == "insufficient_capacity"
    assert held(served) == {SEATS[0]: "n1"}


async def test_a_workload_of_that_uid_in_another_namespace_takes_no_seat(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.new)  # as if it were a top owner
    assert reason(await one.mutate(pod_of(rollout.new), namespace="other")) == "insufficient_capacity"


async def test_a_seat_is_taken_by_a_pod_that_has_to_go_elsewhere(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top, gb=6)
    one.cluster.pod_deleted("uid-full")
    await one.place(pod_of(rollout.new, 6).selecting(**{"kubernetes.io/hostname": "n2"}))
    assert held(served) == {reservation_id(0): "n2"}, "and given up there"
    assert one.free_gb("n1") == (16,)


@dataclass(frozen=True, slots=True)
class Group:
    """A workload of a large leader and small workers."""

    top: OwnerRef
    leader: OwnerRef
    workers: OwnerRef


@pytest.fixture
async def group(served: Served) -> Group:
    top = an_owner(served, "Deployment", "group", None, replicas=1)
    leader = an_owner(served, "StatefulSet", "leader", top, replicas=1)
    return Group(top, leader, an_owner(served, "StatefulSet", "workers", top, replicas=2))


async def test_a_small_part_that_fits_beside_the_seat_of_a_large_one_leaves_it(
    one: Webhook, served: Served, group: Group
) -> None:
    await keep(one, group.top, gb=12)
    await one.place(pod_of(group.workers, 4))
    assert held(served) == {SEATS[0]: "n1", reservation_id(0): "n1"}
    await one.place(pod_of(group.leader, 12))
    assert held(served) == {reservation_id(1): "n1", reservation_id(0): "n1"}


async def test_a_small_part_takes_its_own_seat_though_that_of_a_large_one_is_older(
    one: Webhook, served: Served, group: Group
) -> None:
    await keep(one, group.top, seat=SEATS[0], gb=12)
    await keep(one, group.top, seat=SEATS[1], gb=4)
    await one.place(pod_of(group.workers, 4))
    assert held(served) == {SEATS[0]: "n1", reservation_id(0): "n1"}


async def test_a_small_part_that_goes_elsewhere_gives_up_no_seat_of_a_large_one(
    one: Webhook, served: Served, group: Group
) -> None:
    one.cluster.pod_deleted("uid-full")
    await keep(one, group.top, gb=16)
    await one.place(pod_of(group.workers, 4).selecting(**{"kubernetes.io/hostname": "n2"}))
    assert held(served) == {SEATS[0]: "n1", reservation_id(0): "n2"}


@pytest.mark.parametrize("gb", [8, 14])
async def test_a_rollout_to_another_size_takes_the_seat_without_which_it_has_no_place(
    one: Webhook, served: Served, rollout: Rollout, gb: int
) -> None:
    await keep(one, rollout.top)
    await one.place(pod_of(rollout.new, gb))
    assert held(served) == {reservation_id(0): "n1"}


async def test_a_pod_that_would_have_no_place_in_any_seat_takes_none(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top)
    assert reason(await one.mutate(pod_of(rollout.new, 17))) == "insufficient_capacity"
    assert held(served) == {SEATS[0]: "n1"}


async def test_of_many_seats_the_one_of_the_best_node_is_found_at_once(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    for number in range(8):
        await one.see(a_node(f"cordoned-{number}").cordoned(), gpu_node(f"cordoned-{number}", 16))
        await keep(one, rollout.top, seat="yyyyyyyyy" + "abcdefgh"[number], node=f"cordoned-{number}")
    await keep(one, rollout.top)
    await one.place(pod_of(rollout.new))
    assert held(served) == {reservation_id(0): "n1"}


async def test_the_next_pod_of_an_adopted_replica_set_takes_the_seat_of_the_deployment_that_adopted_it(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top)
    assert reason(await one.mutate(pod_of(rollout.new, 17))) == "insufficient_capacity"  # who its owner is, is known
    new = adopted(served, rollout.new, rollout.top)
    await keep(one, new, seat=SEATS[1], gb=6)
    await one.place(pod_of(rollout.new, 6))
    assert held(served) == {SEATS[0]: "n1", reservation_id(1): "n1"}


async def test_without_time_to_look_the_pod_is_placed_beside_its_seat(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    one.mutator._patience_s = 0.0
    await keep(one, rollout.top, gb=6)
    await one.place(pod_of(rollout.new, 6))
    assert held(served) == {SEATS[0]: "n1", reservation_id(0): "n1"}


async def test_a_seat_on_a_cordoned_node_is_given_up_for_a_place_elsewhere(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top, gb=6)
    await one.see_stored(a_node("n1").cordoned())
    one.cluster.pod_deleted("uid-full")
    await one.place(pod_of(rollout.new, 6))
    assert held(served) == {reservation_id(0): "n2"}


async def test_a_seat_on_a_node_that_is_gone_is_no_obstacle(one: Webhook, served: Served, rollout: Rollout) -> None:
    await keep(one, rollout.top, gb=6)
    one.cluster.node_deleted("n1")
    one.cluster.pod_deleted("uid-full")
    await one.place(pod_of(rollout.new, 6))
    assert held(served) == {reservation_id(0): "n2"}


async def test_of_several_seats_the_one_is_taken_that_the_pod_can_sit_on(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top, seat=SEATS[0], gb=16)
    one.cluster.pod_deleted("uid-full")
    await keep(one, rollout.top, seat=SEATS[1], gb=6, node="n2")
    await one.place(pod_of(rollout.new, 6).selecting(**{"kubernetes.io/hostname": "n2"}))
    assert held(served) == {SEATS[0]: "n1", reservation_id(0): "n2"}


async def test_a_daemon_pod_leaves_the_seats_of_other_nodes_alone(one: Webhook, served: Served) -> None:
    daemons = an_owner(served, "DaemonSet", "chat", None)
    await keep(one, daemons, gb=6)
    one.cluster.pod_deleted("uid-full")
    await one.place(pod_of(daemons, 6).pinned_to("n2"))
    assert held(served) == {SEATS[0]: "n1", reservation_id(0): "n2"}
    await one.place(pod_of(daemons, 6).pinned_to("n1"))
    assert held(served) == {reservation_id(1): "n1", reservation_id(0): "n2"}


async def test_two_pods_at_once_take_two_seats(one: Webhook, served: Served, rollout: Rollout) -> None:
    await keep(one, rollout.top, seat=SEATS[0], gb=8)
    await keep(one, rollout.top, seat=SEATS[1], gb=8)
    await asyncio.gather(one.place(pod_of(rollout.new, 8)), one.place(pod_of(rollout.new, 8)))
    assert held(served) == {reservation_id(0): "n1", reservation_id(1): "n1"}


async def test_two_pods_at_once_that_go_elsewhere_give_up_two_seats(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top, seat=SEATS[0], gb=3)
    await keep(one, rollout.top, seat=SEATS[1], gb=3)
    await one.see_stored(a_node("n1").cordoned())
    one.cluster.pod_deleted("uid-full")
    await asyncio.gather(one.place(pod_of(rollout.new, 3)), one.place(pod_of(rollout.new, 3)))
    assert held(served) == {reservation_id(0): "n2", reservation_id(1): "n2"}


async def test_of_two_pods_at_once_one_gets_the_only_seat(one: Webhook, served: Served, rollout: Rollout) -> None:
    await keep(one, rollout.top)
    outcomes = await asyncio.gather(one.mutate(pod_of(rollout.new)), one.mutate(pod_of(rollout.new)))
    assert sorted(isinstance(each, Admitted) for each in outcomes) == [False, True]
    assert len(held(served)) == 1


async def test_of_two_processes_one_gets_the_only_seat(
    one: Webhook, other: Webhook, served: Served, rollout: Rollout
) -> None:
    two = an_owner(served, "ReplicaSet", "chat-3", rollout.top, replicas=2)
    await keep(one, rollout.top)
    await other.ledger.refresh("n1")
    outcomes = await asyncio.gather(one.mutate(pod_of(two)), other.mutate(pod_of(two)))
    assert sorted(isinstance(each, Admitted) for each in outcomes) == [False, True]
    assert len(held(served)) == 1


async def test_a_failed_attempt_of_the_same_owner_is_replaced_before_a_seat_is_taken(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top, gb=6)
    await one.place(pod_of(rollout.new, 6))  # takes the seat, and fails
    await keep(one, rollout.top, seat=SEATS[1], gb=6)
    await one.place(pod_of(rollout.new, 6))
    assert set(held(served)) == {SEATS[1], reservation_id(1)}


async def test_a_seat_of_a_stateful_set_is_no_failed_attempt_of_it(one: Webhook, served: Served) -> None:
    owner = an_owner(served, "StatefulSet", "chat", None, replicas=2, podManagementPolicy="Parallel")
    await keep(one, owner, seat=SEATS[0], gb=6)
    await keep(one, owner, seat=SEATS[1], gb=6)
    await one.place(pod_of(owner, 6))
    assert set(held(served)) == {SEATS[1], reservation_id(0)}, "the second pod has its own seat still"


async def test_siblings_on_kept_seats_do_not_keep_a_pod_away(one: Webhook, served: Served) -> None:
    owner = an_owner(served, "StatefulSet", "chat", None, replicas=2)
    apart = {"labelSelector": {"matchLabels": {"app": "chat"}}, "topologyKey": "kubernetes.io/hostname"}
    await keep(one, owner, seat=SEATS[0], gb=6)
    await keep(one, owner, seat=SEATS[1], gb=6)
    await one.place(pod_of(owner, 6).labelled(app="chat").away_from(apart))
    assert set(held(served)) == {SEATS[1], reservation_id(0)}


async def test_without_a_vacancy_in_its_namespace_nobody_is_asked(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    before = len(served.server.requests)
    await one.place(pod_of(rollout.new))
    assert asked(served, before) == []


async def test_a_dry_run_takes_no_seat(one: Webhook, served: Served, rollout: Rollout) -> None:
    await keep(one, rollout.top, gb=6)
    assert isinstance(await one.mutate(pod_of(rollout.new, 6), dryRun=True), Admitted)
    assert held(served) == {SEATS[0]: "n1"}


async def test_where_owners_cannot_be_asked_the_pod_is_placed_beside_its_seat(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top, gb=6)
    served.server.fail(faults.respond(500), path="/replicasets")
    await one.place(pod_of(rollout.new, 6))
    assert held(served) == {SEATS[0]: "n1", reservation_id(0): "n1"}


async def test_a_seat_that_is_given_up_while_owners_are_asked_is_not_taken(
    one: Webhook, served: Served, rollout: Rollout
) -> None:
    await keep(one, rollout.top)

    async def give_up(request: Any, proceed: Any) -> Any:
        await one.ledger.drop("n1", SEATS[0])
        return await proceed(request)

    served.server.fail(give_up, path="/replicasets")
    await one.place(pod_of(rollout.new))
    assert held(served) == {reservation_id(0): "n1"}


async def test_a_refusal_says_that_memory_is_kept(one: Webhook, served: Served, rollout: Rollout) -> None:
    await keep(one, rollout.top, seat=SEATS[0], gb=10)
    await keep(one, rollout.top, seat=SEATS[1], gb=6)
    outcome = await one.mutate(waiter())
    assert isinstance(outcome, Refused)
    assert "Held on gpu-0 of n1: 16 GB kept for 2 pods being replaced." in explain(outcome.refusal)
