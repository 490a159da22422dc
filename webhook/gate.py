"""How much may be under way at once. What comes beyond is turned away at once, so that nothing queues without end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Has room for `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.inside = 0

    @contextmanager
    def room(self) -> Iterator[bool]:
        """Whether there is room for one more; if so, it is taken until the context ends."""
        if self.inside >= self.most:
            yield False
            return
        self.inside += 1
        try:
            yield True
        finally:
            self.inside -= 1
