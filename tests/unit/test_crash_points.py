"""A process may die at any await: afterwards the ledgers say what the pods do, and nothing was promised twice.

`tests/chaos/crash_scenes.py` says how a scene is added. CRASH_EVERYWHERE=1 tries a point in every scene that reaches it
instead of the first.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from functools import cache

import pytest

from tests.cases.clock import run_on_virtual_clock
from tests.chaos.crash_points import CrashAt, Side, every_point, instrumented
from tests.chaos.crash_scenes import ELSEWHERE, LONGEST_ANSWER, SCENES
from tests.chaos.crash_stage import Crash, Stage, reached
from tests.fakes.objects import Json

pytestmark = [  # What a dead process was about to await.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_EVERYWHERE = bool(os.environ.get("CRASH_EVERYWHERE"))
_POINTS = [point for point in every_point() if point not in ELSEWHERE]


@pytest.fixture(scope="module", autouse=True)
def _watched_points() -> Iterator[None]:
    with instrumented(reached), pytest.MonkeyPatch.context() as patch:
        # Or the scene of answers that are too long would have to make 64 MiB of them each time.
        patch.setattr("shared.kube.client._LONGEST_ANSWER", LONGEST_ANSWER)
        yield


def play(scene: str, crash: Crash | None = None) -> Stage:
    """A scene to its end, with a crash or without."""

    async def work() -> Stage:
        stage = Stage(crash)
        try:
            async with asyncio.timeout(600.0):
                await SCENES[scene](stage)
            await stage.end(picture(scene) if crash else None)
        finally:
            await stage.close()
        return stage

    random.seed(0)
    return run_on_virtual_clock(work())


@cache
def undisturbed(scene: str) -> Stage:
    """A scene as it is without a crash."""
    stage = play(scene)
    assert stage.wrong() == [], scene
    return stage


def picture(scene: str) -> Json:
    return undisturbed(scene).picture()


def crashes(point: str, side: Side) -> Iterator[tuple[str, Crash]]:
    """Where to try one side of a point: a scene, and the process that is to die, for each program that comes to it."""
    for program in ("webhook", "controller"):
        for scene in SCENES:
            processes = [
                name
                for name, seen in undisturbed(scene).reached.items()
                if name.startswith(program) and seen[point, side]
            ]
            if processes:
                yield scene, Crash(processes[0], CrashAt(point, side))
                if not _EVERYWHERE:
                    break


def test_points_are_named_after_their_source_and_have_two_sides() -> None:
    point = "shared/kube/ledger.py:Ledger._write:await self._client.merge_patch"
    assert CrashAt.parse(point) == CrashAt(point, Side.AFTER, 1)
    assert CrashAt.parse(f"{point}:before#3") == CrashAt(point, Side.BEFORE, 3)
    second = "shared/kube/client.py:KubeClient.list_as:await self._list_pages#2"
    assert CrashAt.parse(f"{second}:after") == CrashAt(second, Side.AFTER, 1)


def test_a_point_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no such point"):
        CrashAt.parse("shared/kube/ledger.py:Ledger._write:await nothing")


def test_the_points_that_no_scene_can_reach_are_points_of_the_product() -> None:
    assert ELSEWHERE.keys() <= set(every_point())


@pytest.mark.parametrize("scene", SCENES)
def test_scene_ends_well_without_a_crash(scene: str) -> None:
    counted = undisturbed(scene).reached.values()
    assert [point for seen in counted for point, _ in seen if point in ELSEWHERE] == []


@pytest.mark.parametrize("point", _POINTS)
def test_crash_leaves_no_trace(point: str) -> None:
    for side in Side:
        tried = list(crashes(point, side))
        assert tried, f"no scene comes to {point}:{side}: add one to tests/chaos/crash_scenes.py"
        for scene, crash in tried:
            stage = play(scene, crash)
            where = f"{crash.process} dies {side} it in {scene}"
            assert stage.crashed, f"{where}: it did not"
            assert stage.wrong() == [], where
            assert stage.picture() == picture(scene), where
