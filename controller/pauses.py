"""How long an owner that was woken is left alone, and whether room is kept for it meanwhile. Pure.

An owner that is woken tries at once: for so long what it would take is kept from those after it. If nothing comes of
it, something that we cannot see keeps its pods from being created, a quota or another webhook. It is woken again,
after pauses that double, but takes no room from anybody until something of it has moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller.pace import Pause

_TRY_S: Final = 2.0
_LONGEST_S: Final = 60.0
_UNANSWERED_S: Final = 10.0
"""So long one that could not be told keeps its turn. What does not pass by then may be a webhook that fails for it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What of an owner can move: how many pods it has, its workload's kept seats, and its last refusal."""

    pods: int
    seats: frozenset[str]
    refused: str


@dataclass(frozen=True, slots=True)
class _Try:
    pause: Pause
    before: Progress


class Pauses:
    """The owners that were woken, by uid. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._tries: dict[str, _Try] = {}
        self._unanswered: dict[str, float] = {}
        """Since when an owner could not be told that there is room."""

    def keep(self, now: Mapping[str, Progress]) -> None:
        """Forgets who no longer waits, and who has got a pod or a seat since it was woken."""
        self._tries = {
            uid: last
            for uid, last in self._tries.items()
            if uid in now and now[uid].pods <= last.before.pods and now[uid].seats <= last.before.seats
        }
        self._unanswered = {uid: since for uid, since in self._unanswered.items() if uid in now}

    def has_no_place(self, uid: str, now: Progress) -> None:
        """Takes note that no pod of an owner would fit now. If it was refused since it was woken, that is why."""
        self._unanswered.pop(uid, None)
        last = self._tries.get(uid)
        if last is not None and now.refused != last.before.refused:
            del self._tries[uid]

    def wait_s(self, uid: str, now: float) -> float:
        """How long an owner is still left alone; 0 if it may be woken now."""
        last = self._tries.get(uid)
        return 0.0 if last is None else last.pause.left_s(now)

    def in_vain(self, uid: str, now: float) -> bool:
        """Whether an owner was woken and nothing came of it: its try is over."""
        last = self._tries.get(uid)
        return last is not None and (last.pause.length_s > _TRY_S or last.pause.until <= now)

    def begin(self, uid: str, now: float, before: Progress) -> None:
        """Takes note that an owner is woken, or cannot be."""
        self._unanswered.pop(uid, None)
        last = self._tries.get(uid)
        pause = Pause.after(None if last is None else last.pause, now, _TRY_S, _LONGEST_S)
        self._tries[uid] = _Try(pause, before)

    def unanswered(self, uid: str, now: float, before: Progress) -> None:
        """Takes note that an owner was to be woken and the API server was in trouble: a try only if that goes on."""
        if now - self._unanswered.setdefault(uid, now) >= _UNANSWERED_S:
            self.begin(uid, now, before)
