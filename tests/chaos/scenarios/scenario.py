"""What a scenario consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.scene import Scene


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something that goes wrong for `seconds`; `short_s` is set where it is part of the short run."""

    name: str
    play: Callable[[Scene], None]
    seconds: float
    short_s: float | None = None
