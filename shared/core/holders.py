"""Who holds GB of a card, told so that nobody learns more of pods in other namespaces than their number."""

from __future__ import annotations

from collections.abc import Iterator

from shared.core.device_use import device_use
from shared.core.refusal import Holders
from shared.core.snapshot import NodeState

UNBORN = "a pod being created"
"""Stands for the name of a pod that has none yet."""


def holders_of(state: NodeState, index: int, namespace: str) -> Holders:
    """The holders of card `index`, as a caller in `namespace` may know them."""
    own: list[tuple[str, int]] = []
    others_gb = others = 0
    for holder_namespace, name, gb in _holders(state, index):
        if gb and holder_namespace == namespace:
            own.append((name, gb))
        elif gb:
            others, others_gb = others + 1, others_gb + gb
    card = state.inventory.card(index)
    return Holders(
        own=tuple(sorted(own, key=lambda holder: (-holder[1], holder[0]))),
        others_gb=others_gb,
        others=others,
        foreign_gb=card.foreign_gb if card else 0,
    )


def _holders(state: NodeState, index: int) -> Iterator[tuple[str, str, int]]:
    """Namespace, name and GB on the card of every pod, and of every reservation whose pod does not exist yet.

    A pod that has its card from another device plugin is one of them.
    """
    carried = set()
    for pod in state.pods.values():
        if pod.shares:
            carried.add(pod.reservation)
            yield pod.namespace, pod.name or UNBORN, dict(pod.shares).get(index, 0)
    for reservation, entry in state.ledger.items():
        if reservation not in carried:
            yield entry.namespace, UNBORN, dict(entry.shares).get(index, 0)
    for pod, card, gb in device_use(state.inventory, state.pods):
        if card.index == index:
            yield pod.namespace, pod.name, gb
