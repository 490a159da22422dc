"""Slot numbers of cards: a card keeps its own for as long as it is known, wherever the driver counts it.

A slot number is part of a resource name, and pods that run carry it. Drivers count from 0 at every start, so a card
that drops out would hand its number, and with it the pods booked on it, to its neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping


def assign_slots(known: Mapping[str, int], found: Mapping[str, int]) -> dict[str, int]:
    """The slot of every card by UUID: those `known` keep theirs, vanished ones too, since pods may be booked there.

    `found` are the cards that the driver tells now, with the index it gives them. A new card gets that index as its
    slot if the slot is free, else the lowest that is.
    """
    slots = dict(known)
    taken = set(slots.values())
    for uuid, index in sorted(found.items(), key=lambda card: card[1]):
        if uuid in slots:
            continue
        slot = index if index not in taken else next(free for free in range(len(taken) + 1) if free not in taken)
        slots[uuid] = slot
        taken.add(slot)
    return slots
