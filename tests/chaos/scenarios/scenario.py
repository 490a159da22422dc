"""What a scenario consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.chaos.scene import Scene


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something that goes wrong for `seconds`; `short_s` is set where it is part of the short run.

    Where there are `settings`, the operator's processes are restarted with these environment variables before, and
    without them afterwards.
    """

    name: str
    play: Callable[[Scene], None]
    seconds: float
    short_s: float | None = None
    least_admitted: int = 0
    """Where callers create pods, so many have to be admitted: of what is not there nothing can be lost."""
    answers_all: bool = False
    """Each create is admitted or refused: none fails, none is `unavailable`, and in the whole run none is late."""
    settings: Mapping[str, str] = field(default_factory=dict)
