"""Where a pod fits once pods of lower priority have left: found as kube-scheduler's own preemption will find them.

The scheduler looks at the node that the pod is pinned to. It takes every pod of lower priority away, and where the pod
then fits it gives back as many as it can: first those that a PodDisruptionBudget keeps, then the others, each time the
most important first. Those that are left over it evicts. The same is done here with what the ledger knows besides. A
place is only given where both come to the same victims: where the scheduler would evict fewer, the ledger would stay
above the budget, where it would evict others, we named the wrong ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final, TypeAlias

from shared.api import names
from shared.core.card_choice import accel_met
from shared.core.constraints import Constraints
from shared.core.demand import Demand
from shared.core.disruption import DisruptionBudgets, Guard
from shared.core.filters import admits_load, admits_node
from shared.core.ledger import Mark
from shared.core.node_choice import NodeSearch
from shared.core.peers import Peers
from shared.core.placement import Placed, fits
from shared.core.pods import PodFacts
from shared.core.refusal import Victims
from shared.core.snapshot import NodeState, Snapshot

_MOST_NODES: Final = 100
"""How many nodes are tried at most, of those that could do by the sums of what their pods hold."""

_ENOUGH: Final = 8
"""Of so many nodes that do the best is taken, as the scheduler too stops looking once it has found some."""

_PRIORITY_OFFSET: Final = 2**31
"""Makes every priority count as a pod more, also a negative one."""

_NOT_STARTED: Final = "~"
"""Later than any time."""

_Fits: TypeAlias = Callable[[NodeState], bool]


def may_preempt(spec: Mapping[str, Any]) -> bool:
    """Whether a pod may take the place of others: admission has written its class's policy into its spec."""
    return spec.get("preemptionPolicy") != names.PREEMPT_NEVER


@dataclass(frozen=True, slots=True)
class Preemption:
    """A place, and the pods of lower priority that have to leave it first, the most important first.

    `violations` is how many of them their disruption budgets would keep.
    """

    placed: Placed
    victims: tuple[PodFacts, ...]
    violations: int = 0

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(victim.key for victim in self.victims)

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """What the scheduler compares nodes by: how many budgets keep, the highest priority of a victim, the sum of
        their priorities, their number.
        """
        priorities = [victim.priority for victim in self.victims]
        total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
        return self.violations, max(priorities), total, len(priorities)

    @property
    def run_since(self) -> str:
        """Since when the oldest of the victims with the highest priority runs: who runs longest should go on."""
        highest = self.victims[0].priority
        return min(victim.started or _NOT_STARTED for victim in self.victims if victim.priority == highest)

    def told(self, namespace: str) -> Victims:
        """The victims as a caller in `namespace` may know them."""
        booking = self.placed.booking
        own = sorted(victim.name for victim in self.victims if victim.namespace == namespace)
        return Victims(
            self.placed.node,
            tuple(index for index, _ in booking),
            sum(dict(victim.shares).get(index, 0) for victim in self.victims for index, _ in booking),
            tuple(own),
            len(self.victims) - len(own),
        )


def find_preemption(snapshot: Snapshot, demand: Demand, constraints: Constraints, priority: int) -> Preemption | None:
    """The place of a pod that fits nowhere now and may take that of others; None if there is no such place.

    Victims are pods that run on the node, also those that are about to end, as they are for the scheduler. Where pods
    keep this one away by affinity, anti-affinity, spread or a claim, and not by what they hold, they are left alone.
    """
    nodes = snapshot.indexed.with_pods_below(priority)
    first = next(nodes, None)
    if first is None:
        return None
    search = _Search(snapshot, demand, constraints.settled(snapshot.volumes), priority)
    tried = map(search.on, islice(filter(search.could_do, chain((first,), nodes)), _MOST_NODES))
    found = list(islice((each for each in tried if each is not None), _ENOUGH))
    found.sort(key=lambda each: each.placed.node)
    found.sort(key=lambda each: each.run_since, reverse=True)
    return min(found, key=lambda each: each.cost, default=None)


def victims_left(state: NodeState, pod: PodFacts, budgets: DisruptionBudgets) -> int:
    """How many pods of lower priority have yet to leave a node before `pod` has the cards that it was given there."""
    others = state.without_placement_of(pod)
    lower = _lower(others, pod.priority)
    order = _spared_first(lower, Guard(budgets).protected(lower))
    left_over = _left_over(others, order, lambda left: fits(left, pod.shares, units=pod.units))
    return len(left_over or ())


def once_preempted(state: NodeState, priority: int) -> NodeState:
    """A node as a pod of this priority finds it at best: once all pods of lower priority have left it."""
    return state.without_pods({pod.key for pod in _lower(state, priority)})


