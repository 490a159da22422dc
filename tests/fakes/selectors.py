"""Label and field selectors, as far as the product uses them: equality and existence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_TERM = re.compile(r"(?P<key>[^=!]+)(?P<operator>==|=|!=)(?P<value>.*)\Z")


@dataclass(frozen=True, slots=True)
class Selector:
    """What a list or watch is narrowed down to."""

    labels: str = ""
    fields: str = ""

    def matches(self, raw: dict[str, Any] | None) -> bool:
        """Whether an object is selected; None, an object that is not there, never is."""
        if raw is None:
            return False
        labels = raw["metadata"].get("labels") or {}
        return all(_label_term(term, labels) for term in _terms(self.labels)) and all(
            _field_term(term, raw) for term in _terms(self.fields)
        )


def _terms(text: str) -> list[str]:
    return [term.strip() for term in text.split(",") if term.strip()]


def _label_term(term: str, labels: dict[str, str]) -> bool:
    match = _TERM.match(term)
    if match is None:
        return term[1:] not in labels if term.startswith("!") else term in labels
    return (labels.get(match["key"]) == match["value"]) != (match["operator"] == "!=")


def _field_term(term: str, raw: dict[str, Any]) -> bool:
    match = _TERM.match(term)
    if match is None:
        raise ValueError(f"field selector term {term!r}: use field=value")
    value: Any = raw
    for part in match["key"].split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return (str(value) == match["value"]) != (match["operator"] == "!=")
