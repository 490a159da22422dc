"""Which pods have no entry and no room for one: the watch may not have told yet that they are gone. Pure."""

from __future__ import annotations

from collections.abc import Container

from shared.core.placement import fits
from shared.core.pods import PodFacts
from shared.core.snapshot import NodeState


def has_room(state: NodeState, pod: PodFacts) -> bool:
    """Whether what `pod` was given on a node is there, whatever holds the rest."""
    others = state.without_pod(pod.key).without_entry(pod.reservation or "")
    return fits(others, pod.shares, units=pod.units)


def crowded_out(state: NodeState, ledger: Container[str]) -> frozenset[str]:
    """The ids of placed pods that are not in `ledger`, and whose cards or units others have meanwhile.

    The webhook gives the place of a pod that it knows to be gone to the next one: an entry given back to the pod that
    went would stand beside the entry of the one that came.
    """
    lost = [pod for pod in state.pods.values() if pod.is_placed and pod.reservation and pod.reservation not in ledger]
    return frozenset(pod.reservation for pod in lost if pod.reservation and not has_room(state, pod))
