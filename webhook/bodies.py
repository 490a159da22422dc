"""The room for the bodies of requests: taken by bytes that have arrived, and kept until the answer.

A body that is only announced takes none. Where there is no room for more, that of which the rest is waited for longest
gives its room to the others: an API server has a body whole before it connects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
        most = self._most if body.size + size <= self._small else self._most - self._kept
        while body in self._arriving and self.inside + size > most:
            self._end(next(each for each in self._arriving if each.size or each is body), body)
        if body not in self._arriving:
            raise NoRoomError
        self.inside += size
        body.size += size

    def arrived(self, body: Body) -> None:
        """From now on a body keeps its room, whoever comes."""
        self._arriving.pop(body, None)

    def _end(self, oldest: Body, cause: Body) -> None:
        self.arrived(oldest)
        self.inside -= oldest.size
        oldest.size = 0
        if oldest is not cause:
            oldest.give_up(NoRoomError())


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
