"""The room for bodies, without a network."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from webhook.bodies import Bodies, Body, NoRoomError


class Hall:
    """A room of 100 bytes, of which bodies of more than 10 leave 20 to smaller ones; `ended` are those that gave up."""

    def __init__(self, stack: ExitStack) -> None:
        self.room = Bodies(100, small=10, kept=20)
        self.ended: list[str] = []
        self._stack = stack

    def body(self, name: str, *sizes: int) -> Body:
        body = self._stack.enter_context(self.room.body(lambda _error: self.ended.append(name)))
        for size in sizes:
            body.grow(size)
        return body


def test_what_has_arrived_takes_room_until_its_answer() -> None:
    with ExitStack() as stack:
        hall = Hall(stack)
        hall.body("announced")
        hall.body("half", 30)
        hall.body("whole", 20, 20).arrived()
        assert hall.room.inside == 70
    assert hall.room.inside == 0


def test_the_one_that_arrives_for_longest_gives_its_room_to_others() -> None:
    with ExitStack() as stack:
        hall = Hall(stack)
        hall.body("announced")
        oldest = hall.body("oldest", 30)
        hall.body("older", 30)
        hall.body("new", 30)
        assert (hall.ended, hall.room.inside) == (["oldest"], 60)
        hall.body("newest", 50)
        assert (hall.ended, hall.room.inside) == (["oldest", "older"], 80)
        with pytest.raises(NoRoomError):
            oldest.grow(1)
        assert hall.room.inside == 80


def test_bodies_that_are_whole_keep_their_room() -> None:
    with ExitStack() as stack:
        hall = Hall(stack)
        hall.body("whole", 70).arrived()
        late = hall.body("late", 5)
        with pytest.raises(NoRoomError):
            late.grow(10)
        assert (hall.ended, hall.room.inside) == ([], 70)


def test_the_oldest_takes_no_room_from_younger_ones() -> None:
    with ExitStack() as stack:
        hall = Hall(stack)
        oldest = hall.body("oldest", 40)
        hall.body("younger", 40)
        with pytest.raises(NoRoomError):
            oldest.grow(10)
        assert (hall.ended, hall.room.inside) == ([], 40)


def test_a_large_body_ends_nobody_where_that_would_not_make_room_and_never_a_small_one() -> None:
    with ExitStack() as stack:
        hall = Hall(stack)
        hall.body("whole", 50).arrived()
        hall.body("small", 10)
        hall.body("large", 20)
        for size in (21, 50):
            with pytest.raises(NoRoomError):
                hall.body("larger", size)
        assert (hall.ended, hall.room.inside) == ([], 80)
        hall.body("fits in its place", 20)
        assert (hall.ended, hall.room.inside) == (["large"], 80)


def test_large_bodies_leave_room_to_small_ones() -> None:
    with ExitStack() as stack:
        hall = Hall(stack)
        hall.body("large", 80).arrived()
        for name in ("small", "too"):
            hall.body(name, 10).arrived()
        assert hall.room.inside == 100
        with pytest.raises(NoRoomError):
            hall.body("no more", 1)
        assert hall.room.inside == 100
