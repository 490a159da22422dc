"""Events that the operator told more often than there was something to tell: read from raw JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from hack.devcluster.api import Json
from shared.api import names
from tests.chaos.rules import Injected

_PLACED = frozenset({"Placed", "Preempting"})
"""What is told once of each pod. How often a `NoFit` is told follows the creates that were refused, of which nobody
keeps count once one was placed: there is no bound for it.
"""
_SAME_NAMES = frozenset({"StatefulSet"})
"""Their pods come again under the name that they had, so the same words are told again of another pod."""
_WRITERS = ("controller-", "kube-apiserver", "etcd")
"""A fault there may have cost the controller what it knew to be told, or the answer that said so."""
_LONGEST_FAULT_S = 30.0


def told_twice(events: Iterable[Json]) -> list[str]:
    """What was told in more than one Event object: the same of the same object in the same words."""
    told = Counter((_about(event), event["reason"], event["message"]) for event in filter(_is_ours, events))
    return [f"{count} events {reason} on {about}: {text}" for (about, reason, text), count in told.items() if count > 1]


def told_too_often(events: Iterable[Json], began: float, faults: Collection[float]) -> Iterator[str]:
    """Placements that were told again, of the events since `began`.

    A text names pods whose names are never given again, so it is told once, and at most once more for each of the
    `faults` since then. Times are unix seconds.
    """
    for event in filter(_is_ours, events):
        first = datetime.fromisoformat(event["metadata"]["creationTimestamp"]).timestamp()
        kind = event["involvedObject"]["kind"]
        if event["reason"] in _PLACED and kind not in _SAME_NAMES and first >= began:
            most = 1 + sum(fault >= first - _LONGEST_FAULT_S for fault in faults)
            if event.get("count", 1) > most:
                said = f"{event['reason']} on {_about(event)}: {event['message']}"
                yield f"told {event['count']} times, of {most} at most: {said}"


def faults_of_controllers(injected: Iterable[Injected], began: float) -> list[float]:
    """When something was done to a controller or to what it writes to, in the time that `began` is in."""
    return [began + each.after_s for each in injected if each.where.startswith(_WRITERS)]


def _is_ours(event: Json) -> bool:
    return (event.get("source") or {}).get("component") == names.PRODUCT


def _about(event: Json) -> str:
    about = event["involvedObject"]
    return f"{about['kind']} {about.get('namespace', '')}/{about['name']} ({about.get('uid', '')})"
