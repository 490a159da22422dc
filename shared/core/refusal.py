"""A refusal as data: one reason, the facts behind it, and whether waiting can help. `explain` turns it into text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from shared.core.asked_words import OUR_WORDS, Words
from shared.core.cards import CardClass
from shared.core.invalid import InvalidRequest

MOST_ATTEMPTS = 16
"""How many cards a refusal carries facts about, nearest first."""

MOST_NAMED = 3
"""How many excluded nodes a refusal names; more are only counted."""


class Reason(StrEnum):
    """Why a pod has no place. Checked in this order; the first that holds is given."""

    INVALID_REQUEST = "invalid_request"
    VENDOR_MISMATCH = "vendor_mismatch"
    ACCEL_VERSION_UNMET = "accel_version_unmet"
    INSUFFICIENT_GPU_COUNT = "insufficient_gpu_count"
    INSUFFICIENT_SYSTEM_MEMORY = "insufficient_system_memory"
    SHARING_NOT_CONFIGURED = "sharing_not_configured"
    INSUFFICIENT_CAPACITY = "insufficient_capacity"


@dataclass(frozen=True, slots=True)
class Backing:
    """The node's memory behind a card that has none of its own, in GB.

    Of `node_gb`, pods request `requested_gb`, models hold `booked_gb`, cards keep `kept_gb` and the pod itself requests
    `own_gb`. That leaves `room_gb` for the card; on a node with nothing else it would be `most_gb`.
    """

    node_gb: int
    requested_gb: int
    booked_gb: int
    kept_gb: int
    own_gb: int
    room_gb: int
    most_gb: int


@dataclass(frozen=True, slots=True)
class CardAttempt:
    """One card that was looked at: `need_gb` were asked of it, `free_gb` of its `budget_gb` are free.

    `whole_only` says that a part of it was asked where it is only given away whole. `part_gb` are the GB that would be
    asked of it if the pod's own policy did not want it whole; None where that policy is not the reason.
    """

    node: str
    index: int
    model: str
    need_gb: int
    free_gb: int
    budget_gb: int
    healthy: bool
    card_class: CardClass = CardClass.DISCRETE
    backing: Backing | None = None
    whole_only: bool = False
    part_gb: int | None = None

    @property
    def room_gb(self) -> int:
        """GB that the pod could get of it now."""
        return self.free_gb if self.backing is None else min(self.free_gb, self.backing.room_gb)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the card or none, so that asking for less of it is no use."""
        return self.whole_only or self.part_gb is not None

    @property
    def could_share(self) -> bool:
        """Whether it has room for the pod if its policy did not want the card whole."""
        return self.healthy and self.part_gb is not None and self.part_gb <= self.room_gb

    @property
    def short_gb(self) -> int:
        """GB that are missing; 0 if the card itself had room."""
        return max(0, self.need_gb - self.room_gb)

    @property
    def too_small(self) -> bool:
        """Whether the card would not do even if nothing else were on it."""
        most_gb = self.budget_gb if self.backing is None else min(self.budget_gb, self.backing.most_gb)
        return self.need_gb > most_gb

    @property
    def lacks_memory(self) -> bool:
        """Whether the node's memory is in the way, and not the size of the card."""
        return self.backing is not None and self.backing.room_gb < self.need_gb <= self.budget_gb

    @property
    def lacks_memory_most(self) -> bool:
        """Whether it is the node's memory that leaves least, and not what is free of the card."""
        if self.backing is None or not self.lacks_memory:
            return False
        return self.backing.room_gb < self.free_gb or self.too_small


@dataclass(frozen=True, slots=True)
class UnitAttempt:
    """A vendor's resource on one node that was looked at: `need` units were asked, `free` of its `total` are free.

    `need_gb` is what each unit has to hold, None if any size would do, and `gb` what it holds, None if that is unknown.
    `away` says that there are none since the device plugin that offers them is away.
    `parts` says that a unit is a part of a card where cards of their own were asked, or taken for granted: by a model
    server that spreads over `server_cards` of them, or, if it is `exclusive`, by the pod's policy.
    """

    node: str
    resource: str
    need: int
    free: int
    total: int
    need_gb: int | None = None
    gb: int | None = None
    parts: bool = False
    server_cards: int = 1
    away: bool = False
    exclusive: bool = False

    @property
    def too_small(self) -> bool:
        """Whether a unit would not do even if all were free."""
        return self.need_gb is not None and self.gb is not None and self.need_gb > self.gb

    @property
    def need_gb_missing(self) -> int:
        """GB that a unit has less than is asked."""
        return max(0, (self.need_gb or 0) - (self.gb or 0))

    @property
    def never(self) -> bool:
        """Whether it would not do if nothing else ran there."""
        return self.too_small or self.parts or (self.need > self.total and not self.away)

    @property
    def has_room(self) -> bool:
        return not self.never and self.need <= self.free


