"""What is kept of the objects of one kind, by namespace and name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class ByNamespace(Generic[T]):
    """Kept current by a reflector, whose keys are `namespace/name`."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, T]] = {}

    def all(self) -> Mapping[str, Mapping[str, T]]:
        """The live mapping: valid until the next await."""
        return self._kept

    def upserted(self, key: str, new: T) -> None:
        namespace, _, name = key.partition("/")
        self._kept.setdefault(namespace, {})[name] = new

    def deleted(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        kept = self._kept.get(namespace, {})
        kept.pop(name, None)
        if not kept:
            self._kept.pop(namespace, None)
