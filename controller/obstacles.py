"""Which vacant seats stand in the way of a pod that preempts, or of others that are there. Pure."""

from __future__ import annotations

from collections.abc import Container

from controller.ledger_rules import held_by
from shared.core.ledger import Mark
from shared.core.placement import fits
from shared.core.snapshot import NodeState


def seats_in_the_way(state: NodeState, left: Container[str]) -> frozenset[str]:
    """The ids of the seats that have no room beside the preempting pods of a node once those on their way out are gone,
    and of those on a card that would be above its budget with them.

    A seat is an entry that is kept, or among those that a pod has `left`. The older ones stay before the younger, and
    all that share no such card. Until its pod exists a preempting entry takes nothing from a seat: its create may fail.
    A card comes above its budget by an entry that was given back to a pod whose seat another has taken meanwhile.
    """
    preempting = {key: entry for key, entry in state.ledger.items() if entry.mark is Mark.PREEMPTING}
    if not preempting and not _overfull(state):
        return frozenset()
    carried = {(pod.reservation, pod.namespace) for pod in state.pods.values() if pod.is_placed}
    empty = {key: entry for key, entry in state.ledger.items() if (key, entry.namespace) not in carried}
    leaving = {key for key, pod in state.pods.items() if pod.terminating}
    staying = {key: entry for key, entry in state.ledger.items() if key not in preempting.keys() & empty.keys()}
    claimed = {slot for key, entry in preempting.items() if key not in empty for slot in held_by(entry)}
    claimed |= _overfull(state.with_inventory(state.inventory, staying).without_pods(leaving))
    seats = {
        key: entry
        for key, entry in empty.items()
        if (entry.mark is Mark.KEPT or (key in left and key not in preempting)) and claimed & held_by(entry)
    }
    taken = {key: entry for key, entry in staying.items() if key not in seats}
    beside = state.with_inventory(state.inventory, taken).without_pods(leaving)
    obstacles: set[str] = set()
    for key, seat in sorted(seats.items(), key=lambda each: (each[1].since, each[0])):
        if fits(beside, seat.shares, seat.memory_mib, seat.units):
            beside = beside.with_entry(key, seat)
        else:
            obstacles.add(key)
    return frozenset(obstacles)


def _overfull(state: NodeState) -> set[str | int]:
    """The slots on which more is held than the card has to give, in order or not."""
    return {card.index for card in state.inventory.cards if state.used_gb.get(card.index, 0) > card.budget_gb}
