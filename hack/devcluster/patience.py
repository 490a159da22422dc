"""How long one waits for something to become true: as many looks as a free machine takes in so many seconds.

A clock on the wall is no measure on a machine that is busy with other work, where what needs two seconds may take
thirty. Looks are slowed by the same work as what they look for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator


def looks(within_s: float, every_s: float) -> Iterator[None]:
    """One turn for each look, a pause of `every_s` after each. The last one comes after `within_s` at the earliest."""
    for _ in range(round(within_s / every_s)):
        yield
        time.sleep(every_s)
    yield
