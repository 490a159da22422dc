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

_UUID: Final = "GPU-"

_VARIABLES: Final[Mapping[Vendor, str]] = {
    Vendor.NVIDIA: names.NVIDIA_VISIBLE_DEVICES,
    Vendor.AMD: names.ROCR_VISIBLE_DEVICES,
}


_SELECTING: Final[Mapping[Vendor, tuple[str, ...]]] = {
    Vendor.NVIDIA: (names.CUDA_VISIBLE_DEVICES,),
    Vendor.AMD: (
        names.ROCR_VISIBLE_DEVICES,
        names.HIP_VISIBLE_DEVICES,
        names.CUDA_VISIBLE_DEVICES,
        names.GPU_DEVICE_ORDINAL,
    ),
}
"""The variables by which a program picks among the cards it sees; HIP reads CUDA's as well."""

DEVICE_VARIABLES: Final = frozenset({*_VARIABLES.values()}.union(*_SELECTING.values()))
"""Every variable that a placement may set or remove."""


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


def selecting_variables(cards: Sequence[Card], injection: str) -> tuple[str, ...]:
    """The variables by which a program in a container of `cards` may pick among them, without the one that we set."""
    shown = device_variable(cards, injection)
    return tuple(name for name in _SELECTING.get(cards[0].vendor, ()) if shown is None or name != shown[0])


def picking_variables(vendor: Vendor) -> tuple[str, ...]:
    """The variables by which a program may pick among the cards of a vendor that it sees."""
    return _SELECTING.get(vendor, ())


def selects_within(value: str, cards: Sequence[Card]) -> bool:
    """Whether a choice among cards stays within `cards`, which are numbered from 0 inside the container.

    A card is named once, by its number, its UUID or the start of its UUID. Anything else (`-1`, `all`, nothing) leaves
    the program without a card.
    """
    chosen = [_position(device.strip(), cards) for device in value.split(",")]
    return None not in chosen and len(set(chosen)) == len(chosen)


def _position(device: str, cards: Sequence[Card]) -> int | None:
    numbers = [
        number
        for number, card in enumerate(cards)
        if device == str(number) or (len(device) > len(_UUID) and card.uuid.startswith(device))
    ]
    exact = [number for number, card in enumerate(cards) if card.uuid == device]
    found = exact or numbers
    return found[0] if len(found) == 1 else None
