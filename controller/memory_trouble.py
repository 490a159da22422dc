"""Which container of a workload died last for lack of memory, whether that is still the news, and what helps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from controller.placement_history import has_been, has_finished_since
from controller.placement_status import card_phrase
from shared.api import names
from shared.core.oom import Memory, Shortage
from shared.core.pod_fate import Place, PodFate
from shared.core.pods import PodFacts
from shared.core.times import in_seconds

CODES: Final = {Memory.CARD: "OOM", Memory.NODE: "OOMKilled"}
"""The `lastErrorCode` by what ran short. The second is Kubernetes' own word."""

_LONGEST: Final = 1024
_CALM: Final = timedelta(minutes=10)
"""How long a pod has to run before its predecessor's death is over: models take minutes to load before they fail."""


def memory_trouble(
    old: Mapping[str, Any],
    pods: Collection[PodFacts],
    fates: Collection[PodFate],
    history: Collection[Mapping[str, Any]],
    now: datetime,
) -> dict[str, Any] | None:
    """The last death for lack of memory, as the status shows it, until the workload has run well since.

    `old` is the status so far, `pods` and `fates` are the workload's.
    """
    told = _told(old, now)
    seen = [trouble for fate in fates for trouble in _troubles(fate)]
    known: list[dict[str, Any]] = [told, *seen] if told else seen
    newest = max(known, key=lambda trouble: (trouble["at"], trouble["uid"]), default=None)
    if newest is None or _is_over(newest, pods, fates, history, in_seconds(now - _CALM)):
        return None
    return newest


def _told(old: Mapping[str, Any], now: datetime) -> dict[str, Any] | None:
    """What the status tells, unless it cannot be: it may have been edited."""
    told: dict[str, Any] | None = old.get("outOfMemory")
    if not told or told["code"] not in CODES.values() or not has_been(told["at"], now):
        return None
    return told


def _is_over(
    trouble: Mapping[str, Any],
    pods: Iterable[PodFacts],
    fates: Collection[PodFate],
    history: Collection[Mapping[str, Any]],
    calm: str,
) -> bool:
    served = any(
        crash.ready and "" < crash.running_since <= calm
        for fate in fates
        for crash in fate.crashes
        if (fate.key, crash.container) == (trouble["uid"], trouble["container"])
    )
    crashed = {fate.key for fate in fates if fate.crashes}
    at = trouble["at"]
    followed = any(pod.running and at < pod.created <= calm and pod.key not in crashed for pod in pods)
    return served or followed or has_finished_since(history, at)


def _troubles(fate: PodFate) -> Iterator[dict[str, Any]]:
    for crash in fate.crashes:
        if crash.shortage is not None:
            message = _message(f"container {crash.container} of pod {fate.name}", crash.place, crash.shortage)
            yield {
                "pod": fate.name,
                "uid": fate.key,
                "container": crash.container,
                "at": crash.at,
                "code": CODES[crash.shortage.memory],
                "message": message[:_LONGEST],
            }


def _message(who: str, place: Place, shortage: Shortage) -> str:
    if shortage.memory is Memory.NODE:
        return (
            f"{who} was killed for lack of the node's own memory (OOMKilled), not of a card's: raise the container's "
            "memory limit, or have it keep less in main memory"
        )
    return f"{who} ran out of GPU memory on {card_phrase(place)}: {shortage.said}. {_advice(place, shortage)}"


def _advice(place: Place, shortage: Shortage) -> str:
    less = "have the server need less (a shorter context, fewer requests at a time, a smaller or quantized model)"
    if not place.shares:
        return f"Ask for more or larger GPUs, or {less}"
    share = max(gb for _, gb in place.shares)
    more = share + max(shortage.missing_gb, -(-share // 4))
    return f"Raise {names.VRAM} (to {more}, say), or {less}"
