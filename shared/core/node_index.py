"""The nodes of a cluster in the orders and groups in which decisions look for them, kept up to date change by change.

A decision among thousands of nodes should look at the few that matter. `NodeIndex` is what changes; `Nodes` is how one
decision sees it, where need be with some nodes replaced or left out.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from shared.core.pod_index import PodIndex, PodLook, look_of

if TYPE_CHECKING:
    from shared.core.snapshot import NodeState

_Place: TypeAlias = tuple[int, str]
"""A number by which nodes are ordered, such as the GB that one has free in all, and the node's name."""

_MOST_KEYS = 16
"""Labels by which nodes are known: pods name the topology, and few name another one than everybody does."""

_NOTHING: Mapping[str, NodeState] = {}


class NodeIndex:
    """Every node by name. Orders and groups are worked out when they are first asked for, and kept up from then on."""

    __slots__ = ("_labelled", "_pods", "_priorities", "_repelling", "_room", "_states")

    def __init__(self, states: Mapping[str, NodeState] | None = None) -> None:
        self._states: dict[str, NodeState] = dict(states or {})
        self._room: _RoomOrder | None = None
        self._priorities: list[_Place] | None = None
        self._pods: PodIndex | None = None
        self._repelling: dict[str, NodeState] | None = None
        self._labelled: dict[str, dict[str, str]] = {}

    def prepare(self) -> None:
        """Works out everything now, while there are few nodes, and not in the middle of a decision among many."""
        _ = self.room, self.priorities, self.pods, self.repelling

    @property
    def states(self) -> Mapping[str, NodeState]:
        return self._states

    @property
    def room(self) -> _RoomOrder:
        if self._room is None:
            self._room = _RoomOrder(self._states)
        return self._room

    @property
    def priorities(self) -> Sequence[_Place]:
        """The nodes with pods on cards, by the lowest priority of such a pod."""
        if self._priorities is None:
            self._priorities = sorted(_by_priority(self._states.values()))
        return self._priorities

    @property
    def pods(self) -> PodIndex:
        if self._pods is None:
            self._pods = PodIndex(self._states.values())
        return self._pods

    @property
    def repelling(self) -> Mapping[str, NodeState]:
        """The nodes with pods that have an anti-affinity of their own."""
        if self._repelling is None:
            self._repelling = {name: state for name, state in self._states.items() if state.repelling}
        return self._repelling

    def labelled(self, key: str) -> Mapping[str, str]:
        """The values of a label by the names of the nodes that have it."""
        known = self._labelled.get(key)
        if known is None:
            if len(self._labelled) >= _MOST_KEYS:
                del self._labelled[next(iter(self._labelled))]
            labels = ((name, state.facts.labels.get(key)) for name, state in self._states.items())
            known = self._labelled[key] = {name: value for name, value in labels if value is not None}
        return known

    def put(self, state: NodeState) -> None:
        """Takes a node in, in place of what it was before."""
        self._change(state.name, state)
        self._states[state.name] = state

    def drop(self, name: str) -> NodeState | None:
        """Takes a node out and returns it."""
        self._change(name, None)
        return self._states.pop(name, None)

    def _change(self, name: str, new: NodeState | None) -> None:
        old = self._states.get(name)
        if self._room is not None:
            self._room.change(old, new)
        if self._priorities is not None:
            for place in _by_priority(() if old is None else (old,)):
                del self._priorities[bisect_left(self._priorities, place)]
            for place in _by_priority(() if new is None else (new,)):
                insort(self._priorities, place)
        if self._pods is not None:
            self._pods.change(name, {} if old is None else old.pods, {} if new is None else new.pods)
        if self._repelling is not None:
            self._repelling.pop(name, None)
            if new is not None and new.repelling:
                self._repelling[name] = new
        if old is None or new is None or new.facts.labels is not old.facts.labels:
            for key, values in self._labelled.items():
                values.pop(name, None)
                if new is not None and key in new.facts.labels:
                    values[name] = new.facts.labels[key]


class _RoomOrder:
    """The nodes that have anything to give, by the memory that is free on them.

    On `managed` nodes units are counted, so that sums of GB say nothing of their room; the others are `measured`.
    """

    __slots__ = ("managed", "measured")

    def __init__(self, states: Mapping[str, NodeState]) -> None:
        self.measured: list[_Place] = []
        self.managed: list[_Place] = []
        for state in states.values():
            if state.offers_anything:
                self._of(state).append((state.total_free_gb, state.name))
        self.measured.sort()
        self.managed.sort()

    def change(self, old: NodeState | None, new: NodeState | None) -> None:
        if old is not None and old.offers_anything:
            places, place = self._of(old), (old.total_free_gb, old.name)
            del places[bisect_left(places, place)]
        if new is not None and new.offers_anything:
            insort(self._of(new), (new.total_free_gb, new.name))

    def _of(self, state: NodeState) -> list[_Place]:
        return self.managed if state.kinds else self.measured


