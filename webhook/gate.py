"""How much may be under way at once. What comes beyond is turned away at once, so that nothing queues without end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Has room for `most`, in whatever unit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.inside = 0

    @contextmanager
    def room(self, size: int = 1) -> Iterator[bool]:
        """Whether there is room for `size` more; if so, it is taken until the context ends."""
        if self.inside + size > self.most:
            yield False
            return
        self.inside += size
        try:
            yield True
        finally:
            self.inside -= size
