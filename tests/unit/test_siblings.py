"""Replicas that another process of the webhook has promised count like pods, before anybody has seen them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.api import names
from shared.core.pods import pinned_node
from tests.builders import PodBuilder, a_node, a_pod, labels, term
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook, gpu_node, reason
from webhook.outcome import Admitted


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def two(served: Served) -> tuple[Webhook, Webhook]:
    """Two processes that see the same two nodes of one card each; neither hears of the other's writes by itself."""
    one, other = Webhook(served), Webhook(served, first_id=100)
    for name in ("n1", "n2"):
        await one.see(a_node(name), gpu_node(name, 40))
        await other.see_stored(a_node(name))
    return one, other


def replica(name: str, owner: str = "uid-rs") -> PodBuilder:
    """One of several pods that must not share a node."""
    apart = term("kubernetes.io/hostname", labels(app="chat"))
    pod = a_pod(name).annotated(names.VRAM, "4").labelled(app="chat").away_from(apart)
    return pod.owned_by("ReplicaSet", "chat-5d4f", owner)


async def test_replicas_keep_apart_although_two_processes_place_them(two: tuple[Webhook, Webhook]) -> None:
    one, other = two
    first = await one.place(replica("first"))
    # The other process still believes that the node is empty: the conflict tells it.
    second = await other.place(replica("second"))
    assert {pinned_node(first["spec"]), pinned_node(second["spec"])} == {"n1", "n2"}


async def test_a_replica_without_a_node_of_its_own_is_refused(two: tuple[Webhook, Webhook]) -> None:
    one, other = two
    await one.place(replica("first"))
    await other.place(replica("second"))
    assert reason(await one.mutate(replica("third"))) == "insufficient_capacity"


async def test_promises_to_another_owner_are_not_taken_for_siblings(two: tuple[Webhook, Webhook]) -> None:
    one, other = two
    await one.place(replica("first"))
    stranger = await other.place(replica("second", owner="uid-other").labelled(app="other"))
    assert pinned_node(stranger["spec"]) == "n1"


async def test_what_one_process_placed_is_known_to_the_other_when_it_is_reviewed_again(
    two: tuple[Webhook, Webhook],
) -> None:
    one, other = two
    placed = await one.place(replica("first"))
    assert await other.mutate(placed) == Admitted()
