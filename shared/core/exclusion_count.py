"""Nodes that fall out while it is worked out why nothing fits: how many for each reason, and which if they are few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.core.alike import Alike
from shared.core.filters import Exclusion
from shared.core.refusal import MOST_NAMED, Excluded, ExcludedNode


@dataclass(slots=True)
class ExclusionCount:
    """Nodes that fell out, counted under every reason that each had."""

    counts: Counter[Exclusion | str] = field(default_factory=Counter)
    nodes: int = 0
    named: list[ExcludedNode] = field(default_factory=list)

    def count(self, alike: Alike, reasons: Sequence[Exclusion | str]) -> bool:
        """Counts nodes under `reasons`, each of which all of them have; tells whether there were any."""
        if reasons:
            self._add([state.name for state in alike.states], reasons)
        return bool(reasons)

    def count_one(self, node: str, reasons: Sequence[Exclusion | str]) -> bool:
        """Counts a single node."""
        if reasons:
            self._add([node], reasons)
        return bool(reasons)

    def facts(self) -> tuple[Excluded, ...]:
        """The reasons by number of nodes, the most frequent first."""
        facts = [Excluded(_words(what, nodes), nodes) for what, nodes in self.counts.items()]
        return tuple(sorted(facts, key=lambda fact: (-fact.nodes, fact.words)))

    def by_name(self) -> tuple[ExcludedNode, ...]:
        """The nodes by name with their reasons; empty where there are too many to name them all."""
        return tuple(sorted(self.named, key=lambda node: node.node)) if self.nodes <= MOST_NAMED else ()

    def _add(self, nodes: Sequence[str], reasons: Sequence[Exclusion | str]) -> None:
        for reason in reasons:
            self.counts[reason] += len(nodes)
        self.nodes += len(nodes)
        if self.nodes <= MOST_NAMED:
            words = tuple(_words(reason, 1).removeprefix("1 ") for reason in reasons)
            self.named += [ExcludedNode(node, words) for node in nodes]


def _words(what: Exclusion | str, nodes: int) -> str:
    return what.words(nodes) if isinstance(what, Exclusion) else f"{nodes} {what}"
