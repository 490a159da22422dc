"""Our own marks on a pod: the reservation id, the record, per-card requests. Recognised, compared, taken off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shared.api import names
from shared.core.containers import Container, mapping, read_containers, spec_of, texts
from shared.core.demand import REPLACED_RESOURCES
from shared.core.invalid import InvalidRequest
from shared.core.ledger import Shares, is_id, merge_shares
from shared.core.pod_requests import pod_requests
from shared.core.quantity import QuantityError, units
from shared.core.unit_choice import UnitShare
from shared.core.units import Units, is_unit, units_among
from webhook.container_edits import CONTAINER_LISTS, RESOURCE_LISTS, Place, drop_env, find_container, write_env
from webhook.devices import DEVICE_VARIABLES
from webhook.patch import PodPatch
from webhook.pin import unpin
from webhook.placed_record import read_record


def reservation_of(pod: Mapping[str, Any]) -> str | None:
    """The id that the pod's label carries, if it has the form of one."""
    labels = texts(mapping(pod.get("metadata"), "metadata").get("labels"), "metadata.labels")
    label = labels.get(names.RESERVATION)
    return label if label is not None and is_id(label) else None


def is_marked(pod: Mapping[str, Any]) -> bool:
    """Whether the pod carries our label or our record, genuine or not. Raises `InvalidRequest`."""
    metadata = mapping(pod.get("metadata"), "metadata")
    labels = mapping(metadata.get("labels"), "metadata.labels")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    return names.RESERVATION in labels or names.PLACED in annotations


def has_lost_its_ask(pod: Mapping[str, Any]) -> bool:
    """Whether a marked pod has what a placement gave it, and neither an ask of its own nor a record of what it asked:
    a copy that was made without the annotations. Raises `InvalidRequest`.
    """
    annotations = mapping(mapping(pod.get("metadata"), "metadata").get("annotations"), "metadata.annotations")
    asks = names.ASK_ANNOTATIONS & annotations.keys()
    return is_marked(pod) and not asks and not read_record(pod).changed and any(per_card_requests(pod))


def per_card_requests(pod: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every per-card resource on the pod: container, resource name, amount. Raises `InvalidRequest`."""
    for container in read_containers(pod):
        for amounts in (container.limits, container.requests):
            for resource, amount in amounts.items():
                if names.card_index(resource) is not None:
                    yield container.name, resource, amount


def refuse_written_shares(pod: Mapping[str, Any]) -> None:
    """Raises `InvalidRequest` for a per-card request on a pod that was not placed: somebody wrote it by hand."""
    for container, resource, amount in per_card_requests(pod):
        raise InvalidRequest(
            f"containers[{container}].resources[{resource}]",
            amount,
            "is a share of one certain card, which only the placement itself may write",
            f"ask with {names.VRAM}; a copy needs its original's annotations",
        )


def shares_by_container(pod: Mapping[str, Any]) -> dict[str, Shares]:
    """GB by slot for every container with per-card limits. Raises `InvalidRequest`."""
    booked: dict[str, list[tuple[int, int]]] = {}
    for container in read_containers(pod):
        for resource, amount in container.limits.items():
            index = names.card_index(resource)
            if index is None:
                continue
            if not amount.isascii() or not amount.isdigit() or len(amount) > 6:
                raise InvalidRequest(container.field(resource), amount, "is not whole GB", "let the card be chosen")
            booked.setdefault(container.name, []).append((index, int(amount)))
    return {container: merge_shares(shares) for container, shares in booked.items()}


def booked_shares(pod: Mapping[str, Any]) -> Shares:
    """GB by slot that the per-card limits of a pod's containers add up to. Raises `InvalidRequest`."""
    return merge_shares(share for shares in shares_by_container(pod).values() for share in shares)


def booked_units(pod: Mapping[str, Any]) -> Units:
    """The units of vendor resources that a pod takes from its node. Raises `InvalidRequest`."""
    containers = read_containers(pod)
    spec = spec_of(
        (container.role, {"name": container.name, "resources": _units_of(container)}) for container in containers
    )
    try:
        return units_among(pod_requests(spec))
    except QuantityError as error:
        raise InvalidRequest("spec", "{...}", f"holds an amount that is none: {error}", "write quantities") from error


def _units_of(container: Container) -> dict[str, dict[str, str]]:
    """Limits and requests of a container as far as they are units."""
    return {
        where: {resource: amount for resource, amount in amounts.items() if is_unit(resource)}
        for where, amounts in (("limits", container.limits), ("requests", container.requests))
    }


def without_defaults(units: Units, booked: Units) -> Units:
    """`units` without those that a placement takes off a pod and that a LimitRange may have put back: of no resource
    that is `booked`.
    """
    kept = dict(booked)
    return tuple(unit for unit in units if unit[0] in kept or unit[0] not in REPLACED_RESOURCES)


def units_by_container(pod: Mapping[str, Any]) -> tuple[UnitShare, ...]:
    """The units that the limits of each container name. Raises `InvalidRequest`."""
    return tuple(
        UnitShare(container.name, resource, count)
        for container in read_containers(pod)
        for resource, amount in sorted(container.limits.items())
        if is_unit(resource) and (count := _units(amount, container.field(resource))) > 0
    )


def _units(amount: str, field: str) -> int:
    try:
        return units(amount)
    except QuantityError as error:
        raise InvalidRequest(field, amount, f"is no amount: {error}", "write a whole number") from error


def strip(patch: PodPatch) -> None:
    """Takes everything off that a placement put on, and puts back what it took, as far as the record tells.

    Only what a placement changes can be put back, whatever the record says.
    """
    record = read_record(patch.pod)
    was = {change.path: change.was for change in record.changed}
    _strip_resources(patch)
    for path, value in was.items():
        _restore(patch, path, value)
    unpin(patch, record.node, was.get(("affinity",)))
    patch.remove("metadata", "labels", names.RESERVATION)
    patch.remove("metadata", "annotations", names.PLACED)
    patch.remove("metadata", "annotations", names.WARNINGS)


def _strip_resources(patch: PodPatch) -> None:
    for kind in CONTAINER_LISTS:
        for position, container in enumerate(patch.get("spec", kind) or ()):
            for where in RESOURCE_LISTS:
                for resource in list((container.get("resources") or {}).get(where) or {}):
                    if names.card_index(resource) is not None:
                        patch.remove("spec", kind, position, "resources", where, resource)


def _restore(patch: PodPatch, path: tuple[str, ...], was: Any) -> None:
    match path:
        case ("runtimeClassName",) if was is None:
            patch.remove("spec", "runtimeClassName")
        case (kind, name, *inside) if (place := find_container(patch, name)) is not None and place[0] == kind:
            _restore_inside(patch, place, inside, was)


def _restore_inside(patch: PodPatch, place: Place, inside: Sequence[str], was: Any) -> None:
    """Puts back what stood in a container."""
    match inside:
        case ["resources", where, resource] if where in RESOURCE_LISTS:
            if isinstance(was, str) and resource in REPLACED_RESOURCES:
                patch.set(was, "spec", *place, "resources", where, resource)
            elif was is None and is_unit(resource):
                patch.remove("spec", *place, "resources", where, resource)
        case ["env", variable] if variable in DEVICE_VARIABLES:
            if isinstance(was, dict) and was.get("name") == variable:
                write_env(patch, place, was)
            else:
                drop_env(patch, place, variable)
        case ["args"]:
            if was is None:
                patch.remove("spec", *place, "args")
            elif _are_arguments(was):
                patch.set(was, "spec", *place, "args")


def _are_arguments(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(argument, str) for argument in value)
