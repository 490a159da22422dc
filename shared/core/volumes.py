"""Where the volumes of a pod let it go.

A volume that exists says which nodes reach it. One that is still to be bound when its pod is scheduled
(`WaitForFirstConsumer`) can come up where its class makes volumes or where a free one stands ready. Of a claim that is
missing, or bound by somebody else in his own time, nothing is known: it keeps the pod from no node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.api import names
from shared.core.selectors import LabelSelector, NodeSelectorTerm

_NEW_SPELLING: Final = {names.OLD_ZONE: names.ZONE, names.OLD_REGION: names.REGION}
ZONE_LABELS: Final = (names.ZONE, names.REGION, *_NEW_SPELLING)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a volume that nobody has claimed can serve; `capacity` in bytes."""

    storage_class: str
    capacity: int
    access_modes: frozenset[str] = frozenset()
    block: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Volume:
    """A persistent volume: the ORed `terms` of the nodes that reach it (None: all do) and the zones on its labels.

    `claim` is the `namespace/name` that it belongs to, `offer` what it is good for as long as it is free.
    """

    terms: tuple[NodeSelectorTerm, ...] | None = None
    zones: tuple[tuple[str, frozenset[str]], ...] = ()
    claim: str | None = None
    offer: Offer | None = None

    def is_reached_from(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether pods on the node `name` with `labels` can use it."""
        if self.terms is not None and not any(term.matches(name, labels) for term in self.terms):
            return False
        if not any(key in labels for key in ZONE_LABELS):
            return True  # a cluster of one zone need not label its nodes
        return all(_zone_of(labels, key) in values for key, values in self.zones)


@dataclass(frozen=True, slots=True)
class Wish:
    """What an unbound claim asks for. `storage_class` is None where the default class is meant.

    `selected_node` is the node on which the scheduler has already asked for the volume.
    """

    storage_class: str | None = None
    capacity: int = 0
    access_modes: frozenset[str] = frozenset()
    block: bool = False
    selector: LabelSelector | None = None
    selected_node: str | None = None

    def is_met_by(self, offer: Offer) -> bool:
        return (
            offer.capacity >= self.capacity
            and self.access_modes <= offer.access_modes
            and offer.block == self.block
            and (self.selector is None or self.selector.matches(offer.labels))
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A persistent volume claim: the name of its volume, or its wish. `one_pod`: for one pod at a time."""

    volume: str | None = None
    wish: Wish | None = None
    one_pod: bool = False


@dataclass(frozen=True, slots=True)
class StorageClass:
    """`waits` for a pod before it binds; `provisions` volumes where one of `topologies` matches (empty: anywhere)."""

    waits: bool
    provisions: bool
    topologies: tuple[NodeSelectorTerm, ...] = ()
    default_since: str | None = None

    def makes_volumes_for(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it can make a volume for the node `name` with `labels`."""
        return self.provisions and (
            not self.topologies or any(topology.matches(name, labels) for topology in self.topologies)
        )


@dataclass(frozen=True, slots=True)
class Volumes:
    """The storage of a cluster. Claims are keyed by `namespace/name`, the rest by name.

    `set_aside` leads from a claim to the volume that names it, `offered` from a class to the names of its free volumes.
    """

    claims: Mapping[str, Claim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    set_aside: Mapping[str, str] = field(default_factory=dict)
    offered: Mapping[str, Collection[str]] = field(default_factory=dict)

    def class_name(self, wish: Wish) -> str | None:
        """The class that a wish means, or None where it names none and there is no default."""
        if wish.storage_class is not None:
            return wish.storage_class
        defaults = [(each.default_since, name) for name, each in self.classes.items() if each.default_since is not None]
        return max(defaults)[1] if defaults else None


NO_VOLUMES: Final = Volumes()


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim that a pod uses: an object of its own by `key`, or the wish of a volume that lives with the pod."""

    name: str
    key: str | None = None
    wish: Wish | None = None


@dataclass(frozen=True, slots=True)
class _Unbound:
    wish: Wish
    storage_class: StorageClass
    free: tuple[tuple[str, Volume], ...]
    """Volumes that would do, the smallest first."""

    def is_made_for(self, name: str, labels: Mapping[str, str]) -> bool:
        selected = self.wish.selected_node
        return selected in {None, name} and self.storage_class.makes_volumes_for(name, labels)


@dataclass(frozen=True, slots=True)
class Reach:
    """What the volumes of one pod mean for its nodes. `unsettled` names the claims that may turn up anywhere."""

    bound: tuple[Volume, ...] = ()
    unbound: tuple[_Unbound, ...] = ()
    unsettled: tuple[str, ...] = ()

    def covers(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node `name` with `labels` reaches every volume that exists."""
        return all(volume.is_reached_from(name, labels) for volume in self.bound)

    def can_grow_to(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether every volume that is still to be bound can be bound for that node."""
        taken: set[str] = set()
        for each in self.unbound:
            if each.wish.selected_node is None:
                ready = (
                    free for free, volume in each.free if free not in taken and volume.is_reached_from(name, labels)
                )
                found = next(ready, None)
                if found is not None:
                    taken.add(found)
                    continue
            if not each.is_made_for(name, labels):
                return False
        return True


ANYWHERE: Final = Reach()


def reach_of(uses: Iterable[ClaimUse], volumes: Volumes) -> Reach:
    """The reach of a pod that uses these claims."""
    bound: list[Volume] = []
    unbound: list[_Unbound] = []
    unsettled: list[str] = []
    for use in uses:
        wish = use.wish
        if use.key is not None:
            claim = volumes.claims.get(use.key, _NO_CLAIM)
            volume = volumes.volumes.get(claim.volume or volumes.set_aside.get(use.key, ""))
            if volume is not None:
                bound.append(volume)
                continue
            wish = claim.wish
        made = None if wish is None else _unbound(wish, volumes)
        if made is None:
            unsettled.append(use.name)
        else:
            unbound.append(made)
    # The scheduler gives the smallest claims their volumes first.
    return Reach(tuple(bound), tuple(sorted(unbound, key=lambda each: each.wish.capacity)), tuple(unsettled))


_NO_CLAIM: Final = Claim()


def _unbound(wish: Wish, volumes: Volumes) -> _Unbound | None:
    """How a wish can come true for a pod, or None if it is not for the scheduler to bind it."""
    class_name = volumes.class_name(wish)
    storage_class = volumes.classes.get(class_name or "")
    if class_name is None or storage_class is None or not storage_class.waits:
        return None
    free: list[tuple[int, str, Volume]] = []
    for name in volumes.offered.get(class_name, ()):
        volume = volumes.volumes[name]
        if volume.offer is not None and wish.is_met_by(volume.offer):
            free.append((volume.offer.capacity, name, volume))
    free.sort(key=lambda each: each[:2])
    return _Unbound(wish, storage_class, tuple((name, volume) for _, name, volume in free))


def _zone_of(labels: Mapping[str, str], key: str) -> str | None:
    """A node's value of a zone label; one that a volume has in its old spelling is found in the new one too."""
    return labels.get(key, labels.get(_NEW_SPELLING.get(key, key)))
