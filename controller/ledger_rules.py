"""What a node's ledger should say, given its pods. Pure: times are arguments."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final

from shared.core.ledger import Entry, Mark, is_id, owner_hash
from shared.core.pods import PodFacts
from shared.core.times import unix_seconds

_SEAT_PERIOD_S: Final = 2.0
"""How often it is asked whether a vacant seat is still wanted: nothing tells of an owner that was scaled."""
_OLD_S: Final = 600.0
"""How old an entry has to be by the wall clock until a part of its time is enough: clocks may be wrong by minutes."""
_PART: Final = 0.25


@dataclass(slots=True)
class Sightings:
    """What the controller remembers of the ids of one node.

    `first_seen` is when it first saw an entry that waits for its pod, and `vacant_since` when it first saw one that its
    pod has left, on its own monotonic clock.
    `confirmed` are the ids for which it saw a pod, each with the pod's namespace.
    """

    first_seen: dict[str, float] = field(default_factory=dict)
    vacant_since: dict[str, float] = field(default_factory=dict)
    confirmed: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Review:
    """What to do with a ledger: the changes that are certain, the ids to look up live first, and when to look again.

    Of an `overdue` entry it has to be found out whether there is a pod after all, of a `vacant` one whether the owner
    of the pod that went still wants the seat, of a `lost` one, which is to come back, whether its pod is still there.
    """

    changes: Mapping[str, Entry | None]
    overdue: tuple[str, ...]
    again_in_s: float | None
    vacant: tuple[str, ...] = ()
    lost: Mapping[str, Entry] = field(default_factory=dict)


def review_ledger(
    ledger: Mapping[str, Entry],
    pods: Mapping[str, PodFacts],
    seen: Sightings,
    now: float,
    ttl_s: float,
    *,
    unix_now: float,
    left: Container[str] = (),
    gone: Container[str] = (),
    in_the_way: Container[str] = (),
    crowded_out: Container[str] = (),
    kept_s: float = 0.0,
) -> Review:
    """Compares the ledger of a node with the pods on it or pinned to it.

    An entry is overdue when no pod came within `ttl_s`. One whose pod was seen and is `gone` is dropped at once, unless
    it is among those that an owner's pod has `left`: a seat may be kept for `kept_s`, if it is not `in_the_way`. A pod
    that carries an id and has no entry gets one back, and its seat again if that is kept, but if others have the room
    (`crowded_out`) only after a look; of two pods with one id the older keeps it. An entry stands for no pod of another
    namespace: there its id is a copy. It names the pod's present owner: a pod may be left behind by one and adopted by
    another. An entry is preempting until its pod is bound and those are gone that held what it has, which a controller
    that has just begun cannot tell from entries whose pods are yet to come; a pod that goes before leaves no seat.
    `now` is the controller's own clock, `unix_now` the wall clock. Updates `seen`.
    """
    carriers = _carriers(ledger, pods)
    seen.confirmed |= {(reservation, pod.namespace) for reservation, pod in carriers.items()}
    changes: dict[str, Entry | None] = {}
    overdue: list[str] = []
    vacant: list[str] = []
    waits: list[float] = []
    for reservation, entry in ledger.items():
        is_seat = entry.mark is Mark.KEPT
        if reservation in carriers:
            seen.first_seen.pop(reservation, None)
            seen.vacant_since.pop(reservation, None)
        elif is_seat or (reservation in left and entry.mark is Mark.NONE):
            # When a pod went is written in a seat only: what `since` says before is when its pod was created.
            is_old = is_seat and _is_old(entry, unix_now)
            left_s = _left_s(seen.vacant_since.setdefault(reservation, now), now, kept_s, is_old=is_old)
            if left_s <= 0 or reservation in in_the_way:
                changes[reservation] = None
            else:
                vacant.append(reservation)
                waits.append(min(left_s, _SEAT_PERIOD_S))
        elif reservation in left or reservation in gone or (reservation, entry.namespace) in seen.confirmed:
            changes[reservation] = None
        else:
            is_old = _is_old(entry, unix_now)
            left_s = _left_s(seen.first_seen.setdefault(reservation, now), now, ttl_s, is_old=is_old)
            if left_s <= 0:
                overdue.append(reservation)
            else:
                waits.append(left_s)
    settled = changes.keys() | carriers.keys() | set(vacant)
    unsettled = set().union(*(held_by(entry) for each, entry in ledger.items() if each not in settled))
    true = dict(_true_entries(ledger, pods, carriers, unsettled))
    lost = {each: entry for each, entry in true.items() if each not in ledger and each in crowded_out}
    changes |= {each: entry for each, entry in true.items() if each not in lost}
    _forget(seen, lambda reservation: reservation in ledger or reservation in carriers)
    return Review(changes, tuple(overdue), min(waits, default=None), tuple(vacant), lost)


def _true_entries(
    ledger: Mapping[str, Entry],
    pods: Mapping[str, PodFacts],
    carriers: Mapping[str, PodFacts],
    unsettled: Set[str | int],
) -> Iterator[tuple[str, Entry]]:
    """The entries of pods that exist, where the ledger has none or says otherwise. `unsettled` are the slots and
    resources of which entries hold something whose pods may be yet to come.
    """
    for reservation, pod in carriers.items():
        own, entry = entry_of(pod), ledger.get(reservation)
        if not own.is_writable:
            continue  # It counts by itself, as a pod without an entry does.
        if entry is None:
            yield reservation, replace(own, mark=_mark_anew(pod, pods))
            continue
        waits = not pod.bound or not unsettled.isdisjoint(held_by(entry))
        true = replace(own, mark=Mark.PREEMPTING if entry.mark is Mark.PREEMPTING and waits else Mark.NONE)
        if _says(entry) != _says(true):
            yield reservation, true


def _is_old(entry: Entry, unix_now: float) -> bool:
    """Whether an entry is old by the wall clock: leaders before this one have waited for it as well."""
    return unix_now - entry.since > _OLD_S


def _left_s(since: float, now: float, limit_s: float, *, is_old: bool) -> float:
    """How long an entry may stand yet. An old one has a part of the time only: leaders that begin anew again and again
    would keep it for ever. It is more than most creates take, should a clock be wrong by more.
    """
    return since + (limit_s * _PART if is_old else limit_s) - now


def _forget(seen: Sightings, still_known: Callable[[str], bool]) -> None:
    """Drops what is remembered of ids that are gone from ledger and pods."""
    seen.confirmed = {each for each in seen.confirmed if still_known(each[0])}
    for times in (seen.first_seen, seen.vacant_since):
        for reservation in [reservation for reservation in times if not still_known(reservation)]:
            del times[reservation]


def entry_of(pod: PodFacts) -> Entry:
    """The entry that stands for a pod that exists."""
    owner = pod.owner.uid if pod.owner is not None else ""
    return Entry(pod.namespace, owner_hash(owner), unix_seconds(pod.created), pod.shares, units=pod.units)


def _mark_anew(pod: PodFacts, pods: Mapping[str, PodFacts]) -> Mark:
    """The mark of an entry that was lost: that of a pod which may have been placed where others have to leave first."""
    over_others = not pod.bound and any(other.bound and other.priority < pod.priority for other in pods.values())
    return Mark.PREEMPTING if over_others else Mark.NONE


def _says(entry: Entry) -> tuple[object, ...]:
    """What an entry says of its pod for as long as that exists."""
    return entry.owner_hash, entry.shares, entry.units, entry.mark


def held_by(entry: Entry) -> set[str | int]:
    """The slots and the resources of which an entry holds something."""
    return {*dict(entry.shares), *dict(entry.units)}


def _carriers(ledger: Mapping[str, Entry], pods: Mapping[str, PodFacts]) -> dict[str, PodFacts]:
    """The pods that the entries stand for, and those that have an id and no entry."""
    carriers: dict[str, PodFacts] = {}
    for pod in pods.values():
        if pod.reservation is None or not pod.is_placed or not is_id(pod.reservation):
            continue
        entry = ledger.get(pod.reservation)
        if entry is not None and entry.namespace != pod.namespace:
            continue
        other = carriers.get(pod.reservation)
        if other is None or (pod.created, pod.key) < (other.created, other.key):
            carriers[pod.reservation] = pod
    return carriers
