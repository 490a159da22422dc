"""The ledger of a node: which reservation holds how many GB of which card.

On the wire it is `GPUNode.status.reservations`, a map from reservation id to a short text,
`<namespace>/<owner hash>;<unix seconds>;<slot>:<GB>,<slot>:<GB>`, with `;<MiB>` at its end where the pod's own memory
request matters to others (see `Entry`). Units of a vendor's resource stand among the shares as `nvidia.com/gpu=1`. An
entry that is not simply a pod's ends with a word, `;kept` or `;preempting` (see `Mark`). A text costs a third of what
an object does in a write, and a map keyed by id lets one entry be added or removed by a merge patch.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from shared.core.cards import Card
from shared.core.unit_kinds import UnitKind
from shared.core.units import Units, add_units, spread_units

Shares: TypeAlias = tuple[tuple[int, int], ...]
"""GB by slot, one pair a card, in the order of the slots."""

UNCONFIRMED_TTL_S = 20
"""Seconds that an entry may wait for its pod before the controller drops it."""

LONGEST_CARDS: Final = 2048
"""Characters of `Summary.cards`. With more the API server would refuse all that is written with it."""

ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
ID_LENGTH = 10

_ID = re.compile(r"[a-z2-7]{10}\Z")
_SHARE = r"[0-9]{1,3}:[0-9]{1,9}"
_UNIT = r"[a-z0-9.-]{1,63}/[A-Za-z0-9._-]{1,63}=[0-9]{1,5}"
_HELD = rf"(?:{_SHARE}|{_UNIT})"
_ENTRY = re.compile(
    rf"([a-z0-9-]{{1,63}})/([0-9a-f]{{8}});([0-9]{{1,12}});({_HELD}(?:,{_HELD})*)(?:;([0-9]{{1,12}}))?"
    r"(?:;(kept|preempting))?\Z"
)


class LedgerError(ValueError):
    """A ledger text that does not follow the format."""


class Mark(StrEnum):
    """What is special about an entry; empty for one that stands for a pod or waits for it."""

    NONE = ""
    KEPT = "kept"
    """Its pod is gone, and its owner will create another: nobody else gets the seat for a while."""
    PREEMPTING = "preempting"
    """Its pod waits until pods of lower priority have left: only such an entry may stand above a card's budget."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Entry:
    """One pod's reservation: who asked, when it was written (unix seconds), GB by slot, units by resource.

    `memory_mib` is what the pod requests of its node's memory, where its card is backed by that memory: until the pod
    is seen, nobody else could know. Of a kept seat `owner_hash` stands for the top owner and `since` is when its pod
    went.
    """

    namespace: str
    owner_hash: str
    since: int
    shares: Shares
    memory_mib: int = 0
    units: Units = ()
    mark: Mark = Mark.NONE

    def encode(self) -> str:
        """The text of this entry in `GPUNode.status.reservations`."""
        held = [f"{index}:{gb}" for index, gb in self.shares] + [f"{name}={count}" for name, count in self.units]
        memory = f";{self.memory_mib}" if self.memory_mib else ""
        mark = f";{self.mark}" if self.mark else ""
        return f"{self.namespace}/{self.owner_hash};{self.since};{','.join(held)}{memory}{mark}"

    @property
    def is_writable(self) -> bool:
        """Whether its text can be read again. Of a pod that nobody admitted it may be anything."""
        return _ENTRY.match(self.encode()) is not None


_known: Final[WeakValueDictionary[str, Entry]] = WeakValueDictionary()
"""The entries of all ledgers by their texts: each write to a ledger is answered with all of it, most of it known."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The sums that a `GPUNode` shows in its columns, in GB.

    `cards` reads `0: 12/16, 1: 8/16 (6 kept), 2: 6/0`: reserved/budget, and how much of that are kept seats. A slot
    whose card is gone has no budget, and stands there for as long as something holds a share of it.
    """

    budget_gb: int
    reserved_gb: int
    free_gb: int
    largest_free_gb: int
    cards: str


def decode(text: str) -> Entry:
    """The entry that `text` stands for. Raises `LedgerError` if it does not follow the format."""
    entry = _known.get(text)
    if entry is None:
        entry = _known[text] = _decode(text)
    return entry


