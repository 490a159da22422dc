"""What a refusal says of cards that are not plain cards: partitions, pools of the node's memory, cards in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.core.alike import Alike, suits
from shared.core.card_choice import may_hold
from shared.core.cards import Card, CardClass
from shared.core.demand import Demand
from shared.core.device_use import UNKNOWN_CARD, vendors_in_doubt
from shared.core.filters import Exclusion, Filters
from shared.core.refusal import Backing, CardAttempt
from shared.core.snapshot import NodeState
from shared.core.system_memory import BYTES_PER_GB, gb_for_bytes


def only_partitions(state: NodeState, demand: Demand) -> Sequence[str]:
    """Says of a node whose cards serve the demand in no way that it is for their being partitions; else empty."""
    if not any(card.is_partition for card in state.inventory.cards):
        return ()
    suiting = [card for card in state.inventory.cards if suits(card, demand)]
    able = all(any(may_hold(card, ask) for card in suiting) for ask in demand.asks)
    return () if able else ("with MIG partitions only",)


def closing_reasons(state: NodeState, alike: Alike, filters: Filters) -> Sequence[Exclusion | str]:
    """What keeps the pod from one of the nodes that are `alike` because of the pods there; empty if nothing does.

    Memory that the node is short of is no such reason where its cards give away the same memory: then it is a fact of
    those cards.
    """
    reasons: list[Exclusion | str] = [*filters.load_exclusions(state)]
    if Exclusion.INSUFFICIENT_MEMORY in reasons and all(card.is_backed for card in alike.suiting_cards):
        reasons.remove(Exclusion.INSUFFICIENT_MEMORY)
    if not any(map(state.free_gb.__getitem__, alike.suiting)):
        in_doubt = vendors_in_doubt(state.inventory, state.pods)
        if all(card.vendor in in_doubt for card in alike.suiting_cards):
            reasons.append(UNKNOWN_CARD)
    return reasons


def is_memory_the_matter(
    able: Iterable[Alike], attempts: Sequence[CardAttempt], *, every_container_alone: bool
) -> bool:
    """Whether all there is are cards that give away their node's memory, and that or a pool of it is exhausted."""
    if not attempts or not attempts[0].healthy or not (attempts[0].short_gb or every_container_alone):
        return False
    if attempts[0].card_class is not CardClass.UNIFIED and not attempts[0].lacks_memory:
        return False
    return all(card.is_backed for alike in able for card in alike.suiting_cards)


def backing_of(state: NodeState, card: Card, own: int) -> Backing | None:
    """The facts of the memory behind a card that has none of its own, for a pod that requests `own` bytes itself."""
    memory = state.memory
    if memory is None or not card.is_backed:
        return None
    return Backing(
        node_gb=memory.allocatable // BYTES_PER_GB,
        requested_gb=gb_for_bytes(memory.requested),
        booked_gb=memory.booked // BYTES_PER_GB,
        kept_gb=gb_for_bytes(memory.kept),
        own_gb=gb_for_bytes(own),
        room_gb=memory.room_gb(card, card.budget_gb, own),
        most_gb=memory.emptied.room_gb(card, card.budget_gb, own),
    )
