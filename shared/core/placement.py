"""The decision: which node and cards a pod gets, or why there are none.

`place` is a pure function of the snapshot, the demand and the pod's constraints: no I/O, clock or randomness, and the
same inputs give the same answer whatever the order of the nodes. It scans the nodes that have room in the order of the
policy and takes the first that the scheduler's filters admit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shared.api import names
from shared.core.card_choice import Share, accel_met
from shared.core.constraints import Constraints
from shared.core.demand import Demand, Policy
from shared.core.filters import Filters
from shared.core.ledger import Shares, merge_shares
from shared.core.node_choice import Given, NodeSearch
from shared.core.nofit import explain_no_fit
from shared.core.peers import Peers
from shared.core.pods import Amounts, PodFacts
from shared.core.ranking import preferred_first
from shared.core.refusal import NoFit
from shared.core.snapshot import NodeState, Snapshot
from shared.core.system_memory import BYTES_PER_MIB
from shared.core.unit_choice import UnitShare, effective_units
from shared.core.units import Units


@dataclass(frozen=True, slots=True)
class Placed:
    """The node and what a pod gets there: shares of cards, and units of vendor resources.

    `units` are what the `unit_shares` of its containers take from the node by the scheduler's counting rule.
    """

    node: str
    shares: tuple[Share, ...]
    unit_shares: tuple[UnitShare, ...] = ()
    units: Units = ()

    @classmethod
    def of(cls, node: str, given: Given, demand: Demand) -> Placed:
        """The place of a demand on a node that has `given` it something."""
        units = effective_units(demand, given.unit_shares) if given.unit_shares else ()
        return cls(node, given.shares, given.unit_shares, units)

    @property
    def requests(self) -> Amounts:
        """What the scheduler counts of it: per-card resources and units."""
        return {**{names.card_resource(index): gb for index, gb in self.booking}, **dict(self.units)}

    @property
    def booking(self) -> Shares:
        """GB by slot, for the ledger."""
        return merge_shares((share.card.index, share.gb) for share in self.shares)


Verdict: TypeAlias = Placed | NoFit


def place(snapshot: Snapshot, demand: Demand, constraints: Constraints) -> Verdict:
    """The place of a pod in `snapshot`, or the reason why it has none.

    `binpack` fills the node with the least free memory that fits and its tightest card, which keeps large holes for
    large models; `spread` does the opposite; `exclusive` takes empty cards whole. What the pod itself prefers of
    nodes comes before all that.
    """
    constraints = constraints.settled(snapshot.volumes)
    filters = Filters(constraints, Peers.of(snapshot, constraints))
    placed = _find(snapshot, demand, constraints, filters)
    return placed if placed is not None else explain_no_fit(snapshot, demand, constraints, filters)


def find_place(snapshot: Snapshot, demand: Demand, constraints: Constraints) -> Placed | None:
    """What `place` finds, without the reason where it finds none: for whoever asks again and again."""
    constraints = constraints.settled(snapshot.volumes)
    return _find(snapshot, demand, constraints, Filters(constraints, Peers.of(snapshot, constraints)))


def has_cards(snapshot: Snapshot, demand: Demand) -> bool:
    """Whether some node has the cards or units for a demand, whoever may go there."""
    search = NodeSearch(demand, 0)
    return any(search.choose(state) is not None for state in _roomy(snapshot, demand, Constraints()))


def fits(state: NodeState, booking: Shares, memory_mib: int = 0, units: Units = ()) -> bool:
    """Whether a node whose state has changed since the choice still has room for shares of its cards and for units.

    `memory_mib` is what the pods of the booking request of the node's memory, which some cards are backed by.
    """
    free = dict(zip((card.index for card in state.inventory.cards), state.free_gb, strict=True))
    if any(gb > free.get(index, 0) for index, gb in booking):
        return False
    if any(count > state.free_units(resource) for resource, count in units):
        return False
    return state.memory is None or state.memory.suffices(booking, memory_mib * BYTES_PER_MIB)


def has_room(state: NodeState, pod: PodFacts) -> bool:
    """Whether what `pod` was given on a node is there beside all others that hold something."""
    return fits(state.without_placement_of(pod), pod.shares, units=pod.units)


def _find(snapshot: Snapshot, demand: Demand, constraints: Constraints, filters: Filters) -> Placed | None:
    search = NodeSearch(demand, constraints.requests.get(names.MEMORY, 0))
    usable = (
        state
        for state in _roomy(snapshot, demand, constraints)
        if not filters.node_exclusions(state.facts) and not filters.load_exclusions(state)
    )
    for state in preferred_first(usable, snapshot, constraints):
        given = search.choose(state)
        if given is not None:
            return Placed.of(state.name, given, demand)
    return None


def _roomy(snapshot: Snapshot, demand: Demand, constraints: Constraints) -> Iterator[NodeState]:
    """Nodes that have room as far as sums and counts tell, best first."""
    wanted = [(ask.least_gb, ask.count) for ask in demand.asks]
    largest = max((gb for gb, _ in wanted), default=0)
    most = max((count for _, count in wanted), default=0)
    several = [(gb, count) for gb, count in wanted if count > 1]
    together = sum(gb * count for gb, count in wanted)
    among = _selected(snapshot, constraints)
    for state in snapshot.indexed.by_room(together, most_first=demand.policy is Policy.SPREAD, among=among):
        # Units are counted, not measured, so sums of GB say nothing of them.
        if state.kinds:
            in_sum = not wanted or any(state.free_units(kind.resource) >= most for kind in state.kinds)
        else:
            in_sum = state.largest_free_gb >= largest and (not several or _has_as_many(state, several))
        if in_sum and accel_met(state.inventory, demand):
            yield state


def _has_as_many(state: NodeState, several: Sequence[tuple[int, int]]) -> bool:
    """Whether there are as many cards with so many GB free, for each number of GB."""
    return all(sum(free >= gb for free in state.free_gb) >= count for gb, count in several)


def _selected(snapshot: Snapshot, constraints: Constraints) -> Collection[str] | None:
    """The names of a few nodes beside which none can be selected, or None if no word of the pod tells them."""
    if constraints.named_nodes is not None:
        return constraints.named_nodes
    labels = constraints.node_selector.items()
    found = ([name for name, has in snapshot.indexed.labelled(key).items() if has == value] for key, value in labels)
    return min(found, key=len, default=None)