class _Search:
    """The search for one pod on one node after another."""

    def __init__(self, snapshot: Snapshot, demand: Demand, constraints: Constraints, priority: int) -> None:
        self._snapshot = snapshot
        self._demand = demand
        self._constraints = constraints
        self._priority = priority
        self._peers = Peers.of(snapshot, constraints)
        self._cards = NodeSearch(demand, constraints.requests.get(names.MEMORY, 0))
        self._guard = Guard(snapshot.disruption_budgets)
        self._wanted = [(ask.least_gb, ask.count) for ask in demand.asks]

    def could_do(self, state: NodeState) -> bool:
        """Whether a node has what is asked by the sums, if every pod of lower priority left."""
        if state.name in self._snapshot.rejecting:
            return False  # Nobody has to leave for a pod that the kubelet would reject.
        if not accel_met(state.inventory, self._demand) or not admits_node(state.facts, self._constraints):
            return False
        if state.kinds or state.memory is not None:
            return True
        cards = state.inventory.cards
        room = {card.index: free for card, free in zip(cards, state.free_gb, strict=True)}
        for pod in state.pods.values():
            if pod.bound and pod.priority < self._priority:
                for index, gb in pod.shares:
                    room[index] = room.get(index, 0) + gb
        if state.inventory.exclusive or any(card.is_partition for card in cards):
            # Such a card is free as a whole or not at all.
            room = {card.index: card.budget_gb if room[card.index] else 0 for card in cards}
        return all(sum(gb >= least for gb in room.values()) >= count for least, count in self._wanted)

    def on(self, state: NodeState) -> Preemption | None:
        """The place on one node, or None if there is none, or if the scheduler would take other victims."""
        lower = _lower(state, self._priority)
        kept = self._guard.protected(lower)
        order = _spared_first(lower, kept)
        peers = self._peers
        if self._constraints.pod_affinity:
            # The pods that it wants to be near could be among those that leave.
            bare = state.without_pods({pod.key for pod in lower})
            peers = Peers.of(self._snapshot.changed({state.name: bare}), self._constraints)
        victims = _left_over(
            state,
            order,
            lambda left: admits_load(left, self._constraints, peers) and self._cards.choose(left) is not None,
        )
        if not victims:
            return None
        given = self._cards.choose(state.without_pods({victim.key for victim in victims}))
        assert given is not None, "what is left without the victims was found to do"
        placed = Placed.of(state.name, given, self._demand)
        rewritten = replace(self._constraints, requests={**self._constraints.requests, **placed.requests})
        evicted = _left_over(self._as_scheduled(state), order, lambda left: admits_load(left, rewritten, peers))
        if evicted != victims:
            return None
        return Preemption(
            placed, tuple(sorted(victims, key=_importance)), sum(victim.key in kept for victim in victims)
        )

    def _as_scheduled(self, state: NodeState) -> NodeState:
        """The node as the scheduler sees it: the pods that run there, and those it has evicted others for."""
        counted = {key: pod for key, pod in state.pods.items() if pod.bound or self._is_nominated(state, pod)}
        return NodeState.of(state.facts, pods=counted)

    def _is_nominated(self, state: NodeState, pod: PodFacts) -> bool:
        entry = state.ledger.get(pod.reservation or "")
        return entry is not None and entry.mark is Mark.PREEMPTING and pod.priority >= self._priority


def _lower(state: NodeState, priority: int) -> list[PodFacts]:
    """The pods of lower priority that run on a node, the most important first."""
    lower = [pod for pod in state.pods.values() if pod.bound and pod.priority < priority]
    lower.sort(key=_importance)
    return lower


def _importance(pod: PodFacts) -> tuple[int, str, str]:
    """The more important sorts first: of equal priority who runs longer."""
    return -pod.priority, pod.started or _NOT_STARTED, pod.key


def _spared_first(lower: Iterable[PodFacts], kept: Collection[str]) -> list[PodFacts]:
    """The pods of `lower` in the order in which they may stay: those that are `kept`, then the others."""
    return sorted(lower, key=lambda pod: pod.key not in kept)


def _left_over(state: NodeState, lower: Sequence[PodFacts], fits: _Fits) -> list[PodFacts] | None:
    """Those of the pods of `lower`, given in the order in which they may stay, that cannot if one more is to fit there.

    None if it does not even fit without any of them. Fewer pods never leave less room, so that how many can stay until
    the next one cannot is found by halving.
    """
    if not fits(state.without_pods({pod.key for pod in lower})):
        return None
    victims: list[PodFacts] = []

    def is_too_many(end: int) -> bool:
        return not fits(state.without_pods({pod.key for pod in (*victims, *lower[end:])}))

    end = 0
    while end < len(lower):
        end = bisect_left(range(len(lower) + 1), x=True, lo=end + 1, key=is_too_many)
        if end <= len(lower):
            victims.append(lower[end - 1])
    return victims
