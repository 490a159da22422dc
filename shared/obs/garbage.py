"""When Python looks for garbage: seldom while the first lists come in, and never again through what they brought.

Looked through again and again as it grows, a cluster of 5,000 nodes would take twice the time to start with; at each
full collection later it would hold everything up for 0.1 s.
"""

from __future__ import annotations

import gc
from typing import Final

_SELDOM: Final = (100_000, 50, 100)
_USUAL: Final = gc.get_threshold()


def look_seldom() -> None:
    """To be called at the start."""
    gc.set_threshold(*_SELDOM)


def keep_what_is_there() -> None:
    """To be called when the first lists are complete."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_USUAL)
