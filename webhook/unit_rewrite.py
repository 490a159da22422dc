"""What becomes of a container that gets units of a vendor's resource: the resource stands on it, nothing names a card.

The vendor's device plugin chooses the card and shows it, so a variable by which the user chooses one has to go: the
pod's own environment would beat the plugin's.
"""

from __future__ import annotations

from shared.api import names
from shared.core.asks import VENDOR_RESOURCES
from shared.core.demand import REPLACED_RESOURCES, ReadPod
from shared.core.placement import Placed
from shared.core.snapshot import NodeState
from shared.core.unit_choice import UnitShare
from shared.core.units import is_unit, vendor_of
from webhook.container_edits import RESOURCE_LISTS, Place, drop_env, drop_resources, env_entry, place_of
from webhook.devices import picking_variables
from webhook.patch import PodPatch
from webhook.placed_record import Change
from webhook.self_limit import advise_server_on_units, tell_server

_ASKS = REPLACED_RESOURCES - VENDOR_RESOURCES.keys()
"""Words for amounts, which no node offers."""


def write_units(
    patch: PodPatch, read: ReadPod, placed: Placed, state: NodeState, changed: list[Change], warnings: list[str]
) -> None:
    """Puts the units of `placed`, which are those of `state`, on their containers; notes what it changed and what the
    pod's creator is warned of.

    Resources that pass through stand there already.
    """
    demand = read.demand
    assert demand is not None, "a pod that asks for nothing is not placed"
    containers = {container.name: container for container in read.containers}
    asking = {ask.container for ask in demand.asks} | {unit.container for unit in demand.units}
    for share in placed.unit_shares:
        place = place_of(patch, share.container)
        _settle_resources(patch, place, share, changed)
        _drop_devices(patch, place, share, changed, warnings)
        if share.container in asking:
            container = containers[share.container]
            tell_server(patch, container, advise_server_on_units(container, share, state), changed, warnings)
    served = {share.container for share in placed.unit_shares}
    for ask in demand.asks:
        for user in {ask.container, *ask.init_containers} & served:
            drop_resources(patch, place_of(patch, user), _ASKS, changed)


def _settle_resources(patch: PodPatch, place: Place, share: UnitShare, changed: list[Change]) -> None:
    """The resource in limits and requests, with its count, and no other of a kind that units have."""
    kind, position = place
    for where in RESOURCE_LISTS:
        amounts = patch.get("spec", kind, position, "resources", where) or {}
        others = [name for name in amounts if is_unit(name) and name != share.resource and str(amounts[name]) != "0"]
        drop_resources(patch, place, others, changed, (where,))
        if share.resource not in amounts:
            changed.append(Change((kind, share.container, "resources", where, share.resource), None))
            patch.set(str(share.count), "spec", kind, position, "resources", where, share.resource)


def _drop_devices(patch: PodPatch, place: Place, share: UnitShare, changed: list[Change], warnings: list[str]) -> None:
    inside = {str(number) for number in range(share.count)}
    picking = picking_variables(vendor_of(share.resource))
    for variable in (names.NVIDIA_VISIBLE_DEVICES, *picking):
        old = env_entry(patch, place, variable)
        if old is None:
            continue
        value = str(old.get("value", "a value from elsewhere"))
        if variable in picking and ("value" not in old or {part.strip() for part in value.split(",")} <= inside):
            continue
        changed.append(Change((place[0], share.container, "env", variable), old))
        drop_env(patch, place, variable)
        warnings.append(
            f"container {share.container}: {variable} was {value!r}; it is removed, since the device plugin of "
            f"{share.resource} chooses the card"
        )
