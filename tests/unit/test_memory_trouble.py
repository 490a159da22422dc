"""What a workload's status says of a container that died for lack of memory, and until when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controller.memory_trouble import memory_trouble
from shared.api import names
from shared.core.oom import OOM_KILLED, Memory, Shortage
from shared.core.pod_fate import Crash, Place
from shared.core.pods import PodFacts
from tests.unit.core_builders import holder
from tests.unit.fates import DIED, SHORT, a_crash, a_fate

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
LESS = "have the server need less (a shorter context, fewer requests at a time, a smaller or quantized model)"
LONG_SINCE, LATELY = "2026-11-30T09:45:00Z", "2026-11-30T09:55:00Z"


def trouble(
    *crashes: Crash, old: dict[str, Any] | None = None, pods: tuple[PodFacts, ...] = ()
) -> dict[str, Any] | None:
    fates = [a_fate(crashes=crashes)] if crashes else []
    return memory_trouble({"outOfMemory": old} if old else {}, pods, fates, [], NOW)


def told(*crashes: Crash) -> dict[str, Any]:
    found = trouble(*crashes)
    assert found is not None
    return found


def pod(name: str, created: str, running: bool = True) -> PodFacts:
    return replace(holder(name, {0: 6}), key=f"uid-{name}", created=created, running=running)


@pytest.mark.parametrize(
    ("place", "shortage", "code", "message"),
    [
        pytest.param(
            Place("t4", ((0, 6),), ()),
            SHORT,
            "OOM",
            "container server of pod chat-1 ran out of GPU memory on gpu-0 of t4 with 6 GB: CUDA out of memory "
            f"(it asked for 2.00 GiB). Raise kamiwaza.ai/vram-gb (to 8, say), or {LESS}",
            id="share-with-a-known-size",
        ),
        pytest.param(
            Place("twin", ((0, 20), (1, 20)), ()),
            Shortage(Memory.CARD, "NCCL: out of memory"),
            "OOM",
            "container server of pod chat-1 ran out of GPU memory on gpu-0,1 of twin with 20 GB each: NCCL: out of "
            f"memory. Raise kamiwaza.ai/vram-gb (to 25, say), or {LESS}",
            id="shares-without-a-size",
        ),
        pytest.param(
            Place("eks", (), ((names.NVIDIA_GPU, 1),)),
            SHORT,
            "OOM",
            "container server of pod chat-1 ran out of GPU memory on 1 nvidia.com/gpu of eks: CUDA out of memory "
            f"(it asked for 2.00 GiB). Ask for more or larger GPUs, or {LESS}",
            id="whole-gpu",
        ),
        pytest.param(
            Place("t4", ((0, 6),), ()),
            OOM_KILLED,
            "OOMKilled",
            "container server of pod chat-1 was killed for lack of the node's own memory (OOMKilled), not of a card's: "
            "raise the container's memory limit, or have it keep less in main memory",
            id="killed-by-the-kernel",
        ),
    ],
)
def test_it_says_who_ran_out_of_what_and_what_helps(place: Place, shortage: Shortage, code: str, message: str) -> None:
    found = told(a_crash(shortage, place=place))
    assert found == {
        "pod": "chat-1",
        "uid": "uid-chat-1",
        "container": "server",
        "at": DIED,
        "code": code,
        "message": message,
    }


def test_it_stays_within_what_the_status_may_hold_whatever_things_are_called() -> None:
    shares = tuple((index, index + 1) for index in range(64))
    assert len(told(a_crash(place=Place("n" * 253, shares, ())))["message"]) == 1024


def test_a_crash_of_another_cause_is_none() -> None:
    assert trouble(a_crash(None)) is None


def test_the_newest_death_is_the_one_that_is_told() -> None:
    found = told(a_crash(at="2026-11-30T09:41:00Z"), a_crash(container="embedder"))
    assert found["at"] == "2026-11-30T09:41:00Z"
    assert trouble(a_crash(at="2026-11-30T09:42:00Z"), old=found) == told(a_crash(at="2026-11-30T09:42:00Z"))


def test_it_stays_when_its_pod_is_gone() -> None:
    assert trouble(old=told(a_crash())) == told(a_crash())


@pytest.mark.parametrize(
    ("crash", "stands"),
    [
        pytest.param(a_crash(), True, id="waits-to-be-restarted"),
        pytest.param(a_crash(running_since=LATELY, ready=True), True, id="serves-for-a-moment"),
        pytest.param(a_crash(running_since=LONG_SINCE), True, id="loads-its-model-for-long"),
        pytest.param(a_crash(running_since=LONG_SINCE, ready=True), False, id="serves-for-long"),
    ],
)
def test_it_stands_until_the_container_has_served_for_a_while(crash: Crash, stands: bool) -> None:
    assert (trouble(crash) is not None) == stands


@pytest.mark.parametrize(
    ("successor", "stands"),
    [
        pytest.param(pod("chat-2", LATELY), True, id="runs-for-a-moment"),
        pytest.param(pod("chat-2", LONG_SINCE, running=False), True, id="does-not-run"),
        pytest.param(pod("chat-2", "2026-11-30T09:35:00Z"), True, id="ran-before"),
        pytest.param(pod("chat-1", LONG_SINCE), True, id="crashed-itself"),
        pytest.param(pod("chat-2", LONG_SINCE), False, id="runs-for-long"),
    ],
)
def test_or_until_a_later_pod_has_run_for_a_while(successor: PodFacts, stands: bool) -> None:
    assert (trouble(a_crash(), pods=(successor,)) is not None) == stands


def test_or_until_a_later_pod_has_finished() -> None:
    history = [{"pod": "chat-2", "since": LATELY, "ended": "Finished"}]
    assert memory_trouble({"outOfMemory": told(a_crash())}, [], [], history, NOW) is None


@pytest.mark.parametrize("edited", [{"code": "NoFitError"}, {"at": "9999-12-31T23:59:59Z"}])
def test_what_cannot_have_been_is_not_told_on(edited: dict[str, str]) -> None:
    true = told(a_crash())
    assert trouble(old=true) == true
    assert trouble(old={**true, **edited}) is None
    assert trouble(a_crash(), old={**true, **edited}) == true
