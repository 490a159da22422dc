"""The wall clocks of the processes step forward and back by minutes, each on its own."""

from __future__ import annotations

import time

from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene

_STEP_S = 300.0


def _steps(scene: Scene) -> None:
    chance = scene.chance("steps")
    with scene.load():
        for _ in scene.lasting():
            name = chance.choice(list(scene.operator.clocks))
            offset_s = chance.choice([-_STEP_S, 0.0, _STEP_S])
            scene.tell("clock step", name, f"{offset_s:+.0f} s")
            scene.operator.clocks[name].step(offset_s)
            time.sleep(chance.uniform(0.5, 2.0))


CLOCK_STEPS = Scenario("clock-steps", _steps, 25.0, least_admitted=20, answers_all=True)
