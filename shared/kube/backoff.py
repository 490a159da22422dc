"""How long to wait before trying again."""

from __future__ import annotations

import random

_MOST_DOUBLINGS = 30


def backoff_s(failures: int, first_s: float, longest_s: float) -> float:
    """Seconds to wait before the next try, after `failures` earlier ones: doubling, and spread by chance."""
    return jittered(min(longest_s, first_s * 2 ** min(failures, _MOST_DOUBLINGS)), 0.5, 1.0)


def jittered(seconds: float, low: float = 0.8, high: float = 1.2) -> float:
    """`seconds` times a random factor, so that many processes do not act at the same moment."""
    return seconds * random.uniform(low, high)  # noqa: S311 - spreads load, guards nothing
