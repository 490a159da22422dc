"""One webhook hears of nothing any more while the others place: what it does not know it does not give away."""

from __future__ import annotations

import time

from shared.api import names
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.e2e.conftest import Pool
from tests.e2e.creates import Outcome, create
from tests.e2e.kube import Namespace, pod, until
from tests.e2e.reviews import WebhookPort, webhook_ports

_CARD_GB = 16
_CARDS = 4


def _stale(scene: Scene) -> None:
    here, namespace = scene.pool(_CARD_GB, _CARD_GB, nodes=2), scene.make_namespace()
    ports = webhook_ports(scene.api, scene.operator)
    asked: list[bool] = []
    for number, _ in enumerate(scene.lasting(lambda: any(asked))):
        stale, fresh = ports[number % len(ports)], ports[(number + 1) % len(ports)]
        asked.append(_behind(scene, here, namespace, stale, fresh, number))
    scene.figures["asked while behind"] = f"{sum(asked)} times"
    assert any(asked), "no webhook that was behind was asked for a card"


def _behind(
    scene: Scene, here: Pool, namespace: Namespace, stale: WebhookPort, fresh: WebhookPort, number: int
) -> bool:
    """Fills all cards while `stale` hears of nothing, and then asks it for one; whether it came to that."""
    models = [pod(f"model-{number}-{each}", {names.VRAM: str(_CARD_GB)}, pool=here.name) for each in range(_CARDS)]
    until("the cards are free", lambda: fresh.mutate(models[0], namespace.name, dryRun=True).allowed)
    proxy = scene.operator.proxy_of(stale.process)
    proxy.hold_watches()
    created = [create(namespace, model) for model in models]
    scene.count(created)
    placed = [one.name for one in created if one.outcome is Outcome.ADMITTED]
    if full := len(placed) == len(models):
        verdict = stale.mutate(pod("one-more", {names.VRAM: str(_CARD_GB)}, pool=here.name), namespace.name)
        assert not verdict.allowed, f"{stale.process.name} gave away a card that is taken"
    time.sleep(scene.chance(f"hold {number}").uniform(0.0, 2.0))
    proxy.release()
    for name in placed:
        namespace.delete("Pod", name)
    return full


STALE_CACHE = Scenario("stale-cache", _stale, 25.0, short_s=8.0, least_admitted=_CARDS)
