"""What a placed pod looks like: per-card requests, the pin, the card's identity, the label and the record.

Nothing else of the pod is touched. Containers are found by name, because other webhooks put theirs in front.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shared.api import names
from shared.core.card_choice import Share
from shared.core.cards import Card, Vendor
from shared.core.containers import text
from shared.core.demand import FOREIGN_RESOURCES, REPLACED_RESOURCES, ReadPod
from shared.core.found import Source
from shared.core.placement import Placed
from shared.core.pod_warnings import write_warnings
from shared.core.snapshot import NodeState
from shared.core.units import Units, vendor_of
from webhook.cautions import image_caution
from webhook.container_edits import (
    CONTAINER_LISTS,
    RESOURCE_LISTS,
    drop_env,
    drop_resources,
    env_entry,
    find_container,
    place_of,
    write_env,
)
from webhook.devices import NO_DEVICE, device_variable, selecting_variables, selects_within
from webhook.patch import PodPatch
from webhook.pin import REQUIRED_TERMS, pin
from webhook.placed_record import Change, read_record, write_record
from webhook.self_limit import advise_server, tell_server
from webhook.unit_rewrite import write_units


@dataclass(slots=True)
class _Rewrite:
    patch: PodPatch
    changed: list[Change] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def rewrite(
    patch: PodPatch,
    read: ReadPod,
    placed: Placed,
    state: NodeState,
    reservation: str,
    runtime_class: str | None,
    demands: str = "",
) -> tuple[str, ...]:
    """Makes the pod of `patch`, which was read as `read`, a placed one. Returns the warnings for its creator.

    `demands` is a digest of what it demands of its node.
    """
    demand = read.demand
    assert demand is not None, "a pod that asks for nothing is not placed"
    work = _Rewrite(patch)
    containers = {container.name: container for container in read.containers}
    shares = {ask.container: [s for s in placed.shares if s.container == ask.container] for ask in demand.asks}
    for ask in demand.asks if placed.shares else ():
        _book(work, ask.container, shares[ask.container])
        for user in (ask.container, *ask.init_containers):
            drop_resources(patch, place_of(patch, user), REPLACED_RESOURCES, work.changed)
            cards = [share.card for share in shares[ask.container]]
            _show_cards(work, user, cards, state.inventory.injection)
            _check_selection(work, user, cards, state.inventory.injection)
        advice = advise_server(containers[ask.container], shares[ask.container])
        tell_server(patch, containers[ask.container], advice, work.changed, work.warnings)
    write_units(patch, read, placed, state, work.changed, work.warnings)
    vendors = {unit.container: vendor_of(unit.resource) for unit in placed.unit_shares}
    for ask in demand.asks if placed.shares else ():
        vendors |= dict.fromkeys((ask.container, *ask.init_containers), shares[ask.container][0].card.vendor)
    told = (image_caution(containers[user], vendor) for user, vendor in vendors.items())
    work.warnings += filter(None, told)
    _pin(work, state)
    if runtime_class and any(share.card.vendor is Vendor.NVIDIA for share in placed.shares):
        _set_runtime_class(work, runtime_class)
    patch.set(reservation, "metadata", "labels", names.RESERVATION)
    source = demand.asks[0].source if demand.asks else Source.UNITS
    record = write_record(reservation, placed.node, placed.shares, source, work.changed, placed.unit_shares, demands)
    patch.set(record, "metadata", "annotations", names.PLACED)
    return tuple(work.warnings)


def note_warnings(patch: PodPatch, warnings: Sequence[str]) -> None:
    """Leaves `warnings` on the pod, in place of what a copied manifest had there."""
    text = write_warnings(warnings)
    if text is None:
        patch.remove("metadata", "annotations", names.WARNINGS)
    else:
        patch.set(text, "metadata", "annotations", names.WARNINGS)


def hide_devices(patch: PodPatch, containers: Iterable[str]) -> None:
    """Keeps every card out of sight of containers that ask for zero GPUs: many runtimes show them all by default."""
    for container in containers:
        place = find_container(patch, container)
        if place is not None:
            write_env(patch, place, {"name": names.NVIDIA_VISIBLE_DEVICES, "value": NO_DEVICE})


def silence_defaults(patch: PodPatch, units: Units = ()) -> None:
    """Sets vendor resources to 0 that stand again where the placement took them: a LimitRange puts its defaults back.

    They are found when the webhook is called again on its own output, which the API server does after such a change.
    `units` are those that the pod holds: their resources stay.
    """
    taken = {change.path[:2] for change in read_record(patch.pod).changed if change.path[2:3] == ("resources",)}
    for kind in CONTAINER_LISTS:
        for position, container in enumerate(patch.get("spec", kind) or ()):
            resources = container.get("resources") or {}
            booked = any(names.card_index(resource) is not None for resource in resources.get("limits") or {})
            if not booked and (kind, container.get("name")) not in taken:
                continue
            for where in RESOURCE_LISTS:
                for resource in sorted((FOREIGN_RESOURCES - dict(units).keys()) & (resources.get(where) or {}).keys()):
                    patch.set("0", "spec", kind, position, "resources", where, resource)


def _book(work: _Rewrite, container: str, shares: Sequence[Share]) -> None:
    kind, position = place_of(work.patch, container)
    for share in shares:
        for where in RESOURCE_LISTS:
            resource = names.card_resource(share.card.index)
            work.patch.set(str(share.gb), "spec", kind, position, "resources", where, resource)


def _show_cards(work: _Rewrite, container: str, cards: Sequence[Card], injection: str) -> None:
    """Sets the variable that shows the cards, and says so where the user had set it to something else."""
    shown = device_variable(cards, injection)
    if shown is None:
        return
    variable, uuids = shown
    place = place_of(work.patch, container)
    old, entry = env_entry(work.patch, place, variable), {"name": variable, "value": uuids}
    if old is not None and old != entry:
        value = old.get("value", "a value from elsewhere")
        work.warnings.append(
            f"container {container}: {variable} was {value!r}; it is set to the cards that were chosen"
        )
    work.changed.append(Change((place[0], container, "env", variable), old))
    write_env(work.patch, place, entry)


def _check_selection(work: _Rewrite, container: str, cards: Sequence[Card], injection: str) -> None:
    """Removes the user's own choice among cards where it points outside those of the container, and says where it
    cannot be told.
    """
    place = place_of(work.patch, container)
    for variable in selecting_variables(cards, injection):
        old = env_entry(work.patch, place, variable)
        if old is None:
            continue
        if "value" not in old and old.get("valueFrom") is not None:
            work.warnings.append(
                f"container {container}: {variable} comes from elsewhere and cannot be checked; the container sees "
                f"{len(cards)} card(s), numbered from 0"
            )
            continue
        value = text(old.get("value"), variable)
        if selects_within(value, cards):
            continue
        work.changed.append(Change((place[0], container, "env", variable), old))
        drop_env(work.patch, place, variable)
        work.warnings.append(
            f"container {container}: {variable} was {value!r}, which points outside its {len(cards)} card(s); it is "
            "removed"
        )


def _pin(work: _Rewrite, state: NodeState) -> None:
    was = work.patch.get(*REQUIRED_TERMS)
    work.changed.append(Change(("affinity",), list(was) if was else None))
    pin(work.patch, state.facts)


def _set_runtime_class(work: _Rewrite, runtime_class: str) -> None:
    if work.patch.get("spec", "runtimeClassName") is None:
        work.changed.append(Change(("runtimeClassName",), None))
        work.patch.set(runtime_class, "spec", "runtimeClassName")
