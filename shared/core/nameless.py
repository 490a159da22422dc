"""Placed pods for which no entry can stand, since somebody took the id off them or wrote another text in its place."""

from __future__ import annotations

from collections.abc import Mapping

from shared.core.ledger import Entry, is_id, owner_hash
from shared.core.pods import PodFacts


def nameless(pods: Mapping[str, PodFacts]) -> dict[str, Entry]:
    """What such pods hold, by the keys of `pods`, for sums over all that is held."""
    return {
        key: Entry(pod.namespace, owner_hash(""), 0, pod.shares, units=pod.units)
        for key, pod in pods.items()
        if pod.is_placed and not is_id(pod.reservation or "")
    }
