"""Which pods a PodDisruptionBudget keeps, counted as kube-scheduler counts them when it chooses whom to evict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from shared.core.pods import PodFacts
from shared.core.selectors import LabelSelector, read_label_selector


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A `PodDisruptionBudget` as its controller last left it: how many of the pods that it selects may be `allowed` to
    go, and the names of those that are `evicted` already.
    """

    selector: LabelSelector
    allowed: int = 0
    evicted: frozenset[str] = frozenset()

    def covers(self, pod: PodFacts) -> bool:
        """Whether it counts a pod of its namespace. To the scheduler an empty selector selects none, and no selector
        one without labels.
        """
        selects = bool(pod.labels and self.selector.requirements) and self.selector.matches(pod.labels)
        return selects and pod.name not in self.evicted


DisruptionBudgets: TypeAlias = Mapping[str, Mapping[str, DisruptionBudget]]
"""By namespace and name."""


def disruption_budget(raw: Mapping[str, Any]) -> DisruptionBudget:
    """The budget that is stored as `raw`."""
    status = raw.get("status") or {}
    return DisruptionBudget(
        read_label_selector((raw.get("spec") or {}).get("selector")) or LabelSelector(),
        status.get("disruptionsAllowed") or 0,
        frozenset(status.get("disruptedPods") or ()),
    )


def protected(pods: Iterable[PodFacts], budgets: DisruptionBudgets) -> frozenset[str]:
    """The keys of those that their budgets would not let go once all the `pods` before them have gone.

    As kube-scheduler's `FilterVictimsWithPDBViolation`: a pod uses up its budgets in turn, until one has none left.
    """
    used: dict[tuple[str, str], int] = {}
    kept = set()
    for pod in pods:
        for name, budget in budgets.get(pod.namespace, {}).items():
            if budget.covers(pod):
                used[pod.namespace, name] = used.get((pod.namespace, name), 0) + 1
                if used[pod.namespace, name] > budget.allowed:
                    kept.add(pod.key)
                    break
    return frozenset(kept)
