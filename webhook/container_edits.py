"""One container of a pod that is being changed: where it stands, its variables and its resources.

It is found by name, since other webhooks put theirs in front.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from shared.core.containers import mapping, text
from webhook.patch import APPEND, PodPatch
from webhook.placed_record import Change

CONTAINER_LISTS: Final = ("initContainers", "containers")
RESOURCE_LISTS: Final = ("limits", "requests")

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


def env_entry(patch: PodPatch, place: Place, variable: str) -> dict[str, Any] | None:
    """The entry of a variable that counts: the last of its name."""
    positions = _positions(patch, place, variable)
    entry: dict[str, Any] | None = patch.get("spec", *place, "env", positions[-1]) if positions else None
    return entry


def write_env(patch: PodPatch, place: Place, entry: dict[str, Any]) -> None:
    """Puts an entry where the last of its name stands, since variables may refer to earlier ones; else at the end."""
    positions = _positions(patch, place, entry["name"])
    patch.set(entry, "spec", *place, "env", positions[-1] if positions else APPEND)


def drop_env(patch: PodPatch, place: Place, variable: str) -> None:
    """Removes all entries of a variable: an earlier one would count once the last is gone."""
    for position in reversed(_positions(patch, place, variable)):
        patch.remove("spec", *place, "env", position)


def drop_resources(
    patch: PodPatch,
    place: Place,
    resources: Iterable[str],
    changed: list[Change],
    lists: Iterable[str] = RESOURCE_LISTS,
) -> None:
    """Removes resources from a container, and notes in `changed` what they were."""
    kind, position = place
    name = text(patch.get("spec", kind, position, "name"), "name")
    for where in lists:
        amounts = patch.get("spec", kind, position, "resources", where) or {}
        for resource in sorted(amounts.keys() & set(resources)):
            changed.append(Change((kind, name, "resources", where, resource), str(amounts[resource])))
            patch.remove("spec", kind, position, "resources", where, resource)


def _positions(patch: PodPatch, place: Place, variable: str) -> list[int]:
    entries = patch.get("spec", *place, "env") or []
    return [position for position, entry in enumerate(entries) if mapping(entry, "env").get("name") == variable]
