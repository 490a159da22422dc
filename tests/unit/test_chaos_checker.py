"""The checker finds what is planted: owners that stand still, and figures that may not pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from hack.devcluster.api import Json
from shared.api import names
from tests.chaos.report import Row
from tests.chaos.standstill import standing, unbound
from tests.e2e.creates import Outcome
from tests.unit.test_invariants import a_pod


def an_owner(replicas: int = 2, gb: str = "6", gpus: str = "1", **metadata: Any) -> Json:
    asks = {names.VRAM: gb, names.GPUS: gpus}
    template = {"metadata": {"annotations": asks}, "spec": {"nodeSelector": {"pool": "t4"}}}
    name = {"namespace": "models", "name": "rs", "uid": "uid-of-rs", **metadata}
    return {"metadata": name, "spec": {"replicas": replicas, "template": template}}


def a_node(*, ready: str = "True", pool: str = "t4", **spec: Any) -> Json:
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": "t4", "labels": {"pool": pool}}, "spec": spec, "status": {"conditions": conditions}}


def a_ledger(budget: int = 16, cards: int = 1, healthy: bool = True, **reservations: str) -> Json:
    described = [{"index": index, "budgetGB": budget, "healthy": healthy} for index in range(cards)]
    return {"metadata": {"name": "t4"}, "status": {"cards": described, "reservations": reservations}}


_FREE = a_ledger()


def _taken(gb: int) -> Json:
    return a_ledger(aaaaaaaaaa=f"models/00000000;1;0:{gb}")


@pytest.mark.parametrize(
    ("owner", "pods", "ledger", "node"),
    [
        pytest.param(an_owner(), [], _FREE, a_node(), id="no-pod-at-all"),
        pytest.param(an_owner(), [a_pod()], _FREE, a_node(), id="one-pod-of-two"),
        pytest.param(an_owner(1), [a_pod(phase="Failed")], _FREE, a_node(), id="its-pod-has-failed"),
        pytest.param(an_owner(), [], _taken(10), a_node(), id="just-enough"),
        pytest.param(an_owner(gpus="2"), [], a_ledger(cards=2), a_node(), id="two-cards"),
    ],
)
def test_an_owner_that_stands_still_is_found(owner: Json, pods: list[Json], ledger: Json, node: Json) -> None:
    (found,) = standing([owner], pods, [ledger], [node])
    assert str(found).startswith("models/rs stands still: it lacks ")


@pytest.mark.parametrize(
    ("owner", "pods", "ledger", "node"),
    [
        pytest.param(an_owner(1), [a_pod()], _FREE, a_node(), id="has-its-pod"),
        pytest.param(an_owner(0), [], _FREE, a_node(), id="wants-none"),
        pytest.param(an_owner(deletionTimestamp="now"), [], _FREE, a_node(), id="is-going"),
        pytest.param(an_owner(), [], _taken(11), a_node(), id="reserved-for-others"),
        pytest.param(an_owner(), [a_pod(gb=11)], _FREE, a_node(), id="held-by-a-pod"),
        pytest.param(an_owner(gpus="2"), [], _FREE, a_node(), id="one-card-is-not-two"),
        pytest.param(an_owner(), [], a_ledger(healthy=False), a_node(), id="card-broken"),
        pytest.param(an_owner(), [], _FREE, a_node(unschedulable=True), id="cordoned"),
        pytest.param(an_owner(), [], _FREE, a_node(taints=[{"key": "x"}]), id="tainted"),
        pytest.param(an_owner(), [], _FREE, a_node(ready="False"), id="not-ready"),
        pytest.param(an_owner(), [], _FREE, a_node(pool="other"), id="not-selected"),
    ],
)
def test_an_owner_that_cannot_go_on_does_not_stand_still(
    owner: Json, pods: list[Json], ledger: Json, node: Json
) -> None:
    assert list(standing([owner], pods, [ledger], [node])) == []


def a_daemon_set() -> Json:
    return {"kind": "DaemonSet", **an_owner()}


def a_job(parallelism: int = 1, completions: int = 3, **status: Any) -> Json:
    job = an_owner()
    return {"kind": "Job", **job, "spec": {**job["spec"], "parallelism": parallelism, "completions": completions}} | {
        "status": status
    }


@pytest.mark.parametrize(
    ("owner", "pods", "lacks"),
    [
        pytest.param(a_daemon_set(), [], 1, id="daemon-set-without-a-pod-on-the-node"),
        pytest.param(a_daemon_set(), [a_pod()], 0, id="daemon-set-with-its-pod"),
        pytest.param(a_job(2), [a_pod()], 1, id="job-with-one-of-two-at-once"),
        pytest.param(a_job(2, succeeded=2), [a_pod()], 0, id="job-whose-last-pod-runs"),
        pytest.param(a_job(succeeded=3), [], 0, id="job-that-needs-no-more"),
        pytest.param(a_job(conditions=[{"type": "Failed", "status": "True"}]), [], 0, id="job-that-has-failed"),
        pytest.param(a_job(), [], 1, id="job-without-a-pod"),
    ],
)
def test_each_kind_of_owner_lacks_what_it_wants(owner: Json, pods: list[Json], lacks: int) -> None:
    found = [each.what.partition(" pods ")[0] for each in standing([owner], pods, [_FREE], [a_node()])]
    assert found == ([f"it lacks {lacks}"] if lacks else [])


def a_pinned_pod(node: str = "t4", **spec: Any) -> Json:
    field = {"key": names.NODE_NAME_FIELD, "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return a_pod(phase="Pending", affinity=affinity, **spec)


def test_a_pod_that_is_placed_and_not_bound_stands_still() -> None:
    (found,) = unbound([a_pinned_pod()], ["t4"])
    assert str(found) == "models/chat stands still: it is placed on t4 and not bound to it"


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pinned_pod(nodeName="t4"), id="bound"),
        pytest.param(a_pinned_pod("a100"), id="on-a-node-of-others"),
        pytest.param(a_pinned_pod(schedulingGates=[{"name": "later"}]), id="gated"),
    ],
)
def test_a_pod_that_waits_for_nobody_of_ours_does_not_stand_still(pod: Json) -> None:
    assert list(unbound([pod], ["t4"])) == []


def _row(**figures: Any) -> Row:
    sound = {"looks": 9, "ledgers": 9, "over_commit": frozenset(), "leaked_gb": 0, "converged_s": 3.0}
    created = Counter({str(outcome): 5 for outcome in Outcome})
    return Row("any", Counter(), created, **{**sound, "least_admitted": 5, **figures})


def test_a_sound_row_passes() -> None:
    assert _row().failures == []


@pytest.mark.parametrize(
    "figures",
    [
        pytest.param({"over_commit": frozenset({"over-commit on t4"})}, id="over-commit"),
        pytest.param({"leaked_gb": 1}, id="leak"),
        pytest.param({"converged_s": 60.0}, id="too-late"),
        pytest.param({"looks": 0}, id="nobody-looked"),
        pytest.param({"ledgers": 0}, id="no-ledger-was-judged"),
        pytest.param({"least_admitted": 6}, id="too-little-was-admitted"),
        pytest.param({"answers_all": True}, id="some-creates-failed"),
        pytest.param({"wrong": ("AssertionError: so",)}, id="the-scenario-says-so"),
    ],
)
def test_each_figure_that_may_not_be_fails_the_row(figures: dict[str, Any]) -> None:
    row = _row(**figures)
    assert len(row.failures) == 1
    assert "FAILED" in str(row)


def test_the_short_run_judges_no_times() -> None:
    late, failed = ({str(Outcome.ADMITTED): 50, str(each): 1} for each in (Outcome.LATE, Outcome.FAILED))

    def failures(created: dict[str, int], *, whole: bool) -> list[str]:
        return replace(_row(answers_all=True, whole=whole, converged_s=61.0), created=Counter(created)).failures

    assert failures(late, whole=True) == [
        "not right again after 61 s",
        "each create was to be admitted or refused: 1 late",
    ]
    assert failures(late, whole=False) == []
    many_late = {str(Outcome.ADMITTED): 8, str(Outcome.LATE): 1}
    assert failures(many_late, whole=False) == ["each create was to be admitted or refused: 1 late"]
    assert failures(failed, whole=False) == ["each create was to be admitted or refused: 1 failed"]
