"""Where a container stands in a pod. It is found by name, since other webhooks put theirs in front."""

from __future__ import annotations

from typing import TypeAlias

from shared.core.containers import mapping, text
from webhook.marks import CONTAINER_LISTS
from webhook.patch import PodPatch

Place: TypeAlias = tuple[str, int]
"""The list that a container is in, and its position there."""


def find_container(patch: PodPatch, name: str) -> Place | None:
    """The place of a container, by its name as it was read: one without a name has an empty one."""
    for kind in CONTAINER_LISTS:
        for position, container in enumerate(patch.get("spec", kind) or ()):
            if text(mapping(container, kind).get("name"), "name") == name:
                return kind, position
    return None


def place_of(patch: PodPatch, name: str) -> Place:
    """The place of a container that was read from this pod."""
    place = find_container(patch, name)
    assert place is not None, f"container {name} was read from this pod"
    return place
