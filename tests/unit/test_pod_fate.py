"""What is to be told of placed pods that ended, were evicted, or crashed."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api import names
from shared.core.oom import OOM_KILLED, Memory, Shortage
from shared.core.pod_fate import Ending, Place, PodFate, pod_fate
from tests.builders import PodBuilder, a_pod

AT, LATER = "2026-11-30T09:40:00Z", "2026-11-30T09:41:00Z"
CUDA = "RuntimeError: CUDA error: out of memory"


def placed(shares: dict[int, int] | None = None) -> PodBuilder:
    limits = {names.card_resource(index): str(gb) for index, gb in (shares or {0: 6}).items()}
    return a_pod("chat-1").limited_to(limits).on("t4").created("2026-11-30T09:30:00Z")


def dead(container: str = "main", code: int = 1, **ended: Any) -> dict[str, Any]:
    """The status of a container that ended and was not started again."""
    return {"name": container, "state": {"terminated": {"exitCode": code, "finishedAt": AT, **ended}}}


def restarted(running: bool, ready: bool = False, **ended: Any) -> dict[str, Any]:
    """The status of a container whose previous instance died."""
    state = {"running": {"startedAt": LATER}} if running else {"waiting": {"reason": "CrashLoopBackOff"}}
    last = {"terminated": {"exitCode": 1, "finishedAt": AT, **ended}}
    return {"name": "main", "state": state, "lastState": last, "ready": ready, "restartCount": 1}


def fate(pod: PodBuilder, *containers: dict[str, Any], **status: Any) -> PodFate | None:
    return pod_fate(pod.status(containerStatuses=list(containers), **status).raw())


def told(pod: PodBuilder, *containers: dict[str, Any], **status: Any) -> PodFate:
    found = fate(pod, *containers, **status)
    assert found is not None
    return found


def evicted(status: str = "True") -> dict[str, Any]:
    return {
        "type": "DisruptionTarget",
        "status": status,
        "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": LATER,
    }


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(placed(), id="runs"),
        pytest.param(placed().status(containerStatuses=[{"name": "main", "state": {"running": {}}}]), id="never-died"),
        pytest.param(
            placed().status(containerStatuses=[restarted(running=True, exitCode=0)]), id="ended-well-and-runs"
        ),
        pytest.param(placed().status(conditions=[evicted("False")]), id="was-not-evicted-in-the-end"),
        pytest.param(a_pod().on("t4").in_phase("Failed"), id="holds-nothing"),
        pytest.param(a_pod().on("t4").in_phase("Failed").limited_to({names.NVIDIA_GPU: "1"}), id="is-not-ours"),
        pytest.param(
            a_pod().limited_to({names.card_resource(0): "6"}).in_phase("Failed"), id="is-on-no-node-and-pinned-to-none"
        ),
        pytest.param(placed().limited_to(memory="lots").in_phase("Failed"), id="cannot-be-read"),
        pytest.param(
            placed().container("log").status(containerStatuses=[dead("log"), dead("unheard-of")]),
            id="something-beside-the-model-server-died",
        ),
    ],
)
def test_there_is_nothing_to_tell_of_a_pod_that(pod: PodBuilder) -> None:
    assert pod_fate(pod.raw()) is None


@pytest.mark.parametrize(
    ("pod", "ending", "is_over"),
    [
        pytest.param(placed().in_phase("Succeeded"), Ending.FINISHED, True, id="finished"),
        pytest.param(placed().in_phase("Failed"), Ending.FAILED, True, id="failed"),
        pytest.param(
            placed().status(phase="Failed", reason="Evicted"), Ending.EVICTED, True, id="evicted-by-the-kubelet"
        ),
        pytest.param(
            placed().status(phase="Failed", conditions=[{"type": "Ready", "status": "False"}, evicted()]),
            Ending.EVICTED,
            True,
            id="failed-as-it-was-evicted",
        ),
        pytest.param(placed().status(conditions=[evicted()]), Ending.EVICTED, False, id="about-to-be-evicted"),
        pytest.param(
            placed().status(phase="Failed", containerStatuses=[dead(message=CUDA)]),
            Ending.OOM,
            True,
            id="out-of-memory",
        ),
        pytest.param(
            placed().status(containerStatuses=[restarted(running=False, message=CUDA)]),
            Ending.OOM,
            False,
            id="crash-loop-out-of-memory",
        ),
        pytest.param(
            placed().status(containerStatuses=[restarted(running=True, ready=True, message=CUDA)]),
            Ending.DELETED,
            False,
            id="serves-again",
        ),
        pytest.param(
            placed().status(containerStatuses=[restarted(running=False)]), Ending.DELETED, False, id="crash-loop"
        ),
    ],
)
def test_how_the_placement_of_a_pod_ended_or_would_be_told_if_it_went(
    pod: PodBuilder, ending: Ending, is_over: bool
) -> None:
    found = told(pod) if "containerStatuses" not in pod.raw()["status"] else pod_fate(pod.raw())
    assert found is not None
    assert (found.ending, found.is_over) == (ending, is_over)


def test_it_says_who_held_what_until_when() -> None:
    pod = placed({0: 6, 2: 6}).owned_by("Job", "chat", "uid-job").in_phase("Failed")
    found = told(pod, dead())
    assert (found.name, found.namespace, found.created, found.changed) == (
        "chat-1",
        "models",
        "2026-11-30T09:30:00Z",
        AT,
    )
    assert found.place == Place("t4", ((0, 6), (2, 6)), ())
    assert found.owner is not None
    assert found.owner.name == "chat"


def test_a_pod_that_holds_units_by_a_reservation_counts_too() -> None:
    pod = a_pod().limited_to({names.NVIDIA_GPU: "1"}).label(names.RESERVATION, "abcdefgh23").pinned_to("eks")
    assert told(pod.in_phase("Failed"), dead()).place == Place("eks", (), ((names.NVIDIA_GPU, 1),))


def test_a_crash_is_of_the_container_that_holds_a_share() -> None:
    pod = placed().container("log").sidecar("embedder", {names.card_resource(1): "2"})
    pod.status(initContainerStatuses=[dead("embedder")])
    crashes = told(pod, dead("log"), dead()).crashes
    assert [(crash.container, crash.place.shares) for crash in crashes] == [
        ("main", ((0, 6),)),
        ("embedder", ((1, 2),)),
    ]


@pytest.mark.parametrize(
    ("container", "restarted_since", "running_since", "is_down"),
    [
        pytest.param(dead(), False, "", True, id="ended"),
        pytest.param(restarted(running=False), True, "", True, id="waits"),
        pytest.param(restarted(running=True), True, LATER, False, id="runs-again"),
    ],
)
def test_what_came_after_a_crash(
    container: dict[str, Any], restarted_since: bool, running_since: str, is_down: bool
) -> None:
    found = told(placed(), container)
    (crash,) = found.crashes
    assert (crash.at, crash.restarted, crash.running_since) == (AT, restarted_since, running_since)
    assert found.is_down == is_down


def test_a_crash_of_which_nobody_knows_the_time_has_that_of_the_pod() -> None:
    (crash,) = told(placed(), dead(finishedAt=None, reason="ContainerStatusUnknown")).crashes
    assert crash.at == "2026-11-30T09:30:00Z"


@pytest.mark.parametrize(
    ("ended", "shortage"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param(
            {"message": "CUDA error: out of memory"}, Shortage(Memory.CARD, "CUDA error: out of memory"), id="gpu"
        ),
        pytest.param({"code": 137, "reason": "OOMKilled"}, OOM_KILLED, id="killed-by-the-kernel"),
        pytest.param({"code": 137, "reason": "Error"}, None, id="killed-by-somebody"),
    ],
)
def test_the_cause_as_the_status_tells_it(ended: dict[str, Any], shortage: Shortage | None) -> None:
    (crash,) = told(placed(), dead(**ended)).crashes
    assert crash.shortage == shortage


def test_a_cause_that_is_found_elsewhere_is_that_of_its_crash_alone() -> None:
    pod = placed().sidecar("embedder", {names.card_resource(1): "2"}).status(initContainerStatuses=[dead("embedder")])
    found = told(pod, dead(), phase="Failed")
    assert found.ending is Ending.FAILED
    shortage = Shortage(Memory.CARD, "CUDA out of memory")
    found = found.with_shortage(("embedder", AT), shortage)
    assert [crash.shortage for crash in found.crashes] == [None, shortage]
    assert found.ending is Ending.OOM
