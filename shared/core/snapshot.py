"""The state that one decision reads: every node with its cards, its ledger and its pods.

All of it is immutable. Whoever keeps a live picture of the cluster replaces a node's state as a whole, so a decision
that runs without awaiting sees one consistent picture and nothing is copied for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from shared.core.cards import Card, Inventory, Vendor
from shared.core.device_use import device_use
from shared.core.disruption import DisruptionBudgets
from shared.core.ledger import Entry
from shared.core.node_index import Nodes
from shared.core.nodes import NodeFacts
from shared.core.pods import PodFacts
from shared.core.system_memory import SystemMemory
from shared.core.unit_kinds import UnitKind
from shared.core.units import is_partition, is_unit, kinds_of, spread_units, vendor_of
from shared.core.volumes import NO_VOLUMES, Volumes

NO_CARDS = Inventory()


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node, its cards, the reservations on them and the pods on it or pinned to it.

    `pods` is keyed by `PodFacts.key`, `ledger` by reservation id. The sums are derived from both
    by `NodeState.of` and never given by hand.
    """

    facts: NodeFacts
    inventory: Inventory = NO_CARDS
    ledger: Mapping[str, Entry] = field(default_factory=dict)
    pods: Mapping[str, PodFacts] = field(default_factory=dict)
    requested: Mapping[str, int] = field(default_factory=dict)
    used_gb: Mapping[int, int] = field(default_factory=dict)
    free_gb: tuple[int, ...] = ()
    """Free GB of each card, in the order of `inventory.cards`; 0 for a card that may not be used."""
    memory: SystemMemory | None = None
    """The node's memory, if it is what some of its cards give away."""
    total_free_gb: int = 0
    """GB that pods could get at most, all together; `largest_free_gb` on one card."""
    largest_free_gb: int = 0
    repelling: tuple[PodFacts, ...] = ()
    """The pods with a required anti-affinity, which concerns pods that come later too."""
    kinds: tuple[UnitKind, ...] = ()
    """The vendor's resources that book the cards; empty where the product's own do. `requested` counts their units."""
    cards_in_shares: int = 0
    """How many cards have shares on them, whatever books the cards now."""
    lowest_priority: int | None = None
    """The lowest priority of the pods that run there on a card; None where none does."""

    @classmethod
    def of(
        cls,
        facts: NodeFacts,
        inventory: Inventory = NO_CARDS,
        ledger: Mapping[str, Entry] | None = None,
        pods: Mapping[str, PodFacts] | None = None,
    ) -> NodeState:
        """A node's state with its sums worked out."""
        ledger = ledger or {}
        pods = pods or {}
        used = _used_gb(ledger, pods)
        cards_in_shares = sum(1 for gb in used.values() if gb)
        requested = _requested(ledger, pods)
        kinds = kinds_of(
            inventory,
            facts.allocatable,
            lambda resource: any(pod.bound and pod.requests.get(resource) for pod in pods.values()),
        )
        memory = None
        if kinds:
            for index, gb in spread_units(inventory.cards, kinds, requested).items():
                used[index] = max(used.get(index, 0), gb)
        else:
            for _, card, gb in device_use(inventory, pods):
                used[card.index] = used.get(card.index, 0) + gb
            memory = SystemMemory.of(inventory.cards, facts.allocatable, requested, ledger, pods, used)
        exclusive = inventory.exclusive and not kinds
        free = tuple(_free_gb(card, used.get(card.index, 0), exclusive=exclusive) for card in inventory.cards)
        room = free
        if memory is not None:
            room = tuple(memory.room_gb(card, gb) for card, gb in zip(inventory.cards, free, strict=True))
        return cls(
            facts=facts,
            inventory=inventory,
            ledger=ledger,
            pods=pods,
            requested=requested,
            used_gb=used,
            free_gb=free,
            memory=memory,
            total_free_gb=sum(room),
            largest_free_gb=max(room, default=0),
            repelling=tuple(pod for pod in pods.values() if pod.anti_affinity),
            kinds=kinds,
            cards_in_shares=cards_in_shares,
            lowest_priority=_lowest_priority(pods),
        )

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def offers_anything(self) -> bool:
        """Whether it has cards or units that a placement could give, full or not: it is in somebody's inventory."""
        return bool(self.inventory.cards or self.kinds)

    @property
    def emptied(self) -> NodeState:
        """The node as it would be with nothing on it, and with every card of it in order."""
        cards = tuple(replace(card, healthy=True, foreign_gb=0) for card in self.inventory.cards)
        return NodeState.of(self.facts, replace(self.inventory, cards=cards))

    def free_units(self, resource: str) -> int:
        """Units of a vendor's resource that no pod has and no reservation holds.

        There are 0 where the admin has cordoned every card: of some the kubelet may take another, of all it cannot.
        """
        free = self.facts.allocatable.get(resource, 0) - self.requested.get(resource, 0)
        if self.cards_in_shares and not is_partition(resource):
            free -= self.cards_in_shares * max((kind.per_card for kind in self.kinds), default=1)
        return 0 if free <= 0 or (self.inventory.kinds and self._is_out_of_service(vendor_of(resource))) else free

    def is_away(self, resource: str) -> bool:
        """Whether the device plugin that offers a vendor's resource here is away, as when it restarts: it offers none.

        Where it offers others, or the product gives cards of that vendor away whole, zero is what was left over.
        """
        vendor, offered = vendor_of(resource), self.facts.allocatable
        others = (is_unit(each) and vendor_of(each) is vendor for each, amount in offered.items() if amount)
        if offered.get(resource) or any(others):
            return False
        if any(kind.resource == resource for kind in self.kinds):
            return True
        ours = (card for card in self.inventory.cards if card.vendor is vendor)
        return resource in offered and all(card.partitioned or card.is_partition for card in ours)

    def _is_out_of_service(self, vendor: Vendor) -> bool:
        healthy = [card.healthy for card in self.inventory.cards if card.vendor is vendor]
        return bool(healthy) and not any(healthy)

    def with_facts(self, facts: NodeFacts) -> NodeState:
        if facts.allocatable == self.facts.allocatable:
            return replace(self, facts=facts)
        return NodeState.of(facts, self.inventory, self.ledger, self.pods)

    def with_inventory(self, inventory: Inventory, ledger: Mapping[str, Entry]) -> NodeState:
        return NodeState.of(self.facts, inventory, ledger, self.pods)

    def with_entry(self, reservation: str, entry: Entry) -> NodeState:
        return self.with_inventory(self.inventory, {**self.ledger, reservation: entry})

    def without_entry(self, reservation: str) -> NodeState:
        if reservation not in self.ledger:
            return self
        ledger = {other: entry for other, entry in self.ledger.items() if other != reservation}
        return self.with_inventory(self.inventory, ledger)

    def with_pod(self, pod: PodFacts) -> NodeState:
        return NodeState.of(self.facts, self.inventory, self.ledger, {**self.pods, pod.key: pod})

    def without_pod(self, key: str) -> NodeState:
        if key not in self.pods:
            return self
        pods = {other: pod for other, pod in self.pods.items() if other != key}
        return NodeState.of(self.facts, self.inventory, self.ledger, pods)

    def without_placement_of(self, pod: PodFacts) -> NodeState:
        """The node without a pod and without the entry of its id, if it has either."""
        return self.without_pod(pod.key).without_entry(pod.reservation or "")

    def without_pods(self, keys: Collection[str]) -> NodeState:
        """The node once these pods have left it, and with them the entries that stand for them."""
        if not keys:
            return self
        pods = {key: pod for key, pod in self.pods.items() if key not in keys}
        left = {(pod.reservation, pod.namespace) for key, pod in self.pods.items() if key in keys}
        left -= {(pod.reservation, pod.namespace) for pod in pods.values()}
        ledger = {key: entry for key, entry in self.ledger.items() if (key, entry.namespace) not in left}
        return NodeState.of(self.facts, self.inventory, ledger, pods)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every node by name, the labels of every namespace (pod affinity selects by them), the storage, and whom
    preemption should spare.

    `rejecting` are nodes whose kubelets lately rejected pods over what a placement gave them.
    """

    nodes: Mapping[str, NodeState]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: Volumes = NO_VOLUMES
    disruption_budgets: DisruptionBudgets = field(default_factory=dict)
    rejecting: Collection[str] = frozenset()
    indexed: Nodes = field(init=False, repr=False, compare=False)
    """The same nodes with what decisions look them up by."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "indexed", Nodes.of(self.nodes))

    def __iter__(self) -> Iterator[NodeState]:
        return self.indexed.states()

    def changed(self, states: Mapping[str, NodeState]) -> Snapshot:
        """The snapshot with some of its nodes in another state."""
        return replace(self, nodes=self.indexed.changed(states)) if states else self


