"""Choices that a seed decides, or hypothesis, which then shrinks them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Dice:
    """Throws on a source of randomness. The first option and the answer no are the plainest: hypothesis shrinks to
    them.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def chance(self, share: float) -> bool:
        """Yes in `share` of all throws."""
        return self._random.random() >= 1 - share

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def one(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Up to `most` of the options, each at most once, in any order."""
        return self._random.sample(list(options), self._random.randint(0, min(most, len(options))))

    def weighted(self, options: Sequence[T], weights: Sequence[int]) -> T:
        """One of the options, as often as its weight says."""
        throw = self._random.randrange(sum(weights))
        for option, weight in zip(options, weights, strict=True):
            throw -= weight
            if throw < 0:
                return option
        raise AssertionError(throw)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        mixed = list(items)
        self._random.shuffle(mixed)
        return mixed


DICE: st.SearchStrategy[Dice] = st.randoms(use_true_random=False).map(Dice)
"""Dice for a property test."""
