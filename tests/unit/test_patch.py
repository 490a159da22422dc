"""A pod being changed: what happens to the copy and what is recorded of it."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest

from shared.core.invalid import InvalidRequest
from webhook.patch import APPEND, PodPatch


def changed(pod: dict[str, Any], patch: PodPatch) -> dict[str, Any]:
    """The pod as the API server makes it from the recorded operations; the same as the copy."""
    result: dict[str, Any] = jsonpatch.apply_patch(pod, patch.ops)
    assert result == patch.pod
    return result


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        pytest.param({}, ("metadata", "labels", "a"), id="nothing-there"),
        pytest.param({"metadata": None}, ("metadata", "labels", "a"), id="a-null-on-the-way"),
        pytest.param({"metadata": {"labels": None}}, ("metadata", "labels", "a"), id="a-null-map"),
        pytest.param({"metadata": {"labels": {"a": "0"}}}, ("metadata", "labels", "a"), id="a-value-to-replace"),
        pytest.param({"metadata": {}}, ("metadata", "kamiwaza.ai/a~b", "x/~y"), id="slashes-and-tildes"),
        pytest.param({"list": [{}, {}]}, ("list", 1, "a"), id="an-element-of-a-list"),
        pytest.param({"list": [{"a": "0"}, {"a": "0"}]}, ("list", 1, "a"), id="a-value-in-a-list"),
        pytest.param({"list": [1]}, ("list", APPEND), id="behind-a-list"),
        pytest.param({}, ("list", APPEND), id="a-list-that-is-missing"),
        pytest.param({"list": None}, ("list", APPEND), id="a-list-that-is-null"),
        pytest.param({"list": [1, 2]}, ("list", 0), id="over-an-element"),
    ],
)
def test_a_value_stands_where_it_was_set(pod: dict[str, Any], path: tuple[str | int, ...]) -> None:
    patch = PodPatch(pod)
    patch.set("1", *path)
    result: Any = changed(pod, patch)
    for part in path:
        result = result[-1 if part == APPEND else part]
    assert result == "1"


def test_a_value_that_stands_there_already_is_no_change() -> None:
    patch = PodPatch({"spec": {"a": {"b": ["1"]}}})
    patch.set({"b": ["1"]}, "spec", "a")
    patch.set("1", "spec", "a", "b", 0)
    assert patch.ops == []


def test_appending_is_a_change_even_if_the_list_ends_with_the_value() -> None:
    pod = {"list": [1]}
    patch = PodPatch(pod)
    patch.set(1, "list", APPEND)
    assert changed(pod, patch) == {"list": [1, 1]}


def test_a_removed_value_is_gone_and_the_map_around_it_stays() -> None:
    pod = {"limits": {"nvidia.com/gpu": "1"}}
    patch = PodPatch(pod)
    patch.remove("limits", "nvidia.com/gpu")
    assert changed(pod, patch) == {"limits": {}}


def test_a_null_can_be_removed() -> None:
    pod = {"a": None}
    patch = PodPatch(pod)
    patch.remove("a")
    assert changed(pod, patch) == {}


@pytest.mark.parametrize(
    "path", [("b",), ("b", "c"), ("a", "c"), ("list", 1), ("list", 1, "c"), ("null", "c")], ids=str
)
def test_removing_what_is_not_there_is_no_change(path: tuple[str | int, ...]) -> None:
    patch = PodPatch({"a": {}, "list": [{}], "null": None})
    patch.remove(*path)
    assert patch.ops == []


def test_what_is_read_is_what_earlier_changes_left() -> None:
    patch = PodPatch({"list": [{"a": 1}]})
    patch.set(2, "list", 0, "a")
    assert patch.get("list", 0, "a") == 2
    assert patch.get("list", 1, "a") is None
    assert patch.get("other", "a") is None


def test_a_later_change_below_does_not_reach_into_an_earlier_operation() -> None:
    pod: dict[str, Any] = {}
    patch = PodPatch(pod)
    patch.set({"labels": {}}, "metadata")
    patch.set("1", "metadata", "labels", "a")
    assert changed(pod, patch) == {"metadata": {"labels": {"a": "1"}}}
    assert patch.ops[0]["value"] == {"labels": {}}


def test_the_pod_that_was_given_stays_as_it_is() -> None:
    pod = {"list": [{"a": 1}]}
    PodPatch(pod).set(2, "list", 0, "a")
    assert pod == {"list": [{"a": 1}]}


def test_what_is_nested_deeper_than_any_pod_is_refused() -> None:
    nested: Any = "end"
    for _ in range(400):
        nested = {"more": nested}
    with pytest.raises(InvalidRequest, match="nested"):
        PodPatch({"spec": nested})
