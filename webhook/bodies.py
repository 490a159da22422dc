"""The room for the bodies of requests: taken by bytes that have arrived, and kept until the answer.

A body that is only announced takes none. Where there is no room for more, those of which the rest is waited for longest
give theirs to younger ones, a small body never to a large one: an API server has a body whole before it connects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile


class NoRoomError(TimeoutError):
    """There is no room for a body, or others took its room.

    A `TimeoutError`, because aiohttp goes on to read behind an answer, and knows a body that does not end by that.
    """


class Bodies:
    """Has room for `most` bytes. Bodies longer than `small` bytes leave `kept` of it to the others."""

    def __init__(self, most: int, *, small: int, kept: int) -> None:
        self.inside = 0
        self._most = most
        self._small = small
        self._kept = kept
        self._arriving: dict[Body, None] = {}

    @contextmanager
    def body(self, give_up: Callable[[NoRoomError], None]) -> Iterator[Body]:
        """A body that begins to arrive, in memory until the context ends.

        `give_up` tells whoever waits for the rest of it that others took its room.
        """
        body = Body(self, give_up)
        self._arriving[body] = None
        try:
            yield body
        finally:
            self.arrived(body)
            self.inside -= body.size

    def grow(self, body: Body, size: int) -> None:
        """Takes room for `size` more bytes of a body. Raises `NoRoomError`."""
        if body not in self._arriving:
            raise NoRoomError
        is_small = body.size + size <= self._small
        lacking = self.inside + size - (self._most if is_small else self._most - self._kept)
        if lacking > 0 and not self._make_room(body, lacking, least=1 if is_small else self._small + 1):
            self._end(body)
            raise NoRoomError
        self.inside += size
        body.size += size

    def arrived(self, body: Body) -> None:
        """From now on a body keeps its room, whoever comes."""
        self._arriving.pop(body, None)

    def _make_room(self, body: Body, lacking: int, least: int) -> bool:
        """Ends older bodies of `least` bytes and more, the oldest first; none if all of them together do not do."""
        older = [each for each in takewhile(lambda each: each is not body, self._arriving) if each.size >= least]
        if lacking > sum(each.size for each in older):
            return False
        for each in older:
            if lacking <= 0:
                break
            lacking -= each.size
            self._end(each)
            each.give_up(NoRoomError())
        return True

    def _end(self, body: Body) -> None:
        self.arrived(body)
        self.inside -= body.size
        body.size = 0


class Body:
    """The room of one body: `size` bytes of it."""

    def __init__(self, room: Bodies, give_up: Callable[[NoRoomError], None]) -> None:
        self.size = 0
        self.give_up = give_up
        self._room = room

    def grow(self, size: int) -> None:
        """So many more bytes have arrived. Raises `NoRoomError`."""
        self._room.grow(self, size)

    def arrived(self) -> None:
        """It is whole."""
        self._room.arrived(self)
