"""What came of many reviews: how many, with which verdicts, and how fast."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import ceil, log2

_STEPS_PER_DOUBLING = 8


@dataclass(slots=True)
class Tally:
    """Counts that add up over episodes and processes."""

    reviews: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    checks: Counter[str] = field(default_factory=Counter)
    """How often each law that is only sampled was looked at."""
    _by_time: Counter[int] = field(default_factory=Counter)

    def answered(self, verdict: str, seconds: float) -> None:
        """Takes note of one answer."""
        self.reviews += 1
        self.verdicts[verdict] += 1
        self.slowest_s = max(self.slowest_s, seconds)
        self._by_time[ceil(log2(max(seconds, 1e-6)) * _STEPS_PER_DOUBLING)] += 1

    def add(self, other: Tally) -> None:
        self.reviews += other.reviews
        self.verdicts += other.verdicts
        self.checks += other.checks
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self._by_time += other._by_time

    def percentile_s(self, share: float) -> float:
        """The time within which `share` of the answers came, to a tenth."""
        left = share * self.reviews
        for step in sorted(self._by_time):
            left -= self._by_time[step]
            if left <= 0:
                return float(2 ** (step / _STEPS_PER_DOUBLING))
        return self.slowest_s
