"""What a placed pod asked before the placement: by its annotations, by limits, and by what its containers ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from shared.api import names
from shared.core.containers import Container, mapping, read_containers, spec_of, texts
from shared.core.demand import Demand, read_pod
from webhook.devices import DEVICE_VARIABLES
from webhook.placed_record import Change, read_record

_Variables: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Container name to device variables as they stood in its environment; None for one that was not there."""


def annotations_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    return texts(mapping(pod.get("metadata"), "metadata").get("annotations"), "metadata.annotations")


def demand_before(pod: Mapping[str, Any], limits: Mapping[str, Mapping[str, str]]) -> Demand | None:
    """What the pod asked, if its containers had these `limits` then; those that have none here do not count."""
    variables = _variables_before(pod)
    containers = (container for container in read_containers(pod) if container.name in limits)
    spec = spec_of((each.role, _as_asked(each, limits[each.name], variables)) for each in containers)
    asked = {"metadata": {"annotations": annotations_of(pod)}, "spec": spec}
    return read_pod(asked, read_record(pod).containers).demand


def _variables_before(pod: Mapping[str, Any]) -> _Variables:
    """The device variables that the placement set or took away, as far as the record tells."""
    variables: dict[str, dict[str, Any]] = {}
    for change in read_record(pod).changed:
        match change:
            case Change((_, container, "env", variable), was) if variable in DEVICE_VARIABLES:
                entry = was if isinstance(was, Mapping) and was.get("name") == variable else None
                variables.setdefault(container, {})[variable] = entry
    return variables


def _as_asked(container: Container, limits: Mapping[str, str], before: _Variables) -> dict[str, Any]:
    """The part of a container, as raw JSON, that tells its ask, its model server and the number of cards.

    Variables that select devices may tell that number: those in `before` are taken from there.
    """
    stands: dict[str, Any] = {name: {"name": name, "value": value} for name, value in container.env.items()}
    stands |= {name: {"name": name, "valueFrom": {}} for name in container.env_from_elsewhere}
    env = [
        entry
        for name, entry in {**stands, **before.get(container.name, {})}.items()
        if entry is not None and name != names.NVIDIA_VISIBLE_DEVICES
    ]
    return {
        "name": container.name,
        "resources": {"limits": limits},
        "image": container.image,
        "command": list(container.command),
        "args": list(container.args),
        "env": env,
    }
