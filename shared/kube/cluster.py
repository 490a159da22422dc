"""The live picture of the cluster: what the watches said, put together per node, ready for a decision.

Everything happens on one event loop and every update replaces a node's state as a whole, so `snapshot` hands out the
live mapping without a copy. A decision must not await between taking the snapshot and using it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from shared.core.cards import Inventory
from shared.core.disruption import DisruptionBudget
from shared.core.ledger import Entry, Mark
from shared.core.node_index import NodeIndex, Nodes
from shared.core.nodes import NodeFacts
from shared.core.pods import PodFacts
from shared.core.snapshot import NO_CARDS, NodeState, Snapshot
from shared.kube.by_namespace import ByNamespace
from shared.kube.gpunodes import GpuNode
from shared.kube.quotas import Quotas
from shared.kube.rejected_pods import RejectedPods
from shared.kube.storage import Storage
from shared.kube.vacancies import Vacancies

Listener: TypeAlias = Callable[[str], None]
"""Called with the name of a node, or the key of a pod, that changed or went."""


_HELD: Final = "held/"
"""Begins the key of a pod that is promised and does not exist yet; no uid looks like it."""


@dataclass(frozen=True, slots=True)
class Located:
    """A ledger entry and the node whose ledger it is in."""

    node: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class _Arrival:
    """The version of the `GPUNode` that first had an entry, and when this process saw it, on its own clock."""

    version: int
    seen: float


class Cluster:
    """Nodes, their cards and ledgers, their pods, and what else decides, kept current by the reflectors."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._nodes = NodeIndex()
        self._nodes.prepare()
        self._states = self._nodes.states
        self._gpu_nodes: dict[str, GpuNode] = {}
        self._homeless: dict[str, dict[str, PodFacts]] = {}
        self._where: dict[str, str] = {}
        self._carriers: dict[str, set[str]] = {}
        self._entries: dict[str, str] = {}
        self._entries_of: dict[tuple[str, str], set[str]] = {}
        self._arrived: dict[str, _Arrival] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._holds: dict[str, str] = {}
        self._replaced_by: dict[str, str] = {}
        self.storage = Storage()
        self.quotas = Quotas()
        self.disruption_budgets: ByNamespace[DisruptionBudget] = ByNamespace()
        self.rejected = RejectedPods()
        self.vacancies = Vacancies()
        self._node_listeners: list[Listener] = []
        self._pod_listeners: list[Listener] = []

    def snapshot(self) -> Snapshot:
        """The cluster as it is now; valid until the next await."""
        return Snapshot(
            Nodes(self._nodes),
            self._namespaces,
            self.storage.volumes,
            self.disruption_budgets.all(),
            self.rejected.avoided(time.time()),
        )

    def node(self, name: str) -> NodeState | None:
        return self._states.get(name)

    def gpu_node(self, name: str) -> GpuNode | None:
        return self._gpu_nodes.get(name)

    def gpu_nodes(self) -> Mapping[str, GpuNode]:
        return self._gpu_nodes

    def locate(self, reservation: str) -> Located | None:
        """The ledger entry of an id, if some node has one."""
        node = self._entries.get(reservation)
        if node is None:
            return None
        return Located(node, self._gpu_nodes[node].ledger[reservation])

    def unseen(self, namespace: str, owner_hash: str) -> Iterator[tuple[str, Located]]:
        """The entries of an owner for which no pod has been seen and which this process does not hold itself.

        A vacant one stands for no pod.
        """
        for reservation, located in self.entries_of(namespace, owner_hash):
            is_open = reservation not in self._holds and not self.vacancies.has(reservation, located.entry)
            if is_open and not self.carriers(reservation, namespace):
                yield reservation, located

    def seats_of(self, namespace: str, owner_hash: str) -> Iterator[tuple[str, Located]]:
        """The seats that are kept for a top owner."""
        for reservation, located in self.entries_of(namespace, owner_hash):
            if located.entry.mark is Mark.KEPT and not self.carriers(reservation, namespace):
                yield reservation, located

    def entries_of(self, namespace: str, owner_hash: str) -> Iterator[tuple[str, Located]]:
        """All entries of an owner."""
        for reservation in sorted(self._entries_of.get((namespace, owner_hash), ())):
            located = self.locate(reservation)
            if located is not None:
                yield reservation, located

    def arrival(self, reservation: str) -> int:
        """Grows with each entry in the order of their writes: the version of its `GPUNode` that first had it.

        It is 0 for what was there before this process looked, and for an entry that is not known. No clock decides it.
        """
        arrival = self._arrived.get(reservation)
        return 0 if arrival is None else arrival.version

    def age_s(self, reservation: str) -> float:
        """For how many seconds this process has known an entry; 0 for one that it does not know."""
        arrival = self._arrived.get(reservation)
        return 0.0 if arrival is None else self._monotonic() - arrival.seen

    def is_held(self, reservation: str) -> bool:
        """Whether this process has promised a pod under an id and has not seen it yet."""
        return reservation in self._holds

    def held_pods(self) -> Iterator[PodFacts]:
        """The pods that this process has promised and not seen yet."""
        for key in self._holds.values():
            pod = self.pod(key)
            if pod is not None:
                yield pod

    def is_replaced(self, reservation: str) -> bool:
        """Whether a pod that this process holds takes the place of an entry."""
        return reservation in self._replaced_by.values()

    def replaced(self) -> Iterator[tuple[str, str]]:
        """The entries in whose places this process is recording pods that it holds already, and their nodes.

        Counted beside those pods, a workload that restarts would have twice what it has.
        """
        for taker, reservation in self._replaced_by.items():
            node = self._entries.get(reservation)
            if node is not None and node == self._where.get(self.hold_key(taker)):
                yield reservation, node

    def carriers(self, reservation: str, namespace: str) -> tuple[PodFacts, ...]:
        """The live pods of the reservation's namespace that carry its id, oldest first; elsewhere the id is a copy."""
        carrying = (self.pod(key) for key in self._carriers.get(reservation, ()))
        pods = [pod for pod in carrying if pod is not None and pod.namespace == namespace]
        return tuple(sorted(pods, key=lambda pod: (pod.created, pod.key)))

    def pods_on(self, node: str) -> Mapping[str, PodFacts]:
        """The pods on a node or pinned to it, whether the node is known or not."""
        state = self._states.get(node)
        return state.pods if state is not None else self._homeless.get(node, {})

    def pod(self, key: str) -> PodFacts | None:
        """The pod of a uid, as long as it takes something from a node."""
        node = self._where.get(key)
        return None if node is None else self.pods_on(node).get(key)

    def pods(self) -> Iterator[PodFacts]:
        """Every pod that exists and is on a node, or pinned to one."""
        for key in self._where:
            pod = self.pod(key)
            if pod is not None and not key.startswith(_HELD):
                yield pod

    def placed_pods(self) -> Iterator[PodFacts]:
        """Every pod that exists and holds a share of a card, or units that a placement gave it."""
        return (pod for pod in self.pods() if pod.is_placed)

    def on_node_change(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` after each change of a node's state, until the returned function is called."""
        self._node_listeners.append(listener)
        return lambda: self._node_listeners.remove(listener)

    def on_pod_change(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` after each change of a pod, until the returned function is called."""
        self._pod_listeners.append(listener)
        return lambda: self._pod_listeners.remove(listener)

    def node_upserted(self, facts: NodeFacts) -> None:
        old = self._states.get(facts.name)
        if old is not None and old.facts.uid == facts.uid:
            self._nodes.put(old.with_facts(facts))
        else:
            pods = self._homeless.pop(facts.name, {}) if old is None else old.pods
            self._nodes.put(NodeState.of(facts, *self._cards_of(facts), pods))
        self._changed(facts.name)

    def node_deleted(self, name: str) -> None:
        state = self._nodes.drop(name)
        if state is not None and state.pods:
            self._homeless[name] = dict(state.pods)
        self._changed(name)

    def namespace_upserted(self, name: str, labels: Mapping[str, str]) -> None:
        self._namespaces[name] = labels

    def namespace_deleted(self, name: str) -> None:
        self._namespaces.pop(name, None)

    def gpu_node_upserted(self, new: GpuNode) -> None:
        """Takes over a `GPUNode`, from the watch or from the answer to a write of our own, unless a newer one is
        known.
        """
        old = self._gpu_nodes.get(new.name)
        if old is not None and old.uid == new.uid and int(new.resource_version) <= int(old.resource_version):
            return
        self._forget_entries(old)
        self._gpu_nodes[new.name] = new
        # Before all else: a sum that is older than its version would be written upon.
        self._show_cards(new.name)
        version = int(new.resource_version) if old is not None and old.uid == new.uid else 0
        arrival = _Arrival(version, self._monotonic())
        for reservation, entry in new.ledger.items():
            self._entries[reservation] = new.name
            self._arrived.setdefault(reservation, arrival)
            self._entries_of.setdefault((entry.namespace, entry.owner_hash), set()).add(reservation)
        self._release_dropped(old, new.ledger)
        self.vacancies.entries_changed(new.name, old.ledger if old is not None else {}, new.ledger)
        self._changed(new.name)

    def gpu_node_deleted(self, name: str) -> None:
        old = self._gpu_nodes.pop(name, None)
        self._show_cards(name)
        self._forget_entries(old)
        self._release_dropped(old, {})
        self.vacancies.entries_changed(name, old.ledger if old is not None else {}, {})
        self._changed(name)

    def pod_upserted(self, pod: PodFacts) -> None:
        old = self.pod(pod.key)
        if old is not None and (old.node != pod.node or old.reservation != pod.reservation):
            self._drop_pod(pod.key)
            if old.node != pod.node:
                self._changed(old.node)
        if pod.reservation is not None:
            self._carriers.setdefault(pod.reservation, set()).add(pod.key)
            held = self.pod(self.hold_key(pod.reservation))
            if held is not None and held.namespace == pod.namespace:
                self.release(pod.reservation)
            located = self.locate(pod.reservation)
            if located is not None and located.entry.namespace == pod.namespace:
                self.vacancies.pod_came(pod.reservation)
        self._put_pod(pod)
        self._pod_changed(pod.key, pod.node)

    def pod_deleted(self, key: str, *, leaves_seat: bool = True) -> None:
        """A pod takes nothing any more. It `leaves_seat` if another may take its place: it has not succeeded, and its
        kubelet did not reject it.
        """
        pod = self.pod(key)
        if pod is None:
            return
        self._drop_pod(key)
        if pod.reservation is not None and self._stood_for(pod.reservation, pod):
            self.vacancies.pod_left(pod.reservation, pod, leaves_seat=leaves_seat)
        self._pod_changed(key, pod.node)

    def hold(self, reservation: str, pod: PodFacts, replaces: str | None = None) -> None:
        """Books a pod on its node before it exists: its resources, ports and labels count until `release` or its
        arrival. An entry that it `replaces` there ends when the pod's own is written.
        """
        if replaces is not None:
            self._replaced_by[reservation] = replaces
        held = replace(pod, key=self.hold_key(reservation), reservation=reservation, bound=False)
        self._holds[reservation] = held.key
        self._put_pod(held)

    def release(self, reservation: str) -> None:
        """Ends a hold, if there is one."""
        self._replaced_by.pop(reservation, None)
        key = self._holds.pop(reservation, None)
        if key is not None:
            self._drop_pod(key)

    @staticmethod
    def hold_key(reservation: str) -> str:
        """The key under which a held pod stands among the pods of its node."""
        return _HELD + reservation

    def _put_pod(self, pod: PodFacts) -> None:
        self._where[pod.key] = pod.node
        state = self._states.get(pod.node)
        if state is not None:
            self._nodes.put(state.with_pod(pod))
        else:
            self._homeless.setdefault(pod.node, {})[pod.key] = pod

    def _drop_pod(self, key: str) -> None:
        pod = self.pod(key)
        node = self._where.pop(key, None)
        if pod is None or node is None:
            return
        if pod.reservation is not None and key in self._carriers.get(pod.reservation, ()):
            self._carriers[pod.reservation].discard(key)
            if not self._carriers[pod.reservation]:
                del self._carriers[pod.reservation]
        state = self._states.get(node)
        if state is not None:
            self._nodes.put(state.without_pod(key))
        else:
            self._homeless[node].pop(key)
            if not self._homeless[node]:
                del self._homeless[node]

    def _stood_for(self, reservation: str, pod: PodFacts) -> bool:
        """Whether the entry of an id stood for a pod that is gone, and stands for no other."""
        located = self.locate(reservation)
        is_its_own = located is not None and (located.node, located.entry.namespace) == (pod.node, pod.namespace)
        return is_its_own and pod.is_placed and not self.carriers(reservation, pod.namespace)

    def _forget_entries(self, gpu_node: GpuNode | None) -> None:
        if gpu_node is None:
            return
        for reservation, entry in gpu_node.ledger.items():
            if self._entries.get(reservation) != gpu_node.name:
                continue
            del self._entries[reservation]
            owner = (entry.namespace, entry.owner_hash)
            self._entries_of[owner].discard(reservation)
            if not self._entries_of[owner]:
                del self._entries_of[owner]

    def _release_dropped(self, old: GpuNode | None, ledger: Mapping[str, Entry]) -> None:
        """Ends the holds of entries that are dropped: no pod came of them, so there is nothing left to promise."""
        for reservation in (old.ledger.keys() if old is not None else set()) - ledger.keys():
            if reservation not in self._entries:
                self._arrived.pop(reservation, None)
            self.release(reservation)

    def _show_cards(self, name: str) -> None:
        state = self._states.get(name)
        if state is not None:
            self._nodes.put(state.with_inventory(*self._cards_of(state.facts)))

    def _cards_of(self, facts: NodeFacts) -> tuple[Inventory, Mapping[str, Entry]]:
        """The cards and the ledger of a node."""
        gpu_node = self._gpu_nodes.get(facts.name)
        if gpu_node is None or not gpu_node.is_of(facts.uid):
            return NO_CARDS, {}
        return gpu_node.inventory, gpu_node.ledger

    def _pod_changed(self, key: str, node: str) -> None:
        for listener in tuple(self._pod_listeners):
            listener(key)
        self._changed(node)

    def _changed(self, node: str) -> None:
        for listener in tuple(self._node_listeners):
            listener(node)
