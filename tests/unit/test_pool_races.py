"""Asks that meet on one pool of memory: whoever comes second sees the memory that the first one's pod will request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.api import names
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes.objects import Json
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook, gpu_node, reason, reservations
from webhook.outcome import Admitted, Outcome, Refused


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def two(served: Served) -> tuple[Webhook, Webhook]:
    """Two processes that see a node with a pool of 111 GB and 119 GB of memory."""
    one, other = Webhook(served), Webhook(served, first_id=100)
    await one.see(a_node("spark").offering(memory="119Gi"), spark())
    await other.see_stored(a_node("spark").offering(memory="119Gi"))
    return one, other


def spark() -> Json:
    node = gpu_node("spark", 111)
    node["status"]["cards"][0]["class"] = "unified"
    return node


def asking(name: str, gb: int, memory: str) -> PodBuilder:
    return a_pod(name).annotated(names.VRAM, str(gb)).requesting(memory=memory)


async def test_an_entry_tells_what_its_pod_requests_of_the_memory(two: tuple[Webhook, Webhook], served: Served) -> None:
    await two[0].place(asking("a", 40, "20Gi"))
    (text,) = reservations(served.server.objects, "spark").values()
    assert text.endswith(";0:40;20480")


async def test_an_entry_on_a_card_with_memory_of_its_own_does_not(served: Served) -> None:
    webhook = Webhook(served)
    await webhook.see(a_node("t4"), gpu_node("t4", 16))
    await webhook.place(asking("a", 6, "20Gi"))
    (text,) = reservations(served.server.objects, "t4").values()
    assert text.endswith(";0:6")


async def test_another_process_counts_the_memory_of_a_pod_that_it_has_not_seen(two: tuple[Webhook, Webhook]) -> None:
    one, other = two
    await one.place(asking("a", 40, "20Gi"))
    assert reason(await other.mutate(asking("b", 56, "4Gi"))) == "insufficient_system_memory"
    await other.place(asking("b", 55, "4Gi"))


@pytest.mark.parametrize("split", [False, True])
async def test_of_many_at_once_as_many_are_admitted_as_there_is_memory_for(
    two: tuple[Webhook, Webhook], split: bool
) -> None:
    # Five of 10 GB with 10 GB of memory each fill 100 of 119 GB; the pool alone would hold eleven.
    pods = [asking(f"p{number}", 10, "10Gi") for number in range(10)]
    outcomes: list[Outcome] = await asyncio.gather(
        *(two[number % 2 if split else 0].mutate(pod) for number, pod in enumerate(pods))
    )
    assert sum(isinstance(outcome, Admitted) for outcome in outcomes) == 5
    assert {reason(outcome) for outcome in outcomes if isinstance(outcome, Refused)} == {"insufficient_system_memory"}


async def test_the_memory_is_counted_once_when_the_pod_is_there(two: tuple[Webhook, Webhook]) -> None:
    one, other = two
    pod = await one.place(asking("a", 40, "20Gi"))
    for process in two:
        process.see_pod(pod)
    await other.ledger.refresh("spark")
    await other.place(asking("b", 55, "4Gi"))
