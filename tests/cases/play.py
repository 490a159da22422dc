"""Plays a case: starts the product in its world, takes step after step, and notes what came of each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shared.kube.cluster import Cluster
from shared.kube.watches import Watches
from shared.settings import webhook_settings
from tests.cases.actions import REST_S, Player, serving_host, serving_secret_name
from tests.cases.admission import Admission
from tests.cases.authority import Authority
from tests.cases.chart import rendered
from tests.cases.clock import run_on_virtual_clock
from tests.cases.creates import Requests
from tests.cases.harness import Product
from tests.cases.outcome import Result, State
from tests.cases.owners import steps_of
from tests.cases.world import World
from tests.fakes.api import Api
from tests.fakes.inprocess import Network, in_process_client
from tests.fakes.objects import Json

FINAL_S: Final = 60.0
"""When the final state is looked at, after the last step."""


@dataclass(frozen=True, slots=True)
class Played:
    """The steps of a case and the state at its end."""

    results: tuple[Result, ...]
    final: State


def play(case: Json, chart: str) -> Played:
    """Plays a case with the product installed as the rendered `chart` says."""
    random.seed(0)
    return run_on_virtual_clock(_play(case, chart))


async def _play(case: Json, chart: str) -> Played:
    world = World(case, rendered(chart))
    steps = steps_of(case["when"])
    if any(step["action"] == "rotate-certificate" and not step["newCa"] for step in steps):
        world.add_serving_secret(serving_secret_name(world), Authority("authority 0"), serving_host(world))
    api = Api(world.store, bookmark_s=FINAL_S)
    network = Network(api)
    product = Product(world.chart, network, _replicas(steps))
    secured = frozenset(world.cluster["optedInNamespaces"]) if world.cluster.get("podSecurity") else frozenset()
    client, _ = in_process_client(Network(api))
    observed = Cluster()
    exclusive = webhook_settings(world.chart.workload("webhook").environment("observer")).common.exclusive
    watching = asyncio.create_task(Watches(client, observed, exclusive=exclusive).run())
    requests = Requests(case, world, Admission(world.store, product, secured))
    player = Player(case, world, network, product, requests, observed)
    try:
        await product.start()
        await player.settle(REST_S)
        for given, asking, uid in world.unbooked:
            world.add_given(given, await requests.booked(asking), uid)
        await player.settle(REST_S)
        results = [await player.take(number, step) for number, step in enumerate(steps, 1)]
        await asyncio.sleep(FINAL_S - REST_S)
        await player.settle(0.0)
        return Played(tuple(results), player.state())
    finally:
        for task in (*requests.retries, watching):
            task.cancel()
        await asyncio.gather(*requests.retries, watching, return_exceptions=True)
        await product.kill()


def _replicas(steps: Sequence[Json]) -> list[str]:
    """Every replica that a case names; one where it names none."""
    found: dict[str, None] = {}
    for step in steps:
        served_by = step.get("servedBy") or ()
        for name in [served_by] if isinstance(served_by, str) else served_by:
            found[name] = None
    for step in steps:
        if step["action"] == "failover":
            found[step["to"]] = None
    return list(found) or ["a"]
