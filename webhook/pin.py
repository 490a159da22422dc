"""Pins a pod to one node by required node affinity, without widening what the user wrote."""

from __future__ import annotations

from typing import Any, Final

from shared.api import names
from shared.core.nodes import NodeFacts
from shared.core.pods import REQUIRED
from shared.core.selectors import read_node_selector_terms
from webhook.patch import PathPart, PodPatch

REQUIRED_TERMS: Final[tuple[PathPart, ...]] = (
    "spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms",
)  # fmt: skip


def pin(patch: PodPatch, node: NodeFacts) -> None:
    """Requires `metadata.name` to be the node's in every term that matches it; the other terms are dropped.

    Terms are alternatives, so a term without the requirement would let the pod run elsewhere, and one that does not
    match the node could never be chosen once it has it. `matchFields` cannot be misled by labels, and lets the
    scheduler skip every other node.
    """
    requirement = _named(node.name)
    raw: list[dict[str, Any]] = patch.get(*REQUIRED_TERMS) or []
    matching = [
        term
        for term, read in zip(raw, read_node_selector_terms(raw), strict=True)
        if read.matches(node.name, node.labels)
    ]
    terms = [_with_field(term, requirement) for term in matching] or [{"matchFields": [requirement]}]
    patch.set(terms, *REQUIRED_TERMS)


def unpin(patch: PodPatch, node: str, was: Any) -> None:
    """Puts back the terms that stood there before `pin`: `was`, or none at all."""
    raw = patch.get(*REQUIRED_TERMS)
    pinned = (
        isinstance(raw, list)
        and bool(raw)
        and all(_named(node) in (term.get("matchFields") or ()) for term in raw if isinstance(term, dict))
    )
    if not pinned:
        return
    if isinstance(was, list) and was:
        patch.set(was, *REQUIRED_TERMS)
        return
    # An empty list of terms is not a valid selector, so the whole requirement goes.
    patch.remove(*REQUIRED_TERMS[:-1])


def _named(node: str) -> dict[str, Any]:
    return {"key": names.NODE_NAME_FIELD, "operator": "In", "values": [node]}


def _with_field(term: dict[str, Any], requirement: dict[str, Any]) -> dict[str, Any]:
    fields = term.get("matchFields") or []
    return term if requirement in fields else {**term, "matchFields": [*fields, requirement]}
