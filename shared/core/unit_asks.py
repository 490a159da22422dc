"""What a pod asks in units of a vendor's resource that is more than a number of cards: MIG slices and shared replicas.

They pass through as they are: the resource stays on the pod, and the placement finds a node with free units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shared.api import names
from shared.core.asks import MOST_ASKS, Ask
from shared.core.containers import Container
from shared.core.engines import cards_on_this_pod, read_engine
from shared.core.found import limit_of, whole_number
from shared.core.invalid import InvalidRequest
from shared.core.units import is_partition

MOST_UNITS = 512
"""Eight cards of seven slices are 56, and plugins share a card into a few dozen; a larger number is a slip."""

MOST_KINDS = 8
"""Kinds of units that one pod may ask: they stand in its ledger entry, whose length is bounded."""


@dataclass(frozen=True, slots=True)
class UnitAsk:
    """`count` units of `resource` for one container, 0 if it shall have none of them.

    `cards` are those over which the model server in the container spreads by its arguments, 1 if they tell of none.
    """

    container: str
    resource: str
    count: int
    field: str
    cards: int = 1

    @property
    def takes_parts_for_cards(self) -> bool:
        """Whether parts of cards would stand for cards: its server spreads over several, or several replicas are asked.

        Of those two may lie on one card and have no more of it than one has, so kubelets refuse them. Slices are apart.
        """
        return self.count > 0 and (self.cards > 1 or (self.count > 1 and not is_partition(self.resource)))

    def __str__(self) -> str:
        return f"{self.count} {self.resource}"


def read_unit_asks(containers: Sequence[Container], asks: Sequence[Ask]) -> tuple[UnitAsk, ...]:
    """The unit asks of a pod, zeros included. Raises `InvalidRequest`, also where one contradicts what the container
    asks of cards.
    """
    found = tuple(ask for container in containers for ask in _asks(container))
    wanted = [ask for ask in found if ask.count]
    by_container = {ask.container: ask for ask in asks}
    for unit in wanted:
        card_ask = by_container.get(unit.container)
        if card_ask is not None:
            raise _contradiction(unit, f"{card_ask.field}, which asks for {card_ask.amount} of a card")
    if len(wanted) > MOST_ASKS or len({unit.resource for unit in wanted}) > MOST_KINDS:
        raise InvalidRequest(
            wanted[-1].field,
            str(wanted[-1].count),
            f"is one more than the {MOST_ASKS} containers and {MOST_KINDS} kinds of slices that one pod may ask for",
            "spread the containers over several pods",
        )
    return found


def _contradiction(unit: UnitAsk, other: str) -> InvalidRequest:
    return InvalidRequest(
        unit.field,
        str(unit.count),
        f"asks for units of {unit.resource} beside {other}: a unit has its memory and is a device of its own",
        "keep one of the two",
    )


def _asks(container: Container) -> Iterator[UnitAsk]:
    asked = [
        resource
        for resource in sorted(container.limits.keys() | container.requests.keys())
        if resource == names.NVIDIA_GPU_SHARED or resource.startswith(names.NVIDIA_MIG_PREFIX)
    ]
    engine = read_engine(container) if asked else None
    cards = (cards_on_this_pod(engine) if engine else None) or 1
    for resource in asked:
        field, limit = container.field(resource), limit_of(container, resource)
        assert limit is not None, "it stands there, or in requests alone, which is refused"
        number = whole_number(limit)
        if number is None or not 0 <= number <= MOST_UNITS:
            fix = f"write a whole number from 0 to {MOST_UNITS}"
            raise InvalidRequest(field, limit, "is not a number of units", fix)
        if resource != names.NVIDIA_GPU_SHARED and not is_partition(resource):
            raise InvalidRequest(
                field, limit, f"is of {resource}, which is no MIG profile", "write one such as nvidia.com/mig-1g.10gb"
            )
        yield UnitAsk(container.name, resource, number, field, cards)
