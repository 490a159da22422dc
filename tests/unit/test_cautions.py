"""What the creator of a placed pod is warned of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import a_pod
from webhook.cautions import cautions


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "kai-scheduler"])
def test_another_scheduler_has_to_run_and_obey(scheduler: str) -> None:
    (warning,) = cautions(a_pod().spec(schedulerName=scheduler).raw())
    assert f"schedulerName '{scheduler}' is kept" in warning
    assert "node affinity" in warning


@pytest.mark.parametrize("scheduler", ["default-scheduler", "", None])
def test_kubernetes_own_scheduler_is_nothing_to_warn_of(scheduler: str | None) -> None:
    assert list(cautions(a_pod().spec(schedulerName=scheduler).raw())) == []


def test_privileged_containers_see_every_card() -> None:
    privileged = {"securityContext": {"privileged": True}}
    pod = a_pod().container("debug", **privileged).init("setup", **privileged).container("web", securityContext={})
    setup, debug = cautions(pod.raw())
    assert "container setup: it is privileged" in setup
    assert "container debug: it is privileged" in debug


@pytest.mark.parametrize("context", [None, [], "x", {"privileged": False}, {"privileged": "true"}])
def test_no_other_security_context_is_one(context: Any) -> None:
    assert list(cautions(a_pod().container("web", securityContext=context).raw())) == []
