"""How many pods of a workload were created past the webhook, while its namespace was not opted in, and lack a place."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from controller.lacking import Wants
from shared.core.wanted import current_pods, wanted_pods

_LAG_S: Final = 5.0
"""For how long what an owner says of its pods may be from before what the pods say."""


class Unplaced:
    """Since when workloads say that they have more pods than were placed. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def of(self, uid: str, owner: Mapping[str, Any] | None, placed: int) -> tuple[int, float]:
        """How many pods a workload has besides the `placed` ones, and in how many seconds to look again.

        Those that went are among the placed ones as long as they are there: some kinds count them too. What an owner
        has not said for a while is not believed yet.
        """
        number = _unplaced(owner, placed)
        if not number:
            self.forget(uid)
            return 0, 0.0
        now = self._clock()
        wait_s = self._since.setdefault(uid, now) + _LAG_S - now
        return (0, wait_s) if wait_s > 0 else (number, 0.0)

    def forget(self, uid: str) -> None:
        """The workload is gone."""
        self._since.pop(uid, None)


def _unplaced(owner: Mapping[str, Any] | None, placed: int) -> int:
    if owner is None or owner["metadata"].get("deletionTimestamp"):
        return 0
    # Those of an earlier template may have asked for nothing. More than it wants it has only while it is rolled out.
    number = max(0, min(current_pods(owner), wanted_pods(owner) or 0) - placed)
    return number if number and Wants.of(owner, owner["metadata"].get("namespace", "")).templates else 0
