"""What a container of a placed pod ran before the placement: which model server, and on how many cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from shared.api import names
from shared.core.containers import Container
from webhook.devices import DEVICE_VARIABLES
from webhook.placed_record import Change, read_record

Variables: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Container name to device variables as they stood in its environment; None for one that was not there."""


def variables_before(pod: Mapping[str, Any]) -> Variables:
    """The device variables that the placement set or took away, as far as the record tells."""
    variables: dict[str, dict[str, Any]] = {}
    for change in read_record(pod).changed:
        match change:
            case Change((_, container, "env", variable), was) if variable in DEVICE_VARIABLES:
                entry = was if isinstance(was, Mapping) and was.get("name") == variable else None
                variables.setdefault(container, {})[variable] = entry
    return variables


def server_before(container: Container, before: Variables) -> dict[str, Any]:
    """The part of a container, as raw JSON, that tells its model server and the number of cards.

    Variables that select devices may tell that number: those in `before` are taken from there.
    """
    stands: dict[str, Any] = {name: {"name": name, "value": value} for name, value in container.env.items()}
    stands |= {name: {"name": name, "valueFrom": {}} for name in container.env_from_elsewhere}
    env = [
        entry
        for name, entry in {**stands, **before.get(container.name, {})}.items()
        if entry is not None and name != names.NVIDIA_VISIBLE_DEVICES
    ]
    return {"image": container.image, "command": list(container.command), "args": list(container.args), "env": env}