@dataclass(frozen=True, slots=True)
class NodeAttempt:
    """The node that came nearest to giving N cards: `fitting` of its `cards` have room, and `out` of those that would
    do are unhealthy or cordoned.
    """

    node: str
    fitting: int
    cards: int
    out: int = 0


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds GB of the nearest card, or units of the nearest resource: pods of the caller's namespace by name, the
    largest first, those of other namespaces as one sum, and what was measured to be held by nobody we know.
    """

    own: tuple[tuple[str, int], ...] = ()
    others_gb: int = 0
    others: int = 0
    foreign_gb: int = 0


@dataclass(frozen=True, slots=True)
class Excluded:
    """How many nodes with cards fell out for one reason, in `words`: `2 cordoned`, `3 AMD`. A node may have several."""

    words: str
    nodes: int


@dataclass(frozen=True, slots=True)
class ExcludedNode:
    """A node with cards that fell out, and why: `cordoned`, `AMD`."""

    node: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods of lower priority on a node that have what another one needs: those of the caller's namespace by name, of
    other namespaces only how many. `cards` are the slots that would be freed, of which they hold `gb`.
    """

    node: str
    cards: tuple[int, ...] = ()
    gb: int = 0
    own: tuple[str, ...] = ()
    others: int = 0


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """An update that waits for itself: `pod`, of an older revision of the workload, keeps the room that the new one
    needs, and goes only once the new one runs.
    """

    kind: str
    workload: str
    pod: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A node with room that the pod keeps itself from: by a `taint` (as `kubectl taint` writes it) that it does not
    tolerate, by naming another node, or by not selecting it.
    """

    node: str
    taint: str
    unnamed: bool
    unselected: bool


@dataclass(frozen=True, slots=True)
class NoFit:
    """A well-formed ask that no node can serve now.

    `asked` is the whole ask in words. `count` is the number of cards that one container needs, the one that the facts
    are about, and `every_container_alone` whether each would fit if the others were not. `usable_nodes` counts the
    nodes that were left when the reason was found, `found` is what they have instead (vendors, versions);
    `excluded_nodes` counts the others that have cards, and `excluded_by_name` are they, where they are few.
    `unsupported` says that none of the cluster's cards is of a kind that is placed, `partitions_only` that all that is
    left are partitions, which serve no such ask. `node_name` is the pod's `spec.nodeName`, `misnamed` says that it
    names none of the nodes with cards, and `narrowed` that the pod's own choice of types or UUIDs left no card.
    `undeclared` is a node the pod may use with cards of a size that nobody tells, and `unlabelled` the label that would
    tell it of a vendor's units. `can_wait` says whether the ask would fit once memory is freed, a card recovers or a
    node returns. `resource` is the vendor's resource that is short, where that is nearer than any card, and `unit` the
    nearest offer of it. `versionless` is the runtime of which no usable node tells a version, and `divisible` says that
    several free cards of one node would hold what is too large for one. `owned` says that a controller creates the pod
    again by itself, and `creator` is that one where nobody can tell when it does. `update` says that what is in the way
    is an older pod of the same workload, `elsewhere` is a node that has room and that the pod keeps itself from,
    `victims` are pods of lower priority whose place it could have. `words` are those to change
    for another ask. `ruled_out` are the rules about which pods may be together that keep it from nodes, by the names of
    exclusions, and `lacking` says that nodes are short of something besides cards.
    """

    reason: Reason
    asked: str
    count: int
    every_container_alone: bool = False
    attempts: tuple[CardAttempt, ...] = ()
    best_node: NodeAttempt | None = None
    usable_nodes: int = 0
    excluded_nodes: int = 0
    excluded: tuple[Excluded, ...] = ()
    excluded_by_name: tuple[ExcludedNode, ...] = ()
    found: tuple[str, ...] = ()
    unsupported: bool = False
    undeclared: str | None = None
    unlabelled: str = ""
    partitions_only: bool = False
    node_name: str = ""
    misnamed: bool = False
    narrowed: bool = False
    unit: UnitAttempt | None = None
    resource: str = ""
    versionless: str = ""
    divisible: bool = False
    holders: Holders = Holders()
    can_wait: bool = False
    owned: bool = True
    creator: str = ""
    update: RollingUpdate | None = None
    elsewhere: Elsewhere | None = None
    victims: Victims | None = None
    words: Words = OUR_WORDS
    ruled_out: tuple[str, ...] = ()
    lacking: bool = False


@dataclass(frozen=True, slots=True)
class Invalid:
    """A malformed or forged ask: see `InvalidRequest`."""

    field: str
    value: str
    problem: str
    fix: str

    @property
    def reason(self) -> Reason:
        return Reason.INVALID_REQUEST

    @classmethod
    def of(cls, error: InvalidRequest) -> Invalid:
        return cls(error.field, error.value, error.problem, error.fix)


Refusal: TypeAlias = NoFit | Invalid
