"""Label selectors and node selector terms: every operator, and what absent and empty mean."""

from __future__ import annotations

import pytest

from shared.core.selectors import (
    LabelSelector,
    Operator,
    Requirement,
    label_key_requirements,
    read_label_selector,
    read_node_selector_terms,
)
from tests.builders import expressions, labels, requirement

GPU = {"gpu": "t4", "memory": "16"}


@pytest.mark.parametrize(
    ("operator", "key", "values", "selected"),
    [
        pytest.param("In", "gpu", ("a10", "t4"), True, id="In-has-one-of-the-values"),
        pytest.param("In", "gpu", ("a10",), False, id="In-has-another-value"),
        pytest.param("In", "zone", ("west",), False, id="In-lacks-the-label"),
        pytest.param("NotIn", "gpu", ("a10",), True, id="NotIn-has-another-value"),
        pytest.param("NotIn", "gpu", ("t4",), False, id="NotIn-has-the-value"),
        pytest.param("NotIn", "zone", ("west",), True, id="NotIn-lacks-the-label"),
        pytest.param("Exists", "gpu", (), True, id="Exists"),
        pytest.param("Exists", "zone", (), False, id="Exists-lacks-the-label"),
        pytest.param("DoesNotExist", "zone", (), True, id="DoesNotExist"),
        pytest.param("DoesNotExist", "gpu", (), False, id="DoesNotExist-has-the-label"),
        pytest.param("Gt", "memory", ("8",), True, id="Gt-larger"),
        pytest.param("Gt", "memory", ("16",), False, id="Gt-equal"),
        pytest.param("Gt", "memory", ("9",), True, id="Gt-compares-numbers-not-texts"),
        pytest.param("Gt", "memory", ("-1",), True, id="Gt-negative-bound"),
        pytest.param("Gt", "gpu", ("1",), False, id="Gt-label-is-no-number"),
        pytest.param("Gt", "zone", ("1",), False, id="Gt-lacks-the-label"),
        pytest.param("Gt", "memory", ("many",), False, id="Gt-bound-is-no-number"),
        pytest.param("Gt", "memory", ("1", "2"), False, id="Gt-two-bounds"),
        pytest.param("Gt", "memory", (str(2**63),), False, id="Gt-bound-beyond-int64"),
        pytest.param("Lt", "memory", ("17",), True, id="Lt-smaller"),
        pytest.param("Lt", "memory", ("16",), False, id="Lt-equal"),
        pytest.param("Like", "gpu", ("t4",), False, id="unknown-operator-selects-nothing"),
    ],
)
def test_each_operator_selects_as_kubernetes_says(
    operator: str, key: str, values: tuple[str, ...], selected: bool
) -> None:
    assert Requirement(key, operator, values).matches(GPU) is selected


def test_a_label_selector_ands_labels_and_expressions() -> None:
    selector = read_label_selector({**labels(gpu="t4"), **expressions(requirement("memory", "Exists"))})
    assert selector is not None
    assert selector.matches(GPU)
    assert not selector.matches({"gpu": "t4"})
    assert not selector.matches({"gpu": "a10", "memory": "16"})


def test_an_absent_selector_is_none_and_an_empty_one_selects_everything() -> None:
    assert read_label_selector(None) is None
    empty = read_label_selector({})
    assert empty == LabelSelector()
    assert empty.matches({})


def test_label_keys_take_the_values_of_the_pod_and_skip_labels_it_lacks() -> None:
    found = label_key_requirements(["app", "absent"], {"app": "web", "other": "x"}, Operator.NOT_IN)
    assert found == (Requirement("app", "NotIn", ("web",)),)
    assert label_key_requirements(None, {"app": "web"}, Operator.IN) == ()


@pytest.mark.parametrize(
    ("term", "selected"),
    [
        pytest.param({}, False, id="empty-term-selects-nothing"),
        pytest.param({"matchExpressions": []}, False, id="term-with-empty-lists-selects-nothing"),
        pytest.param(expressions(requirement("gpu", "In", "t4")), True, id="label"),
        pytest.param(
            expressions(requirement("gpu", "In", "t4"), requirement("zone", "Exists")),
            False,
            id="labels-are-ANDed",
        ),
        pytest.param({"matchFields": [requirement("metadata.name", "In", "node-a")]}, True, id="name"),
        pytest.param({"matchFields": [requirement("metadata.name", "In", "node-b")]}, False, id="other-name"),
        pytest.param({"matchFields": [requirement("metadata.name", "NotIn", "node-b")]}, True, id="name-NotIn"),
        pytest.param(
            {
                "matchFields": [requirement("metadata.name", "In", "node-a")],
                "matchExpressions": [requirement("gpu", "In", "a10")],
            },
            False,
            id="name-and-labels-are-ANDed",
        ),
    ],
)
def test_a_node_selector_term(term: dict[str, object], selected: bool) -> None:
    (read,) = read_node_selector_terms([term])
    assert read.matches("node-a", GPU) is selected
