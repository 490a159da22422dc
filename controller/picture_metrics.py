"""What the leader tells of the whole cluster when somebody scrapes: the cards with their ledgers, and who waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.samples import Sample

from controller.reports import Report
from shared.core.cards import Card
from shared.core.ledger import Mark, reserved_gb
from shared.core.nameless import nameless
from shared.core.refusal import Reason
from shared.core.snapshot import NodeState
from shared.core.unit_kinds import UnitKind
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import GpuNode
from shared.obs import metrics
from shared.obs.metrics import Definition, Family, family

_CARD_METRICS: Final = (
    metrics.CARD_BUDGET,
    metrics.CARD_RESERVED,
    metrics.CARD_KEPT,
    metrics.CARD_PREEMPTING,
    metrics.CARD_FREE,
)


@dataclass(frozen=True, slots=True)
class _Told:
    """What was told of a node, and of which objects it is true; both are replaced when something changes."""

    node: GpuNode
    state: NodeState | None
    samples: Mapping[str, Sequence[Sample]]


class CardMetrics:
    """Budget, reservations and free GB of every card. A node that is away keeps its cards and has nothing free.

    The samples of a node are kept until something changes on it: a large cluster has more than a hundred thousand, and
    making them anew at each scrape would hold up the event loop.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._told: dict[str, _Told] = {}

    def families(self) -> Iterator[Family]:
        """The metrics as they are now."""
        nodes = self._cluster.gpu_nodes().values()
        self._told = {node.name: self._of(node) for node in nodes}
        for each in _CARD_METRICS:
            samples = [sample for told in self._told.values() for sample in told.samples[each.name]]
            yield metrics.family_of(each, samples)

    def _of(self, node: GpuNode) -> _Told:
        told, state = self._told.get(node.name), self._cluster.node(node.name)
        if told is not None and told.node is node and told.state is state:
            return told
        return _Told(node, state, _samples(node, state))


def _samples(node: GpuNode, state: NodeState | None) -> dict[str, list[Sample]]:
    """Of the cards of a node, by metric. What is seldom there has a sample only where it is."""
    cards, kinds = node.inventory.cards, node.inventory.kinds if state is None else state.kinds
    free = {} if state is None else _free_gb(state)
    without_entry = {} if state is None else nameless(state.pods)
    reserved = reserved_gb(cards, [*node.ledger.values(), *without_entry.values()], kinds)
    kept, preempting = (_marked_gb(node, mark, cards, kinds) for mark in (Mark.KEPT, Mark.PREEMPTING))
    samples: dict[str, list[Sample]] = {each.name: [] for each in _CARD_METRICS}
    for card in cards:
        labels = {"node": node.name, "card": str(card.index)}
        told: list[tuple[Definition, float]] = [
            (metrics.CARD_BUDGET, card.budget_gb),
            (metrics.CARD_RESERVED, reserved.get(card.index, 0)),
            (metrics.CARD_FREE, free.get(card.index, 0)),
            *((metrics.CARD_KEPT, gb) for gb in (kept.get(card.index),) if gb),
            *((metrics.CARD_PREEMPTING, gb) for gb in (preempting.get(card.index),) if gb),
        ]
        for of, gb in told:
            samples[of.name].append(metrics.sample(of, (labels, gb)))
    return samples


def _free_gb(state: NodeState) -> dict[int, int]:
    """What is left of each card, by slot, and of the node's memory where that is what a card gives away."""
    left = zip(state.inventory.cards, state.free_gb, strict=True)
    return {card.index: gb if state.memory is None else state.memory.room_gb(card, gb) for card, gb in left}


def _marked_gb(node: GpuNode, mark: Mark, cards: Iterable[Card], kinds: Iterable[UnitKind]) -> dict[int, int]:
    entries = [entry for entry in node.ledger.values() if entry.mark is mark]
    return reserved_gb(cards, entries, kinds) if entries else {}


def waiting_families(reports: Iterable[Report]) -> Iterator[Family]:
    """How many owners wait, by the reason of their refusal. A malformed ask waits for its author, not for room."""
    reasons = [reason for reason in Reason if reason is not Reason.INVALID_REQUEST]
    waiting = Counter(str(refusal.get("reason")) for report in reports for refusal in report.refusals.values())
    yield family(metrics.WAITING_OWNERS, (({"reason": str(reason)}, waiting[reason]) for reason in reasons))
