"""Which pods have no entry and no room for one: the watch may not have told yet that they are gone. Pure."""

from __future__ import annotations

from collections.abc import Container

from shared.core.placement import has_room
from shared.core.snapshot import NodeState


def crowded_out(state: NodeState, ledger: Container[str]) -> frozenset[str]:
    """The ids of placed pods that are not in `ledger`, and whose cards or units others have meanwhile.

    The webhook gives the place of a pod that it knows to be gone to the next one: an entry given back to the pod that
    went would stand beside the entry of the one that came.
    """
    return frozenset(
        pod.reservation
        for pod in state.pods.values()
        if pod.is_placed and pod.reservation and pod.reservation not in ledger and not has_room(state, pod)
    )
