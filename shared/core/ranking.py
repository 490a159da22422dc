"""In which order the nodes that would do are tried: as the pod, taints, and kubelets that reject pods would have it.

The arithmetic is that of kube-scheduler's score plugins with their default weights: each preference gives every node
0 to 100 points, compared over the nodes that would do. Among equals the order that packs cards stays. Two things are
left out: what pods that run already prefer about this one, and the scheduler's built-in soft spread for workloads
without constraints, which is the opposite of packing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from math import floor, log
from typing import Final

from shared.api import names
from shared.core.constraints import Constraints
from shared.core.peers import by_name, speaks_of
from shared.core.snapshot import NodeState, Snapshot
from shared.core.spread import TopologySpreadConstraint, is_counted, selected_pods

_FULL: Final = 100
_TAINT_WEIGHT: Final = 3
_NODE_AFFINITY_WEIGHT: Final = 2
_POD_AFFINITY_WEIGHT: Final = 2
_SPREAD_WEIGHT: Final = 2
_PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"


def preferred_first(usable: Iterator[NodeState], snapshot: Snapshot, constraints: Constraints) -> Iterator[NodeState]:
    """The `usable` nodes, those that the pod prefers first, and last of all those that reject pods.

    A pod without preferences has its nodes one by one as they come: only taints of the kind `PreferNoSchedule` count
    against them.
    """
    rejecting: list[NodeState] = []
    yield from _preferred_first(_without(snapshot.rejecting, usable, rejecting), snapshot, constraints)
    yield from _preferred_first(iter(rejecting), snapshot, constraints)


def _without(nodes: Collection[str], states: Iterator[NodeState], left_out: list[NodeState]) -> Iterator[NodeState]:
    for state in states:
        if state.name in nodes:
            left_out.append(state)
        else:
            yield state


def _preferred_first(usable: Iterator[NodeState], snapshot: Snapshot, constraints: Constraints) -> Iterator[NodeState]:
    if not constraints.preferences:
        return _discouraged_last(usable, constraints)
    states = list(usable)
    scores = _scores(states, snapshot, constraints)
    return iter([states[place] for place in sorted(range(len(states)), key=lambda place: -scores[place])])


def _discouraged_last(usable: Iterator[NodeState], constraints: Constraints) -> Iterator[NodeState]:
    discouraged: list[tuple[int, NodeState]] = []
    for state in usable:
        taints = _discouraging_taints(state, constraints)
        if taints:
            discouraged.append((taints, state))
        else:
            yield state
    for _, state in sorted(discouraged, key=lambda each: each[0]):
        yield state


def _scores(states: Sequence[NodeState], snapshot: Snapshot, constraints: Constraints) -> list[int]:
    """Points of each node; the more, the more it is preferred."""
    taints = _less_is_better([_discouraging_taints(state, constraints) for state in states])
    affinity = _share_of_most([_node_affinity(state, constraints) for state in states])
    neighbours = _between_extremes(_neighbours(states, snapshot, constraints))
    spread = _spread(states, snapshot, constraints)
    return [
        _TAINT_WEIGHT * taint + _NODE_AFFINITY_WEIGHT * node + _POD_AFFINITY_WEIGHT * pods + _SPREAD_WEIGHT * even
        for taint, node, pods, even in zip(taints, affinity, neighbours, spread, strict=True)
    ]


def _discouraging_taints(state: NodeState, constraints: Constraints) -> int:
    """How many `PreferNoSchedule` taints of a node the pod does not tolerate."""
    return sum(
        taint.effect == _PREFER_NO_SCHEDULE and not any(each.tolerates(taint) for each in constraints.tolerations)
        for taint in state.facts.taints
    )


def _node_affinity(state: NodeState, constraints: Constraints) -> int:
    return sum(weight for weight, term in constraints.preferences.nodes if term.matches(state.name, state.facts.labels))


def _neighbours(states: Sequence[NodeState], snapshot: Snapshot, constraints: Constraints) -> list[int]:
    """For each node the weights of the preferred terms, once for every pod in its domains that they speak of."""
    weights: dict[tuple[str, str], int] = {}
    for weight, term in constraints.preferences.pods:
        for node, pods in snapshot.indexed.pods(partial(speaks_of, by_name(term, snapshot))).items():
            domain = snapshot.nodes[node].facts.labels.get(term.topology_key)
            if domain is not None:
                key = term.topology_key, domain
                weights[key] = weights.get(key, 0) + weight * pods
    keys = {key for key, _ in weights}
    return [sum(weights.get((key, state.facts.labels.get(key, "")), 0) for key in keys) for state in states]


def _spread(states: Sequence[NodeState], snapshot: Snapshot, constraints: Constraints) -> list[int]:
    """Points for the emptier domains; none for a node that has not the labels of all constraints."""
    rules = constraints.preferences.spread
    keys = [rule.topology_key for rule in rules]
    labelled = [state for state in states if all(key in state.facts.labels for key in keys)]
    sums = [0.0] * len(labelled)
    for rule in rules:
        counts = _pods_by_domain(rule, labelled, snapshot, constraints)
        scale = log(len(counts) + 2)
        for place, state in enumerate(labelled):
            sums[place] += counts[state.facts.labels[rule.topology_key]] * scale + rule.max_skew - 1
    rounded = [floor(each + 0.5) for each in sums]
    most, least = max(rounded, default=0), min(rounded, default=0)
    points = {
        state.name: _FULL * (most + least - each) // most if most else _FULL
        for state, each in zip(labelled, rounded, strict=True)
    }
    return [points.get(state.name, 0) for state in states]


def _pods_by_domain(
    rule: TopologySpreadConstraint, labelled: Iterable[NodeState], snapshot: Snapshot, constraints: Constraints
) -> dict[str, int]:
    """The selected pods in each domain of the nodes that would do."""
    key = rule.topology_key
    counts = {state.facts.labels[key]: 0 for state in labelled}
    others = [other.topology_key for other in constraints.preferences.spread]
    for node, pods in selected_pods(rule, snapshot, constraints.namespace).items():
        state = snapshot.nodes[node]
        labels = state.facts.labels
        # A host is judged by its own pods, whatever the policies say: the scheduler does not count beyond it.
        if labels.get(key) in counts and (
            key == names.HOSTNAME or (all(other in labels for other in others) and is_counted(rule, state, constraints))
        ):
            counts[labels[key]] += pods
    return counts


def _share_of_most(points: Sequence[int]) -> list[int]:
    most = max(points, default=0)
    return [_FULL * each // most if most else each for each in points]


def _less_is_better(points: Sequence[int]) -> list[int]:
    return [_FULL - each for each in _share_of_most(points)]


def _between_extremes(points: Sequence[int]) -> list[int]:
    least, most = min(points, default=0), max(points, default=0)
    return [_FULL * (each - least) // (most - least) if most > least else 0 for each in points]
