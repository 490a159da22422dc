"""Creates and deletes for a long time, with a kill every so often; in the end the ledger is what the pods are.

One webhook and one controller are never killed: their memory is what tells whether something piles up.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable
from random import Random

from hack.devcluster.api import ApiError
from shared.api import names
from tests.chaos.memory import Memory
from tests.chaos.rules import stream
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.e2e.conftest import Pool
from tests.e2e.creates import Created, Outcome, create
from tests.e2e.kube import Namespace, pod
from tests.e2e.trouble import repeatedly, revive

_CREATES_A_SECOND = 5.0
"""Of bare pods by callers: a create that ends in nothing counts as well. What Deployments create comes on top."""
_CALLERS = 10
_KILL_EVERY_S = 20.0
_DOWN_S = 1.0
_SAMPLE_S = 5.0
_SETTLED_S = 60.0
_MOST_PODS = 6
_BACKLOG_S = 5.0
"""What a caller could not do in time it makes up for, but for no longer than this."""
_GROWTH_MIB = 16.0
"""So much a process may gain between the first and the last quarter of its time."""


def soak(seconds: float) -> Scenario:
    """The scenario that lasts so long."""
    return Scenario("soak", _soak, seconds)


def _soak(scene: Scene) -> None:
    here, namespace = scene.pool(26, 26, 26, nodes=4), scene.make_namespace()
    memory, created, deleted = Memory(), list[Created](), Counter[int]()
    victims = [*scene.operator.webhooks[1:], *scene.operator.controllers[1:]]
    spared = [scene.operator.webhooks[0], scene.operator.controllers[0]]
    with contextlib.ExitStack() as stack:
        for number in range(_CALLERS):
            caller = _caller(namespace, here, stream(scene.seed, f"caller {number}"), number, created, deleted)
            stack.enter_context(repeatedly(caller, 0.0))
        stack.enter_context(scene.rollouts(namespace, here))
        stack.enter_context(repeatedly(lambda: memory.sample(scene.operator.processes), _SAMPLE_S))
        chance = scene.chance("kills")
        began = time.monotonic()
        for number, left_s in enumerate(scene.lasting(), 1):
            time.sleep(min(max(0.0, began + number * _KILL_EVERY_S - time.monotonic()), left_s))
            victim = chance.choice(victims)
            scene.kill(victim)
            time.sleep(_DOWN_S)
            revive(victim)
    scene.count(created)
    scene.figures["creates a second"] = f"{len(created) / scene.seconds:.1f}"
    scene.figures["deletes a second"] = f"{deleted.total() / scene.seconds:.1f}"
    grown = []
    for process in scene.operator.processes:
        first, last = memory.growth(process.name, min(_SETTLED_S, scene.seconds / 4) if process in spared else 0.0)
        scene.figures[f"RSS of {process.name}"] = f"{first:.0f} -> {last:.0f} MiB"
        if process in spared and last - first > _GROWTH_MIB:
            grown.append(f"{process.name} grew from {first:.0f} to {last:.0f} MiB")
    assert scene.created[Outcome.ADMITTED]
    assert not grown, "; ".join(grown)


def _caller(
    namespace: Namespace, here: Pool, chance: Random, number: int, created: list[Created], deleted: Counter[int]
) -> Callable[[], None]:
    """Creates one pod each time it is called, at its pace, and deletes one of its own when it has enough."""
    counter, mine = itertools.count(), list[str]()
    due = time.monotonic()

    def call() -> None:
        nonlocal due
        time.sleep(max(0.0, due - time.monotonic()))
        due = max(due + _CALLERS / _CREATES_A_SECOND, time.monotonic() - _BACKLOG_S)
        gb = chance.choice([1, 2, 4, 8])
        one = create(namespace, pod(f"soak-{number}-{next(counter)}", {names.VRAM: str(gb)}, pool=here.name))
        created.append(one)
        if one.outcome is Outcome.ADMITTED:
            mine.append(one.name)
        while len(mine) > _MOST_PODS or (mine and one.outcome is Outcome.REFUSED):
            with contextlib.suppress(ApiError, OSError):
                namespace.delete("Pod", mine.pop(chance.randrange(len(mine))))
                deleted[number] += 1
            if one.outcome is Outcome.REFUSED:
                return

    return call