def _used_gb(ledger: Mapping[str, Entry], pods: Mapping[str, PodFacts]) -> dict[int, int]:
    """GB in use by slot: every ledger entry, and every pod that no entry stands for.

    A pod whose entry is in the ledger is counted once, at the larger of the two. Counting the union rather than the
    larger of two sums keeps an unconfirmed entry and an unrecorded pod from hiding behind each other (ADR 3). Of two
    pods of its namespace that carry its id an entry stands for the older; for one of another namespace it never does.
    """
    used: dict[int, int] = {}
    carriers: dict[str, PodFacts] = {}
    for pod in pods.values():
        if not pod.shares:
            continue
        counted: PodFacts | None = pod
        entry = None if pod.reservation is None else ledger.get(pod.reservation)
        if pod.reservation is not None and entry is not None and entry.namespace == pod.namespace:
            other = carriers.get(pod.reservation)
            older = pod if other is None else min(pod, other, key=lambda each: (each.created, each.key))
            carriers[pod.reservation], counted = older, (other if older is pod else pod)
        if counted is not None:
            _add(used, counted.shares)
    for reservation, entry in ledger.items():
        carrier = carriers.get(reservation)
        if carrier is None or carrier.shares == entry.shares:
            _add(used, entry.shares)
        else:
            larger = dict(entry.shares)
            for index, gb in carrier.shares:
                larger[index] = max(larger.get(index, 0), gb)
            _add(used, larger.items())
    return used