def _decode(text: str) -> Entry:
    match = _ENTRY.match(text)
    if match is None:
        raise LedgerError(f"not a reservation: {text!r}; the form is <namespace>/<hash>;<unix seconds>;<slot>:<GB>,...")
    shares: dict[int, int] = {}
    units: dict[str, int] = {}
    for held in match[4].split(","):
        resource, is_units, count = held.partition("=")
        if is_units:
            if resource in units:
                raise LedgerError(f"not a reservation: {text!r} names {resource} twice")
            units[resource] = int(count)
            continue
        index, gb = held.split(":")
        if int(index) in shares:
            raise LedgerError(f"not a reservation: {text!r} names card {index} twice")
        shares[int(index)] = int(gb)
    return Entry(
        match[1],
        match[2],
        int(match[3]),
        tuple(sorted(shares.items())),
        int(match[5] or 0),
        tuple(sorted(units.items())),
        Mark(match[6] or ""),
    )


def decode_all(reservations: Mapping[str, str]) -> tuple[dict[str, Entry], tuple[str, ...]]:
    """The entries of a `GPUNode.status.reservations`, and the keys of those that cannot be read.

    A text under a key that is no id stands for no pod: none is ever looked for by it.
    """
    entries: dict[str, Entry] = {}
    broken: list[str] = []
    for reservation, text in reservations.items():
        if not is_id(reservation):
            broken.append(reservation)
            continue
        try:
            entries[reservation] = decode(text)
        except LedgerError:
            broken.append(reservation)
    return entries, tuple(sorted(broken))


def is_id(text: str) -> bool:
    """Whether `text` has the form of a reservation id."""
    return _ID.match(text) is not None


def owner_hash(owner: str) -> str:
    """Eight hexadecimal digits that stand for an owner's uid in an entry; a pod without an owner has the empty one."""
    return hashlib.sha256(owner.encode()).hexdigest()[:8]


def merge_shares(shares: Iterable[tuple[int, int]]) -> Shares:
    """GB by slot, where several containers may hold a share of one card."""
    total: dict[int, int] = {}
    for index, gb in shares:
        total[index] = total.get(index, 0) + gb
    return tuple(sorted(total.items()))


def reserved_gb(cards: Iterable[Card], entries: Iterable[Entry], kinds: Iterable[UnitKind] = ()) -> dict[int, int]:
    """GB that `entries` hold, by slot, units of the vendor's resources `kinds` among them."""
    entries = tuple(entries)
    reserved = spread_units(cards, kinds, dict(add_units(*(entry.units for entry in entries))))
    for entry in entries:
        for index, gb in entry.shares:
            reserved[index] = reserved.get(index, 0) + gb
    return reserved


def summarise(cards: Iterable[Card], entries: Mapping[str, Entry], kinds: Iterable[UnitKind] = ()) -> Summary:
    """The sums over `cards` with `entries` booked on them. A card that may not be used has nothing free.

    `kinds` are the vendor's resources that book the cards, if the product's own do not.
    """
    cards = tuple(cards)
    reserved = reserved_gb(cards, entries.values(), kinds)
    kept = reserved_gb(cards, (entry for entry in entries.values() if entry.mark is Mark.KEPT), kinds)
    ordered = sorted(cards, key=lambda card: card.index)
    usable = (card.healthy and not card.unsupported for card in ordered)
    free = [
        max(0, card.budget_gb - reserved.get(card.index, 0) - card.foreign_gb) if may_be_used else 0
        for card, may_be_used in zip(ordered, usable, strict=True)
    ]
    return Summary(
        budget_gb=sum(card.budget_gb for card in ordered),
        reserved_gb=sum(reserved.values()),
        free_gb=sum(free),
        largest_free_gb=max(free, default=0),
        cards=_by_card({card.index: card.budget_gb for card in ordered}, reserved, kept),
    )


def _by_card(budgets: Mapping[int, int], reserved: Mapping[int, int], kept: Mapping[int, int]) -> str:
    """The column of single cards, of which the last are left out where there are too many."""
    slots = sorted(budgets.keys() | {index for index, gb in reserved.items() if gb})
    words = (
        f"{index}: {reserved.get(index, 0)}/{budgets.get(index, 0)}"
        + (f" ({kept[index]} kept)" if kept.get(index) else "")
        for index in slots
    )
    text = ", ".join(words)
    if len(text) <= LONGEST_CARDS:
        return text
    return text[: text.rindex(", ", 0, LONGEST_CARDS - 3)] + ", ..."
