"""Who holds GB of a card or units of a resource, told and of pods in other namespaces no more than their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from shared.core.device_use import device_use
from shared.core.ledger import Entry, Mark
from shared.core.refusal import Holders
from shared.core.snapshot import NodeState

UNBORN = "a pod being created"
"""Stands for the name of a pod that has none yet."""

KEPT = "a pod being replaced"
"""Stands for the next pod of the workload that a seat is kept for; of that the ledger knows no more than a hash."""


def holders_of(state: NodeState, index: int, namespace: str) -> Holders:
    """The holders of card `index`, as a caller in `namespace` may know them."""
    card = state.inventory.card(index)
    return replace(_told(_holders(state, index), namespace), foreign_gb=card.foreign_gb if card else 0)


def unit_holders_of(state: NodeState, resource: str, namespace: str) -> Holders:
    """The holders of units of a vendor's resource, as a caller in `namespace` may know them."""
    return _told(_unit_holders(state, resource), namespace)


def _told(holders: Iterable[tuple[str, str, int]], namespace: str) -> Holders:
    own: list[tuple[str, int]] = []
    others_amount = others = 0
    for holder_namespace, name, amount in holders:
        if amount and holder_namespace == namespace:
            own.append((name, amount))
        elif amount:
            others, others_amount = others + 1, others_amount + amount
    return Holders(
        own=tuple(sorted(own, key=lambda holder: (-holder[1], holder[0]))), others_gb=others_amount, others=others
    )


def _unit_holders(state: NodeState, resource: str) -> Iterator[tuple[str, str, int]]:
    """Namespace, name and units of every pod, and of every reservation whose pod does not exist yet."""
    for pod in state.pods.values():
        yield pod.namespace, pod.name or UNBORN, pod.requests.get(resource, 0)
    seen = {(pod.reservation, pod.namespace) for pod in state.pods.values()}
    for reservation, entry in state.ledger.items():
        if (reservation, entry.namespace) not in seen:
            yield entry.namespace, _without_pod(entry), dict(entry.units).get(resource, 0)


def _holders(state: NodeState, index: int) -> Iterator[tuple[str, str, int]]:
    """Namespace, name and GB on the card of every pod, and of every reservation whose pod does not exist yet.

    A pod that has its card from another device plugin is one of them.
    """
    carried = set()
    for pod in state.pods.values():
        if pod.shares:
            carried.add((pod.reservation, pod.namespace))
            yield pod.namespace, pod.name or UNBORN, dict(pod.shares).get(index, 0)
    for reservation, entry in state.ledger.items():
        if (reservation, entry.namespace) not in carried:
            yield entry.namespace, _without_pod(entry), dict(entry.shares).get(index, 0)
    for pod, card, gb in device_use(state.inventory, state.pods):
        if card.index == index:
            yield pod.namespace, pod.name, gb


def _without_pod(entry: Entry) -> str:
    """Stands for the name of an entry's pod while there is none."""
    return KEPT if entry.mark is Mark.KEPT else UNBORN
