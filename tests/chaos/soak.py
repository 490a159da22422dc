"""Creates and deletes for a long time, with a blow every so often; in the end the ledger is what the pods are.

Every third blow hits the leader, which is away until another controller leads. One webhook and one controller are never
killed: their memory is what tells whether something piles up. When that controller leads, it is frozen instead.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from random import Random

from hack.devcluster.api import ApiError
from shared.api import names
from tests.chaos.memory import Memory
from tests.chaos.rules import stream
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene, identity
from tests.e2e.conftest import Pool
from tests.e2e.creates import Created, Outcome, create
from tests.e2e.kube import Namespace, pod
from tests.e2e.trouble import repeatedly, revive

_CREATES_A_SECOND = 5.0
"""Of bare pods by callers: a create that ends in nothing counts as well. What Deployments create comes on top."""
_CALLERS = 10
_STRIKE_EVERY_S = 20.0
_LEADER_EVERY = 3
_DOWN_S = 1.0
_AWAY_S = 18.0
"""So long a leader is away at most: another one waits for a lease of 12 s, and for its next try."""
_SAMPLE_S = 5.0
_NODES = 6
"""With room for what is deleted while nobody leads, and then some is refused: nobody gives it back at that time."""
_MOST_PODS = 6
_BACKLOG_S = 5.0
"""What a caller could not do in time it makes up for, but for no longer than this."""
_WHOLE_S = 300.0
"""From so long a soak on it has to show rates and a change of leader."""
_LEAST_CREATES, _LEAST_DELETES = 4.5, 4.0
"""A second."""
_WARM_S = 300.0
"""In this time a process has done everything once: what it gains then is no growth."""
_GROWTH_MIB = 6.0
"""So much a warm process may gain from the second quarter of its time to the last."""
_WARMING_MIB = 16.0
"""And so much where a quarter is shorter than it takes to be warm."""


def soak(seconds: float) -> Scenario:
    """The scenario that lasts so long."""
    return Scenario("soak", _soak, seconds, least_admitted=1)


@dataclass(frozen=True, slots=True)
class Done:
    """What a soak of so many seconds came to."""

    seconds: float
    creates: int
    deletes: int
    take_overs: int

    def short_of(self) -> Iterator[str]:
        """What it should have done more of."""
        whole = self.seconds >= _WHOLE_S
        for what, count, least in (
            ("creates", self.creates, _LEAST_CREATES),
            ("deletes", self.deletes, _LEAST_DELETES),
        ):
            if not count or (whole and count / self.seconds < least):
                yield f"{count / self.seconds:.1f} {what} a second, of {least} at least"
        if whole and not self.take_overs:
            yield "no other controller took the lead"


def grown(memory: Memory, spared: Collection[str], seconds: float) -> Iterator[str]:
    """Which of the processes that nobody kills have grown in these seconds, or have ended all the same."""
    most = _GROWTH_MIB if seconds / 4 >= _WARM_S else _WARMING_MIB
    for name in spared:
        _, second, _, last = memory.quarters(name)
        if last - second > most:
            yield f"{name} grew from {second:.0f} to {last:.0f} MiB"
        if len(memory.lives.get(name, ())) != 1:
            yield f"{name} had {len(memory.lives.get(name, ()))} lives, though nobody killed it"


def _soak(scene: Scene) -> None:
    here, namespace = scene.pool(26, 26, 26, nodes=_NODES), scene.make_namespace()
    memory, created, deleted = Memory(), list[Created](), Counter[int]()
    victims = [*scene.operator.webhooks[1:], *scene.operator.controllers[1:]]
    spared = [each.name for each in (scene.operator.webhooks[0], scene.operator.controllers[0])]
    take_overs = 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(scene.whole_gpus())
        began = time.monotonic()
        for number in range(_CALLERS):
            caller = _caller(namespace, here, stream(scene.seed, f"caller {number}"), number, created, deleted)
            stack.enter_context(repeatedly(caller, 0.0))
        stack.enter_context(scene.rollouts(namespace, here))
        stack.enter_context(repeatedly(lambda: memory.sample(scene.operator.processes), _SAMPLE_S))
        chance = scene.chance("kills")
        for number, left_s in enumerate(scene.lasting(), 1):
            time.sleep(min(max(0.0, began + number * _STRIKE_EVERY_S - time.monotonic()), left_s))
            if number % _LEADER_EVERY:
                victim = chance.choice(victims)
                scene.kill(victim)
                time.sleep(_DOWN_S)
                revive(victim)
            else:
                take_overs += _strike_leader(scene, spared)
        done = Done(time.monotonic() - began, len(created), deleted.total(), take_overs)
    scene.count(created)
    scene.figures["creates a second"] = f"{done.creates / done.seconds:.1f}"
    scene.figures["deletes a second"] = f"{done.deletes / done.seconds:.1f}"
    scene.figures["another took the lead"] = f"{take_overs} times"
    for process in scene.operator.processes:
        quarters = " -> ".join(f"{mib:.0f}" for mib in memory.quarters(process.name))
        lives = len(memory.lives.get(process.name, ()))
        scene.figures[f"RSS of {process.name}"] = (
            f"{quarters} MiB (lives: {lives}, {memory.slope(process.name):+.1f} MiB/h after the first quarter)"
        )
    wrong = [*done.short_of(), *grown(memory, spared, done.seconds)]
    assert not wrong, "; ".join(wrong)


def _strike_leader(scene: Scene, spared: Collection[str]) -> bool:
    """Kills the leader, or freezes one that is not to be killed, until another leads; whether one did."""
    leader = scene.leader()
    scene.kill(leader, signal.SIGSTOP if leader.name in spared else signal.SIGKILL)
    end = time.monotonic() + _AWAY_S
    while not (taken := scene.leads() not in {"", identity(leader)}) and time.monotonic() < end:
        time.sleep(_DOWN_S)
    leader.kill(signal.SIGCONT)
    revive(leader)
    return taken


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
