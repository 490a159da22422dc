"""How long one waits for something to become true: as many looks as fit into so many seconds if a look took no time.

A clock on the wall is no measure on a machine that is busy with other work, where what needs two seconds may take
thirty. Looks are slowed by the same work as what they look for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

_LONGEST: Final = 10.0
"""So many times as long one waits at most: looks may be slow for other reasons, too."""


def looks(within_s: float, every_s: float) -> Iterator[None]:
    """One turn for each look, a pause of `every_s` after each.

    The last one comes after `within_s` at the earliest, and as the first one after ten times as long at the latest.
    """
    began = time.monotonic()
    for _ in range(round(within_s / every_s)):
        yield
        if time.monotonic() - began > _LONGEST * within_s:
            break
        time.sleep(every_s)
    yield
