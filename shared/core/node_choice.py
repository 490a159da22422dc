"""What one node gives a demand: shares of its cards, units of a vendor's resources, or both."""

from __future__ import annotations

from dataclasses import dataclass

from shared.core.card_choice import CardSearch, Share
from shared.core.demand import Demand
from shared.core.snapshot import NodeState
from shared.core.unit_choice import UnitShare, choose_units


@dataclass(frozen=True, slots=True)
class Given:
    """The shares of cards, and the units by container."""

    shares: tuple[Share, ...]
    unit_shares: tuple[UnitShare, ...] = ()


class NodeSearch:
    """The search for one demand on one node after another; `gave_up` says that a None may be wrong.

    `own` are the bytes that the pod requests of its node's memory.
    """

    __slots__ = ("_cards", "_demand")

    def __init__(self, demand: Demand, own: int = 0) -> None:
        self._demand = demand
        self._cards = CardSearch(demand, own)

    @property
    def gave_up(self) -> bool:
        return self._cards.gave_up

    def choose(self, state: NodeState) -> Given | None:
        """What `state` gives, or None if it cannot serve the demand now."""
        unit_shares: tuple[UnitShare, ...] | None = ()
        if state.kinds or self._demand.units:
            unit_shares = choose_units(state, self._demand)
        if unit_shares is None:
            return None
        if state.kinds or not self._demand.asks:
            return Given((), unit_shares)
        shares = self._cards.choose(state)
        return None if shares is None else Given(shares, unit_shares)