def _add(used: dict[int, int], shares: Iterable[tuple[int, int]]) -> None:
    for index, gb in shares:
        used[index] = used.get(index, 0) + gb


def _requested(ledger: Mapping[str, Entry], pods: Mapping[str, PodFacts]) -> dict[str, int]:
    """What pods take from the node, and the units that reservations hold beyond what their pods are seen to have."""
    requested: dict[str, int] = {}
    for pod in pods.values():
        for resource, amount in pod.requests.items():
            requested[resource] = requested.get(resource, 0) + amount
    unseen = {reservation: dict(entry.units) for reservation, entry in ledger.items() if entry.units}
    if unseen:
        for pod in sorted(pods.values(), key=lambda pod: (pod.created, pod.key)):
            # Of two pods that carry one id the entry stands for the older.
            reservation = pod.reservation or ""
            if reservation in unseen and ledger[reservation].namespace == pod.namespace:
                _add_beyond(requested, unseen.pop(reservation), pod.requests)
        for held in unseen.values():
            _add_beyond(requested, held, {})
    return requested


def _add_beyond(requested: dict[str, int], held: Mapping[str, int], seen: Mapping[str, int]) -> None:
    for resource, count in held.items():
        requested[resource] = requested.get(resource, 0) + max(0, count - seen.get(resource, 0))


def _lowest_priority(pods: Mapping[str, PodFacts]) -> int | None:
    lowest: int | None = None
    for pod in pods.values():
        if pod.bound and (lowest is None or pod.priority < lowest) and (pod.shares or pod.units):
            lowest = pod.priority
    return lowest


def _free_gb(card: Card, used: int, *, exclusive: bool) -> int:
    taken_whole = (exclusive or card.is_partition) and used
    if not card.healthy or card.unsupported or taken_whole:
        return 0
    return max(0, card.budget_gb - max(used, 0) - card.foreign_gb)