class Nodes(Mapping[str, "NodeState"]):
    """The nodes as one decision sees them: those of an index, some of them in another state."""

    __slots__ = ("_changed", "_index")

    def __init__(self, index: NodeIndex, changed: Mapping[str, NodeState] = _NOTHING) -> None:
        self._index = index
        self._changed = changed

    @classmethod
    def of(cls, nodes: Mapping[str, NodeState]) -> Nodes:
        return nodes if isinstance(nodes, Nodes) else cls(NodeIndex(nodes))

    def changed(self, states: Mapping[str, NodeState]) -> Nodes:
        """These nodes, some of them in another state. None is added so."""
        return Nodes(self._index, {**self._changed, **states})

    def __getitem__(self, name: str) -> NodeState:
        return self._changed[name] if name in self._changed else self._index.states[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.states)

    def __len__(self) -> int:
        return len(self._index.states)

    def __repr__(self) -> str:
        return repr(dict(self))

    def states(self) -> Iterator[NodeState]:
        states = self._index.states
        return (
            (self._changed.get(name, state) for name, state in states.items())
            if self._changed
            else iter(states.values())
        )

    def by_room(
        self, least_gb: int, *, most_first: bool = False, among: Iterable[str] | None = None
    ) -> Iterator[NodeState]:
        """The nodes that have anything to give, least free memory first or most first, and by name where it is equal.

        Those with less than `least_gb` free are left out, except where units are given, which are not measured, and all
        that are not `among` certain names.
        """
        sign = -1 if most_first else 1
        if among is not None:
            named = (self[name] for name in among if name in self)
            return (self[name] for _, name in _in_order(named, least_gb, sign))
        room, walk = self._index.room, _down if most_first else _up
        places = walk(room.measured, least_gb)
        if room.managed:
            places = heapq.merge(places, walk(room.managed, 0))
        if not self._changed:
            states = self._index.states
            return (states[name] for _, name in places)
        unchanged = (place for place in places if place[1] not in self._changed)
        return (self[name] for _, name in heapq.merge(unchanged, _in_order(self._changed.values(), least_gb, sign)))

    def with_pods_below(self, priority: int) -> Iterator[NodeState]:
        """The nodes where a pod of lower priority is on a card, those with the lowest first."""
        places = self._index.priorities[: bisect_left(self._index.priorities, (priority, ""))]
        if self._changed:
            changed = (place for place in _by_priority(self._changed.values()) if place[0] < priority)
            places = sorted((*(place for place in places if place[1] not in self._changed), *changed))
        return (self[name] for _, name in places)

    def repelling(self) -> Iterator[NodeState]:
        """The nodes with pods that have an anti-affinity of their own."""
        yield from (state for name, state in self._index.repelling.items() if name not in self._changed)
        yield from (state for state in self._changed.values() if state.repelling)

    def labelled(self, key: str) -> Mapping[str, str]:
        """The values of a label by the names of the nodes that have it."""
        values = self._index.labelled(key)
        if not self._changed:
            return values
        values = {name: value for name, value in values.items() if name not in self._changed}
        own = ((name, state.facts.labels.get(key)) for name, state in self._changed.items())
        return values | {name: value for name, value in own if value is not None}

    def pods(self, selects: Callable[[PodLook], bool]) -> Mapping[str, int]:
        """How many of the pods on each node `selects` selects, by the node's name; nodes without any are left out."""
        hosts = self._index.pods.hosts(selects)
        if len(hosts) == 1 and not self._changed:
            return hosts[0]
        counts: dict[str, int] = {}
        for each in hosts:
            for name, count in each.items():
                if name not in self._changed:
                    counts[name] = counts.get(name, 0) + count
        for name, state in self._changed.items():
            count = sum(selects(look_of(pod)) for pod in state.pods.values())
            if count:
                counts[name] = count
        return counts


def _in_order(states: Iterable[NodeState], least_gb: int, sign: int) -> list[_Place]:
    return sorted(
        (sign * state.total_free_gb, state.name)
        for state in states
        if state.offers_anything and (state.kinds or state.total_free_gb >= least_gb)
    )


def _by_priority(states: Iterable[NodeState]) -> Iterator[_Place]:
    return ((state.lowest_priority, state.name) for state in states if state.lowest_priority is not None)


def _up(places: Sequence[_Place], least_gb: int) -> Iterator[_Place]:
    """Those with `least_gb` or more, in order."""
    return islice(places, bisect_left(places, (least_gb, "")), None)


def _down(places: Sequence[_Place], least_gb: int) -> Iterator[_Place]:
    """Those with `least_gb` or more, the ones with most first, by name where it is equal. The GB are negative."""
    end = len(places)
    while end and places[end - 1][0] >= least_gb:
        gb = places[end - 1][0]
        start = bisect_left(places, (gb, ""), 0, end)
        yield from ((-gb, name) for _, name in places[start:end])
        end = start
