"""The checker finds what a ModelPlacement says wrongly, and nothing in one that says what is so."""

from __future__ import annotations

from typing import Any

import pytest

from hack.devcluster.api import Json
from tests.chaos.reported import compare, wanted
from tests.unit.test_invariants import a_pod


def a_top(replicas: int = 2, **metadata: Any) -> Json:
    head = {"namespace": "models", "name": "chat", "uid": "uid-of-chat", **metadata}
    return {"kind": "Deployment", "metadata": head, "spec": {"replicas": replicas}}


def a_set(replicas: int = 2) -> Json:
    refs = [{"kind": "Deployment", "uid": "uid-of-chat", "controller": True}]
    head = {"namespace": "models", "name": "rs", "uid": "uid-of-rs", "ownerReferences": refs}
    return {"kind": "ReplicaSet", "metadata": head, "spec": {"replicas": replicas}}


def pods(*phases: str, **metadata: Any) -> list[Json]:
    made = [a_pod(name=f"chat-{number}", phase=each) for number, each in enumerate(phases)]
    return [{**each, "kind": "Pod", "metadata": {**each["metadata"], **metadata}} for each in made]


def a_report(placed: int = 2, wants: int = 2, phase: str = "Running", **status: Any) -> Json:
    refs = [{"kind": "Deployment", "uid": "uid-of-chat"}]
    head = {"namespace": "models", "name": "deployment-chat", "ownerReferences": refs}
    return {"metadata": head, "status": {"placed": placed, "wanted": wants, "phase": phase, **status}}


_REFUSED = {"ReplicaSet.rs": {"uid": "uid-of-rs"}}
_DOWN = {"phase": "Running", "containerStatuses": [{"state": {"waiting": {}}}]}


def _down() -> list[Json]:
    return [{**each, "status": _DOWN} for each in pods("Running", "Running")]


@pytest.mark.parametrize(
    ("report", "objects", "found"),
    [
        pytest.param(
            a_report(placed=3),
            [a_top(), a_set(), *pods("Running", "Running")],
            "says that 3 pods are placed, and it is 2",
            id="too-many",
        ),
        pytest.param(
            a_report(placed=2, wants=1),
            [a_top(1), a_set(1), *pods("Running", "Failed")],
            "says that 2 pods are placed, and it is 1",
            id="one-has-failed",
        ),
        pytest.param(
            a_report(0, 0),
            [a_top(0), a_set(0), *pods("Running")],
            "says that 0 pods are placed, and it is 1",
            id="one-is-left-out",
        ),
        pytest.param(
            a_report(wants=3),
            [a_top(), a_set(), *pods("Running", "Running")],
            "says that 3 pods are wanted, and it is 2",
            id="wants-fewer",
        ),
        pytest.param(
            a_report(phase="Placed"),
            [a_top(), a_set(), *pods("Running", "Running")],
            "says Placed, and it is Running",
            id="all-run",
        ),
        pytest.param(
            a_report(),
            [a_top(), a_set(), *pods("Running", "Pending")],
            "says Running, and it is Placed",
            id="one-waits",
        ),
        pytest.param(
            a_report(1), [a_top(), a_set(), *pods("Running")], "says Running, and it is Pending", id="one-is-missing"
        ),
        pytest.param(
            a_report(0, 0, "Running"), [a_top(0), a_set(0)], "says Running, and it is Idle", id="nothing-is-wanted"
        ),
        pytest.param(
            a_report(1, refusals=_REFUSED),
            [a_top(), a_set(), *pods("Running")],
            "says Running, and it is Failed",
            id="one-is-refused",
        ),
        pytest.param(
            a_report(phase="Failed", refusals=_REFUSED),
            [a_top(), a_set(), *pods("Running", "Running")],
            "shows a refusal of ReplicaSet.rs, which has all 2 pods that it wants",
            id="refused-and-complete",
        ),
        pytest.param(
            a_report(phase="Failed", refusals={"ReplicaSet.old": {"uid": "uid-of-old"}}),
            [a_top(), a_set(), *pods("Running", "Running")],
            "shows a refusal of ReplicaSet.old, which is gone",
            id="refused-and-gone",
        ),
        pytest.param(a_report(), [], "is there, and its workload is gone", id="of-nobody"),
    ],
)
def test_what_is_said_wrongly_is_found(report: Json, objects: list[Json], found: str) -> None:
    assert list(compare([report], objects)) == [("ModelPlacement models/deployment-chat", "models", found)]


@pytest.mark.parametrize(
    ("report", "objects"),
    [
        pytest.param(a_report(), [a_top(), a_set(), *pods("Running", "Running")], id="all-run"),
        pytest.param(a_report(phase="Placed"), [a_top(), a_set(), *_down()], id="one-is-down"),
        pytest.param(a_report(phase="Running"), [a_top(), a_set(), *_down()], id="one-comes-up"),
        pytest.param(a_report(0, 0, "Idle"), [a_top(0), a_set(0)], id="idle"),
        pytest.param(
            a_report(0, 0, "Idle"),
            [a_top(0), a_set(0), *pods("Running", deletionTimestamp="now")],
            id="the-last-one-leaves",
        ),
        pytest.param(a_report(1, 2, "Failed", refusals=_REFUSED), [a_top(), a_set(), *pods("Running")], id="refused"),
        pytest.param(a_report(9), [a_top(deletionTimestamp="now"), a_set()], id="its-workload-is-going"),
    ],
)
def test_nothing_is_found_in_what_is_so(report: Json, objects: list[Json]) -> None:
    assert list(compare([report], objects)) == []


def test_a_workload_with_placed_pods_has_a_report() -> None:
    found = list(compare([], [a_top(), a_set(), *pods("Running")]))
    assert found == [("Deployment models/chat", "models", "has 1 placed pods and no ModelPlacement")]


@pytest.mark.parametrize(
    ("kind", "spec", "status", "wants"),
    [
        pytest.param("StatefulSet", {"replicas": 3}, {}, 3, id="stateful-set"),
        pytest.param("DaemonSet", {}, {"desiredNumberScheduled": 4}, 4, id="daemon-set"),
        pytest.param("Job", {"parallelism": 3, "completions": 4}, {"succeeded": 2}, 2, id="job"),
        pytest.param("Job", {}, {"conditions": [{"type": "Complete", "status": "True"}]}, 0, id="job-that-is-over"),
        pytest.param("Pod", {}, {"phase": "Running"}, 1, id="pod"),
        pytest.param("Pod", {}, {"phase": "Failed"}, 0, id="pod-that-has-ended"),
        pytest.param("CronJob", {}, {}, None, id="says-nothing"),
    ],
)
def test_each_kind_says_what_it_wants(kind: str, spec: Json, status: Json, wants: int | None) -> None:
    assert wanted({"kind": kind, "spec": spec, "status": status}) == wants
