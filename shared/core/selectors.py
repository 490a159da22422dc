"""Which labels a selector selects: label selectors of pods and namespaces, and node selector terms.

The readers take what the API server stores, or what `read_constraints` has checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from shared.api import names


class Operator(StrEnum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_IN = Operator.IN
_FEW = 8


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the label `key`. `Gt` and `Lt` compare whole numbers with the single value."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    _options: Collection[str] = field(init=False, repr=False, compare=False)
    """The values, where there are many in a form in which looking one up takes no longer for that."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_options", self.values if len(self.values) <= _FEW else frozenset(self.values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet it. An operator that Kubernetes does not know is never met."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self._options
            case Operator.NOT_IN:
                return value not in self._options
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                return value is not None and self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        label, bound = int64(value), int64(self.values[0] if len(self.values) == 1 else "")
        if label is None or bound is None:
            return False
        return label > bound if self.operator == Operator.GT else label < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions that must all hold. Without any it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        # Asked for every pod of a cluster: equality, the usual condition, is compared in place.
        for requirement in self.requirements:
            if requirement.operator == _IN:
                if labels.get(requirement.key) not in requirement._options:  # noqa: SLF001 - a part of this class
                    return False
            elif not requirement.matches(labels):
                return False
        return True

    def narrowed(self, requirements: Iterable[Requirement]) -> LabelSelector:
        """This selector with more conditions, each once."""
        return LabelSelector(tuple(dict.fromkeys((*self.requirements, *requirements))))


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """One of the ORed terms of a required node affinity. A term without conditions selects no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @property
    def named_nodes(self) -> frozenset[str] | None:
        """The only nodes that it can select, if it names them."""
        named = [frozenset(field.values) for field in self.fields if field.operator == _IN]
        return frozenset.intersection(*named) if named else None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it selects the node `name` with `labels`."""
        if not self.expressions and not self.fields:
            return False
        return all(requirement.matches(labels) for requirement in self.expressions) and all(
            requirement.matches({names.NODE_NAME_FIELD: name}) for requirement in self.fields
        )


def read_label_selector(raw: Mapping[str, Any] | None) -> LabelSelector | None:
    """A `LabelSelector` of the API. An absent one is None and selects nothing, an empty one everything."""
    if raw is None:
        return None
    labels = raw.get("matchLabels") or {}
    return LabelSelector(
        (
            *(Requirement(key, Operator.IN, (value,)) for key, value in labels.items()),
            *_read_requirements(raw.get("matchExpressions")),
        )
    )


def read_node_selector_terms(raw: Iterable[Mapping[str, Any]] | None) -> tuple[NodeSelectorTerm, ...]:
    """The `nodeSelectorTerms` of a node affinity."""
    return tuple(
        NodeSelectorTerm(_read_requirements(term.get("matchExpressions")), _read_requirements(term.get("matchFields")))
        for term in raw or ()
    )


def label_key_requirements(
    keys: Iterable[str] | None, labels: Mapping[str, str], operator: Operator
) -> tuple[Requirement, ...]:
    """What `matchLabelKeys` (`In`) or `mismatchLabelKeys` (`NotIn`) add for a pod with `labels`."""
    return tuple(Requirement(key, operator, (labels[key],)) for key in keys or () if key in labels)


def int64(text: str) -> int | None:
    """The whole number that `text` stands for, or None where Kubernetes would not read one."""
    if _INTEGER.match(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


_INTEGER = re.compile(r"[+-]?[0-9]{1,64}\Z")


def _read_requirements(raw: Iterable[Mapping[str, Any]] | None) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(item.get("key") or "", item.get("operator") or "", tuple(item.get("values") or ()))
        for item in raw or ()
    )
