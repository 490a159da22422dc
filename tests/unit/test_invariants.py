"""The checker that the end-to-end tests trust finds each kind of mistake, and nothing in a cluster without one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import pytest

from hack.devcluster.api import Json
from shared.api import names
from tests.e2e.invariants import booked_gb, compare

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
    "a-pod-whose-id-was-taken-off": Case(
        pods=(a_pod(reservation=""),),
        reserved=6,
        found=("missing reservation on t4 gpu-0: models/chat () holds 6 GB",),
    ),
    "another-sum": Case(
        pods=(a_pod(),),
        reservations={ONE: f"{_CLAIM};1;0:6"},
        reserved=7,
        found=("disagreement on t4: the summary says 7 GB, the entries add up to 6",),
    ),
}


GPU = names.NVIDIA_GPU


def a_unit_pod(reservation: str = ONE, resource: str = GPU, count: int = 1, *, name: str = "chat") -> Json:
    """As `a_pod`, with units of a vendor's resource."""
    asks = {"limits": {resource: str(count)}, "requests": {resource: str(count), "cpu": "500m"}}
    return a_pod(reservation, name=name, containers=[{"name": "server", "resources": asks}], nodeName="t4")


_UNIT_CASES = {
    "two-pods-and-their-entries": Case(
        pods=(a_unit_pod(ONE, name="a"), a_unit_pod(TWO, name="b")),
        reservations={ONE: f"{_CLAIM};1;{GPU}=1", TWO: f"{_CLAIM};1;{GPU}=1"},
        reserved=44,
    ),
    "entries-over-what-the-node-offers": Case(
        pods=(a_unit_pod(count=2),),
        reservations={ONE: f"{_CLAIM};1;{GPU}=2", TWO: f"{_CLAIM};60;{GPU}=1;kept"},
        reserved=44,
        found=(
            f"over-commit on t4 {GPU}: 3 units are reserved of 2",
            f"kept seat on t4 {GPU}: no pod carries {TWO}, which holds 1 units for {_CLAIM}",
        ),
    ),
    "pods-over-what-the-node-offers": Case(
        pods=(a_unit_pod(count=3),),
        reservations={ONE: f"{_CLAIM};1;{GPU}=3;2048"},
        reserved=44,
        found=(
            f"over-commit on t4 {GPU}: pods request 3 units of 2",
            f"over-commit on t4 {GPU}: 3 units are reserved of 2",
        ),
    ),
    "one-that-waits-for-another-to-leave": Case(
        pods=(a_unit_pod(count=2),),
        reservations={ONE: f"{_CLAIM};1;{GPU}=2", TWO: f"{_CLAIM};1;{GPU}=1;preempting"},
        reserved=44,
        found=(f"leaked reservation on t4 {GPU}: no pod carries {TWO}, which holds 1 units for {_CLAIM}",),
    ),
    "no-entry": Case(
        pods=(a_unit_pod(),), found=(f"missing reservation on t4 {GPU}: models/chat ({ONE}) holds 1 units",)
    ),
    "no-pod": Case(
        reservations={ONE: f"{_CLAIM};1;{GPU}=1"},
        reserved=22,
        found=(f"leaked reservation on t4 {GPU}: no pod carries {ONE}, which holds 1 units for {_CLAIM}",),
    ),
    "other-number": Case(
        pods=(a_unit_pod(count=2),),
        reservations={ONE: f"{_CLAIM};1;{GPU}=1"},
        reserved=22,
        found=(
            f"disagreement on t4: models/chat holds {{'{GPU}': 2}} for {_CLAIM}, its entry says {_CLAIM};1;{GPU}=1",
        ),
    ),
    "a-slice-that-the-node-offers": Case(
        pods=(a_unit_pod(resource="nvidia.com/mig-1g.10gb"),),
        reservations={ONE: f"{_CLAIM};1;nvidia.com/mig-1g.10gb=1"},
    ),
    "a-resource-that-it-does-not-offer": Case(
        pods=(a_unit_pod(resource=names.AMD_GPU),),
        reservations={ONE: f"{_CLAIM};1;{names.AMD_GPU}=1"},
        found=(
            f"over-commit on t4 {names.AMD_GPU}: pods request 1 units of 0",
            f"over-commit on t4 {names.AMD_GPU}: 1 units are reserved of 0",
        ),
    ),
    "another-sum": Case(
        pods=(a_unit_pod(),),
        reservations={ONE: f"{_CLAIM};1;{GPU}=1"},
        reserved=1,
        found=("disagreement on t4: the summary says 1 GB, the entries add up to 22",),
    ),
    "one-resource-twice-in-an-entry": Case(
        reservations={ONE: f"{_CLAIM};1;{GPU}=1,{GPU}=1"},
        found=(f"leaked reservation on t4: {ONE} cannot be read: '{_CLAIM};1;{GPU}=1,{GPU}=1'",),
    ),
}


@pytest.mark.parametrize("case", _UNIT_CASES.values(), ids=_UNIT_CASES.keys())
def test_each_mistake_with_units_is_found_and_nothing_else(case: Case) -> None:
    """Two whole cards of 22 GB, and a slice."""
    status = {
        "cards": [{"index": index, "budgetGB": 22, "vendor": "nvidia"} for index in (0, 1)],
        "units": [
            {"resource": GPU, "gb": 22, "perCard": 1, "partition": False},
            {"resource": "nvidia.com/mig-1g.10gb", "gb": 9, "partition": True},
        ],
        "reservations": case.reservations,
        "summary": {"reservedGB": case.reserved},
    }
    offered = {GPU: "2", "nvidia.com/mig-1g.10gb": "1"}
    node = {"metadata": {"name": "t4"}, "status": {"capacity": {GPU: "8"}, "allocatable": offered}}
    found = compare(case.pods, [{"metadata": {"name": "t4"}, "status": status}], case.pods, [node], now=100.0)
    assert tuple(map(str, found)) == case.found


@pytest.mark.parametrize(
    ("per_card", "units", "by_card"),
    [
        pytest.param(1, 2, {0: 22, 1: 22}, id="whole"),
        pytest.param(4, 3, {0: 15, 1: 0}, id="replicas-of-one-card"),
        pytest.param(4, 5, {0: 20, 1: 5}, id="replicas-of-two"),
    ],
)
def test_units_are_told_of_cards_in_gb(per_card: int, units: int, by_card: dict[int, int]) -> None:
    status = {
        "cards": [{"index": index, "budgetGB": 22, "vendor": "nvidia"} for index in (0, 1)],
        "units": [{"resource": GPU, "gb": 5, "perCard": per_card}],
        "reservations": {ONE: f"{_CLAIM};1;{GPU}={units}"},
    }
    reserved, held = booked_gb(status, [a_unit_pod(count=units)], "t4")
    assert dict(reserved) == dict(held) == by_card


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
