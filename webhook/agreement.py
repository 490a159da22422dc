"""Whether a placed pod agrees with itself: what it asks, what it requests of its cards, and the cards it shows.

A webhook that runs after ours may change one of these and not the others. The ledger knows the requests only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from shared.api import names
from shared.core.asks import Ask
from shared.core.card_choice import request_on
from shared.core.cards import Card, Inventory, Vendor
from shared.core.containers import Container, Role, read_containers
from shared.core.demand import REPLACED_RESOURCES, Demand, is_booked
from shared.core.invalid import InvalidRequest
from shared.core.unit_kinds import UnitKind
from shared.core.units import Units
from webhook.ask_before import annotations_of, demand_before
from webhook.devices import device_variable
from webhook.later import LATER
from webhook.marks import shares_by_container
from webhook.placed_record import Change, read_record
from webhook.unit_agreement import refuse_other_units, units_demand

_Booked: TypeAlias = Mapping[str, Mapping[Card, int]]
"""Container name to the cards it has a share of, in the order of their slots, with the GB."""


def refuse_disagreement(
    pod: Mapping[str, Any], node: str, inventory: Inventory, units: Units = (), kinds: Sequence[UnitKind] = ()
) -> None:
    """Raises `InvalidRequest` where a pod placed on `node` asks, requests or shows what the placement did not give.

    `units` are those that its reservation holds, `kinds` the vendor's resources that book the cards of the node.
    """
    containers = read_containers(pod)
    booked = _booked(pod, node, inventory)
    _refuse_later_asks(containers, units)
    _refuse_other_devices(containers, booked, inventory.injection)
    if units and not booked:
        refuse_other_units(pod, units_demand(pod), kinds)
    else:
        _refuse_other_asks(pod, booked, inventory)


def _booked(pod: Mapping[str, Any], node: str, inventory: Inventory) -> _Booked:
    booked: dict[str, dict[Card, int]] = {}
    for container, shares in shares_by_container(pod).items():
        for index, gb in shares:
            card = inventory.card(index)
            if card is None:
                raise InvalidRequest(
                    f"containers[{container}].resources.limits[{names.card_resource(index)}]",
                    str(gb),
                    f"is a share of a card that node {node} does not have",
                    "create the pod again",
                )
            booked.setdefault(container, {})[card] = gb
    return booked


def _refuse_later_asks(containers: Sequence[Container], units: Units) -> None:
    """Refuses what a placement takes off a pod and what must have been added after it."""
    for container in containers:
        for resource in sorted(container.limits.keys() - dict(units).keys()):
            if is_booked(resource) and container.limits[resource] != "0":
                raise InvalidRequest(
                    container.field(resource),
                    container.limits[resource],
                    "was added after the pod had been placed",
                    LATER,
                )


def _refuse_other_devices(containers: Sequence[Container], booked: _Booked, injection: str) -> None:
    """Refuses a container that shows other cards than its own.

    An ordinary init container may show the cards of a container that it prepares. A variable of one vendor shows
    nothing of another's cards, so it is left to the user there.
    """
    only_nvidia = all(card.vendor is Vendor.NVIDIA for cards in booked.values() for card in cards)
    shown = {container: device_variable(tuple(cards), injection) for container, cards in booked.items()}
    for container in containers:
        if container.name in booked:
            expected = shown[container.name]
            if expected is not None and _value(container, expected[0]) != expected[1]:
                raise _other_devices(container, expected[0], f"does not show the cards it has, {expected[1]!r}")
        elif container.visible_devices is not None:
            may_show = (names.NVIDIA_VISIBLE_DEVICES, container.visible_devices) in shown.values() or not only_nvidia
            if container.role is not Role.INIT or not may_show:
                what = "would show cards that nothing is booked on"
                raise _other_devices(container, names.NVIDIA_VISIBLE_DEVICES, what)


def _value(container: Container, variable: str) -> str | None:
    return "(from elsewhere)" if variable in container.env_from_elsewhere else container.env.get(variable)


def _other_devices(container: Container, variable: str, problem: str) -> InvalidRequest:
    field = f"containers[{container.name}].env[{variable}]"
    return InvalidRequest(field, _value(container, variable) or "", f"{problem}: it was set after the placement", LATER)


def _refuse_other_asks(pod: Mapping[str, Any], booked: _Booked, inventory: Inventory) -> None:
    """Refuses a pod whose ask, put on the cards it has, makes other requests than it has there."""
    demand = _demand(pod, booked)
    if demand is None:
        return
    for ask in demand.asks:
        cards = booked.get(ask.container, {})
        if len(cards) != ask.count or any(request_on(ask, card, inventory, demand) != gb for card, gb in cards.items()):
            raise _other_ask(ask, cards)
    asking = {ask.container for ask in demand.asks}
    for container in sorted(booked.keys() - asking):
        card, gb = next(iter(booked[container].items()))
        raise InvalidRequest(
            f"containers[{container}].resources.limits[{names.card_resource(card.index)}]",
            str(gb),
            "is a share of a card for a container that does not ask for one: the ask was taken away later",
            LATER,
        )


def _demand(pod: Mapping[str, Any], booked: _Booked) -> Demand | None:
    """What the pod asked before the placement: by its annotations, and by the resources that its record remembers.

    None where the record is lost and nothing else is left of the ask. Helpers without a share are passed over, since
    one that came later would make it unclear which container the ask is for.
    """
    annotations = annotations_of(pod)
    named = {key.removeprefix(names.VRAM_OF_CONTAINER_PREFIX) for key in annotations}
    concerned = {*booked, *named, annotations.get(names.CONTAINER), annotations.get(names.KAI_CONTAINER)}
    remembered = _remembered_limits(pod)
    limits = {
        container.name: remembered.get(container.name, {})
        for container in read_containers(pod)
        if container.role is not Role.APP or container.name in concerned
    }
    return demand_before(pod, limits)


def _remembered_limits(pod: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Container name to the limits that the placement took from it."""
    limits: dict[str, dict[str, str]] = {}
    for change in read_record(pod).changed:
        match change:
            case Change((_, container, "resources", "limits", resource), str(was)) if resource in REPLACED_RESOURCES:
                limits.setdefault(container, {})[resource] = was
    return limits


def _other_ask(ask: Ask, cards: Mapping[Card, int]) -> InvalidRequest:
    has = ", ".join(f"{gb} GB of card {card.index}" for card, gb in cards.items()) or "no share"
    return InvalidRequest(
        ask.field,
        str(ask.amount),
        f"asks for another share than container {ask.container} has ({ask.count} card(s) asked, {has} booked): one of "
        "the two, or what the card has to give, was changed after the placement",
        LATER,
    )
