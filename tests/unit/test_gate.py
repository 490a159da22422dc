"""How much may be under way at once."""

from __future__ import annotations

import pytest

from webhook.gate import Gate


def test_what_finds_no_room_is_turned_away() -> None:
    gate = Gate(2)
    with gate.room() as first, gate.room() as second, gate.room() as third:
        assert (first, second, third) == (True, True, False)
        assert gate.inside == 2
    assert gate.inside == 0


def test_room_is_given_back_by_those_that_fail() -> None:
    gate = Gate(1)
    with pytest.raises(ValueError, match="wrong"), gate.room():
        raise ValueError("wrong")
    with gate.room() as has_room:
        assert has_room
