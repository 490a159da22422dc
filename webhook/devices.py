"""How a container is told which cards it may see: a vendor's environment variable, in the pod's own spec.

The pod's own environment beats what device plugins set, and two plugins that set one variable would race.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from shared.api import names
from shared.core.cards import Card, Vendor

CDI: Final = "cdi"
"""The injection mode in which the device plugin names the cards to the container runtime."""

NO_DEVICE: Final = "void"

_VARIABLES: Final[Mapping[Vendor, str]] = {
    Vendor.NVIDIA: names.NVIDIA_VISIBLE_DEVICES,
    Vendor.AMD: names.ROCR_VISIBLE_DEVICES,
}


def device_variable(cards: Sequence[Card], injection: str) -> tuple[str, str] | None:
    """The variable that shows `cards` to a container, and its value: their UUIDs. None where none is set.

    Where the device plugin hands out CDI names, NVIDIA's variable says `void`, so that it adds nothing to them.
    """
    variable = _VARIABLES.get(cards[0].vendor)
    if variable is None:
        return None
    if injection == CDI:
        return (variable, NO_DEVICE) if variable == names.NVIDIA_VISIBLE_DEVICES else None
    return variable, ",".join(card.uuid for card in cards)
