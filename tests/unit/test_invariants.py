"""The checker that the end-to-end tests trust finds each kind of mistake, and nothing in a cluster without one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import pytest

from hack.devcluster.api import Json
from shared.api import names
from tests.e2e.invariants import compare

ONE, TWO = "aaaaaaaaaa", "bbbbbbbbbb"
_CLAIM = f"models/{hashlib.sha256(b'uid-of-rs').hexdigest()[:8]}"
_PINNED: Json = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["t4"]}]}]
            }
        }
    }
}


def a_pod(reservation: str = ONE, gb: int = 6, *, name: str = "chat", phase: str = "Running", **spec: object) -> Json:
    """A pod of one ReplicaSet with a share of card 0, on the node or pinned to it."""
    asks = {"limits": {names.card_resource(0): str(gb)}, "requests": {names.card_resource(0): str(gb)}}
    return {
        "metadata": {
            "namespace": "models",
            "name": name,
            "uid": f"uid-of-{name}",
            "creationTimestamp": "2026-11-30T10:00:00Z",
            "labels": {names.RESERVATION: reservation},
            "ownerReferences": [{"uid": "uid-of-rs", "controller": True}],
        },
        "spec": {"containers": [{"name": "server", "resources": asks}], **(spec or {"nodeName": "t4"})},
        "status": {"phase": phase},
    }


def an_init_container(gb: int, **fields: object) -> Json:
    return {"name": "init", "resources": {"requests": {names.card_resource(0): str(gb)}}, **fields}


@dataclass(frozen=True, slots=True)
class Case:
    """A node with one card of 16 GB, and what is to be said of it."""

    found: tuple[str, ...] = ()
    pods: tuple[Json, ...] = ()
    reservations: dict[str, str] = field(default_factory=dict)
    reserved: int = 0
    before: tuple[Json, ...] | None = None


_CASES = {
    "nothing": Case(),
    "a-pod-and-its-entry": Case(pods=(a_pod(),), reservations={ONE: f"{_CLAIM};1;0:6"}, reserved=6),
    "a-pinned-pod-and-its-entry": Case(
        pods=(a_pod(phase="Pending", **_PINNED),), reservations={ONE: f"{_CLAIM};1;0:6"}, reserved=6
    ),
    "an-init-container-that-takes-more": Case(
        pods=(a_pod(nodeName="t4", initContainers=[an_init_container(9)]),),
        reservations={ONE: f"{_CLAIM};1;0:9"},
        reserved=9,
    ),
    "a-sidecar": Case(
        pods=(a_pod(nodeName="t4", initContainers=[an_init_container(2, restartPolicy="Always")]),),
        reservations={ONE: f"{_CLAIM};1;0:8"},
        reserved=8,
    ),
    "pods-over-capacity": Case(
        pods=(a_pod(ONE, 10, name="a"), a_pod(TWO, 10, name="b")),
        reservations={ONE: f"{_CLAIM};1;0:10", TWO: f"{_CLAIM};1;0:10"},
        reserved=20,
        found=(
            "over-commit on t4 gpu-0: pods request 20 GB of 16",
            "over-commit on t4 gpu-0: 20 GB are reserved of 16",
        ),
    ),
    "a-pod-that-waits-for-another-to-leave": Case(
        pods=(a_pod(ONE, 10, name="a"), a_pod(TWO, 10, name="b", phase="Pending", **_PINNED)),
        reservations={ONE: f"{_CLAIM};1;0:10", TWO: f"{_CLAIM};1;0:10;preempting"},
        reserved=20,
    ),
    "no-entry": Case(pods=(a_pod(),), found=(f"missing reservation on t4 gpu-0: models/chat ({ONE}) holds 6 GB",)),
    "no-entry-yet-for-a-pod-that-has-just-come": Case(pods=(a_pod(),), before=()),
    "no-entry-any-more-for-a-pod-that-is-gone": Case(before=(a_pod(),)),
    "no-entry-for-a-pod-that-has-ended": Case(pods=(a_pod(phase="Succeeded"),)),
    "two-pods-on-one-entry": Case(
        pods=(a_pod(name="a"), a_pod(name="b")),
        reservations={ONE: f"{_CLAIM};1;0:6"},
        reserved=6,
        found=(f"missing reservation on t4 gpu-0: models/b ({ONE}) holds 6 GB",),
    ),
    "no-pod": Case(
        reservations={ONE: f"{_CLAIM};1;0:6"},
        reserved=6,
        found=(f"leaked reservation on t4 gpu-0: no pod carries {ONE}, which holds 6 GB for {_CLAIM}",),
    ),
    "a-kept-seat": Case(
        reservations={ONE: f"{_CLAIM};60;0:6;kept"},
        reserved=6,
        found=(f"kept seat on t4 gpu-0: no pod carries {ONE}, which holds 6 GB for {_CLAIM}",),
    ),
    "a-seat-that-was-kept-too-long": Case(
        reservations={ONE: f"{_CLAIM};10;0:6;4096;kept"},
        reserved=6,
        found=(f"leaked reservation on t4 gpu-0: no pod carries {ONE}, which holds 6 GB for {_CLAIM}",),
    ),
    "a-pod-on-a-seat-that-is-still-called-kept": Case(
        pods=(a_pod(),),
        reservations={ONE: f"{_CLAIM};60;0:6;kept"},
        reserved=6,
        found=(f"disagreement on t4: models/chat holds {{0: 6}} for {_CLAIM}, its entry says {_CLAIM};60;0:6;kept",),
    ),
    "kept-seats-over-the-budget": Case(
        reservations={ONE: f"{_CLAIM};60;0:17;kept"},
        reserved=17,
        found=(
            "over-commit on t4 gpu-0: 17 GB are reserved of 16",
            f"kept seat on t4 gpu-0: no pod carries {ONE}, which holds 17 GB for {_CLAIM}",
        ),
    ),
    "a-pod-whose-victims-are-still-in-the-ledger": Case(
        pods=(a_pod(TWO, 10, name="b"),),
        reservations={ONE: f"{_CLAIM};1;0:10", TWO: f"{_CLAIM};1;0:10;preempting"},
        reserved=20,
        found=(
            f"disagreement on t4: models/b holds {{0: 10}} for {_CLAIM}, its entry says {_CLAIM};1;0:10;preempting",
            f"leaked reservation on t4 gpu-0: no pod carries {ONE}, which holds 10 GB for {_CLAIM}",
        ),
    ),
    "a-pod-that-is-younger-than-what-was-read-of-its-ledger": Case(
        pods=(a_pod(ONE, 10, name="a"), a_pod(TWO, 10, name="b", phase="Pending", **_PINNED)),
        before=(a_pod(ONE, 10, name="a"),),
        reservations={ONE: f"{_CLAIM};1;0:10"},
        reserved=10,
    ),
    "a-pod-that-was-bound-before-its-victims-left": Case(
        pods=(a_pod(ONE, 10, name="a"), a_pod(TWO, 10, name="b")),
        reservations={ONE: f"{_CLAIM};1;0:10", TWO: f"{_CLAIM};1;0:10;preempting"},
        reserved=20,
        found=(
            "over-commit on t4 gpu-0: pods request 20 GB of 16",
            f"disagreement on t4: models/b holds {{0: 10}} for {_CLAIM}, its entry says {_CLAIM};1;0:10;preempting",
        ),
    ),
    "an-entry-with-memory": Case(pods=(a_pod(),), reservations={ONE: f"{_CLAIM};1;0:6;2048"}, reserved=6),
    "other-amount": Case(
        pods=(a_pod(),),
        reservations={ONE: f"{_CLAIM};1;0:5"},
        reserved=5,
        found=(f"disagreement on t4: models/chat holds {{0: 6}} for {_CLAIM}, its entry says {_CLAIM};1;0:5",),
    ),
    "other-owner": Case(
        pods=(a_pod(),),
        reservations={ONE: "models/00000000;1;0:6"},
        reserved=6,
        found=(f"disagreement on t4: models/chat holds {{0: 6}} for {_CLAIM}, its entry says models/00000000;1;0:6",),
    ),
    "an-entry-that-cannot-be-read": Case(
        reservations={ONE: "?"}, found=(f"leaked reservation on t4: {ONE} cannot be read: '?'",)
    ),
    "another-sum": Case(
        pods=(a_pod(),),
        reservations={ONE: f"{_CLAIM};1;0:6"},
        reserved=7,
        found=("disagreement on t4: the summary says 7 GB, the entries add up to 6",),
    ),
}


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES.keys())
def test_each_mistake_is_found_and_nothing_else(case: Case) -> None:
    status = {
        "cards": [{"index": 0, "budgetGB": 16}],
        "reservations": case.reservations,
        "summary": {"reservedGB": case.reserved},
    }
    node = {"metadata": {"name": "t4"}, "status": {"capacity": {names.card_resource(0): "16"}}}
    before = case.pods if case.before is None else case.before
    found = compare(before, [{"metadata": {"name": "t4"}, "status": status}], case.pods, [node], now=100.0)
    assert tuple(map(str, found)) == case.found
