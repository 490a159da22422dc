"""What the leader tells of the whole cluster when somebody scrapes: the cards with their ledgers, and who waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from controller.reports import Report
from shared.core.cards import Card
from shared.core.ledger import Mark, reserved_gb
from shared.core.refusal import Reason
from shared.core.snapshot import NodeState
from shared.core.unit_kinds import UnitKind
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import GpuNode
from shared.obs import metrics
from shared.obs.metrics import Family, Value, family


def card_families(cluster: Cluster) -> Iterator[Family]:
    """Budget, reservations and free GB of every card. A node that is away keeps its cards and has nothing free."""
    budget: list[Value] = []
    reserved: list[Value] = []
    kept: list[Value] = []
    preempting: list[Value] = []
    free: list[Value] = []
    for node in cluster.gpu_nodes().values():
        state = cluster.node(node.name)
        cards, kinds = node.inventory.cards, node.inventory.kinds if state is None else state.kinds
        free_gb = {} if state is None else _free_gb(state)
        held = reserved_gb(cards, node.ledger.values(), kinds)
        marked = {mark: _marked_gb(node, mark, cards, kinds) for mark in (Mark.KEPT, Mark.PREEMPTING)}
        for card in cards:
            labels = {"node": node.name, "card": str(card.index)}
            budget.append((labels, card.budget_gb))
            reserved.append((labels, held.get(card.index, 0)))
            kept.append((labels, marked[Mark.KEPT].get(card.index, 0)))
            preempting.append((labels, marked[Mark.PREEMPTING].get(card.index, 0)))
            free.append((labels, free_gb.get(card.index, 0)))
    yield family(metrics.CARD_BUDGET, budget)
    yield family(metrics.CARD_RESERVED, reserved)
    yield family(metrics.CARD_KEPT, kept)
    yield family(metrics.CARD_PREEMPTING, preempting)
    yield family(metrics.CARD_FREE, free)


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
