"""Reads PromQL expressions with the grammar of Prometheus, and says which labels their results have.

A label that a metric does not have matches nothing and an operator between vectors of different labels finds no pairs:
Prometheus calls neither an error, and an alert of that kind never fires.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import promql_parser as promql

_PER_SCRAPE = frozenset({"namespace", "pod"})
"""What the PodMonitor adds to every series."""


class PromqlError(ValueError):
    """An expression that is none, or that can find nothing."""


def labels_of(expression: str, known: Mapping[str, Set[str]]) -> frozenset[str]:
    """The labels of the series that `expression` gives, where the metrics are `known` by name with their labels.

    Raises `PromqlError`.
    """
    try:
        parsed = promql.parse(expression)
    except ValueError as error:
        raise PromqlError(str(error)) from error
    labels = _labels(parsed, known)
    if labels is None:
        raise PromqlError("a scalar is no alert")
    return labels


def _labels(expr: object, known: Mapping[str, Set[str]]) -> frozenset[str] | None:
    """None for a scalar."""
    match expr:
        case promql.VectorSelector():
            return _selected(expr, known)
        case promql.MatrixSelector():
            return _selected(expr.vector_selector, known)
        case promql.NumberLiteral() | promql.StringLiteral():
            return None
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return _labels(expr.expr, known)
        case promql.AggregateExpr():
            return _aggregated(expr, known)
        case promql.Call():
            return _called(expr, known)
        case promql.BinaryExpr():
            return _joined(expr, known)
    raise PromqlError(f"{type(expr).__name__} is not known here")


def _selected(selector: promql.VectorSelector, known: Mapping[str, Set[str]]) -> frozenset[str]:
    if selector.name is None or selector.name not in known:
        raise PromqlError(f"there is no metric {selector.name}")
    labels = _PER_SCRAPE | known[selector.name]
    asked = {matcher.name for matcher in selector.matchers.matchers}
    if not asked <= labels:
        raise PromqlError(f"{selector.name} has no label {', '.join(asked - labels)}")
    return labels


def _aggregated(expr: promql.AggregateExpr, known: Mapping[str, Set[str]]) -> frozenset[str]:
    inner = _labels(expr.expr, known)
    if inner is None:
        raise PromqlError("a scalar cannot be aggregated")
    if expr.modifier is None:
        return frozenset()
    named = frozenset(expr.modifier.labels)
    if not named <= inner:
        raise PromqlError(f"aggregated by {', '.join(named - inner)}, which the series lack")
    return named if expr.modifier.type == promql.AggModifierType.By else inner - named


def _called(call: promql.Call, known: Mapping[str, Set[str]]) -> frozenset[str] | None:
    found = [labels for each in call.args if (labels := _labels(each, known)) is not None]
    if call.func.name in {"time", "scalar"}:
        return None
    if call.func.name == "absent":
        return frozenset()  # those that its matchers name with `=`, which no other operand can rely on
    return found[0] if found else frozenset()


def _joined(expr: promql.BinaryExpr, known: Mapping[str, Set[str]]) -> frozenset[str] | None:
    left, right = _labels(expr.lhs, known), _labels(expr.rhs, known)
    if left is None or right is None:
        return right if left is None else left
    if expr.modifier is not None and expr.modifier.matching is not None:
        raise PromqlError("on and ignoring are not known here")
    if left != right:
        raise PromqlError(f"no pairs: {sorted(left)} on the left, {sorted(right)} on the right")
    return left
