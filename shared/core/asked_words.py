"""Where a pod says what it asks, for whoever is to change it: by other words it would contradict itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shared.api import names
from shared.core.wording import cut, join, one_line

_MOST_NAMED = 2
_LONGEST = 90
"""What is said of a container with the longest name."""


@dataclass(frozen=True, slots=True)
class Words:
    """The keys of the annotations and resources that say how much of a card, how many cards, whose, of what version and
    which of them are asked, or what else that was read from; those that may be added where a pod says nothing of it.
    """

    amount: tuple[str, ...] = (names.VRAM,)
    count: tuple[str, ...] = (names.GPUS,)
    vendor: tuple[str, ...] = (names.VENDOR,)
    version: tuple[str, ...] = (names.ACCEL_VERSION,)
    choice: tuple[str, ...] = (names.NVIDIA_USE_TYPE,)


OUR_WORDS: Final = Words()

EXCLUSIVE_POLICY: Final = f"{names.POLICY}: exclusive"
"""By which a pod wants its cards whole."""


def word_of(field: str) -> str:
    """The key at the end of a field such as `metadata.annotations[kamiwaza.ai/vram-gb]`."""
    return field.rpartition("[")[2].removesuffix("]")


def named(words: Sequence[str]) -> str:
    """Words within a sentence, shortened."""
    each = [cut(one_line(word), _LONGEST) for word in dict.fromkeys(words)]
    if len(each) > _MOST_NAMED:
        each[_MOST_NAMED:] = [f"{len(each) - _MOST_NAMED} more"]
    return join(each, "and")
