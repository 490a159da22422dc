"""How often something may happen. Pure: times are arguments, in seconds of one monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FORGET: Final = 4
"""Times the longest pause after which an owner that stayed quiet begins anew."""


class Pace:
    """At most one in `period_s`, whoever asks."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._free_at = float("-inf")

    def wait_s(self, now: float) -> float:
        """How long to wait for the next turn; 0 if it may be taken now."""
        return max(0.0, self._free_at - now)

    def take(self, now: float) -> None:
        """Takes the turn."""
        self._free_at = now + self._period_s


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which something is left alone."""

    began: float
    length_s: float

    @classmethod
    def after(cls, last: Pause | None, now: float, first_s: float, longest_s: float) -> Pause:
        """One that begins `now`, twice as long as the last if there was one."""
        return cls(now, first_s if last is None else min(2 * last.length_s, longest_s))

    @property
    def until(self) -> float:
        return self.began + self.length_s

    def left_s(self, now: float) -> float:
        """How much of it is left; 0 once it is over."""
        return max(0.0, self.until - now)


class Rounds:
    """Replacing the pods of an owner, in rounds with growing pauses.

    The pods that an owner had when a round began are replaced in that round without a pause: ten pods of one lost node
    are no sign of a loop. A pod that appeared later is a replacement that came to nothing, or may be one: it begins the
    next round, after a pause that doubles each time.
    """

    def __init__(self, first_pause_s: float, longest_pause_s: float) -> None:
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._rounds: dict[str, Pause] = {}
        """By owner the pause after its last round, which begins with the round."""

    def wait_s(self, owner: str, since: float, now: float) -> float:
        """How long a pod of `owner` that is known `since` has to wait; 0 if it may be replaced now."""
        last = self._rounds.get(owner)
        if last is None or since <= last.began:
            return 0.0
        return last.left_s(now)

    def replaced(self, owner: str, since: float, now: float) -> None:
        """Takes note that such a pod was replaced."""
        last = self._rounds.get(owner)
        if last is not None and since <= last.began:
            return
        self._rounds[owner] = Pause.after(last, now, self._first_pause_s, self._longest_pause_s)
        quiet_s = _FORGET * self._longest_pause_s
        self._rounds = {uid: each for uid, each in self._rounds.items() if now - each.began < quiet_s}
