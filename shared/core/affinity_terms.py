"""Which pods a pod affinity or anti-affinity term speaks of, and in which topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.selectors import (
    LabelSelector,
    Operator,
    label_key_requirements,
    read_label_selector,
)


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """A required term: the pods that `selector` selects, in `namespaces` or where
    `namespace_selector` selects.

    A selector that is None selects nothing.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None = None

    def selects(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether it speaks of a pod with `labels` in `namespace`, which has `namespace_labels`."""
        if namespace not in self.namespaces and (
            self.namespace_selector is None or not self.namespace_selector.matches(namespace_labels)
        ):
            return False
        return self.selector is not None and self.selector.matches(labels)


def read_pod_affinity_terms(
    raw: Iterable[Mapping[str, Any]] | None, namespace: str, labels: Mapping[str, str] | None
) -> tuple[PodAffinityTerm, ...]:
    """The required terms of a pod in `namespace`.

    Give `labels` for a pod that is not stored yet: the API server has still to merge `matchLabelKeys` and
    `mismatchLabelKeys` into the selector. In a stored pod they are merged, and its labels may have changed.
    """
    return tuple(_read_term(term, namespace, labels) for term in raw or ())


def _read_term(raw: Mapping[str, Any], namespace: str, labels: Mapping[str, str] | None) -> PodAffinityTerm:
    selector = read_label_selector(raw.get("labelSelector"))
    if selector is not None and labels is not None:
        selector = selector.narrowed(
            (
                *label_key_requirements(raw.get("matchLabelKeys"), labels, Operator.IN),
                *label_key_requirements(raw.get("mismatchLabelKeys"), labels, Operator.NOT_IN),
            )
        )
    namespace_selector = read_label_selector(raw.get("namespaceSelector"))
    namespaces = frozenset(raw.get("namespaces") or ())
    if not namespaces and namespace_selector is None:
        namespaces = frozenset((namespace,))
    return PodAffinityTerm(raw.get("topologyKey") or "", selector, namespaces, namespace_selector)
