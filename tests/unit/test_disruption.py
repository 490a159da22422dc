"""Which pods a PodDisruptionBudget keeps from being evicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from shared.core.disruption import DisruptionBudget, Guard, disruption_budget
from shared.core.pods import PodFacts
from tests.builders import a_pod


def pod(name: str, namespace: str = "models", **labels: str) -> PodFacts:
    return a_pod(name, namespace).labelled(**labels).on("t4").facts()


def budget(selector: Mapping[str, Any] | None, allowed: int = 0, *evicted: str) -> DisruptionBudget:
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(evicted, "2026-11-30T10:00:00Z")}
    return disruption_budget({"spec": {"selector": selector}, "status": status})


CHAT = {"matchLabels": {"app": "chat"}}
IN = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["other", "chat"]}]}
NOT_CHAT = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["chat"]}]}


def kept(budgets: Mapping[str, DisruptionBudget], *pods: PodFacts) -> list[str]:
    keys = Guard({"models": budgets}).protected(pods)
    return [each.name for each in pods if each.key in keys]


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        pytest.param(CHAT, ["chat"], id="labels"),
        pytest.param(NOT_CHAT, ["other"], id="not-even-by-not-in-a-pod-without-labels"),
        pytest.param(IN, ["chat", "other"], id="one-of-several-values"),
        pytest.param({**IN, **CHAT}, ["chat"], id="all-of-several-labels"),
        pytest.param({}, [], id="an-empty-selector-selects-none"),
        pytest.param(None, [], id="no-selector-selects-none"),
    ],
)
def test_a_budget_covers_what_it_selects_in_its_namespace(
    selector: Mapping[str, Any] | None, covered: list[str]
) -> None:
    pods = [pod("chat", app="chat"), pod("other", app="other"), pod("bare"), pod("away", "elsewhere", app="chat")]
    assert kept({"team": budget(selector)}, *pods) == covered


def test_so_many_may_go_as_it_allows_the_first_ones() -> None:
    pods = [pod(f"chat-{number}", app="chat") for number in range(3)]
    assert kept({"team": budget(CHAT, 2)}, *pods) == ["chat-2"]
    assert kept({"team": budget(CHAT, 3)}, *pods) == []


def test_who_is_evicted_already_is_not_counted() -> None:
    pods = [pod("leaving", app="chat"), pod("first", app="chat"), pod("second", app="chat")]
    assert kept({"team": budget(CHAT, 1, "leaving")}, *pods) == ["second"]


def test_a_pod_of_two_budgets_is_kept_by_the_stricter_one() -> None:
    pods = [pod("chat", app="chat")]
    assert kept({"loose": budget(CHAT, 5), "strict": budget(CHAT, 0)}, *pods) == ["chat"]


def test_a_budget_that_its_controller_has_not_seen_yet_allows_nobody() -> None:
    assert disruption_budget({"spec": {"selector": CHAT}}).allowed == 0
