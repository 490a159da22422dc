"""Which vacant seats stand in the way of a pod that preempts. Pure."""

from __future__ import annotations

from collections.abc import Container

from controller.ledger_rules import held_by
from shared.core.ledger import Mark
from shared.core.placement import fits
from shared.core.snapshot import NodeState


def seats_in_the_way(state: NodeState, left: Container[str]) -> frozenset[str]:
    """The ids of the seats that have no room beside the preempting pods of a node once those on their way out are gone.

    A seat is an entry that is kept, or among those that a pod has `left`. The older ones stay before the younger, and
    all that share no card with a preempting pod. Until its pod exists a preempting entry takes nothing from a seat: its
    create may fail.
    """
    preempting = {key: entry for key, entry in state.ledger.items() if entry.mark is Mark.PREEMPTING}
    if not preempting:
        return frozenset()
    carried = {(pod.reservation, pod.namespace) for pod in state.pods.values() if pod.is_placed}
    empty = {key: entry for key, entry in state.ledger.items() if (key, entry.namespace) not in carried}
    claimed = {slot for key, entry in preempting.items() if key not in empty for slot in held_by(entry)}
    seats = {
        key: entry
        for key, entry in empty.items()
        if (entry.mark is Mark.KEPT or (key in left and key not in preempting)) and claimed & held_by(entry)
    }
    passed_over = seats.keys() | (preempting.keys() & empty.keys())
    taken = {key: entry for key, entry in state.ledger.items() if key not in passed_over}
    beside = state.with_inventory(state.inventory, taken).without_pods(
        {key for key, pod in state.pods.items() if pod.terminating}
    )
    obstacles: set[str] = set()
    for key, seat in sorted(seats.items(), key=lambda each: (each[1].since, each[0])):
        if fits(beside, seat.shares, seat.memory_mib, seat.units):
            beside = beside.with_entry(key, seat)
        else:
            obstacles.add(key)
    return frozenset(obstacles)
