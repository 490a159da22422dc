"""Which extended resources the quotas of a namespace limit: all that a placement has to know of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from shared.kube.by_namespace import ByNamespace

_REQUESTS: Final = "requests."
"""Quotas on extended resources count requests; the same key without the prefix is stored and ignored."""


class Quotas(ByNamespace[frozenset[str]]):
    """The quotas of all namespaces; only what they limit."""

    def limiting(self, namespace: str, resources: Collection[str]) -> Iterator[tuple[str, str]]:
        """The quotas of a namespace, by name, that limit one of `resources`, and which."""
        for name, limited in sorted(self.all().get(namespace, {}).items()):
            for resource in sorted(limited.intersection(resources)):
                yield name, resource


def limited_resources(raw: Mapping[str, Any]) -> frozenset[str]:
    """The extended resources of which a stored `ResourceQuota` limits the requests."""
    hard = (raw.get("spec") or {}).get("hard") or {}
    return frozenset(key.removeprefix(_REQUESTS) for key in hard if key.startswith(_REQUESTS) and "/" in key)
