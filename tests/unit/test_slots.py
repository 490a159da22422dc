"""Cards keep their slot numbers."""

from __future__ import annotations

import pytest

from shared.core.slots import assign_slots


@pytest.mark.parametrize(
    ("known", "found", "slots"),
    [
        pytest.param({}, {"a": 0, "b": 1}, {"a": 0, "b": 1}, id="at first the driver's index is the slot"),
        pytest.param({}, {"a": 0, "c": 2}, {"a": 0, "c": 2}, id="a gap in the driver's count stays one"),
        pytest.param({"a": 0, "b": 1}, {"b": 0}, {"a": 0, "b": 1}, id="the neighbour of a lost card stays where it is"),
        pytest.param({"a": 0, "b": 1}, {"b": 0, "a": 1}, {"a": 0, "b": 1}, id="an exchanged order changes nothing"),
        pytest.param({"a": 0, "b": 1}, {"b": 0, "c": 1}, {"a": 0, "b": 1, "c": 2}, id="a new card takes no known slot"),
        pytest.param({"a": 0, "b": 1}, {"c": 2}, {"a": 0, "b": 1, "c": 2}, id="a new card takes its index if free"),
        pytest.param({"b": 1}, {"c": 1}, {"b": 1, "c": 0}, id="the lowest free slot where the index is taken"),
        pytest.param({"a": 0}, {"c": 1, "b": 0}, {"a": 0, "b": 1, "c": 2}, id="new cards in the driver's order"),
        pytest.param({"a": 0}, {}, {"a": 0}, id="an empty inventory forgets nobody"),
    ],
)
def test_slots_are_sticky(known: dict[str, int], found: dict[str, int], slots: dict[str, int]) -> None:
    assert assign_slots(known, found) == slots
