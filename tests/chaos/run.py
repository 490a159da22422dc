"""Plays scenarios on one control plane, and judges each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from hack.devcluster.api import ApiError
from hack.devcluster.cluster import DevCluster
from hack.devcluster.processes import ProcessError
from tests.chaos.checker import Checker
from tests.chaos.loop_thread import LoopThread
from tests.chaos.operator import ChaosOperator
from tests.chaos.report import Row
from tests.chaos.rules import Injected, Schedule
from tests.chaos.scenarios import Scenario
from tests.chaos.scene import ChaosStage, Scene
from tests.e2e.conftest import namespaces, pools
from tests.e2e.trouble import repeatedly

_WEBHOOKS, _CONTROLLERS = 3, 2
_PROGRESS_S = 10.0

Say = Callable[[str], None]


@contextlib.contextmanager
def chaos_stage(say: Say) -> Iterator[ChaosStage]:
    """A control plane with the operator behind proxies."""
    with (
        LoopThread() as loop,
        DevCluster() as cluster,
        ChaosOperator(cluster, loop, webhooks=_WEBHOOKS, controllers=_CONTROLLERS) as operator,
    ):
        say(f"a control plane with {_WEBHOOKS} webhooks and {_CONTROLLERS} controllers; logs: {cluster.log_dir}")
        yield ChaosStage(cluster, operator)
        for process in operator.processes:
            process.kill()  # nobody is served any more


def play(stage: ChaosStage, scenario: Scenario, seed: int, seconds: float, say: Say) -> tuple[Row, list[Injected]]:
    """Plays one scenario to its end and until all is right again; its figures and the faults that were injected."""
    schedule = stage.operator.schedule
    schedule.injected.clear()
    schedule.began = time.monotonic()
    with (
        stage.operator.configured(scenario.settings),
        pools(stage) as make_pool,
        namespaces(stage.api) as make_namespace,
    ):
        scene = Scene(stage, seed, scenario.name, seconds, make_pool, make_namespace, scenario.least_admitted)
        checker = Checker(stage.api, lambda: tuple(scene.nodes))
        wrong: list[str] = []
        with checker.looking(), _progress(scene, schedule, say):
            try:
                scenario.play(scene)
            except _TROUBLE as trouble:
                wrong.append(f"{type(trouble).__name__}: {trouble}")
            faults_ended = time.monotonic()
            scene.calm()
            converged_s, left = checker.converge(faults_ended)
        row = Row(
            scenario.name,
            schedule.count(),
            scene.created,
            checker.looks,
            checker.ledgers,
            frozenset(checker.over_commit),
            checker.leaked_gb(),
            converged_s,
            (*wrong, *left, *checker.repeated_events(schedule)),
            scenario.least_admitted,
            scenario.answers_all,
            seconds >= scenario.seconds,
            frozenset(checker.unrecorded),
            scene.figures,
        )
    return row, list(schedule.injected)


_TROUBLE = (AssertionError, ApiError, OSError, ProcessError, pytest.fail.Exception)


@contextlib.contextmanager
def _progress(scene: Scene, schedule: Schedule, say: Say) -> Iterator[None]:
    began = time.monotonic()

    def tell() -> None:
        faults = ", ".join(f"{number} {name}" for name, number in schedule.count().most_common(4))
        say(f"  {scene.name}: {time.monotonic() - began:.0f} s, faults: {faults or 'none yet'}")

    with repeatedly(tell, _PROGRESS_S):
        yield
