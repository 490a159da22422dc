"""How the last placements of a workload ended.

Worked out from what the status showed, so that nothing is told twice and nothing is lost with a controller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from shared.core.ledger import Shares
from shared.core.pod_fate import Ending, PodFate
from shared.core.times import in_seconds

MOST_REMEMBERED: Final = 10

_CLOCKS_DIFFER: Final = timedelta(hours=1)
"""By how much the clocks of a cluster may differ at most: what is later than that has not been."""

PastPlacement: TypeAlias = dict[str, Any]


def placement_history(
    old: Mapping[str, Any],
    over: Iterable[PodFate],
    exists: Callable[[str], bool],
    fate_of: Callable[[str], PodFate | None],
    now: datetime,
) -> list[PastPlacement]:
    """The newest placements that ended, newest first.

    `old` is the status so far, `over` are the workload's pods that ended and still exist. `exists` tells of a uid
    whether that pod still takes what it was given. Whoever may write the status may have written what cannot be: that
    is passed over.
    """
    entries = {
        entry["uid"]: dict(entry)
        for entry in old.get("history") or ()
        if not exists(entry["uid"]) and has_been(entry["since"], now) and has_been(entry["until"], now)
    }
    for shown in old.get("placements") or ():
        uid, since = shown.get("uid"), shown.get("since")
        if uid and uid not in entries and not exists(uid) and since and has_been(since, now):
            entries[uid] = _vanished(shown, fate_of(uid), in_seconds(now))
    for fate in over:
        entry = _ended(fate)
        if entries.get(fate.key, entry)["ended"] == Ending.OOM:
            entry["ended"] = Ending.OOM.value  # known from its log, which may be gone by now
        entries[fate.key] = entry
    newest = sorted(entries.values(), key=lambda entry: (entry["until"], entry["pod"], entry["uid"]), reverse=True)
    return newest[:MOST_REMEMBERED]


def has_been(time: str, now: datetime) -> bool:
    """Whether a time that a status tells is one that somebody can have seen."""
    return time <= in_seconds(now + _CLOCKS_DIFFER)


def shown_cards(shares: Shares) -> list[dict[str, int]]:
    return [{"index": index, "gb": gb} for index, gb in shares]


def has_finished_since(history: Collection[Mapping[str, Any]], time: str) -> bool:
    """Whether a pod that was created after `time` ended as it should."""
    return any(entry["since"] > time and entry["ended"] == Ending.FINISHED for entry in history)


def _vanished(shown: Mapping[str, Any], fate: PodFate | None, now: str) -> PastPlacement:
    """The entry of a pod that was shown and is gone."""
    ending = fate.ending if fate is not None else Ending.DELETED
    until = fate.changed if fate is not None and fate.is_over else now
    return {
        **{key: shown[key] for key in ("pod", "uid", "node", "cards", "since")},
        "until": until,
        "ended": ending.value,
    }


def _ended(fate: PodFate) -> PastPlacement:
    return {
        "pod": fate.name,
        "uid": fate.key,
        "node": fate.place.node,
        "cards": shown_cards(fate.place.shares),
        "since": fate.created,
        "until": fate.changed,
        "ended": fate.ending.value,
    }
