"""Memory of the latest things only: what was put in or moved longest ago goes first."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remember(memory: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Puts `value` in as the newest, and forgets the oldest where there are more than `most`."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > most:
        memory.popitem(last=False)
