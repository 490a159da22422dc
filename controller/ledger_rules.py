"""What a node's ledger should say, given its pods. Pure: times are arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from shared.core.ledger import Entry, is_id, owner_hash
from shared.core.pods import PodFacts


@dataclass(slots=True)
class Sightings:
    """What the controller remembers of the ids of one node.

    `first_seen` is when it first saw an entry without a pod, on its own monotonic clock: other clocks do not count.
    `confirmed` are the ids for which it saw a pod.
    """

    first_seen: dict[str, float] = field(default_factory=dict)
    confirmed: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Review:
    """What to do with a ledger: the changes that are certain, the ids to look up live first, and when to look again."""

    changes: Mapping[str, Entry | None]
    overdue: tuple[str, ...]
    again_in_s: float | None


def review_ledger(
    ledger: Mapping[str, Entry], pods: Mapping[str, PodFacts], seen: Sightings, now: float, ttl_s: float
) -> Review:
    """Compares the ledger of a node with the pods on it or pinned to it.

    An entry is dropped at once when its pod was seen and is gone, and is overdue when no pod came within `ttl_s`. A pod
    that carries an id and has no entry gets one back; of two pods with one id the older keeps it. Updates `seen`.
    """
    carriers = _carriers(pods)
    seen.confirmed |= carriers.keys()
    changes: dict[str, Entry | None] = {}
    overdue: list[str] = []
    waits: list[float] = []
    for reservation, entry in ledger.items():
        pod = carriers.get(reservation)
        if pod is not None:
            seen.first_seen.pop(reservation, None)
            if (entry.shares, entry.units, entry.namespace) != (pod.shares, pod.units, pod.namespace):
                changes[reservation] = entry_of(pod)
        elif reservation in seen.confirmed:
            changes[reservation] = None
        else:
            left_s = seen.first_seen.setdefault(reservation, now) + ttl_s - now
            if left_s <= 0:
                overdue.append(reservation)
            else:
                waits.append(left_s)
    for reservation, pod in carriers.items():
        if reservation not in ledger:
            changes[reservation] = entry_of(pod)
    forget(seen, lambda reservation: reservation in ledger or reservation in carriers)
    return Review(changes, tuple(overdue), min(waits, default=None))


def forget(seen: Sightings, still_known: Callable[[str], bool]) -> None:
    """Drops what is remembered of ids that are gone from ledger and pods."""
    seen.confirmed = {reservation for reservation in seen.confirmed if still_known(reservation)}
    for reservation in [reservation for reservation in seen.first_seen if not still_known(reservation)]:
        del seen.first_seen[reservation]


def entry_of(pod: PodFacts) -> Entry:
    """The entry that stands for a pod that exists."""
    owner = pod.owner.uid if pod.owner is not None else ""
    return Entry(pod.namespace, owner_hash(owner), _unix_seconds(pod.created), pod.shares, units=pod.units)


def _carriers(pods: Mapping[str, PodFacts]) -> dict[str, PodFacts]:
    carriers: dict[str, PodFacts] = {}
    for pod in pods.values():
        if pod.reservation is None or not pod.is_placed or not is_id(pod.reservation):
            continue
        other = carriers.get(pod.reservation)
        if other is None or (pod.created, pod.key) < (other.created, other.key):
            carriers[pod.reservation] = pod
    return carriers


def _unix_seconds(timestamp: str) -> int:
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return 0
