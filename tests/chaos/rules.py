"""When a fault strikes: decided by a seed, so that a run can be had again, and written down."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

A = TypeVar("A")

ALWAYS = 10**9


def stream(seed: int, *path: str) -> Random:
    """The random numbers of one thing under a seed: what happens elsewhere does not change them."""
    return Random("/".join((str(seed), *path)))


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was injected, so many seconds after the schedule began."""

    after_s: float
    where: str
    fault: str
    what: str

    def __str__(self) -> str:
        return f"{self.after_s:7.2f} s  {self.where:<13} {self.fault:<16} {self.what}"


@dataclass(slots=True)
class Schedule:
    """The faults injected so far. Any thread may add to it."""

    began: float = field(default_factory=time.monotonic)
    injected: list[Injected] = field(default_factory=list)

    def add(self, where: str, fault: str, what: str = "") -> None:
        self.injected.append(Injected(time.monotonic() - self.began, where, fault, what))

    def count(self) -> Counter[str]:
        """How often each kind of fault was injected."""
        return Counter(one.fault for one in tuple(self.injected))


@dataclass(slots=True)
class Rule(Generic[A]):
    """`act` on each occasion that fits with this probability, `times` times at most.

    The n-th occasion meets the same fate whenever `chance` comes from the same seed.
    """

    name: str
    act: A
    chance: Random = field(default_factory=lambda: Random(0))
    probability: float = 1.0
    times: int = ALWAYS

    def strikes(self) -> bool:
        """Whether this occasion is one."""
        if self.times <= 0 or self.chance.random() >= self.probability:
            return False
        self.times -= 1
        return True
