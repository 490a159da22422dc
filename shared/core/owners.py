"""Owner references: who created an object and keeps it alive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """The controller of an object: the one owner reference with `controller: true`."""

    api_version: str
    kind: str
    name: str
    uid: str


def controller_of(raw: Mapping[str, Any]) -> OwnerRef | None:
    """The controller of a raw object, or None if it has none or the reference is malformed."""
    metadata = raw.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, Mapping) and reference.get("controller") is True:
            parts = [reference.get(key) for key in ("apiVersion", "kind", "name", "uid")]
            if all(isinstance(part, str) and part for part in parts):
                return OwnerRef(*map(str, parts))
    return None
