"""Whether a pod that was placed by units of a vendor's resource still has what it asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.core.containers import Role, read_containers
from shared.core.demand import REPLACED_RESOURCES, Demand, is_booked
from shared.core.invalid import InvalidRequest
from shared.core.unit_choice import serves
from shared.core.unit_kinds import UnitKind
from webhook.ask_before import demand_before
from webhook.later import LATER
from webhook.marks import units_by_container
from webhook.placed_record import read_record


def refuse_other_units(pod: Mapping[str, Any], demand: Demand | None, kinds: Sequence[UnitKind]) -> None:
    """Raises `InvalidRequest` where a container has fewer or smaller units than it asks.

    Of a resource that is not among `kinds` the size is not known: the node may have come, or changed, a moment ago, and
    that the reservation is of that resource the ledger says.
    """
    if demand is None:
        return
    by_resource = {kind.resource: kind for kind in kinds}
    units = {(unit.container, unit.resource): unit.count for unit in units_by_container(pod)}
    for ask in demand.asks:
        counts = [
            count
            for (container, resource), count in units.items()
            if container == ask.container
            and (resource not in by_resource or serves(by_resource[resource], ask, demand))
        ]
        if ask.count not in counts:
            raise InvalidRequest(
                ask.field,
                str(ask.amount),
                f"asks for other units than container {ask.container} has: one of the two was changed after the "
                "placement",
                LATER,
            )


def units_demand(pod: Mapping[str, Any]) -> Demand | None:
    """What the pod asked before the placement: its annotations, the resources that stayed, and those that were taken.

    None where the record is lost, without which what was added cannot be told from what was asked.
    """
    changed = {change.path: change.was for change in read_record(pod).changed}
    if not changed:
        return None
    limits: dict[str, dict[str, str]] = {}
    for container in read_containers(pod):
        kind = "containers" if container.role is Role.APP else "initContainers"
        own = limits[container.name] = {}
        for resource in {*container.limits, *REPLACED_RESOURCES}:
            was = changed.get((kind, container.name, "resources", "limits", resource), container.limits.get(resource))
            if isinstance(was, str) and is_booked(resource):
                own[resource] = was
    return demand_before(pod, limits)
