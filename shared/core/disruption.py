"""Which pods a PodDisruptionBudget keeps, counted as kube-scheduler counts them when it chooses whom to evict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from shared.core.pods import PodFacts
from shared.core.selectors import LabelSelector, Operator, read_label_selector


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


class Guard:
    """Tells which pods the budgets keep. They are many and select few pods each, so a label of theirs leads to them."""

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._named: dict[str, dict[tuple[str, str], list[str]]] = {}
        """By namespace: which budgets may select a pod with a label."""
        self._unnamed: dict[str, list[str]] = {}
        """By namespace: those of which no label tells."""

    def protected(self, pods: Iterable[PodFacts]) -> frozenset[str]:
        """The keys of those that their budgets would not let go once all the `pods` before them have gone.

        As `FilterVictimsWithPDBViolation` of kube-scheduler 1.37: a pod uses up its budgets in turn, until one has none
        left. Earlier ones go on to the next budget, so of pods with several budgets they may keep others.
        """
        used: dict[tuple[str, str], int] = {}
        kept = set()
        for pod in pods:
            for name, budget in self._covering(pod):
                used[pod.namespace, name] = used.get((pod.namespace, name), 0) + 1
                if used[pod.namespace, name] > budget.allowed:
                    kept.add(pod.key)
                    break
        return frozenset(kept)

    def _covering(self, pod: PodFacts) -> Iterator[tuple[str, DisruptionBudget]]:
        budgets = self._budgets.get(pod.namespace)
        if not budgets:
            return
        if pod.namespace not in self._named:
            self._look_over(pod.namespace, budgets)
        named = self._named[pod.namespace]
        names = {name for label in pod.labels.items() for name in named.get(label, ())}
        for name in sorted(names.union(self._unnamed[pod.namespace])):
            if budgets[name].covers(pod):
                yield name, budgets[name]

    def _look_over(self, namespace: str, budgets: Mapping[str, DisruptionBudget]) -> None:
        named, unnamed = self._named.setdefault(namespace, {}), self._unnamed.setdefault(namespace, [])
        for name, budget in budgets.items():
            naming = [each for each in budget.selector.requirements if each.operator == Operator.IN][:1]
            if not naming:
                unnamed.append(name)
            for each in naming:
                for value in each.values:
                    named.setdefault((each.key, value), []).append(name)
